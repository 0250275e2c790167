"""Ending: why the work on a run has ended without an answer, and what came of a plan of which every step is over."""

from handloom.errors import HandloomError, StuckError, SuspendedError
from handloom.flow.order import Done, Failed, Outcome
from handloom.flow.outputs import failures, result_of
from handloom.flow.progress import Progress
from handloom.state import State


def outcome_of(state: State, scope: str) -> Outcome:
    """What came of a plan."""
    if failed := failures(state, scope):
        return Failed(reason=failed)
    try:
        return Done(output=result_of(state, scope))
    except HandloomError as error:
        return Failed(reason=f"the outputs of the flow cannot be made: {error}")


def standstill(run: str, state: State, progress: Progress) -> SuspendedError | StuckError:
    """Why nothing can go on."""
    if questions := state.open_questions():
        words = "\n".join(question.question for question in questions)
        return SuspendedError(f'waits for an answer: {words}\nAnswer with: handloom runs answer {run} "..."')
    waiting = [name for name in state.plans[""].steps if not progress.is_over(name)]
    return StuckError(f"the flow is stuck: nothing runs, and these steps cannot start: {', '.join(waiting[:10])}")
