"""Draft: a reply while it streams in, put together from the chunks of a Chat Completions stream."""

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from handloom.events import ModelDelta
from handloom.llm import repair
from handloom.llm.profiles import Price, ToolMode
from handloom.messages import ToolCall, Usage

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk


@dataclass
class _Call:
    index: int | None
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list[str])

    @property
    def is_whole(self) -> bool:
        text = "".join(self.arguments).rstrip()
        if not text.endswith("}"):
            return False
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
        return True


@dataclass
class Draft:
    """What has come of a reply in this mode so far; `take` adds a chunk to it."""

    mode: ToolMode
    price: Price | None = None
    usage: Usage = field(default_factory=Usage)
    finish: str = ""
    model: str = ""
    _text: list[str] = field(default_factory=list[str])
    _thinking: list[str] = field(default_factory=list[str])
    _calls: list[_Call] = field(default_factory=list[_Call])
    _counted: bool = False  # usage came behind the last words, by itself: nothing more was to come

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def thinking(self) -> str:
        return "".join(self._thinking)

    @property
    def calls(self) -> list[ToolCall]:
        return [repair.make_call(call.id, call.name, "".join(call.arguments)) for call in self._calls]

    @property
    def is_whole(self) -> bool:
        """Whether the service said that this is all."""
        return bool(self.finish) or self._counted

    def take(self, chunk: "ChatCompletionChunk") -> list[ModelDelta]:
        """Add a chunk, and tell what of it a person may watch."""
        self.model = chunk.model or self.model
        if chunk.usage is not None:
            self.usage = _usage(chunk.usage, self.price)
        if not chunk.choices:
            self._counted = self._counted or chunk.usage is not None
            return []
        self._counted = False
        choice = chunk.choices[0]
        self.finish = choice.finish_reason or self.finish
        delta: Any = choice.delta
        if delta is None:
            return []
        shown: list[ModelDelta] = []
        if thinking := getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None):
            self._thinking.append(thinking)
            shown.append(ModelDelta(text=repair.sound(thinking), channel="thinking"))
        if delta.content:
            self._text.append(delta.content)
            channel = "calls" if self.mode == "structured" else "text"
            shown.append(ModelDelta(text=repair.sound(delta.content), channel=channel))
        shown += [
            ModelDelta(text=repair.sound(self._take_call(piece)), channel="calls") for piece in delta.tool_calls or ()
        ]
        return shown

    def _take_call(self, piece: Any) -> str:
        """Add a piece of a call to the one that it goes on with, or begin one with it."""
        call = self._goes_on_with(piece)
        if call is None:
            call = _Call(piece.index)
            self._calls.append(call)
        call.id = piece.id or call.id
        if piece.function is None:
            return ""
        name, arguments = piece.function.name or "", piece.function.arguments or ""
        call.name += name
        call.arguments.append(arguments)
        return name + arguments

    def _goes_on_with(self, piece: Any) -> _Call | None:
        """The call that a piece goes on with, None where it begins one.

        A service that leaves out `index` sends one call a piece, or goes on with the last. Gemini's gives all calls of a reply the index 0: there a name
        begins a call where it comes with a new id, or, where there are no ids, behind a call whose arguments are whole.
        """
        last = next((call for call in reversed(self._calls) if piece.index in (None, call.index)), None)
        if last is None:
            return None
        named = bool(piece.function and piece.function.name)
        is_other = bool(piece.id) and piece.id != last.id
        if piece.index is None:
            return None if named or is_other else last
        begins = named and last.name and (is_other or (not piece.id and not last.id and last.is_whole))
        return None if begins else last


def _usage(usage: Any, price: Price | None) -> Usage:
    """Tokens as the service counted them, and their cost in USD where the price is known."""
    prompt, completion = usage.prompt_tokens or 0, usage.completion_tokens or 0
    details = getattr(usage, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or getattr(usage, "prompt_cache_hit_tokens", None) or 0
    cost = 0.0
    if price:
        rate = price.prompt if price.cached is None else price.cached
        cost = ((prompt - cached) * price.prompt + cached * rate + completion * price.completion) / 1e6
    return Usage(prompt_tokens=prompt, completion_tokens=completion, cached_tokens=cached, cost=cost, calls=1)
