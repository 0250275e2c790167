"""StateSource: something outside the conversation that an agent sees anew each turn (a browser, a working directory, a plan)."""

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from handloom.messages import ImagePart
from handloom.runs import Run

MOST_NAMES = 20
_NOISE = {"__pycache__", "node_modules", "venv"}


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How a source looks now: values for placeholders, and images for models that take them."""

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    images: tuple[ImagePart, ...] = ()


class WorkspaceFiles:
    """The names of the files in the workspace, so that a model need not guess them: two levels, without hidden ones, at most `MOST_NAMES`."""

    next_step = ""

    def in_use(self, run: Run) -> bool:  # noqa: ARG002 - always
        return True

    async def snapshot(self, run: Run) -> Snapshot:
        names = await asyncio.to_thread(_names, run.workspace)
        shown = ", ".join(names[:MOST_NAMES]) or "none"
        return Snapshot(values={"files": f"{shown} and more" if len(names) > MOST_NAMES else shown})


def _names(folder: Path, *, depth: int = 2) -> list[str]:
    """Names relative to the folder, sorted, folders with a slash; one more than is shown at most."""
    try:
        entries = sorted(
            (entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.name not in _NOISE),
            key=lambda entry: entry.name,
        )
    except OSError:
        return []
    names: list[str] = []
    for entry in entries:
        if len(names) > MOST_NAMES:
            break
        if not entry.is_dir(follow_symlinks=False):
            names.append(entry.name)
            continue
        inside = [f"{entry.name}/{name}" for name in _names(Path(entry.path), depth=depth - 1)] if depth > 1 else []
        names += inside or [f"{entry.name}/"]
    return names


class StateSource(Protocol):
    """Read before each request, while it is in use."""

    @property
    def next_step(self) -> str:
        """The next-step prompt to show instead of the agent's own while this source is in use; empty to keep the agent's."""
        ...

    def in_use(self, run: Run) -> bool: ...

    async def snapshot(self, run: Run) -> Snapshot: ...
