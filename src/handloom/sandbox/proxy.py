"""Proxy: the one way out of a sandbox with `net = "allowlist"`; it dials listed hosts alone, at addresses it has checked."""

import asyncio
import contextlib
import os
from asyncio import StreamReader, StreamWriter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from handloom.sandbox import addresses
from handloom.sandbox.settings import Host

HEAD_BYTES = 65_536
HEAD_SECONDS = 30.0
DIAL_SECONDS = 30.0
PIECE = 65_536


class RefusedError(Exception):
    """The text goes to the program."""


class Proxy:
    """An HTTP proxy on a unix socket: `CONNECT host:port`, and `GET http://host/...` for plain HTTP."""

    def __init__(self, allow: Sequence[Host]) -> None:
        self._allow = tuple(allow)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    @property
    def port(self) -> int:
        """Where it listens on this machine, when it does."""
        return self._server.sockets[0].getsockname()[1] if self._server else 0

    @classmethod
    async def listen(cls, allow: Sequence[Host]) -> "Proxy":
        """Listen on a free port of this machine."""
        proxy = cls(allow)
        proxy._server = await asyncio.start_server(proxy._accepted, "127.0.0.1", 0, limit=HEAD_BYTES)
        return proxy

    @classmethod
    async def start(cls, folder: Path, allow: Sequence[Host]) -> "Proxy":
        """Listen in the folder, and put there what carries connections to us from inside."""
        proxy = cls(allow)
        proxy._server = await asyncio.start_unix_server(proxy._accepted, folder / "proxy.sock", limit=HEAD_BYTES)
        os.chmod(folder / "proxy.sock", 0o666)  # noqa: PTH101,S103 - the folder decides who comes here
        source = Path(__file__).with_name("forward.py").read_bytes()
        (folder / "forward.py").write_bytes(source)
        (folder / "forward.py").chmod(0o644)
        return proxy

    async def aclose(self) -> None:
        if self._server:
            self._server.close()
        for task in list(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def _accepted(self, reader: StreamReader, writer: StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine runs in one
        self._open.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # one side is gone, or never said what it wanted
        except asyncio.CancelledError:
            writer.transport.abort()  # the sandbox closes: what nobody has taken yet is not waited for
        finally:
            self._open.discard(task)
            writer.close()

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        try:
            method, host, port, rest = read_head(head)
            far_reader, far_writer = await self._dialled(host, port)
        except RefusedError as refused:
            body = f"handloom: {refused}\n".encode()
            status = f"HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            writer.write(status.encode() + body)
            await writer.drain()
            return
        if method == "CONNECT":
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            far_writer.write(rest)
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(_carried(reader, far_writer))
                both.create_task(_carried(far_reader, writer))
        except BaseException:
            far_writer.transport.abort()
            raise
        far_writer.close()

    async def _dialled(self, host: str, port: int) -> tuple[StreamReader, StreamWriter]:
        """A connection to an address that was checked. Raises: RefusedError."""
        rule = next((rule for rule in self._allow if rule.covers(host)), None)
        if rule is None:
            raise RefusedError(f"{host} is not among the hosts that may be reached (sandbox.allow)")
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                found = await addresses.resolved(host, port)
                hidden = [address for address in found if not addresses.public(address)]
                if hidden and not rule.allow_private:
                    raise RefusedError(
                        f"{host} is at {hidden[0]}, which is not a public address (allow_private would allow it)"
                    )
                return await asyncio.open_connection(found[0], port)
        except (OSError, TimeoutError, UnicodeError) as error:
            raise RefusedError(f"{host}:{port} cannot be reached: {error or 'no answer in time'}") from None


def read_head(head: bytes) -> tuple[str, str, int, bytes]:
    """Method, host, port and what is sent on. Raises: RefusedError when it is no request to a proxy."""
    line, _, headers = head.partition(b"\r\n")
    try:
        method, target, version = line.decode("ascii").split(" ")
        parts = urlsplit(f"//{target}" if method == "CONNECT" else target)
        host, port = parts.hostname, parts.port or (443 if method == "CONNECT" else 80)
    except ValueError:
        raise RefusedError("this is no request that a proxy understands") from None
    if not host or (method != "CONNECT" and parts.scheme != "http"):
        raise RefusedError("only http and https go through here")
    path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    kept = [
        header
        for header in headers.split(b"\r\n")
        if header
        and header.split(b":")[0].strip().lower()
        not in (b"connection", b"proxy-connection", b"proxy-authorization", b"keep-alive")
    ]
    # One request a connection: a second one could name another host.
    sent = [f"{method} {path} {version}".encode(), *kept, b"Connection: close", b"", b""]
    return method, host, port, b"\r\n".join(sent)


async def _carried(reader: StreamReader, writer: StreamWriter) -> None:
    while data := await reader.read(PIECE):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError):
        writer.write_eof()
