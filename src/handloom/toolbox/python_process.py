"""PythonProcess: the child that runs the code, seen from our side: asked over a socket, interrupted, killed, buried."""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
from asyncio import StreamReader, StreamWriter
from dataclasses import dataclass
from typing import Self

import msgspec

from handloom.errors import ToolError
from handloom.sandbox.sandbox import Program, Sandbox, Stdio

OUTPUT_BYTES = 1_000_000
REPLY_BYTES = 1_000_000
START_SECONDS = 30.0
STOP_SECONDS = 0.75
EXIT_SECONDS = 1.0
PIPE_BYTES = 65_536
DRAIN_READS = 64
WORKER = "handloom.toolbox.python_worker"


@dataclass(frozen=True)
class Execution:
    """What one call gave: `text` is the value or the traceback, `note` what befell the process.

    `late` is what threads printed before this call; `figures` are names of files in the workspace;
    `silent` says that the code gave no value, whatever it printed.
    """

    ok: bool
    output: str = ""
    text: str = ""
    note: str = ""
    figures: tuple[str, ...] = ()
    late: str = ""
    silent: bool = False


class Reply(msgspec.Struct, frozen=True):
    """What the child says of one call; only a reply with the nonce of the call is believed."""

    nonce: str
    ok: bool
    text: str
    figures: tuple[str, ...]
    silent: bool = False


class LostError(Exception):
    """The child is of no more use; the text says why."""


