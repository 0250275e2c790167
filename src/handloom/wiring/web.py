"""From settings to the tools that read the web: their guard, their search engines, their browser."""

import importlib.util
import os
from functools import lru_cache
from pathlib import Path

from handloom.browser import BrowserSettings
from handloom.config import Settings
from handloom.config.sections import BrowserTable, NetSettings, SearchSettings
from handloom.errors import ConfigError
from handloom.net import Guard
from handloom.redaction import Secret
from handloom.toolbox.browse import browser_tool
from handloom.toolbox.documents import document_tool
from handloom.toolbox.engines import Ddgs, Engine, brave, searxng, serper, tavily
from handloom.toolbox.extract import Opened, extractor
from handloom.toolbox.fetch import fetch_tool
from handloom.toolbox.web_search import Search, search_tool
from handloom.tools import Tool

KEYED = {"brave": brave, "tavily": tavily, "serper": serper}
FREE = ("duckduckgo", "mojeek", "brave", "startpage")  # backends of ddgs, in the order in which they are asked


def web_tools(settings: Settings, opened: Opened | None) -> tuple[Tool, ...]:
    """browser_use, web_search, fetch and read_document; a model answers goals. Raises: ConfigError for an engine that is not known or lacks its key."""
    guard = guard_for(settings.net)
    extract = extractor(opened) if opened else None
    return (
        browser_tool(guard, browser_for(settings.browser), extract),
        search_tool(_search(settings.search.model_dump_json(), settings.net.model_dump_json()), guard),
        fetch_tool(guard, extract),
        document_tool(extract),
    )


def guard_for(net: NetSettings) -> Guard:
    return Guard(
        allow=net.allow,
        deny=net.deny,
        private=net.private,
        most_bytes=int(net.most_mb * 1_000_000),
        seconds=net.timeout,
        redirects=net.redirects,
    )


def browser_for(table: BrowserTable) -> BrowserSettings:
    values = table.model_dump(exclude={"profile"})
    return BrowserSettings(**values, profile=Path(table.profile).expanduser() if table.profile else None)


@lru_cache(maxsize=8)
def _search(search: str, net: str) -> Search:
    """One for a process and its settings, so that an engine which rests does so for all its runs."""
    settings, guard = SearchSettings.model_validate_json(search), guard_for(NetSettings.model_validate_json(net))
    return Search([engine_for(name, settings, guard) for name in settings.engines or _there(settings)])


def engine_for(name: str, settings: SearchSettings, guard: Guard) -> Engine:
    """Raises: ConfigError for a name that is none, or whose address or key is not set."""
    if name == "searxng":
        if not settings.searxng_url.startswith(("http://", "https://")):
            raise ConfigError("search.engines names searxng: set search.searxng_url to its address")
        return searxng(settings.searxng_url, guard)
    if name.startswith("ddgs:"):
        return Ddgs(name.removeprefix("ddgs:"), guard)
    if name not in KEYED:
        raise ConfigError(f"search.engines names {name!r}; there are: searxng, {', '.join(KEYED)}, ddgs:BACKEND")
    variable = _variable(name, settings)
    if not (key := os.environ.get(variable, "")):
        raise ConfigError(f"search.engines names {name}: set its key in {variable}")
    return KEYED[name](Secret(key), guard)


def _there(settings: SearchSettings) -> list[str]:
    """The engines that can be asked here without further settings."""
    keyed = [name for name in KEYED if os.environ.get(_variable(name, settings))]
    free = [f"ddgs:{name}" for name in FREE] if importlib.util.find_spec("ddgs") else []
    return [*(["searxng"] if settings.searxng_url else []), *keyed, *free]


def _variable(name: str, settings: SearchSettings) -> str:
    return {"brave": settings.brave_key_env, "tavily": settings.tavily_key_env, "serper": settings.serper_key_env}[name]
