"""What the engine of flows costs: a step that does nothing, graphs of steps at many slots, and going on with a run of 10,000 finished steps.

Everything stands beside a bare SQLite loop that commits a row when a step begins and one when it ends, measured in turns with it. `--peers` installs LangGraph (with its SQLite checkpointer) and
DBOS (on SQLite) into a folder of their own and measures them in the same way. `--kills N` kills a process at N random moments of a flow of 60 steps.

Usage: python bench/flow.py [--steps N] [--rounds N] [--peers] [--kills N]
"""

import argparse
import asyncio
import json
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from table import middle, show

from handloom.events import PlanMade, RunStarted, StepEnded, StepStarted
from handloom.flow.engine import Engine, begun
from handloom.flow.flow import Flow
from handloom.flow.progress import Progress
from handloom.flow.workers import GivenWorkers
from handloom.journal.sqlite import SqliteStore
from handloom.runs import Limits, Run
from handloom.tools import tool

HERE = Path(__file__).parent
SLOTS = 16


@tool(repeatable=True)
async def nothing() -> str:
    """Do nothing."""
    return ""


@tool(repeatable=True)
async def sleep(seconds: float) -> str:
    """Take some time."""
    await asyncio.sleep(seconds)
    return ""


def chain(count: int) -> dict[str, Any]:
    return {f"s{at}": {"tool": "nothing", "needs": [f"s{at - 1}"] if at else []} for at in range(count)}


def fan(count: int) -> dict[str, Any]:
    return {f"s{at}": {"tool": "nothing"} for at in range(count)}


def graph(seed: int, count: int = 60) -> tuple[dict[str, Any], dict[str, float]]:
    """A random graph whose steps take 20 to 80 ms, and the time of each."""
    dice = random.Random(seed)
    times = {f"s{at}": dice.uniform(0.02, 0.08) for at in range(count)}
    names = list(times)
    needs = {
        name: dice.sample(names[max(0, at - 12) : at], min(at, dice.randint(0, 2))) for at, name in enumerate(names)
    }
    return {name: {"tool": "sleep", "with": {"seconds": times[name]}, "needs": needs[name]} for name in names}, times


def critical(steps: dict[str, Any], times: dict[str, float]) -> float:
    """The longest way through the graph, or the work of all slots where that is longer."""
    ends: dict[str, float] = {}
    for name, step in steps.items():
        ends[name] = times[name] + max((ends[other] for other in step["needs"]), default=0.0)
    return max(*ends.values(), sum(times.values()) / SLOTS)


def bare(count: int) -> float:
    """Seconds a step of a loop that commits a row when a step begins and a row when it ends, which is the least that a durable engine has to do."""
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(f"{folder}/bare.db", isolation_level=None)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute("CREATE TABLE steps (run TEXT, seq INTEGER, body BLOB, PRIMARY KEY (run, seq)) WITHOUT ROWID")
        began = b'{"kind":"step.started","run":"r1ngvabjmqfm","seq":13,"at":1796057458.8,"span":"s12"}'
        ended = b'{"kind":"step.ended","status":"success","output":"","run":"r1ngvabjmqfm","seq":13,"at":1796057458.8,"span":"s12"}'
        started = time.perf_counter()
        for seq in range(0, 2 * count, 2):
            for place, body in enumerate((began, ended)):
                database.execute("BEGIN IMMEDIATE")
                database.execute("INSERT INTO steps VALUES (?, ?, ?)", ("r", seq + place, body))
                database.execute("COMMIT")
        spent = time.perf_counter() - started
        database.close()
        return spent / count


async def ours(steps: dict[str, Any], slots: int = 4) -> float:
    """Seconds of a whole run."""
    flow = Flow.of(steps, limits={"max_parallel": slots, "max_steps": 100_000})
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder))
        run = await Run.start("bench", store=store, workspace=Path(folder), limits=Limits(turns=None))
        await run.emit(begun(flow.plan, {}))
        engine = Engine(run, GivenWorkers(tools=(nothing, sleep)), plan=flow.plan)
        started = time.perf_counter()
        result = await run.complete(engine.carry_out)
        spent = time.perf_counter() - started
        assert result.status == "success", result.reason
        store.close()
        return spent


