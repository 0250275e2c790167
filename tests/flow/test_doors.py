"""The public doors of flows: run_flow and resume in Python, and the commands."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import handloom
from handloom import Flow, MemoryStore, Step, tool
from handloom.errors import ConfigError, FlowError
from handloom.events import Event, RunEnded, StepQueued
from handloom.state import Question
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.testing.server import ScriptedServer, reply
from handloom.views.lines import line

pytestmark = pytest.mark.anyio

SUB = "inputs: {n: {type: integer}}\nsteps:\n  double: {run: 'echo $((input_n * 2))', output: {type: integer}}"
FLOW = """
name: 试验
inputs:
  谁: {type: string, default: 世界}
  numbers: {type: array, items: {type: integer}, required: true}
steps:
  问候: {run: 'echo "你好 $WHO"', with: {WHO: "{{ inputs['谁'] }}"}}
  double: {flow: sub.yaml, for_each: "{{ inputs.numbers }}", with: {n: "{{ item }}"}}
  说: {prompt: "Say {{ steps.问候.output }} {{ steps.double.output }}", needs: [问候, double]}
  ask: {needs: [说], approval: {message: "Send {{ steps.说.output }}?"}, run: 'echo sent > out.txt', artifacts: [out.txt]}
outputs: {said: "{{ steps.说.output }}", doubled: "{{ steps.double.output }}"}
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in [name for name in os.environ if name.startswith("HANDLOOM_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HANDLOOM_HOME", str(tmp_path / "home"))
    work = tmp_path / "work"
    work.mkdir()
    (work / "main.yaml").write_text(FLOW, encoding="utf-8")
    (work / "sub.yaml").write_text(SUB, encoding="utf-8")
    return work


async def test_a_flow_runs_from_a_file_is_suspended_and_resumed(home: Path) -> None:
    store = MemoryStore()
    seen: list[Event] = []
    model = ScriptedModel(["好的"])
    result = await handloom.run_flow(
        home / "main.yaml", inputs={"numbers": [1, 2]}, model=model, store=store, workspace=home, readers=(seen.append,)
    )
    assert (result.status, result.cause) == ("suspended", "question")
    assert [question.question for question in result.questions] == ["Send 好的?"]
    assert [row.status for row in result.report.steps if "/" not in row.span] == [
        "success",
        "success",
        "success",
        "success",
        "success",
        "waiting",
    ]
    assert any(isinstance(event, StepQueued) for event in seen), "what waits is shown"
    assert not any(isinstance(event, StepQueued) for event in store.read(result.run)), "and not saved"
    assert "问候: success: 你好 世界" in [line(event) for event in seen]
    again = await handloom.resume(result.run, answer="yes", model=model, store=store)
    assert again.status == "success"
    assert json.loads(again.answer) == {"said": "好的", "doubled": [2, 4]}
    assert (home / "out.txt").read_text() == "sent\n"
    assert again.artifacts == (str(home / "out.txt"),)


async def test_an_asker_answers_at_once_and_one_question_at_a_time(home: Path) -> None:
    asking = most = 0

    async def asker(question: Question) -> str:
        import asyncio

        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        await asyncio.sleep(0.01)
        asking -= 1
        return "yes"

    flow = Flow.of({name: Step(run="true", approval={"message": f"{name}?"}) for name in "abc"})  # pyright: ignore[reportArgumentType]
    result = await handloom.run_flow(flow, asker=asker, store=MemoryStore(), workspace=home)
    assert (result.status, most) == ("success", 1)


async def test_presets_work_on_steps_with_tools_of_the_program(home: Path) -> None:
    @tool(effects={"read"})
    def weather(city: str) -> str:
        """The weather."""
        return f"sun in {city}"

    model = ScriptedModel([calls(("weather", {"city": "京都"})), finish("sunny")])
    flow = Flow.of({"look": Step(prompt="Look", agent="toolcall", tools=["weather"])})
    result = await handloom.run_flow(flow, model=model, tools=(weather,), store=MemoryStore(), workspace=home)
    assert (result.status, result.value) == ("success", "sunny")
    assert [spec.name for spec in model.requests[0].tools] == ["weather", "terminate"]


async def test_a_wrong_flow_is_refused_before_anything_is_recorded(home: Path) -> None:
    store = MemoryStore()
    with pytest.raises(FlowError, match="there is no agent 'manu'; did you mean 'manus'"):
        await handloom.run_flow(Flow.of({"a": Step(prompt="x", agent="manu")}), store=store)
    with pytest.raises(FlowError, match=r"inputs\.numbers: this input is required, of type array"):
        await handloom.run_flow(home / "main.yaml", store=store)
    assert store.recent() == []


async def test_a_flow_takes_no_further_task(home: Path) -> None:
    from handloom import config
    from handloom.wiring import Given, Wishes, reopen

    store = MemoryStore()
    result = await handloom.run_flow(Flow.of({"a": Step(run="true")}), store=store, workspace=home)
    with pytest.raises(ConfigError, match="is one of a flow"):
        async with reopen(config.load(), result.run, Wishes(), Given(store=store), task="more"):
            pass


# The commands


def handloom_(home: Path, *words: str, **more: str) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": os.environ["PATH"],
        "HANDLOOM_HOME": str(home.parent / "home"),
        "HOME": str(home.parent),
        **more,
    }
    return subprocess.run(
        [sys.executable, "-m", "handloom", *words],
        check=False,
        cwd=home,
        env=environment,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
    )


