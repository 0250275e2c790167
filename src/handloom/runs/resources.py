"""Resources: what a run keeps open between its calls, one object of a kind, closed when the run stops."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, TypeVar, cast


class Closeable(Protocol):
    async def aclose(self) -> None: ...


CloseableT = TypeVar("CloseableT", bound=Closeable)


@dataclass
class Resources:
    """Made at their first use, closed newest first."""

    _made: dict[type, Closeable] = field(default_factory=dict[type, Closeable])
    _making: defaultdict[type, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))
    _closing: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)

    async def get(self, kind: type[CloseableT], make: Callable[[], Awaitable[CloseableT]]) -> CloseableT:
        """The one object of this kind. `make` may ask for objects of other kinds, which are closed after it."""
        async with self._making[kind]:
            if kind not in self._made:
                self._made[kind] = made = await make()
                self._closing.push_async_callback(made.aclose)
        return cast("CloseableT", self._made[kind])

    def opened(self, kind: type[CloseableT]) -> CloseableT | None:
        """The object of this kind, where one was made."""
        return cast("CloseableT | None", self._made.get(kind))

    async def aclose(self) -> None:
        await self._closing.aclose()
        self._made.clear()
