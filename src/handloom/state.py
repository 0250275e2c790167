"""State: everything that is known of a run, folded from its events."""

from dataclasses import dataclass, field

from handloom.events import (
    ArtifactAdded,
    CheckpointMade,
    ContextCompacted,
    Event,
    MessageAdded,
    ModelReplied,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunResumed,
    RunStarted,
    RunStatus,
    RunSuspended,
    StepSummarised,
    ToolCalled,
    ToolDecided,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    WarningRaised,
    agent_scope,
)
from handloom.memory import Memory
from handloom.messages import Json, Usage
from handloom.steps import OF_STEPS, PlanState, Steps, StepState, forgotten_by

_SPOKEN = (
    RunStarted,
    MessageAdded,
    ModelReplied,
    ContextCompacted,
)  # what makes a memory; other events are of one that is there

_BEGUN = (RunStarted, RunResumed)  # before these, nothing ran


@dataclass
class Question:
    """Something a person was asked; `answer` is None while it is open."""

    id: str
    question: str
    options: tuple[str, ...] = ()
    answer: str | None = None
    at: float = 0.0  # when it was asked

    def take(self, answer: str) -> None:
        """The first answer counts: who asked may have acted on it."""
        self.answer = answer if self.answer is None else self.answer


@dataclass
class ToolCount:
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0


@dataclass
class State:
    """A run at one moment. `apply` is the only thing that changes it, so any prefix of a journal gives the state at that point."""

    seq: int = 0
    status: RunStatus = "running"
    task: str = ""
    workspace: str = ""
    settings: Json = field(default_factory=dict[str, object])
    answer: str = ""
    reason: str = ""
    cause: str = ""
    usage: Usage = field(default_factory=Usage)
    turns: int = 0
    seconds: float = 0.0
    memories: dict[str, Memory] = field(default_factory=dict[str, Memory])
    turn: dict[str, int] = field(default_factory=dict[str, int])
    open_turns: set[str] = field(default_factory=set[str])
    open_calls: set[str] = field(default_factory=set[str])
    questions: dict[str, Question] = field(default_factory=dict[str, Question])
    tools: dict[str, ToolCount] = field(default_factory=dict[str, ToolCount])
    flow: Steps = field(default_factory=Steps)
    checkpoints: list[CheckpointMade] = field(default_factory=list[CheckpointMade])
    granted: set[str] = field(default_factory=set[str])  # tools that a person has allowed for this run
    granted_tainted: set[str] = field(
        default_factory=set[str]
    )  # those of them that were allowed when untrusted text had been read
    tainted: dict[str, None] = field(
        default_factory=dict[str, None]
    )  # tools whose untrusted results were read, in order
    artifacts: list[str] = field(default_factory=list[str])
    warned: set[str] = field(default_factory=set[str])
    spent_before: tuple[float, ...] = (0, 0, 0, 0)  # when the current task was given
    _last_at: float = 0.0

    def memory(self, span: str) -> Memory:
        """The memory of the agent that `span` belongs to."""
        return self.memories.setdefault(agent_scope(span), Memory())

    @property
    def plans(self) -> dict[str, PlanState]:
        return self.flow.plans

    @property
    def steps(self) -> dict[str, StepState]:
        return self.flow.steps

    def step(self, span: str) -> StepState:
        """The step, or item, of this span; one of which nothing is recorded is pending."""
        return self.steps.get(span) or StepState()

    def open_questions(self) -> list[Question]:
        return [question for question in self.questions.values() if question.answer is None]

    def spent(self) -> dict[str, float]:
        """What the whole run has used of each thing that can be limited."""
        return {
            "turns": self.turns,
            "tokens": self.usage.total_tokens,
            "cost": self.usage.cost,
            "seconds": self.seconds,
        }

    def apply(self, event: Event) -> None:  # noqa: C901, PLR0912, PLR0915 - one case for each kind
        self.seq = event.seq + 1
        self._count_time(event)
        if isinstance(event, OF_STEPS):
            # They are the most by far, and tell of nothing but their step.
            self.flow.apply_step(event)
            if isinstance(event, StepSummarised):
                self.usage += event.usage
            return
        if isinstance(event, _SPOKEN) or (isinstance(event, ToolReturned) and agent_scope(event.span) in self.memories):
            self.memory(event.span).apply(event)
        if self.flow.plans or isinstance(event, PlanMade):
            self.flow.apply(event)
        match event:
            case RunStarted():
                self.task, self.workspace, self.settings = event.task, event.workspace, event.settings
                self.status, self.answer, self.reason, self.cause = "running", "", "", ""
            case RunResumed():
                self.status, self.reason, self.cause = "running", "", ""
                self.settings = self.settings if event.settings is None else event.settings
            case RunSuspended(reason=reason, cause=cause):
                self.status, self.reason, self.cause = "suspended", reason, cause
            case RunEnded():
                self.status, self.answer, self.reason, self.cause = (
                    event.status,
                    event.answer,
                    event.reason,
                    event.cause,
                )
            case MessageAdded(message=message) if message.origin == "task" and not event.span:
                self.spent_before = tuple(self.spent().values())
                self.warned.clear()
            case TurnStarted(turn=turn):
                self.turns += 1
                self.turn[agent_scope(event.span)] = turn
                self.open_turns.add(agent_scope(event.span))
            case TurnEnded():
                self.open_turns.discard(agent_scope(event.span))
            case ModelReplied(usage=usage) | ContextCompacted(usage=usage):
                self.usage += usage
            case PlanRevised():
                self._forget_questions(event)
            case ToolCalled():
                self.open_calls.add(event.span)
            case ToolReturned():
                self.open_calls.discard(event.span)
                count = self.tools.setdefault(event.call.name, ToolCount())
                count.calls += 1
                count.failed += not event.result.ok
                count.seconds += event.seconds
                self.usage += event.result.usage
                if event.result.untrusted:
                    self.tainted[event.call.name] = None
            case CheckpointMade():
                self.checkpoints.append(event)
            case ToolDecided(do="allow", scope="run", tool=tool):
                self.granted.add(tool)
                self.granted_tainted |= {tool} if event.tainted else set()
            case QuestionAsked():
                self.questions[event.id] = Question(event.id, event.question, event.options, at=event.at)
            case QuestionAnswered():
                self.questions[event.id].take(event.answer)
            case ArtifactAdded(path=path):
                self.artifacts += [path] if path not in self.artifacts else []
            case WarningRaised(topic=topic):
                self.warned.add(topic)
            case _:
                pass

    def _forget_questions(self, event: PlanRevised) -> None:
        """Those of steps that run again: they are asked anew."""
        forgotten = forgotten_by(event)
        self.questions = {key: question for key, question in self.questions.items() if not forgotten(key)}

    def _count_time(self, event: Event) -> None:
        """Add the time since the last event, but not the time in which nothing ran."""
        if self.status == "running" and event.at > self._last_at and not isinstance(event, _BEGUN):
            self.seconds += event.at - self._last_at
        self._last_at = event.at