def test_the_commands_run_answer_and_resume_a_flow(home: Path) -> None:
    def service(body: dict[str, Any]) -> Any:
        return reply("好的")

    with ScriptedServer(service) as server:
        model = {
            "HANDLOOM_LLM__MODEL": "scripted",
            "HANDLOOM_LLM__BASE_URL": server.base_url,
            "HANDLOOM_LLM__TOOL_MODE": "native",
        }
        ran = handloom_(home, "flow", "run", "main.yaml", "-i", "numbers=1,2", **model)
        assert (ran.returncode, ran.stdout) == (3, ""), ran.stderr
        assert "Send 好的?" in ran.stderr
        run_id = handloom_(home, "runs", "list").stdout.split()[0]
        answered = handloom_(home, "runs", "answer", run_id, "yes", **model)
        assert json.loads(answered.stdout) == {"said": "好的", "doubled": [2, 4]}
        refused = handloom_(home, "runs", "answer", run_id, "no", **model)
        assert refused.returncode == 2
        assert "no open question" in refused.stderr
        again = handloom_(home, "resume", run_id, "--from", "double", "--set", "numbers=[5]", "--json", **model)
        assert again.returncode == 3, again.stderr
        assert '"kind":"plan.revised"' in again.stdout
        answered = handloom_(home, "runs", "answer", run_id, "ok", **model)
        assert json.loads(answered.stdout)["doubled"] == [10]
        wrong = handloom_(home, "resume", run_id, "--from", "duble", **model)
        assert wrong.returncode == 2
        assert "there is no step 'duble'; did you mean 'double'?" in wrong.stderr


def test_a_flow_that_fails_has_the_exit_code_of_a_failure_and_a_table(home: Path) -> None:
    (home / "bad.yaml").write_text("steps:\n  a: {run: exit 3}\n  b: {run: 'true', needs: [a]}", encoding="utf-8")
    ran = handloom_(home, "flow", "run", "bad.yaml")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "a     FAILED" in ran.stderr
    assert "because of 'a', which did not succeed" in ran.stderr


def test_a_flow_is_checked_and_drawn(home: Path) -> None:
    assert "4 steps, no mistakes found" in handloom_(home, "flow", "check", "main.yaml").stdout
    (home / "bad.yaml").write_text("steps:\n  a: {promt: x}", encoding="utf-8")
    bad = handloom_(home, "flow", "check", "bad.yaml")
    assert bad.returncode == 2
    assert "bad.yaml:2:7: steps.a.promt: there is no key 'promt' here; did you mean 'prompt'?" in bad.stderr
    drawn = handloom_(home, "flow", "graph", "main.yaml").stdout
    assert drawn.startswith("flowchart TD")
    assert "s0 --> s2" in drawn
    assert json.loads(handloom_(home, "flow", "graph", "main.yaml", "--format", "json").stdout)["edges"][0] == {
        "from": "问候",
        "to": "说",
    }
    assert "说" in handloom_(home, "flow", "graph", "main.yaml", "--format", "text").stdout
    assert handloom_(home, "flow", "graph", "main.yaml", "--format", "svg").returncode == 2
    assert json.loads(handloom_(home, "flow", "schema").stdout)["title"] == "Plan"


