"""What the engine does with each kind of step and each of its options."""

import asyncio
import json
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from flows import Desk, broken_promises, statuses

from handloom.errors import FlowError, HandloomError, ModelUnavailableError
from handloom.events import (
    ModelReplied,
    QuestionAsked,
    StepEnded,
    StepRetried,
    StepStarted,
    StepSummarised,
    ToolReturned,
    WarningRaised,
    decode,
)
from handloom.flow import templates
from handloom.flow.cache import FolderCache
from handloom.flow.planner import ModelPlanner
from handloom.flow.report import Report
from handloom.flow.revision import Revision
from handloom.flow.values import Known
from handloom.flow.workers import AS_USUAL, Ask
from handloom.llm.model import Request
from handloom.llm.profiles import Profile
from handloom.messages import Message
from handloom.plans import Plan, Step
from handloom.policy import Policy, Rule
from handloom.prompts import PromptTemplate
from handloom.runs import Limits, Run, Safety
from handloom.state import Question
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.tools import ToolContext, tool

pytestmark = pytest.mark.anyio


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def asked(request: Request) -> str:
    """The task of a request."""
    return next(message.text for message in request.messages if message.origin == "task")


@tool(repeatable=True)
async def nap(seconds: float) -> str:
    """Sleep."""
    await asyncio.sleep(seconds)
    return "slept"


# Kinds of steps


async def test_a_prompt_is_one_request_and_its_reply_the_output(desk: Desk) -> None:
    desk.model = ScriptedModel(["茶很好"])
    result, state = await desk.run(
        'inputs: {产品: {type: string}}\nsteps:\n  研究: {prompt: "写一写 {{ inputs.产品 }}", system: "You {write}."}',
        产品="茶",
    )
    assert (result.status, result.answer) == ("success", "茶很好")
    assert state.step("研究").output == "茶很好"
    assert desk.model.requests[0].system == "You {write}."
    assert asked(desk.model.requests[0]) == "写一写 茶"
    assert desk.model.requests[0].tools == ()


async def test_a_prompt_that_is_empty_fails_its_step(desk: Desk) -> None:
    desk.model = ScriptedModel([])
    flow = "inputs: {note: {type: string}}\nsteps:\n  a: {prompt: ' {{ inputs.note }} ', retry: {max: 2, backoff: 0}, on_error: continue}\n  b: {needs: [a], tool: work}"
    result, state = await desk.run(flow, note="")
    assert result.status == "success"
    assert (state.step("a").status, state.step("a").attempt) == ("failed", 1)
    assert state.step("a").reason == "its prompt is empty: nothing was filled in for '{{ inputs.note }}'"


async def test_a_prompt_with_tools_is_an_agent_with_a_memory_of_its_own(desk: Desk) -> None:
    script = [calls(("work", {"say": "seen"})), "first", calls(("work", {"say": "more"})), "second"]
    desk.model = ScriptedModel(script)
    result, state = await desk.run(
        'steps:\n  a: {prompt: "look", tools: [work]}\n  b: {prompt: "go on from {{ steps.a.output }}", tools: [work], needs: [a]}'
    )
    assert result.answer == "second"
    assert [message.text for message in state.memory("a").messages if message.role == "tool"] == ["seen"]
    assert asked(desk.model.requests[2]) == "go on from first"
    assert [message.text for message in desk.model.requests[2].messages] == ["go on from first"]
    assert state.step("a").requests == 2


async def test_several_agents_work_in_one_flow(desk: Desk) -> None:
    desk.more["agents"] = {
        "poet": PromptTemplate(system="You are a poet."),
        "critic": PromptTemplate(system="You are a critic."),
    }
    desk.model = ScriptedModel([finish("a rose"), finish("too short")])
    desk.tools = (_terminate(),)
    result, _ = await desk.run(
        'steps:\n  write: {prompt: "write", agent: poet}\n  judge: {prompt: "judge {{ steps.write.output }}", agent: critic, needs: [write]}'
    )
    assert result.answer == "too short"
    assert [request.system for request in desk.model.requests] == ["You are a poet.", "You are a critic."]


def _terminate() -> Any:
    from handloom.toolbox.terminate import terminate_tool

    return terminate_tool(None)


async def test_an_agent_that_says_it_failed_fails_its_step(desk: Desk) -> None:
    desk.more["agents"] = {"one": PromptTemplate(system="")}
    desk.model = ScriptedModel([finish("no way", status="failure")])
    desk.tools = (_terminate(),)
    result, state = await desk.run("steps:\n  a: {prompt: x, agent: one}\n  b: {tool: work, needs: [a]}")
    assert result.status == "failed"
    assert result.reason.startswith("a: no way")
    assert (state.step("b").status, state.step("b").cause) == ("skipped", "a")


async def test_an_output_is_checked_and_given_as_values(desk: Desk) -> None:
    desk.model = ScriptedModel(["nothing", '{"n": "x"}', '{"n": 4}'])
    flow = 'steps:\n  a: {prompt: x, output: {type: object, properties: {n: {type: integer}}, required: [n]}}\n  b: {tool: work, needs: [a], with: {say: "{{ steps.a.output.n + 1 }}"}}'
    result, state = await desk.run(flow)
    assert state.step("a").output == {"n": 4}
    assert result.answer == "5"
    assert "n" in desk.model.requests[2].messages[-1].text, "the reason of the refusal goes back to the model"


async def test_a_command_gets_its_values_as_variables(desk: Desk) -> None:
    flow = """
inputs: {evil: {type: string}, 名字: {type: string}}
steps:
  a: {tool: work, with: {say: "$(touch made-by-a) `touch b`"}}
  b: {needs: [a], run: 'printf "%s|%s|%s" "$input_evil" "$step_a_output" "$NAME"', with: {NAME: "{{ inputs['名字'] }}"}}
  c: {needs: [b], run: 'echo [1, 2]', output: {type: array}}
"""
    evil = '"; touch pwned; echo "'
    result, state = await desk.run(flow, evil=evil, 名字="小明")
    assert result.status == "success", result.reason
    assert state.step("b").output == f"{evil}|$(touch made-by-a) `touch b`|小明"
    assert state.step("c").output == [1, 2]
    assert [path.name for path in desk.folder.iterdir() if not path.name.startswith(".")] == []


async def test_a_command_that_fails_says_how(desk: Desk) -> None:
    result, _ = await desk.run("steps:\n  a: {run: 'echo oh no >&2; exit 3'}")
    assert result.reason == "a: exit code 3: oh no"


async def test_a_command_that_prints_too_much_fails_and_is_told_what_to_do(desk: Desk) -> None:
    flow = "steps:\n  a: {run: \"head -c 4000001 /dev/zero | tr '\\\\0' x\", retry: {max: 2, backoff: 0}}"
    result, state = await desk.run(flow)
    assert result.reason == "a: it printed more than 4,000,000 bytes; write a file and name it under `artifacts`"
    assert state.step("a").attempt == 1


