"""What the loop does, turn by turn."""

import json
from pathlib import Path

import pytest
from pydantic import BaseModel

from handloom.agents import Agent, Output, Snapshot
from handloom.errors import ContextOverflowError, PromptError
from handloom.events import ContextCompacted, Event, ModelReplied, ToolReturned
from handloom.journal import MemoryStore
from handloom.llm.model import Request
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Dialect, Profile, ToolMode
from handloom.messages import ImagePart, Message, ToolCall, ToolResult, Usage
from handloom.prompts import PromptTemplate, browser, manus, toolcall
from handloom.runs import Limits, Run, RunResult
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.testing.server import ScriptedServer, Step, reply
from handloom.toolbox.terminate import terminate_tool
from handloom.tools import Tool, tool

pytestmark = pytest.mark.anyio


@tool(effects={"read"})
def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: The first.
        b: The second.
    """
    return a + b


async def work(agent: Agent, task: str = "the task", **options: object) -> tuple[RunResult, Run, list[Event]]:
    store = MemoryStore()
    run = await Run.start(task, store=store, workspace=Path("/work"), **options)  # type: ignore[arg-type]
    result = await run.complete(agent.run)
    return result, run, store.read(run.id)


async def test_two_turns_leave_the_memory_that_the_mission_lists() -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 2})), finish("3")])
    agent = Agent(
        name="t", prompt=manus.PROMPT, model=model, tools=(add, terminate_tool()), values={"directory": "/work"}
    )
    result, run, _ = await work(agent)
    assert (result.status, result.answer) == ("success", "3")
    kinds = [(message.role, message.origin, bool(message.tool_calls)) for message in run.memory.messages]
    assert kinds == [
        ("user", "task", False),
        ("user", "next_step", False),
        ("assistant", "", True),
        ("tool", "", False),
        ("user", "next_step", False),
        ("assistant", "", True),
        ("tool", "", False),
    ]
    assert run.memory.messages[5].tool_calls[0].name == "terminate"


async def test_the_system_prompt_is_in_every_request_and_never_in_memory() -> None:
    model = ScriptedModel(
        [*(calls(("add", {"a": n, "b": 1})) for n in range(20)), "done"],
        profile=Profile(max_context=2_200, max_output=200),
    )
    big = Agent(
        name="t",
        prompt=manus.PROMPT,
        model=model,
        tools=(add, terminate_tool()),
        values={"directory": "/work"},
        max_messages=8,
    )
    result, run, events = await work(big)
    assert result.answer == "done"
    assert any(isinstance(event, ContextCompacted) and event.drop_to for event in events)
    assert all("directory is /work" in request.system for request in model.requests if request.tools)
    assert not any("directory is /work" in message.text for message in run.memory.messages)
    assert all(any(message.origin == "task" for message in request.messages) for request in model.requests)


async def test_a_plain_answer_ends_the_run() -> None:
    result, _, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel(["42"])))
    assert (result.status, result.answer, result.turns) == ("success", "42", 1)


async def test_terminate_with_failure_fails_the_run_and_keeps_the_words() -> None:
    model = ScriptedModel([finish("there is no such file", "failure")])
    result, _, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(terminate_tool(),)))
    assert (result.status, result.answer, result.reason) == (
        "failed",
        "there is no such file",
        "the agent says it failed",
    )


NATIVE: list[Step] = [
    reply("sum first", calls=[("add", {"a": 1, "b": 2})]),
    reply("", calls=[("add", {"a": 3, "b": 4}), ("add", {"a": 5, "b": "x"})]),
    reply("", calls=[("terminate", {"status": "success", "answer": "完成 3, 7"})]),
]


def structured(step: Step) -> Step:
    """The same reply as a structured one."""
    made = [{"name": call.name, "arguments": json.loads(call.arguments)} for call in step.calls]  # type: ignore[union-attr]
    return reply(json.dumps({"thought": step.text, "calls": made}, ensure_ascii=False))  # type: ignore[union-attr]


async def conversation(steps: list[Step], mode: ToolMode, dialect: Dialect = "calls") -> list[Message]:
    with ScriptedServer(steps) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode=mode, dialect=dialect))
        _, run, _ = await work(
            Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(add, terminate_tool())), "加一加"
        )
        await model.aclose()
    return run.memory.messages


async def test_native_and_structured_mode_leave_the_same_memory() -> None:
    native = await conversation(NATIVE, "native")
    assert native == await conversation([structured(step) for step in NATIVE], "structured")
    assert next(message.text for message in native if message.role == "tool") == "3"


async def test_the_dialect_of_a_family_leaves_the_same_memory_too() -> None:
    single = [step for step in NATIVE if len(step.calls) == 1]  # type: ignore[union-attr]
    single[0] = reply("", calls=[("add", {"a": 1, "b": 2})])
    spoken = [
        reply(json.dumps({"name": step.calls[0].name, "arguments": json.loads(step.calls[0].arguments)}))
        for step in single
    ]  # type: ignore[union-attr]
    assert await conversation(single, "native") == await conversation(spoken, "structured", "qwen")


async def test_tools_are_read_anew_each_turn() -> None:
    class Growing:
        def __init__(self) -> None:
            self.count = 0

        async def tools(self) -> list[Tool]:
            self.count += 1
            return [add] if self.count > 2 else []

    model = ScriptedModel([calls(("add", {"a": 1, "b": 2})), calls(("add", {"a": 1, "b": 2})), "done"])
    _, _, events = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(Growing(), terminate_tool())))
    assert [len(request.tools) for request in model.requests] == [1, 2, 2]
    assert [event.result.ok for event in events if isinstance(event, ToolReturned)] == [False, True]


class Page:
    """A browser that is in use from the second turn to the third."""

    next_step = browser.NEXT_STEP_PROMPT

    def __init__(self) -> None:
        self.turn = 0

    def in_use(self, run: Run) -> bool:
        return 1 <= sum(message.role == "assistant" for message in run.memory.messages) <= 2

    async def snapshot(self, run: Run) -> Snapshot:
        self.turn += 1
        names = (
            "url_placeholder",
            "tabs_placeholder",
            "content_above_placeholder",
            "content_below_placeholder",
            "results_placeholder",
        )
        values = {
            **dict.fromkeys(names, ""),
            "url_placeholder": f"https://example.com/{self.turn} {{not a placeholder}}",
        }
        return Snapshot(values=values, images=(ImagePart(data=f"picture{self.turn}"),))


async def test_a_state_source_switches_the_browsers_prompt_on_and_off() -> None:
    model = ScriptedModel(
        [calls(("add", {"a": n, "b": n})) for n in range(3)] + [finish("end")], profile=Profile(vision=True)
    )
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(add, terminate_tool()), sources=(Page(),))
    _, run, _ = await work(agent)
    steps = [message for message in run.memory.messages if message.origin == "next_step"]
    assert [message.text.startswith("The browser now:") for message in steps] == [False, True, True, False]
    assert "https://example.com/2 {not a placeholder}" in steps[2].text
    shown = [[image.data for message in request.messages for image in message.images] for request in model.requests]
    assert shown == [[], ["picture1"], ["picture2"], []]


async def test_a_model_without_eyes_gets_no_pictures() -> None:
    model = ScriptedModel([calls(("add", {"a": 1, "b": 1})), finish("end")])
    await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(add, terminate_tool()), sources=(Page(),)))
    assert not any(message.images for request in model.requests for message in request.messages)


def test_a_prompt_declares_its_placeholders() -> None:
    with pytest.raises(PromptError, match="does not declare"):
        PromptTemplate(system="in {place}")


async def test_a_missing_value_is_an_error_before_anything_is_asked() -> None:
    model = ScriptedModel([])
    with pytest.raises(PromptError, match="directory"):
        await work(Agent(name="t", prompt=manus.PROMPT, model=model))
    assert model.requests == []


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int


async def test_a_typed_answer_is_checked_and_sent_back_with_the_reason() -> None:
    model = ScriptedModel(["Ada is 36", '{"name": "Ada"}', '{"name": "Ada", "age": 36}'])
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, output=Output.of(Person))
    result, run, _ = await work(agent)
    assert result.status == "success"
    assert agent.output is not None
    assert agent.output.parse(result.answer) == Person(name="Ada", age=36)
    reasons = [message.text for message in run.memory.messages if message.origin == "rejected"]
    assert "not JSON" in reasons[0]
    assert '"age" is a required property' in reasons[1]


async def test_a_typed_answer_is_sent_back_twice_at_most() -> None:
    result, _, _ = await work(
        Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel(["a", "b", "c"]), output=Output.of(Person))
    )
    assert result.status == "failed"
    assert "3 times" in result.reason


async def test_a_typed_answer_through_terminate_is_bound_by_its_schema() -> None:
    output = Output.of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    wrong, right = (
        calls(("terminate", {"status": "success", "answer": {"n": "x"}})),
        calls(("terminate", {"status": "success", "answer": {"n": 7}})),
    )
    model = ScriptedModel([wrong, right])
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(terminate_tool(output.schema),), output=output)
    result, _, events = await work(agent)
    assert (result.status, output.parse(result.answer)) == ("success", {"n": 7})
    assert [event.result.ok for event in events if isinstance(event, ToolReturned)] == [False, True]


async def test_a_context_overflow_shrinks_the_window_and_goes_on_once() -> None:
    @tool(effects={"read"})
    def read(n: int) -> str:
        """Read."""
        return f"{n} " + "word " * 800

    steps = [calls(("read", {"n": n})) for n in range(6)]
    overflow = ContextOverflowError("too long")
    model = ScriptedModel(
        [*steps, overflow, "notes of the past", "done"], profile=Profile(max_context=14_000, max_output=1_000)
    )
    result, _, events = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(read, terminate_tool())))
    assert result.status == "success"
    assert sum(isinstance(event, ContextCompacted) for event in events) >= 1
    result, _, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel([overflow, overflow])))
    assert (result.status, result.cause) == ("suspended", "unavailable")


async def test_a_task_that_no_window_can_hold_is_said_to_be_too_long() -> None:
    model = ScriptedModel([], profile=Profile(max_context=2_100, max_output=100))
    result, _, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model), "word " * 5_000)
    assert result.cause == "unavailable"
    assert "shorten the task" in result.reason


async def test_compaction_asks_the_model_for_a_summary_and_a_call_is_no_summary() -> None:
    @tool(effects={"read"})
    def read(n: int) -> str:
        """Read."""
        return f"{n} " + "word " * 250

    def answer(request: Request) -> Message:
        if request.tools:
            return calls(("read", {"n": len(request.messages)})) if len(model.requests) < 30 else finish("end")
        return calls(("read", {"n": 0}))

    model = ScriptedModel([answer] * 60, profile=Profile(max_context=3_000, max_output=200))
    result, _run, events = await work(
        Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(read, terminate_tool()))
    )
    assert result.answer == "end"
    dropped = [event for event in events if isinstance(event, ContextCompacted) and event.summary]
    assert dropped
    assert all("called read" in event.summary for event in dropped), "the mechanical digest stands in"
    assert max(model.estimate(request) for request in model.requests) <= 2_800


async def test_a_shortened_result_can_be_read_again() -> None:
    @tool(effects={"read"})
    def read() -> str:
        """Read."""
        return "a" * 9_000 + "NEEDLE" + "b" * 9_000

    model = ScriptedModel(
        [
            calls(("read", {})),
            *(calls(("add", {"a": n, "b": n})) for n in range(3)),
            calls(("read_result", {"handle": "call00001", "start": 8_990})),
            "done",
        ],
        profile=Profile(max_context=8_000, max_output=500),
    )
    _, run, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(read, add, terminate_tool())))
    assert "NEEDLE" in next(message.text for message in run.memory.messages if message.name == "read_result")
    assert not any(spec.name == "read_result" for spec in model.requests[0].tools)


async def test_a_long_result_is_cut_and_kept_whole_in_a_file() -> None:
    @tool(effects={"read"})
    def read() -> str:
        """Read."""
        return "x" * 100_000 + "\x1b[31mEND\x00"

    model = ScriptedModel(
        [calls(("read", {})), calls(("read_result", {"handle": "call00001", "start": 99_999})), "done"]
    )
    _, run, _ = await work(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(read, terminate_tool())))
    result = run.memory.result("call00001")
    assert result is not None
    assert len(result.text) <= 32_000
    assert "left out" in result.text
    assert "xEND" in next(message.text for message in run.memory.messages if message.name == "read_result")


async def test_agents_of_one_run_do_not_overwrite_each_others_long_results() -> None:
    @tool(effects={"read"})
    def dump(what: str) -> str:
        """Dump."""
        return f"{what} " * 20_000

    run = await Run.start("the task", store=MemoryStore(), workspace=Path("/work"))
    for step in ("apple", "fig"):
        agent = Agent(
            name="t",
            prompt=toolcall.PROMPT,
            model=ScriptedModel([calls(("dump", {"what": step})), "done"]),
            tools=(dump,),
        )
        await agent.run(run.child(step))
    for step in ("apple", "fig"):
        result = run.child(step).memory.result("call00001")
        assert result is not None
        assert (run.folder / result.spill).read_text().startswith(step)


async def test_a_long_result_of_an_older_record_is_read_by_the_name_it_had() -> None:
    run = await Run.start("the task", store=MemoryStore(), workspace=Path("/work"))
    call = ToolCall(id="call00001", name="dump")
    (run.folder / "call00001.txt").write_text("x" * 40_000 + "END")
    await run.emit(
        ModelReplied(message=Message.assistant(tool_calls=(call,))),
        ToolReturned(call=call, result=ToolResult(text="x" * 32_000, spill="call00001.txt")),
    )
    model = ScriptedModel([calls(("read_result", {"handle": "call00001", "start": 40_000})), "done"])
    await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(add,)).run)
    assert [message.text for message in run.memory.messages if message.name == "read_result"] == ["END"]


async def test_a_tool_that_breaks_is_a_result() -> None:
    @tool(effects={"read"})
    def broken() -> str:
        """Break."""
        raise KeyError("gone")

    result, run, _ = await work(
        Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel([calls(("broken", {})), "done"]), tools=(broken,))
    )
    assert result.status == "success"
    assert "KeyError" in run.memory.messages[3].text
    assert not run.memory.messages[3].ok


async def test_five_hundred_turns_with_ten_kilobytes_each_stay_valid_and_small() -> None:
    @tool(effects={"read"})
    def read(n: int) -> str:
        """Read."""
        return f"{n} " + "data " * 2_000

    def answer(request: Request) -> Message:
        return calls(("read", {"n": len(model.requests)})) if len(model.requests) < 500 else finish("end")

    model = ScriptedModel([answer] * 700)
    result, _, events = await work(
        Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(read, terminate_tool())), limits=Limits(turns=600)
    )
    assert result.answer == "end"
    for request in model.requests:
        open_calls: list[str] = []
        for message in request.messages:
            if message.role == "tool":
                open_calls.remove(message.call_id)
            else:
                assert not open_calls
                open_calls = [call.id for call in message.tool_calls]
        assert request.tools == () or any(message.text == "the task" for message in request.messages)
    sent = [event.usage.prompt_tokens for event in events if isinstance(event, ModelReplied)]
    assert sum(sent[:50]) < 500_000
    assert max(sent) < 32_768


async def test_an_answer_of_the_wrong_form_is_asked_for_by_its_schema_alone() -> None:
    output = Output.of({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
    model = ScriptedModel([calls(("add", {"a": 3, "b": 4})), "It is seven.", '{"n": 7}'])
    agent = Agent(
        name="t", prompt=toolcall.PROMPT, model=model, tools=(add, terminate_tool(output.schema)), output=output
    )
    result, _, _ = await work(agent)
    assert (result.status, output.parse(result.answer)) == ("success", {"n": 7})
    assert [(bool(request.tools), request.schema is not None) for request in model.requests] == [
        (True, False),
        (True, False),
        (False, True),
    ]
    assert model.requests[2].messages[-1].origin == "rejected"


async def test_what_a_tool_asks_of_a_model_counts_for_the_run() -> None:
    @tool
    def costly() -> ToolResult:
        """Ask another model."""
        return ToolResult(text="found", usage=Usage(prompt_tokens=1_000, completion_tokens=9, cost=0.5, calls=1))

    model = ScriptedModel([calls(("costly", {})), "found"])
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(costly,))
    store = MemoryStore()
    run = await Run.start("t", store=store, workspace=Path("/"))
    result = await run.complete(agent.run)
    own = sum(event.usage.prompt_tokens for event in store.read(run.id) if isinstance(event, ModelReplied))
    assert result.usage.prompt_tokens == own + 1_000
    assert result.usage.cost == 0.5
