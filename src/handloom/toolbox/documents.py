"""read_document: the text of a PDF, Word, Excel, CSV, HTML or text file, of the workspace or of the web."""

import asyncio

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.net import Guard, get
from handloom.toolbox import document
from handloom.toolbox.extract import Extract
from handloom.toolbox.fetch import charset_of, raise_for
from handloom.toolbox.paging import piece
from handloom.toolbox.spotlight import Spotlight
from handloom.toolbox.workspace_file import WorkspaceFile
from handloom.tools import Tool, ToolContext, tool

MOST_BYTES = 100_000_000


def document_tool(guard: Guard | None = None, extract: Extract | None = None) -> Tool:
    """The tool under this guard; without `extract` a goal is refused."""
    guard = guard or Guard()

    @tool(
        name="read_document",
        effects={"network_send"},
        repeatable=True,
        parallel=True,
        untrusted=True,
        destinations=("url",),
    )
    async def read_document(
        context: ToolContext, path: str = "", url: str = "", start: int = 0, goal: str = ""
    ) -> ToolResult:
        """Read the text of a document: PDF, docx, xlsx, csv, html, text. Give `path` (a file of the workspace) or `url`.

        Args:
            path: Relative to the workspace.
            url: An http or https address instead of a path.
            start: First character to show.
            goal: What to look for; the answer is given instead of the text.
            context: Filled by handloom.
        """
        if bool(path) == bool(url):
            raise ToolError("give either path or url")
        spotlight = await context.resource(Spotlight, Spotlight.start)
        text = await (_from_web(url, guard, spotlight) if url else _from_file(context, path))
        if goal:
            if extract is None:
                raise ToolError("there is no model to look for a goal; leave it out and read the text")
            text, start = await extract(text[start:], goal), 0
        if not text.strip():
            return ToolResult(text="the document has no text (scanned pages are images)", silent=True, untrusted=True)
        return ToolResult(text=spotlight.around(piece(text, start), url or path), untrusted=True)

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


async def _from_web(url: str, guard: Guard, spotlight: Spotlight) -> str:
    answer = await get(url, guard)
    if answer.status >= 400:
        raise_for(answer, "", spotlight)
    if answer.cut:
        raise ToolError(f"{answer.url} is larger than {guard.most_bytes:,} bytes (net.most_mb)")
    return await document.text_of(answer.body, type=answer.type, charset=charset_of(answer), url=answer.url)
