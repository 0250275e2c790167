"""Exit codes, a public contract: 0 success, 1 failed, 2 usage or settings, 3 waits for a person, 4 limit, 5 denied, 6 unavailable, 130 interrupted, 143 terminated."""

from handloom.errors import HandloomError, JournalError, ModelError
from handloom.runs import RunResult

SUCCESS, FAILED, USAGE, WAITING, LIMIT, DENIED, UNAVAILABLE = 0, 1, 2, 3, 4, 5, 6
INTERRUPTED, TERMINATED = 130, 143


def code_of_result(result: RunResult, *, terminated: bool = False) -> int:
    """The exit code for a run that has stopped."""
    if result.status == "success":
        return SUCCESS
    if result.status == "failed":
        return DENIED if result.cause == "denied" else FAILED
    by_cause = {
        "question": WAITING,
        "limit": LIMIT,
        "unavailable": UNAVAILABLE,
        "interrupted": TERMINATED if terminated else INTERRUPTED,
    }
    return by_cause[result.cause]


def code_of(error: HandloomError) -> int:
    """The exit code for an error before or outside a run."""
    match error:
        case ModelError():
            return UNAVAILABLE
        case JournalError():
            return FAILED
        case _:
            return USAGE
