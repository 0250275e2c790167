"""Model: what the loop asks of any model, and the values that cross that seam."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from handloom.events import Event
from handloom.llm.profiles import Profile
from handloom.messages import Json, Message, ToolSpec, Usage

Emit = Callable[[Event], Awaitable[object]]


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request in neutral terms. The system prompt always comes first; `messages` never hold one.

    `withheld` names tools that the model must not call this time; they stay in a prompt that lists them, for the sake of its prefix cache.
    `act` asks for a call rather than an answer, as far as the service can be bound to one.
    `schema` asks for a reply that is JSON of this JSON Schema; it is not combined with tools.
    """

    system: str = ""
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec, ...] = ()
    withheld: frozenset[str] = frozenset()
    act: bool = False
    schema: Json | None = None
    max_tokens: int | None = None
    temperature: float | None = None

    @property
    def allowed(self) -> tuple[ToolSpec, ...]:
        """The tools that may be called this time; all of them where nothing else would be left."""
        return tuple(tool for tool in self.tools if tool.name not in self.withheld) or self.tools


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A complete reply. `mode` is how tools were offered (`native`, `structured`, `text`, `code`), `finish` the provider's reason (`stop`, `tool_calls`, `length`)."""

    message: Message
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    mode: str = ""
    finish: str = ""
    seconds: float = 0.0


class Model(Protocol):
    """A model that can be asked. Implementations keep no conversation."""

    @property
    def name(self) -> str: ...

    @property
    def profile(self) -> Profile: ...

    async def complete(self, request: Request, emit: Emit) -> Reply:
        """Ask once; deltas, retries and warnings go to `emit` while it lasts.

        Raises: ModelRefusedError, ModelUnavailableError, ContextOverflowError.
        """
        ...

    def estimate(self, request: Request) -> int:
        """The prompt tokens that `request` would cost, without asking anyone."""
        ...

    async def aclose(self) -> None: ...
