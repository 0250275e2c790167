"""How the events of a flow read for people."""

import pytest

from handloom.events import (
    Event,
    PlanMade,
    PlanRevised,
    StepEnded,
    StepQueued,
    StepRepeated,
    StepRetried,
    StepStarted,
    StepSummarised,
    TurnStarted,
)
from handloom.views.lines import line


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (PlanMade(plan={"name": "试", "steps": {"a": {}, "b": {}}}), "plan 试: 2 steps"),
        (PlanMade(span="s", plan={"name": "sub", "steps": {"a": {}}}), "s: plan sub: 1 steps"),
        (PlanRevised(again=("a", "b"), inputs={"x": 1}, reason="why"), "plan revised: inputs x; again a, b (why)"),
        (StepQueued(span="a"), "a: due"),
        (StepQueued(span="a", cleared=True), "a: waits for its turn"),
        (StepStarted(span="研究#0"), "研究#0: started"),
        (StepStarted(span="a", attempt=3), "a: started, attempt 3"),
        (StepStarted(span="a", items=(1, 2)), "a: 2 items"),
        (StepRetried(span="a", attempt=1, reason="no\nway", delay=2), "a: failed (no way), tried again in 2.0 s"),
        (StepRepeated(span="a", round=2, output="x"), "a: round 2 is over, another follows"),
        (StepSummarised(span="a", summary="short"), "a: its output was summarised"),
        (StepSummarised(span="a", summary="short", asked_by="b#0"), "a: its output was summarised for b#0"),
        (StepEnded(span="a", status="success", output={"价": 1}), 'a: success: {"价": 1}'),
        (StepEnded(span="a", status="success", cached=True), "a: success (from the cache)"),
        (StepEnded(span="b", status="skipped", reason="because of 'a'", cause="a"), "b: skipped: because of 'a'"),
        (StepEnded(span="b", status="failed", reason="\x1b[31mred\x07"), "b: failed: red"),
        (TurnStarted(span="a#1/turn-2", turn=2), "a#1: turn 2"),
        (TurnStarted(span="turn-2", turn=2), "turn 2"),
    ],
)
def test_an_event_of_a_flow_is_one_line(event: Event, text: str) -> None:
    assert line(event) == text
