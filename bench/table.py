"""Printing what was measured: a table for people, then one line of JSON for programs."""

import json
from collections.abc import Mapping, Sequence
from statistics import median


def show(title: str, rows: Sequence[Mapping[str, object]]) -> None:
    """Print rows of the same keys as a table, then as JSON."""
    keys = list(rows[0])
    cells = [[_cell(row[key]) for key in keys] for row in rows]
    widths = [max(len(key), *(len(row[place]) for row in cells)) for place, key in enumerate(keys)]
    print(f"\n{title}")
    print("  ".join(key.ljust(width) for key, width in zip(keys, widths, strict=True)))
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)))
    print(json.dumps({"title": title, "rows": rows}, ensure_ascii=False))


def middle(values: Sequence[float]) -> float:
    return median(values)


def _cell(value: object) -> str:
    return (
        f"{value:,.3f}"
        if isinstance(value, float)
        else f"{value:,}"
        if isinstance(value, int) and not isinstance(value, bool)
        else str(value)
    )
