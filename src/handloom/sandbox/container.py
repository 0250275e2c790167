"""ContainerSandbox: one container for the run, made by the person's engine; a spawner inside starts programs on our descriptors."""

import array
import asyncio
import contextlib
import itertools
import json
import os
import signal
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from handloom.errors import SandboxError
from handloom.sandbox import mounts, repositories
from handloom.sandbox.engine import Engine
from handloom.sandbox.environment import PRESET
from handloom.sandbox.sandbox import Shared, Stdio
from handloom.sandbox.scratch import Scratch
from handloom.sandbox.settings import SandboxSettings

INSIDE = "/run/handloom"
PACKAGE = "/opt/handloom"
HOME = "/home/sandbox"
CONNECT_SECONDS = 60.0
PACKET = 1 << 17
THREADS_EACH = 4


def description(workspace: Path, settings: SandboxSettings, scratch: Scratch, owner: tuple[int, int]) -> dict[str, Any]:
    """The container as the engine wants it described: no rights, no writable place but the workspace and scratch, no network."""
    package = Path(__file__).resolve().parent.parent
    guards = [
        mount
        for mount in mounts.guarded(workspace, settings.protected, repositories.found(workspace))
        if not mount.is_free
    ]
    binds = [
        f"{workspace}:{workspace}",
        f"{scratch.run}:{INSIDE}:ro",
        f"{scratch.home}:{HOME}",
        f"{package}:{PACKAGE}/handloom:ro",
        *(f"{path}:{path}:ro" for path in settings.readable),
        *(f"{guard.path}:{guard.path}{':ro' if guard.how == 'read' else ''}" for guard in guards),
    ]
    return {
        "Image": settings.image,
        "Cmd": ["python3", "-I", f"{INSIDE}/spawner.py", f"{INSIDE}/spawn.sock"],
        "User": f"{owner[0]}:{owner[1]}",
        "WorkingDir": str(workspace),
        "Env": [f"{name}={value}" for name, value in environment().items()],
        "HostConfig": {
            "Binds": binds,
            "NetworkMode": "bridge" if settings.net == "full" else "none",
            "CapDrop": ["ALL"],
            "SecurityOpt": ["no-new-privileges"],
            "ReadonlyRootfs": True,
            "Tmpfs": {"/tmp": "rw,exec,mode=1777"},  # noqa: S108 - of the container
            "PidsLimit": settings.procs * THREADS_EACH,
            "Memory": settings.memory_mb << 21,
            "Init": True,
            "AutoRemove": True,
        },
    }


