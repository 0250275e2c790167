"""Checkpoints: how the workspace was before a turn changed it, kept by git in a store of our own outside the workspace.

The person's repository, its index and its settings are never touched: the store has a folder, an index and no hooks of its own. What the workspace's
`.gitignore` leaves out is not kept, and neither is what stands in repositories inside it, or in folders that programs fill (`UNKEPT`).
"""

import asyncio
import contextlib
import hashlib
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from handloom.errors import ConfigError
from handloom.noise import NOISE
from handloom.sandbox.placeholders import is_placeholder

MOST_FILES = 20_000
MOST_BYTES = 1_000_000_000
FILE_BYTES = 50_000_000  # a larger file is left out
UNKEPT = NOISE | {".venv"}  # folders, wherever they stand; what is in them is not counted either
NO_GIT = "checkpoints need git, which is not installed"


@dataclass(frozen=True)
class Checkpoints:
    """The states of one workspace. Raises: ConfigError from all methods when git fails."""

    workspace: Path
    store: Path
    most_files: int = MOST_FILES
    most_bytes: int = MOST_BYTES

    @classmethod
    def of(
        cls, workspace: Path, folder: Path, *, most_files: int = MOST_FILES, most_bytes: int = MOST_BYTES
    ) -> "Checkpoints":
        """The store of this workspace below a folder that holds those of all."""
        name = hashlib.sha256(str(workspace).encode()).hexdigest()[:16]
        return cls(workspace, folder / name, most_files, most_bytes)

    def problem(self) -> str:
        """Why the workspace cannot be kept; empty when it can. It looks at every name, so ask once a run."""
        if shutil.which("git") is None:
            return NO_GIT
        files = size = 0
        for folder, found in self._folders():
            files += len(found)
            for name in found:
                with contextlib.suppress(OSError):
                    length = os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - a walk over many
                    size += length if length <= FILE_BYTES else 0
            if files > self.most_files or size > self.most_bytes:
                return (
                    f"the workspace has more than {self.most_files:,} files or {self.most_bytes // 1_000_000:,} MB, so its states are not kept; "
                    "work in a smaller folder to be able to go back"
                )
        return ""

    async def take(self, name: str) -> str:
        """Keep how the workspace is now under a name; the id of the state."""
        await self._prepare()
        left_out = [*await asyncio.to_thread(self._left_out), *await self._repositories()]
        excluded = [f":(exclude,top,literal){path}" for path in left_out]
        excluded += [f":(exclude,top,glob)**/{folder}/**" for folder in sorted(UNKEPT)]
        await self._git("add", "--all", "--", ".", *excluded)
        tree = (await self._git("write-tree")).strip()
        await self._git("update-ref", f"refs/handloom/{name}", tree)
        return tree

    async def diff(self, before: str, after: str) -> str:
        """What changed between two states, as a patch."""
        return await self._git("diff", "--no-color", "--no-ext-diff", before, after)

    async def restore(self, state: str, name: str) -> str:
        """Bring the workspace back to a state; how it was is kept under `name`, and its id is returned."""
        now = await self.take(name)
        added = await self._names("--diff-filter=A", state, now)
        for path in added:
            # A folder is a repository, of whose place older versions took note.
            with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                (self.workspace / path).unlink()
            self._remove_empty((self.workspace / path).parent)
        await self._git("read-tree", state)
        changed = await self._names("--diff-filter=MDT", state, now)
        if changed:
            for path in changed:
                (self.workspace / path).parent.mkdir(parents=True, exist_ok=True)
            await self._git("checkout-index", "--force", "-z", "--stdin", given="\0".join(changed) + "\0")
        return now

    async def _names(self, which: str, before: str, after: str) -> list[str]:
        listed = await self._git("diff-tree", "-r", "-z", "--no-renames", "--name-only", which, before, after)
        return [name for name in listed.split("\0") if name]

    def _remove_empty(self, folder: Path) -> None:
        while folder != self.workspace and folder.is_relative_to(self.workspace):
            try:
                folder.rmdir()
            except OSError:
                return
            folder = folder.parent

    def _folders(self) -> Iterator[tuple[str, list[str]]]:
        """Each folder that may be kept, with the names of its files."""
        for folder, names, files in os.walk(self.workspace):
            names[:] = [name for name in names if name != ".git" and name not in UNKEPT]
            yield folder, files

    def _left_out(self) -> list[str]:
        """Files that are too large to be kept, and those that only keep a name from being taken."""
        found: list[str] = []
        for folder, files in self._folders():
            for name in files:
                path = Path(folder, name)
                with contextlib.suppress(OSError):
                    if path.lstat().st_size > FILE_BYTES or is_placeholder(path):
                        found.append(str(path.relative_to(self.workspace)))
        return found

    async def _repositories(self) -> list[str]:
        """Repositories inside the workspace: git takes no files of theirs, and fails on one without a commit. A folder that was kept before it became one is kept on."""
        found = await asyncio.to_thread(self._inner)
        kept = (await self._git("ls-files", "-z")).split("\0") if found else []
        return [path for path in found if not any(name.startswith(f"{path}/") for name in kept)]

    def _inner(self) -> list[str]:
        return [
            str(Path(folder).relative_to(self.workspace))
            for folder, _ in self._folders()
            if folder != str(self.workspace) and _is_repository(Path(folder, ".git"))
        ]

    async def _prepare(self) -> None:
        if not (self.store / "HEAD").exists():
            self.store.mkdir(parents=True, exist_ok=True, mode=0o700)
            await self._git("init", "--quiet", "--bare", str(self.store), bare=True)
            (self.store / "workspace").write_text(str(self.workspace), encoding="utf-8")

    async def _git(self, *words: str, given: str = "", bare: bool = False) -> str:
        git = shutil.which("git")
        if git is None:
            raise ConfigError(NO_GIT)
        # Settings of the person could start programs (filters, monitors), and none is needed.
        settings = (
            "core.hooksPath=/dev/null",
            "core.fsmonitor=false",
            "core.autocrlf=false",
            "gc.auto=0",
            "advice.addEmbeddedRepo=false",
        )
        options = [word for setting in settings for word in ("-c", setting)]
        places = [] if bare else [f"--git-dir={self.store}", f"--work-tree={self.workspace}"]
        environment = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.store),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C.UTF-8",
        }
        process = await asyncio.create_subprocess_exec(
            git,
            *options,
            *places,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=self.workspace,
            env=environment,
        )
        out, err = await process.communicate(given.encode("utf-8", "surrogateescape"))
        if process.returncode:
            said = err.decode("utf-8", "replace").strip()[-500:]
            raise ConfigError(f"the state of {self.workspace} could not be kept or read: git {words[0]}: {said}")
        return out.decode("utf-8", "surrogateescape")


def _is_repository(place: Path) -> bool:
    """Whether what stands under the name `.git` may be a repository, or a file that says where one is."""
    return place.is_file() or os.path.lexists(place / "HEAD")
