"""A run as Markdown: what was asked, said, called and answered, in the order in which it happened."""

import json
from collections.abc import Iterable

from handloom.events import (
    Event,
    MessageAdded,
    ModelReplied,
    PlanMade,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
    StepEnded,
    StepStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from handloom.messages import Json
from handloom.plans.plan import ACTIONS
from handloom.views.lines import WIDTH, line

FENCE = "~~~~"


def markdown(events: Iterable[Event]) -> str:
    """A document with a heading for each turn; tool calls and results stand in fences."""
    return "\n\n".join(block for event in events for block in _blocks(event)) + "\n"


def _blocks(event: Event) -> list[str]:  # noqa: C901, PLR0912 - one case for each kind
    match event:
        case RunStarted(task=task):
            return [f"# {event.run}", _quoted(task)]
        case PlanMade(plan=plan):
            return [f"## {_where(event)}Plan {plan.get('name', '')}", *_plan(plan["steps"])]
        case StepStarted(items=None):
            again = f", attempt {event.attempt}" if event.attempt > 1 else ""
            return [f"## Step {event.span}{again}"]
        case StepEnded():
            return _ended(event)
        case TurnStarted(turn=turn):
            return [f"## Turn {turn}{f' ({event.span})' if event.span.count('/') else ''}"]
        case MessageAdded(message=message):
            return [] if message.origin == "next_step" else [_quoted(message.text)]
        case ModelReplied(message=message):
            return [message.text] if message.text.strip() else []
        case ToolCalled():
            return []  # its result shows the call
        case ToolReturned(call=call, result=result):
            return [
                f"**{call.name}** ({'ok' if result.ok else 'failed'}, {event.seconds:.1f} s)",
                _fenced(call.arguments_json),
                _fenced(result.text),
            ]
        case QuestionAsked(question=question):
            return [f"**Question:** {question}"]
        case QuestionAnswered(answer=answer):
            return [f"**Answer:** {answer}"]
        case RunEnded(answer=answer, status=status, reason=reason):
            return ["## Answer", answer or reason, f"Status: {status}"]
        case _:
            return [f"*{text}*"] if (text := line(event)) else []


def _where(event: Event) -> str:
    return f"{event.span}: " if event.span else ""


def _plan(steps: Json) -> list[str]:
    """The steps of a plan as a list, each with what it needs."""
    rows = [
        f"- {name}: {' '.join(str(step.get(action)).split())[:WIDTH]}{_needs(step)}"
        for name, step in steps.items()
        for action in ACTIONS
        if step.get(action) is not None
    ]
    return ["\n".join(rows)]


def _needs(step: Json) -> str:
    return f" (needs {', '.join(step['needs'])})" if step.get("needs") else ""


def _ended(event: StepEnded) -> list[str]:
    """How a step ended, with its output; one step ends while others are at work, so its name stands there."""
    how = f"{event.status}{', from the cache' if event.cached else ''}{f': {event.reason}' if event.reason else ''}"
    output = event.output
    text = output if isinstance(output, str) else "" if output is None else json.dumps(output, ensure_ascii=False)
    return [f"**Step {event.span}:** {how}", *([_fenced(text)] if text.strip() else [])]


def _quoted(text: str) -> str:
    return "\n".join(f"> {row}" for row in text.splitlines() or [""])


def _fenced(text: str) -> str:
    return f"{FENCE}\n{text.replace(FENCE, '~ ~ ~ ~')}\n{FENCE}"
