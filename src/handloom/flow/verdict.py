"""Verdict: what the outcome of an attempt means for its step. Pure: it reads the order and decides on the event."""

from handloom.errors import (
    ConfigError,
    ContextOverflowError,
    FlowError,
    HandloomError,
    ModelError,
    StepLimitError,
    TemplateError,
)
from handloom.events import Event, StepEnded, StepRepeated, StepRetried
from handloom.flow import templates
from handloom.flow.approval import Refused
from handloom.flow.order import Done, Failed, Order


def of_success(order: Order, done: Done) -> Event:
    """The step is over, or another round follows."""
    ended = StepEnded(span=order.unit, status="success", output=done.output, cached=done.cached)
    repeat = order.step.repeat
    if repeat is None:
        return ended
    reads = templates.expression(repeat.until).reads
    try:
        if templates.holds(repeat.until, order.values(reads, output=done.output)):
            return ended
    except HandloomError as error:
        return of_failure(order, str(error))
    if order.so_far.round < repeat.max:
        return StepRepeated(span=order.unit, round=order.so_far.round, output=done.output)
    reason = f"after {repeat.max} rounds this does not hold yet: {repeat.until}"
    return StepEnded(span=order.unit, status="success", output=done.output, reason=reason)


def retried(order: Order, failed: Failed) -> StepRetried | None:
    """Another attempt, where the step has one left. An attempt that may have done its work is repeated only when the step itself says `retry`."""
    failures = order.so_far.failures + 1
    retry = order.step.retry if failed.unknown else order.retry
    if failed.final or retry is None or failures > retry.max:
        return None
    return StepRetried(span=order.unit, attempt=order.attempt, reason=failed.reason, delay=retry.delay(failures))


def of_error(error: HandloomError) -> Failed:
    """What an error makes of an attempt. Some would come again at once, so that trying again has no use."""
    match error:
        case ContextOverflowError() | FlowError() | TemplateError() | ConfigError() | StepLimitError() | Refused():
            return Failed(reason=str(error), final=True)
        case ModelError():
            return Failed(reason=str(error), unavailable=error)
        case _:
            return Failed(reason=str(error))


def of_failure(order: Order, reason: str) -> StepEnded:
    """The end of a step that failed for good; with `on_error: skip` it counts as left out."""
    if order.on_error == "skip":
        return StepEnded(span=order.unit, status="skipped", reason=reason, cause=order.name)
    return StepEnded(span=order.unit, status="failed", reason=reason)
