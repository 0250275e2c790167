"""How events read to people."""

import io

import msgspec
import pytest
from inline_snapshot import snapshot
from rich.console import Console

from handloom.events import (
    ArtifactAdded,
    ContextCompacted,
    Event,
    MessageAdded,
    ModelDelta,
    ModelReplied,
    ModelRetried,
    QuestionAnswered,
    QuestionAsked,
    RunEnded,
    RunResumed,
    RunStarted,
    RunSuspended,
    ToolCalled,
    ToolReturned,
    TurnEnded,
    TurnStarted,
    WarningRaised,
)
from handloom.messages import Message, ToolCall, ToolResult, Usage
from handloom.views.console import LiveView, PlainView
from handloom.views.lines import line
from handloom.views.transcript import markdown

CALL = ToolCall(id="call00001", name="python_execute", arguments={"code": "print('你好')\nx = 1"})
STORY: tuple[Event, ...] = (
    RunStarted(run="r1", task="Say hello\nin Chinese"),
    TurnStarted(turn=1),
    MessageAdded(message=Message.user("next", origin="next_step")),
    ModelDelta(text="I greet"),
    ModelRetried(reason="503 overloaded", attempt=1, delay=0.5),
    ModelReplied(
        message=Message.assistant("I greet", (CALL,)),
        usage=Usage(prompt_tokens=1_200, completion_tokens=20, cached_tokens=900),
        seconds=1.25,
    ),
    ToolCalled(call=CALL),
    ToolReturned(call=CALL, result=ToolResult(text="你好\n"), seconds=0.1),
    TurnEnded(turn=1),
    MessageAdded(message=Message.user("You repeat yourself.", origin="note")),
    QuestionAsked(id="?1", question="Louder?"),
    QuestionAnswered(id="?1", answer="yes"),
    ContextCompacted(shrink_to=4, drop_to=0, keep=300),
    ArtifactAdded(path="figure-1.png"),
    WarningRaised(topic="limit:turns", text="40 turns used of 50 turns"),
    RunSuspended(cause="limit", reason="the limit is reached"),
    RunResumed(run="r1"),
    RunEnded(status="failed", answer="", reason="the agent says it failed"),
    RunEnded(status="success", answer="你好"),
)


def test_each_event_has_its_line() -> None:
    assert [text for event in STORY if (text := line(event))] == snapshot(
        [
            "run r1: Say hello in Chinese",
            "turn 1",
            "the model failed (503 overloaded), asking again in 0.5 s",
            "1,200 + 20 tokens, 900 cached, 1.2 s: I greet",
            "-> python_execute(code=\"print('你好')\\nx = 1\")",
            "<- 你好 (0.1 s)",
            "note: You repeat yourself.",
            "question: Louder?",
            "answer: yes",
            "earlier turns were shortened to fit the model's context",
            "file: figure-1.png",
            "warning: 40 turns used of 50 turns",
            "stopped (limit): the limit is reached",
            "run r1 goes on",
            "failed: the agent says it failed",
            "success",
        ]
    )


@pytest.mark.parametrize("view", [PlainView, LiveView])
def test_a_view_shows_the_story_and_leaves_the_terminal_usable(view: type[PlainView | LiveView]) -> None:
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=view is LiveView, width=100)
    with view(console) as shown:
        for event in STORY:
            shown(event)
        with shown.paused():
            console.print("a question")
    assert "python_execute(code=" in screen.getvalue()
    assert "a question" in screen.getvalue()


def test_what_a_model_writes_cannot_move_the_terminal() -> None:
    wicked = "\x1b[2Jgone\x1b]0;title\x07\u202eback" + "x" * 1_000_000
    for event in (
        ToolCalled(call=ToolCall(id="c", name="bash", arguments={"command": wicked})),
        ToolReturned(call=CALL, result=ToolResult(text=wicked)),
        QuestionAsked(id="?", question=wicked[:50]),
        RunEnded(status="failed", reason=wicked[:50]),
        RunStarted(run="r", task=wicked),
    ):
        shown = line(event)
        assert "\x1b" not in shown
        assert "\u202e" not in shown
        assert len(shown) < 300


def test_a_transcript_is_markdown_whatever_the_text_holds() -> None:
    fenced = msgspec.structs.replace(STORY[7], result=ToolResult(text="```\n~~~~\n# not a heading"))
    text = markdown([*STORY[:7], fenced, STORY[-1]])
    assert text.startswith("# r1\n\n> Say hello\n> in Chinese")
    assert "## Turn 1" in text
    assert text.count("~~~~") % 2 == 0
    assert "## Answer\n\n你好" in text
