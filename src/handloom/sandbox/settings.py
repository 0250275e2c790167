"""What a person may say about the sandbox."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from handloom import hosts

Kind = Literal["auto", "bwrap", "seatbelt", "container", "off"]
Net = Literal["none", "allowlist", "full"]

# What other programs run, or obey, on the person's side: code that was put there would leave the sandbox.
PROTECTED = (
    *(".git/hooks", ".git/config", ".git/config.worktree", ".git/commondir"),
    *(".vscode", ".idea", ".envrc", ".mcp.json", ".handloom"),
)


@dataclass(frozen=True, kw_only=True)
class Host:
    """A host that may be reached with `net = "allowlist"`; `*.example.org` means every name below it.

    `allow_private` lets its address be a private one, for a mirror inside a company.
    """

    name: str
    allow_private: bool = False

    def covers(self, name: str) -> bool:
        return hosts.covers(self.name, name)


@dataclass(frozen=True, kw_only=True)
class SandboxSettings:
    """Limits are for each program that is started: `timeout` in seconds is the default of a call, `memory_mb` is for one process (all together may
    have twice that), `procs` counts processes, `output` is the characters of a result, `file_mb` the size of a file.

    `readable` are more paths that may be read; `protected` are paths of the workspace that may not be changed; `image` is for containers.
    """

    kind: Kind = "auto"
    net: Net = "none"
    allow: tuple[Host, ...] = ()
    timeout: float = 120.0
    memory_mb: int = 2048
    procs: int = 256
    output: int = 32_000
    file_mb: int = 1024
    readable: tuple[Path, ...] = ()
    protected: tuple[str, ...] = PROTECTED
    cache: Path | None = None
    image: str = "python:3.12-slim"
