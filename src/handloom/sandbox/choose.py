"""open_sandbox: the sandbox that works here, or a refusal that says what to do."""

import asyncio
import contextlib
import sys
from pathlib import Path

from handloom.errors import SandboxError
from handloom.sandbox.sandbox import Sandbox
from handloom.sandbox.settings import SandboxSettings


async def open_sandbox(workspace: Path, settings: SandboxSettings | None = None) -> Sandbox:
    """The sandbox that the settings ask for; `auto` takes the system's own and never none.

    Raises: SandboxError when it does not work here, with the reason and the fix.
    """
    settings = settings or SandboxSettings()
    match settings.kind:
        case "off":
            from handloom.sandbox.off import OffSandbox

            return await OffSandbox.open(workspace, settings)
        case "container":
            from handloom.sandbox.container import ContainerSandbox

            return await ContainerSandbox.open(workspace, settings)
        case "seatbelt":
            return await _seatbelt(workspace, settings)
        case "auto" if sys.platform == "darwin":
            return await _seatbelt(workspace, settings)
        case _:
            return await _bwrap(workspace, settings)


async def _seatbelt(workspace: Path, settings: SandboxSettings) -> Sandbox:
    from handloom.sandbox.seatbelt import SeatbeltSandbox

    return await SeatbeltSandbox.open(workspace, settings)


async def _bwrap(workspace: Path, settings: SandboxSettings) -> Sandbox:
    from handloom.sandbox.bwrap import BwrapSandbox
    from handloom.sandbox.probe import working_bwrap

    if not sys.platform.startswith("linux"):
        raise SandboxError(refusal("bubblewrap runs on Linux alone", inside_container=False))
    try:
        await asyncio.to_thread(working_bwrap)
    except SandboxError as error:
        raise SandboxError(refusal(str(error), inside_container=in_container())) from None
    return await BwrapSandbox.open(workspace, settings)


def refusal(reason: str, *, inside_container: bool) -> str:
    """Why no program is run, and what a person can do about it."""
    if inside_container:
        fix = (
            'This is a container, which can be the sandbox itself: if it holds nothing but the work, set `sandbox.kind = "off"`. '
            "Or start it so that it may make namespaces (docker: --security-opt seccomp=unconfined --security-opt apparmor=unconfined)."
        )
    else:
        fix = (
            "Fix: install bubblewrap, and allow user namespaces (`sysctl kernel.unprivileged_userns_clone=1`; on Ubuntu "
            '`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, or an AppArmor profile for bwrap), or use `sandbox.kind = "container"` with an engine. '
            'To run without a sandbox, with all your rights, set `sandbox.kind = "off"`.'
        )
    return f"no sandbox works here, so no program is run: {reason}. {fix}"


def in_container() -> bool:
    """Whether this looks like the inside of a container."""
    if any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv")):
        return True
    with contextlib.suppress(OSError):
        return any(word in Path("/proc/1/cgroup").read_text() for word in ("docker", "kubepods", "containerd", "lxc"))
    return False
