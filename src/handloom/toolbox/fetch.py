"""fetch: a page or document of the web as text, read piece by piece or for a goal."""

import re

from handloom.errors import ToolError
from handloom.messages import ToolResult, Usage
from handloom.net import Guard, Response, get
from handloom.net.web import retry_after
from handloom.toolbox import document
from handloom.toolbox.extract import Extract
from handloom.toolbox.paging import piece
from handloom.toolbox.spotlight import Spotlight
from handloom.tools import Tool, ToolContext, tool

MEANING = {
    401: "it wants a login",
    403: "access is refused",
    404: "there is no such page",
    410: "the page is gone",
    429: "too many requests; try later or elsewhere",
    451: "it is withheld for legal reasons",
    500: "the server broke",
    502: "the server's own service failed",
    503: "the server is busy",
}
FAULT_CHARS = 1_000  # of a failing page's own words


def fetch_tool(guard: Guard | None = None, extract: Extract | None = None) -> Tool:
    """The tool under this guard; without `extract` a goal is refused."""
    guard = guard or Guard()

    @tool(name="fetch", effects={"network_send"}, repeatable=True, parallel=True, untrusted=True, destinations=("url",))
    async def fetch(url: str, context: ToolContext, start: int = 0, goal: str = "") -> ToolResult:
        """Read a web page or document (PDF, Word, Excel) as Markdown from character `start`, or the answer to `goal` in it."""
        spotlight = await context.resource(Spotlight, Spotlight.start)
        answer = await get(url, guard)
        text = await _read(answer)
        head = [f"status {answer.status}"] if answer.status != 200 else []
        head += [*answer.notes, *([_cut(answer, guard)] if answer.cut else [])]
        if answer.status >= 400:
            raise_for(answer, text, spotlight)
        if not text.strip():
            head.append("the page is empty, or made by scripts: a browser may show more")
        usage = Usage()
        if goal:
            if extract is None:
                raise ToolError("there is no model to look for a goal; leave it out and read the page")
            (text, usage), start = await extract(text, goal, start), 0
        body = spotlight.around(piece(text, start), answer.url)
        return ToolResult(text="\n".join([*(f"({line})" for line in head), body]), untrusted=True, usage=usage)

    return fetch


def raise_for(answer: Response, text: str, spotlight: Spotlight) -> None:
    """Raises: ToolError with the status, what it means, and what the server says."""
    wait = retry_after(answer.headers)
    said = spotlight.around(text[:FAULT_CHARS], answer.url) if text.strip() else ""
    meaning = MEANING.get(answer.status, "the server refused")
    later = f"; it asks to wait {wait:.0f} seconds" if wait is not None else ""
    raise ToolError(f"{answer.url} answered {answer.status}: {meaning}{later}\n{said}".strip())


def charset_of(answer: Response) -> str:
    """The charset that the header names."""
    found = re.search(r"charset=[\"']?([\w.:-]+)", answer.headers.get("content-type", ""), re.IGNORECASE)
    return found[1] if found else ""


def _cut(answer: Response, guard: Guard) -> str:
    full = len(answer.body) >= guard.most_bytes
    return "the page was cut at the limit of bytes" if full else "the page broke off before its end"


async def _read(answer: Response) -> str:
    try:
        return await document.text_of(answer.body, type=answer.type, charset=charset_of(answer), url=answer.url)
    except ToolError as error:
        if answer.status >= 400:
            return ""
        raise ToolError(f"{answer.url}: {error}") from None
