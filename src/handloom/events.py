"""Everything that happens in a run, as frozen events with a JSON form.

The kinds are a public format: they are read from journals, from `--json` and by other programs, so a kind or a field is added but never renamed.
"""

from typing import Any, ClassVar, Literal

import msgspec

from handloom.messages import ImagePart, Json, Message, ToolCall, ToolResult, Usage

RunStatus = Literal["running", "suspended", "success", "failed"]
Cause = Literal["question", "limit", "interrupted", "unavailable"]
StepStatus = Literal["pending", "running", "waiting", "success", "failed", "skipped"]


class Envelope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """What every event carries: its run, its place there (`seq`, without gaps), its time (Unix seconds) and its span.

    A span is a path such as `turn-2/call-ab12`; the part before the last `turn-N` names the agent that owns it.
    `durable` events are saved before anyone sees them; the others are only shown to those who watch.
    """

    durable: ClassVar[bool] = True

    run: str = ""
    seq: int = 0
    at: float = 0.0
    span: str = ""


class RunStarted(Envelope, frozen=True, tag="run.started"):
    """`settings` holds what a resume needs to build the same agent (agent, model, limits, output schema)."""

    task: str
    images: tuple[ImagePart, ...] = ()
    workspace: str = ""
    version: str = ""
    settings: Json = {}


class RunSuspended(Envelope, frozen=True, tag="run.suspended"):
    """The run stops here and can be resumed: a person must answer, a limit was reached, someone interrupted it, or a model is out of reach."""

    cause: Cause
    reason: str


class RunResumed(Envelope, frozen=True, tag="run.resumed"):
    """`settings` are those of a further task, in the place of the run's; None when it goes on with the same."""

    settings: Json | None = None


class RunEnded(Envelope, frozen=True, tag="run.ended"):
    """`cause` is `denied` when a person stopped the run at a question for approval."""

    status: Literal["success", "failed"]
    answer: str = ""
    reason: str = ""
    cause: Literal["", "denied"] = ""


class TurnStarted(Envelope, frozen=True, tag="turn.started"):
    turn: int


class TurnEnded(Envelope, frozen=True, tag="turn.ended"):
    turn: int


class MessageAdded(Envelope, frozen=True, tag="message.added"):
    """A user message: the task, a next-step prompt, a note of the loop."""

    message: Message


class ModelDelta(Envelope, frozen=True, tag="model.delta"):
    """A piece of a reply while it is written; `channel` is where it belongs."""

    durable: ClassVar[bool] = False

    text: str
    channel: Literal["text", "thinking", "calls"] = "text"


class ModelReplied(Envelope, frozen=True, tag="model.replied"):
    """A complete reply. `seconds` is the wall time of the request; `mode` is how tools were offered."""

    message: Message
    usage: Usage = Usage()
    model: str = ""
    mode: str = ""
    finish: str = ""
    seconds: float = 0.0


class ModelRetried(Envelope, frozen=True, tag="model.retried"):
    """A request failed and is sent again after `delay` seconds."""

    reason: str
    attempt: int
    delay: float


class ToolCalled(Envelope, frozen=True, tag="tool.called"):
    call: ToolCall


class ToolReturned(Envelope, frozen=True, tag="tool.returned"):
    call: ToolCall
    result: ToolResult
    seconds: float = 0.0


class PlanMade(Envelope, frozen=True, tag="plan.made"):
    """A plan is to be carried out; the span is empty, or that of the step whose sub-flow it is.

    `plan` is a flow file's content, `inputs` are all its values, defaults included, and `folder` is where the files of its sub-flows are.
    """

    plan: Json
    inputs: Json = {}
    folder: str = ""


class PlanRevised(Envelope, frozen=True, tag="plan.revised"):
    """A plan was changed while it is carried out.

    `steps` holds the steps that are new or changed, null for those that are gone; `inputs` the values that changed. The steps of `again` lose what came of
    them and run once more.
    """

    steps: Json = {}
    inputs: Json = {}
    again: tuple[str, ...] = ()
    reason: str = ""


class StepQueued(Envelope, frozen=True, tag="step.queued"):
    """All that the step needs has ended, and it waits: for its condition or an approval, or, once those are there (`cleared`), for its turn.

    It is not saved, for it follows from what is.
    """

    durable: ClassVar[bool] = False

    cleared: bool = False


class StepStarted(Envelope, frozen=True, tag="step.started"):
    """An attempt begins. Attempts count from 1 over all rounds of a `repeat` and never anew.

    `items` are those of a `for_each` step; each is carried out under a span of its own, `research#0`.
    """

    attempt: int = 1
    round: int = 1
    items: tuple[Any, ...] | None = None


