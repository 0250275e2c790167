"""A run stopped after every prefix of its journal resumes to the same end, and no recorded call runs twice."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.agents import Agent
from handloom.events import ContextCompacted, Event, ModelReplied, QuestionAnswered, ToolReturned
from handloom.journal import MemoryStore
from handloom.llm.profiles import Profile
from handloom.memory import Memory
from handloom.messages import Message
from handloom.prompts import toolcall
from handloom.runs import Limits, Run, RunResult
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.toolbox.terminate import terminate_tool
from handloom.tools import Tool, ToolContext, tool

pytestmark = pytest.mark.anyio


@dataclass
class World:
    """What the tools did, across all sessions of a run."""

    ran: Counter[str] = field(default_factory=Counter)

    def tools(self) -> tuple[Tool, ...]:
        @tool(effects={"execute"})
        def work(n: int) -> str:
            """Work."""
            self.ran[f"work {n}"] += 1
            return f"result {n} " + "x" * (n * 50)

        @tool(effects={"read"}, repeatable=True, parallel=True)
        def look(n: int) -> str:
            """Look."""
            self.ran[f"look {n}"] += 1
            return f"seen {n}"

        @tool(effects={"execute"})
        def fail(n: int) -> str:
            """Fail."""
            self.ran[f"fail {n}"] += 1
            raise ValueError(f"no {n}")

        @tool(effects={"external"}, repeatable=True)
        async def ask(question: str, context: ToolContext) -> str:
            """Ask."""
            return "told: " + await context.ask(question)

        return (work, look, fail, ask, terminate_tool())


Script = list[str | Message]

FAILING: Script = [
    calls(("fail", {"n": 1})),
    calls(("nothing", {})),
    calls(("work", {"n": "many"})),
    finish("failed well"),
]
MULTI: Script = [
    calls(("look", {"n": 1}), ("look", {"n": 2}), ("work", {"n": 3}), ("look", {"n": 4})),
    calls(("work", {"n": 5}), text="on"),
    finish("multi"),
]
ASKING: Script = [calls(("work", {"n": 1})), calls(("ask", {"question": "Which?"}), ("work", {"n": 2})), "plain answer"]
SILENT: Script = ["", calls(("work", {"n": 1})), "", "  ", finish("in the end")]
COMPACTING: Script = [*(calls(("work", {"n": n})) for n in range(20, 34)), finish("long")]
SCRIPTS = {"failing": FAILING, "multi": MULTI, "asking": ASKING, "silent": SILENT, "compacting": COMPACTING}


def agent(world: World, replies: Script, *, small: bool) -> Agent:
    profile = Profile(max_context=2_600 if small else 32_768, max_output=200)

    def summarised(request: object) -> Message:
        return replies.pop(0) if getattr(request, "tools", ()) else Message.assistant("notes")  # type: ignore[return-value]

    remaining = iter(range(1_000))
    model = ScriptedModel((summarised for _ in remaining), profile=profile)
    return Agent(name="test", prompt=toolcall.PROMPT, model=model, tools=world.tools())


async def session(run: Run, world: World, script: Script, *, small: bool) -> RunResult:
    """One session of a run: its model goes on in the script where the journal ends."""
    said = sum(1 for message in run.memory.messages if message.role == "assistant")
    return await run.complete(
        agent(world, [m if isinstance(m, Message) else Message.assistant(m) for m in script[said:]], small=small).run
    )


async def to_the_end(store: MemoryStore, run: Run, world: World, script: Script, *, small: bool) -> RunResult:
    result = await session(run, world, script, small=small)
    while result.cause == "question":
        run = await Run.reopen(run.id, store=store)
        await run.emit(QuestionAnswered(id=run.state.open_questions()[0].id, answer="this one"))
        result = await session(run, world, script, small=small)
    return result


def said(memory: Memory) -> list[tuple[str, str, str]]:
    return [(message.role, message.origin, message.text) for message in memory.messages]


@pytest.mark.parametrize("name", SCRIPTS)
async def test_every_prefix_of_a_journal_resumes_to_the_same_end(name: str, tmp_path: Path) -> None:
    script, small = SCRIPTS[name], name == "compacting"
    store, world = MemoryStore(), World()
    run = await Run.start("do it", store=store, workspace=tmp_path, limits=Limits(turns=40))
    whole = await to_the_end(store, run, world, script, small=small)
    assert whole.status == "success", whole.reason
    events = store.read(run.id)
    if small:
        assert any(isinstance(event, ContextCompacted) and event.drop_to for event in events)
    final = Run_memory(events)

    for length in range(1, len(events) + 1):
        prefix = events[:length]
        again, replayed = MemoryStore(), World()
        again.runs[run.id] = list(prefix)
        resumed = await Run.reopen(run.id, store=again, limits=Limits(turns=40))
        result = await to_the_end(again, resumed, replayed, script, small=small)
        assert (result.status, result.answer) == (whole.status, whole.answer), length
        unfinished = interrupted(again.read(run.id))
        if not unfinished:
            assert said(Run_memory(again.read(run.id))) == said(final), length
        recorded = {event.call.id for event in prefix if isinstance(event, ToolReturned)}
        returned = Counter(event.call.id for event in again.read(run.id) if isinstance(event, ToolReturned))
        assert set(returned.values()) == {1}, "each call has one result"
        assert recorded <= returned.keys()
        done = {key for event in prefix if isinstance(event, ToolReturned) and (key := named(event)) in world.ran}
        assert not {key for key in done if replayed.ran[key] > world.ran[key] - 1}, "a recorded call ran again"
        assert [event.seq for event in again.read(run.id)] == list(range(len(again.read(run.id))))


def Run_memory(events: list[Event]) -> Memory:  # noqa: N802 - a fold, named for what it gives
    memory = Memory()
    for event in events:
        memory.apply(event)
    return memory


def named(event: ToolReturned) -> str:
    return f"{event.call.name} {event.call.arguments.get('n')}"


def interrupted(events: list[Event]) -> bool:
    return any(isinstance(event, ToolReturned) and "outcome unknown" in event.result.text for event in events)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=4), st.data())
@settings(max_examples=40, deadline=None)
def test_any_run_resumes_from_any_prefix(shape: list[int], data: st.DataObject) -> None:
    import anyio

    anyio.run(resumed_from_any_prefix, shape, data.draw)


async def resumed_from_any_prefix(shape: list[int], draw: Callable[[st.SearchStrategy[int]], int]) -> None:
    kinds = ("work", "look", "fail")
    script: Script = [
        calls(*((kinds[(turn + n) % 3], {"n": turn * 10 + n}) for n in range(count)), text="t") if count else ""
        for turn, count in enumerate(shape)
    ]
    script = [*[reply for place, reply in enumerate(script) if reply != "" or place % 3 == 0], finish("end")]
    store, world = MemoryStore(), World()
    run = await Run.start("do it", store=store, workspace=Path("/"), limits=Limits(turns=40))
    whole = await to_the_end(store, run, world, script, small=False)
    events = store.read(run.id)
    cut = draw(st.integers(1, len(events)))
    again = MemoryStore()
    again.runs[run.id] = [msgspec.structs.replace(event) for event in events[:cut]]
    result = await to_the_end(
        again, await Run.reopen(run.id, store=again, limits=Limits(turns=40)), World(), script, small=False
    )
    assert (result.status, result.answer) == (whole.status, whole.answer)
    asked = sum(isinstance(event, ModelReplied) for event in again.read(run.id))
    assert asked == sum(isinstance(event, ModelReplied) for event in events), "a recorded reply was asked for again"
