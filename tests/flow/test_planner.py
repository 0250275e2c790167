"""The planner: what models reply becomes a plan that can be carried out, or a named error after some attempts."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import FlowError
from handloom.events import WarningRaised
from handloom.flow import check, graph
from handloom.flow.cache import FolderCache
from handloom.flow.draft import Form, read
from handloom.flow.drafted import drafted
from handloom.flow.planner import ATTEMPTS, ModelPlanner
from handloom.journal import MemoryStore
from handloom.llm.profiles import Profile, profile_for
from handloom.messages import Message
from handloom.plans import Plan
from handloom.runs import Limits, Run
from handloom.testing.models import ScriptedModel

pytestmark = pytest.mark.anyio

TOOLS = {"python_execute": "Run Python.", "web_search": "Search.", "terminate": "End."}
GOOD = {
    "steps": [
        {"name": "look", "prompt": "Find the prices of A and B.", "needs": [], "tools": ["web_search"]},
        {"name": "compare", "prompt": "Say which is cheaper.", "needs": ["look"], "tools": []},
    ]
}


def step(name: str = "a", prompt: str = "Do the thing.", **more: Any) -> dict[str, Any]:
    return {"name": name, "prompt": prompt, **more}


def steps(*rows: Any) -> str:
    return json.dumps({"steps": list(rows)}, ensure_ascii=False)


class Desk:
    """A run in which something is planned."""

    def __init__(
        self, folder: Path, *replies: Any, cache: FolderCache | None = None, profile: Profile | None = None
    ) -> None:
        self.store = MemoryStore()
        self.folder = folder
        self.model = ScriptedModel(
            [reply if isinstance(reply, str | Message) or callable(reply) else json.dumps(reply) for reply in replies],
            profile=profile,
        )
        self.planner = ModelPlanner(model=self._open, tools=lambda: TOOLS, agents=["manus", "swe"], cache=cache)
        self.run: Run | None = None

    async def _open(self, _: str) -> ScriptedModel:
        return self.model

    async def start(self) -> Run:
        self.run = await Run.start("plan", store=self.store, workspace=self.folder, limits=Limits(turns=None))
        return self.run.child("planner")

    async def plan(self, goal: str = "Which is cheaper?", **values: Any) -> Plan:
        return await self.planner.plan(goal, values, await self.start())


@pytest.fixture
def desk(tmp_path: Path) -> Callable[..., Desk]:
    return lambda *replies, **more: Desk(tmp_path, *replies, **more)


async def test_a_goal_becomes_a_plan_in_which_steps_read_what_they_need(desk: Callable[..., Desk]) -> None:
    here = desk(GOOD)
    plan = await here.plan("A 和 B 哪个更便宜？")
    assert list(plan.steps) == ["look", "compare"]
    assert plan.steps["look"].tools == ["web_search"]
    assert plan.steps["compare"].needs == ["look"]
    assert plan.steps["compare"].prompt == "Say which is cheaper.\n\nWhat came of look:\n{{ steps['look'].output }}"
    assert plan.description == "A 和 B 哪个更便宜？"
    request = here.model.requests[0]
    assert "web_search: Search." in request.messages[0].text
    assert "terminate" not in request.messages[0].text
    assert request.schema == Form(tools=["python_execute", "web_search"], agents=["manus", "swe"]).schema()


async def test_values_become_inputs_that_prompts_can_read(desk: Callable[..., Desk]) -> None:
    plan = await desk(steps(step(prompt="Greet {{ inputs.名字 }}."))).plan("greet", 名字="小明", many=[1], none=None)
    assert {name: form.type for name, form in plan.inputs.items()} == {"名字": "string", "many": "array"}


# Replies that are mended

MENDED: dict[str, tuple[str, dict[str, Any]]] = {
    "text around JSON": (
        f"Sure! Here is the plan:\n```json\n{json.dumps(GOOD)}\n```\nGood luck.",
        {"compare": ["look"]},
    ),
    "words and bare JSON": (f"The plan: {json.dumps(GOOD)} Done.", {"compare": ["look"]}),
    "a bare list": (json.dumps(GOOD["steps"]), {"compare": ["look"]}),
    "inside of plan": (json.dumps({"plan": GOOD}), {"compare": ["look"]}),
    "a list under plan": (json.dumps({"plan": GOOD["steps"]}), {"compare": ["look"]}),
    "Python's quotes": (str(GOOD), {"compare": ["look"]}),
    "other keys": (
        steps({"id": "a", "task": "Do it."}, {"id": "b", "description": "End it.", "depends_on": ["a"]}),
        {"b": ["a"]},
    ),
    "numbers as ids": (
        steps({"id": 1, "task": "Do it."}, {"id": 2, "task": "End it.", "dependencies": [1]}),
        {"step2": ["step1"]},
    ),
    "a string as list": (steps(step("a"), step("b", needs="a", tools="web_search")), {"b": ["a"]}),
    "a list of texts": (steps("Find it.", "Write it down."), {"step1": [], "step2": []}),
    "one step alone": (json.dumps(step("only")), {"only": []}),
    "steps by name": (json.dumps({"a": {"prompt": "Do it."}, "b": {"prompt": "End.", "needs": ["a"]}}), {"b": ["a"]}),
    "duplicate ids that nobody needs": (steps(step("a"), step("a")), {"a": [], "a-2": []}),
    "a name that no span takes": (steps(step("a/b #1?"), step("call-me")), {"a-b-1": [], "do-call-me": []}),
    "no names": (steps({"prompt": "Do it."}, {"name": "", "prompt": "And it."}), {"step1": [], "step2": []}),
    "a step called plan": (steps(step("plan")), {"plan-2": []}),
    "another case": (steps(step("Look"), step("b", needs=["look"])), {"b": ["Look"]}),
    "needs twice": (steps(step("a"), step("b", needs=["a", "a"])), {"b": ["a"]}),
    "a reference without its need": (steps(step("a"), step("b", "Read {{ steps.a.output }}.")), {"b": ["a"]}),
    "a flat reference": (steps(step("a"), step("b", "Read {{ step_a_output }}.")), {"b": ["a"]}),
    "braces that are no reference": (steps(step("a", "Write {{name}} and {% if %} to t.html.")), {"a": []}),
    "null where nothing is meant": (steps(step("a", needs=None, tools=None)), {"a": []}),
    "emoji and Chinese": (steps(step("查价🎉", "查价格"), step("写", "写报告", needs=["查价🎉"])), {"写": ["查价🎉"]}),
}


@pytest.mark.parametrize("case", MENDED)
async def test_a_reply_with_one_meaning_is_mended(case: str, desk: Callable[..., Desk]) -> None:
    text, expected = MENDED[case]
    here = desk(text)
    plan = await here.plan()
    assert {name: plan.steps[name].needs for name in expected} == expected
    assert len(here.model.requests) == 1
    check.check(plan)


# Replies that go back with a reason

REFUSED: dict[str, tuple[str, str]] = {
    "nothing": ("", "there is no JSON object in it"),
    "words": ("I cannot plan this.", "there is no JSON object in it"),
    "cut off": (steps(step("a"))[:-8], "the reply is no plan"),
    "no steps": (steps(), "a plan needs at least one step"),
    "empty object": ("{}", "a plan needs at least one step"),
    "a circle": (steps(step("a", needs=["b"]), step("b", needs=["a"])), "the steps wait for each other: a -> b -> a"),
    "a circle of three": (
        steps(step("a", needs=["c"]), step("b", needs=["a"]), step("c", needs=["b"])),
        "the steps wait for each other",
    ),
    "itself": (steps(step("a", needs=["a"])), "a step cannot need itself"),
    "duplicate ids that are needed": (
        steps(step("a"), step("a"), step("b", needs=["a"])),
        "2 steps are called 'a'; give each a name of its own",
    ),
    "a need of nothing": (
        steps(step("look"), step("b", needs=["lok"])),
        "there is no step 'lok'; did you mean 'look'?",
    ),
    "an unknown tool": (
        steps(step("a", tools=["web_serch"])),
        "there is no tool 'web_serch'; did you mean 'web_search'?",
    ),
    "an unknown agent": (steps(step("a", agent="manu")), "there is no agent 'manu'; did you mean 'manus'?"),
    "500 steps": (steps(*(step(f"s{at}") for at in range(500))), "500 steps are too many, at most 12"),
    "a wrong type of prompt": (steps({"name": "a", "prompt": 7}), "must be text, and is 7"),
    "a wrong type of needs": (steps(step("a", needs=[{"x": 1}])), "must be a list of names, and holds"),
    "a wrong type of tools": (steps(step("a", tools=[3.5])), "must be a list of names, and holds 3.5"),
    "a wrong type of steps": ('{"steps": 12}', "must be a list of steps, and is 12"),
    "a step that is a number": (steps(12), "a step is an object with name, prompt, needs and tools"),
    "an unknown key": (steps(step("a", command="rm -rf /")), "there is no such key"),
    "a step without work": (steps(step("a", "...")), "this says nothing to do, so the step leads nowhere"),
    "a reference to nothing": (steps(step("a", "Read {{ steps.x.output }}")), "there is no step 'x'"),
    "a reference to no input": (steps(step("a", "Read {{ inputs.x }}")), "there is no input 'x'"),
    "its own output": (steps(step("a", "Read {{ steps.a.output }}")), "a step cannot read its own output"),
    "a reference that is broken": (steps(step("a", "Read {{ steps.a. }}")), "expected name or number"),
    "two plans": (f"{json.dumps(GOOD)} or {json.dumps(GOOD)}", "more than one JSON value"),
    "NaN": ('{"steps": NaN}', "NaN is not JSON"),
    "deep nesting": ("[" * 100_000 + "]" * 100_000, "the reply is no plan"),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_bad_reply_goes_back_with_its_reason_and_the_next_one_counts(
    case: str, desk: Callable[..., Desk]
) -> None:
    text, reason = REFUSED[case]
    here = desk(text, GOOD)
    assert list((await here.plan()).steps) == ["look", "compare"]
    asked = here.model.requests[1].messages[-1]
    assert reason in asked.text
    assert asked.origin == "rejected"


@pytest.mark.parametrize("case", REFUSED)
async def test_replies_that_stay_bad_are_a_clear_error(case: str, desk: Callable[..., Desk]) -> None:
    text, reason = REFUSED[case]
    here = desk(*[text] * ATTEMPTS)
    with pytest.raises(FlowError, match="in 4 attempts") as raised:
        await here.plan()
    assert reason in str(raised.value)
    assert len(here.model.requests) == ATTEMPTS == 4


# Forms


def test_a_bound_model_can_need_only_what_comes_before() -> None:
    form = Form(tools=["python_execute"], most=3, ordered=True, earlier=["found"]).schema()
    assert list(form["properties"]) == ["step1", "step2", "step3"]
    assert form["required"] == ["step1"]
    needs = [each["properties"]["needs"]["items"]["enum"] for each in form["properties"].values()]
    assert needs == [["found"], ["found", "step1"], ["found", "step1", "step2"]]


@given(st.data())
def test_whatever_a_bound_model_writes_is_a_plan(data: st.DataObject) -> None:
    """Replies drawn from the ordered form need no second attempt."""
    count = data.draw(st.integers(1, 8))
    written: dict[str, Any] = {}
    for number in range(1, count + 1):
        before = list(written)
        written[f"step{number}"] = {
            "name": data.draw(st.text(min_size=1, max_size=12)),
            "prompt": "Do " + data.draw(st.text(max_size=30).filter(lambda text: "{{" not in text)),
            "needs": data.draw(st.lists(st.sampled_from(before), unique=True)) if before else [],
            "tools": data.draw(st.lists(st.sampled_from(["web_search"]), unique=True)),
        }
    made = drafted(read(json.dumps(written), 12))
    plan = Plan.model_validate({"steps": made})
    check.check(plan)
    assert len(plan.steps) == count
    places = {f"step{number}": name for number, name in enumerate(plan.steps, 1)}
    assert [plan.steps[places[key]].needs for key in written] == [
        [places[need] for need in row["needs"]] for row in written.values()
    ]


async def test_a_small_model_is_offered_what_it_can_handle(desk: Callable[..., Desk]) -> None:
    here = desk({"step1": step("count", needs=[], tools=["python_execute"])}, profile=profile_for("qwen2.5-coder-1.5b"))
    assert list((await here.plan()).steps) == ["count"]
    request = here.model.requests[0]
    assert "web_search" not in request.messages[0].text
    assert "manus" not in request.messages[0].text
    assert request.schema is not None
    assert "step12" in request.schema["properties"]


# The record and the cache


async def test_a_plan_that_was_made_is_not_asked_for_again(desk: Callable[..., Desk]) -> None:
    here = desk("no", GOOD)
    plan = await here.plan()
    assert here.run is not None
    again = await here.planner.plan("Which is cheaper?", {}, here.run.child("planner"))
    assert again == plan
    assert len(here.model.requests) == 2


async def test_a_run_that_stopped_between_two_attempts_goes_on_with_the_next(desk: Callable[..., Desk]) -> None:
    here = desk("no", GOOD)
    await here.plan()
    assert here.run is not None
    events = here.store.read(here.run.id)
    for length in range(1, len(events) + 1):
        later = desk(*["no", GOOD][sum(event.__class__.__name__ == "ModelReplied" for event in events[:length]) :])
        later.store.runs[here.run.id] = list(events[:length])
        run = await Run.reopen(here.run.id, store=later.store)
        plan = await later.planner.plan("Which is cheaper?", {}, run.child("planner"))
        assert list(plan.steps) == ["look", "compare"]
        await run.aclose()


async def test_a_kept_plan_is_taken_again_and_said_to_be(desk: Callable[..., Desk], tmp_path: Path) -> None:
    cache = FolderCache(tmp_path / "plans")
    plan = await desk(GOOD, cache=cache).plan()
    later = desk(cache=cache)
    assert await later.plan() == plan
    assert later.run is not None
    warnings = [event.text for event in later.store.read(later.run.id) if isinstance(event, WarningRaised)]
    assert warnings == ["the plan is taken from the cache; --no-cache makes a new one"]
    assert later.model.requests == []
    other = desk(GOOD, cache=cache)
    await other.plan("Which is dearer?")
    assert len(other.model.requests) == 1, "another goal is another plan"


async def test_a_refused_reply_is_not_kept(desk: Callable[..., Desk], tmp_path: Path) -> None:
    cache = FolderCache(tmp_path / "plans")
    with pytest.raises(FlowError):
        await desk(*["no"] * 4, cache=cache).plan()
    assert not (tmp_path / "plans").exists()


# Changes


async def test_a_comment_changes_the_plan_and_what_a_draft_cannot_say_stays(desk: Callable[..., Desk]) -> None:
    old = Plan.model_validate(
        {
            "description": "goal",
            "steps": {
                "look": {"prompt": "Look.", "retry": {"max": 3}, "tools": ["web_search"]},
                "check": {"run": "test -s out.txt", "needs": ["look"]},
            },
        }
    )
    here = desk(
        steps(
            step("look", "Look twice."), step("check", "test -s out.txt", needs=["look"]), step("end", needs=["check"])
        )
    )
    plan = await here.planner.revise(old, "look twice", await here.start())
    assert plan.steps["look"].prompt == "Look twice."
    assert plan.steps["look"].tools is None
    assert plan.steps["look"].retry == old.steps["look"].retry
    assert plan.steps["check"].run == "test -s out.txt"
    assert plan.steps["end"].needs == ["check"]
    assert "look twice" in here.model.requests[0].messages[0].text


FAILED = Plan.model_validate(
    {
        "steps": {
            "a": {"prompt": "Find."},
            "b": {"prompt": "Fetch.", "needs": ["a"], "artifacts": ["x.txt"], "on_error": "replan"},
            "c": {"prompt": "End.", "needs": ["b"]},
        }
    }
)


async def test_replanning_puts_other_steps_in_the_place_of_one(desk: Callable[..., Desk]) -> None:
    here = desk(steps(step("c", "Another way.", needs=["a"]), step("b", "Put together.", needs=["step1"])))
    changes = await here.planner.replan(FAILED, "b", "404", await here.start())
    assert list(changes) == ["c-2", "b"]
    assert changes["b"]["needs"] == ["c-2"]
    assert changes["b"]["artifacts"] == ["x.txt"]
    assert changes["c-2"]["needs"] == ["a"]
    assert "404" in here.model.requests[0].messages[0].text


async def test_replanning_cannot_need_what_waits_for_it(desk: Callable[..., Desk]) -> None:
    here = desk(steps(step("b", needs=["c"])), steps(step("b", "Try the mirror.", needs=["a"])))
    changes = await here.planner.replan(FAILED, "b", "404", await here.start())
    assert list(changes) == ["b"]
    assert "there is no step 'c'" in here.model.requests[1].messages[-1].text


async def test_a_planner_may_know_no_other_way(desk: Callable[..., Desk]) -> None:
    here = desk('{"steps": []}')
    assert await here.planner.replan(FAILED, "b", "404", await here.start()) == {}


def test_steps_of_a_draft_form_no_circle_unless_told() -> None:
    made = drafted(read(json.dumps(GOOD), 12))
    assert graph.circle({name: each.get("needs", []) for name, each in made.items()}) == []
