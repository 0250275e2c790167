"""web_search: asks one engine after another until one has results, and says which one it was."""

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Annotated

from pydantic import Field

from handloom.errors import ToolError
from handloom.messages import ToolResult
from handloom.net import Guard, get
from handloom.toolbox import document
from handloom.toolbox.engines import Engine, Hit, Query
from handloom.toolbox.fetch import charset_of
from handloom.toolbox.spotlight import Spotlight
from handloom.tools import Tool, ToolContext, tool

COOL_DOWN = 60.0  # seconds for which an engine that failed is left alone
SECONDS = 25.0  # for one engine
MOST = 20
SHOWN_HITS = 3  # of which the page is shown where it was asked for
TEXT_CHARS, PAGE_CHARS = 300, 1_500
NONE_SET = (
    "no search engine is set: set search.searxng_url, or a key such as BRAVE_API_KEY, or pip install 'handloom[search]'"
)
Code = Annotated[str, Field(pattern="^([A-Za-z]{2})?$")]


class Search:
    """The engines in order, and which of them are resting. Made once for a process, so that a rest holds for all its runs."""

    def __init__(self, engines: Sequence[Engine], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._engines = tuple(engines)
        self._clock = clock
        self._rests: dict[str, tuple[float, str]] = {}

    async def find(self, query: Query) -> tuple[str, list[Hit], list[str]]:
        """The engine that answered, its hits, and what the ones before it said. Raises: ToolError with each engine's reason."""
        if not self._engines:
            raise ToolError(NONE_SET)
        reasons: list[str] = []
        for engine in self._engines:
            until, why = self._rests.get(engine.name, (0.0, ""))
            if self._clock() < until:
                reasons.append(f"{engine.name}: rests {until - self._clock():.0f} s more after: {why}")
                continue
            try:
                async with asyncio.timeout(SECONDS):
                    hits = await engine.search(query)
            except (ToolError, TimeoutError) as error:
                why = str(error) or f"no answer within {SECONDS:g} s"
                self._rests[engine.name] = (self._clock() + COOL_DOWN, why)
                reasons.append(f"{engine.name}: {why}")
                continue
            if hits:
                return engine.name, hits, reasons
            reasons.append(f"{engine.name}: no results")
        raise ToolError(f"no engine found anything for {query.words!r}:\n" + "\n".join(f"- {each}" for each in reasons))


def search_tool(search: Search, guard: Guard | None = None) -> Tool:
    """The tool over these engines; the guard is for the pages that are read with them."""
    guard = guard or Guard()

    @tool(name="web_search", effects={"read"}, repeatable=True, parallel=True, untrusted=True)
    async def web_search(
        query: Annotated[str, Field(min_length=1, max_length=500)],
        context: ToolContext,
        num_results: Annotated[int, Field(ge=1, le=MOST)] = 5,
        lang: Code = "",
        country: Code = "",
        fetch_content: bool = False,  # noqa: FBT001,FBT002 - a parameter of the tool, which the model names
    ) -> ToolResult:
        """Search the web. `lang` is like zh, `country` like cn; `fetch_content` shows how the first pages begin."""
        spotlight = await context.resource(Spotlight, Spotlight.start)
        engine, hits, reasons = await search.find(Query(query, num_results, lang, country))
        pages: list[str] = []
        if fetch_content:
            pages = list(await asyncio.gather(*(_beginning(hit.url, guard) for hit in hits[:SHOWN_HITS])))
        lines = [
            _told(place, hit, pages[place - 1] if place <= len(pages) else "") for place, hit in enumerate(hits, 1)
        ]
        before = f" (before it: {'; '.join(reasons)})" if reasons else ""
        body = spotlight.around("\n".join(lines), f"results of {engine}")
        return ToolResult(text=f"{len(hits)} results by {engine}{before}\n{body}", untrusted=True)

    return web_search


def _told(place: int, hit: Hit, page: str) -> str:
    text = " ".join(hit.text.split())[:TEXT_CHARS]
    body = f"\n   page: {page}" if page else ""
    return f"{place}. {' '.join(hit.title.split())[:200]}\n   {hit.url}\n   {text}{body}"


async def _beginning(url: str, guard: Guard) -> str:
    try:
        answer = await get(url, guard)
        if answer.status != 200:
            return f"(status {answer.status})"
        text = await document.text_of(answer.body, type=answer.type, charset=charset_of(answer), url=answer.url)
    except ToolError as error:
        return f"(not read: {error})"
    return text[:PAGE_CHARS]
