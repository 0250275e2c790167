"""The cache of steps: what a step made is taken again when nothing it depends on has changed.

An entry is a file named by the hash of all that the step depends on. It also holds the hashes of the files that the step made: it counts only
while those are there as they were made.
"""

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

import msgspec

from handloom.messages import Json, is_object

MOST_FILES = 10_000


class StepCache(Protocol):
    """Keeps what steps made, by key."""

    def get(self, key: str) -> Json | None: ...

    def put(self, key: str, entry: Json) -> None: ...


class FolderCache:
    """Entries as JSON files in a folder; a damaged one is as good as none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> Json | None:
        try:
            found = msgspec.json.decode((self.folder / f"{key}.json").read_bytes())
        except (OSError, msgspec.DecodeError):
            return None
        return found if is_object(found) and "output" in found else None

    def put(self, key: str, entry: Json) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        draft = self.folder / f"{key}.{os.getpid()}"
        draft.write_bytes(msgspec.json.encode(entry))
        draft.replace(self.folder / f"{key}.json")


def key_of(parts: Json, files: Iterable[str], folder: Path) -> str:
    """The key of a step: the hash of what it is asked, with what, and of the files that match the patterns it declares."""
    whole = {"parts": parts, "files": hashes(files, folder)}
    return hashlib.sha256(msgspec.json.encode(whole, order="deterministic")).hexdigest()


def hashes(patterns: Iterable[str], folder: Path) -> dict[str, str]:
    """The hash of each file in the folder that matches a pattern; a pattern that nothing matches counts as such."""
    found: dict[str, str] = {}
    for pattern in patterns:
        paths = [path for path in _matching(pattern, folder) if path.is_file()][:MOST_FILES]
        found |= {os.path.relpath(path, folder): _hash(path) for path in paths} or {pattern: ""}
    return dict(sorted(found.items()))


def made(names: Iterable[str], folder: Path) -> dict[str, str]:
    """The hash of each file that a step made; of a folder, that of all files in it. Empty for what is not there."""
    return {name: _hash_of_made(folder / name) for name in names}


def fits(entry: Json, folder: Path) -> bool:
    """Whether the files that the step made are there as they were."""
    files: dict[str, str] = entry.get("files", {})
    return all(value and _hash_of_made(folder / name) == value for name, value in files.items())


def _hash_of_made(path: Path) -> str:
    if path.is_dir():
        inside = {os.path.relpath(file, path): _hash(file) for file in sorted(path.rglob("*")) if file.is_file()}
        return hashlib.sha256(msgspec.json.encode(inside)).hexdigest()
    return _hash(path) if path.is_file() else ""


def _matching(pattern: str, folder: Path) -> list[Path]:
    if pattern.startswith("/") or not any(sign in pattern for sign in "*?["):
        return [folder / pattern]
    return sorted(folder.glob(pattern))


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