async def resumed(count: int) -> tuple[float, float]:
    """Seconds to open a run of so many finished steps and find what is due; and those of reading and decoding its rows alone."""
    steps = chain(count + 1)
    with tempfile.TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder))
        run = await Run.start("bench", store=store, workspace=Path(folder), limits=Limits(turns=None))
        await run.emit(PlanMade(plan={"steps": steps, "limits": {"max_steps": 100_000}}))
        events: list[StepStarted | StepEnded] = []
        for at in range(count):
            events += [StepStarted(span=f"s{at}"), StepEnded(span=f"s{at}", status="success", output="")]
        await run.emit(*events)
        await run.aclose()
        started = time.perf_counter()
        reopened = await Run.reopen(run.id, store=store)
        progress = Progress.of(reopened.state, 4)
        assert progress.scopes[""].left[f"s{count}"] == 0
        spent = time.perf_counter() - started
        await reopened.aclose()
        started = time.perf_counter()
        assert isinstance(store.read(run.id)[0], RunStarted)
        reading = time.perf_counter() - started
        store.close()
        return spent, reading


def overhead(count: int, rounds: int) -> None:
    rows: list[dict[str, object]] = []
    sizes = {"one after the other": chain(count), "side by side, 16 slots": fan(200)}
    pairs: dict[str, list[tuple[float, float]]] = {name: [] for name in sizes}
    for _ in range(rounds):
        for name, steps in sizes.items():
            pairs[name].append((bare(count), asyncio.run(ours(steps, SLOTS)) / len(steps)))
    for name, found in pairs.items():
        rows.append(
            {
                "steps": name,
                # The best of each: what other programs of the machine take away says nothing about either.
                "bare ms/step": min(base for base, _ in found) * 1e3,
                "handloom ms/step": min(own for _, own in found) * 1e3,
                "ratio": min(own for _, own in found) / min(base for base, _ in found),
            }
        )
    show("Flow: a step that does nothing (target: 3 times the bare journal)", rows)


def makespan(seeds: int) -> None:
    ratios: list[float] = []
    for seed in range(seeds):
        steps, times = graph(seed)
        ratios.append(asyncio.run(ours(steps, SLOTS)) / critical(steps, times))
    show(
        "Flow: time of a random graph of 60 steps at 16 slots over its critical path (target: 1.10)",
        [{"graphs": seeds, "middle": middle(ratios), "worst": max(ratios)}],
    )


def resume(count: int, rounds: int) -> None:
    found = [asyncio.run(resumed(count)) for _ in range(rounds)]
    show(
        "Flow: going on with a run of finished steps (target: 0.25 s for 10,000)",
        [
            {
                "finished steps": count,
                "seconds": middle([own for own, _ in found]),
                "of that reading": middle([base for _, base in found]),
            }
        ],
    )


def peers(count: int, rounds: int) -> None:
    """The same measures of other engines, each in an environment of its own."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "env", "bin", "python")
        subprocess.run(["uv", "venv", "--quiet", str(python.parents[1])], check=True)
        wanted = ["langgraph", "langgraph-checkpoint-sqlite", "dbos"]
        subprocess.run(["uv", "pip", "install", "--quiet", "--python", str(python), *wanted], check=True)
        rows: list[dict[str, object]] = []
        for name in ("langgraph", "dbos"):
            found: list[tuple[float, dict[str, float]]] = []
            for _ in range(rounds):
                base = bare(count)
                ran = subprocess.run(
                    [str(python), str(HERE / "flow_peers.py"), name, str(count)],
                    check=False,
                    capture_output=True,
                    text=True,
                    cwd=folder,
                )
                if ran.returncode:
                    print(f"{name} could not be measured: {ran.stderr.strip().splitlines()[-1:]}")
                    break
                found.append((base, json.loads(ran.stdout.splitlines()[-1])))
            if found:
                rows.append(
                    {
                        "engine": name,
                        "ms/step": middle([peer["step"] for _, peer in found]) * 1e3,
                        "times the bare journal": middle([peer["step"] / base for base, peer in found]),
                        "time over critical path": middle([peer["makespan"] for _, peer in found]),
                    }
                )
        if rows:
            show("Flow: the same of other engines", rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--peers", action="store_true")
    parser.add_argument("--kills", type=int, default=0)
    chosen = parser.parse_args()
    overhead(chosen.steps, chosen.rounds)
    makespan(max(3, chosen.rounds))
    resume(10_000, chosen.rounds)
    if chosen.peers:
        peers(chosen.steps, min(3, chosen.rounds))
    if chosen.kills:
        kills = HERE.parent / "tests" / "flow" / "kills.py"
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                [sys.executable, str(kills), folder, str(chosen.kills), "20261130"],
                capture_output=True,
                text=True,
                check=True,
            )
            show("Flow: a process killed at random moments of a flow of 60 steps", [json.loads(ran.stdout)])


if __name__ == "__main__":
    main()
