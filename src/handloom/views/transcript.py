"""A run as Markdown: what was asked, said, called and answered, in the order in which it happened."""

from collections.abc import Iterable

from handloom.events import (
    Event,
    MessageAdded,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunStarted,
    ToolCalled,
    ToolReturned,
    TurnStarted,
)
from handloom.views.lines import line

FENCE = "~~~~"


def markdown(events: Iterable[Event]) -> str:
    """A document with a heading for each turn; tool calls and results stand in fences."""
    return "\n\n".join(block for event in events for block in _blocks(event)) + "\n"


def _blocks(event: Event) -> list[str]:
    match event:
        case RunStarted(task=task):
            return [f"# {event.run}", _quoted(task)]
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


def _quoted(text: str) -> str:
    return "\n".join(f"> {row}" for row in text.splitlines() or [""])


def _fenced(text: str) -> str:
    return f"{FENCE}\n{text.replace(FENCE, '~ ~ ~ ~')}\n{FENCE}"