@tool
def measure(size: int) -> list[int]:
    """Some numbers."""
    if size < 0:
        raise ValueError("too small")
    return list(range(size))


async def test_a_tool_step_is_recorded_as_a_call(desk: Desk) -> None:
    desk.tools = (measure,)
    flow = "steps:\n  a: {tool: measure, with: {size: 2}, output: {type: array}}\n  b: {tool: measure, with: {size: -1}, on_error: continue}\n  c: {tool: measure, with: {sice: 1}, on_error: continue}"
    result, state = await desk.run(flow)
    assert result.status == "success"
    assert state.step("a").output == [0, 1]
    assert "ValueError: too small" in state.step("b").reason
    assert "sice: is not a parameter" in state.step("c").reason
    assert (state.tools["measure"].calls, state.tools["measure"].failed) == (3, 2)
    assert sum(isinstance(event, ToolReturned) for event in desk.events(result.run)) == 3


async def test_the_flat_names_of_tools_and_steps(desk: Desk) -> None:
    flow = """
steps:
  a: {tool: work, with: {say: one}}
  看-b: {tool: work, with: {say: two}, needs: [a]}
  c: {tool: work, needs: [看-b], with: {say: "{{ step_a_output }} {{ step_看_b_output }} {{ tool_work_result }} {{ tool_results }}"}}
"""
    result, _ = await desk.run(flow)
    assert result.answer == 'one two two {"a": "one", "看-b": "two"}'


async def test_a_template_sees_all_steps_before_it_also_beside_one_of_them(desk: Desk) -> None:
    flow = """
steps:
  a: {tool: work, with: {say: first}}
  b: {needs: [a], tool: work, with: {say: second}}
  other: {tool: work, with: {say: unseen}}
  c: {needs: [b], tool: work, with: {say: "{{ steps.b.output }}: {{ steps | tojson }}"}}
"""
    _, state = await desk.run(flow)
    one, _, rest = state.step("c").output.partition(": ")
    assert one == "second"
    assert {name: step["output"] for name, step in json.loads(rest).items()} == {"a": "first", "b": "second"}


