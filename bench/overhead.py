"""What a turn of the general agent costs beside a bare `client.post` loop that sends the same number of requests to the same instant service.

Both run in turn in this process, several rounds each; the service runs in a process of its own. Usage: python bench/overhead.py [turns] [rounds]
"""

import asyncio
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from table import middle, show

from handloom import config, wiring
from handloom.events import ModelReplied
from handloom.journal.sqlite import SqliteStore
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Profile
from handloom.runs import Limits, Run
from handloom.tools import tool


@tool(effects={"read"})
async def tick(n: int) -> str:
    """Tick."""
    return f"tock {n}"


@tool(effects={"read"})
async def page(n: int) -> str:
    """Ten kilobytes."""
    return f"{n} " + "words of a page " * 640


def script(turns: int, name: str) -> dict[str, object]:
    """A script for the service: `turns` calls of one tool, then the end, over and over."""
    calls = [{"kind": "reply", "calls": [{"name": name, "arguments": json.dumps({"n": n})}]} for n in range(turns)]
    end = {
        "kind": "reply",
        "calls": [{"name": "terminate", "arguments": json.dumps({"status": "success", "answer": "done"})}],
    }
    return {"steps": [*calls, end], "repeat": True}


class Service:
    """The scripted service as a process."""

    def __init__(self, turns: int, name: str) -> None:
        file = Path(tempfile.mkstemp(suffix=".json")[1])
        file.write_text(json.dumps(script(turns, name)), encoding="utf-8")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "handloom.testing.server", "--port", "0", "--script", str(file)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


async def bare(url: str, turns: int) -> dict[str, float]:
    """The least a client can do: build the messages, post, read the stream."""
    import openai
    from openai import AsyncStream
    from openai.types.chat import ChatCompletion, ChatCompletionChunk

    client = openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0)
    messages: list[dict[str, object]] = [{"role": "user", "content": "go on"}]
    cpu, wall = time.process_time(), time.perf_counter()
    for n in range(turns + 1):
        body = {"model": "m", "messages": messages, "stream": True, "stream_options": {"include_usage": True}}
        stream = await client.post(
            "/chat/completions",
            body=body,
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
        )
        async for _ in stream:
            pass
        call = {"id": f"call{n:05d}", "type": "function", "function": {"name": "tick", "arguments": f'{{"n": {n}}}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call{n:05d}", "content": "tock"},
        ]
    await client.close()
    return {
        "cpu": (time.process_time() - cpu) / (turns + 1) * 1e3,
        "wall": (time.perf_counter() - wall) / (turns + 1) * 1e3,
    }


async def ours(url: str, turns: int, used: object) -> dict[str, float]:
    """The general agent with all its tools and a journal on disk."""
    with tempfile.TemporaryDirectory() as folder:
        model = OpenAIModel("m", Endpoint(base_url=url), profile=Profile(tool_mode="native", max_context=32_768))
        agent = wiring.build_agent(
            config.load(environment={"HANDLOOM_HOME": folder}), "manus", model, Path(folder), extra=(used,)
        )
        store = SqliteStore(Path(folder))
        cpu, wall = time.process_time(), time.perf_counter()
        run = await Run.start("go on", store=store, workspace=Path(folder), limits=Limits(turns=turns + 5))
        result = await run.complete(agent.run)
        spent = {
            "cpu": (time.process_time() - cpu) / (turns + 1) * 1e3,
            "wall": (time.perf_counter() - wall) / (turns + 1) * 1e3,
        }
        assert result.answer == "done", result
        sent = [event.usage.prompt_tokens for event in store.read(run.id) if isinstance(event, ModelReplied)]
        await model.aclose()
        store.close()
        return {**spent, "tokens": sum(sent), "largest": max(sent)}


def measure(turns: int, rounds: int) -> None:
    rows: list[dict[str, object]] = []
    for name, used in (("tick", tick), ("page", page)):
        service = Service(turns, name)
        try:
            pairs = [
                (asyncio.run(bare(service.url, turns)), asyncio.run(ours(service.url, turns, used)))
                for _ in range(rounds)
            ]
        finally:
            service.stop()
        base, own = [middle([pair[side]["cpu"] for pair in pairs]) for side in (0, 1)]
        rows.append(
            {
                "tool": name,
                "turns": turns,
                "bare cpu ms/turn": base,
                "handloom cpu ms/turn": own,
                "over it": own - base,
                "bare wall ms": middle([pair[0]["wall"] for pair in pairs]),
                "handloom wall ms": middle([pair[1]["wall"] for pair in pairs]),
                "prompt tokens in all": int(pairs[-1][1]["tokens"]),
                "largest request": int(pairs[-1][1]["largest"]),
            }
        )
    show("Agent overhead per turn (service in its own process, journal on)", rows)
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")


if __name__ == "__main__":
    measure(int(sys.argv[1]) if len(sys.argv) > 1 else 50, int(sys.argv[2]) if len(sys.argv) > 2 else 5)
