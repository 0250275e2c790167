"""From settings to a run, through the public door."""

import asyncio
import time
from pathlib import Path

import pytest
from pydantic import BaseModel

import handloom
from handloom import config, wiring
from handloom.agents import Agent
from handloom.errors import ConfigError
from handloom.events import QuestionAsked
from handloom.journal import MemoryStore
from handloom.llm.fallback import FallbackModel
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Profile
from handloom.prompts import toolcall
from handloom.runs import Limits, Run, RunResult
from handloom.state import Question
from handloom.testing.models import FlakyModel, ScriptedModel, calls, finish
from handloom.testing.server import ScriptedServer, error, reply
from handloom.tools import tool
from handloom.wiring import Given, Wishes

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class City(BaseModel):
    """A place."""

    name: str
    people: int


async def test_run_works_with_a_model_and_gives_a_typed_value(home: Path) -> None:
    store = MemoryStore()
    answer = calls(("terminate", {"status": "success", "answer": {"name": "Bern", "people": 134_000}}))
    result = await handloom.run("Which city?", model=ScriptedModel([answer]), output=City, store=store, workspace=home)
    assert (result.status, result.value) == ("success", City(name="Bern", people=134_000))
    again = await handloom.resume(result.run, store=store, output=City)
    assert again.value == City(name="Bern", people=134_000)


async def test_run_writes_into_its_workspace(home: Path) -> None:
    write = calls(("str_replace_editor", {"command": "create", "path": "a.txt", "file_text": "你好"}))
    result = await handloom.run("Write", model=ScriptedModel([write, finish("done")]), workspace=home)
    assert result.answer == "done"
    assert (home / "a.txt").read_text(encoding="utf-8") == "你好"


async def test_a_question_suspends_and_resume_answers_it(home: Path) -> None:
    store = MemoryStore()
    model = ScriptedModel([calls(("ask_human", {"question": "Which?"})), finish("took it")])
    first = await handloom.run("x", model=model, store=store, workspace=home)
    assert first.cause == "question"
    result = await handloom.resume(first.run, answer="that", model=model, store=store)
    assert result.answer == "took it"
    with pytest.raises(ConfigError, match="no open question"):
        await handloom.resume(first.run, answer="other", model=model, store=store)


async def test_an_agent_brings_its_own_model() -> None:
    agent = Agent(name="t", prompt=toolcall.PROMPT, model=ScriptedModel(["fine"]))
    assert (await handloom.run("x", agent=agent, store=MemoryStore())).answer == "fine"
    with pytest.raises(ConfigError, match="its own model"):
        await handloom.run("x", agent=agent, model=ScriptedModel([]), store=MemoryStore())