async def test_a_sub_flow_runs_below_its_step(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text(
        'inputs: {who: {type: string}}\nsteps:\n  hi: {tool: work, with: {say: "hi {{ inputs.who }}"}}\n  bye: {tool: work, needs: [hi], with: {say: "{{ steps.hi.output }}, bye"}}\noutputs: {said: "{{ steps.bye.output }}"}'
    )
    flow = 'limits: {max_parallel: 1}\nsteps:\n  s: {flow: sub.yaml, for_each: [Ann, 李], with: {who: "{{ item }}"}}\n  t: {tool: work, needs: [s], with: {say: "{{ steps.s.output }}"}}'
    result, state = await desk.run(flow)
    assert result.answer == "['hi Ann, bye', 'hi 李, bye']"
    assert state.step("s#1/bye").output == "hi 李, bye"
    assert broken_promises(desk.events(result.run)) == []
    assert [row.span for row in Report.of(state).steps] == [
        "s",
        "s#0",
        "s#0/hi",
        "s#0/bye",
        "s#1",
        "s#1/hi",
        "s#1/bye",
        "t",
    ]


async def test_a_sub_flow_that_fails_fails_its_step_and_can_be_tried_again(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text(
        "steps:\n  a: {tool: work, with: {fail_first: 9}}\n  b: {tool: work, needs: [a]}"
    )
    result, state = await desk.run("steps:\n  s: {flow: sub.yaml, retry: {max: 1, backoff: 0}}")
    assert result.reason.startswith("s: a: attempt 1 fails")
    assert state.step("s/try-2/b").status == "skipped"
    assert broken_promises(desk.events(result.run)) == []


async def test_a_flow_that_runs_itself_ends_with_an_error(desk: Desk) -> None:
    (desk.folder / "self.yaml").write_text("steps:\n  s: {flow: self.yaml}")
    result, _ = await desk.run("steps:\n  s: {flow: self.yaml}")
    assert result.status == "failed"
    assert "deeper than 8" in result.reason


class Planner:
    """Plans that are written down."""

    def __init__(self, plan: Plan | None = None, changes: dict[str, Any] | None = None) -> None:
        self.plans, self.changes, self.goals = plan, changes, list[str]()

    async def plan(self, goal: str, values: dict[str, Any], run: Run, ask: Ask = AS_USUAL) -> Plan:
        self.goals.append(goal)
        if self.plans is None:
            raise FlowError("no reasonable plan was found")
        return self.plans

    async def replan(self, plan: Plan, failed: str, reason: str, run: Run, ask: Ask = AS_USUAL) -> dict[str, Any]:
        self.goals.append(f"{failed}: {reason}")
        return self.changes or {}


async def test_a_plan_step_carries_out_what_a_planner_makes(desk: Desk) -> None:
    planner = Planner(Plan(steps={"x": Step(tool="work", with_={"say": "made"})}))
    desk.more["planner"] = planner
    result, state = await desk.run(
        'steps:\n  p: {plan: "make a {{ 1 + 1 }}"}\n  q: {tool: work, needs: [p], with: {say: "{{ steps.p.output }}!"}}'
    )
    assert result.answer == "made!"
    assert planner.goals == ["make a 2"]
    assert state.step("p/x").output == "made"


async def test_a_plan_step_is_planned_by_its_model_within_its_limits(desk: Desk) -> None:
    model, asked = ScriptedModel(["no plan"] * 4), list[str]()

    async def opened(name: str) -> ScriptedModel:
        asked.append(name)
        return model

    desk.more["planner"] = ModelPlanner(model=opened, tools=lambda: {"work": "Work"})
    result, _ = await desk.run("defaults: {limits: {max_turns: 2}}\nsteps:\n  p: {plan: x, model: large}")
    assert asked == ["large"]
    assert len(model.requests) == 2
    assert "used up its limit of 2 turns" in result.reason


async def test_a_plan_that_is_none_fails_the_step(desk: Desk) -> None:
    desk.more["planner"] = Planner()
    result, _ = await desk.run("steps:\n  p: {plan: x}")
    assert result.reason == "p: no reasonable plan was found"


async def test_replanning_keeps_what_has_succeeded(desk: Desk) -> None:
    way = {
        "b": {"tool": "work", "needs": ["a", "new"], "with": {"say": "{{ steps.new.output }}"}},
        "new": {"tool": "work", "with": {"say": "another way"}},
    }
    planner = Planner(changes=way)
    desk.more["planner"] = planner
    result, state = await desk.run(
        "steps:\n  a: {tool: work}\n  b: {tool: work, needs: [a], with: {fail_first: 1}, on_error: replan}\n  c: {tool: work, needs: [b], with: {say: end}}"
    )
    assert (result.status, result.answer) == ("success", "end")
    assert planner.goals == ["b: attempt 1 fails"]
    assert state.step("b").output == "another way"
    assert sum(isinstance(event, StepStarted) and event.span == "a" for event in desk.events(result.run)) == 1


async def test_a_planner_that_knows_no_way_lets_the_step_fail(desk: Desk) -> None:
    desk.more["planner"] = Planner()
    result, _ = await desk.run("steps:\n  b: {tool: work, with: {fail_first: 1}, on_error: replan}")
    assert result.reason == "b: attempt 1 fails"


class Repairer(Planner):
    """Puts another step in the place of one that failed, behind a new one; both are told."""

    def __init__(self, new: dict[str, Any], other: dict[str, Any]) -> None:
        super().__init__()
        self.new, self.other, self.names = new, other, ["fix", "fix-2", "fix-3", "fix-4", "fix-5"]

    async def replan(self, plan: Plan, failed: str, reason: str, run: Run, ask: Ask = AS_USUAL) -> dict[str, Any]:
        self.goals.append(failed)
        await asyncio.sleep(0.05)
        name = next((name for name in self.names if name not in plan.steps), self.names[-1])
        new = {"tool": "work", "with": {"say": f"{name} of {failed}"}, **self.new}
        other = {"tool": "work", "with": {"say": f"{{{{ steps['{name}'].output }}}}"}, **self.other, "needs": [name]}
        return {name: new, failed: other}


def bad(times: int) -> dict[str, Any]:
    """A step that fails so often, and is then to be replanned."""
    return {"tool": "work", "with": {"fail_first": times}, "on_error": "replan"}


async def test_each_step_is_replanned_whatever_else_was_changed(desk: Desk) -> None:
    desk.more["planner"] = planner = Repairer({}, {})
    bads = {f"b{at}": bad(1) | {"needs": [f"b{at - 1}"] if at else []} for at in range(5)}
    run, engine = await desk.start({"steps": {"a": {"tool": "work"}, **bads}})
    for _ in range(3):
        await engine.revise(Revision(again=("a",)))
    result = await run.complete(engine.carry_out)
    assert result.status == "success", result.reason
    assert planner.goals == list(bads)


@pytest.mark.parametrize(
    ("new", "other", "goals"), [({}, bad(9), ["b", "b", "b"]), (bad(9), {}, ["b", "fix", "fix-2"])]
)
async def test_a_step_with_those_put_in_its_place_is_replanned_three_times(
    desk: Desk, new: dict[str, Any], other: dict[str, Any], goals: list[str]
) -> None:
    desk.more["planner"] = planner = Repairer(new, other)
    result, _ = await desk.run({"steps": {"b": bad(9)}})
    assert result.status == "failed"
    assert planner.goals == goals


async def test_two_replans_at_once_do_not_take_each_others_names(desk: Desk) -> None:
    desk.more["planner"] = planner = Repairer({}, {})
    result, state = await desk.run({"steps": {"b0": bad(1), "b1": bad(1)}})
    assert result.status == "success", result.reason
    assert (state.step("b0").output, state.step("b1").output) == ("fix of b0", "fix-2 of b1")
    assert planner.goals == ["b0", "b1", "b1"], "who comes second is asked once more"
    assert broken_promises(desk.events(result.run)) == []


async def test_a_planner_that_insists_on_a_name_of_another_replan_lets_the_step_fail(desk: Desk) -> None:
    desk.more["planner"], desk.tools = Repairer({}, {}), (nap,)
    desk.more["planner"].names = ["fix"]
    busy = {"tool": "nap", "with": {"seconds": 0.3}}
    flow = {"limits": {"max_parallel": 2}, "steps": {"b0": bad(1), "b1": bad(1), "busy": busy, "busy2": busy}}
    result, state = await desk.run(flow)
    assert result.reason == "b1: attempt 1 fails"
    assert state.step("b0").output == "fix of b0"


# Options


async def test_a_retry_tells_the_model_why_the_last_attempt_was_refused(desk: Desk) -> None:
    desk.model = ScriptedModel(["done", "done, really"])
    flow = "steps:\n  a: {prompt: write it, artifacts: [out.md], retry: {max: 1, backoff: 10ms}}"
    result, state = await desk.run(flow)
    assert result.status == "failed"
    assert "it was to make out.md" in result.reason
    assert "The last attempt was refused: it was to make out.md" in asked(desk.model.requests[1])
    assert len(state.memory("a/try-2").messages) == 2, "each attempt has its own memory"


async def test_a_step_that_takes_too_long_has_failed(desk: Desk) -> None:
    result, _ = await desk.run("steps:\n  a: {run: sleep 30, timeout: 200ms}")
    assert result.reason == "a: it took longer than 0.2 s"


async def test_a_sub_flow_that_takes_too_long_has_failed_with_all_its_steps(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {run: sleep 30}\n  b: {run: 'true', needs: [a]}")
    result, state = await desk.run("steps:\n  s: {flow: sub.yaml, timeout: 300ms}")
    assert result.reason == "s: it took longer than 0.3 s"
    assert statuses(state) == {"s": "failed", "s/a": "skipped", "s/b": "skipped"}


async def test_failed_items_are_null_or_left_out_or_fail_the_step(desk: Desk) -> None:
    @tool
    def odd(n: int) -> str:
        """Refuse even numbers."""
        if n % 2 == 0:
            raise ValueError("even")
        return str(n)

    desk.tools = (odd,)
    flow = 'steps:\n  a: {for_each: [1, 2, 3], tool: odd, with: {n: "{{ item }}"}, on_error: %s}\n  b: {tool: work, needs: [a], with: {say: "{{ steps.a.output | tojson }}"}}'
    for policy, answer in (("continue", '["1", null, "3"]'), ("skip", '["1", "3"]')):
        result, _ = await desk.run(flow % policy)
        assert (result.status, result.answer) == ("success", answer)
    result, _ = await desk.run(flow % "fail")
    assert result.reason.startswith(
        "a: 1 of its items failed: #1\n  #1: the tool odd broke: ValueError: even\n1 more step was skipped"
    )


async def test_a_key_that_is_null_is_as_good_as_none(desk: Desk) -> None:
    flow = {"steps": {"a": {"run": "false", "on_error": None}, "b": {"needs": ["a"], "tool": "work", "flow": None}}}
    result, state = await desk.run(flow)
    assert (result.status, state.step("b").status) == ("failed", "skipped")
    run, engine = await desk.reopen(result.run)
    await engine.revise(Revision(steps={"a": {"run": "exit 2", "on_error": None}}, again=("a",)))
    result = await run.complete(engine.carry_out)
    assert (result.status, run.state.step("b").status) == ("failed", "skipped")


async def test_a_list_is_needed_for_items(desk: Desk) -> None:
    result, _ = await desk.run(
        'steps:\n  a: {tool: work, with: {say: "1, 2"}}\n  b: {tool: work, needs: [a], for_each: "{{ steps.a.output }}"}'
    )
    assert "for_each needs a list, and this is text: '1, 2'" in result.reason


async def test_a_repeat_ends_when_its_condition_holds_or_at_its_bound(desk: Desk) -> None:
    desk.model = ScriptedModel(["v1", "v2", "v3 good"])
    flow = 'steps:\n  a: {prompt: "{% if previous %}improve {{ previous }}{% else %}write{% endif %}", repeat: {until: "\'good\' in output", max: 5}}'
    result, state = await desk.run(flow)
    assert result.answer == "v3 good"
    assert [asked(request) for request in desk.model.requests] == ["write", "improve v1", "improve v2"]
    assert state.step("a").round == 3
    desk.model = ScriptedModel(["v1", "v2"])
    result, state = await desk.run(flow.replace("max: 5", "max: 2"))
    assert result.answer == "v2"
    assert state.step("a").reason == "after 2 rounds this does not hold yet: 'good' in output"


async def test_parallel_steps_are_at_most_as_many_as_allowed(desk: Desk) -> None:
    now = most = 0

    @tool
    async def busy() -> None:
        """Count who is at work."""
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.01)
        now -= 1

    desk.tools = (busy,)
    steps = {f"s{at}": {"tool": "busy"} for at in range(6)} | {"each": {"tool": "busy", "for_each": list(range(6))}}
    await desk.run({"steps": steps, "limits": {"max_parallel": 3}})
    assert most == 3


async def test_a_model_is_asked_by_as_many_as_its_pace_allows(desk: Desk) -> None:
    now = most = 0

    class Slow(ScriptedModel):
        async def complete(self, request: Request, emit: Any) -> Any:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0.01)
            now -= 1
            return await super().complete(request, emit)

    desk.model = Slow(["x"] * 6)
    steps = {f"s{at}": {"prompt": "x"} for at in range(6)}
    await desk.run({"steps": steps, "limits": {"max_parallel": 6, "models": {"scripted": {"max_parallel": 2}}}})
    assert most == 2


async def test_a_step_that_reaches_its_own_limit_has_failed_and_others_have_theirs(desk: Desk) -> None:
    desk.model = ScriptedModel([calls(("work", {"say": str(at)})) for at in range(3)] + ["done"])
    flow = "steps:\n  a: {prompt: x, tools: [work], limits: {max_turns: 3}, on_error: continue}\n  b: {prompt: y, needs: [a], limits: {max_turns: 3}}"
    result, state = await desk.run(flow)
    assert (result.status, result.answer) == ("success", "done")
    assert state.step("a").status == "failed"
    assert "limit of 3 turns" in state.step("a").reason


async def test_the_limit_of_the_flow_suspends_it(desk: Desk) -> None:
    desk.model = ScriptedModel(["one", "two"])
    desk.limits = Limits(turns=1)
    result, state = await desk.run("steps:\n  a: {prompt: x}\n  b: {prompt: y, needs: [a]}")
    assert (result.status, result.cause) == ("suspended", "limit")
    desk.limits = Limits(turns=5)
    result, state = await desk.resume(result.run)
    assert (result.status, result.answer) == ("success", "two")
    assert state.step("a").attempt == 1


async def test_a_model_out_of_reach_suspends_the_flow_after_its_retries(desk: Desk) -> None:
    desk.model = ScriptedModel([ModelUnavailableError("gone"), ModelUnavailableError("gone"), "back"])
    flow = "steps:\n  a: {prompt: x, retry: {max: 1, backoff: 0}}\n  b: {tool: work}"
    result, state = await desk.run(flow)
    assert (result.status, result.cause, result.reason) == ("suspended", "unavailable", "gone")
    assert state.step("b").status == "success"
    result, state = await desk.resume(result.run)
    assert result.status == "success"
    assert state.step("a").output == "back"


async def test_a_cached_step_is_not_done_again_until_something_changes(desk: Desk) -> None:
    desk.more["cache"] = FolderCache(desk.folder / "cache")
    (desk.folder / "in.txt").write_text("one")
    flow = "inputs: {x: {type: string}}\nsteps:\n  a: {prompt: 'read {{ inputs.x }}', cache: {files: ['*.txt']}}"
    answers = []
    desk.model = ScriptedModel(["first", "second", "third"])
    for change in ("", "", "x", "file"):
        if change == "file":
            (desk.folder / "in.txt").write_text("two")
        result, state = await desk.run(flow, x=change if change == "x" else "")
        answers.append((result.answer, state.step("a").cached))
    assert answers == [("first", False), ("first", True), ("second", False), ("third", False)]


async def test_a_cached_file_must_still_be_there(desk: Desk) -> None:
    desk.more["cache"] = FolderCache(desk.folder / "cache")
    flow = "steps:\n  a: {run: 'date +%N > out.txt', cache: true, artifacts: [out.txt]}"
    await desk.run(flow)
    first = (desk.folder / "out.txt").read_text()
    _, state = await desk.run(flow)
    assert state.step("a").cached
    (desk.folder / "out.txt").unlink()
    _, state = await desk.run(flow)
    assert not state.step("a").cached
    assert (desk.folder / "out.txt").read_text() != first


async def test_an_attempt_without_its_files_is_not_kept(desk: Desk) -> None:
    desk.more["cache"] = FolderCache(desk.folder / "cache")
    desk.model = ScriptedModel(["I forgot", "I forgot again"])
    flow = "steps:\n  a: {prompt: write out.md, cache: true, artifacts: [out.md]}"
    for _ in range(2):
        result, _ = await desk.run(flow)
        assert result.status == "failed"
    assert len(desk.model.requests) == 2


async def test_a_folder_that_a_cached_step_made_must_be_as_it_was(desk: Desk) -> None:
    desk.more["cache"] = FolderCache(desk.folder / "cache")
    flow = "steps:\n  a: {run: 'mkdir -p made/in && date +%N > made/in/x', cache: true, artifacts: [made]}"
    file, found = desk.folder / "made" / "in" / "x", list[bool]()
    for change in ("", "", "changed", "gone"):
        if change == "changed":
            file.write_text("other")
        if change == "gone":
            shutil.rmtree(desk.folder / "made")
        result, state = await desk.run(flow)
        assert (result.status, file.exists()) == ("success", True)
        found.append(state.step("a").cached)
    assert found == [False, True, False, False]


# Questions


async def test_an_approval_suspends_and_an_answer_goes_on(desk: Desk) -> None:
    flow = 'steps:\n  a: {tool: work, with: {say: report}}\n  send: {needs: [a], approval: {message: "Send {{ steps.a.output }}?"}, tool: work, with: {say: sent}}\n  other: {tool: work}'
    result, state = await desk.run(flow)
    assert (result.status, result.cause) == ("suspended", "question")
    assert [question.question for question in result.questions] == ["Send report?"]
    assert statuses(state) == {"a": "success", "other": "success", "send": "waiting"}
    run, engine = await desk.reopen(result.run)
    await engine.answer(result.questions[0].id, "yes")
    with pytest.raises(FlowError, match="was answered before, with 'yes'"):
        await engine.answer(result.questions[0].id, "no")
    result = await run.complete(engine.carry_out)
    assert result.status == "success"
    assert run.state.step("send").output == "sent"
    assert sum(isinstance(event, QuestionAsked) for event in desk.events(result.run)) == 1


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        ("yes", "success"),
        ("是的", "success"),
        ("OK!", "success"),
        ("no", "failed"),
        ("not yet, fix the title", "failed"),
    ],
)
async def test_what_a_person_says_decides(desk: Desk, answer: str, status: str) -> None:
    async def asker(question: Question) -> str:
        return answer

    desk.asker = asker
    result, state = await desk.run("steps:\n  a: {approval: {message: 'go?'}, tool: work}")
    assert state.step("a").status == status
    if status == "failed":
        assert result.reason == f"a: not approved: {answer}"


