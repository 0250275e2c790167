"""How flows are shown: steps at work side by side, the transcript of a flow, statistics over many runs."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from handloom.events import (
    ModelDelta,
    PlanMade,
    QuestionAsked,
    RunStarted,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolReturned,
)
from handloom.messages import ToolCall, ToolResult
from handloom.state import State
from handloom.views.console import LiveView
from handloom.views.statistics import Statistics, percentiles
from handloom.views.transcript import markdown
from handloom.views.underway import MOST_ROWS, Underway

PLAN = {
    "name": "两步",
    "steps": {
        "a": {"prompt": "Look\nhere"},
        "b": {"run": "true", "needs": ["a"]},
        "c": {"tool": "t", "for_each": [1, 2]},
    },
}
CALL = ToolCall(id="c1", name="python_execute", arguments={"code": "1"})


def test_each_step_at_work_has_a_row_with_what_it_does() -> None:
    view = Underway()
    view.apply(PlanMade(plan=PLAN), 0.0)
    view.apply(StepStarted(span="a", attempt=1), 1.0)
    view.apply(StepStarted(span="c", attempt=1, items=(1, 2)), 1.0)
    view.apply(StepStarted(span="c#1", attempt=1), 2.0)
    view.apply(ModelDelta(span="a/turn-1", text="金阁寺\x1b[2J"), 3.0)
    view.apply(ToolCalled(span="c#1/call-x", call=CALL), 3.0)
    assert view.rows(5.0) == ["a  4 s  金阁寺", 'c#1  3 s  python_execute(code="1")']
    assert view.summary == "0 of 3 steps over, 2 at work"
    view.apply(QuestionAsked(span="a", id="a?1", question="?"), 6.0)
    view.apply(StepEnded(span="c#1", status="success"), 6.0)
    view.apply(StepEnded(span="a", status="failed", reason="x"), 6.0)
    assert (view.rows(7.0), view.summary) == ([], "1 of 3 steps over, 1 failed, 0 at work")


def test_many_steps_at_work_are_cut_to_some_rows() -> None:
    view = Underway()
    view.apply(PlanMade(plan={"steps": {f"s{at}": {"run": "true"} for at in range(50)}}), 0.0)
    for at in range(50):
        view.apply(StepStarted(span=f"s{at}", attempt=1), float(at))
    assert len(view.rows(60.0)) == MOST_ROWS + 1
    assert view.rows(60.0)[-1] == "and 42 more"


def test_a_terminal_shows_the_steps_that_run_side_by_side() -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=100, height=30, color_system=None)
    with LiveView(console) as view:
        view(PlanMade(run="r", plan=PLAN))
        view(StepStarted(run="r", span="a", attempt=1))
        view(StepStarted(run="r", span="b", attempt=1))
        view(StepEnded(run="r", span="a", status="success", output="done"))
        view._live.refresh()
    shown = stream.getvalue()
    assert "1 of 3 steps over, 1 at work" in shown
    assert "a: success: done" in shown


def test_the_transcript_of_a_flow_has_its_plan_and_a_heading_for_each_step() -> None:
    text = markdown(
        [
            RunStarted(run="r1", task="Two steps", workspace="/w"),
            PlanMade(plan=PLAN),
            StepStarted(span="a", attempt=1),
            ToolReturned(span="a/call-c1", call=CALL, result=ToolResult(text="1")),
            StepEnded(span="a", status="success", output="金阁寺"),
            StepStarted(span="b", attempt=2),
            StepEnded(span="b", status="failed", reason="exit code 3"),
        ]
    )
    assert "## Plan 两步\n\n- a: Look here\n- b: true (needs a)\n- c: t" in text
    assert "## Step a\n\n**python_execute** (ok" in text
    assert "**Step a:** success\n\n~~~~\n金阁寺\n~~~~" in text
    assert "## Step b, attempt 2\n\n**Step b:** failed: exit code 3" in text


def state(*events: object) -> State:
    state = State()
    for event in events:
        state.apply(event)  # pyright: ignore[reportArgumentType]
    return state


def test_statistics_count_steps_over_runs_whatever_attempt_and_item() -> None:
    statistics = Statistics()
    start = RunStarted(run="r", task="t", workspace="/")
    for status in ("success", "failed"):
        statistics.add(
            state(
                start,
                PlanMade(plan=PLAN),
                StepStarted(span="c", attempt=1, items=(1, 2)),
                StepStarted(span="c#0", attempt=1, at=1.0),
                StepEnded(span="c#0", status="success", at=3.0),
                StepStarted(span="c#1", attempt=2, at=1.0),
                StepEnded(span="c#1", status=status, at=2.0),
                ToolReturned(span="x", call=CALL, result=ToolResult(text="", ok=False)),
            )
        )
    (count,) = statistics.steps.values()
    assert list(statistics.steps) == [("两步", "c")]
    assert (count.status["success"], count.status["failed"], count.attempts) == (3, 1, 6)
    assert percentiles(count.seconds) == {"p50": 1.0, "p90": 2.0, "p99": 2.0}
    assert "python_execute  2      2       100%" in statistics.text()
    assert statistics.as_json()["tools"]["python_execute"]["failed"] == 2


def test_statistics_over_nothing() -> None:
    assert Statistics().text() == "no runs"
    assert Statistics().success_rate is None


@given(st.lists(st.floats(0, 1e6), min_size=1))
def test_percentiles_are_values_that_were_measured_in_order(values: list[float]) -> None:
    found = percentiles(values)
    assert set(found.values()) <= set(values)
    assert found["p50"] <= found["p90"] <= found["p99"] <= max(values)