async def test_fallbacks_may_be_any_model_and_take_over(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer([error(401), reply("from the second")]) as server:
        monkeypatch.setenv("HANDLOOM_LLM__MODEL", "first")
        monkeypatch.setenv("HANDLOOM_LLM__BASE_URL", server.base_url)
        monkeypatch.setenv("HANDLOOM_LLM__FALLBACK", '["second"]')
        model = await wiring.open_model(config.load())
        assert isinstance(model, FallbackModel)
        assert (await handloom.run("x", store=MemoryStore())).answer == "from the second"
        await model.aclose()
    assert [request.body["model"] for request in server.requests] == ["first", "second"]


async def test_what_a_model_can_do_is_remembered_and_settings_stand_above(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDLOOM_LLM__MODEL", "m")
    monkeypatch.setenv("HANDLOOM_LLM__BASE_URL", "http://127.0.0.1:9/v1")
    loaded = config.load()
    wiring.remember_profile(loaded.folders, "http://127.0.0.1:9/v1", "m", {"tool_mode": "structured", "vision": True})
    model = await wiring.open_model(loaded)
    assert (model.profile.tool_mode, model.profile.vision) == ("structured", True)
    monkeypatch.setenv("HANDLOOM_LLM__TOOL_MODE", "native")
    assert (await wiring.open_model(config.load())).profile.tool_mode == "native"


async def test_a_switch_of_the_tool_mode_is_remembered_for_the_next_run(monkeypatch: pytest.MonkeyPatch) -> None:
    written = reply('<tool_call>{"name": "python_execute", "arguments": {"code": "1"}}</tool_call>')
    with ScriptedServer(
        [
            written,
            written,
            reply(
                '{"thought": "", "calls": [{"name": "terminate", "arguments": {"status": "success", "answer": "x"}}]}'
            ),
        ]
    ) as server:
        monkeypatch.setenv("HANDLOOM_LLM__MODEL", "m")
        monkeypatch.setenv("HANDLOOM_LLM__BASE_URL", server.base_url)
        assert (await handloom.run("x", store=MemoryStore())).answer == "x"
        model = await wiring.open_model(config.load())
    assert isinstance(model, OpenAIModel)
    assert model.tool_mode == "structured"


def test_an_agents_settings_change_its_preset(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HANDLOOM_AGENTS__MANUS__TOOLS", '["python_execute"]')
    agent = wiring.build_agent(config.load(), "manus", ScriptedModel([]), home)
    assert [tool.name for tool in agent.tools if isinstance(tool, handloom.Tool)] == ["python_execute", "terminate"]
    monkeypatch.setenv("HANDLOOM_AGENTS__MANUS__TOOLS", '["teleport"]')
    with pytest.raises(ConfigError, match="teleport"):
        wiring.build_agent(config.load(), "manus", ScriptedModel([]), home)


def test_small_models_are_offered_few_tools_unless_the_settings_say_otherwise(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = ScriptedModel([], profile=Profile(tools=frozenset({"python_execute"})))

    def names(agent: str) -> list[str]:
        built = wiring.build_agent(config.load(), agent, small, home)
        return [tool.name for tool in built.tools if isinstance(tool, handloom.Tool) and tool.name not in built.later]

    assert names("manus") == ["python_execute", "terminate"]
    assert wiring.build_agent(config.load(), "manus", small, home).later == {"browser_use", "web_search", "fetch"}
    assert names("browser") == ["browser_use", "web_search", "fetch", "terminate"]
    assert names("swe") == ["bash", "str_replace_editor", "terminate"], "without Python it does what it can"
    monkeypatch.setenv("HANDLOOM_AGENTS__MANUS__TOOLS", '["python_execute", "ask_human"]')
    assert names("manus") == ["python_execute", "ask_human", "terminate"]


def test_the_default_tools_cost_few_tokens() -> None:
    import json

    tools = [wiring.known_tools()[name] for name in ("python_execute", "str_replace_editor", "ask_human", "terminate")]
    sent = json.dumps(
        [{"name": tool.name, "description": tool.description, "parameters": tool.parameters} for tool in tools]
    )
    assert len(sent) / 4 < 600


async def test_a_flaky_model_is_asked_again_or_suspends_the_run() -> None:
    flaky = FlakyModel(ScriptedModel(["fine"]), failures=2)
    assert (
        await handloom.run("x", agent=Agent(name="t", prompt=toolcall.PROMPT, model=flaky), store=MemoryStore())
    ).answer == "fine"
    gone = FlakyModel(ScriptedModel([]), gives_up=True)
    result = await handloom.run("x", agent=Agent(name="t", prompt=toolcall.PROMPT, model=gone), store=MemoryStore())
    assert (result.status, result.cause) == ("suspended", "unavailable")


async def test_runs_in_one_process_do_not_block_each_other(home: Path) -> None:
    async def one(number: int) -> str:
        model = ScriptedModel([calls(("python_execute", {"code": f"print({number} * 2)"})), finish(str(number))])
        folder = home / str(number)
        folder.mkdir()
        return (await handloom.run("x", model=model, workspace=folder)).answer

    assert await asyncio.gather(*(one(number) for number in range(4))) == ["0", "1", "2", "3"]


async def test_fifty_turns_of_the_general_agent_send_few_tokens_and_each_request_is_valid(home: Path) -> None:
    @handloom.tool(effects={"read"})
    async def tick(n: int) -> str:
        """Tick."""
        return f"tock {n}"

    steps = [reply(calls=[("tick", {"n": n})]) for n in range(50)]
    store = MemoryStore()
    with ScriptedServer([*steps, reply(calls=[("terminate", {"status": "success", "answer": "done"})])]) as server:
        model = OpenAIModel("m", Endpoint(base_url=server.base_url), profile=Profile(tool_mode="native"))
        result = await handloom.run(
            "Tick on.", model=model, tools=(tick,), workspace=home, limits=handloom.Limits(turns=60), store=store
        )
        await model.aclose()
    assert (result.answer, len(server.requests)) == ("done", 51)
    assert result.usage.prompt_tokens <= 120_000, "four bytes a token of everything that was sent, tools included"
    for request in server.requests:
        messages = request.body["messages"]
        assert messages[0]["role"] == "system"
        assert any(message["content"] == "Tick on." for message in messages)
        waiting: list[str] = []
        for message in messages:
            if message["role"] == "tool":
                waiting.remove(message["tool_call_id"])
            else:
                assert not waiting
                waiting = [call["id"] for call in message.get("tool_calls") or ()]
        assert not waiting


async def further(run: str, task: str, model: ScriptedModel, store: MemoryStore, wishes: Wishes) -> RunResult:
    """Give a run another task."""
    given = Given(model=model, store=store)
    async with wiring.reopen(config.load(), run, wishes, given, task=task) as session:
        return await session.complete()


FORM = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def test_a_resume_keeps_what_a_further_task_was_asked_with(home: Path) -> None:
    store = MemoryStore()
    first = await handloom.run("one", model=ScriptedModel(["done"]), store=store, workspace=home)
    looks = ScriptedModel([calls(("python_execute", {"code": "1"}))])
    asked = Wishes(output=FORM, agent="data", limits={"turns": 1})
    stopped = await further(first.run, "two", looks, store, asked)
    assert stopped.cause == "limit"
    model = ScriptedModel(["plain words", calls(("terminate", {"status": "success", "answer": {"n": 2}}))])
    result = await handloom.resume(first.run, model=model, store=store, limits=Limits(turns=9))
    assert result.answer == '{"n": 2}'
    assert model.requests[0].system == looks.requests[0].system


async def test_the_form_and_the_limits_of_a_task_are_not_those_of_the_next(home: Path) -> None:
    store = MemoryStore()
    form = ScriptedModel([calls(("terminate", {"status": "success", "answer": {"n": 1}}))])
    first = await handloom.run("one", model=form, store=store, workspace=home, output=FORM)
    result = await further(first.run, "What does it mean?", ScriptedModel(["It means yes."]), store, Wishes())
    assert result.answer == "It means yes."


async def test_a_task_whose_model_cannot_be_opened_is_not_given(home: Path) -> None:
    store = MemoryStore()
    first = await handloom.run("one", model=ScriptedModel(["done"]), store=store, workspace=home)
    for _ in range(2):
        with pytest.raises(ConfigError):
            async with wiring.reopen(config.load(), first.run, Wishes(model="gpt-x"), Given(store=store), task="two"):
                pass
    model = ScriptedModel(["done"])
    await further(first.run, "two", model, store, Wishes())
    assert [each.text for each in model.requests[0].messages if each.origin == "task"] == ["one", "two"]


async def test_the_rules_of_the_workspace_hold_wherever_one_stands(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, elsewhere = home / "project", home / "elsewhere"
    (project / ".handloom").mkdir(parents=True)
    elsewhere.mkdir()
    (project / ".handloom" / "config.toml").write_text('[[policy.rule]]\ndo = "deny"\ntool = "python_execute"\n')
    monkeypatch.chdir(elsewhere)
    store = MemoryStore()
    computes = calls(("python_execute", {"code": "print(6 * 7)"}))
    model = ScriptedModel([computes, computes, finish("denied")])
    first = await handloom.run("x", model=model, store=store, workspace=project, limits=Limits(turns=1))
    result = await handloom.resume(first.run, model=model, store=store, limits=Limits(turns=5))
    assert result.answer == "denied"
    assert not any("42" in message.text for message in model.requests[-1].messages)


async def test_questions_that_come_together_are_asked_one_after_the_other(home: Path) -> None:
    open_now, most = 0, 0

    async def asker(_: Question) -> str:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(0.01)
        open_now -= 1
        return "no"

    @tool(effects={"external"}, parallel=True)
    def send(to: str) -> str:
        """Send."""
        return to

    model = ScriptedModel([calls(("send", {"to": "a"}), ("send", {"to": "b"})), finish("asked")])
    result = await handloom.run("x", model=model, tools=(send,), workspace=home, asker=asker)
    assert (result.answer, most) == ("asked", 1)


async def test_the_time_in_which_a_killed_run_lay_still_is_not_its_own(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HANDLOOM_SANDBOX__KIND", "off")
    store = MemoryStore()
    settings = {"agent": "manus", "limits": {"seconds": 900}}
    killed = await Run.start("x", store=store, workspace=home, settings=settings, clock=lambda: time.time() - 86_400)
    await killed.emit(QuestionAsked(id="turn-1/call-x?1", question="which?"))
    await killed.aclose()  # as it is after kill -9: nothing says that it stopped
    result = await handloom.resume(killed.id, answer="b", model=ScriptedModel([finish("ok")]), store=store)
    assert (result.status, result.seconds < 900) == ("success", True)
