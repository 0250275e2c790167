"""What follows from an event: which steps start, which wait, which are skipped.

`follow` decides and changes nothing; `advance` applies an event and all that follows from it to the progress, and returns them in order, to be saved in one
transaction. Both are free of clocks, files and tasks, and look at the neighbours of a step alone, never at the whole plan.
"""

from collections.abc import Generator, Iterable, Iterator

from handloom.events import Event, PlanMade, PlanRevised, StepEnded, StepQueued, StepRepeated, StepRetried, StepStarted
from handloom.flow import spans
from handloom.flow.progress import Progress, Scope

Following = Generator[Event]
_NOTHING: tuple[Event, ...] = ()


def advance(progress: Progress, events: Iterable[Event]) -> list[Event]:
    """Apply events, and what follows from each; all in the order in which they happen. The events may be decided as they are taken."""
    happened: list[Event] = []
    waiting: list[Iterator[Event]] = [iter(events)]
    while waiting:
        event = next(waiting[-1], None)
        if event is None:
            waiting.pop()
            continue
        # What follows is decided one by one, each after the one before it was applied.
        progress.apply(event)
        happened.append(event)
        if following := follow(progress, event):
            waiting.append(iter(following))
    return happened


def follow(progress: Progress, event: Event) -> Iterable[Event]:
    """What follows from an event that was just applied; decided one by one, as it is taken."""
    match event:
        case StepEnded():
            return _after_end(progress, event)
        case StepStarted(span=unit, items=items) if items is not None:
            return _items(progress, unit, len(items))
        case StepRepeated(span=unit):
            return admit(progress, unit)
        case StepRetried():
            return fill(progress)
        case PlanMade(span=scope) | PlanRevised(span=scope):
            return sweep(progress, scope)
        case _:
            return _NOTHING


def sweep(progress: Progress, scope: str) -> Following:
    """Start or skip each step of a plan for which that is due: when the plan is made, changed, or taken up again."""
    plan = progress.scopes[scope]
    for name in list(plan.steps):
        unit = spans.inside(scope, name)
        if progress.status.get(unit, "pending") != "pending" or unit in progress.queued or unit in progress.retrying:
            continue
        yield from _settle(progress, scope, plan, name)


def ready(progress: Progress, unit: str) -> Following:
    """A unit whose needs are over: it starts at once, or waits for its condition, its approval, its items, or a slot."""
    step = progress.step(unit)
    asks_first = step.get("if") is not None or step.get("approval") is not None or step.get("for_each") is not None
    if asks_first and spans.item_of(unit) is None:
        yield StepQueued(span=unit)
    else:
        yield from admit(progress, unit)


def admit(progress: Progress, unit: str) -> Following:
    """A unit that may start: it does, where a slot is free."""
    if progress.slots and ((progress.has_slot_free() and not progress.queue) or not progress.takes_slot(unit)):
        yield _started(progress, unit)
    else:
        yield StepQueued(span=unit, cleared=True)
        yield from fill(progress)


def fill(progress: Progress) -> Following:
    """Start units that wait for a slot, while there are free ones."""
    while progress.queue and progress.has_slot_free():
        yield _started(progress, progress.queue[0])


def _started(progress: Progress, unit: str) -> StepStarted:
    return StepStarted(span=unit, attempt=progress.attempts.get(unit, 0) + 1, round=progress.rounds.get(unit, 1))


def _items(progress: Progress, unit: str, count: int) -> Following:
    if not count:
        yield StepEnded(span=unit, status="success")
    for at in range(count):
        yield from admit(progress, f"{unit}#{at}")


def finish(progress: Progress, step: str) -> Following:
    """End a `for_each` step of which every item is over."""
    if progress.items_left[step] or progress.is_over(step):
        return
    failed = progress.items_failed[step]
    tolerant = progress.step(step).get("on_error", progress.scopes[spans.scope_of(step)].on_error) == "continue"
    if failed and not tolerant:
        numbers = ", ".join(f"#{at}" for at in sorted(failed)[:10])
        yield StepEnded(span=step, status="failed", reason=f"{len(failed)} of its items failed: {numbers}")
    else:
        yield StepEnded(span=step, status="success")


def _after_end(progress: Progress, event: StepEnded) -> Following:
    unit = event.span
    yield from finish(progress, spans.whole(unit)) if spans.item_of(unit) is not None else _after_step(progress, event)
    yield from fill(progress)


def _after_step(progress: Progress, event: StepEnded) -> Following:
    scope, name = spans.split(event.span)
    plan = progress.scopes[scope]
    blocks = plan.blocks(name, event.status, event.cause)
    for other in plan.after[name]:
        if blocks or not plan.left[other]:
            unit = spans.inside(scope, other)
            if progress.status.get(unit, "pending") == "pending" and unit not in progress.queued:
                yield from _skipped(unit, name, event) if blocks else ready(progress, unit)


def _settle(progress: Progress, scope: str, plan: Scope, name: str) -> Following:
    for other in plan.needs(name):
        unit = spans.inside(scope, other)
        status, cause = progress.status.get(unit, "pending"), progress.cause.get(unit, "")
        if plan.blocks(other, status, cause):
            yield from _skipped(spans.inside(scope, name), other, StepEnded(status=status, cause=cause))  # pyright: ignore[reportArgumentType]  # one that is over
            return
    if not plan.left[name]:
        yield from ready(progress, spans.inside(scope, name))


def _skipped(unit: str, name: str, because: StepEnded) -> Following:
    cause = because.cause or name
    yield StepEnded(span=unit, status="skipped", cause=cause, reason=f"because of {cause!r}, which did not succeed")
