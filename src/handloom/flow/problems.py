"""Problem: one mistake in a flow, with its place, in words that say what to do."""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Path = tuple[str | int, ...]


@dataclass(frozen=True)
class Problem:
    """`path` leads into the plan, `line` and `column` (from 1) into the file `source`, where there is one."""

    path: Path
    text: str
    line: int = 0
    column: int = 0
    source: str = ""

    def __str__(self) -> str:
        place = f"{self.source or 'line'}{':' if self.source else ' '}{self.line}:{self.column}: " if self.line else ""
        where = dotted(self.path)
        return f"{place}{where}{': ' if where else ''}{self.text}"


def dotted(path: Path) -> str:
    """`("steps", "a", "needs", 0)` as `steps.a.needs[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).removeprefix(".")


def meant(word: str, known: Iterable[str], *, shown: int = 8) -> str:
    """What a wrong word may have meant, as the end of a sentence."""
    names = list(known)
    near = nearest(word, names)
    if near:
        return f"did you mean {near!r}?"
    return f"there are: {listed(names, shown)}" if names else "there are none"


def nearest(word: str, names: Sequence[str]) -> str:
    """The name that is most like the word; empty when none is."""
    by_lower = {name.lower(): name for name in reversed(names)}
    found = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""


def listed(names: Sequence[str], shown: int = 8) -> str:
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more
