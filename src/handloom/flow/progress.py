"""Progress: how far the plans of a run are, indexed so that what follows from an event is found without looking at the whole plan.

It is folded from the same events as `State` and can be made from a state at any moment; it holds nothing that a state does not tell.
"""

from collections import deque
from dataclasses import dataclass, field

from handloom.events import (
    Event,
    PlanMade,
    PlanRevised,
    StepEnded,
    StepQueued,
    StepRepeated,
    StepRetried,
    StepStarted,
    StepStatus,
)
from handloom.flow import graph, spans
from handloom.messages import Json
from handloom.state import State

OVER = ("success", "failed", "skipped")


@dataclass
class Scope:
    """A plan under way: its steps as the flow file has them, who waits for whom, and how many of each step's needs are not over."""

    steps: dict[str, Json]
    on_error: str
    after: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    left: dict[str, int] = field(default_factory=dict[str, int])
    open: int = 0

    def needs(self, name: str) -> list[str]:
        return self.steps[name].get("needs", [])

    def blocks(self, name: str, status: StepStatus, cause: str) -> bool:
        """Whether a step that ended so keeps those that need it from starting."""
        if status == "failed":
            return self.steps[name].get("on_error", self.on_error) in ("fail", "replan")
        return status == "skipped" and bool(cause)


