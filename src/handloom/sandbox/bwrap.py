"""BwrapSandbox: Linux namespaces made by bubblewrap; a program sees its workspace, its tools and nothing else of the machine."""

import asyncio
import logging
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from handloom.errors import SandboxError
from handloom.sandbox import links, local, mounts, repositories
from handloom.sandbox.environment import environment
from handloom.sandbox.limits import Cgroup, launched
from handloom.sandbox.local import LocalProgram, Programs
from handloom.sandbox.mounts import Mount
from handloom.sandbox.placeholders import Placeholders
from handloom.sandbox.probe import CONFINED, NAMESPACES, working_bwrap
from handloom.sandbox.proxy import Proxy
from handloom.sandbox.sandbox import Shared, Stdio
from handloom.sandbox.scratch import Scratch
from handloom.sandbox.settings import Net, SandboxSettings

log = logging.getLogger(__name__)

OWN_SYSTEM = "--tmpfs /dev/shm --remount-ro /dev --tmpfs /run --tmpfs /var --symlink ../tmp /var/tmp --symlink ../run /var/run".split()  # noqa: SIM905 - read as a command
INSIDE = "/run/handloom"
PROXY_PORT = 3128
SHM_BYTES = 256 << 20


@dataclass(frozen=True)
class View:
    """What is laid out before a program starts: everything that the arguments depend on, and no more."""

    workspace: Path
    mounts: tuple[Mount, ...]
    scratch: Scratch
    cache: Path
    home: Path
    net: Net
    owner: tuple[int, int] | None  # whom root becomes, because the workspace is theirs
    repositories: tuple[Path, ...] = ()


def arguments(bwrap: str, view: View) -> list[str]:
    """The command that a program follows.

    As root in the workspace of another user, bubblewrap lays everything out with root's rights (tools may lie in root's home), then `setpriv` gives up
    root for good, and a second bubblewrap confines what is left.
    """
    confined = CONFINED if view.owner is None else ("--cap-drop", "ALL", *_kept("SETUID", "SETGID", "SETPCAP"))
    return [
        *(bwrap, *confined, *NAMESPACES, *(() if view.net == "full" else ("--unshare-net",))),
        *("--die-with-parent", "--new-session", "--hostname", "sandbox"),
        *_system(view),
        *_own(view),
        *("--remount-ro", "/", "--chdir", str(view.workspace), "--"),
        *(() if view.owner is None else _dropped(bwrap, view.owner, view.workspace)),
    ]


def _kept(*names: str) -> list[str]:
    return [word for name in names for word in ("--cap-add", f"CAP_{name}")]


def _dropped(bwrap: str, owner: tuple[int, int], workspace: Path) -> list[str]:
    uid, gid = owner
    return [
        *(
            "setpriv",
            "--reuid",
            str(uid),
            "--regid",
            str(gid),
            "--clear-groups",
            "--inh-caps=-all",
            "--bounding-set=-all",
            "--",
        ),
        *(bwrap, *CONFINED, "--dev-bind", "/", "/", "--chdir", str(workspace), "--"),
    ]


def _system(view: View) -> list[str]:
    """The system's programs and settings to read; its keys, sockets and other places hidden."""
    words: list[str] = []
    for folder in mounts.SYSTEM:
        words += ["--ro-bind-try", folder, folder]
    for name in mounts.ROOT_NAMES:
        path = Path("/", name)
        if path.is_symlink():
            words += ["--symlink", os.readlink(path), str(path)]  # noqa: PTH115 - as it is written
        elif path.is_dir():
            words += ["--ro-bind", str(path), str(path)]
    for name in mounts.HIDDEN_FILES:
        words += ["--ro-bind", "/dev/null", name] if Path(name).exists() else []
    for name in mounts.HIDDEN_FOLDERS:
        words += ["--tmpfs", name] if Path(name).is_dir() else []
    words += ["--proc", "/proc", "--dev", "/dev", "--size", str(SHM_BYTES), *OWN_SYSTEM]
    # The kernel's settings belong to root, who may write them without any capability; `core_pattern` alone would be the way out.
    # Another user may not, and the second bubblewrap of theirs writes one itself.
    for name in mounts.KERNEL if view.owner is None else ():
        words += ["--ro-bind", name, name] if Path(name).exists() else []
    resolver = Path("/etc/resolv.conf").resolve()
    if view.net == "full" and resolver.is_relative_to("/run") and resolver.exists():
        words += ["--ro-bind", str(resolver), str(resolver)]
    return words


def _own(view: View) -> list[str]:
    """What belongs to the run: scratch folders for `/tmp` and the home folder, the cache, then the mounts of the plan."""
    scratch, home = view.scratch, str(view.home)
    words = ["--bind", str(scratch.tmp), "/tmp", *_under(view.home), "--bind", str(scratch.home), home]  # noqa: S108 - of the sandbox
    words += ["--ro-bind", str(scratch.run), INSIDE, *_under(view.cache), "--bind", str(view.cache), str(view.cache)]
    for mount in view.mounts:
        path = str(mount.path)
        match mount.how:
            case "read" | "hold":
                words += [*_under(mount.path), "--ro-bind", path, path]
            case "write":
                words += [*_under(mount.path), "--bind", path, path]
            case "hide" if mount.path.is_dir():
                words += ["--tmpfs", path, "--remount-ro", path]
            case _:
                words += ["--ro-bind", "/dev/null", path]
    return words


def _under(path: Path) -> list[str]:
    """The folders above a mount, which another user must be able to walk through; bubblewrap alone would make them private."""
    return [word for folder in [*path.parents][-2::-1] for word in ("--perms", "0755", "--dir", str(folder))]