class PythonProcess:
    """One child process, the socket on which it is asked and replies, and the pipe into which it prints."""

    def __init__(self, program: Program, channel: tuple[StreamReader, StreamWriter], output: int) -> None:
        self.dead = False
        self._program = program
        self._reader, self._writer = channel
        self._output = output
        self._printed = Printed(OUTPUT_BYTES)
        self._loop = asyncio.get_running_loop()
        os.set_blocking(output, False)
        self._loop.add_reader(output, self._collect)

    @classmethod
    async def start(cls, sandbox: Sandbox) -> Self:
        """Start the process in the sandbox and wait until it answers. Raises: ToolError when it does not."""
        ours, theirs = socket.socketpair()
        output, printing = os.pipe()
        channel = await asyncio.open_unix_connection(sock=ours, limit=REPLY_BYTES)
        try:
            control, memory = theirs.fileno(), sandbox.settings.memory_mb << 20
            program = await sandbox.spawn(
                [sandbox.python, "-P", "-m", WORKER, str(control), str(memory), str(sandbox.workspace)],
                stdio=Stdio(stdout=printing, stderr=printing),
                pass_fds=(control,),
            )
        except BaseException:
            channel[1].close()
            os.close(output)
            raise
        finally:
            theirs.close()
            os.close(printing)
        child = cls(program, channel, output)
        try:
            first = await child.execute("", START_SECONDS)
        except asyncio.CancelledError:
            child._kill()
            raise
        if child.dead:
            raise ToolError(f"Python cannot be started: {first.output} {first.note}")
        return child

    async def execute(self, code: str, seconds: float) -> Execution:
        nonce = secrets.token_hex(8)
        late = self._taken()
        try:
            reply, note = await self._answer(nonce, code, seconds)
        except LostError as lost:
            return Execution(ok=False, output=self._taken(), note=f"{lost}; variables are gone", late=late)
        except asyncio.CancelledError:
            with contextlib.suppress(LostError):
                await self._interrupted(nonce)
            raise
        return Execution(reply.ok and not note, self._taken(), reply.text, note, reply.figures, late, reply.silent)

    async def aclose(self) -> None:
        """Let the process leave by itself, so that open files are flushed; kill it and what it started otherwise."""
        self._writer.close()
        try:
            await self._exited(EXIT_SECONDS)
        finally:
            await self._buried()

    async def _answer(self, nonce: str, code: str, seconds: float) -> tuple[Reply, str]:
        try:
            async with asyncio.timeout(seconds):
                return await self._asked(nonce, code), ""
        except TimeoutError:
            note = f"timed out after {seconds:g} s"
        if reply := await self._interrupted(nonce):
            return reply, f"{note} and was interrupted; variables are kept"
        raise LostError(f"{note} and did not stop when interrupted, so the Python process was killed")

    async def _asked(self, nonce: str, code: str) -> Reply:
        with contextlib.suppress(ConnectionError):  # the reply's end of file says so too
            self._writer.write(json.dumps({"nonce": nonce, "code": code}).encode() + b"\n")
            await self._writer.drain()
        return await self._reply(nonce)

    async def _reply(self, nonce: str) -> Reply:
        try:
            line = await self._reader.readline()
            reply = msgspec.json.decode(line, type=Reply) if line.endswith(b"\n") else None
        except ConnectionError:
            reply = None
        except ValueError:  # no end of line within the limit, or no reply: `msgspec.DecodeError` is one
            reply = Reply("", ok=False, text="", figures=())
        if reply is None:
            raise LostError(await self._fate())
        if reply.nonce != nonce:
            await self._buried()
            raise LostError("the code wrote into the reply channel of the Python process, which was killed")
        return reply

    async def _interrupted(self, nonce: str) -> Reply | None:
        """Press Ctrl-C: on the process, then on all that it started. None when it did not reply and was killed."""
        reply = None
        try:
            for everything in (False, True):
                await self._program.signal(signal.SIGINT)
                if everything:
                    await self._program.signal_others(signal.SIGINT)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_SECONDS):
                        reply = await self._reply(nonce)
                        return reply
            await self._buried()
            return None
        finally:
            if reply is None:  # also when this was cancelled
                self._kill()

    async def _fate(self) -> str:
        """What ended the process, whose end of the socket is closed."""
        code = await self._exited(STOP_SECONDS)
        await self._buried()
        if self._program.fate:
            return self._program.fate
        match code:
            case None:
                return "the code closed the reply channel of the Python process, which was killed"
            case int() if code < 0:
                return f"the Python process died (signal {-code}, {signal.strsignal(-code)})"
            case _:
                return f"the Python process died (exit code {code})"

    async def _exited(self, seconds: float) -> int | None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                return await self._program.wait()
        return None

    async def _buried(self) -> None:
        self._kill()
        await self._exited(EXIT_SECONDS)

    def _kill(self) -> None:
        if self.dead:
            return
        self.dead = True
        self._program.kill()
        self._drain()
        self._loop.remove_reader(self._output)
        os.close(self._output)
        self._writer.close()

    def _taken(self) -> str:
        if not self.dead:
            self._drain()
        return self._printed.take()

    def _drain(self) -> None:
        """What was printed before the reply is in the pipe already; a thread that goes on printing must not hold us."""
        for _ in range(DRAIN_READS):
            if not self._collect():
                return

    def _collect(self) -> bool:
        try:
            data = os.read(self._output, PIPE_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._loop.remove_reader(self._output)
            return False
        self._printed.add(data)
        return True


class Printed:
    """Head and tail of a stream of bytes; what comes between is counted and dropped."""

    def __init__(self, room: int) -> None:
        self._half = room // 2
        self._clear()

    def _clear(self) -> None:
        self._head, self._tail, self._lost = bytearray(), bytearray(), 0

    def add(self, data: bytes) -> None:
        space = self._half - len(self._head)
        self._head += data[:space]
        self._tail += data[space:]
        if len(self._tail) > 2 * self._half:
            self._lost += len(self._tail) - self._half
            del self._tail[: -self._half]

    def take(self) -> str:
        """All that is kept as text; the next stream starts empty."""
        gap = f"\n[... {self._lost:,} bytes left out ...]\n".encode() if self._lost else b""
        text = (self._head + gap + self._tail).decode(errors="replace")
        self._clear()
        return text
