"""Steps: what a scripted server answers with, as values, and their form in the Chat Completions format.

`reply("hello")`, `reply(calls=[("bash", {"command": "ls"})])`, `error(429, retry_after=0.01)`, `cut(reply("a b c"), after_chunks=2)`, `hang(5)`,
`body(b"<html>")`. A script can also be a JSON file, `{"steps": [{"kind": "reply", "text": "hello"}], "repeat": true}`.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from handloom.messages import Json, Value


class Call(Value, frozen=True):
    """A tool call. `arguments` is the exact text sent, valid JSON or not; `id` None makes a unique one, and an empty one is left out."""

    name: str
    arguments: str = "{}"
    id: str | None = None


class Reply(Value, frozen=True, tag="reply", tag_field="kind"):
    """A reply of a model.

    `chunks` is the number of deltas that the text comes in when streamed, `delay` the seconds before each of them (and once before a reply that is not
    streamed). `usage` None is estimated at four bytes a token. `finish` None is `tool_calls` or `stop`. `index` False leaves `index` out of the deltas
    of calls. `extra` is merged into the reply, or into the last chunk of a stream, e.g. `{"timings": {...}}`.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    finish: str | None = None
    usage: Json | None = None
    cached_tokens: int = 0
    chunks: int = 1
    delay: float = 0.0
    index: bool = True
    extra: Json = msgspec.field(default_factory=dict)


class Error(Value, frozen=True, tag="error", tag_field="kind"):
    """A refusal with the error body of OpenAI's services."""

    status: int
    code: str = ""
    message: str = "scripted error"
    headers: dict[str, str] = msgspec.field(default_factory=dict)


class Cut(Value, frozen=True, tag="cut", tag_field="kind"):
    """`of`, but the connection is closed after `after_chunks` chunks of the stream (the first only names the role), or in the middle of a plain body."""

    of: Reply
    after_chunks: int = 1


class Hang(Value, frozen=True, tag="hang", tag_field="kind"):
    """`after_chunks` chunks of `of`, then nothing for `seconds`, then the connection is closed."""

    seconds: float
    of: Reply = Reply()
    after_chunks: int = 0


class Body(Value, frozen=True, tag="body", tag_field="kind"):
    """Any bytes with any status; base64 in a JSON script."""

    data: bytes
    status: int = 200
    content_type: str = "text/html"
    headers: dict[str, str] = msgspec.field(default_factory=dict)


Step = Reply | Error | Cut | Hang | Body


class Script(Value, frozen=True):
    """Steps in order; with `repeat` they begin again when they are over."""

    steps: tuple[Step, ...]
    repeat: bool = False


def reply(text: str = "", *, calls: Iterable[Call | tuple[str, Mapping[str, Any] | str]] = (), **fields: Any) -> Reply:
    """A reply with text, calls or both; a call is a `call(...)` or `(name, arguments)`, other fields are those of `Reply`."""
    return Reply(text=text, calls=tuple(item if isinstance(item, Call) else call(*item) for item in calls), **fields)


def call(name: str, arguments: Mapping[str, Any] | str = "", id: str | None = None) -> Call:  # noqa: A002  # the name of the field in the format
    """A tool call; arguments given as text are sent as they are."""
    return Call(name=name, arguments=arguments if isinstance(arguments, str) else json.dumps(arguments), id=id)


def error(
    status: int,
    code: str = "",
    message: str = "scripted error",
    *,
    headers: Mapping[str, str] | None = None,
    retry_after: float | None = None,
) -> Error:
    """A refusal; `retry_after` is seconds."""
    wait = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    return Error(status=status, code=code, message=message, headers={**wait, **(headers or {})})


def cut(of: Reply | str = "a reply that is cut", *, after_chunks: int = 1) -> Cut:
    """A reply whose connection breaks; a text comes in as many chunks as it has words."""
    return Cut(of=_worded(of), after_chunks=after_chunks)


def hang(seconds: float, of: Reply | str = "", *, after_chunks: int = 0) -> Hang:
    """A reply that stops coming without an end; a text comes in as many chunks as it has words."""
    return Hang(seconds=seconds, of=_worded(of), after_chunks=after_chunks)


