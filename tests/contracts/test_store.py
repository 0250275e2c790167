"""One suite for every store of runs."""

import asyncio
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import msgspec
import pytest

from handloom.errors import JournalError, RunLockedError, RunNotFoundError
from handloom.events import Event, RunEnded, RunStarted, RunSuspended, TurnStarted
from handloom.journal import Journal, MemoryStore, Store, new_run_id
from handloom.journal.sqlite import SqliteStore

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["memory", "sqlite", "sqlite-full"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    makers: dict[str, Callable[[], Store]] = {
        "memory": MemoryStore,
        "sqlite": lambda: SqliteStore(tmp_path),
        "sqlite-full": lambda: SqliteStore(tmp_path, durability="full"),
    }
    store = makers[request.param]()
    yield store
    store.close()


@pytest.fixture
def sqlite(tmp_path: Path) -> Iterator[Callable[[], SqliteStore]]:
    """Makes stores in a folder, and closes them at the end."""
    with ExitStack() as opened:
        yield lambda: opened.enter_context(closing(SqliteStore(tmp_path)))


def events(*made: Event, run: str = "r1", at: float = 10.0) -> list[Event]:
    return [msgspec.structs.replace(event, run=run, seq=seq, at=at + seq) for seq, event in enumerate(made)]


STORY = (RunStarted(task="算一算 🧮", workspace="/w"), TurnStarted(turn=1), RunEnded(status="success", answer="42"))


async def test_what_was_appended_is_read_back_in_order(store: Store) -> None:
    journal = store.create("r1")
    written = events(*STORY)
    await journal.append(written[0])
    await journal.append(*written[1:])
    assert store.read("r1") == written
    assert store.read("r1", since=2) == written[2:]
    assert store.read("r1", since=1, most=1) == written[1:2]
    assert store.summary("r1") == store.recent()[0]
    await journal.aclose()


async def test_a_run_is_open_once_and_can_be_opened_again_when_it_is_closed(store: Store) -> None:
    journal = store.create("r1")
    await journal.append(*events(*STORY[:1]))
    assert store.is_open("r1")
    with pytest.raises(RunLockedError):
        store.open("r1")
    await journal.aclose()
    assert not store.is_open("r1")
    again = store.open("r1")
    await again.append(msgspec.structs.replace(STORY[1], run="r1", seq=1, at=11.0))
    assert len(store.read("r1")) == 2
    await again.aclose()


async def test_an_unknown_run_is_said_to_be_unknown(store: Store) -> None:
    for look in (store.open, store.read, store.summary):
        with pytest.raises(RunNotFoundError):
            look("nothing")
    assert not store.is_open("nothing")


async def test_an_id_is_taken_once(store: Store) -> None:
    journal = store.create("r1")
    await journal.append(*events(*STORY))
    await journal.aclose()
    with pytest.raises(JournalError):
        store.create("r1")


async def test_the_newest_runs_come_first_with_how_they_stand(store: Store) -> None:
    for number in range(3):
        journal = store.create(f"r{number}")
        ends: Event = RunEnded(status="failed") if number == 1 else RunSuspended(cause="limit", reason="")
        await journal.append(
            *events(RunStarted(task=f"task {number}", workspace="/w"), ends, run=f"r{number}", at=number * 100.0)
        )
        await journal.aclose()
    recent = store.recent(2)
    assert [(run.id, run.task, run.status, run.cause) for run in recent] == [
        ("r2", "task 2", "suspended", "limit"),
        ("r1", "task 1", "failed", ""),
    ]
    assert (recent[0].started, recent[0].updated, recent[0].events, recent[0].workspace) == (200.0, 201.0, 2, "/w")


async def test_a_run_has_a_folder_for_its_files(store: Store) -> None:
    journal = store.create("r1")
    (journal.folder / "文件.txt").write_text("x", encoding="utf-8")
    assert (journal.folder / "文件.txt").is_file()
    await journal.aclose()


def test_ids_sort_by_time_and_do_not_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000
    monkeypatch.setattr("time.time", lambda: now)
    earlier = {new_run_id() for _ in range(100)}
    monkeypatch.setattr("time.time", lambda: now + 1)
    assert len(earlier) == 100
    assert max(earlier) < new_run_id()


HOLDER = textwrap.dedent("""
    import asyncio, sys, time
    from pathlib import Path
    from handloom.events import RunStarted
    from handloom.journal.sqlite import SqliteStore

    async def main():
        journal = SqliteStore(Path(sys.argv[1])).create("r1")
        await journal.append(RunStarted(task="t", run="r1", seq=0, at=1.0))
        print("ready", flush=True)
        time.sleep(60)

    asyncio.run(main())
""")


async def test_a_second_process_is_refused_and_the_lock_of_a_dead_one_does_not_block(
    sqlite: Callable[[], SqliteStore], tmp_path: Path
) -> None:
    with subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True) as holder:  # noqa: ASYNC220
        assert holder.stdout is not None
        assert holder.stdout.readline() == "ready\n"
        store = sqlite()
        assert store.is_open("r1")
        with pytest.raises(RunLockedError, match=f"pid {holder.pid}"):
            store.open("r1")
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    assert not store.is_open("r1")
    journal = store.open("r1")
    assert [event.task for event in store.read("r1") if isinstance(event, RunStarted)] == ["t"]
    await journal.aclose()


