"""Reading files for an agent on its behalf, outside the sandbox: nothing but what lies in a folder, and nothing that would block."""

from pathlib import Path

from handloom.errors import ToolError
from handloom.toolbox.workspace_file import WorkspaceFile


def beginning(path: Path, size: int, *, within: Path) -> bytes | None:
    """The first `size` bytes of a regular file; None for anything else, for what a link leads out of `within`, and for what cannot be read."""
    try:
        with WorkspaceFile.at(within.resolve(), str(path.absolute())).reading() as file:
            return file.read(size)
    except (ToolError, OSError):
        return None
