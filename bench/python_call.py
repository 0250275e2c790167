"""Median time of a trivial `python_execute` call and of starting its process; run with `python bench/python_call.py`."""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from handloom.testing.tools import FakeContext
from handloom.toolbox.python import PythonWorker, python_execute

CALLS = 500
STARTS = 10


async def calls(workspace: Path) -> list[float]:
    async with FakeContext(workspace) as context:
        await python_execute.run({"code": "x = 1"}, context)
        return [await timed(lambda: python_execute.run({"code": "x + 1"}, context)) for _ in range(CALLS)]


async def start_and_close(workspace: Path) -> None:
    async with FakeContext(workspace) as context:
        worker = await PythonWorker.start(await context.sandbox())
        await worker.aclose()


async def timed(work) -> float:
    began = time.perf_counter()
    await work()
    return (time.perf_counter() - began) * 1000


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        took = await calls(Path(folder))
        print(
            f"call           {statistics.median(took):7.2f} ms median, {statistics.quantiles(took, n=20)[-1]:.2f} ms p95"
        )
        starts = [await timed(lambda: start_and_close(Path(folder))) for _ in range(STARTS)]
        print(f"start + close  {statistics.median(starts):7.2f} ms median")


if __name__ == "__main__":
    asyncio.run(main())