async def test_no_retry_goes_past_an_approval_that_could_not_be_asked_for(desk: Desk) -> None:
    async def asker(_: Question) -> str:
        raise HandloomError("the terminal is gone")

    desk.asker = asker
    result, state = await desk.run(
        "steps:\n  a: {approval: {message: 'wipe?'}, tool: work, retry: {max: 3, backoff: 0}}"
    )
    assert (result.status, state.step("a").status) == ("failed", "failed")
    assert "the terminal is gone" in result.reason


async def test_two_answers_at_once_to_one_approval(desk: Desk) -> None:
    run, engine = await desk.start("steps:\n  a: {approval: {message: 'go?'}, tool: work}\n  b: {run: sleep 0.3}")
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while not run.state.open_questions():  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    said = await asyncio.gather(
        engine.answer("a?approval", "yes"), engine.answer("a?approval", "no"), return_exceptions=True
    )
    assert said[0] is None
    assert isinstance(said[1], FlowError)
    result = await working
    assert result.status == "success"
    assert run.state.step("a").status == "success"


@pytest.mark.parametrize(
    ("policy", "status", "ends"),
    [("fail", "failed", "failed"), ("skip", "skipped", "success"), ("approve", "success", "success")],
)
async def test_an_approval_that_nobody_gives_in_time(desk: Desk, policy: str, status: str, ends: str) -> None:
    flow = "steps:\n  a: {approval: {message: 'go?', timeout: 1h, on_timeout: %s}, tool: work}\n  b: {tool: work, needs: [a]}"
    first, state = await desk.run(flow % policy)
    assert first.status == "suspended"
    desk.more["clock"] = lambda: time.time() + 3_601
    result, state = await desk.resume(first.run)
    assert result.status == ends
    assert state.step("a").status == status
    assert state.step("b").status == ("success" if status == "success" else "skipped")
    assert broken_promises(desk.events(result.run)) == []


