"""The planning tool and the agent that works with it: plans follow from the calls of a conversation."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import handloom
from handloom.errors import ToolError
from handloom.events import ToolReturned
from handloom.journal import MemoryStore
from handloom.testing.models import ScriptedModel, calls, finish
from handloom.testing.tools import FakeContext
from handloom.toolbox.planned_steps import read_steps
from handloom.toolbox.planning import MARKS, board_of, planning

pytestmark = pytest.mark.anyio

CREATE = {
    "command": "create",
    "plan_id": "trip",
    "title": "去京都",
    "steps": ["Book", "Pack (needs 1)", "Go (needs 1, 2)"],
}
SHOWN = "Plan trip: 去京都 (0 of 3 steps done)\n[ ] 1. Book\n[ ] 2. Pack (needs 1)\n[ ] 3. Go (needs 1, 2)"


async def call(folder: Path, *made: dict[str, Any]) -> str:
    """The last call, after those before it have succeeded."""
    result = await planning.run(made[-1], FakeContext(folder, earlier=made[:-1]))
    return result.text


async def test_a_plan_is_made_marked_and_shown(tmp_path: Path) -> None:
    assert await call(tmp_path, CREATE) == SHOWN
    marked = {"command": "mark_step", "step_index": 1, "step_status": "completed", "step_notes": "两张票"}
    text = await call(tmp_path, CREATE, marked)
    assert "(1 of 3 steps done)\n[x] 1. Book\n      两张票\n[ ] 2." in text
    assert await call(tmp_path, CREATE, marked, {"command": "get"}) == text


async def test_an_update_keeps_the_marks_of_steps_that_stay(tmp_path: Path) -> None:
    marked = {"command": "mark_step", "step_index": 1, "step_status": "completed"}
    update = {"command": "update", "plan_id": "trip", "steps": ["Ask", "Book", "Pack (needs 2)"]}
    text = await call(tmp_path, CREATE, marked, update)
    assert text.splitlines()[1:] == ["[ ] 1. Ask", "[x] 2. Book", "[ ] 3. Pack (needs 2)"]
    titled = await call(tmp_path, CREATE, {"command": "update", "plan_id": "trip", "title": "New"})
    assert titled == SHOWN.replace("去京都", "New")


async def test_one_plan_is_active_at_a_time(tmp_path: Path) -> None:
    other = {"command": "create", "plan_id": "b", "title": "B", "steps": "x"}
    assert (await call(tmp_path, CREATE, other, {"command": "list"})).splitlines() == [
        "  Plan trip: 去京都 (0 of 3 steps done)",
        "* Plan b: B (0 of 1 steps done)",
    ]
    back = {"command": "set_active", "plan_id": "trip"}
    assert (await call(tmp_path, CREATE, other, back, {"command": "get"})) == SHOWN
    gone = {"command": "delete", "plan_id": "trip"}
    assert await call(tmp_path, CREATE, other, back, gone) == "The plan trip is deleted."
    with pytest.raises(ToolError, match=r"give a `plan_id`|no plan"):
        await call(tmp_path, CREATE, other, back, gone, {"command": "get"})


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            "1. Look\n2) Think (needs 1)\n\n- Write (after 1 and 2)",
            [("Look", []), ("Think", ["1"]), ("Write", ["1", "2"])],
        ),
        ("• 查资料\n• 写报告 (需要 1)", [("查资料", []), ("写报告", ["1"])]),
        ('["Look", "Think"]', [("Look", []), ("Think", [])]),
        ("Step 1: Look\nStep 2: [ ] Think (needs step 1)", [("Look", []), ("Think", ["1"])]),
        (["3 eggs (a dozen)", "2. Fry"], [("3 eggs (a dozen)", []), ("Fry", [])]),
    ],
)
def test_steps_are_read_from_a_list_or_a_text(steps: Any, expected: list[tuple[str, list[str]]]) -> None:
    assert [(step.prompt, step.needs) for step in read_steps(steps).values()] == expected


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        ({"command": "create", "steps": ["a"]}, "give the plan a `plan_id`"),
        ({"command": "create", "plan_id": "b"}, "give the plan `steps`"),
        ({"command": "create", "plan_id": "b", "steps": " \n"}, "the steps are empty"),
        ({"command": "create", "plan_id": "b", "steps": ["x"] * 51}, "51 steps are too many"),
        ({"command": "create", "plan_id": "b", "steps": ["a (needs 2)", "c"]}, "step 1 can need only earlier steps"),
        ({"command": "create", "plan_id": "trip", "steps": ["a"]}, "there is a plan 'trip' already"),
        ({"command": "update", "plan_id": "x", "steps": ["a"]}, "there is no plan 'x'; there are: 'trip'"),
        ({"command": "mark_step", "step_index": 4, "step_status": "completed"}, "`step_index` is one of 1 to 3"),
        ({"command": "mark_step", "step_index": 1}, "give a `step_status`"),
        ({"command": "set_active"}, "plan_id"),
    ],
)
async def test_a_wrong_call_says_what_to_do(made: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=reason):
        await call(tmp_path, CREATE, made)


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(list(MARKS)))))
def test_the_newest_mark_of_a_step_counts(marks: list[tuple[int, str]]) -> None:
    made = [{"command": "mark_step", "step_index": at, "step_status": status} for at, status in marks]
    tracked = board_of([CREATE, *made]).plans["trip"]
    assert {name: tracked.status_of(name) for name in "123"} == {
        name: next((status for at, status in reversed(marks) if str(at) == name), "not_started") for name in "123"
    }


async def test_the_agent_sees_its_plan_each_turn_and_after_a_resume(tmp_path: Path) -> None:
    store = MemoryStore()
    replies = [
        calls(("planning", CREATE)),
        calls(("planning", {"command": "mark_step", "step_index": 9, "step_status": "completed"})),
        calls(("planning", {"command": "mark_step", "step_index": 1, "step_status": "in_progress"})),
        finish("booked"),
    ]
    model = ScriptedModel(replies)
    result = await handloom.run("去京都", agent="planning", model=model, store=store, workspace=tmp_path)
    assert (result.status, result.answer) == ("success", "booked")
    prompts = [request.messages[-1].text for request in model.requests]
    assert "There is no plan yet" in prompts[0]
    assert "[ ] 1. Book" in prompts[1]
    assert "[>] 1. Book" in prompts[3]
    events = store.read(result.run)
    for length in range(3, len(events)):
        done = sum(type(event).__name__ == "ModelReplied" for event in events[:length])
        later = MemoryStore()
        later.runs[result.run] = list(events[:length])
        again = await handloom.resume(result.run, model=ScriptedModel(replies[done:]), store=later)
        assert (again.status, again.answer) == ("success", "booked")
        returned = [event.result.text for event in later.read(result.run) if isinstance(event, ToolReturned)]
        assert sum(text == SHOWN for text in returned) == 1
        assert "[>] 1. Book" in returned[2]
