"""What a project tells those who work on it: its AGENTS.md files, from the root of the repository down to the folder."""

from pathlib import Path

from handloom.agents.reading import beginning

NAME = "AGENTS.md"
MOST_BYTES = 32_000


def read_instructions(folder: Path) -> str:
    """The files with their names, the nearest last, since it holds where they differ; of what is too long the nearest is kept. Empty without any. A link out of the repository is not followed."""
    folders = [folder, *folder.parents]
    top = next((place for place, each in enumerate(folders) if (each / ".git").exists()), 0)
    found: list[str] = []
    room = MOST_BYTES
    for each in folders[: top + 1]:
        text = _text(each / NAME, room, folders[top])
        if text:
            found.insert(0, f"## {each / NAME}\n{text}")
            room -= len(text.encode())
    return "\n\n".join(found)


def _text(path: Path, room: int, root: Path) -> str:
    data = beginning(path, room + 1, within=root) if room > 0 else None
    if data is None:
        return ""
    text = data[:room].decode("utf-8", "ignore").strip()
    return f"{text}\n[... the rest of this file was left out ...]" if len(data) > room and text else text
