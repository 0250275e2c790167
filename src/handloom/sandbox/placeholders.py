"""Placeholders: empty files without permissions that take a protected name of the workspace while nothing else does.

Programs see a device there, so they can neither make the file nor take it for one; bubblewrap needs something to lay the device over. Git stops at a device, so
what it reads in its own folder is a file that says nothing (`SAYS`). Sandboxes of one workspace share them: whoever closes last removes them, and a killed
owner's are removed by the next one.
"""

import contextlib
import fcntl
import os
import stat
from collections.abc import Iterable
from pathlib import Path

# A common folder that is the folder itself; no settings of this work tree.
SAYS = {"commondir": b".\n", "config.worktree": b""}


class Placeholders:
    """Those of one sandbox. The lock on the workspace says that a sandbox lives there."""

    def __init__(self, workspace: Path) -> None:
        self._paths: set[Path] = set()
        self._lock = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(self._lock, fcntl.LOCK_SH)

    def hold(self, paths: Iterable[Path]) -> list[Path]:
        """Take the names that are free; those that are held now. A folder that we cannot write is one that programs cannot write either."""
        for path in paths:
            with contextlib.suppress(FileExistsError, PermissionError):
                new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0)
                with open(new, "wb") as file:  # noqa: PTH123 - of a descriptor
                    if path.name in SAYS:
                        file.write(SAYS[path.name])
                        os.fchmod(new, 0o444)
        held = [path for path in paths if is_placeholder(path)]
        self._paths.update(held)
        return held

    def close(self) -> None:
        """Remove them, unless another sandbox needs them."""
        if self._is_last():
            for path in filter(is_placeholder, self._paths):
                with contextlib.suppress(OSError):
                    path.unlink()
        os.close(self._lock)

    def _is_last(self) -> bool:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            return True  # a file system without locks
        return True


def is_placeholder(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    said, mode = SAYS.get(path.name, b""), 0o444 if path.name in SAYS else 0
    fits = stat.S_ISREG(status.st_mode) and status.st_size == len(said) and stat.S_IMODE(status.st_mode) == mode
    return fits and (not said or path.read_bytes() == said)
