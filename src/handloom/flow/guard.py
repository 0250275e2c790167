"""Guard: does a stage of a step's work in its time, and makes a value of whatever ends it."""

import asyncio
from collections.abc import Awaitable

from handloom.errors import (
    CancelledRunError,
    DeniedError,
    HandloomError,
    JournalError,
    LimitReachedError,
    RunStoppedError,
    SuspendedError,
)
from handloom.flow import verdict
from handloom.flow.order import Failed, Outcome


async def guarded(work: Awaitable[Outcome | None], seconds: float | None) -> Outcome | RunStoppedError | None:
    """How a stage came out: nothing when it is settled, an error when the step waits for a person or the run must stop. Raises: JournalError, and bugs."""
    try:
        return await (work if seconds is None else _in_time(work, seconds))
    except (SuspendedError, LimitReachedError, CancelledRunError, DeniedError) as error:
        return error
    except JournalError:
        raise
    except HandloomError as error:
        return verdict.of_error(error)


async def _in_time(work: Awaitable[Outcome | None], seconds: float) -> Outcome | None:
    watch = asyncio.timeout(seconds)
    try:
        async with watch:
            return await work
    except TimeoutError:
        if not watch.expired():
            raise
        return Failed(reason=f"it took longer than {seconds:g} s")
