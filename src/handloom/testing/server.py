"""ScriptedServer: a Chat Completions service that says what a script tells it, for tests and benches.

It speaks HTTP/1.1 with keep-alive on loopback, plain and streamed (SSE), and can misbehave on purpose:

    with ScriptedServer([reply(calls=[("bash", {"command": "ls"})]), error(429, retry_after=0.01), reply("done")]) as server:
        client = OpenAI(base_url=server.base_url, api_key="none")
        ...
    assert [request.body["messages"][-1]["role"] for request in server.requests] == ["user", "tool", "tool"]

In a process of its own it is `python -m handloom.testing.server --port 0 --script FILE.json`; it prints its base URL as the first line.
"""

import argparse
import asyncio
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Self, assert_never

import msgspec

from handloom.messages import Json
from handloom.testing.steps import (
    Body,
    Cut,
    Error,
    Hang,
    Reply,
    Script,
    Step,
    body,
    call,
    chunks,
    completion,
    cut,
    error,
    hang,
    load,
    reply,
)

__all__ = ["Recorded", "ScriptedServer", "Step", "body", "call", "cut", "error", "hang", "load", "reply"]

_BUFFER = 1024 * 1024  # bytes; long requests arrive in few reads
_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    429: "Too Many Requests",
    500: "Internal Server Error",
}


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """A request as it came. Header names are in lower case; `body` is empty where it was no JSON object, `size` is its bytes."""

    method: str
    path: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Json = field(default_factory=dict)
    size: int = 0


class ScriptedServer:
    """Serves a script from a thread, between `with` and its end.

    `script` is the steps in order, a `Script`, or a function of the request's body, called in the server's thread. `requests` holds each completion that
    was asked for. When the script is over, or its function fails, the reply is a 500 and `faults` says so.
    """

    def __init__(
        self,
        script: Iterable[Step] | Script | Callable[[Json], Step],
        *,
        models: tuple[str, ...] = ("scripted",),
        port: int = 0,
    ) -> None:
        self.requests: list[Recorded] = []
        self.faults: list[str] = []
        self.models = models
        self.port = port
        self._step = script if callable(script) else _in_order(script)
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="scripted-server", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        if self._loop is None:
            raise OSError(f"port {self.port} cannot be opened; 0 chooses a free one")
        return self

    def __exit__(self, *_: object) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(timeout=10)

    async def _serve(self) -> None:
        try:
            server = await asyncio.start_server(self._talk, "127.0.0.1", self.port, limit=_BUFFER)
        except OSError:
            self._ready.set()
            return
        self.port = server.sockets[0].getsockname()[1]
        self._loop = asyncio.get_running_loop()
        self._ready.set()
        await self._stop.wait()
        server.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, as many requests as the client sends."""
        try:
            while (request := await _read(reader)) is not None and await self._answer(request, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # the client went away, which some tests do on purpose
        except asyncio.CancelledError:
            writer.transport.abort()  # the server stops: what nobody has taken yet is not waited for
        finally:
            writer.close()

    async def _answer(self, request: Recorded, writer: asyncio.StreamWriter) -> bool:
        """Send the answer; false when the connection is to be closed."""
        match request.method, request.path:
            case "GET", "/v1/models":
                listed = [{"id": name, "object": "model", "created": 0, "owned_by": "scripted"} for name in self.models]
                writer.write(_plain(200, _json({"object": "list", "data": listed})))
            case "POST", path if path.partition("?")[0].endswith("/chat/completions"):
                self.requests.append(request)
                return await _play(self._next(request), request, len(self.requests), writer)
            case _:
                writer.write(
                    _refusal(
                        Error(
                            status=404, code="not_found", message=f"no such endpoint: {request.method} {request.path}"
                        )
                    )
                )
        await writer.drain()
        return True

    def _next(self, request: Recorded) -> Step:
        if not request.body:
            return self._fault(
                Error(status=400, code="invalid_request", message="the request's body is no JSON object")
            )
        try:
            return self._step(request.body)
        except StopIteration:
            return self._fault(
                Error(status=500, code="script_ended", message=f"the script ended before request {len(self.requests)}")
            )
        except Exception as fault:  # noqa: BLE001  # the script is the test's own code: its fault is shown to the client and kept
            return self._fault(
                Error(
                    status=500,
                    code="script_failed",
                    message=f"the script failed at request {len(self.requests)}: {fault!r}",
                )
            )

    def _fault(self, error: Error) -> Error:
        self.faults.append(error.message)
        return error


def _in_order(script: Iterable[Step] | Script) -> Callable[[Json], Step]:
    steps: Iterator[Step] = iter(script.steps if isinstance(script, Script) else script)
    if isinstance(script, Script) and script.repeat:
        steps = cycle(script.steps)
    return lambda _request: next(steps)


async def _read(reader: asyncio.StreamReader) -> Recorded | None:
    """The next request, None at the end of the connection; a body is only read by its Content-Length."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    method, path, _version = first.split(" ", 2)
    headers = {
        name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)
    }
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return Recorded(method=method, path=path.partition("?")[0], headers=headers, body=_object(data), size=len(data))


