"""Running one program in a sandbox and reading all it prints."""

# ruff: noqa: ASYNC110 - tests look at files, and other processes set no event

import asyncio
import os
from pathlib import Path

import psutil

from handloom.sandbox import Sandbox
from handloom.sandbox.sandbox import Stdio


async def ran(sandbox: Sandbox, script: str, *, seconds: float = 20) -> tuple[int, str]:
    """Exit code and output of a bash script."""
    reading, writing = os.pipe()
    try:
        program = await sandbox.spawn(["bash", "-c", script], stdio=Stdio(stdout=writing, stderr=writing))
    finally:
        os.close(writing)
    with os.fdopen(reading, "rb") as file:
        async with asyncio.timeout(seconds):
            output = await asyncio.to_thread(file.read)
            return await program.wait(), output.decode(errors="replace").rstrip("\n")


def living(pid: int | None = None) -> list[psutil.Process]:
    """What a process has started and has not ended."""
    found = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            if process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def sleeping(seconds: str) -> list[psutil.Process]:
    """Who sleeps for just this long, wherever in the system: without a namespace, what left its parent is nobody's child."""
    found = psutil.process_iter(["cmdline", "status"])
    return [
        one for one in found if one.info["cmdline"] == ["sleep", seconds] and one.info["status"] != psutil.STATUS_ZOMBIE
    ]


async def until_gone(processes: list[psutil.Process]) -> None:
    async with asyncio.timeout(20):
        while any(process.is_running() and _status(process) != psutil.STATUS_ZOMBIE for process in processes):
            await asyncio.sleep(0.01)


def _status(process: psutil.Process) -> str:
    try:
        return process.status()
    except psutil.NoSuchProcess:
        return psutil.STATUS_ZOMBIE


def folders(place: Path) -> list[str]:
    return sorted(path.name for path in place.glob("handloom-sandbox-*"))
