"""LocalProgram: a process of this machine with its tree, watched while it lives."""

import asyncio
import contextlib
import os
import select
import signal
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from pathlib import Path

from handloom.errors import SandboxError
from handloom.sandbox import processes
from handloom.sandbox.sandbox import Stdio
from handloom.sandbox.settings import SandboxSettings

POLL = 0.1
EMPTY_SECONDS = 5.0


class LocalProgram:
    """`depth` is how many processes stand between ours and the program: helpers of the sandbox, the init of its namespace.

    `mark`, where no namespace ends everything, is an environment entry by which what left the tree is found.
    """

    def __init__(self, process: Process, settings: SandboxSettings, *, depth: int, mark: str = "") -> None:
        self.fate = ""
        self._process = process
        self._settings = settings
        self._depth = depth
        self._mark = mark.encode()
        self._main = 0
        self._init = -1
        self._watch = asyncio.create_task(self._watched())

    @property
    def alive(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int:
        code = await self._process.wait()
        self._watch.cancel()
        await self._emptied()
        return 128 - code if self._depth and code > 128 else code

    async def others(self) -> frozenset[int]:
        return frozenset(self._inside()) - {self._found_main()}

    async def signal(self, number: int) -> None:
        if main := self._found_main():
            _send(main, number)

    async def signal_others(self, number: int, *, spare: frozenset[int] = frozenset()) -> None:
        for pid in await self.others() - spare:
            _send(pid, number)

    def kill(self) -> None:
        """The helper dies, with it the init of the namespace, and with that everything inside; without a namespace the tree is hunted down."""
        self._watch.cancel()
        if self._depth:
            if self._process.returncode is None:
                _send(self._process.pid, signal.SIGKILL)
            return
        for _ in range(20):
            left = {*self._inside(), *(processes.marked(self._mark) if self._mark else ())}
            if self._process.returncode is None:
                left.add(self._process.pid)
                with contextlib.suppress(OSError):
                    os.killpg(self._process.pid, signal.SIGKILL)
            if not any([_send(pid, signal.SIGKILL) for pid in left]):  # noqa: C419 - all of them, not up to the first
                return

    def _inside(self) -> list[int]:
        """All but the helpers."""
        found = processes.below(self._process.pid)
        helpers = self._chain()[:-1] if self._depth else []
        return [pid for pid in ([] if self._depth else [self._process.pid]) + found if pid not in helpers]

    def _chain(self) -> list[int]:
        """From the first helper's child down to the program."""
        chain: list[int] = []
        pid = self._process.pid
        for _ in range(self._depth):
            born = processes.children(pid) or processes.below(pid)[:1]
            if not born:
                break
            chain.append(pid := born[0])
        return chain

    def _found_main(self) -> int:
        """The program's own number; 0 before it was started or when it is dead. The first child of the init may be another one later."""
        if not self._depth:
            return self._process.pid if self._process.returncode is None else 0
        if not self._main and len(chain := self._chain()) == self._depth:
            self._main = chain[-1]
        return self._main if self._process.returncode is None else 0

    async def _emptied(self) -> None:
        """The init of a namespace ends last, after the system has ended all that was inside."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(EMPTY_SECONDS):
                while self._init >= 0 and not select.select([self._init], [], [], 0)[0]:  # noqa: ASYNC110 - watching it costs more than asking
                    await asyncio.sleep(0.002)
        if self._init >= 0:
            os.close(self._init)
            self._init = -1

    async def started(self) -> None:
        """Remember the program's own number while its first child is surely it."""
        while not self._found_main() and self._process.returncode is None:  # noqa: ASYNC110 - the system tells of no such event
            await asyncio.sleep(0.001)
        if self._depth and (chain := self._chain()):
            with contextlib.suppress(OSError):
                self._init = os.pidfd_open(chain[0])

    async def _watched(self) -> None:
        """The system's limits on processes do not bind root, and none bounds what many processes use together."""
        settings = self._settings
        while self._process.returncode is None:
            tree = processes.below(self._process.pid, settings.procs + self._depth + 1)
            if len(tree) > settings.procs + self._depth:
                self.fate = f"more than {settings.procs} processes were running, so all were killed"
            elif processes.anonymous_kb(tree) > settings.memory_mb * 2048:
                self.fate = (
                    f"together the processes used more than {2 * settings.memory_mb:,} MB of memory, so all were killed"
                )
            if self.fate:
                self.kill()
                return
            await asyncio.sleep(POLL)


class Programs:
    """What a sandbox has started and must end with it."""

    def __init__(self) -> None:
        self._known: list[LocalProgram] = []

    def add(self, program: LocalProgram) -> None:
        self._known = [known for known in self._known if known.alive] + [program]

    async def end(self) -> None:
        """Kill them all, and wait until nothing of them is left."""
        for program in self._known:
            program.kill()
        for program in self._known:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await program.wait()


async def start(
    argv: Sequence[str], *, workspace: Path, stdio: Stdio, pass_fds: Sequence[int], env: Mapping[str, str]
) -> Process:
    """Start a process that leads a session of its own.

    Linux sends the death signal of a child when the thread that made it ends: this makes it in the loop's thread.
    Raises: SandboxError when it cannot be started.
    """
    try:
        return await asyncio.create_subprocess_exec(
            *argv,
            stdin=stdio.stdin,
            stdout=stdio.stdout,
            stderr=stdio.stderr,
            pass_fds=pass_fds,
            cwd=workspace,
            env=dict(env),
            start_new_session=True,
        )
    except OSError as error:
        raise SandboxError(f"{argv[0]} cannot be started in {workspace}: {error}") from None


def _send(pid: int, number: int) -> bool:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):  # macOS forbids signals to the dead
        return False
    return True