def _object(data: bytes) -> Json:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.MsgspecError:
        return {}


async def _play(step: Step, request: Recorded, number: int, writer: asyncio.StreamWriter) -> bool:
    """Send a step; false when the connection is to be closed."""
    match step:
        case Reply():
            await _send(_parts(step, request, number), writer, step.delay)
            return True
        case Error():
            await _send([_refusal(step)], writer)
            return True
        case Body():
            await _send([_plain(step.status, step.data, step.content_type, step.headers)], writer)
            return True
        case Cut():
            await _send(_begun(step.of, request, number, step.after_chunks), writer, step.of.delay)
            return False
        case Hang():
            await _send(_begun(step.of, request, number, step.after_chunks), writer, step.of.delay)
            await asyncio.sleep(step.seconds)
            return False
    assert_never(step)


def _parts(step: Reply, request: Recorded, number: int) -> list[bytes]:
    """The HTTP response: whole, or one part for the head with the first chunk and one for each further chunk."""
    if not request.body.get("stream"):
        return [_plain(200, _json(completion(step, request.body, number=number, size=request.size)))]
    first, *rest = [_event(_json(chunk)) for chunk in chunks(step, request.body, number=number, size=request.size)]
    return [_STREAM_HEAD + first, *rest, _event(b"[DONE]") + b"0\r\n\r\n"]


def _begun(step: Reply, request: Recorded, number: int, after_chunks: int) -> list[bytes]:
    parts = _parts(step, request, number)
    if len(parts) == 1:
        return [parts[0][: -len(parts[0]) // 3]] if after_chunks else []
    return parts[: min(after_chunks, len(parts) - 1)]


async def _send(parts: list[bytes], writer: asyncio.StreamWriter, delay: float = 0.0) -> None:
    """Write the parts, `delay` seconds before each; without a delay in one write, which is fast."""
    for part in parts if delay else [b"".join(parts)]:
        if delay:
            await asyncio.sleep(delay)
        writer.write(part)
        await writer.drain()


def _refusal(step: Error) -> bytes:
    return _plain(
        step.status,
        _json({"error": {"message": step.message, "type": step.code, "code": step.code, "param": None}}),
        headers=step.headers,
    )


_STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ncache-control: no-cache\r\ntransfer-encoding: chunked\r\n\r\n"


def _plain(
    status: int, data: bytes, content_type: str = "application/json", headers: dict[str, str] | None = None
) -> bytes:
    fields = {"content-type": content_type, "content-length": str(len(data)), **(headers or {})}
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Scripted')}\r\n{lines}\r\n".encode() + data


def _event(data: bytes) -> bytes:
    """An SSE event inside one HTTP chunk."""
    event = b"data: " + data + b"\n\n"
    return f"{len(event):x}\r\n".encode() + event + b"\r\n"


def _json(value: Json) -> bytes:
    return msgspec.json.encode(value)


def main() -> None:
    """Serve a script until the process is stopped."""
    parser = argparse.ArgumentParser(description="A scripted Chat Completions service.")
    parser.add_argument("--script", type=Path, required=True, help="a JSON file: a list of steps, or {steps, repeat}")
    parser.add_argument("--port", type=int, default=0, help="0 chooses a free one")
    options = parser.parse_args()
    with ScriptedServer(load(options.script.read_bytes()), port=options.port) as server:
        print(server.base_url, flush=True)  # noqa: T201  # the caller reads the address from the first line
        with suppress(KeyboardInterrupt):
            threading.Event().wait()


if __name__ == "__main__":
    main()
