"""Events as short lines of text, for people: one place decides how an event reads."""

import json

from handloom.events import (
    ArtifactAdded,
    ContextCompacted,
    Event,
    MessageAdded,
    ModelReplied,
    ModelRetried,
    PlanMade,
    PlanRevised,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
    StepEnded,
    StepQueued,
    StepRepeated,
    StepRetried,
    StepStarted,
    StepSummarised,
    ToolCalled,
    ToolDecided,
    ToolReturned,
    TurnStarted,
    WarningRaised,
)
from handloom.messages import ToolCall, ToolResult
from handloom.tools.results import clean

WIDTH = 160


def line(event: Event) -> str:  # noqa: C901, PLR0912 - one case for each kind
    """One line about an event, free of control characters; empty for events that are not worth one."""
    match event:
        case RunStarted():
            return f"run {event.run}: {brief(event.task)}"
        case RunResumed():
            return f"run {event.run} goes on"
        case RunSuspended():
            return f"stopped ({event.cause}): {clean(event.reason)}"
        case RunEnded():
            return f"{event.status}{f': {clean(event.reason)}' if event.reason else ''}"
        case TurnStarted(turn=turn):
            return f"{_where(event)}turn {turn}"
        case PlanMade(plan=plan):
            return f"{_where(event)}plan {plan.get('name', '')}: {len(plan['steps'])} steps"
        case PlanRevised():
            return f"{_where(event)}{_revised(event)}"
        case StepQueued() | StepStarted() | StepRetried() | StepRepeated() | StepEnded() | StepSummarised():
            return f"{event.span}: {_step(event)}"
        case MessageAdded(message=message):
            return f"note: {brief(message.text)}" if message.origin in ("note", "rejected") else ""
        case ModelReplied():
            return _replied(event)
        case ModelRetried():
            return f"the model failed ({brief(event.reason)}), asking again in {event.delay:.1f} s"
        case ToolDecided():
            return f"{event.do} {brief(event.tool)} ({event.by}): {brief(event.reason)}"
        case ToolCalled(call=call):
            return f"-> {called(call)}"
        case ToolReturned(result=result):
            return f"<- {returned(result)} ({event.seconds:.1f} s)"
        case QuestionAsked(question=question):
            return f"question: {clean(question)}"
        case QuestionAnswered(answer=answer):
            return f"answer: {brief(answer)}"
        case ContextCompacted():
            return "earlier turns were shortened to fit the model's context"
        case ArtifactAdded(path=path):
            return f"file: {brief(path)}"
        case WarningRaised(text=text):
            return f"warning: {brief(text)}"
        case _:
            return ""


def brief(text: str, width: int = WIDTH) -> str:
    """The text on one line, cut to `width` characters."""
    flat = " ".join(clean(text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "…"


def called(call: ToolCall) -> str:
    """A call as it would be written: `python_execute(code="print(1)")`."""
    arguments = ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in call.arguments.items())
    return brief(f"{call.name}({arguments or call.raw})")


def returned(result: ToolResult) -> str:
    return ("" if result.ok else "failed: ") + (brief(result.text) or "(nothing)")


def _where(event: Event) -> str:
    """The step in which an event happens, for runs that have steps."""
    step = event.span.partition("/turn-")[0]
    return "" if not step or step.startswith("turn-") else f"{step}: "


def _step(event: StepQueued | StepStarted | StepRetried | StepRepeated | StepEnded | StepSummarised) -> str:
    match event:
        case StepQueued(cleared=cleared):
            return "waits for its turn" if cleared else "due"
        case StepStarted(items=items) if items is not None:
            return f"{len(items)} items"
        case StepStarted(attempt=attempt):
            return "started" if attempt == 1 else f"started, attempt {attempt}"
        case StepRetried():
            return f"failed ({brief(event.reason)}), tried again in {event.delay:.1f} s"
        case StepRepeated(round=number):
            return f"round {number} is over, another follows"
        case StepSummarised(asked_by=asker):
            return f"its output was summarised{f' for {asker}' if asker else ''}"
        case StepEnded(status=status, reason=reason):
            said = brief(reason) if reason else brief(_shown(event.output), 80)
            return f"{status}{' (from the cache)' if event.cached else ''}{f': {said}' if said else ''}"


def _shown(output: object) -> str:
    if isinstance(output, str):
        return output[: 4 * WIDTH]
    return "" if output is None else json.dumps(output, ensure_ascii=False)[: 4 * WIDTH]


def _revised(event: PlanRevised) -> str:
    parts = [
        f"steps {', '.join(event.steps)}" if event.steps else "",
        f"inputs {', '.join(event.inputs)}" if event.inputs else "",
        f"again {', '.join(event.again)}" if event.again else "",
    ]
    why = f" ({event.reason})" if event.reason else ""
    return brief(f"plan revised: {'; '.join(filter(None, parts))}{why}")


def _replied(event: ModelReplied) -> str:
    usage = event.usage
    cached = f", {usage.cached_tokens:,} cached" if usage.cached_tokens else ""
    said = brief(event.message.text) if event.message.tool_calls else ""
    return f"{usage.prompt_tokens:,} + {usage.completion_tokens:,} tokens{cached}, {event.seconds:.1f} s{f': {said}' if said else ''}"
