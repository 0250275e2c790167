"""Journal: the durable events of one run; Store: the journals of many."""

import secrets
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from handloom.events import Event, RunEnded, RunResumed, RunStarted, RunStatus, RunSuspended

OF_RUN = (
    RunStarted,
    RunResumed,
    RunSuspended,
    RunEnded,
)  # what changes the line about a run, but for its time and its length


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """One line about a run. Times are Unix seconds."""

    id: str
    task: str = ""
    workspace: str = ""
    status: RunStatus = "running"
    cause: str = ""
    started: float = 0.0
    updated: float = 0.0
    events: int = 0


class Journal(Protocol):
    """One run, open for writing by this process alone."""

    @property
    def run(self) -> str: ...

    @property
    def folder(self) -> Path:
        """A folder for files that belong to the run; it exists."""
        ...

    async def append(self, *events: Event) -> None:
        """Save events, all or none; when this returns they survive the end of the process.

        Who is cancelled meanwhile waits until they are saved, so that nobody has to ask whether they are. Raises: JournalError.
        """
        ...

    async def aclose(self) -> None:
        """Let another process open the run."""
        ...


class Store(Protocol):
    """The journals of many runs."""

    def create(self, run: str) -> Journal:
        """A journal for a new run. Raises: JournalError when the id is taken."""
        ...

    def open(self, run: str) -> Journal:
        """The journal of a known run. Raises: RunNotFoundError, RunLockedError."""
        ...

    def read(self, run: str, since: int = 0, most: int | None = None) -> list[Event]:
        """The events of a run from `seq` on, `most` of them, also while another process writes it. Raises: RunNotFoundError."""
        ...

    def summary(self, run: str) -> RunSummary:
        """The line about one run. Raises: RunNotFoundError."""
        ...

    def recent(self, limit: int = 20) -> list[RunSummary]:
        """The newest runs first."""
        ...

    def is_open(self, run: str) -> bool:
        """Whether a live process has the run open."""
        ...

    def close(self) -> None: ...


def new_run_id() -> str:
    """An id that sorts by time and can be typed: `r` and 11 characters of base 32."""
    number = (int(time.time()) << 20) | secrets.randbits(20)
    digits = "0123456789abcdefghjkmnpqrstvwxyz"
    return "r" + "".join(digits[number >> shift & 31] for shift in range(50, -1, -5))


def summarise(summary: RunSummary, event: Event) -> RunSummary:
    """The line about a run after one more event."""
    summary = replace(summary, updated=event.at, events=event.seq + 1)
    match event:
        case RunStarted(task=task, workspace=workspace):
            return replace(summary, task=task, workspace=workspace, started=event.at)
        case RunSuspended(cause=cause):
            return replace(summary, status="suspended", cause=cause)
        case RunResumed():
            return replace(summary, status="running", cause="")
        case RunEnded(status=status):
            return replace(summary, status=status, cause="")
        case _:
            return summary
