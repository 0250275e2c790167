"""Putting aside: what programs left under a name that others obey is kept beside it, under a name that nothing obeys."""

import os
from pathlib import Path

SUFFIX = ".unsafe"


def put_aside(path: Path) -> Path:
    """Where it is now. Nothing that was put aside before is written over. Raises: OSError."""
    aside = path.with_name(path.name + SUFFIX)
    count = 1
    while os.path.lexists(aside):
        count += 1
        aside = path.with_name(f"{path.name}{SUFFIX}-{count}")
    path.rename(aside)
    return aside
