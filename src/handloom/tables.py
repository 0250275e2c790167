"""Tables of plain text, for reports that people read: columns as wide as what they hold, letters of East Asia counted double."""

from collections.abc import Sequence
from unicodedata import east_asian_width


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """The rows as lines; the first one is the heading, and the last column is not filled up."""
    if not rows:
        return []
    last = len(rows[0]) - 1
    widths = [max(width(row[at]) for row in rows) for at in range(last)]
    return ["  ".join([*(padded(row[at], widths[at]) for at in range(last)), row[last]]).rstrip() for row in rows]


def width(text: str) -> int:
    """Columns on a terminal."""
    return sum(2 if east_asian_width(sign) in "WF" else 1 for sign in text)


def padded(text: str, columns: int) -> str:
    return text + " " * (columns - width(text))
