"""Search engines: small objects behind one interface, each a way to put a query to one service and to read its answer."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, cast
from urllib.parse import urlencode, urlsplit

import msgspec

from handloom import hosts
from handloom.errors import ToolError
from handloom.messages import Json, is_list, is_object
from handloom.net import Guard, request
from handloom.redaction import Secret

DDGS_SECONDS = 20


@dataclass(frozen=True)
class Query:
    """What is asked for. `lang` and `country` are ISO codes, empty for any."""

    words: str
    count: int = 5
    lang: str = ""
    country: str = ""


@dataclass(frozen=True)
class Hit:
    """One result."""

    title: str
    url: str
    text: str = ""


class Engine(Protocol):
    """One service."""

    @property
    def name(self) -> str: ...

    async def search(self, query: Query) -> list[Hit]:
        """What it found, best first. Raises: ToolError that says why there is nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class JsonEngine:
    """A service that answers with JSON: how to ask it, where its hits stand, and what their fields are called."""

    name: str
    ask: Callable[[Query], tuple[str, str, Mapping[str, str], bytes]]
    hits: tuple[str, ...]
    fields: tuple[str, str, str]
    guard: Guard = field(default_factory=Guard)

    async def search(self, query: Query) -> list[Hit]:
        method, url, headers, content = self.ask(query)
        answer = await request(
            method, url, self.guard, headers={"Accept": "application/json", **headers}, content=content
        )
        if answer.status != 200:
            raise ToolError(f"status {answer.status}{_meaning(answer.status)}")
        try:
            found: Any = msgspec.json.decode(answer.body)
        except msgspec.MsgspecError:
            raise ToolError("its answer is no JSON") from None
        for key in self.hits:
            found = found.get(key) if is_object(found) else None
        if not is_list(found):
            raise ToolError("its answer has another form than expected")
        return [hit for item in found if is_object(item) and (hit := self._hit(item))][: query.count]

    def _hit(self, item: Json) -> Hit | None:
        title, url, text = (str(item.get(name) or "") for name in self.fields)
        return Hit(title, url, text) if url.startswith(("http://", "https://")) else None


def searxng(base: str, guard: Guard) -> Engine:
    """A SearXNG at this address that gives JSON (`search.formats` in its settings)."""
    parts = urlsplit(base)
    port = parts.port or (443 if parts.scheme == "https" else 80)

    def ask(query: Query) -> tuple[str, str, Mapping[str, str], bytes]:
        wanted = {"q": query.words, "format": "json", "language": _locale(query) or "all"}
        return "GET", f"{base.rstrip('/')}/search?{urlencode(wanted)}", {}, b""

    own = guard.trusting(f"{parts.hostname}:{port}")
    return JsonEngine(name="searxng", ask=ask, hits=("results",), fields=("title", "url", "content"), guard=own)


def brave(key: Secret, guard: Guard) -> Engine:
    """Brave's service."""

    def ask(query: Query) -> tuple[str, str, Mapping[str, str], bytes]:
        wanted = {"q": query.words, "count": query.count, **_given(search_lang=query.lang, country=query.country)}
        url = f"https://api.search.brave.com/res/v1/web/search?{urlencode(wanted)}"
        return "GET", url, {"X-Subscription-Token": key.reveal()}, b""

    return JsonEngine(
        name="brave", ask=ask, hits=("web", "results"), fields=("title", "url", "description"), guard=guard
    )


def tavily(key: Secret, guard: Guard) -> Engine:
    """Tavily's service."""

    def ask(query: Query) -> tuple[str, str, Mapping[str, str], bytes]:
        content = msgspec.json.encode({"query": query.words, "max_results": query.count})
        headers = {"Authorization": f"Bearer {key.reveal()}", "Content-Type": "application/json"}
        return "POST", "https://api.tavily.com/search", headers, content

    return JsonEngine(name="tavily", ask=ask, hits=("results",), fields=("title", "url", "content"), guard=guard)


def serper(key: Secret, guard: Guard) -> Engine:
    """Serper's service, which asks Google."""

    def ask(query: Query) -> tuple[str, str, Mapping[str, str], bytes]:
        wanted = {"q": query.words, "num": query.count, **_given(hl=query.lang, gl=query.country)}
        headers = {"X-API-KEY": key.reveal(), "Content-Type": "application/json"}
        return "POST", "https://google.serper.dev/search", headers, msgspec.json.encode(wanted)

    return JsonEngine(name="serper", ask=ask, hits=("organic",), fields=("title", "link", "snippet"), guard=guard)


@dataclass(frozen=True)
class Ddgs:
    """One backend of the package `ddgs`, which reads the pages of public engines and needs no key. It asks them itself, where the guard lets it."""

    backend: str
    guard: Guard = field(default_factory=Guard)

    @property
    def name(self) -> str:
        return f"ddgs:{self.backend}"

    async def search(self, query: Query) -> list[Hit]:
        try:
            return await asyncio.to_thread(self._search, query)
        except ImportError:
            raise ToolError("the package ddgs is missing; pip install 'handloom[search]'") from None

    def _search(self, query: Query) -> list[Hit]:
        from ddgs import DDGS  # pyright: ignore[reportUnknownVariableType]  # its methods have plain lists and dicts
        from ddgs.engines import ENGINES
        from ddgs.exceptions import DDGSException

        known = cast("dict[str, dict[str, object]]", ENGINES)["text"]
        if self.backend not in known:  # the package would silently ask others
            raise ToolError(f"ddgs has no backend {self.backend!r}; it has {', '.join(sorted(known))}")
        self.guard.check_name(hosts.of_url(str(getattr(known[self.backend], "search_url", ""))), 443)
        region = f"{query.country.lower()}-{query.lang.lower()}" if query.country and query.lang else "wt-wt"
        try:
            ask = cast("Any", DDGS)
            found: list[dict[str, Any]] = ask(timeout=DDGS_SECONDS).text(
                query.words, region=region, max_results=query.count, backend=self.backend
            )
        except DDGSException as error:
            raise ToolError(str(error)[:200] or "no results") from None
        return [Hit(str(item.get("title", "")), str(item.get("href", "")), str(item.get("body", ""))) for item in found]


def _meaning(status: int) -> str:
    return {401: " (the key is refused)", 403: " (refused)", 429: " (too many requests)"}.get(status, "")


def _locale(query: Query) -> str:
    return f"{query.lang.lower()}-{query.country.upper()}" if query.lang and query.country else query.lang.lower()


def _given(**values: str) -> dict[str, str]:
    return {name: value for name, value in values.items() if value}