def body(data: bytes | str, *, status: int = 200, content_type: str = "text/html") -> Body:
    """A body that is no completion, such as the page of a proxy."""
    return Body(data=data.encode() if isinstance(data, str) else data, status=status, content_type=content_type)


def load(text: bytes | str) -> Script:
    """A script from JSON, or from a bare list of steps.

    Raises: msgspec.ValidationError naming the field that is wrong.
    """
    parsed = msgspec.json.decode(text)
    return msgspec.convert({"steps": parsed} if isinstance(parsed, list) else parsed, Script)


def completion(step: Reply, request: Json, *, number: int, size: int) -> Json:
    """The reply that is not streamed. `number` counts the requests, for ids; `size` is that of the request in bytes, for the usage."""
    message: Json = {"role": "assistant", "content": step.text or None}
    if step.reasoning:
        message["reasoning_content"] = step.reasoning
    if step.calls:
        message["tool_calls"] = _calls(step, number)
    choice = {"index": 0, "message": message, "finish_reason": _finish(step)}
    return {**_head(request, number, "chat.completion"), "choices": [choice], "usage": _usage(step, size), **step.extra}


def chunks(step: Reply, request: Json, *, number: int, size: int) -> list[Json]:
    """The reply as stream chunks; the last one has the usage where `stream_options.include_usage` asks for it."""
    head = _head(request, number, "chat.completion.chunk")

    def chunk(delta: Json, finish: str | None = None) -> Json:
        return {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    made = [chunk({"role": "assistant", "content": ""})]
    if step.reasoning:
        made.append(chunk({"reasoning_content": step.reasoning}))
    made += [chunk({"content": piece}) for piece in _pieces(step.text, step.chunks)]
    made += [chunk({"tool_calls": [delta]}) for delta in _call_deltas(step, number)]
    made.append(chunk({}, _finish(step)))
    options: Json = request.get("stream_options") or {}
    if options.get("include_usage"):
        made.append({**head, "choices": [], "usage": _usage(step, size)})
    return [*made[:-1], {**made[-1], **step.extra}]


def _worded(of: Reply | str) -> Reply:
    return of if isinstance(of, Reply) else Reply(text=of, chunks=max(1, len(of.split())))


def _head(request: Json, number: int, kind: str) -> Json:
    return {"id": f"chatcmpl-{number}", "object": kind, "created": 0, "model": request.get("model", "scripted")}


def _finish(step: Reply) -> str:
    return step.finish or ("tool_calls" if step.calls else "stop")


def _usage(step: Reply, size: int) -> Json:
    if step.usage is not None:
        return step.usage
    prompt = max(1, size // 4)
    said = max(
        1,
        (len(step.text) + len(step.reasoning) + sum(len(call.name) + len(call.arguments) for call in step.calls)) // 4,
    )
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said,
        "total_tokens": prompt + said,
        "prompt_tokens_details": {"cached_tokens": step.cached_tokens},
    }


def _calls(step: Reply, number: int) -> list[Json]:
    return [_identified(call, number, place) for place, call in enumerate(step.calls)]


def _identified(call: Call, number: int, place: int) -> Json:
    name = f"call_{number}_{place}" if call.id is None else call.id
    made = {"type": "function", "function": {"name": call.name, "arguments": call.arguments}}
    return {"id": name, **made} if name else made


def _call_deltas(step: Reply, number: int) -> Iterable[Json]:
    """A call begins with its name and half of its arguments; the other half follows in a second delta, where `index` says which call it belongs to."""
    for place, made in enumerate(_calls(step, number)):
        where = {"index": place} if step.index else {}
        arguments = made["function"]["arguments"]
        half = len(arguments) // 2 if step.index else len(arguments)
        yield {**where, **made, "function": {"name": made["function"]["name"], "arguments": arguments[:half]}}
        if arguments[half:]:
            yield {**where, "function": {"arguments": arguments[half:]}}


def _pieces(text: str, count: int) -> list[str]:
    """The text in at most `count` pieces of about one length."""
    length = -(-len(text) // max(1, count))
    return [text[start : start + length] for start in range(0, len(text), length)] if text else []
