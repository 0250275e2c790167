"""Admission: what happens to a step whose needs are over. Its condition is looked at, a person is asked, its items are found."""

from collections.abc import Callable, Iterable

from handloom.events import Event, StepEnded, StepStarted
from handloom.flow import templates
from handloom.flow.advance import admit
from handloom.flow.approval import Refused, approved
from handloom.flow.items import items_of
from handloom.flow.order import Order
from handloom.flow.progress import Progress
from handloom.runs import Run


async def admitted(order: Order, progress: Progress, run: Run, clock: Callable[[], float]) -> Iterable[Event]:
    """The events with which it goes on; they are decided as they are taken. Raises: Refused, SuspendedError, TemplateError."""
    step, unit = order.step, order.unit
    if step.if_ and not templates.holds(step.if_, order.values(templates.expression(step.if_).reads)):
        return [StepEnded(span=unit, status="skipped", reason=f"its condition does not hold: {step.if_}")]
    if step.approval is not None:
        try:
            await approved(run.child(unit), step.approval, order, clock)
        except Refused as refusal:
            if not refusal.skip:
                raise
            return [StepEnded(span=unit, status="skipped", reason=str(refusal), cause=order.name)]
    if step.for_each is None:
        return admit(progress, unit)
    return [StepStarted(span=unit, attempt=order.so_far.attempt + 1, items=items_of(order))]
