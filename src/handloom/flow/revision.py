"""Revision: a change of a plan while it is carried out, checked before anything of it happens."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from handloom.errors import FlowError
from handloom.events import PlanRevised
from handloom.flow import files, graph, inputs, spans
from handloom.flow.check import ANYTHING, Surroundings, check
from handloom.flow.problems import Problem, meant
from handloom.messages import Json
from handloom.plans import Step, without_nulls
from handloom.state import State


@dataclass(frozen=True, kw_only=True)
class Revision:
    """`steps` are new or changed ones by name, None for those that go; `inputs` are new values; `again` are steps that run once more, with all that need them."""

    steps: Mapping[str, "Step | Json | None"] = field(default_factory=dict[str, "Step | Json | None"])
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    again: tuple[str, ...] = ()
    reason: str = ""
    scope: str = ""


def revised(state: State, revision: Revision, around: Surroundings = ANYTHING) -> PlanRevised:
    """The event of a revision. Raises: FlowError when the plan would be wrong, or a step that has started would change without running again."""
    known = state.plans.get(revision.scope)
    if known is None:
        raise FlowError(f"this run has no plan {revision.scope!r}; is it the run of a flow?")
    changes = {name: _as_json(step) for name, step in revision.steps.items()}
    steps = {name: step for name, step in {**known.steps, **changes}.items() if step is not None}
    plan = files.plan_of({**known.plan, "steps": steps})
    check(plan, around)
    needs = {name: step.needs for name, step in plan.steps.items()}
    problems = [
        Problem(("steps", name), f"there is no step {name!r}; {meant(name, plan.steps)}")
        for name in revision.again
        if name not in plan.steps
    ]
    problems += [
        Problem(("inputs", name), f"there is no input {name!r}; {meant(name, plan.inputs)}")
        for name in revision.inputs
        if name not in plan.inputs
    ]
    for name, value in revision.inputs.items():
        problems += inputs.faults(("inputs", name), plan.inputs[name], value) if name in plan.inputs else []
    if problems:
        raise FlowError(*problems)
    again = {*revision.again, *graph.all_dependants(revision.again, needs)}
    for name, step in changes.items():
        if name in known.steps and name not in again and _has_started(state, revision.scope, name):
            what = "be changed" if step is not None else "be removed"
            problems.append(
                Problem(("steps", name), f"the step has started, so it cannot {what}, unless it runs again")
            )
    if problems:
        raise FlowError(*problems)
    order = tuple(name for name in plan.steps if name in again)
    return PlanRevised(
        span=revision.scope, steps=changes, inputs=dict(revision.inputs), again=order, reason=revision.reason
    )


def _has_started(state: State, scope: str, name: str) -> bool:
    step = state.steps.get(spans.inside(scope, name))
    return step is not None and (step.attempt > 0 or step.status != "pending")


def _as_json(step: "Step | Json | None") -> Json | None:
    if isinstance(step, Step):
        step = step.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return None if step is None else without_nulls(step)