async def test_a_batch_that_cannot_be_saved_leaves_nothing(sqlite: Callable[[], SqliteStore]) -> None:
    store = sqlite()
    journal = store.create("r1")
    await journal.append(*events(*STORY[:1]))
    again = events(*STORY)
    with pytest.raises(JournalError, match="cannot be saved"):
        await journal.append(again[1], again[0])
    assert len(store.read("r1")) == 1
    await journal.aclose()


def test_a_file_that_is_no_store_is_refused_with_advice(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_bytes(b"not a database, " * 100)
    with pytest.raises(JournalError, match="HANDLOOM_HOME"):
        SqliteStore(tmp_path)


def test_a_store_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    SqliteStore(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "runs.db", isolation_level=None)) as database:
        database.execute("PRAGMA user_version = 99")
    with pytest.raises(JournalError, match="newer handloom"):
        SqliteStore(tmp_path)


async def test_an_event_of_a_newer_version_is_said_to_be_unreadable(sqlite: Callable[[], SqliteStore]) -> None:
    store = sqlite()
    journal = store.create("r1")
    await journal.append(*events(*STORY[:1]))
    store.database.execute("INSERT INTO events VALUES ('r1', 1, ?)", (b'{"kind": "of.tomorrow"}',))
    with pytest.raises(JournalError, match="cannot be read"):
        store.read("r1")
    await journal.aclose()


async def test_what_cannot_be_saved_is_refused_by_every_store(store: Store) -> None:
    journal = store.create("r1")
    half = events(RunStarted(task="t", workspace="/w"), RunStarted(task="half a pair: \ud83d", workspace="/w"))
    with pytest.raises(UnicodeEncodeError):
        await journal.append(*half)
    await journal.append(*events(*STORY))
    assert store.read("r1") == events(*STORY)
    await journal.aclose()


async def test_runs_of_one_store_are_saved_side_by_side(store: Store) -> None:
    journals = [store.create(f"r{number}") for number in range(4)]

    async def save(journal: Journal) -> None:
        for event in events(*[TurnStarted(turn=turn) for turn in range(20)], run=journal.run):
            await journal.append(event)

    await asyncio.gather(*map(save, journals))
    for journal in journals:
        assert [event.seq for event in store.read(journal.run)] == list(range(20))
        await journal.aclose()


@contextmanager
def busy(folder: Path) -> Iterator[sqlite3.Connection]:
    """Another program that is writing to the store, so that whoever wants to has to wait."""
    other = sqlite3.connect(folder / "runs.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    yield other
    other.close()


async def test_who_is_cancelled_while_events_are_saved_waits_until_they_are(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path, durability="full")
    journal = store.create("r1")
    with busy(tmp_path) as other:
        saving = asyncio.create_task(journal.append(*events(*STORY)))
        for _ in range(3):
            await asyncio.sleep(0.02)
            saving.cancel()
        await asyncio.sleep(0.02)
        assert not saving.done()
        other.execute("ROLLBACK")
        with pytest.raises(asyncio.CancelledError):
            await saving
    assert store.read("r1") == events(*STORY)
    await journal.aclose()
    store.close()


async def test_a_store_is_closed_when_what_is_being_saved_is_there(
    sqlite: Callable[[], SqliteStore], tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path, durability="full")
    journal = store.create("r1")
    with busy(tmp_path) as other:
        saving = asyncio.create_task(journal.append(*events(*STORY)))
        await asyncio.sleep(0.1)
        threading.Timer(0.2, other.execute, ["ROLLBACK"]).start()
        store.close()
        await saving
    assert sqlite().read("r1") == events(*STORY)
    await journal.aclose()


async def test_a_full_disk_is_said_to_be_full(sqlite: Callable[[], SqliteStore]) -> None:
    store = sqlite()
    journal = store.create("r1")
    pages = store.database.execute("PRAGMA page_count").fetchone()[0]
    store.database.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(JournalError, match="full"):
        await journal.append(*events(RunStarted(task="x" * 100_000, workspace="/w")))
    await journal.append(*events(*STORY[:1]))
    assert store.read("r1") == events(*STORY[:1])
    await journal.aclose()
