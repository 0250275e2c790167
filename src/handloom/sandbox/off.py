"""OffSandbox: none at all, because a person said so; limits per process are kept, and what was started is ended."""

import asyncio
import os
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from handloom.sandbox import local
from handloom.sandbox.environment import environment
from handloom.sandbox.limits import launched
from handloom.sandbox.local import LocalProgram, Programs
from handloom.sandbox.mounts import checked_workspace
from handloom.sandbox.sandbox import Shared, Stdio
from handloom.sandbox.scratch import Scratch
from handloom.sandbox.settings import SandboxSettings

MARK = "HANDLOOM_SANDBOX"


class OffSandbox:
    """Programs run with all rights of the person, in their session, on their network."""

    kind = "off"
    isolated = False

    def __init__(
        self, workspace: Path, settings: SandboxSettings, scratch: Scratch, before: Sequence[str] = ()
    ) -> None:
        self.workspace = workspace
        self.settings = settings
        self.python = sys.executable
        self.shared = Shared(scratch.run, str(scratch.run))
        self._scratch = scratch
        self._before = before
        self._mark = secrets.token_hex(8)
        self._programs = Programs()

    @property
    def banner(self) -> str:
        return f"UNSANDBOXED: programs can change and read all that you can, not {self.workspace} alone"

    @classmethod
    async def open(cls, workspace: Path, settings: SandboxSettings) -> "OffSandbox":
        return cls(checked_workspace(workspace), settings, await asyncio.to_thread(Scratch.make))

    async def spawn(
        self, argv: Sequence[str], *, stdio: Stdio, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> LocalProgram:
        mark = {MARK: self._mark}
        command = launched([*self._before, *argv], self.settings, None, os.geteuid())
        process = await local.start(
            command,
            workspace=self.workspace,
            stdio=stdio,
            pass_fds=pass_fds,
            env={**environment(os.environ), "TMPDIR": str(self._scratch.tmp), **mark, **dict(env or {})},
        )
        program = LocalProgram(process, self.settings, depth=0, mark=f"{MARK}={self._mark}")
        self._programs.add(program)
        return program

    async def aclose(self) -> None:
        await self._programs.end()
        await asyncio.to_thread(self._scratch.remove)
