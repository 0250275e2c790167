"""Sandbox and Program: what a tool sees, whatever shuts its programs in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from handloom.sandbox.settings import SandboxSettings


class Program(Protocol):
    """A running program with all that it started; they end together."""

    async def wait(self) -> int:
        """Its exit code; minus the number of the signal that ended it."""
        ...

    async def others(self) -> frozenset[int]:
        """What it has started, under numbers that `signal_others` understands."""
        ...

    async def signal(self, number: int) -> None:
        """Send a signal to the program itself; harmless when it is dead."""
        ...

    async def signal_others(self, number: int, *, spare: frozenset[int] = frozenset()) -> None:
        """Send a signal to all that it has started but `spare`."""
        ...

    def kill(self) -> None:
        """End the program and all that it started, at once; harmless when it is dead."""
        ...

    @property
    def fate(self) -> str:
        """Why the sandbox killed it; empty when it did not."""
        ...


class Sandbox(Protocol):
    """One for a run. Each program that lives long (a shell, a Python) gets namespaces of its own, all after the same frozen description.

    They share the workspace, `/tmp`, the home folder and the cache, and they do not share processes or a network: so no program can end, read or
    impersonate another one, the death of one is the end of all it started, and no helper inside has to be trusted to start the next.
    """

    @property
    def kind(self) -> str: ...

    @property
    def banner(self) -> str:
        """One line for people: what holds the programs, or that nothing does."""
        ...

    @property
    def isolated(self) -> bool: ...

    @property
    def workspace(self) -> Path: ...

    @property
    def settings(self) -> SandboxSettings: ...

    @property
    def python(self) -> str:
        """The interpreter inside."""
        ...

    @property
    def shared(self) -> "Shared":
        """A folder of both sides: written by us, read by programs; pipes in it go both ways."""
        ...

    async def spawn(
        self, argv: Sequence[str], *, stdio: "Stdio", pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> Program:
        """Start a program in the workspace. Raises: SandboxError when it cannot be started."""
        ...

    async def aclose(self) -> None:
        """End every program and remove what the sandbox kept."""
        ...


@dataclass(frozen=True)
class Stdio:
    """The descriptors that become 0, 1 and 2; -3 is /dev/null, as in `subprocess`."""

    stdin: int = -3
    stdout: int = -3
    stderr: int = -3


@dataclass(frozen=True)
class Shared:
    """The same folder by its two names."""

    outside: Path
    inside: str
