"""What the loop does for a model that goes in circles or gives up."""

import os
from pathlib import Path

import pytest

from handloom.agents import Agent
from handloom.agents.sources import WorkspaceFiles
from handloom.journal import MemoryStore
from handloom.llm import structured
from handloom.llm.profiles import Profile, profile_for
from handloom.messages import Message, ToolResult
from handloom.prompts import manus, toolcall
from handloom.runs import Run, RunResult
from handloom.testing.models import Script, ScriptedModel, calls, finish
from handloom.toolbox.terminate import terminate_tool
from handloom.tools import tool

pytestmark = pytest.mark.anyio

SMALL = Profile(challenges=2)


@tool(effects={"execute"})
def work(n: int) -> str:
    """Work, which fails for negative numbers."""
    if n < 0:
        raise ValueError(f"{n} is negative")
    return f"did {n}"


async def play(*replies: Script, profile: Profile = SMALL) -> tuple[RunResult, ScriptedModel, list[Message]]:
    model = ScriptedModel(replies, profile=profile)
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(work, terminate_tool()))
    run = await Run.start("task", store=MemoryStore(), workspace=Path("/"))
    result = await run.complete(agent.run)
    return result, model, run.memory.messages


FAILS = calls(("work", {"n": -1}))


@pytest.mark.parametrize("end", [finish("cannot", "failure"), finish("did it"), "I give up"])
async def test_an_end_right_after_a_failed_call_is_questioned(end: Script) -> None:
    result, _, messages = await play(FAILS, end, calls(("work", {"n": 1})), finish("done"))
    assert (result.status, result.answer) == ("success", "done")
    doubts = [message.text for message in messages if message.origin == "challenged"]
    assert len(doubts) == 1
    assert "-1 is negative" in doubts[0]


async def test_it_is_questioned_a_few_times_only() -> None:
    result, _, _ = await play(FAILS, finish("a", "failure"), finish("b", "failure"), finish("c", "failure"))
    assert (result.status, result.answer) == ("failed", "c")


async def test_an_end_after_a_good_call_is_taken() -> None:
    result, model, _ = await play(FAILS, calls(("work", {"n": 1})), finish("done"))
    assert result.answer == "done"
    assert len(model.requests) == 3


async def test_large_models_are_taken_at_their_word() -> None:
    result, model, _ = await play(FAILS, finish("cannot", "failure"), profile=Profile())
    assert result.answer == "cannot"
    assert len(model.requests) == 2
    assert profile_for("gpt-4o").challenges == 0 < profile_for("qwen2.5-coder-1.5b").challenges


async def test_a_model_that_fails_again_and_again_gets_more_freedom() -> None:
    _, model, _ = await play(
        FAILS, calls(("work", {"n": -2})), calls(("work", {"n": -3})), calls(("work", {"n": 1})), finish("done")
    )
    assert [request.temperature for request in model.requests] == [None, None, 0.5, 0.8, None]


async def test_a_repeated_call_is_withheld_from_the_reply_but_stays_in_the_prompt() -> None:
    same = calls(("work", {"n": 1}))
    _, model, _ = await play(same, same, same, same, finish("done"))
    last = model.requests[-1]
    assert last.withheld == {"work"}
    assert [spec.name for spec in last.allowed] == ["terminate"]
    assert [spec.name for spec in last.tools] == ["work", "terminate"]


async def test_circles_of_two_and_three_calls_are_seen_too() -> None:
    pair = [calls(("work", {"n": 1})), calls(("work", {"n": 2}))]
    _, _, messages = await play(*pair, *pair, *pair, finish("done"))
    assert any("same 3 times" in message.text for message in messages if message.origin == "note")


async def test_a_new_task_starts_counting_anew() -> None:
    store = MemoryStore()
    same = calls(("work", {"n": 1}))
    run = await Run.start("task", store=store, workspace=Path("/"))
    model = ScriptedModel([same, same, same, "one"])
    await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(work,)).run)
    run = await Run.reopen(run.id, store=store)
    await run.follow_up("again")
    model = ScriptedModel([same, "two"])
    await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(work,)).run)
    assert model.requests[0].temperature is None
    assert sum(message.origin == "note" for message in model.requests[-1].messages) == 1


