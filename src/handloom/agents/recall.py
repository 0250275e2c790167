"""The tool that reads earlier results again; offered once the window shows one short."""

from handloom.errors import ToolError
from handloom.tools import ToolContext, tool

PIECE = 4_000  # characters of one reading


@tool(effects={"read"}, repeatable=True, parallel=True)
def read_result(handle: str, context: ToolContext, start: int = 0) -> str:
    """Read an earlier result again where it was cut.

    Args:
        handle: Such as call00001.
        start: First character to show.
        context: Filled by handloom.
    """
    text = context.recall(handle)
    if not 0 <= start < max(1, len(text)):
        raise ToolError(f"start must be between 0 and {len(text) - 1}")
    end = min(len(text), start + PIECE)
    more = f"\n[{len(text) - end:,} more characters from start={end}]" if end < len(text) else ""
    return text[start:end] + more
