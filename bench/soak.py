"""Mixed calls for a long time, watched from outside: memory, descriptors and processes must stay flat; `python bench/soak.py --minutes 30`, `--calls 5000`, or both, evenly spread."""

import argparse
import asyncio
import random
import tempfile
import time
from pathlib import Path

import psutil
from table import show

from handloom.testing.tools import FakeContext
from handloom.toolbox.bash import bash
from handloom.toolbox.python import python_execute

WARM = 20
# Each with its weight: mostly ordinary calls, now and then something that hurts.
SHELL = {
    "echo $((n += 1)); pwd": 20,
    "ls -la / | head -5": 5,
    "seq 5000": 3,
    "sleep 0.01 & echo started": 4,
    "(exit 3)": 3,
    "for i in $(seq 20); do (true &); done": 2,
    "head -c 300000 /dev/urandom | base64": 2,
    "exit 1": 1,
    'echo "unfinished': 1,
}
PYTHON = {
    "n = globals().get('n', 0) + 1": 20,
    "print('x' * 1000)": 5,
    "1 / 0": 3,
    "import subprocess; subprocess.run(['true'])": 3,
    "x = bytearray(10_000_000); del x": 2,
    "import os; os._exit(1)": 1,
}
SLOW = {"while :; do :; done": 1, "sleep 100": 1}


async def one(context: FakeContext, dice: random.Random) -> None:
    kind = dice.random()
    if kind < 0.02:
        await bash.run({"command": dice.choice(list(SLOW)), "timeout": 0.2}, context)
    elif kind < 0.04:
        await python_execute.run({"code": "while True: pass", "timeout": 0.2}, context)
    elif kind < 0.6:
        await bash.run({"command": dice.choices(list(SHELL), list(SHELL.values()))[0], "timeout": 20}, context)
    else:
        await python_execute.run({"code": dice.choices(list(PYTHON), list(PYTHON.values()))[0], "timeout": 20}, context)


def state(calls: int, seconds: float) -> dict[str, object]:
    own = psutil.Process()
    living = [one for one in own.children(recursive=True) if one.status() != psutil.STATUS_ZOMBIE]
    return {
        "calls": calls,
        "seconds": round(seconds, 1),
        "rss MB": round(own.memory_info().rss / 1e6, 1),
        "descriptors": own.num_fds(),
        "processes": len(living),
        "threads": own.num_threads(),
    }


async def soak(
    *, calls: int = 0, minutes: float = 0.0, rounds: int = 5, seed: int = 20261130
) -> list[dict[str, object]]:
    """The state after the first calls, then `rounds` times on the way; before each look the shell and Python are brought back to life."""
    dice, rows, done, began = random.Random(seed), [], 0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        async with FakeContext(Path(folder)) as context:

            async def look() -> None:
                await bash.run({"restart": True}, context)
                await python_execute.run({"code": "1"}, context)
                rows.append(state(done, time.monotonic() - began))

            for _ in range(WARM):
                await one(context, dice)
            await look()
            for step in range(1, rounds + 1):
                while done < calls * step / rounds or (
                    not calls and time.monotonic() - began < minutes * 60 * step / rounds
                ):
                    await one(context, dice)
                    done += 1
                    if calls and minutes:  # so many calls in so many minutes
                        await asyncio.sleep(max(0.0, began + done * minutes * 60 / calls - time.monotonic()))
                await look()
    rows.append(state(done, time.monotonic() - began) | {"calls": "closed"})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=0.0)
    parser.add_argument("--calls", type=int, default=0)
    wanted = parser.parse_args()
    rows = asyncio.run(soak(calls=wanted.calls or (0 if wanted.minutes else 500), minutes=wanted.minutes))
    show("soak: mixed calls in one sandbox", rows)


if __name__ == "__main__":
    main()