@dataclass
class Progress:
    """All plans under way, the units that hold a slot, and those that wait for one. Changed by `apply` alone."""

    slots: int
    scopes: dict[str, Scope] = field(default_factory=dict[str, Scope])
    status: dict[str, StepStatus] = field(default_factory=dict[str, StepStatus])
    cause: dict[str, str] = field(default_factory=dict[str, str])
    attempts: dict[str, int] = field(default_factory=dict[str, int])
    rounds: dict[str, int] = field(default_factory=dict[str, int])
    items_left: dict[str, int] = field(default_factory=dict[str, int])
    items_failed: dict[str, list[int]] = field(default_factory=dict[str, list[int]])
    items_skipped: dict[str, int] = field(default_factory=dict[str, int])
    retrying: set[str] = field(default_factory=set[str])  # between two attempts
    queued: set[str] = field(default_factory=set[str])
    queue: deque[str] = field(default_factory=deque[str])
    running: set[str] = field(default_factory=set[str])
    closed: list[str] = field(
        default_factory=list[str]
    )  # scopes of which every step is over, since someone last looked

    @classmethod
    def of(cls, state: State, slots: int) -> "Progress":
        """Where the plans of a state stand. Nothing runs and nothing is queued: what was under way is to be taken up again."""
        known = state.steps
        progress = cls(
            slots,
            status={span: step.status for span, step in known.items()},
            cause={span: step.cause for span, step in known.items() if step.cause},
            attempts={span: step.attempt for span, step in known.items() if step.attempt},
            rounds={span: step.round for span, step in known.items() if step.round > 1},
            retrying={span for span, step in known.items() if step.failures and step.status == "pending"},
        )
        for span, step in known.items():
            if step.items is not None and not step.is_over:
                progress._recall_items(span, len(step.items), state)
        for span, plan in state.plans.items():
            if not span or _is_current(span, state):
                progress.scopes[span] = progress._indexed(span, plan.plan)
                if not progress.scopes[span].open:
                    progress.closed.append(span)
        return progress

    def step(self, unit: str) -> Json:
        """The step of a unit as the flow file has it."""
        scope, name = spans.split(unit)
        return self.scopes[scope].steps[name]

    def is_over(self, unit: str) -> bool:
        return self.status.get(unit, "pending") in OVER

    def is_current(self, unit: str) -> bool:
        """Whether a unit belongs to a plan that is under way, and an item to a step whose items are."""
        return spans.scope_of(unit) in self.scopes and (
            spans.item_of(unit) is None or spans.whole(unit) in self.items_left
        )

    def has_slot_free(self) -> bool:
        return len(self.running) < self.slots

    def takes_slot(self, unit: str) -> bool:
        """Whether a unit counts for `max_parallel`; one that only waits for others below it does not."""
        step = self.step(unit)
        return "flow" not in step and "plan" not in step

    def apply(self, event: Event) -> None:
        """Take in an event of a step or a plan; others change nothing."""
        match event:
            case PlanMade(span=span, plan=plan):
                self.scopes[span] = self._indexed(span, plan)
            case PlanRevised():
                self._revise(event)
            case StepQueued(span=unit):
                self.queued.add(unit)
                if event.cleared:
                    self.queue.append(unit)
            case StepStarted(span=unit):
                self._start(event)
            case StepRetried(span=unit):
                self.running.discard(unit)
                self.retrying.add(unit)
                self.status[unit] = "pending"
            case StepRepeated(span=unit):
                self.running.discard(unit)
                self.status[unit] = "pending"
                self.rounds[unit] = event.round + 1
            case StepEnded():
                self._end(event)
            case _:
                pass

    def park(self, unit: str) -> None:
        """A unit that waits for a person gives its slot to others."""
        self.running.discard(unit)
        self.status[unit] = "waiting"

    def abandon(self, scope: str) -> list[str]:
        """Drop a plan with those below it; its units that were not over."""
        scopes = [span for span in self.scopes if spans.is_below(span, scope)]
        gone = [spans.inside(span, name) for span in scopes for name in self.scopes[span].steps]
        gone += [unit for unit in self.status if unit.startswith(f"{scope}/") and spans.item_of(unit) is not None]
        gone = [unit for unit in gone if not self.is_over(unit)]
        for span in scopes:
            del self.scopes[span]
        dropped = set(gone)
        self.status |= dict.fromkeys(gone, "skipped")
        self.running -= dropped
        self.retrying -= dropped
        self.queued -= dropped
        self.queue = deque(unit for unit in self.queue if unit not in dropped)
        self.closed = [span for span in self.closed if span in self.scopes]
        return gone

    def _start(self, event: StepStarted) -> None:
        unit = event.span
        self.queued.discard(unit)
        self.retrying.discard(unit)
        if self.queue and self.queue[0] == unit:
            self.queue.popleft()
        self.status[unit], self.attempts[unit], self.rounds[unit] = "running", event.attempt, event.round
        if event.items is not None:
            self.items_left[unit] = len(event.items)
            self.items_failed[unit], self.items_skipped[unit] = [], 0
        elif self.takes_slot(unit):
            self.running.add(unit)

    def _end(self, event: StepEnded) -> None:
        unit = event.span
        self.running.discard(unit)
        self.queued.discard(unit)
        self.status[unit] = event.status
        if event.cause:
            self.cause[unit] = event.cause
        item = spans.item_of(unit)
        if item is not None:
            step = spans.whole(unit)
            self.items_left[step] -= 1
            self.items_failed[step] += [item] if event.status == "failed" else []
            self.items_skipped[step] += event.status == "skipped"
            return
        span, name = spans.split(unit)
        scope = self.scopes[span]
        scope.open -= 1
        if not scope.open:
            self.closed.append(span)
        for other in scope.after[name]:
            scope.left[other] -= 1

    def _revise(self, event: PlanRevised) -> None:
        scope = self.scopes[event.span]
        for name, step in event.steps.items():
            if step is None:
                scope.steps.pop(name, None)
            else:
                scope.steps[name] = step
        gone = {spans.inside(event.span, name) for name in (*event.again, *event.steps)}
        below = tuple(f"{unit}{sign}" for unit in gone for sign in "#/")
        for unit in [unit for unit in self.status if unit in gone or unit.startswith(below)]:
            del self.status[unit]
            self.cause.pop(unit, None)
            self.rounds.pop(unit, None)
            self.items_left.pop(unit, None)
            self.running.discard(unit)
            self.retrying.discard(unit)
        self.queued -= {unit for unit in self.queued if unit in gone or unit.startswith(below)}
        self.queue = deque(unit for unit in self.queue if unit in self.queued)
        for span in [span for span in self.scopes if span in gone or span.startswith(below)]:
            del self.scopes[span]
        self.closed = [span for span in self.closed if span in self.scopes and span != event.span]
        self._index(event.span, scope)
        if not scope.open:
            self.closed.append(event.span)

    def _indexed(self, span: str, plan: Json) -> Scope:
        scope = Scope(dict(plan["steps"]), plan.get("defaults", {}).get("on_error", "fail"))
        self._index(span, scope)
        return scope

    def _index(self, span: str, scope: Scope) -> None:
        needs = {name: dict.fromkeys(step.get("needs", ())) for name, step in scope.steps.items()}
        inside = f"{span}/" if span else ""
        over = {name for name in needs if self.status.get(f"{inside}{name}") in OVER} if self.status else set[str]()
        scope.after = graph.dependants(needs)
        scope.left = {name: len(before.keys() - over) for name, before in needs.items()}
        scope.open = len(needs) - len(over)

    def _recall_items(self, unit: str, count: int, state: State) -> None:
        items = [state.step(f"{unit}#{at}") for at in range(count)]
        self.items_left[unit] = sum(not item.is_over for item in items)
        self.items_failed[unit] = [at for at, item in enumerate(items) if item.status == "failed"]
        self.items_skipped[unit] = sum(item.status == "skipped" for item in items)


def _is_current(scope: str, state: State) -> bool:
    """Whether a sub-flow is under way: its unit runs, and this is its newest attempt."""
    unit = spans.owner(scope)
    step = state.step(unit)
    return (
        not step.is_over
        and step.attempt > 0
        and spans.attempt(unit, step.attempt) == scope
        and step.status != "pending"
    )
