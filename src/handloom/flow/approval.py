"""Approvals: a person agrees before a step starts. It is the same question as any other; only the answer is read as yes or no."""

import asyncio
from collections.abc import Callable

from handloom.errors import HandloomError, SuspendedError
from handloom.events import QuestionAnswered
from handloom.flow import templates
from handloom.flow.order import Order
from handloom.plans import Approval
from handloom.runs import Run
from handloom.state import State

OPTIONS = ("yes", "no")
TIMED_OUT = "no answer in time"
YES = {
    "y",
    "yes",
    "ok",
    "okay",
    "approve",
    "approved",
    "true",
    "sure",
    "是",
    "是的",
    "好",
    "好的",
    "同意",
    "批准",
    "可以",
    "确认",
}
KEY = "approval"


class Refused(HandloomError):  # noqa: N818 - it is no error, but a person's answer
    """A person did not agree, or nobody did in time; `skip` says that the step is left out without having failed."""

    def __init__(self, reason: str, *, skip: bool = False) -> None:
        super().__init__(reason)
        self.skip = skip


async def approved(run: Run, approval: Approval, order: Order, clock: Callable[[], float]) -> None:
    """Ask, once for all resumes. Raises: Refused, SuspendedError when nobody answers now."""
    message = templates.fill(approval.message, order.values(*templates.reads(approval.message)))
    until = deadline(order, run.state)
    answer = await _answer(run, message, approval, until, clock)
    if answer == TIMED_OUT:
        if approval.on_timeout == "approve":
            return
        raise Refused(f"{TIMED_OUT} ({approval.timeout:g} s)", skip=approval.on_timeout == "skip")
    if answer.strip().strip(".!。\uff01").lower() not in YES:
        raise Refused(f"not approved: {answer.strip()[:200]}")


def deadline(order: Order, state: State) -> float | None:
    """When the time for an approval is over; None before it was asked for, once it has an answer, or when it has no end."""
    question = state.questions.get(f"{order.unit}?{KEY}")
    approval = order.step.approval
    if question is None or question.answer is not None or approval is None or approval.timeout is None:
        return None
    return question.at + approval.timeout


async def _answer(run: Run, message: str, approval: Approval, until: float | None, clock: Callable[[], float]) -> str:
    asking = run.unless_cancelled(run.ask(message, OPTIONS, key=KEY))
    left = approval.timeout if until is None else until - clock()
    try:
        async with asyncio.timeout(left):
            return await asking
    except TimeoutError:
        known = run.state.questions.get(f"{run.span}?{KEY}")
        if known is None:
            raise
        if known.answer is None:
            await run.emit(QuestionAnswered(id=known.id, answer=TIMED_OUT))
        return run.state.questions[known.id].answer or TIMED_OUT
    except SuspendedError:
        if until is not None and clock() >= until:
            await run.emit(QuestionAnswered(id=f"{run.span}?{KEY}", answer=TIMED_OUT))
            return TIMED_OUT
        raise