async def test_the_next_step_names_the_files_that_are_there(tmp_path: Path) -> None:
    for name in ("数据.csv", "b/inside.txt", ".hidden", "__pycache__/x.pyc"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    run = await Run.start("task", store=MemoryStore(), workspace=tmp_path)
    assert (await WorkspaceFiles().snapshot(run)).values == {"files": "b/inside.txt, empty/, 数据.csv"}
    for number in range(40):
        (tmp_path / f"many{number}").write_text("x", encoding="utf-8")
    shown = (await WorkspaceFiles().snapshot(run)).values["files"]
    assert shown.endswith(" and more")
    assert shown.count(",") == 19
    await run.aclose()


async def test_a_file_that_the_task_names_is_shown_from_within_the_workspace_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hunter2")
    folder = tmp_path / "work"
    (folder / "sub").mkdir(parents=True)
    (folder / "notes.txt").symlink_to("../key")
    (folder / "away").symlink_to(tmp_path)
    os.mkfifo(folder / "pipe.txt")
    (folder / "sub" / "real.txt").write_text("the real one")
    (folder / "inner.txt").symlink_to("sub/real.txt")
    run = await Run.start("see notes.txt, away/key, pipe.txt", store=MemoryStore(), workspace=folder)
    shown = (await WorkspaceFiles().snapshot(run)).values["files"]
    assert shown == "away, inner.txt, notes.txt, pipe.txt, sub/real.txt"
    run = await Run.start("see inner.txt", store=MemoryStore(), workspace=folder)
    assert "inner.txt:\nthe real one" in (await WorkspaceFiles().snapshot(run)).values["files"]


async def test_a_name_that_is_no_utf8_or_holds_signs_is_shown_clean(tmp_path: Path) -> None:
    for name in (b"caf\xe9.txt", b"line\nbreak \x1b[2J.txt"):
        (tmp_path / os.fsdecode(name)).write_text("x")
    model = ScriptedModel(["done"])
    agent = Agent(name="t", prompt=manus.PROMPT, model=model, values={"directory": "here"})
    run = await Run.start("look at caf?.txt", store=MemoryStore(), workspace=tmp_path)
    assert (await run.complete(agent.run)).status == "success"
    assert "caf?.txt, line break .txt" in model.requests[0].messages[-1].text


def test_the_actions_of_a_tool_bind_a_reply_to_the_arguments_of_one() -> None:
    @tool(effects={"read"}, actions={"look": "path lines?", "stop": ""})
    def door(action: str, path: str | None = None, lines: int | None = None) -> str:
        """A door."""
        return f"{action}{path}{lines}"

    members = structured.reply_schema((door.spec,), "qwen")["anyOf"]
    arguments = [member["properties"]["arguments"] for member in members]
    assert [sorted(each["properties"]) for each in arguments] == [["action", "lines", "path"], ["action"]]
    assert [each["required"] for each in arguments] == [["action", "path"], ["action"]]
    assert arguments[1]["properties"]["action"] == {"const": "stop"}


async def test_an_end_before_anything_was_seen_is_questioned() -> None:
    result, model, messages = await play("It is 42.", calls(("work", {"n": 1})), "It is 1.")
    assert (result.answer, len(model.requests)) == ("It is 1.", 3)
    assert "no code was run" in next(message.text for message in messages if message.origin == "challenged")
    result, _, _ = await play("Hello!", "Hello!")
    assert result.answer == "Hello!", "an answer that needs no look is given twice"


async def test_a_questioned_model_must_act_before_it_may_end() -> None:
    _, model, _ = await play("It is 42.", calls(("work", {"n": 1})), "It is 1.")
    assert [request.act for request in model.requests] == [False, True, False]
    assert model.requests[1].withheld == {"terminate"}


async def test_an_end_after_a_call_that_showed_nothing_is_questioned() -> None:
    @tool(effects={"execute"})
    def write() -> ToolResult:
        """Write."""
        return ToolResult(text="(no output)", silent=True)

    model = ScriptedModel(
        [calls(("write", {})), "written", calls(("work", {"n": 1})), "written and seen"], profile=SMALL
    )
    run = await Run.start("task", store=MemoryStore(), workspace=Path("/"))
    result = await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(write, work)).run)
    assert result.answer == "written and seen"


def doing(text: str, **more: object) -> Message:
    return calls(("work", {"n": 1, **more}), text=text)


async def test_a_small_model_that_does_the_same_again_is_asked_for_its_answer() -> None:
    result, model, messages = await play(doing("first"), doing("second"), "all done", doing("never"))
    assert (result.status, result.answer) == ("success", "all done")
    assert [request.withheld for request in model.requests] == [frozenset(), frozenset(), {"work"}]
    assert "End with the answer" in next(message.text for message in messages if message.origin == "note")


async def test_its_words_are_the_answer_when_it_calls_even_then() -> None:
    result, _, messages = await play(doing("first"), doing("second"), doing("It is done."), doing("never"))
    assert (result.status, result.answer) == ("success", "It is done.")
    assert sum(message.role == "tool" for message in messages) == 2


async def test_a_large_model_may_wait_for_the_same_result() -> None:
    result, model, _ = await play(doing(""), doing(""), doing(""), "waited", profile=Profile())
    assert result.answer == "waited"
    assert not any(request.withheld for request in model.requests)


async def test_the_same_failure_again_is_no_answer() -> None:
    result, *_ = await play(*[calls(("work", {"n": -1}), text="It is done.")] * 6)
    assert result.status == "failed"
    assert "did not change its way" in result.reason


@pytest.mark.parametrize(
    ("task", "names"),
    [
        ("Write fizz.py and save what it prints in out/fizz.txt.", ["fizz.py", "out/fizz.txt"]),
        ("把结果写入文件报告.md。", ["把结果写入文件报告.md"]),
        ("Read notes.txt, 🎉 party.txt, and 读取数据.csv", []),
        ("See https://example.org/a/page.html, mail me@example.md, version 1.2.py3, e.g. node.js", []),
    ],
)
async def test_an_end_before_the_named_files_are_there_is_questioned(
    task: str, names: list[str], tmp_path: Path
) -> None:
    for name in ("notes.txt", "🎉 party.txt", "数据.csv"):
        (tmp_path / name).touch()
    model = ScriptedModel([calls(("work", {"n": 1})), "Done.", calls(("work", {"n": 2})), "Done."], profile=SMALL)
    run = await Run.start(task, store=MemoryStore(), workspace=tmp_path)
    result = await run.complete(Agent(name="t", prompt=toolcall.PROMPT, model=model, tools=(work,)).run)
    assert result.answer == "Done."
    said = [message.text for message in run.memory.messages if message.origin == "challenged"]
    assert len(said) == bool(names), "it is said once"
    assert all(f"not there: {', '.join(names)}. What" in text for text in said)
