"""Scratch: the folders that belong to one sandbox; what a killed owner left is removed by the next one."""

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PREFIX = "handloom-sandbox-"


@dataclass(frozen=True)
class Scratch:
    """`tmp` and `home` are written inside, `run` is written by us. The lock tells that the owner lives."""

    root: Path
    lock: int

    @property
    def tmp(self) -> Path:
        return self.root / "tmp"

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @classmethod
    def make(cls, owner: tuple[int, int] | None = None) -> "Scratch":
        """New folders; `owner` is who runs the programs, when that is not us."""
        _sweep(Path(tempfile.gettempdir()))
        root = Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
        lock = os.open(root / "lock.new", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(lock, fcntl.LOCK_EX)
        (root / "lock.new").rename(root / "lock")  # it appears with its lock on
        scratch = cls(root, lock)
        for folder, mode in ((scratch.tmp, 0o1777), (scratch.home, 0o755), (scratch.run, 0o755)):
            folder.mkdir()
            folder.chmod(mode)  # inside; outside nobody comes through the folder above
        if owner is not None:
            os.chown(scratch.home, *owner)
        return scratch

    def remove(self) -> None:
        _remove(self.root)
        with contextlib.suppress(OSError):
            os.close(self.lock)


def _sweep(parent: Path) -> None:
    """Remove the folders of owners that died; nobody holds their locks."""
    for root in parent.glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            if root.lstat().st_uid != os.geteuid():
                continue  # what it says to remove would be removed with our rights
            lock = os.open(root / "lock", os.O_RDWR | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _remove(root)
            finally:
                os.close(lock)


def _remove(root: Path) -> None:
    """Also what lies in folders without permissions, as programs leave them; links are removed and never followed."""

    def open_up(function: Callable[[str], object], path: str, _error: object) -> None:
        with contextlib.suppress(OSError):
            for folder in (os.path.dirname(path), path):  # noqa: PTH120 - paths as rmtree gives them
                if stat.S_ISDIR(os.lstat(folder).st_mode):
                    os.chmod(folder, 0o700)  # noqa: PTH101 - the same
            if function in (os.unlink, os.rmdir):
                function(path)
            else:
                shutil.rmtree(path, ignore_errors=True)

    shutil.rmtree(root, onerror=open_up)
