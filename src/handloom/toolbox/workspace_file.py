"""WorkspaceFile: a place in the workspace, reached without following a link out of it."""

import contextlib
import os
import re
import secrets
import stat
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

from handloom.errors import ToolError
from handloom.sandbox.settings import PROTECTED

PATH_CHARS = 1_000
_ELSEWHERE = re.compile(r"~|[A-Za-z]:[\\/]|[A-Za-z][A-Za-z0-9+.-]*://")
_CONTROL = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
# A FIFO that nobody writes to would block the open.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_DRAFT = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True)
class WorkspaceFile:
    """A path that was in the workspace, links resolved, when `at` looked.

    Each use opens it part by part and refuses links, so a part that is swapped for a link later leads nowhere.
    """

    workspace: Path
    parts: tuple[str, ...]

    @classmethod
    def at(cls, workspace: Path, path: str) -> Self:
        """Raises: ToolError for a path that leads out of the workspace or cannot be a path."""
        if _CONTROL.search(path):
            raise ToolError(f"the path {path!r} holds control characters")
        if len(path) > PATH_CHARS:
            raise ToolError(f"the path has {len(path):,} characters; the limit is {PATH_CHARS:,}")
        outside = ToolError(f"{path} is outside the workspace {workspace}; give a path relative to it")
        if _ELSEWHERE.match(path):
            raise outside
        try:
            resolved = (workspace / path).resolve()
        except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
            raise ToolError(f"{path}: {error}") from None
        if not resolved.is_relative_to(workspace):
            raise outside
        return cls(workspace, resolved.relative_to(workspace).parts)

    def __str__(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def name(self) -> str:
        return self.parts[-1] if self.parts else "."

    def is_folder(self) -> bool:
        found = self._stat()
        return found is not None and stat.S_ISDIR(found.st_mode)

    def exists(self) -> bool:
        return self._stat() is not None

    @contextlib.contextmanager
    def reading(self) -> Generator[BinaryIO]:
        """Raises: ToolError for what is not a regular file, OSError."""
        with self._folder() as folder:
            descriptor = os.open(self.name, _READ, dir_fd=folder)
        try:
            self._require_regular(os.fstat(descriptor))
            with open(descriptor, "rb", closefd=False) as file:
                yield file
        finally:
            os.close(descriptor)

    def write(self, data: bytes) -> None:
        """Put the bytes there at once or not at all; mode and owner stay, missing folders are made.

        Raises: ToolError for what is not a regular file, OSError.
        """
        self._require_free()
        with self._folder(make=True) as folder:
            before = self._stat_in(folder)
            if before is not None:
                self._require_regular(before)
            draft = f".handloom-{secrets.token_hex(6)}.tmp"
            descriptor = os.open(draft, _DRAFT, 0o666, dir_fd=folder)
            try:
                with open(descriptor, "wb") as file:  # noqa: PTH123 - the same
                    file.write(data)
                    if before is not None:
                        _dress(descriptor, before)
                os.replace(draft, self.name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(draft, dir_fd=folder)
                raise

    def remove(self) -> None:
        self._require_free()
        with self._folder() as folder:
            os.unlink(self.name, dir_fd=folder)

    @contextlib.contextmanager
    def listing(self) -> Generator[Iterator[os.DirEntry[str]]]:
        """The entries of the folder."""
        with self._opened(self.parts) as folder, os.scandir(folder) as entries:
            yield entries

    def _folder(self, *, make: bool = False) -> contextlib.AbstractContextManager[int]:
        return self._opened(self.parts[:-1], make=make)

    @contextlib.contextmanager
    def _opened(self, parts: tuple[str, ...], *, make: bool = False) -> Generator[int]:
        folder = os.open(self.workspace, _FOLDER)
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=folder)
                inner = os.open(part, _FOLDER, dir_fd=folder)
                os.close(folder)
                folder = inner
            yield folder
        finally:
            os.close(folder)

    def _stat(self) -> os.stat_result | None:
        try:
            with self._folder() as folder:
                return self._stat_in(folder)
        except FileNotFoundError:
            return None

    def _stat_in(self, folder: int) -> os.stat_result | None:
        try:
            return os.stat(self.name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def _require_free(self) -> None:
        """Other programs of the person obey what stands in protected places, in a nested repository too."""
        names = tuple(part.casefold() for part in self.parts)
        for path in (".git", *PROTECTED):  # what programs may write of git's own folder, no text editor need
            protected = tuple(path.split("/"))
            if any(names[place : place + len(protected)] == protected for place in range(len(names))):
                raise ToolError(
                    f"{self} is protected: programs outside the sandbox obey {path}. Nothing was changed; ask the person to do it"
                )

    def _require_regular(self, found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(
                f"{self} is a folder, and only text files are edited here; to move, rename or delete files run Python"
            )
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self} is not a regular file")


def _dress(descriptor: int, before: os.stat_result) -> None:
    """Give a new file the owner and the mode of the one it replaces."""
    now = os.fstat(descriptor)
    if (now.st_uid, now.st_gid) != (before.st_uid, before.st_gid):
        with contextlib.suppress(PermissionError):  # only root may give files away
            os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
