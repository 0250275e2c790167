"""A process that works on a flow of 60 steps, and is killed again and again: what must be left of it in the record and in what its steps did."""

import asyncio
import json
import multiprocessing
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from handloom.errors import ToolError
from handloom.events import Event, PlanMade, RunEnded, StepEnded, StepStarted
from handloom.flow.engine import Engine, begun
from handloom.flow.flow import Flow
from handloom.flow.workers import GivenWorkers
from handloom.journal.sqlite import SqliteStore
from handloom.runs import Limits, Run
from handloom.state import Question, State
from handloom.tools import ToolContext, tool

STEPS = 60


@dataclass
class Counted:
    """What happened over all points: steps lost, results recorded twice, steps that ran again, and of those how many had not been under way."""

    points: int = 0
    runs: int = 0
    lost: int = 0
    recorded_twice: int = 0
    ran_again: int = 0
    ran_again_without_need: int = 0


def flow() -> Flow:
    """60 steps: a graph with retries, an approval every tenth step, and items."""
    dice = random.Random(60)
    steps: dict[str, Any] = {}
    for at in range(STEPS):
        name = f"s{at}"
        needs = dice.sample([f"s{earlier}" for earlier in range(max(0, at - 8), at)], min(at, dice.randint(0, 2)))
        steps[name] = {"tool": "log", "with": {"name": name, "fail_first": int(at % 7 == 3)}, "needs": needs}
        if at % 7 == 3:
            steps[name]["retry"] = {"max": 20, "backoff": "5ms"}
        if at % 10 == 5:
            steps[name]["approval"] = {"message": f"do {name}?"}
        if at % 15 == 9:
            steps[name] |= {"for_each": [1, 2, 3], "with": {"name": name + "#{{ index }}"}}
    return Flow.of(steps, limits={"max_parallel": 4})


def work(folder: Path) -> None:
    """Begin the flow of a folder, or go on with it, to its end."""
    asyncio.run(_work(folder))


async def _work(folder: Path) -> None:
    @tool(repeatable=True)
    async def log(name: str, context: ToolContext, fail_first: int = 0) -> str:
        """Write down that the step ran."""
        with (folder / "log.txt").open("a") as file:
            file.write(f"{name}\n")
        await asyncio.sleep(0.003)
        if int(context.call_id.removeprefix("call")) <= fail_first:
            raise ToolError("the first attempt fails")
        return f"did {name}"

    async def asker(_: Question) -> str:
        await asyncio.sleep(0.003)
        return "yes"

    store = SqliteStore(folder)
    recent = store.recent(1)
    if recent:
        run = await Run.reopen(recent[0].id, store=store, limits=Limits(turns=None), asker=asker)
    else:
        run = await Run.start("kill", store=store, workspace=folder, limits=Limits(turns=None), asker=asker)
    if not run.state.plans:
        await run.emit(begun(flow().plan, {}))
    await run.complete(Engine(run, GivenWorkers(tools=(log,))).carry_out)
    store.close()


def kill_at_random_moments(folder: Path, *, points: int, seed: int) -> Counted:
    """Kill a process at so many random moments, over as many runs as it takes, and count what went wrong."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__"])
    dice = random.Random(seed)
    counted = Counted()
    while counted.points < points:
        counted.runs += 1
        place = folder / f"run{counted.runs}"
        place.mkdir()
        again: Counter[str] = Counter()
        while counted.points < points:
            process = context.Process(target=work, args=(place,))
            process.start()
            _wait(process, place, dice)
            if not process.is_alive():
                break
            os.kill(process.pid or 0, signal.SIGKILL)
            process.join()
            counted.points += 1
            again += Counter(_under_way(place))
        _finish(context, place)
        _count(place, again, counted)
    return counted


def _wait(process: Any, folder: Path, dice: random.Random) -> None:
    """Until some more steps have run, or it has ended, and a moment longer."""
    wanted = _lines(folder) + dice.randint(0, 12)
    while process.is_alive() and _lines(folder) < wanted:
        time.sleep(0.001)
    time.sleep(dice.uniform(0, 0.01))


def _lines(folder: Path) -> int:
    path = folder / "log.txt"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def _under_way(folder: Path) -> list[str]:
    """The steps that had begun and not ended."""
    state = State()
    for event in _events(folder):
        state.apply(event)
    return [span for span, step in state.steps.items() if step.under_way]


def _finish(context: Any, folder: Path) -> None:
    process = context.Process(target=work, args=(folder,))
    process.start()
    process.join(60)


def _events(folder: Path) -> list[Event]:
    store = SqliteStore(folder)
    recent = store.recent(1)
    events = store.read(recent[0].id) if recent else []
    store.close()
    return events


def _count(folder: Path, again: Counter[str], counted: Counted) -> None:
    events = _events(folder)
    assert sum(isinstance(event, PlanMade) for event in events) == 1
    assert isinstance(events[-1], RunEnded), events[-1]
    assert events[-1].status == "success", events[-1].reason
    ended = Counter(event.span for event in events if isinstance(event, StepEnded))
    attempts = Counter(event.span for event in events if isinstance(event, StepStarted))
    steps = flow().plan.steps
    units = {f"{name}#{at}" for name, step in steps.items() if step.for_each for at in range(3)} | set(steps)
    counted.lost += len(units - set(ended))
    counted.recorded_twice += sum(count - 1 for count in ended.values())
    for name, times in Counter((folder / "log.txt").read_text().split()).items():
        counted.ran_again += max(0, times - attempts[name])
        counted.ran_again_without_need += max(0, times - attempts[name] - again[name])


if __name__ == "__main__":
    sys.stdout.write(
        json.dumps(vars(kill_at_random_moments(Path(sys.argv[1]), points=int(sys.argv[2]), seed=int(sys.argv[3]))))
    )
