"""What the sandbox costs, beside a bare subprocess and no sandbox in the same run: a builtin in bash, a trivial Python call, starts; `python bench/sandbox.py`."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from table import middle, show

from handloom.sandbox import SandboxSettings, open_sandbox
from handloom.testing.tools import FakeContext
from handloom.toolbox.bash import Shell, bash
from handloom.toolbox.python import PythonWorker, python_execute

CALLS = 300
STARTS = 15
TARGETS = {"bash: true": 2.0, "python: 1 + 1": 2.0, "start of the sandbox and bash": 100.0}


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def calls(workspace: Path, kind: str) -> dict[str, list[float]]:
    async with FakeContext(workspace, sandbox=kind) as context:
        shell = lambda: bash.run({"command": "true"}, context)  # noqa: E731
        python = lambda: python_execute.run({"code": "1 + 1"}, context)  # noqa: E731
        await shell()
        await python()
        return {
            "bash: true": [await timed(shell) for _ in range(CALLS)],
            "python: 1 + 1": [await timed(python) for _ in range(CALLS)],
        }


async def starts(workspace: Path, kind: str) -> dict[str, list[float]]:
    took: dict[str, list[float]] = {"start of the sandbox and bash": [], "start of Python in it": []}
    for _ in range(STARTS):
        began = time.perf_counter()
        sandbox = await open_sandbox(workspace, SandboxSettings(kind=kind))
        shell = await Shell.start(sandbox)
        took["start of the sandbox and bash"].append((time.perf_counter() - began) * 1000)
        began = time.perf_counter()
        worker = await PythonWorker.start(sandbox)
        took["start of Python in it"].append((time.perf_counter() - began) * 1000)
        await worker.aclose()
        await shell.aclose()
        await sandbox.aclose()
    return took


def bare() -> dict[str, list[float]]:
    """The same, each as a new process without anything around it."""

    def run(*words: str) -> float:
        began = time.perf_counter()
        subprocess.run(words, check=True, capture_output=True, stdin=subprocess.DEVNULL)
        return (time.perf_counter() - began) * 1000

    return {
        "bash: true": [run("bash", "-c", "true") for _ in range(50)],
        "python: 1 + 1": [run(sys.executable, "-c", "1 + 1") for _ in range(STARTS)],
        "start of the sandbox and bash": [run("bash", "-c", "true") for _ in range(STARTS)],
        "start of Python in it": [run(sys.executable, "-c", "1 + 1") for _ in range(STARTS)],
    }


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        workspace = Path(folder)
        inside = await calls(workspace, "auto") | await starts(workspace, "auto")
        off = await calls(workspace, "off") | await starts(workspace, "off")
    alone = bare()
    rows = [
        {
            "what": what,
            "sandbox ms": middle(inside[what]),
            "off ms": middle(off[what]),
            "new process ms": middle(alone[what]),
            "target ms": TARGETS.get(what, ""),
        }
        for what in inside
    ]
    show("sandbox: medians", rows)


if __name__ == "__main__":
    asyncio.run(main())
