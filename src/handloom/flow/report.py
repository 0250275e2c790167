"""Report: how a run of a flow went, step by step and as a whole; a value made of a state."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from handloom.flow import spans
from handloom.flow.outputs import result_of
from handloom.messages import Usage
from handloom.state import State, ToolCount
from handloom.steps import StepState
from handloom.tables import table

SIGNS = {
    "success": "ok",
    "failed": "FAILED",
    "skipped": "skipped",
    "running": "running",
    "waiting": "waits",
    "pending": "-",
}


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One step, or one item of a step. `seconds` are from its first start to its end; `usage` has the tokens and the cost."""

    span: str
    status: str
    reason: str = ""
    cause: str = ""
    attempts: int = 0
    rounds: int = 1
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    cached: bool = False


@dataclass(frozen=True, kw_only=True)
class Report:
    """A run of a flow. `outputs` are there once it has succeeded; `success_rate` is the share of the steps that ran which succeeded, None when none ran."""

    name: str
    steps: tuple[StepReport, ...]
    outputs: Any = None
    seconds: float = 0.0
    usage: Usage = field(default_factory=Usage)
    tools: dict[str, ToolCount] = field(default_factory=dict[str, ToolCount])

    @classmethod
    def of(cls, state: State) -> "Report":
        """The report of a state at any moment."""
        rows = tuple(_row(span, state.step(span)) for span in _spans(state, ""))
        done = state.status == "success"
        return cls(
            name=state.plans[""].plan.get("name", "flow"),
            steps=rows,
            outputs=result_of(state, "") if done else None,
            seconds=state.seconds,
            usage=state.usage,
            tools=dict(state.tools),
        )

    @property
    def failed(self) -> tuple[StepReport, ...]:
        return tuple(step for step in self.steps if step.status == "failed")

    @property
    def skipped(self) -> tuple[StepReport, ...]:
        return tuple(step for step in self.steps if step.status == "skipped")

    @property
    def success_rate(self) -> float | None:
        ended = [step for step in self.steps if step.status in ("success", "failed")]
        return sum(step.status == "success" for step in ended) / len(ended) if ended else None

    def text(self, *, with_tools: bool = True) -> str:
        """A table for people."""
        cells = [("step", "status", "tries", "seconds", "tokens", ""), *(_cells(step) for step in self.steps)]
        lines = table(cells)
        rate = "" if self.success_rate is None else f", {self.success_rate:.0%} of the steps that ran succeeded"
        cost = f", {self.usage.cost:.4f} USD" if self.usage.cost else ""
        lines.append(f"{self.name}: {self.seconds:.1f} s, {self.usage.total_tokens:,} tokens{cost}{rate}")
        lines += [
            f"tool {name}: {count.calls} calls, {count.failed} failed, {count.seconds:.1f} s"
            for name, count in self.tools.items()
            if with_tools
        ]
        return "\n".join(lines)

    def tree(self) -> str:
        """The steps as a tree: items below their step, the steps of a sub-flow below the one that runs it."""
        below: dict[str, list[StepReport]] = {}
        for step in self.steps:
            below.setdefault(_parent(step.span), []).append(step)
        return "\n".join([self.name, *_branches(below, "", "")])


def _parent(span: str) -> str:
    """The unit that a unit is shown below."""
    if spans.item_of(span) is not None:
        return spans.whole(span)
    return spans.owner(spans.scope_of(span))


def _branches(below: Mapping[str, Sequence[StepReport]], span: str, indent: str) -> Iterable[str]:
    steps = below.get(span, ())
    for at, step in enumerate(steps, 1):
        is_last = at == len(steps)
        said = " ".join(step.reason.split())[:100]
        why = "from the cache" if step.cached else said
        spent = f" {step.seconds:.1f} s" if step.attempts else ""
        tokens = f", {step.usage.total_tokens:,} tokens" if step.usage.total_tokens else ""
        name = step.span.rpartition("/")[2]
        if spans.item_of(step.span) is not None:
            name = f"#{name.rpartition('#')[2]}"
        line = f"{name}: {SIGNS[step.status]}{spent}{tokens}{f' ({why})' if why else ''}"
        yield f"{indent}{'└─ ' if is_last else '├─ '}{line}"
        yield from _branches(below, step.span, indent + ("   " if is_last else "│  "))


def _spans(state: State, scope: str) -> Iterable[str]:
    """Every unit of a plan in its order, items and the steps of sub-flows below theirs."""
    for name in state.plans[scope].steps:
        unit = spans.inside(scope, name)
        yield unit
        step = state.step(unit)
        for one in [unit, *(f"{unit}#{at}" for at in range(len(step.items or ())))]:
            if one != unit:
                yield one
            below = spans.attempt(one, state.step(one).attempt)
            if below in state.plans and below != scope:
                yield from _spans(state, below)


def _row(span: str, step: StepState) -> StepReport:
    return StepReport(
        span=span,
        status=step.status,
        reason=step.reason,
        cause=step.cause,
        attempts=step.attempt,
        rounds=step.round,
        seconds=max(0.0, step.ended - step.started) if step.started and step.ended else 0.0,
        usage=step.usage,
        cached=step.cached,
    )


def _cells(step: StepReport) -> tuple[str, ...]:
    said = " ".join(step.reason.split())
    why = "from the cache" if step.cached else said if len(said) <= 100 else f"{said[:99]}…"
    tokens = f"{step.usage.total_tokens:,}" if step.usage.total_tokens else ""
    return (
        step.span,
        SIGNS[step.status],
        str(step.attempts or ""),
        f"{step.seconds:.1f}" if step.attempts else "",
        tokens,
        why,
    )
