"""Links under protected names: nothing can be laid over a link, so one that was replaced is put back at the end, and what took its place is put aside."""

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from handloom.sandbox.aside import put_aside


def noted(paths: Iterable[Path]) -> dict[Path, str]:
    """Where those lead that are links."""
    return {path: os.readlink(path) for path in paths if path.is_symlink()}  # noqa: PTH115 - as it is written


def restored(known: Mapping[Path, str]) -> list[str]:
    """The names of links that were put back."""
    done: list[str] = []
    for path, target in known.items():
        if noted([path]) == {path: target}:
            continue
        with contextlib.suppress(OSError):
            if os.path.lexists(path):
                put_aside(path)
            path.symlink_to(target)
            done.append(path.name)
    return done
