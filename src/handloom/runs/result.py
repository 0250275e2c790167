"""How a run stands when it stops."""

from dataclasses import dataclass, field
from typing import Any

from handloom.messages import Usage
from handloom.state import Question, State


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """How a run stands when it stops. `status` is `success`, `failed` or `suspended`; `cause` says why a suspended run waits."""

    run: str
    status: str
    answer: str = ""
    reason: str = ""
    cause: str = ""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    seconds: float = 0.0
    artifacts: tuple[str, ...] = ()
    questions: tuple[Question, ...] = ()
    value: Any = None

    @classmethod
    def of(cls, run: str, state: State) -> "RunResult":
        """The result of a run in this state."""
        return cls(
            run=run,
            status=state.status,
            answer=state.answer,
            reason=state.reason,
            cause=state.cause,
            usage=state.usage,
            turns=state.turns,
            seconds=state.seconds,
            artifacts=tuple(state.artifacts),
            questions=tuple(state.open_questions()),
        )
