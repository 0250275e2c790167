"""Hooks of a repository that was made inside: git on the person's side would run them, so they lose their permission to be run."""

import contextlib
import os
import stat
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def disarm(workspace: Path) -> list[str]:
    """The names of the hooks that could have been run. git says of such a hook that it is ignored; who wants it makes it executable again.

    Nothing is reached through links: they may lead anywhere, and we have more rights than who made them.
    """
    disarmed: list[str] = []
    with contextlib.suppress(OSError), contextlib.ExitStack() as opened:
        folder = os.open(workspace, _FOLDER)
        opened.callback(os.close, folder)
        for name in (".git", "hooks"):
            folder = os.open(name, _FOLDER, dir_fd=folder)
            opened.callback(os.close, folder)
        for name in sorted(os.listdir(folder)):  # noqa: PTH208 - of a descriptor
            with contextlib.suppress(OSError):
                file = os.open(name, _FILE, dir_fd=folder)
                opened.callback(os.close, file)
                status = os.fstat(file)
                if stat.S_ISREG(status.st_mode) and status.st_mode & 0o111 and not name.endswith(".sample"):
                    os.fchmod(file, status.st_mode & 0o666)
                    disarmed.append(name)
    return disarmed
