"""From settings to a run, through the public door."""

import asyncio
from pathlib import Path

import pytest
from pydantic import BaseModel

import handloom
from handloom import config, wiring
from handloom.agents import Agent
from handloom.errors import ConfigError
from handloom.journal import MemoryStore
from handloom.llm.fallback import FallbackModel
from handloom.llm.openai import Endpoint, OpenAIModel
from handloom.llm.profiles import Profile
from handloom.prompts import toolcall
from handloom.testing.models import FlakyModel, ScriptedModel, calls, finish
from handloom.testing.server import ScriptedServer, error, reply

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
