"""What came of a whole plan: its outputs, or why it failed."""

from typing import Any

from handloom.flow import graph, spans, templates
from handloom.flow.progress import Scope
from handloom.flow.values import Known
from handloom.state import State


def result_of(state: State, scope: str) -> Any:
    """The outputs that the plan declares, the one itself where there is only one; else what its last steps made."""
    known = Known(state, scope)
    declared: dict[str, Any] = known.plan.plan.get("outputs") or {}
    if declared:
        found = templates.fill_all(declared, known.values("", templates.reads(declared)))
        return next(iter(found.values())) if len(found) == 1 else found
    after = graph.dependants({name: step.get("needs", ()) for name, step in known.plan.steps.items()})
    last = [
        name
        for name in known.plan.steps
        if not after[name] and state.step(spans.inside(scope, name)).status == "success"
    ]
    return known.output(last[0]) if len(last) == 1 else {name: known.output(name) for name in last}


def failures(state: State, scope: str) -> str:
    """The steps whose failure fails the plan, and why; empty when there is none."""
    plan = state.plans[scope]
    form = Scope(plan.steps, plan.plan.get("defaults", {}).get("on_error", "fail"))
    lines: list[str] = []
    skipped = 0
    for name in plan.steps:
        step = state.step(spans.inside(scope, name))
        if step.status == "failed" and form.blocks(name, step.status, step.cause):
            lines.append(f"{name}: {step.reason}{_items(state, spans.inside(scope, name))}")
        skipped += step.status == "skipped" and bool(step.cause)
    if not lines:
        return ""
    more = f"\n{skipped} more {'step was' if skipped == 1 else 'steps were'} skipped because of that" if skipped else ""
    return "\n".join(lines) + more


def _items(state: State, unit: str) -> str:
    """The reasons of the first items that failed."""
    count = len(state.step(unit).items or ())
    failed = [(at, item.reason) for at in range(count) if (item := state.step(f"{unit}#{at}")).status == "failed"]
    return "".join(f"\n  #{at}: {reason}" for at, reason in failed[:3])
