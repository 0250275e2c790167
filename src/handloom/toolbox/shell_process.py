"""ShellProcess: one bash that lives between commands, seen from our side: told what to do, waited for, interrupted, buried.

Commands go in over a socket, ended by NUL; the end of a command comes back over it as `nonce status directory`. Commands do not inherit the socket, so
what they print can neither forge nor hide their end, and jobs in the background do not delay it.
"""

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from asyncio import AbstractEventLoop
from dataclasses import dataclass
from typing import Literal

from handloom.errors import ToolError
from handloom.sandbox.sandbox import Program, Sandbox, Stdio

FD = 198  # of the socket inside; high, where scripts do not look for descriptors
START_SECONDS = 30.0
EXIT_SECONDS = 2.0
MARK_BYTES = 65_536
MOMENT = 0.03  # how long a fork is a copy of the shell, and then some
# What the command's own processes get, and how long the shell then has to answer: within two seconds all is over.
PRESSES = (
    (signal.SIGINT, 0.1),
    (signal.SIGINT, 0.3),
    (signal.SIGINT, 0.6),
    (signal.SIGKILL, 0.3),
    (signal.SIGKILL, 0.5),
)

# `\builtin`, because commands may define aliases of these names. No history, which would hold these lines and expand `!`.
PREPARE = "exec {fd}<&{given} {given}<&-; set +o history +H; shopt -u checkwinsize; PS1= PS2= PS4='+ ' PROMPT_COMMAND=; unset MAILCHECK"
SAY = "\\builtin printf '%s %s %s\\0' {nonce} {status} \"$PWD\" >&{fd}"
SYNC = "(\\exit 130); \\builtin printf %s\\ 130\\\\0 {nonce} >&{fd}"  # without quotes, so that what is left of a dropped line does no harm
RUN = (
    "IFS= \\builtin read -r -d '' -u {fd} __handloom || \\builtin exit; "  # a name that was made read-only would hold the command before
    "{{ [[ . -ef \"$PWD\" ]] || {{ \\builtin echo '(the working directory was deleted; this is the workspace)'; \\builtin cd -- {workspace}; }}; "
    '{last}\\builtin eval "$__handloom"; }} </dev/null >{pipe} 2>&1 {fd}>&-; '
)


@dataclass(frozen=True)
class Ended:
    """How a command ended. `how`: done (the status is its own), interrupted (the shell lives), lost (the shell is gone, `why` says why)."""

    how: Literal["done", "interrupted", "lost"]
    status: int = 0
    why: str = ""


