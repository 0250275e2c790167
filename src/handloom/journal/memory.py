"""A store that lives as long as the process."""

import shutil
import tempfile
import weakref
from pathlib import Path

from handloom.errors import JournalError, RunLockedError, RunNotFoundError
from handloom.events import Event, decode, encode
from handloom.journal.journal import Journal, RunSummary, summarise


class MemoryJournal:
    """The journal of one run in a list, of events as a file would give them back: what cannot be saved fails here too."""

    def __init__(self, store: "MemoryStore", run: str) -> None:
        self.run = run
        self._store = store

    @property
    def folder(self) -> Path:
        return self._store.folder(self.run)

    async def append(self, *events: Event) -> None:
        self._store.runs[self.run] += [decode(encode(event)) for event in events]

    async def aclose(self) -> None:
        self._store.opened.discard(self.run)


class MemoryStore:
    """Runs in memory: for tests, and for runs that need not outlive the process."""

    def __init__(self) -> None:
        self.runs: dict[str, list[Event]] = {}
        self.opened: set[str] = set()
        self._folder: Path | None = None

    def create(self, run: str) -> Journal:
        if run in self.runs:
            raise JournalError(f"run {run!r} exists already; open it instead")
        self.runs[run] = []
        return self.open(run)

    def open(self, run: str) -> Journal:
        self._known(run)
        if run in self.opened:
            raise RunLockedError(f"run {run!r} is open already in this process")
        self.opened.add(run)
        return MemoryJournal(self, run)

    def read(self, run: str, since: int = 0, most: int | None = None) -> list[Event]:
        return self._known(run)[since : None if most is None else since + most]

    def summary(self, run: str) -> RunSummary:
        summary = RunSummary(id=run)
        for event in self._known(run):
            summary = summarise(summary, event)
        return summary

    def recent(self, limit: int = 20) -> list[RunSummary]:
        newest = list(reversed(self.runs))[:limit]
        return [self.summary(run) for run in newest]

    def is_open(self, run: str) -> bool:
        return run in self.opened

    def folder(self, run: str) -> Path:
        """A temporary folder, made at its first use."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="handloom-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        path = self._folder / run
        path.mkdir(exist_ok=True)
        return path

    def close(self) -> None:
        pass

    def _known(self, run: str) -> list[Event]:
        if run not in self.runs:
            raise RunNotFoundError(f"no run {run!r} in this store")
        return self.runs[run]
