"""Other engines on the flows of `bench/flow.py`; it runs in an environment that has them, and prints one line of JSON.

Usage: python flow_peers.py langgraph|dbos STEPS
"""

import asyncio
import json
import operator
import random
import sys
import time
from typing import Annotated, Any, TypedDict

SLOTS = 16


def graph(seed: int, count: int = 60) -> tuple[dict[str, list[str]], dict[str, float]]:
    """The graph of `flow.py`: needs and times by step."""
    dice = random.Random(seed)
    times = {f"s{at}": dice.uniform(0.02, 0.08) for at in range(count)}
    names = list(times)
    return {
        name: dice.sample(names[max(0, at - 12) : at], min(at, dice.randint(0, 2))) for at, name in enumerate(names)
    }, times


def critical(needs: dict[str, list[str]], times: dict[str, float]) -> float:
    ends: dict[str, float] = {}
    for name, before in needs.items():
        ends[name] = times[name] + max((ends[other] for other in before), default=0.0)
    return max(*ends.values(), sum(times.values()) / SLOTS)


async def langgraph(count: int) -> dict[str, float]:
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        done: Annotated[list[str], operator.add]

    def node(name: str, seconds: float) -> Any:
        async def work(_: State) -> dict[str, list[str]]:
            if seconds:
                await asyncio.sleep(seconds)
            return {"done": [name]}

        return work

    async def run(needs: dict[str, list[str]], times: dict[str, float], thread: str) -> float:
        builder = StateGraph(State)
        for name in needs:
            builder.add_node(name, node(name, times.get(name, 0.0)))
        last = {name for name in needs if not any(name in before for before in needs.values())}
        for name, before in needs.items():
            builder.add_edge(before if len(before) > 1 else before[0] if before else START, name)
            if name in last:
                builder.add_edge(name, END)
        async with AsyncSqliteSaver.from_conn_string(f"{thread}.db") as saver:
            compiled = builder.compile(checkpointer=saver)
            started = time.perf_counter()
            await compiled.ainvoke(
                {"done": []},
                {"configurable": {"thread_id": thread}, "recursion_limit": len(needs) + 10, "max_concurrency": SLOTS},
            )
            return time.perf_counter() - started

    chain = {f"s{at}": [f"s{at - 1}"] if at else [] for at in range(count)}
    step = await run(chain, {}, "chain") / count
    needs, times = graph(1)
    return {"step": step, "makespan": await run(needs, times, "graph") / critical(needs, times)}


async def dbos(count: int) -> dict[str, float]:
    from dbos import DBOS

    DBOS(
        config={
            "name": "bench",
            "system_database_url": "sqlite:///dbos.sqlite",
            "log_level": "ERROR",
            "run_admin_server": False,
        }
    )

    @DBOS.step()
    async def nothing(name: str) -> str:
        return name

    @DBOS.step()
    async def sleep(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return ""

    @DBOS.workflow()
    async def chain(count: int) -> None:
        for at in range(count):
            await nothing(f"s{at}")

    needs, times = graph(1)

    @DBOS.workflow()
    async def whole() -> None:
        slots = asyncio.Semaphore(SLOTS)
        tasks: dict[str, asyncio.Task[None]] = {}

        async def one(name: str) -> None:
            for other in needs[name]:
                await tasks[other]
            async with slots:
                await sleep(times[name])

        for name in needs:
            tasks[name] = asyncio.ensure_future(one(name))
        await asyncio.gather(*tasks.values())

    DBOS.launch()
    started = time.perf_counter()
    await chain(count)
    step = (time.perf_counter() - started) / count
    started = time.perf_counter()
    await whole()
    makespan = (time.perf_counter() - started) / critical(needs, times)
    DBOS.destroy()
    return {"step": step, "makespan": makespan}


if __name__ == "__main__":
    found = asyncio.run({"langgraph": langgraph, "dbos": dbos}[sys.argv[1]](int(sys.argv[2])))
    print(json.dumps(found))