class ShellProcess:
    def __init__(self, program: Program, sandbox: Sandbox, channel: socket.socket, lines: int) -> None:
        self.dead = False
        self.directory = str(sandbox.workspace)
        self._program = program
        self._sandbox = sandbox
        self._channel = channel
        self._lines = lines
        self._heard = bytearray()
        self._last = 0
        self._loop: AbstractEventLoop = asyncio.get_running_loop()
        self._exit = asyncio.create_task(program.wait())

    @classmethod
    async def start(cls, sandbox: Sandbox) -> "ShellProcess":
        """Raises: ToolError when bash does not answer."""
        ours, theirs = socket.socketpair()
        stdin, lines = os.pipe()
        ours.setblocking(False)
        try:
            program = await sandbox.spawn(
                ["bash", "--noprofile", "--norc", "--noediting", "-i"],  # `-i`: an interrupt returns to the prompt
                stdio=Stdio(stdin=stdin),
                pass_fds=(theirs.fileno(),),
                env={"HISTFILE": "", "PS1": "", "ENV": ""},
            )
            given = theirs.fileno()
        except BaseException:
            ours.close()
            os.close(lines)
            raise
        finally:
            theirs.close()
            os.close(stdin)
        shell = cls(program, sandbox, ours, lines)
        try:
            ended = await shell._first(given)
        except BaseException:
            await shell.aclose()
            raise
        if ended.how != "done":
            await shell.aclose()
            raise ToolError(f"bash cannot be started: {ended.why or 'it does not answer'}")
        return shell

    async def run(self, command: str, pipe: str, seconds: float, stop: asyncio.Event) -> Ended:
        """Run the command with its output into the named pipe, for at most `seconds` or until `stop` is set; then it is interrupted, at last killed.

        Cancellation interrupts it and is let through.
        """
        nonce = secrets.token_hex(8)
        before = await self._program.others()
        last = f"(\\exit {self._last}); " if self._last else ""
        line = RUN.format(fd=FD, pipe=pipe, workspace=_quoted(str(self._sandbox.workspace)), last=last)
        try:
            self._tell(line + SAY.format(nonce=nonce, status='"$?"', fd=FD))
            ended = await self._until(nonce, command, seconds, stop)
        except asyncio.CancelledError:
            await self._interrupted(before)
            raise
        ended = ended or await self._interrupted(before)
        self._last = ended.status if ended.how == "done" else 130
        return ended

    async def lost(self) -> str:
        """Why the shell is gone, found out between two commands; empty while it lives."""
        if not self.dead and (self._exit.done() or _is_closed(self._channel)):
            return (await self._gone()).why
        return ""

    async def aclose(self) -> None:
        self._bury()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EXIT_SECONDS):
                await asyncio.shield(self._exit)

    async def _first(self, given: int) -> Ended:
        nonce = secrets.token_hex(8)
        self._tell(PREPARE.format(fd=FD, given=given) + "; " + SAY.format(nonce=nonce, status=0, fd=FD))
        return await self._until(nonce, None, START_SECONDS, asyncio.Event()) or Ended("lost")

    def _tell(self, line: str) -> None:
        with contextlib.suppress(BrokenPipeError):  # the end of the shell is noticed where its answer is waited for
            os.write(self._lines, line.encode() + b"\n")

    async def _until(self, nonce: str, command: str | None, seconds: float, stop: asyncio.Event) -> Ended | None:
        """How the command ended; None when it did not in time."""
        work = asyncio.create_task(self._answered(nonce, command))
        stopped = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({work, stopped, self._exit}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return await self._gone() if self._exit.done() else None
        finally:
            stopped.cancel()
            work.cancel()
            await asyncio.gather(work, stopped, return_exceptions=True)

    async def _answered(self, nonce: str, command: str | None) -> Ended:
        try:
            if command is not None:
                await self._loop.sock_sendall(self._channel, command.encode("utf-8", "surrogateescape") + b"\0")
            while (ended := self._mark(nonce)) is None:
                data = await self._loop.sock_recv(self._channel, MARK_BYTES)
                if not data:
                    return await self._gone()
                self._heard += data
        except ConnectionError:
            return await self._gone()
        return ended

    def _mark(self, nonce: str) -> Ended | None:
        """The end that was announced with this nonce, among others that came too late."""
        while b"\0" in self._heard:
            mark, _, others = bytes(self._heard).partition(b"\0")
            self._heard = bytearray(others)
            said, _, rest = mark.decode(errors="replace").partition(" ")
            status, _, directory = rest.partition(" ")
            if said == nonce and status.isdigit():
                self.directory = directory or self.directory
                return Ended("done", int(status))
        return None

    async def _interrupted(self, before: frozenset[int]) -> Ended:
        """Press Ctrl-C on the shell and on what this command started, a few times; kill that when it does not stop; bury the shell at last.

        A process that was forked just now is still a copy of the shell, and an interrupt would make a second shell of it that reads our lines: so only
        those are met that are a moment old. One that was forked while the shell was interrupted is left over, and the shell would wait for it later: so
        it is not over before all that is left has been met. (Jobs in the background are left too; they ignore interrupts.)
        """
        try:
            for number, seconds in PRESSES:
                met = await self._program.others() - before
                await self._program.signal(signal.SIGINT)
                await asyncio.sleep(MOMENT)
                young = await self._program.others() - met
                await self._program.signal_others(number, spare=before | young)
                nonce = secrets.token_hex(8)
                self._tell(
                    SYNC.format(nonce=nonce, fd=FD)
                )  # anew each time: an interrupt drops the line that is being read
                ended = await self._until(nonce, None, seconds, asyncio.Event())
                if ended and ended.how == "lost":
                    return ended
                if ended and await self._program.others() - before <= met:
                    return self._still_in_step()
            self._bury()
            return Ended("lost", why="it did not stop when interrupted, so the shell was killed")
        except asyncio.CancelledError:
            self._bury()
            raise

    def _still_in_step(self) -> Ended:
        """The shell lives; unless it never read the command, which it would then take for the next one."""
        if _unread(self._channel):
            self._bury()
            return Ended("lost", why="it was stopped before the shell had read the command, so the shell was killed")
        return Ended("interrupted", 130)

    async def _gone(self) -> Ended:
        """The shell is dead, or has become another program that ends soon."""
        try:
            async with asyncio.timeout(EXIT_SECONDS):
                code = await asyncio.shield(self._exit)
        except TimeoutError:
            self._bury()
            return Ended("lost", why="it closed the shell's channel, so the shell was killed")
        self._bury()
        why = self._program.fate or (
            f"the shell ended with signal {-code}" if code < 0 else f"the shell ended with status {code}"
        )
        return Ended("lost", code if code >= 0 else 128 - code, why=why)

    def _bury(self) -> None:
        if self.dead:
            return
        self.dead = True
        self._program.kill()
        self._channel.close()
        os.close(self._lines)


def _quoted(text: str) -> str:
    import shlex

    return shlex.quote(text)


def _is_closed(channel: socket.socket) -> bool:
    """Whether nobody is on the other side any more; the end of the process is noticed later."""
    try:
        return not channel.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True


def _unread(channel: socket.socket) -> bool:
    """Whether the other side has left something of what we sent."""
    import fcntl
    import struct
    import termios

    with contextlib.suppress(OSError):
        return struct.unpack("i", fcntl.ioctl(channel.fileno(), getattr(termios, "TIOCOUTQ", 0x5411), b"\0" * 4))[0] > 0
    return False