def environment() -> dict[str, str]:
    """Nothing of ours: the container has its own PATH."""
    return {"HOME": HOME, "PYTHONPATH": PACKAGE, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", **PRESET}


class ContainerProgram:
    """A program inside, seen through the spawner."""

    def __init__(self, link: "Link", number: int) -> None:
        self.fate = ""
        self._link = link
        self._number = number
        self._exit: asyncio.Future[int] = link.expect(number, "exit")

    async def wait(self) -> int:
        return await asyncio.shield(self._exit)

    async def others(self) -> frozenset[int]:
        if self._exit.done():
            return frozenset()
        answer: asyncio.Future[list[int]] = self._link.expect(self._number, "others")
        self._link.send({"id": self._number, "list": True})
        return frozenset(await answer)

    async def signal(self, number: int) -> None:
        self._link.send({"id": self._number, "signal": number, "others": False, "spare": []})

    async def signal_others(self, number: int, *, spare: frozenset[int] = frozenset()) -> None:
        self._link.send({"id": self._number, "signal": number, "others": True, "spare": sorted(spare)})

    def kill(self) -> None:
        if not self._exit.done():
            self._link.send({"id": self._number, "kill": True})


class Link:
    """The socket to the spawner. What it says goes to who expects it; when it falls silent, everything inside is dead."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._expected: dict[tuple[int, str], asyncio.Future[Any]] = {}
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(connection, self._heard)

    def expect(self, program: int, word: str) -> "asyncio.Future[Any]":
        return self._expected.setdefault((program, word), self._loop.create_future())

    def forget(self, program: int, *words: str) -> None:
        for word in words:
            self._expected.pop((program, word), None)

    def send(self, words: Mapping[str, Any], fds: Sequence[int] = ()) -> None:
        beside = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        with contextlib.suppress(OSError):  # it is dead, and `_heard` says so to those who wait
            self._connection.sendmsg([json.dumps(words).encode()], beside)

    def close(self) -> None:
        self._loop.remove_reader(self._connection)
        self._connection.close()
        for (_, word), future in self._expected.items():
            if not future.done():
                future.set_result(
                    -signal.SIGKILL if word == "exit" else [] if word == "others" else "the container is gone"
                )
        self._expected.clear()

    def _heard(self) -> None:
        try:
            data = self._connection.recv(PACKET)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close()
            return
        said = json.loads(data)
        program = said.pop("id")
        for word, value in said.items():
            future = self._expected.pop((program, word), None)
            if future is not None and not future.done():
                future.set_result(value)


class ContainerSandbox:
    kind = "container"
    isolated = True

    def __init__(
        self, workspace: Path, settings: SandboxSettings, scratch: Scratch, engine: Engine, identity: str, link: Link
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.python = "python3"
        self.shared = Shared(scratch.run, INSIDE)
        self._scratch = scratch
        self._engine = engine
        self._identity = identity
        self._link = link
        self._numbers = itertools.count(1)

    @property
    def banner(self) -> str:
        net = "full network" if self.settings.net == "full" else "no network"
        return f"sandbox: container of {self.settings.image}, {self.workspace} can be written, {net}"

    @classmethod
    async def open(cls, workspace: Path, settings: SandboxSettings) -> "ContainerSandbox":
        """Raises: SandboxError when no engine answers, the image is missing, or the container does not reach us."""
        if settings.net == "allowlist":
            raise SandboxError(
                'sandbox.net = "allowlist" needs sandbox.kind = "bwrap" or "seatbelt"; a container has "none" or "full"'
            )
        path = mounts.checked_workspace(workspace)
        engine = await asyncio.to_thread(Engine.found)
        status = path.stat()
        owner = (status.st_uid, status.st_gid)
        scratch = await asyncio.to_thread(Scratch.make, owner if os.geteuid() == 0 else None)
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            listener.bind(str(scratch.run / "spawn.sock"))
            (scratch.run / "spawn.sock").chmod(0o666)
            (scratch.run / "spawner.py").write_bytes(Path(__file__).with_name("spawner.py").read_bytes())
            listener.listen(1)
            listener.setblocking(False)
            identity = await asyncio.to_thread(engine.run, description(path, settings, scratch, owner))
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    connection, _ = await asyncio.get_running_loop().sock_accept(listener)
            except TimeoutError:
                await asyncio.to_thread(engine.remove, identity)
                raise SandboxError(
                    f"the container of {settings.image} did not answer in {CONNECT_SECONDS:.0f} s; the image needs python3 (3.11 or newer) and bash, "
                    "and the engine must run on this machine's own kernel"
                ) from None
        except BaseException:
            scratch.remove()
            raise
        finally:
            listener.close()
        return cls(path, settings, scratch, engine, identity, Link(connection))

    async def spawn(
        self, argv: Sequence[str], *, stdio: Stdio, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> ContainerProgram:
        number = next(self._numbers)
        null = os.open(os.devnull, os.O_RDWR)
        try:
            given = [fd if fd >= 0 else null for fd in (stdio.stdin, stdio.stdout, stdio.stderr)] + [*pass_fds]
            limits = {"RLIMIT_DATA": self.settings.memory_mb << 20, "RLIMIT_FSIZE": self.settings.file_mb << 20}
            started, failed = self._link.expect(number, "started"), self._link.expect(number, "failed")
            program = ContainerProgram(self._link, number)
            words = {
                "id": number,
                "spawn": [*argv],
                "env": {**environment(), **(env or {})},
                "cwd": str(self.workspace),
            }
            self._link.send(words | {"fds": [0, 1, 2, *pass_fds], "limits": limits}, given)
            await asyncio.wait({started, failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            os.close(null)
        if failed.done():
            raise SandboxError(f"{argv[0]} cannot be started in the container: {failed.result()}")
        self._link.forget(number, "started", "failed")
        return program

    async def aclose(self) -> None:
        self._link.close()
        await asyncio.to_thread(self._engine.remove, self._identity)
        await asyncio.to_thread(self._scratch.remove)