async def test_an_approval_runs_out_while_others_work(desk: Desk) -> None:
    flow = (
        "steps:\n  a: {approval: {message: 'go?', timeout: 50ms, on_timeout: skip}, tool: work}\n  b: {run: sleep 0.5}"
    )
    result, state = await desk.run(flow)
    assert result.status == "success"
    assert (state.step("a").status, state.step("a").reason) == ("skipped", "no answer in time (0.05 s)")


async def test_a_question_of_an_agent_lets_others_go_on(desk: Desk) -> None:
    from handloom.toolbox.ask_human import ask_human

    desk.tools = (ask_human,)
    desk.model = ScriptedModel([calls(("ask_human", {"question": "which?"})), "took b"])
    flow = "limits: {max_parallel: 1}\nsteps:\n  a: {prompt: take one, tools: [ask_human]}\n  b: {tool: work, with: {say: done}}"
    result, state = await desk.run(flow)
    assert (result.status, result.cause) == ("suspended", "question")
    assert statuses(state) == {"a": "waiting", "b": "success"}
    run, engine = await desk.reopen(result.run)
    await engine.answer(result.questions[0].id, "b")
    await run.complete(engine.carry_out)
    assert run.state.step("a").output == "took b"
    assert run.state.step("a").attempt == 1


# Changes


async def test_resuming_from_a_step_runs_it_and_what_needs_it_with_other_inputs(desk: Desk) -> None:
    flow = """
inputs: {x: {type: string, default: one}}
steps:
  a: {tool: work, with: {say: "a"}}
  b: {tool: work, needs: [a], with: {say: "{{ inputs.x }}"}}
  c: {tool: work, needs: [b], for_each: "{{ [steps.b.output] }}", with: {say: "{{ item }}!"}}
"""
    first, _ = await desk.run(flow)
    assert first.answer == '["one!"]'
    run, engine = await desk.reopen(first.run)
    await engine.revise(Revision(again=("b",), inputs={"x": "two"}))
    result = await run.complete(engine.carry_out)
    assert result.answer == '["two!"]'
    started = [event.span for event in desk.events(first.run) if isinstance(event, StepStarted)]
    assert started == ["a", "b", "c", "c#0", "b", "c", "c#0"]


async def test_a_plan_that_is_changed_before_the_run_begins_is_carried_out_as_it_is_then(desk: Desk) -> None:
    plan = Plan(steps={"a": Step(tool="work", with_={"say": "one"})})
    desk.more["plan"] = plan
    run, engine = await desk.start(plan)
    await engine.revise(Revision(steps={"a": Step(tool="work", with_={"say": "two"})}))
    result = await run.complete(engine.carry_out)
    assert result.answer == "two"


async def test_flat_names_are_those_of_the_changed_plan(desk: Desk) -> None:
    run, engine = await desk.start(
        "steps:\n  a: {run: sleep 0.3}\n  b: {needs: [a], tool: work, with: {say: '{{ step_a_output }}'}}"
    )
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while run.state.step("a").status != "running":  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    changed = {"tool": "work", "needs": ["a", "n-1"], "with": {"say": "{{ step_n_1_output }}{{ step_a_output }}"}}
    await engine.revise(Revision(steps={"n-1": {"tool": "work", "with": {"say": "new"}}, "b": changed}))
    result = await working
    assert result.answer == "new", result.reason


