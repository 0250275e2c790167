"""GuardedProxy: the browser's only way out, so that every request it makes, the target of a redirect included, meets the guard."""

import asyncio
from asyncio import StreamReader, StreamWriter
from collections import deque
from typing import Self

from handloom.errors import ToolError
from handloom.net.guard import Guard
from handloom.sandbox.proxy import DIAL_SECONDS, Proxy, RefusedError


class GuardedProxy(Proxy):
    """A proxy of this machine that dials what its guard allows. `refused` holds the newest refusals, host and reason."""

    def __init__(self, guard: Guard) -> None:
        super().__init__(())
        self._guard = guard
        self.refused: deque[tuple[str, str]] = deque(maxlen=20)

    @classmethod
    async def open(cls, guard: Guard) -> Self:
        """Listen on a free port."""
        proxy = cls(guard)
        proxy._server = await asyncio.start_server(proxy._accepted, "127.0.0.1", 0, limit=65_536)
        return proxy

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        try:
            await super()._serve(reader, writer)
        except* OSError:
            pass  # the browser, or the far side, hung up in the middle, as both may

    async def _dialled(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        try:
            found = await self._guard.addresses(host, port)
        except ToolError as error:
            self.refused.append((host, str(error)))
            raise RefusedError(str(error)) from None
        problem: Exception = OSError("no address")
        for address in found:
            try:
                async with asyncio.timeout(DIAL_SECONDS):
                    return await asyncio.open_connection(address, port)
            except (OSError, TimeoutError) as error:
                problem = error
        raise RefusedError(f"{host}:{port} cannot be reached: {problem or 'no answer in time'}")
