"""Downloads: what a page hands out comes into a folder of the workspace under a name of its own, and nothing of it anywhere else."""

import asyncio
import contextlib
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from handloom.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Download

FOLDER = "downloads"
MOST_BYTES = 500_000_000
SECONDS = 600.0
LOOK = 0.5  # seconds between looks at how much has come
NAME_BYTES = 150
SAME_NAME = 1_000
_UNSAFE = re.compile(r"[^\w.()\- ]+")
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


@dataclass(frozen=True)
class Downloads:
    """`arriving` is where the browser puts what is not whole yet: together at most `most_bytes`. One download may take `seconds`."""

    workspace: Path
    arriving: Path
    most_bytes: int = MOST_BYTES
    seconds: float = SECONDS

    async def keep(self, download: "Download") -> Path:
        """The file in the workspace. Raises: ToolError that says why there is none."""
        from playwright.async_api import Error

        name = name_of(download.suggested_filename)
        try:
            async with asyncio.timeout(self.seconds):
                arrived = await self._arrived(download)
            path = await asyncio.to_thread(self._kept, arrived, name)
            await download.delete()
        except TimeoutError:
            raise ToolError(f"{name} was not downloaded: it took longer than {self.seconds:g} s") from None
        except (Error, OSError) as error:
            raise ToolError(f"{name} was not downloaded: {str(error).partition(chr(10))[0][:200]}") from None
        return path

    async def _arrived(self, download: "Download") -> Path:
        """Where it is once it is whole; one that is given up is cancelled. Raises: ToolError when it grows too large."""
        whole = asyncio.ensure_future(download.path())
        try:
            while not whole.done():
                await asyncio.wait((whole,), timeout=LOOK)
                await asyncio.to_thread(self._check_size, name_of(download.suggested_filename))
            return whole.result()
        except BaseException:
            whole.cancel()
            with contextlib.suppress(Exception):
                await download.cancel()
                await download.delete()
            raise

    def _check_size(self, name: str) -> None:
        """Raises: ToolError."""
        with os.scandir(self.arriving) as entries:
            size = sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        if size > self.most_bytes:
            raise ToolError(f"{name} was larger than {self.most_bytes:,} bytes and is not kept")

    def _kept(self, arrived: Path, name: str) -> Path:
        """Copy it to a name that nothing has, and follow no link in doing so. Raises: ToolError, OSError."""
        folder = self.workspace / FOLDER
        if folder.is_symlink():
            raise ToolError(f"{name} was not downloaded: {FOLDER} is a link")
        folder.mkdir(exist_ok=True)
        descriptor = os.open(folder, _FOLDER)
        try:
            chosen, file = _created(descriptor, name)
            with file, arrived.open("rb") as source:
                try:
                    shutil.copyfileobj(source, file)
                except OSError:
                    os.unlink(chosen, dir_fd=descriptor)
                    raise
        finally:
            os.close(descriptor)
        return folder / chosen


def name_of(suggested: str) -> str:
    """The name that a page suggests, without what a path could be made of, and short enough for any file system."""
    name = Path(_UNSAFE.sub("_", Path(suggested).name).strip(". ") or "file")
    suffix = name.suffix if len(name.suffix.encode()) < NAME_BYTES // 3 else ""
    stem = name.name.removesuffix(suffix).encode()[: NAME_BYTES - len(suffix.encode())]
    return stem.decode("utf-8", "ignore") + suffix


def _created(folder: int, name: str) -> tuple[str, BinaryIO]:
    """A new file of this name, or of one that is numbered, in the folder with this descriptor. Raises: OSError."""
    path = Path(name)
    names = (name, *(f"{path.stem}-{count}{path.suffix}" for count in range(2, SAME_NAME)))
    for chosen in names:
        with contextlib.suppress(FileExistsError):
            return chosen, os.fdopen(os.open(chosen, _NEW, 0o644, dir_fd=folder), "wb")
    raise FileExistsError(f"there are {SAME_NAME - 1} files of this name")
