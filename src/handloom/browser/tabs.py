"""Tabs: what is open in a browser, and which of it is the current one."""

import asyncio
import contextlib
from typing import TYPE_CHECKING

from handloom.browser.snapshot import Tab
from handloom.browser.watching import Watch
from handloom.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

MOST_TABS = 12
CLOSING = 5.0  # seconds for a tab that is given up
SETTLED = 0.03  # seconds in which a click has begun to load what it leads to
LATEST = 1.0  # seconds that are waited for that


class Tabs:
    """The tabs of one browser; without a `context` there is none. Those that pages open are adopted, and those that crash or hang are given up."""

    def __init__(self, watch: Watch, context: "BrowserContext | None" = None) -> None:
        self._watch = watch
        self._context = context
        self._current: Page | None = None

    @property
    def page(self) -> "Page":
        """The current tab. Raises: ToolError when there is none."""
        if self._current is None or self._current.is_closed():
            raise ToolError("no tab is open; open one with open_tab")
        return self._current

    @property
    def pages(self) -> "list[Page]":
        return self._context.pages if self._context else []

    @property
    def address(self) -> str:
        """The URL of the current tab; empty where there is none."""
        return self._current.url if self._current and not self._current.is_closed() else ""

    async def listed(self) -> tuple[Tab, ...]:
        """All tabs as a model sees them; one alone needs no title."""
        if len(self.pages) == 1:
            return (Tab(0, "", self.pages[0].url, current=True),)
        return tuple([await self._told(place, page) for place, page in enumerate(self.pages)])

    async def _told(self, place: int, page: "Page") -> Tab:
        title = ""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1):
                title = (await page.title())[:80]
        return Tab(place, title, page.url[:120], current=page is self._current)

    # Which is the current one

    async def begin(self) -> None:
        """Show an empty tab: the one that the browser has opened itself, or a new one."""
        self._current = self.pages[0] if self.pages else await self._opened()
        await self._current.goto("about:blank")

    async def open(self) -> "Page":
        """A new empty tab, which becomes the current one. Raises: ToolError when there are many."""
        if len(self.pages) >= MOST_TABS:
            raise ToolError(f"{MOST_TABS} tabs are open; close one first")
        return await self._opened()

    async def _opened(self) -> "Page":
        assert self._context is not None  # noqa: S101 - it is launched before anything acts
        page = self._current = await self._context.new_page()
        self._watch.opened = [each for each in self._watch.opened if each is not page]
        return page

    def show(self, page: "Page") -> None:
        """Make this tab the current one."""
        self._current = page

    async def adopt(self) -> None:
        """Of the tabs that pages opened the newest becomes the current one, and too many are closed; a current one that has gone is replaced."""
        for page in self._watch.opened:
            if page.is_closed() or page is self._current:
                continue
            if len(self.pages) > MOST_TABS:
                await page.close()
                self._watch.notes.append(f"a further tab was closed: there are {MOST_TABS} already")
            else:
                self._current = page
                self._watch.notes.append("a new tab opened and is the current one")
        self._watch.opened.clear()
        await self.replace_crashed()
        if (self._current is None or self._current.is_closed()) and self._context:
            self._current = self.pages[-1] if self.pages else await self._opened()

    async def replace_crashed(self) -> None:
        """Give up the current tab if it has crashed."""
        if self._current and id(self._current) in self._watch.crashed:
            await self.give_up()

    async def give_up(self) -> str:
        """Close the current tab whatever it does, and open an empty one. Gives the URL that it showed."""
        page, url = self._current, self._current.url if self._current else ""
        if page:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING):
                    await page.close(run_before_unload=False)
            self._watch.crashed.discard(id(page))
            self._watch.loading.discard(id(page))
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSING):
                await self._opened()
        return url

    # Waiting

    async def wait_for_new(self, seconds: float = 2.0) -> None:
        """Wait until a page has opened the tab that it was asked for."""
        ends = asyncio.get_running_loop().time() + seconds
        while not self._watch.opened and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - Playwright tells by a callback
            await asyncio.sleep(0.01)

    async def settle(self, seconds: float) -> None:
        """Wait until what was begun in the current tab has got somewhere, which may be another tab. A page that was asked for has `seconds` to come."""
        with contextlib.suppress(Exception):  # the page goes elsewhere, which is as well
            async with asyncio.timeout(LATEST):
                # Counted by the page itself: a machine that is slow needs longer to begin.
                await self.page.evaluate(f"() => new Promise(done => setTimeout(done, {1_000 * SETTLED:.0f}))")
        await self.adopt()
        if self._current and not self._current.is_closed() and id(self._current) in self._watch.loading:
            await self._loaded(self._current, seconds)

    async def _loaded(self, page: "Page", seconds: float) -> None:
        """Wait for the page that was asked for: till then the old one stands there as if it were the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while id(page) in self._watch.loading:  # noqa: ASYNC110 - Playwright tells by callbacks
                    await asyncio.sleep(SETTLED / 3)
        if id(page) in self._watch.loading:
            self._watch.loading.discard(id(page))
            self._watch.notes.append("the next page has not come yet: wait, or go elsewhere")
            return
        with contextlib.suppress(Exception):
            await page.wait_for_load_state("domcontentloaded", timeout=1_000 * seconds)
            await page.wait_for_load_state("load", timeout=1_500)