class BwrapSandbox:
    """Started lazily: opening it lays out folders, each program gets the namespaces."""

    kind = "bwrap"
    isolated = True

    def __init__(
        self, bwrap: str, view: View, settings: SandboxSettings, cgroup: Cgroup | None, proxy: Proxy | None
    ) -> None:
        self.workspace = view.workspace
        self.settings = settings
        self.python = sys.executable
        self.shared = Shared(view.scratch.run, INSIDE)
        self._bwrap = bwrap
        self._view = view
        self._cgroup = cgroup
        self._proxy = proxy
        self._programs = Programs()
        self._placeholders = Placeholders(view.workspace)
        self._known = repositories.identities(view.repositories)
        self._links = links.noted(view.workspace / name for name in settings.protected)
        self._uid = view.owner[0] if view.owner else os.geteuid()

    @property
    def banner(self) -> str:
        net = {"none": "no network", "allowlist": "listed hosts only", "full": "full network"}[self._view.net]
        return f"sandbox: bubblewrap, {self.workspace} can be written, {net}"

    @classmethod
    async def open(cls, workspace: Path, settings: SandboxSettings) -> "BwrapSandbox":
        """Raises: SandboxError with the reason and the fix when bubblewrap does not work here, or not for this workspace."""
        bwrap = await asyncio.to_thread(working_bwrap)
        path = mounts.checked_workspace(workspace)
        owner = await asyncio.to_thread(_owner, path)
        scratch = await asyncio.to_thread(Scratch.make, owner)
        try:
            cache = _cache(settings, owner)
            home = _home()
            tools = mounts.toolchains(
                [*settings.readable, Path(bwrap).parent.parent], pythonpath=os.environ.get("PYTHONPATH", "")
            )
            known = await asyncio.to_thread(repositories.found, path)
            laid = await asyncio.to_thread(mounts.plan, path, tools, settings.protected, home, known)
            view = View(path, tuple(laid), scratch, cache, home, settings.net, owner, tuple(known))
            proxy = await Proxy.start(scratch.run, settings.allow) if settings.net == "allowlist" else None
        except BaseException:
            scratch.remove()
            raise
        return cls(bwrap, view, settings, Cgroup.make(settings.procs), proxy)

    async def spawn(
        self, argv: Sequence[str], *, stdio: Stdio, pass_fds: Sequence[int] = (), env: Mapping[str, str] | None = None
    ) -> LocalProgram:
        view, depth = await self._refreshed(), 2 if self._view.owner is None else 3
        proxy = f"http://127.0.0.1:{PROXY_PORT}" if self._proxy else ""
        inner = [*argv]
        if self._proxy:
            inner = [self.python, "-I", f"{INSIDE}/forward.py", f"{INSIDE}/proxy.sock", str(PROXY_PORT), *argv]
        command = launched([*arguments(self._bwrap, view), *inner], self.settings, self._cgroup, self._uid)
        values = {**environment(os.environ, cache=view.cache, proxy=proxy), "HOME": str(view.home), "TMPDIR": "/tmp"}  # noqa: S108 - of the sandbox
        process = await local.start(
            command, workspace=view.workspace, stdio=stdio, pass_fds=pass_fds, env=values | dict(env or {})
        )
        program = LocalProgram(process, self.settings, depth=depth)
        self._programs.add(program)
        await program.started()
        return program

    async def aclose(self) -> None:
        await self._programs.end()
        if self._proxy:
            await self._proxy.aclose()
        await asyncio.to_thread(self._tidy)

    async def _refreshed(self) -> View:
        """The view with the protected paths as they are now; a repository may have been made meanwhile."""
        view = self._view
        if not view.workspace.is_dir():
            raise SandboxError(f"the workspace {view.workspace} is gone; create the folder again and repeat the call")
        fixed = [mount for mount in view.mounts if mount.how in ("read", "hide") or mount.path == view.workspace]
        laid = await asyncio.to_thread(mounts.guarded, view.workspace, self.settings.protected, view.repositories)
        held = self._placeholders.hold([mount.path for mount in laid if mount.is_free])
        laid = [mount for mount in laid if not mount.is_free or mount.path in held]
        guards = {mount.path for mount in laid}
        return replace(view, mounts=(*(mount for mount in fixed if mount.path not in guards), *laid))

    def _tidy(self) -> None:
        self._placeholders.close()
        if made := repositories.disarm(self.workspace, self._known):
            log.warning("what git would have run in %s was disarmed: %s", self.workspace, "; ".join(made))
        if moved := links.restored(self._links):
            log.warning("links that were replaced in %s are back: %s", self.workspace, ", ".join(moved))
        self._view.scratch.remove()
        if self._cgroup:
            self._cgroup.remove()


def _owner(workspace: Path) -> tuple[int, int] | None:
    """Whom root becomes; nobody else can become another user."""
    status = workspace.stat()
    return (
        (status.st_uid, status.st_gid) if os.geteuid() == 0 and status.st_uid != 0 and shutil.which("setpriv") else None
    )


def _home() -> Path:
    """The home folder's name inside; some services have `/` for theirs."""
    home = Path.home().resolve()
    return home if home != Path("/") else Path("/home/sandbox")


def _cache(settings: SandboxSettings, owner: tuple[int, int] | None) -> Path:
    """The folder that is kept from run to run, a separate one for another user. It holds what sandboxed programs wrote, and nothing outside reads it."""
    base = settings.cache or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "handloom" / "sandbox"
    folder = (base if owner is None else base.with_name(f"{base.name}-{owner[0]}")).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if owner is not None:
        os.chown(folder, *owner)
    return folder.resolve()
