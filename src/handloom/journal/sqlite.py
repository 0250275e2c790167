"""A store in one SQLite file: one row an event, one row a run, and a lock file for each open run."""

import asyncio
import fcntl
import os
import sqlite3
import threading
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Literal

import msgspec

from handloom.errors import JournalError, RunLockedError, RunNotFoundError
from handloom.events import Event, decode, encode
from handloom.journal.journal import OF_RUN, Journal, RunSummary, summarise

Durability = Literal["normal", "full"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id TEXT PRIMARY KEY, task TEXT, workspace TEXT, status TEXT, cause TEXT, started REAL, updated REAL, events INTEGER
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS events (run TEXT, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID;
PRAGMA user_version = 1;
"""
_COLUMNS = ("id", "task", "workspace", "status", "cause", "started", "updated", "events")
_VERSION = 1
# How many events a run has, and when it had the last one, stands in the events: the row itself is written where the rest of it changes.
_LAST = "(SELECT {} FROM events WHERE run = runs.id ORDER BY seq DESC LIMIT 1)"
_SUMMARY = f"""
SELECT id, task, workspace, status, cause, started,
    coalesce({_LAST.format("json_extract(CAST(body AS TEXT), '$.at')")}, updated), coalesce({_LAST.format("seq + 1")}, events)
FROM runs
"""  # noqa: S608 - put together of the text of this module alone


class SqliteStore:
    """Runs in `folder/runs.db`, with a folder of files for each in `folder/runs/`.

    `durability = "normal"` survives the end of the process at any moment, but the last commits may be lost with the power; `"full"` waits for the disk
    at each event. Raises: JournalError when the file is no store, is newer than this version, or cannot be written.
    """

    def __init__(self, folder: Path, *, durability: Durability = "normal") -> None:
        self.folder = folder
        self.durability: Durability = durability
        path = folder / "runs.db"
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            self.database = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        except (sqlite3.Error, OSError) as error:
            raise _unopened(path, error) from error
        self.writing = threading.Lock()  # a connection holds one transaction, and must not be closed in one
        with ExitStack() as undo:
            undo.callback(self.close)
            try:
                self._set_up(path)
            except sqlite3.Error as error:
                raise _unopened(path, error) from error
            undo.pop_all()

    def _set_up(self, path: Path) -> None:
        version = self.database.execute("PRAGMA user_version").fetchone()[0]
        if version > _VERSION:
            raise JournalError(
                f"{path} was written by a newer handloom (format {version}, this one knows {_VERSION}); upgrade handloom"
            )
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.execute(f"PRAGMA synchronous = {self.durability.upper()}")
        if version < _VERSION:
            self.database.executescript(_SCHEMA)

    def create(self, run: str) -> Journal:
        if self._summary(run) is not None:
            raise JournalError(f"run {run!r} exists already; open it instead")
        return SqliteJournal(self, RunSummary(id=run))

    def open(self, run: str) -> Journal:
        return SqliteJournal(self, self.summary(run))

    def read(self, run: str, since: int = 0, most: int | None = None) -> list[Event]:
        self.summary(run)
        rows = self.database.execute(
            "SELECT body FROM events WHERE run = ? AND seq >= ? ORDER BY seq LIMIT ?",
            (run, since, -1 if most is None else most),
        )
        try:
            return [decode(body) for (body,) in rows]
        except (msgspec.DecodeError, sqlite3.DatabaseError) as error:
            raise JournalError(f"run {run!r} cannot be read: {error}. Was it written by a newer handloom?") from error

    def summary(self, run: str) -> RunSummary:
        summary = self._summary(run)
        if summary is None:
            raise RunNotFoundError(f"no run {run!r}; `handloom runs list` shows those there are")
        return summary

    def recent(self, limit: int = 20) -> list[RunSummary]:
        rows = self.database.execute(f"{_SUMMARY} ORDER BY started DESC, id DESC LIMIT ?", (limit,))
        return [_summary(row) for row in rows]

    def is_open(self, run: str) -> bool:
        path = self.folder / "runs" / run / "lock"
        if not path.exists():
            return False
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    def close(self) -> None:
        with self.writing:
            self.database.close()

    def _summary(self, run: str) -> RunSummary | None:
        row = self.database.execute(f"{_SUMMARY} WHERE id = ?", (run,)).fetchone()
        return _summary(row) if row else None


class SqliteJournal:
    """The journal of one run, locked for this process."""

    def __init__(self, store: SqliteStore, summary: RunSummary) -> None:
        self.run = summary.id
        self.folder = store.folder / "runs" / summary.id
        self.folder.mkdir(parents=True, exist_ok=True)
        self._store = store
        self._lock = _lock(self.folder / "lock", summary.id)
        # The row may have been read before the lock was held: another process may have written in between.
        self._line = store._summary(summary.id) or summary  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]  # one module, one format

    async def append(self, *events: Event) -> None:
        if self._store.durability == "full":
            await _written(asyncio.get_running_loop().run_in_executor(None, self._append, events))
        else:
            self._append(events)

    def _append(self, events: tuple[Event, ...]) -> None:
        with self._store.writing:
            self._write(events)

    def _write(self, events: tuple[Event, ...]) -> None:
        line = self._line
        for event in events:
            if isinstance(event, OF_RUN) or not line.events:
                line = summarise(line, event)
        database = self._store.database
        try:
            database.execute("BEGIN IMMEDIATE")
            try:
                database.executemany(
                    "INSERT INTO events VALUES (?, ?, ?)", [(self.run, event.seq, encode(event)) for event in events]
                )
                if line is not self._line:
                    row = tuple(getattr(line, name) for name in _COLUMNS)
                    database.execute("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
                database.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # a full disk has rolled back by itself
                    database.execute("ROLLBACK")
                raise
        except sqlite3.Error as error:
            raise JournalError(f"run {self.run!r} cannot be saved: {error}") from error
        self._line = line

    async def aclose(self) -> None:
        self._lock.close()


async def _written(writing: "asyncio.Future[None]") -> None:
    """Wait for a thread that writes; a cancellation meanwhile is let through after it, for a thread cannot be stopped."""
    cancelled: asyncio.CancelledError | None = None
    while not writing.done():
        try:
            await asyncio.wait({writing})
        except asyncio.CancelledError as error:
            cancelled = error
    writing.result()
    if cancelled is not None:
        raise cancelled


def _lock(path: Path, run: str) -> IO[str]:
    """Hold the lock file of a run. The system drops the lock when the process ends, however it ends."""
    file = path.open("a+", encoding="ascii")
    if not _acquired(file):
        file.seek(0)
        owner = file.read().strip() or "unknown"
        file.close()
        raise RunLockedError(
            f"run {run!r} is open in another process (pid {owner}); wait until it ends, or stop that process"
        )
    file.truncate(0)
    file.write(str(os.getpid()))
    file.flush()
    return file


def _acquired(file: IO[str], attempts: int = 4) -> bool:
    """Try more than once, for `is_open` holds a shared lock for an instant."""
    for attempt in range(attempts):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02 * (attempt + 1))
        else:
            return True
    return False


def _summary(row: tuple[object, ...]) -> RunSummary:
    return msgspec.convert(dict(zip(_COLUMNS, row, strict=True)), RunSummary)


def _unopened(path: Path, error: Exception) -> JournalError:
    return JournalError(
        f"cannot open the store of runs {path}: {error}. Move the file away, or set HANDLOOM_HOME to another folder"
    )
