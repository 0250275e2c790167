"""The public format of events."""

import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline_snapshot import snapshot

from handloom.events import Event, ModelReplied, RunStarted, agent_scope, as_json, decode, encode
from handloom.messages import Message, ToolCall, Usage


def test_the_kinds_are_those_that_were_published() -> None:
    kinds = sorted(str(kind.__struct_config__.tag) for kind in typing.get_args(Event))
    assert kinds == snapshot(
        [
            "artifact.added",
            "checkpoint.made",
            "context.compacted",
            "message.added",
            "model.delta",
            "model.replied",
            "model.retried",
            "plan.made",
            "plan.revised",
            "question.answered",
            "question.asked",
            "run.ended",
            "run.resumed",
            "run.started",
            "run.suspended",
            "step.ended",
            "step.queued",
            "step.repeated",
            "step.retried",
            "step.started",
            "step.summarised",
            "tool.called",
            "tool.decided",
            "tool.returned",
            "turn.ended",
            "turn.started",
            "warning.raised",
        ]
    )


@given(st.builds(RunStarted, task=st.text(), workspace=st.text(), seq=st.integers(0, 10**9), span=st.text()))
def test_an_event_survives_its_line(event: RunStarted) -> None:
    line = encode(event)
    assert b"\n" not in line
    assert decode(line) == event


def test_a_line_is_flat_json_with_its_kind() -> None:
    event = ModelReplied(
        run="r1",
        seq=3,
        at=1.5,
        span="turn-1",
        message=Message.assistant("好", (ToolCall(id="call00001", name="add", arguments={"a": 1}),)),
        usage=Usage(prompt_tokens=10, completion_tokens=2, calls=1),
        finish="tool_calls",
    )
    assert as_json(event) == snapshot(
        {
            "kind": "model.replied",
            "message": {
                "role": "assistant",
                "parts": [{"type": "text", "text": "好"}],
                "tool_calls": [{"id": "call00001", "name": "add", "arguments": {"a": 1}}],
            },
            "usage": {"prompt_tokens": 10, "completion_tokens": 2, "calls": 1},
            "finish": "tool_calls",
            "run": "r1",
            "seq": 3,
            "at": 1.5,
            "span": "turn-1",
        }
    )


def test_an_unknown_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        decode(b'{"kind": "of.tomorrow"}')


@pytest.mark.parametrize(
    ("span", "scope"),
    [
        ("", ""),
        ("turn-2", ""),
        ("turn-2/call-call00001", ""),
        ("research#1", "research#1"),
        ("research#1/turn-3/call-x", "research#1"),
        ("turn-2/call-x/turn-1/call-y", "turn-2/call-x"),
    ],
)
def test_a_span_belongs_to_the_agent_of_its_last_turn(span: str, scope: str) -> None:
    assert agent_scope(span) == scope