class StepRetried(Envelope, frozen=True, tag="step.retried"):
    """An attempt failed, and another follows after `delay` seconds."""

    attempt: int
    reason: str
    delay: float = 0.0


class StepRepeated(Envelope, frozen=True, tag="step.repeated"):
    """A round of a `repeat` is over and its `until` does not hold yet, so that another follows."""

    round: int
    output: Any = None


class StepEnded(Envelope, frozen=True, tag="step.ended"):
    """A step is over. A skipped one names in `cause` the step because of which it was skipped.

    A `for_each` step has no output of its own: it is that of its items. `cached` says that an earlier run had done the same.
    """

    status: Literal["success", "failed", "skipped"]
    output: Any = None
    reason: str = ""
    cause: str = ""
    cached: bool = False


class StepSummarised(Envelope, frozen=True, tag="step.summarised"):
    """What came of a step, in short, for prompts in which the whole has no room; written once.

    `asked_by` is the span of the attempt that asked for it, for which `usage` counts; where it is empty, as in older journals, that is the step itself.
    """

    summary: str
    asked_by: str = ""
    usage: Usage = Usage()


class CheckpointMade(Envelope, frozen=True, tag="checkpoint.made"):
    """The workspace was kept as it was before turn `turn` changed it; the last one of an agent is how its work left it. `state` is the id in the store."""

    turn: int
    state: str


class ToolDecided(Envelope, frozen=True, tag="tool.decided"):
    """What the policy, a hook or a person said to a call, where it was not simply allowed. `by` is one of `policy`, `hook`, `person`.

    `scope` is `run` when a person allowed the tool until the run ends; `tainted` says that untrusted text had been read by then.
    """

    call: str
    tool: str
    do: Literal["allow", "deny"]
    by: Literal["policy", "hook", "person"]
    reason: str = ""
    rule: str = ""
    scope: Literal["once", "run"] = "once"
    tainted: bool = False


class QuestionAsked(Envelope, frozen=True, tag="question.asked"):
    """Someone must answer before the run goes on; `id` is unique within the run."""

    id: str
    question: str
    options: tuple[str, ...] = ()


class QuestionAnswered(Envelope, frozen=True, tag="question.answered"):
    id: str
    answer: str


class ContextCompacted(Envelope, frozen=True, tag="context.compacted"):
    """The window moved: tool results before message `shrink_to` are shown short, messages before `drop_to` are replaced by `summary`.

    `keep` is the number of characters that a short result shows. `usage` counts the model call that wrote the summary, if one did.
    """

    shrink_to: int
    drop_to: int
    keep: int
    summary: str = ""
    usage: Usage = Usage()


class ArtifactAdded(Envelope, frozen=True, tag="artifact.added"):
    path: str
    note: str = ""


class WarningRaised(Envelope, frozen=True, tag="warning.raised"):
    """`topic` is a stable word (`model`, `limit:turns`, `limit:cost`, ...) and `text` is for people."""

    topic: str
    text: str


Event = (
    RunStarted
    | RunSuspended
    | RunResumed
    | RunEnded
    | TurnStarted
    | TurnEnded
    | MessageAdded
    | ModelDelta
    | ModelReplied
    | ModelRetried
    | ToolCalled
    | ToolReturned
    | PlanMade
    | PlanRevised
    | StepQueued
    | StepStarted
    | StepRetried
    | StepRepeated
    | StepEnded
    | StepSummarised
    | ToolDecided
    | CheckpointMade
    | QuestionAsked
    | QuestionAnswered
    | ContextCompacted
    | ArtifactAdded
    | WarningRaised
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """One line of JSON, without the newline."""
    return _encoder.encode(event)


def decode(line: bytes | str) -> Event:
    """The event of one JSON line. Raises: msgspec.ValidationError for anything else."""
    return _decoder.decode(line)


def as_json(event: Event) -> dict[str, Any]:
    """The event as plain JSON values."""
    return msgspec.json.decode(encode(event))


def agent_scope(span: str) -> str:
    """The span of the agent that `span` belongs to: `research#1/turn-2/call-ab` is of `research#1`.

    A call that itself runs an agent has turns below it, so the last turn decides.
    """
    if "turn-" not in span:
        return span
    parts = span.split("/")
    turns = [place for place, part in enumerate(parts) if part.startswith("turn-")]
    return "/".join(parts[: turns[-1]] if turns else parts)
