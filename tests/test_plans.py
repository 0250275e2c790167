"""Plans as values: strict, frozen, and the same from any source."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from handloom.flow import graph
from handloom.plans import Plan, Retry, Step, StepLimits
from handloom.plans.duration import seconds


def test_a_step_has_one_action_and_only_what_belongs_to_it() -> None:
    assert Step(tool="x", with_={"a": 1}).action == "tool"
    for fields in ({}, {"run": "x", "prompt": "y"}, {"run": "x", "agent": "manus"}, {"tool": "x", "tools": []}):
        with pytest.raises(ValidationError):
            Step.model_validate(fields)


@pytest.mark.parametrize("name", ["a", "研究", "第一步 分析", "a-b.c", "🙂", "x" * 100])
def test_names_of_any_language_are_names(name: str) -> None:
    assert list(Plan(steps={name: Step(run="true")}).steps) == [name]


@pytest.mark.parametrize("name", ["", " a", "a ", "a/b", "a#1", "a?b", "turn-1", "call-x", "try-2", "x" * 101, "a\nb"])
def test_names_that_mean_something_in_a_span_are_none(name: str) -> None:
    with pytest.raises(ValidationError):
        Plan(steps={name: Step(run="true")})


def test_a_plan_is_frozen_and_comes_back_from_its_json() -> None:
    plan = Plan.model_validate({"steps": {"a": {"run": "true", "if": "true", "with": {"x": 1}, "timeout": "5m"}}})
    assert Plan.model_validate(plan.as_json()) == plan
    assert plan.as_json()["steps"]["a"] == {"run": "true", "if": "true", "with": {"x": 1}, "timeout": 300.0}
    nulls = Plan.model_validate({"steps": {"a": {"run": "true", "flow": None, "on_error": None, "with": {"x": None}}}})
    assert nulls.as_json()["steps"]["a"] == {"run": "true", "with": {"x": None}}, "a key that is null says nothing"
    with pytest.raises(ValidationError):
        plan.name = "other"  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("text", "value"),
    [("500ms", 0.5), ("90s", 90), ("5m", 300), ("1.5h", 5_400), (" 2 d ", 172_800), (7, 7.0), ("8", 8.0)],
)
def test_durations(text: object, value: float) -> None:
    assert seconds(text) == value


def test_the_wait_before_a_retry_doubles_up_to_a_bound() -> None:
    assert [Retry(backoff=2).delay(failures) for failures in (1, 2, 3, 20)] == [2, 4, 8, 600]


def test_limits_over_limits() -> None:
    assert StepLimits(max_turns=3).over(StepLimits(max_turns=9, max_tokens=5)) == StepLimits(max_turns=3, max_tokens=5)


NEEDS = st.integers(1, 12).flatmap(
    lambda size: st.fixed_dictionaries(
        {str(at): st.lists(st.integers(0, size - 1).map(str), max_size=3, unique=True) for at in range(size)}
    )
)


@given(NEEDS)
def test_a_graph_has_an_order_or_a_circle(needs: dict[str, list[str]]) -> None:
    placed = [name for layer in graph.layers(needs) for name in layer]
    path = graph.circle(needs)
    if path:
        assert path[0] == path[-1]
        assert all(after in needs[before] for before, after in pairwise(path))
        assert set(path).isdisjoint(placed)
    else:
        assert sorted(placed) == sorted(needs)
        assert all(placed.index(other) < placed.index(name) for name in needs for other in needs[name])
    assert all(name in graph.all_needs(other, needs) for name in needs for other in graph.all_dependants([name], needs))
