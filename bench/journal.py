"""What a durable event costs beside a bare SQLite loop that inserts rows of the same size in one transaction each.

Usage: python bench/journal.py [events] [rounds]
"""

import asyncio
import sqlite3
import sys
import tempfile
import time
from pathlib import Path

from table import middle, show

from handloom.events import ToolReturned, encode
from handloom.journal.sqlite import Durability, SqliteStore
from handloom.messages import ToolCall, ToolResult
from handloom.runs import Run

EVENT = ToolReturned(
    call=ToolCall(id="call00001", name="tick", arguments={"n": 1}),
    result=ToolResult(text="a result of some words " * 10),
    seconds=0.1,
)


def bare(count: int, durability: Durability) -> float:
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute(f"PRAGMA synchronous = {durability.upper()}")
        database.execute("CREATE TABLE events (run TEXT, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID")
        body = encode(EVENT)
        started = time.perf_counter()
        for seq in range(count):
            database.execute("BEGIN IMMEDIATE")
            database.execute("INSERT INTO events VALUES (?, ?, ?)", ("r", seq, body))
            database.execute("COMMIT")
        spent = time.perf_counter() - started
        database.close()
        return spent / count * 1e6


async def ours(count: int, durability: Durability) -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder), durability=durability)
        run = await Run.start("t", store=store, workspace=Path(folder))
        started = time.perf_counter()
        for _ in range(count):
            await run.emit(EVENT)
        spent = time.perf_counter() - started
        await run.aclose()
        store.close()
        return spent / count * 1e6


def measure(count: int, rounds: int) -> None:
    rows: list[dict[str, object]] = []
    for durability in ("normal", "full"):
        size = count if durability == "normal" else max(50, count // 20)
        pairs = [(bare(size, durability), asyncio.run(ours(size, durability))) for _ in range(rounds)]
        base, own = (middle([pair[side] for pair in pairs]) for side in (0, 1))
        rows.append(
            {
                "durability": durability,
                "bare us/event": base,
                "handloom us/event": own,
                "ratio": middle([b / a for a, b in pairs]),
            }
        )
    show("Journal: one durable event (stamp, save, fold, publish)", rows)


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
