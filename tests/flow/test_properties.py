"""What holds of every flow, whatever its graph, its failures, its crashes and the changes made to it."""

import asyncio
import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from flows import OVER, Desk, broken_promises, outputs, prefix, statuses
from hypothesis import given, settings
from hypothesis import strategies as st

from handloom.errors import FlowError
from handloom.flow.revision import Revision
from handloom.journal import MemoryStore
from handloom.state import Question

FOLDER = Path(tempfile.mkdtemp(prefix="handloom-flows-"))
(FOLDER / "sub.yaml").write_text(
    """
inputs: {fails: {type: integer}}
steps:
  a: {tool: work, with: {fail_first: "{{ inputs.fails }}", wait: 2, say: a}}
  b: {tool: work, for_each: [1, 2], with: {say: "{{ item }}", wait: 1}}
  c: {tool: work, needs: [a, b], with: {say: "c {{ steps.b.output }}"}}
""",
    encoding="utf-8",
)
atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)


@st.composite
def steps(draw: st.DrawFn, name: str, before: list[str]) -> dict[str, Any]:
    """A step that does something and may fail, wait, repeat or be left out."""
    fails = draw(st.integers(0, 3))
    given: dict[str, Any] = {"wait": draw(st.integers(0, 4)), "fail_first": fails, "say": f"{name} {{{{ not }}}}"}
    step: dict[str, Any] = {
        "tool": "work",
        "needs": draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else [],
    }
    kind = draw(st.sampled_from(["plain", "plain", "retry", "if", "each", "repeat", "approval", "sub"]))
    given["say"] = name
    if fails and kind in ("plain", "each"):
        step["retry"] = {"max": draw(st.integers(0, 3)), "backoff": 0}
    match kind:
        case "retry":
            step["retry"] = {"max": 3, "backoff": "1ms"}
        case "if":
            step["if"] = draw(st.sampled_from(["true", "false", "1 > 2 or 3"]))
        case "each":
            step["for_each"] = list(range(draw(st.integers(0, 4))))
            given["say"] = f"{name} {{{{ item }}}}"
        case "repeat":
            step["repeat"] = {"until": "output == '2'", "max": draw(st.integers(1, 3))}
            given |= {"say": "{{ round }}", "fail_first": 0}
        case "sub":
            del step["tool"]
            step |= {"flow": "sub.yaml", "for_each": [1] if draw(st.booleans()) else None}
            given = {"fails": fails}
        case "approval":
            step["approval"] = {"message": draw(st.sampled_from(["yes?", "no?"]))}
        case _:
            pass
    step["on_error"] = draw(st.sampled_from(["fail", "fail", "skip", "continue"]))
    return {key: value for key, value in step.items() if value is not None} | {"with": given}


@st.composite
def flows(draw: st.DrawFn) -> dict[str, Any]:
    names = [f"步{at}" for at in range(draw(st.integers(1, 9)))]
    found = {name: draw(steps(name, names[:at])) for at, name in enumerate(names)}
    return {"steps": found, "limits": {"max_parallel": draw(st.integers(1, 5))}}


async def by_the_question(question: Question) -> str:
    await asyncio.sleep(0)
    return "yes" if question.question.startswith("yes") else "no"


def desk(**more: Any) -> Desk:
    return Desk(FOLDER, asker=by_the_question, **more)


def expected(flow: dict[str, Any]) -> dict[str, str]:
    """How each step must end, told by the rules alone."""
    found: dict[str, str] = {}
    blocking: set[str] = set()
    for name, step in flow["steps"].items():
        if blocking & set(step["needs"]):
            found[name] = "skipped"
            blocking.add(name)
            continue
        if step.get("if") == "false":
            found[name] = "skipped"
            continue
        tries = 1 + step.get("retry", {}).get("max", 0)
        fails = (
            step["with"].get("fail_first", 0) >= tries
            or step["with"].get("fails", 0) > 0
            or step.get("approval", {}).get("message") == "no?"
        )
        each, policy = step.get("for_each"), step["on_error"]
        if each is not None:
            fails = fails and bool(each) and policy == "fail"  # items that failed are left out, or are null
        found[name] = {"fail": "failed", "continue": "failed", "skip": "skipped"}[policy] if fails else "success"
        if fails and policy != "continue":
            blocking.add(name)
    return found


