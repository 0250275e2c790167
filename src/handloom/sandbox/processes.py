"""The tree of processes below one of ours, read from the system: what must be counted, interrupted and killed."""

import contextlib
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

_PAGE_KB = os.sysconf("SC_PAGE_SIZE") // 1024


def children(pid: int) -> list[int]:
    """The children in the order of their birth; none when the process is gone."""
    try:
        found: list[int] = []
        for thread in Path(f"/proc/{pid}/task").iterdir():
            found += map(int, (thread / "children").read_bytes().split())
    except OSError:
        return []
    return found


def below(pid: int, most: int = sys.maxsize) -> list[int]:
    """All descendants, parents first; the walk ends when more than `most` are found."""
    family = children if _has_children_files() else _listed().get
    found: list[int] = []
    waiting = [pid]
    while waiting and len(found) <= most:
        more = family(waiting.pop()) or []
        found += more
        waiting += more
    return found


def anonymous_kb(pids: list[int]) -> int:
    """Memory of the processes that is backed by no file."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/statm").read_bytes().split()
            total += (int(fields[1]) - int(fields[2])) * _PAGE_KB
    return total


def marked(mark: bytes) -> list[int]:
    """Processes whose environment began with this entry, wherever they went in the tree; Linux alone can tell."""
    return [pid for pid in _all() if pid != os.getpid() and mark in _environment(pid)]


def of_user(uid: int) -> int:
    """How many processes a user has; the system counts all of them against a limit."""
    return sum(1 for pid in _all() if _owner(pid) == uid)


def _all() -> list[int]:
    try:
        return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
    except OSError:
        return []


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _owner(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1


def _has_children_files() -> bool:
    return Path(f"/proc/self/task/{os.getpid()}/children").exists()


def _listed() -> dict[int, list[int]]:
    """Parents and children as `ps` tells them, where /proc does not."""
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=False)  # noqa: S607 - its place differs
    family: dict[int, list[int]] = defaultdict(list)
    for line in told.stdout.splitlines():
        pid, parent = map(int, line.split())
        family[parent].append(pid)
    return family
