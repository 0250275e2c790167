"""Where handloom keeps things, and which folders' own settings are trusted."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Folders:
    """Where handloom keeps things: settings, runs, and what can be made again."""

    config: Path
    data: Path
    cache: Path

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "Folders":
        """From `HANDLOOM_HOME`, else the XDG variables, else their defaults."""
        if home := environment.get("HANDLOOM_HOME"):
            base = Path(home).expanduser().resolve()
            return cls(base, base, base / "cache")
        user = Path(environment.get("HOME") or Path.home())

        def folder(variable: str, default: str) -> Path:
            return Path(environment.get(variable) or user / default) / "handloom"

        return cls(
            folder("XDG_CONFIG_HOME", ".config"),
            folder("XDG_DATA_HOME", ".local/share"),
            folder("XDG_CACHE_HOME", ".cache"),
        )


def is_trusted(folder: Path, folders: Folders) -> bool:
    """Whether the person has said that this folder's own settings may be used."""
    record = folders.data / "trusted"
    return record.is_file() and str(folder.resolve()) in record.read_text(encoding="utf-8").splitlines()


def trust(folder: Path, folders: Folders) -> None:
    """Remember that this folder's settings may be used."""
    if not is_trusted(folder, folders):
        folders.data.mkdir(parents=True, exist_ok=True)
        with (folders.data / "trusted").open("a", encoding="utf-8") as record:
            record.write(f"{folder.resolve()}\n")