@pytest.mark.parametrize(
    ("revision", "said"),
    [
        (Revision(again=("nix",)), "there is no step 'nix'; there are: first, second"),
        (Revision(inputs={"nix": 1}), "there is no input 'nix'"),
        (Revision(inputs={"n": "x"}), "is not of type"),
        (Revision(steps={"first": None}), "there is no step 'first'"),
        (
            Revision(steps={"first": {"tool": "work"}}),
            "the step has started, so it cannot be changed, unless it runs again",
        ),
        (Revision(steps={"new": {"tool": "work", "needs": ["new2"]}}), "there is no step 'new2'"),
        (Revision(steps={"new": {"toll": "work"}}), "did you mean 'tool'"),
        (Revision(steps={"first": {"tool": "work", "needs": ["second"]}}, again=("first",)), "wait for each other"),
    ],
)
async def test_a_change_that_would_be_wrong_changes_nothing(desk: Desk, revision: Revision, said: str) -> None:
    result, _ = await desk.run(
        "inputs: {n: {type: integer, default: 1}}\nsteps:\n  first: {tool: work}\n  second: {tool: work, needs: [first]}"
    )
    before = len(desk.events(result.run))
    run, engine = await desk.reopen(result.run)
    with pytest.raises(FlowError) as error:
        await engine.revise(revision)
    assert said in str(error.value)
    await run.aclose()
    assert len(desk.events(result.run)) == before


async def test_a_paused_flow_goes_on_later(desk: Desk) -> None:
    run, engine = await desk.start(
        {"steps": {f"s{at}": {"run": "sleep 0.05", "needs": [f"s{at - 1}"] if at else []} for at in range(5)}}
    )
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while not run.state.step("s0").is_over:  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    engine.pause()
    result = await working
    assert (result.status, result.cause) == ("suspended", "interrupted")
    result, state = await desk.resume(result.run)
    assert result.status == "success"
    assert all(step.attempt == 1 for step in state.steps.values())


async def test_a_paused_flow_waits_for_no_retry(desk: Desk) -> None:
    flow = "steps:\n  a: {run: 'test -e there || { sleep 0.3; touch there; false; }', retry: {max: 1, backoff: 1h}}"
    run, engine = await desk.start(flow)
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while run.state.step("a").status != "running":  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    engine.pause()
    result = await asyncio.wait_for(working, 10)
    assert (result.status, result.cause) == ("suspended", "interrupted")
    assert (run.state.step("a").status, run.state.step("a").failures) == ("pending", 1)
    desk.more["clock"] = lambda: time.time() + 3_601
    result, state = await desk.resume(result.run)
    assert (result.status, state.step("a").attempt) == ("success", 2)


async def test_a_cancelled_flow_stops_at_a_safe_point_and_goes_on_later(desk: Desk) -> None:
    run, engine = await desk.start(
        {"steps": {f"s{at}": {"tool": "work", "needs": [f"s{at - 1}"] if at else []} for at in range(20)}}
    )
    run.watch(lambda event: run.cancel() if isinstance(event, StepEnded) and event.span == "s3" else None)
    result = await run.complete(engine.carry_out)
    assert (result.status, result.cause) == ("suspended", "interrupted")
    result, state = await desk.resume(result.run)
    assert result.status == "success"
    assert all(step.attempt == 1 for step in state.steps.values())


# A crash


async def test_what_was_under_way_is_not_repeated_unless_it_may_be(desk: Desk) -> None:
    from flows import prefix

    @tool
    async def once() -> str:
        """May not be repeated."""
        return "once"

    desk.tools = (once,)
    flow = "steps:\n  safe: {tool: work}\n  once: {tool: once}\n  told: {tool: once, retry: {max: 1, backoff: 0}}\n  shell: {run: echo x}\n  after: {tool: work, needs: [safe]}"
    result, _ = await desk.run(flow)
    events = desk.events(result.run)
    cut = next(place for place, event in enumerate(events) if isinstance(event, ToolReturned | StepEnded))
    assert {event.span for event in events[:cut] if isinstance(event, StepStarted)} == {"safe", "once", "told", "shell"}
    again = Desk(desk.folder, tools=(once,))
    result, state = await again.resume(prefix(events, cut, again.store))
    assert statuses(state) == {
        "safe": "success",
        "once": "failed",
        "told": "success",
        "shell": "failed",
        "after": "success",
    }
    assert "interrupted, outcome unknown" in state.step("once").reason
    assert (state.step("safe").attempt, state.step("told").attempt) == (1, 2)


async def test_an_agent_goes_on_from_its_last_recorded_reply(desk: Desk) -> None:
    from flows import prefix

    desk.model = ScriptedModel([calls(("work", {"say": "seen"})), "answer"])
    result, _ = await desk.run("steps:\n  a: {prompt: look, tools: [work]}")
    events = desk.events(result.run)
    cut = 1 + next(place for place, event in enumerate(events) if isinstance(event, ModelReplied))
    again = Desk(desk.folder, model=ScriptedModel(["answer after all"]))
    result, state = await again.resume(prefix(events, cut, again.store))
    assert result.answer == "answer after all"
    assert [message.text for message in state.memory("a").messages if message.role == "tool"] == ["seen"]
    assert state.step("a").attempt == 1


# Sizes


async def test_an_output_of_a_megabyte_reaches_templates_and_commands(desk: Desk) -> None:
    @tool
    def large() -> str:
        """A megabyte."""
        return "好" * 1_000_000

    desk.tools = (large,)
    flow = """
steps:
  a: {tool: large}
  b: {needs: [a], tool: work, with: {say: "{{ steps.a.output }}"}}
  c: {needs: [b], run: 'wc -m < "$step_b_output_file"'}
  d: {needs: [a], run: "head -c 1000000 /dev/zero | tr '\\\\0' x"}
"""
    result, state = await desk.run(flow)
    assert result.status == "success", result.reason
    assert state.step("b").output == "好" * 1_000_000
    assert state.step("d").output == "x" * 1_000_000
    assert state.step("c").output.strip() in ("1000000", "3000000")


@pytest.mark.parametrize("read", ["{{ steps.list.output[index] }} of {{ item }}", "{{ steps.list.output }}"])
async def test_items_that_read_a_long_list_cost_in_proportion_to_it(desk: Desk, read: str) -> None:
    async def calls(count: int) -> int:
        made = 0

        def count_call(_frame: object, event: str, _of: object) -> None:
            nonlocal made
            made += event == "call"

        listed = {"for_each": list(range(count)), "tool": "work", "with": {"say": "{{ item }}"}}
        reader = {**listed, "needs": ["list"], "with": {"say": read}}
        run, engine = await desk.start({"steps": {"list": listed, "reader": reader}})
        sys.setprofile(count_call)
        try:
            result = await run.complete(engine.carry_out)
        finally:
            sys.setprofile(None)
        assert result.status == "success", result.reason
        return made

    assert await calls(800) < 10 * await calls(100)


async def test_the_text_of_an_output_is_made_once_for_all_who_read_it(desk: Desk) -> None:
    _, state = await desk.run(
        {"steps": {"a": {"tool": "work", "with": {"say": "[1, 2]"}, "output": {"type": "array"}}}}
    )
    known = Known(state, "")
    first, second = (templates.as_text(known.view("a")["output"]) for _ in range(2))
    assert first == "[1, 2]"
    assert first is second


