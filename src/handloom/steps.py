"""Steps: the plans of a run and how far each of their steps is, folded from events."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from handloom.events import (
    ContextCompacted,
    Event,
    ModelReplied,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    QuestionAsked,
    StepEnded,
    StepRepeated,
    StepRetried,
    StepStarted,
    StepStatus,
    StepSummarised,
    ToolReturned,
)
from handloom.messages import Json, Usage

_NOTHING = Usage()
OF_STEPS = (StepStarted, StepEnded, StepRetried, StepRepeated, StepSummarised)


@dataclass(slots=True)
class StepState:
    """A step, or one item of a `for_each` step, at one moment.

    `attempt` counts all attempts ever; `under_way` says that the last of them has begun and not ended, also while it waits. `failures` are those of this round that failed. `due` is when a step that is tried again may start. `cause` names the
    step because of which this one was skipped. `previous` is the output of the last round.
    """

    status: StepStatus = "pending"
    attempt: int = 0
    under_way: bool = False
    failures: int = 0
    round: int = 1
    items: tuple[Any, ...] | None = None
    output: Any = None
    previous: Any = None
    reason: str = ""
    cause: str = ""
    summary: str = ""
    cached: bool = False
    due: float = 0.0
    started: float = 0.0
    ended: float = 0.0
    usage: Usage = _NOTHING
    requests: int = 0

    @property
    def is_over(self) -> bool:
        return self.status in ("success", "failed", "skipped")


@dataclass(slots=True)
class PlanState:
    """A plan as it is carried out now, with all that was changed since it was made.

    `changed` is how often a step was replaced, by its name; a new step that comes with such a change counts like the one that is replaced.
    """

    plan: Json
    inputs: Json
    folder: str = ""
    changed: dict[str, int] = field(default_factory=dict[str, int])

    @property
    def steps(self) -> dict[str, Json]:
        return self.plan["steps"]


@dataclass
class Steps:
    """By span: the plans (that of the run itself has the empty one) and the steps of which something is recorded."""

    plans: dict[str, PlanState] = field(default_factory=dict[str, PlanState])
    steps: dict[str, StepState] = field(default_factory=dict[str, StepState])

    def of(self, span: str) -> str:
        """The span of the innermost step that `span` lies in; empty outside of any."""
        while span and span not in self.steps:
            span = span.rpartition("/")[0]
        return span

    def apply(self, event: Event) -> None:
        """Take in what an event says of plans and steps; other events change nothing."""
        if isinstance(event, OF_STEPS):
            self.apply_step(event)
            return
        match event:
            case PlanMade():
                plan = {**event.plan, "steps": dict(event.plan["steps"])}
                self.plans[event.span] = PlanState(plan, dict(event.inputs), event.folder)
            case PlanRevised():
                self._revise(event)
            case ModelReplied(usage=usage) | ContextCompacted(usage=usage):
                self._spend(event.span, usage, requests=isinstance(event, ModelReplied))
            case ToolReturned(result=result):
                self._spend(event.span, result.usage)
            case QuestionAsked(span=span):
                step = self.steps.setdefault(self._asking(span), StepState())
                step.status = step.status if step.is_over else "waiting"
            case QuestionAnswered(id=identity):
                span = identity.rpartition("?")[0]
                step = self.steps.get(self.of(span))
                if step is not None and step.status == "waiting":
                    step.status = "running" if step.under_way else "pending"
            case _:
                pass

    def _asking(self, span: str) -> str:
        """The step that asks: the one of this span itself, also before anything of it is recorded, or the innermost that it lies in."""
        scope, _, name = span.rpartition("/")
        if scope in self.plans and name in self.plans[scope].steps:
            return span
        return self.of(span) or span

    def _spend(self, span: str, usage: Usage, *, requests: int = 0) -> None:
        """Count what was asked of a model for the step that it was asked for."""
        if (usage.calls or requests) and (span := self.of(span)):
            self.steps[span].usage += usage
            self.steps[span].requests += requests

    def apply_step(self, event: Event) -> None:
        """Take in an event of a step, one of `OF_STEPS`."""
        step = self.steps.get(event.span)
        if step is None:
            step = self.steps[event.span] = StepState()
        match event:
            case StepEnded():
                step.status, step.output, step.reason, step.under_way = event.status, event.output, event.reason, False
                step.cause, step.cached, step.ended = event.cause, event.cached, event.at
            case StepStarted():
                step.under_way = True
                step.status, step.attempt, step.round, step.items = "running", event.attempt, event.round, event.items
                step.started = step.started or event.at
            case StepRetried():
                step.status, step.reason, step.due = "pending", event.reason, event.at + event.delay
                step.failures, step.under_way = step.failures + 1, False
            case StepRepeated():
                step.status, step.previous, step.failures, step.round = "pending", event.output, 0, event.round + 1
                step.under_way = False
            case StepSummarised():
                step.summary = event.summary
                # Like a summary of an agent's own it is no turn of the step.
                self._spend(event.asked_by or event.span, event.usage)
            case _:
                pass

    def _revise(self, event: PlanRevised) -> None:
        plan = self.plans[event.span]
        plan.inputs |= event.inputs
        replaced = [plan.changed.get(name, 0) for name, step in event.steps.items() if step and name in plan.steps]
        if replaced:
            plan.changed |= dict.fromkeys(event.steps, 1 + max(replaced))
        for name, step in event.steps.items():
            if step is None:
                plan.steps.pop(name, None)
            else:
                plan.steps[name] = step
        forgotten = forgotten_by(event)
        for span in [span for span in self.steps if forgotten(span)]:
            # How often a step was tried stays: the spans of attempts are used once.
            self.steps[span] = StepState(attempt=self.steps[span].attempt)


def forgotten_by(event: PlanRevised) -> Callable[[str], bool]:
    """Tells of a span whether it is of a step that a revision makes run again, or takes away, or is below one."""
    inside = f"{event.span}/" if event.span else ""
    gone = (*event.again, *(name for name, step in event.steps.items() if step is None))
    spans = {f"{inside}{name}" for name in gone}
    below = tuple(f"{span}{sign}" for span in spans for sign in "#/?")
    return lambda span: span in spans or span.startswith(below)
