"""Paging: a long text in pieces, each saying where the next begins."""

from handloom.errors import ToolError

PIECE = 8_000  # characters of one reading


def piece(text: str, start: int, *, size: int = PIECE) -> str:
    """The part that begins at `start`, ended at a line where one ends near. Raises: ToolError for a start outside the text."""
    require_start(text, start)
    end = min(len(text), start + size)
    if end < len(text):
        line = text.rfind("\n", start + size * 3 // 4, end)
        end = line + 1 if line > 0 else end
    more = f"\n[{len(text) - end:,} more characters: start={end}]" if end < len(text) else ""
    return text[start:end] + more


def require_start(text: str, start: int) -> None:
    """Raises: ToolError for a start outside the text."""
    if not 0 <= start < max(1, len(text)):
        raise ToolError(f"start must be between 0 and {max(0, len(text) - 1)}")