async def test_who_changes_a_value_that_it_was_given_changes_no_output(desk: Desk) -> None:
    @tool
    def spoil(rows: list[Any]) -> str:
        """Change what was given."""
        rows[0]["n"].append("spoilt")
        return "done"

    desk.tools = (spoil,)
    flow = """
steps:
  a: {tool: work, with: {say: '[{"n": [1]}]'}, output: {type: array}}
  b: {needs: [a], tool: spoil, with: {rows: "{{ steps.a.output }}"}}
outputs: {a: "{{ steps.a.output }}"}
"""
    result, state = await desk.run(flow)
    assert state.step("b").status == "success"
    assert json.loads(result.answer) == [{"n": [1]}]


async def test_a_prompt_too_long_gets_summaries_and_then_less(desk: Desk) -> None:
    long = "facts about tea and its price. " * 400

    def reply(request: Request) -> str:
        return "tea costs 12" if request.system.startswith("You shorten") else f"saw {len(asked(request))}"

    desk.model = ScriptedModel([reply] * 9, profile=Profile(max_context=32_768))
    flow = "limits: {context_tokens: 3500}\nsteps:\n" + "".join(
        f'  s{at}: {{tool: work, with: {{say: "{long}"}}}}\n' for at in range(3)
    )
    flow += '  a: {needs: [s0, s1, s2], prompt: "{{ steps.s0.output }}|{{ steps.s1.output }}|{{ steps.s2.output }}"}\n'
    flow += '  b: {needs: [a, s0, s1, s2], prompt: "{{ step_s0_output }}|{{ step_s1_output }}|{{ step_s2_output }}"}\n'
    result, _ = await desk.run(flow)
    assert result.status == "success", result.reason
    summaries = [event.span for event in desk.events(result.run) if isinstance(event, StepSummarised)]
    assert summaries == ["s0", "s1"], "the oldest are summarised first, and each once"
    last = asked(desk.model.requests[-1])
    assert last.startswith("tea costs 12|tea costs 12|facts about")


async def test_readers_at_the_same_time_share_one_summary_and_it_is_counted(desk: Desk) -> None:
    long = "facts about tea and its price. " * 400

    class Slow(ScriptedModel):
        async def complete(self, request: Request, emit: Any) -> Any:
            await asyncio.sleep(0.01)
            return await super().complete(request, emit)

    def reply(request: Request) -> str:
        return "tea costs 12" if request.system.startswith("You shorten") else "read"

    desk.model = Slow([reply] * 9, profile=Profile(max_context=32_768))
    flow = f'limits: {{context_tokens: 1000}}\nsteps:\n  s: {{tool: work, with: {{say: "{long}"}}}}\n'
    flow += '  a: {needs: [s], for_each: [1, 2, 3], prompt: "{{ item }} {{ steps.s.output }}"}'
    result, state = await desk.run(flow)
    assert result.status == "success", result.reason
    assert sum(isinstance(event, StepSummarised) for event in desk.events(result.run)) == 1
    assert len(desk.model.requests) == 4
    assert sum(step.usage.calls for step in state.steps.values()) == state.usage.calls == 4
    assert sum(step.usage.total_tokens for step in state.steps.values()) == state.usage.total_tokens


async def test_a_summary_counts_for_the_step_that_asked_for_it_but_is_no_turn_of_it(desk: Desk) -> None:
    long = "facts about tea and its price. " * 400

    def reply(request: Request) -> str:
        return "tea costs 12" if request.system.startswith("You shorten") else "read"

    desk.model = ScriptedModel([reply] * 9, profile=Profile(max_context=32_768))
    flow = f'limits: {{context_tokens: 1000}}\nsteps:\n  s: {{prompt: "say much"}}\n  t: {{tool: work, with: {{say: "{long}"}}}}\n'
    flow += '  a: {needs: [s, t], prompt: "{{ steps.t.output }}", limits: {max_turns: 1}}'
    result, state = await desk.run(flow)
    assert result.status == "success", result.reason
    assert {span: step.usage.calls for span, step in state.steps.items()} == {"s": 1, "t": 0, "a": 2}
    [event] = [event for event in desk.events(result.run) if isinstance(event, StepSummarised)]
    assert (event.span, event.asked_by) == ("t", "a")


async def test_a_summary_of_an_older_journal_counts_for_the_step_that_was_summarised(desk: Desk) -> None:
    result, state = await desk.run({"steps": {"a": {"tool": "work"}, "b": {"needs": ["a"], "tool": "work"}}})
    older = b'{"kind":"step.summarised","run":"%s","seq":%d,"span":"a","summary":"short","usage":{"prompt_tokens":5,"calls":1}}'
    state.apply(decode(older % (result.run.encode(), state.seq)))
    assert state.step("a").summary == "short"
    assert (state.step("a").usage.total_tokens, state.usage.total_tokens) == (5, 5)


async def test_what_is_left_out_of_a_prompt_is_said(desk: Desk) -> None:
    long = "words " * 3_000
    desk.model = ScriptedModel(["short of it", "done"], profile=Profile(max_context=32_768))
    flow = f'limits: {{context_tokens: 100}}\nsteps:\n  a: {{tool: work, with: {{say: "{long}"}}}}\n  b: {{needs: [a], prompt: "{"x " * 150}{{{{ steps.a.output }}}}"}}'
    result, _ = await desk.run(flow)
    assert result.answer == "done"
    warned = [event.text for event in desk.events(result.run) if isinstance(event, WarningRaised)]
    assert warned == ["the output of 'a' is left out of the prompt, which has no room for it"]


# Reports


async def test_a_report_tells_how_it_went(desk: Desk) -> None:
    desk.model = ScriptedModel(["answer"])
    flow = "name: 试\nsteps:\n  研究: {prompt: x}\n  b: {tool: work, with: {fail_first: 9}, retry: {max: 1, backoff: 0}}\n  c: {tool: work, needs: [b]}"
    result, state = await desk.run(flow)
    report = Report.of(state)
    assert [(row.span, row.status, row.attempts) for row in report.steps] == [
        ("研究", "success", 1),
        ("b", "failed", 2),
        ("c", "skipped", 0),
    ]
    assert report.success_rate == 0.5
    assert report.steps[0].usage.total_tokens > 0
    assert [(row.span, row.cause) for row in report.skipped] == [("c", "b")]
    table = report.text().splitlines()
    assert table[1].startswith("研究  ok       1 "), "letters that take two columns are counted as two"
    assert table[2].startswith("b     FAILED   2 ")
    assert sum(isinstance(event, StepRetried) for event in desk.events(result.run)) == 1


async def test_a_bug_of_a_worker_travels_and_leaves_the_run_resumable(desk: Desk) -> None:
    class Broken(ScriptedModel):
        async def complete(self, request: Request, emit: Any) -> Any:
            raise KeyError("a bug")

    desk.model = Broken([])
    run, engine = await desk.start("steps:\n  a: {prompt: x}")
    with pytest.raises(KeyError, match="a bug"):
        await run.complete(engine.carry_out)
    desk.model = ScriptedModel([Message.assistant("fine")])
    result, _ = await desk.resume(run.id)
    assert result.answer == "fine"


