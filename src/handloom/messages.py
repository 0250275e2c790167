"""What a model and its tools say to each other, free of any provider's format."""

from collections.abc import Mapping
from typing import Any, Literal, TypeGuard

import msgspec

Role = Literal["user", "assistant", "tool"]
Origin = Literal["", "task", "next_step", "note", "rejected", "challenged", "summary"]
Json = dict[str, Any]


def is_object(value: object) -> TypeGuard[Json]:
    """Whether a decoded JSON value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Whether a decoded JSON value is an array."""
    return isinstance(value, list)


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A frozen record with a JSON form."""


class TextPart(Value, frozen=True, tag="text", tag_field="type"):
    text: str


class ImagePart(Value, frozen=True, tag="image", tag_field="type"):
    """An image as base64, e.g. `mime="image/jpeg"`."""

    data: str
    mime: str = "image/png"


class ThinkingPart(Value, frozen=True, tag="thinking", tag_field="type"):
    """Reasoning text that a model sent beside its reply."""

    text: str


Part = TextPart | ImagePart | ThinkingPart


class ToolCall(Value, frozen=True):
    """A request of the model to run a tool.

    `error` is set when the arguments could not be read; `raw` then holds the model's own text, and the call is answered with the error and never run.
    """

    id: str
    name: str
    arguments: Json = {}
    raw: str = ""
    error: str = ""

    @property
    def arguments_json(self) -> str:
        """The arguments as the model wrote them, or as canonical JSON."""
        return self.raw or msgspec.json.encode(self.arguments).decode()


class Usage(Value, frozen=True):
    """Tokens of one or many model calls; `cached_tokens` are part of `prompt_tokens`. `cost` is in USD, 0 where no price is known."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost: float = 0.0
    calls: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=self.cost + other.cost,
            calls=self.calls + other.calls,
        )


class ToolResult(Value, frozen=True):
    """What a tool gave back. `ok` tells success from failure; the words of the text never do.

    `silent` says that the tool had nothing to show and `text` only says so. `spill` names a file of the run's folder that holds the complete text
    when `text` is cut. `untrusted` says that strangers wrote it (a web page, say). `usage` is what the tool itself asked of a model.
    """

    text: str = ""
    ok: bool = True
    silent: bool = False
    images: tuple[ImagePart, ...] = ()
    spill: str = ""
    untrusted: bool = False
    usage: Usage = Usage()


class ToolSpec(Value, frozen=True):
    """A tool as the model sees it; `parameters` is a JSON Schema of type object.

    `variants`, for a tool with actions, are narrower schemas of which arguments fit one: decoders are bound to them where they can be.
    """

    name: str
    description: str
    parameters: Json
    variants: tuple[Json, ...] = ()


class Message(Value, frozen=True):
    """One entry of a conversation. The system prompt is no message: it is never stored.

    `origin` says why a user message is there. A tool's message has `call_id`, `name`, `ok` and `silent`.
    `provider_data` is opaque and goes back to the provider that sent it.
    """

    role: Role
    parts: tuple[Part, ...] = ()
    tool_calls: tuple[ToolCall, ...] = ()
    origin: Origin = ""
    call_id: str = ""
    name: str = ""
    ok: bool = True
    silent: bool = False
    spill: str = ""
    provider_data: Json = {}

    @classmethod
    def user(cls, text: str, *, origin: Origin = "", images: tuple[ImagePart, ...] = ()) -> "Message":
        return cls(role="user", parts=(TextPart(text=text), *images), origin=origin)

    @classmethod
    def assistant(
        cls,
        text: str = "",
        tool_calls: tuple[ToolCall, ...] = (),
        *,
        thinking: str = "",
        provider_data: Mapping[str, Any] | None = None,
    ) -> "Message":
        thoughts: tuple[Part, ...] = (ThinkingPart(text=thinking),) if thinking else ()
        words: tuple[Part, ...] = (TextPart(text=text),) if text else ()
        return cls(
            role="assistant", parts=thoughts + words, tool_calls=tool_calls, provider_data=dict(provider_data or {})
        )

    @classmethod
    def tool(cls, call: ToolCall, result: ToolResult) -> "Message":
        return cls(
            role="tool",
            parts=(TextPart(text=result.text), *result.images),
            call_id=call.id,
            name=call.name,
            ok=result.ok,
            silent=result.silent,
            spill=result.spill,
        )

    @property
    def text(self) -> str:
        """The text parts, joined; reasoning is left out."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def images(self) -> tuple[ImagePart, ...]:
        return tuple(part for part in self.parts if isinstance(part, ImagePart))

    @property
    def thinking(self) -> str:
        return "".join(part.text for part in self.parts if isinstance(part, ThinkingPart))
