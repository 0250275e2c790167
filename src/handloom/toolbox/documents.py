"""read_document: the text of a PDF, Word, Excel, CSV, HTML or text file, of the workspace."""

import asyncio

from handloom.errors import ToolError
from handloom.messages import ToolResult, Usage
from handloom.toolbox import document
from handloom.toolbox.extract import Extract
from handloom.toolbox.paging import piece
from handloom.toolbox.spotlight import Spotlight
from handloom.toolbox.workspace_file import WorkspaceFile
from handloom.tools import Tool, ToolContext, tool

MOST_BYTES = 100_000_000


def document_tool(extract: Extract | None = None) -> Tool:
    """The tool; without `extract` a goal is refused. Documents of the web are read by `fetch`."""

    @tool(name="read_document", effects={"read"}, repeatable=True, parallel=True, untrusted=True)
    async def read_document(path: str, context: ToolContext, start: int = 0, goal: str = "") -> ToolResult:
        """Read a document of the workspace (PDF, docx, xlsx, csv, html) as text from character `start`, or the answer to `goal` in it."""
        spotlight = await context.resource(Spotlight, Spotlight.start)
        text = await _from_file(context, path)
        usage = Usage()
        if goal:
            if extract is None:
                raise ToolError("there is no model to look for a goal; leave it out and read the text")
            (text, usage), start = await extract(text, goal, start), 0
        if not text.strip():
            return ToolResult(text="the document has no text (scanned pages are images)", silent=True, untrusted=True)
        return ToolResult(text=spotlight.around(piece(text, start), path), untrusted=True, usage=usage)

    return read_document


async def _from_file(context: ToolContext, path: str) -> str:
    file = WorkspaceFile.at(context.workspace, path)
    if file.is_folder():
        raise ToolError(f"{path} is a folder; give the path of a file")
    try:
        data = await asyncio.to_thread(_bytes, file)
    except FileNotFoundError:
        raise ToolError(f"there is no {file} in the workspace") from None
    except OSError as error:
        raise ToolError(f"{file}: {error.strerror or error}") from None
    try:
        return await document.text_of(data, type="text/html" if file.name.lower().endswith((".html", ".htm")) else "")
    except ToolError as error:
        raise ToolError(f"{file}: {error}") from None


def _bytes(file: WorkspaceFile) -> bytes:
    with file.reading() as opened:
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise ToolError(f"{file} is larger than {MOST_BYTES:,} bytes; read it in parts with Python")
    return data