async def test_a_wait_before_a_retry_is_given_up_when_the_run_is_asked_to_stop(desk: Desk) -> None:
    run, engine = await desk.start("steps:\n  a: {tool: work, with: {fail_first: 1}, retry: {max: 1, backoff: 1h}}")
    run.watch(lambda event: run.cancel() if isinstance(event, StepRetried) else None)
    result = await run.complete(engine.carry_out)
    assert (result.status, result.cause) == ("suspended", "interrupted")
    assert run.state.step("a").status == "pending"
    desk.more["clock"] = lambda: time.time() + 3_601
    result, state = await desk.resume(result.run)
    assert (result.status, state.step("a").attempt) == ("success", 2)


async def test_a_sub_flow_that_takes_too_long_is_tried_again(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {run: 'test -e there || { touch there; sleep 30; }'}")
    result, state = await desk.run("steps:\n  s: {flow: sub.yaml, timeout: 2s, retry: {max: 1, backoff: 0}}")
    assert result.status == "success", result.reason
    assert statuses(state) == {"s": "success", "s/a": "skipped", "s/try-2/a": "success"}


async def test_a_sub_flow_that_has_ended_is_not_failed_by_its_time(desk: Desk) -> None:
    desk.tools = (nap,)
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {tool: work}")
    flow = "steps:\n  s: {flow: sub.yaml, timeout: 300ms, retry: {max: 1, backoff: 0}}\n  t: {needs: [s], tool: nap, with: {seconds: 0.6}}\n  u: {needs: [t], tool: work}"
    result, state = await desk.run(flow)
    assert result.status == "success", result.reason
    assert state.step("s").attempt == 1
    assert broken_promises(desk.events(result.run)) == []


async def test_an_approval_of_a_sub_flow_with_a_timeout_keeps_no_run_waiting(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {run: echo hi}")
    flow = (
        "steps:\n  s: {approval: {message: 'go?', timeout: 20s}, timeout: 30s, flow: sub.yaml}\n  b: {run: sleep 0.3}"
    )
    run, engine = await desk.start(flow)
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while run.state.step("s").status != "waiting":  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await engine.answer("s?approval", "yes")
    result = await asyncio.wait_for(working, 10)
    assert result.status == "success"


async def test_the_time_of_an_approval_does_not_count_for_later_questions(desk: Desk) -> None:
    asked, now = 0, time.time()

    @tool(repeatable=True)
    async def which(context: ToolContext) -> str:
        """Ask."""
        nonlocal asked
        asked += 1
        return await context.ask("which?")

    desk.tools = (which,)
    desk.model = ScriptedModel([calls(("which", {}))])
    desk.more["clock"] = lambda: now
    flow = "steps:\n  a: {approval: {message: 'go?', timeout: 1h}, prompt: take, tools: [which]}\n  b: {run: sleep 1}"
    run, engine = await desk.start(flow)
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while not run.state.open_questions():  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    await engine.answer("a?approval", "yes")
    now += 3_601
    result = await working
    assert (result.status, result.cause) == ("suspended", "question")
    assert [question.question for question in result.questions] == ["which?"]
    assert asked <= 2


async def test_an_approval_in_a_sub_flow_is_answered_while_others_work(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {approval: {message: 'go?'}, tool: work, with: {say: gone}}")
    run, engine = await desk.start("steps:\n  s: {flow: sub.yaml}\n  b: {run: sleep 0.5}")
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while not run.state.open_questions():  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    assert statuses(run.state) == {"s": "running", "s/a": "waiting", "b": "running"}
    await engine.answer("s/a?approval", "yes")
    result = await working
    assert result.status == "success", result.reason
    assert run.state.step("s/a").output == "gone"
    assert broken_promises(desk.events(result.run)) == []


async def test_a_step_of_a_sub_flow_asks_and_goes_on(desk: Desk) -> None:
    (desk.folder / "sub.yaml").write_text("steps:\n  a: {approval: {message: 'go?'}, tool: work, with: {say: gone}}")
    result, _ = await desk.run("steps:\n  s: {flow: sub.yaml}")
    assert result.status == "suspended"
    run, engine = await desk.reopen(result.run)
    await engine.answer("s/a?approval", "yes")
    result = await run.complete(engine.carry_out)
    assert (result.status, result.answer) == ("success", "gone")


async def test_an_answer_reaches_an_agent_while_others_work(desk: Desk) -> None:
    from handloom.toolbox.ask_human import ask_human

    desk.tools = (ask_human,)
    desk.model = ScriptedModel([calls(("ask_human", {"question": "which?"})), "took b"])
    run, engine = await desk.start("steps:\n  a: {prompt: take, tools: [ask_human]}\n  b: {run: sleep 0.5}")
    working = asyncio.ensure_future(run.complete(engine.carry_out))
    while run.state.step("a").status != "waiting":  # noqa: ASYNC110 - the run is watched from outside
        await asyncio.sleep(0.01)
    await asyncio.sleep(0.05)
    await engine.answer(run.state.open_questions()[0].id, "b")
    result = await working
    assert result.status == "success"
    assert run.state.step("a").output == "took b"


# What a step may do


async def test_what_the_policy_asks_about_waits_for_a_person_and_is_done_once(desk: Desk) -> None:
    made = 0

    @tool(effects={"external"})
    def send() -> str:
        """Send it."""
        nonlocal made
        made += 1
        return f"sent {made}"

    desk.tools, desk.safety = (send,), Safety(policy=Policy(mode="auto", alone="suspend"))
    result, _ = await desk.run("steps:\n  a: {tool: send}\n  b: {run: echo fine}")
    assert (result.status, result.cause, made) == ("suspended", "question", 0)
    assert result.questions[0].question.startswith("Allow send?")
    run, engine = await desk.reopen(result.run)
    await engine.answer(result.questions[0].id, "once")
    result = await run.complete(engine.carry_out)
    assert (result.status, run.state.step("a").output, made) == ("success", "sent 1", 1)


async def test_what_the_policy_denies_fails_the_step_and_is_not_tried_again(desk: Desk) -> None:
    rules = (Rule(do="deny", tool="bash", command=("rm",)), Rule(do="deny", tool="work"))
    desk.safety = Safety(policy=Policy(rules=rules))
    flow = "steps:\n  a: {tool: work, retry: {max: 3, backoff: 0}, on_error: continue}\n  b: {run: 'rm -rf x'}\n  c: {run: echo x}"
    result, state = await desk.run(flow)
    assert result.reason.startswith("b: not allowed: a rule denies it")
    assert "not allowed" in state.step("a").reason
    assert state.step("a").attempt == 1
    assert state.step("c").status == "success"