def test_the_events_of_a_flow_end_with_its_end(home: Path) -> None:
    from handloom.events import decode

    (home / "ok.yaml").write_text("steps:\n  a: {run: echo hi}", encoding="utf-8")
    ran = handloom_(home, "flow", "run", "ok.yaml", "--json")
    last = decode(ran.stdout.splitlines()[-1])
    assert isinstance(last, RunEnded)
    assert last.answer == "hi"


async def test_plan_steps_and_replanning_have_the_planner_of_the_settings(home: Path) -> None:
    from handloom.llm.model import Request

    def answer(request: Request) -> str:
        words = request.messages[0].text
        if "has failed: exit code 3" in words:
            return json.dumps({"steps": [{"name": "b", "prompt": "Say it in words.", "needs": ["a"], "tools": []}]})
        if words.startswith("Goal: greet 小明"):
            assert '{"who": "小明"}' in words
            return json.dumps({"steps": [{"name": "hi", "prompt": "Hello {{ inputs.who }}", "needs": [], "tools": []}]})
        return f"[{words.splitlines()[0]}]"

    flow = Flow.parse(
        "steps:\n  a: {plan: greet 小明, with: {who: 小明}}\n  b: {run: exit 3, needs: [a], on_error: replan}\n"
        "outputs: {a: '{{ steps.a.output }}', b: '{{ steps.b.output }}'}"
    )
    model = ScriptedModel([answer] * 4)
    result = await handloom.run_flow(flow, model=model, store=MemoryStore(), workspace=home)
    assert result.value == {"a": "[Hello 小明]", "b": "[Say it in words.]"}
    assert result.report.success_rate == 1.0


async def test_a_flow_is_resumed_from_a_step_in_python(home: Path) -> None:
    store = MemoryStore()
    flow = Flow.parse(
        "inputs: {n: {type: integer, default: 1}}\nsteps:\n  a: {run: 'echo $input_n'}\n  b: {run: 'echo b', needs: [a]}\noutputs: {a: '{{ steps.a.output }}'}"
    )
    first = await handloom.run_flow(flow, store=store, workspace=home)
    again = await handloom.resume(first.run, store=store, again=("a",), inputs={"n": 7})
    assert (first.value, again.value) == ("1", "7")
    with pytest.raises(FlowError, match="there is no step 'c'"):
        await handloom.resume(first.run, store=store, again=("c",))


async def test_a_resumed_flow_asks_one_question_at_a_time(home: Path) -> None:
    import asyncio

    store, asking = MemoryStore(), [0, 0]

    async def asker(question: Question) -> str:
        asking[0] += 1
        asking[1] = max(asking)
        await asyncio.sleep(0.01)
        asking[0] -= 1
        return "yes"

    flow = Flow.of({name: Step(run="true", approval={"message": f"{name}?"}) for name in "abc"})  # pyright: ignore[reportArgumentType]
    first = await handloom.run_flow(flow, store=store, workspace=home)
    assert first.cause == "question"
    again = await handloom.resume(first.run, store=store, asker=asker)
    assert (again.status, asking[1]) == ("success", 1)


async def test_the_model_of_a_flow_answers_the_goal_of_a_tool_step(home: Path) -> None:
    (home / "prices.csv").write_text("loom,price\nAnna,57\n", encoding="utf-8")
    flow = Flow.of({"look": Step(tool="read_document", with_={"path": "prices.csv", "goal": "the price of Anna"})})
    model = ScriptedModel(["57 dollars"])
    result = await handloom.run_flow(flow, model=model, store=MemoryStore(), workspace=home)
    assert result.status == "success", result.reason
    assert "57 dollars" in result.answer
    assert "Anna,57" in model.requests[0].messages[0].text
    assert result.usage.calls == 1
