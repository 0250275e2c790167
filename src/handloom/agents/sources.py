"""StateSource: something outside the conversation that an agent sees anew each turn (a browser, a working directory, a plan)."""

import asyncio
import codecs
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

from handloom.agents.reading import beginning
from handloom.messages import ImagePart, ToolSpec
from handloom.noise import NOISE
from handloom.runs import Run
from handloom.tools.results import clean

MOST_NAMES = 20
MOST_SHOWN, SHOWN_LINES, SHOWN_BYTES = 3, 12, 600  # files of which the beginning is shown, and how much of each
_FILE = re.compile(
    r"(?<![\w./:@-])(?:\w[\w-]*/)*\w[\w.-]*\.(?:txt|md|csv|tsv|json|jsonl|py|sh|html|xml|ya?ml|toml|ini|cfg|log|sql|png|jpe?g|svg|pdf|xlsx|docx)(?![\w/-])"
)


Narrow = Callable[[ToolSpec], ToolSpec | None]


def as_it_is(spec: ToolSpec) -> ToolSpec | None:
    """The `Narrow` of a source that has nothing to say of tools."""
    return spec


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How a source looks now: values for placeholders, images for models that take them, and tools as they can be called now.

    `narrow` gives the tool with variants that fit what there is, or None for one that is of no use now.
    """

    values: Mapping[str, str] = field(default_factory=dict[str, str])
    images: tuple[ImagePart, ...] = ()
    narrow: Narrow = as_it_is


class WorkspaceFiles:
    """The files in the workspace, so that a model need not guess: their names (two levels, hidden ones left out), and how those begin that the task names."""

    next_step = ""

    def in_use(self, run: Run) -> bool:  # noqa: ARG002 - always
        return True

    async def snapshot(self, run: Run) -> Snapshot:
        task = run.memory.task
        return Snapshot(values={"files": await asyncio.to_thread(_listing, run.workspace, task.text if task else "")})


def _listing(folder: Path, task: str) -> str:
    names = _names(folder)
    shown = ", ".join(map(_line, names[:MOST_NAMES])) or "none"
    beginnings = filter(None, (_beginning(folder, name) for name in names if _is_named(name, task)))
    return "".join([shown, " and more" if len(names) > MOST_NAMES else "", *islice(beginnings, MOST_SHOWN)])


def _is_named(name: str, task: str) -> bool:
    """Whether the task names the file, with or without its folder, and not as a part of another word."""
    last = name.rpartition("/")[2]
    return any(
        re.search(rf"(?<![A-Za-z0-9_.-]){re.escape(word)}(?![A-Za-z0-9_-])", task) for word in (name, last) if word
    )


def not_there(folder: Path, task: str) -> list[str]:
    """The files that a task names and the folder does not hold, wherever in it: what was to be written, mostly."""
    names = _names(folder)
    return [
        name
        for name in dict.fromkeys(_FILE.findall(task))
        # A name may have blanks, and in Chinese no blank before it.
        if not (folder / name).exists()
        and not any(other.endswith(name) or name.endswith(other.rpartition("/")[2]) for other in names)
    ]


def _line(name: str) -> str:
    """A name as a prompt can hold it: a file system takes any bytes, line breaks too."""
    return clean(name).replace("\n", " ")


def _beginning(folder: Path, name: str) -> str:
    """The first lines of a text file under its name; nothing for folders, other kinds of files and what is no UTF-8."""
    data = beginning(folder / name, SHOWN_BYTES + 1, within=folder)
    if data is None:
        return ""
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(data[:SHOWN_BYTES])
    except UnicodeDecodeError:
        return ""
    lines = text.splitlines()
    more = "\n..." if len(lines) > SHOWN_LINES or len(data) > SHOWN_BYTES else ""
    if not lines or "\0" in text:
        return ""
    shown, name = "\n".join(lines[:SHOWN_LINES]) + more, _line(name)
    # A program is shown as the cell that would write it, for that is the form in which a model writes it back corrected.
    return f"\n```python\n%%writefile {name}\n{shown}\n```" if name.endswith(".py") else f"\n{name}:\n{shown}"


def _names(folder: Path, *, depth: int = 2) -> list[str]:
    """Names relative to the folder, sorted, folders with a slash; one more than is shown at most."""
    try:
        entries = sorted(
            (entry for entry in os.scandir(folder) if not entry.name.startswith(".") and entry.name not in NOISE),
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
