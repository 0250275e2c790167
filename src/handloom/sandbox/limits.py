"""Limits that the system keeps: per process by rlimits, set by a few lines of `sh`; per sandbox by a control group where one can be made."""

import contextlib
import os
import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from handloom.sandbox import processes
from handloom.sandbox.settings import SandboxSettings

CGROUPS = Path("/sys/fs/cgroup")
SPARE = 4  # times the processes that are allowed: the system counts threads as well; at the number itself the watch kills, while the system only refuses
PREFIX = "handloom-"

# $1 the control group's list or empty, $2 kB of memory, $3 file size in blocks of 512, $4 processes or empty. `-p` is dash's word, `-u` that of the others.
LAUNCH = """\
if [ -n "$1" ]; then echo $$ >"$1"; fi
ulimit -c 0; ulimit -d "$2"; ulimit -f "$3"
if [ -n "$4" ]; then ulimit -p "$4" || ulimit -u "$4"; fi
shift 4; exec 2>&3 3>&- "$@"
"""


def launched(argv: Sequence[str], settings: SandboxSettings, cgroup: "Cgroup | None", uid: int) -> list[str]:
    """The command that sets the limits and becomes `argv`; complaints about limits that are stricter already are dropped."""
    procs = str(settings.procs * SPARE + processes.of_user(uid)) if uid else ""  # root is not bound by it
    return [
        *("/bin/sh", "-c", f"exec 3>&2 2>/dev/null\n{LAUNCH}", "launch"),
        *(str(cgroup.members) if cgroup else "", str(settings.memory_mb << 10), str(settings.file_mb << 11), procs),
        *argv,
    ]


@dataclass(frozen=True)
class Cgroup:
    """A control group that bounds the number of processes and threads."""

    folder: Path

    @property
    def members(self) -> Path:
        return self.folder / "cgroup.procs"

    @classmethod
    def make(cls, procs: int) -> "Cgroup | None":
        """None where the system or our rights do not allow one."""
        for parent in _parents():
            _sweep(parent)
            folder = parent / f"{PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
            with contextlib.suppress(OSError):
                folder.mkdir()
                try:
                    (folder / "pids.max").write_text(str(procs * SPARE))
                except OSError:
                    folder.rmdir()
                    continue
                return cls(folder)
        return None

    def remove(self) -> None:
        """Its members are dead, or dying; the system lets go of it when the last one is gone."""
        for _ in range(50):
            try:
                self.folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.002)
            else:
                return


def _sweep(parent: Path) -> None:
    """Groups without members; an owner that was killed could not remove its own."""
    for folder in parent.glob(f"{PREFIX}*"):
        owner = folder.name.removeprefix(PREFIX).partition("-")[0]
        if owner.isdigit() and not Path("/proc", owner).exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


def _parents() -> list[Path]:
    """Where a group may be made: below our own, or at the top, in the first or the second version of control groups."""
    places: list[Path] = []
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            if "pids" in controllers.split(","):
                places += [CGROUPS / "pids" / path.lstrip("/"), CGROUPS / "pids"]
            elif not controllers:
                places += [CGROUPS / path.lstrip("/"), CGROUPS]
    return [place for place in places if place.is_dir() and (place / "cgroup.procs").exists()]
