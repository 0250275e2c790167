"""SeatbeltSandbox: macOS's own sandbox, by a profile that denies what it does not name."""

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from handloom.errors import SandboxError
from handloom.sandbox import mounts
from handloom.sandbox.local import LocalProgram
from handloom.sandbox.off import OffSandbox
from handloom.sandbox.proxy import Proxy
from handloom.sandbox.sandbox import Stdio
from handloom.sandbox.scratch import Scratch
from handloom.sandbox.settings import Net, SandboxSettings

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/opt", "/System", "/Library", "/Applications/Xcode.app", "/private/etc", "/dev"),
    *("/private/var/db/timezone", "/private/var/select", "/private/var/db/dyld", "/nix"),
)
HIDDEN = (
    "/private/etc/ssh",
    "/private/etc/master.passwd",
    "/private/etc/sudoers",
    "/private/etc/sudoers.d",
    "/Library/Keychains",
)
SERVICES = (
    *("com.apple.system.opendirectoryd.libinfo", "com.apple.system.notification_center", "com.apple.system.logger"),
    *("com.apple.trustd.agent", "com.apple.SystemConfiguration.configd"),
)


@dataclass(frozen=True)
class Rules:
    """What the profile is made of; paths are resolved, for the system compares what links lead to."""

    workspace: Path
    read: Sequence[Path]
    write: Sequence[Path]
    pipes: Path
    protected: Sequence[str]
    home: Path
    net: Net
    proxy_port: int = 0


def profile(rules: Rules) -> str:
    """The profile's text. A later rule beats an earlier one."""
    guarded = [rules.workspace / name for name in rules.protected]
    above = sorted({path.parent for path in guarded} - {rules.workspace})
    hidden = [rules.home / name for name in mounts.SECRETS]
    lines = [
        "(version 1)",
        "(deny default)",
        "(allow process-exec process-fork sysctl-read file-read-metadata ipc-posix-sem pseudo-tty)",
        "(allow signal (target same-sandbox))",
        "(allow process-info* (target same-sandbox))",
        f"(allow mach-lookup {' '.join(f'(global-name {_text(name)})' for name in SERVICES)})",
        f'(allow file-read* (literal "/") {_subpaths([*map(Path, SYSTEM), *rules.read])})',
        f"(deny file-read* {_subpaths(map(Path, HIDDEN))})",
        f"(allow file-read* file-write* {_subpaths([rules.workspace, *rules.write])})",
        f"(allow file-read* file-write-data {_subpaths([rules.pipes])})",
        '(allow file-write-data (literal "/dev/null") (literal "/dev/zero") (literal "/dev/random") (literal "/dev/urandom") (regex #"^/dev/fd/"))',
        f"(deny file-read* file-write* {_subpaths(hidden)})",
        *([f"(deny file-write* {_subpaths(guarded)})"] if guarded else []),
        # The folder above a protected one could be moved away and another put there.
        *([f"(deny file-write-unlink {' '.join(f'(literal {_text(str(path))})' for path in above)})"] if above else []),
    ]
    match rules.net:
        case "none":
            pass
        case "allowlist":
            lines.append(f'(allow network-outbound (remote ip "localhost:{rules.proxy_port}"))')
        case "full":
            lines.append("(allow network* system-socket)")
    return "\n".join(lines) + "\n"


class SeatbeltSandbox(OffSandbox):
    """Each program starts under the profile; limits, signals and the end of a tree are those of programs without a sandbox."""

    kind = "seatbelt"
    isolated = True

    def __init__(self, rules: Rules, settings: SandboxSettings, scratch: Scratch, proxy: Proxy | None) -> None:
        super().__init__(rules.workspace, settings, scratch, ["sandbox-exec", "-p", profile(rules)])
        self._net = rules.net
        self._home = scratch.home
        self._proxy = proxy

    @property
    def banner(self) -> str:
        net = {"none": "no network", "allowlist": "listed hosts only", "full": "full network"}[self._net]
        return f"sandbox: seatbelt, {self.workspace} can be written, {net}"

    @classmethod
    async def open(cls, workspace: Path, settings: SandboxSettings) -> "SeatbeltSandbox":
        if shutil.which("sandbox-exec") is None:
            raise SandboxError(
                "no sandbox works here, so no program is run: `sandbox-exec` is missing, which macOS has. "
                'To run without a sandbox, with all your rights, set `sandbox.kind = "off"`.'
            )
        path = mounts.checked_workspace(workspace)
        scratch = await asyncio.to_thread(Scratch.make)
        try:
            proxy = await Proxy.listen(settings.allow) if settings.net == "allowlist" else None
            tools = mounts.toolchains(settings.readable, pythonpath=os.environ.get("PYTHONPATH", ""))
            rules = Rules(
                path,
                tools,
                [scratch.tmp, scratch.home],
                scratch.run,
                settings.protected,
                Path.home().resolve(),
                settings.net,
                proxy.port if proxy else 0,
            )
        except BaseException:
            scratch.remove()
            raise
        return cls(rules, settings, scratch, proxy)

    async def spawn(
        self, argv: Sequence[str], *, stdio: Stdio, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> LocalProgram:
        proxy = f"http://127.0.0.1:{self._proxy.port}" if self._proxy else ""
        through = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy) if proxy else {}
        own = {"HOME": str(self._home), **through, **dict(env or {})}
        return await super().spawn(argv, stdio=stdio, pass_fds=pass_fds, env=own)

    async def aclose(self) -> None:
        await super().aclose()
        if self._proxy:
            await self._proxy.aclose()


def _subpaths(paths: "Sequence[Path] | map[Path]") -> str:
    return " ".join(f"(subpath {_text(str(path))})" for path in paths)


def _text(text: str) -> str:
    """A string of the profile's language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