@settings(max_examples=150)
@given(flows())
def test_any_graph_ends_as_its_rules_say(flow: dict[str, Any]) -> None:
    async def check() -> None:
        at = desk()
        result, state = await at.run(flow)
        assert broken_promises(at.events(result.run)) == []
        assert {name: state.step(name).status for name in flow["steps"]} == expected(flow)
        blocked = any(
            expected(flow)[name] == "failed" and step["on_error"] == "fail" for name, step in flow["steps"].items()
        )
        assert result.status == ("failed" if blocked else "success"), result.reason

    asyncio.run(check())


@settings(max_examples=100)
@given(flows(), st.floats(0, 1))
def test_any_beginning_of_the_record_resumes_to_the_same_end(flow: dict[str, Any], share: float) -> None:
    async def check() -> None:
        at = desk()
        result, state = await at.run(flow)
        events = at.events(result.run)
        store = MemoryStore()
        run_id = prefix(events, 2 + int(share * (len(events) - 2)), store)
        again, state_again = await desk(store=store).resume(run_id)
        assert broken_promises(store.read(run_id)) == []
        assert (again.status, again.answer) == (result.status, result.answer)
        assert statuses(state_again) == statuses(state)
        assert outputs(state_again) == outputs(state)

    asyncio.run(check())


@settings(max_examples=100)
@given(flows(), st.floats(0, 1), st.data())
def test_a_run_resumed_from_any_step_at_any_moment_keeps_the_promises(
    flow: dict[str, Any], share: float, data: st.DataObject
) -> None:
    step = data.draw(st.sampled_from(list(flow["steps"])))

    async def check() -> None:
        at = desk()
        result, _ = await at.run(flow)
        events = at.events(result.run)
        store = MemoryStore()
        run_id = prefix(events, 2 + round(share * (len(events) - 2)), store)
        again = desk(store=store)
        run, engine = await again.reopen(run_id)
        await engine.revise(Revision(again=(step,)))
        result_again = await run.complete(engine.carry_out)
        assert broken_promises(store.read(run_id)) == []
        assert result_again.status in ("success", "failed")
        assert all(run.state.step(name).status in OVER for name in flow["steps"])

    asyncio.run(check())


@settings(max_examples=100)
@given(flows(), st.data())
def test_any_change_of_the_plan_while_it_runs_keeps_the_promises(flow: dict[str, Any], data: st.DataObject) -> None:
    names = list(flow["steps"])
    new = data.draw(steps("new", names))
    changed = data.draw(st.sampled_from(names))
    revision = data.draw(
        st.sampled_from(
            [
                Revision(steps={"new": new}),
                Revision(steps={changed: {"tool": "work", "with": {"say": "changed"}}}),
                Revision(steps={changed: None}),
                Revision(again=(changed,)),
                Revision(steps={"new": new, changed: {**flow["steps"][changed], "if": "true"}}, again=(changed,)),
            ]
        )
    )
    moment = data.draw(st.integers(0, 30))

    async def check() -> None:
        at = desk()
        run, engine = await at.start(flow)
        working = asyncio.ensure_future(run.complete(engine.carry_out))
        for _ in range(moment):
            await asyncio.sleep(0)
        if not working.done():
            try:
                await engine.revise(revision)
            except FlowError as error:
                assert str(error)  # noqa: PT017 - that it says why is all that is asked of it
        result = await working
        assert broken_promises(at.events(result.run)) == []
        assert all(run.state.step(name).status in OVER for name in run.state.plans[""].steps)

    asyncio.run(check())
