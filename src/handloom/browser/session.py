"""BrowserSession: the browser of a run, started at its first use, brought back once when it dies, and closed with the run."""

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import unquote, urlsplit

from handloom.browser import snapshot
from handloom.browser.downloads import Downloads
from handloom.browser.running import Running, brief
from handloom.browser.settings import BrowserSettings, missing
from handloom.browser.snapshot import Found, Numbers, PageState, Tab
from handloom.browser.watching import MOST_TABS, Watch
from handloom.errors import ToolError
from handloom.net import Guard

if TYPE_CHECKING:
    from playwright.async_api import Page, Route

T = TypeVar("T")

CLOSING = 5.0  # seconds for a tab that is given up
SETTLED = 0.03  # seconds in which a click has begun to load what it leads to
LATEST = 1.0  # seconds that are waited for that


class BrowserSession:
    """Tabs of one browser. `page` is the current one; `act` does something to it under a time limit and tells what came of it."""

    def __init__(self, workspace: Path, settings: BrowserSettings, guard: Guard) -> None:
        self.workspace = workspace
        self.settings = settings
        self.guard = guard
        self._arriving = tempfile.TemporaryDirectory(prefix="handloom-browser-", ignore_cleanup_errors=True)
        self.watch = Watch(workspace, Downloads(workspace, Path(self._arriving.name)))
        self.numbers = Numbers()
        self._views: dict[bytes, int] = {}
        self._current: Page | None = None
        self._running: Running | None = None
        self._last_url = ""
        self._files_checked = False
        self._lock = asyncio.Lock()

    @classmethod
    async def open(cls, workspace: Path, settings: BrowserSettings | None = None, guard: Guard | None = None) -> Self:
        """A browser that is running. Raises: ToolError with what to install."""
        settings = settings or BrowserSettings()
        if lacking := missing(settings):
            raise ToolError(lacking)
        session = cls(workspace, settings, guard or Guard())
        try:
            await session._launch()
        except BaseException:
            await session.aclose()
            raise
        return session

    @property
    def page(self) -> "Page":
        """The current tab. Raises: ToolError when there is none."""
        if self._current is None or self._current.is_closed():
            raise ToolError("no tab is open; open one with open_tab")
        return self._current

    @property
    def pages(self) -> "list[Page]":
        return self._running.context.pages if self._running else []

    @property
    def address(self) -> str:
        """The URL of the current tab; empty where there is none."""
        return self._current.url if self._current and not self._current.is_closed() else ""

    # Acting

    async def act(self, work: Callable[[], Awaitable[T]], *, looks: bool = False) -> T:
        """Do something, or just look; a browser that died is brought back, a tab that hangs is given up. Raises: ToolError."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as SlowError

        async with self._lock:
            await self._alive()
            if self._current and id(self._current) in self.watch.crashed:
                await self._give_up()
            try:
                async with asyncio.timeout(self.settings.timeout + 2):
                    done = await work()
                    if not looks:
                        await self._settled()
                    return done
            except SlowError as error:
                raise ToolError(f"the page did not do it within {self.settings.timeout:g} s: {brief(error)}") from None
            except TimeoutError:
                url = await self._give_up()
                raise ToolError(f"the page at {url[:200]} hangs, and its tab was closed; go elsewhere") from None
            except Error as error:
                if "Page crashed" in str(error):
                    raise ToolError(f"the tab crashed at {await self._give_up()} and an empty one is open") from None
                if self._running is None or not self._running.is_dead:
                    raise ToolError(brief(error)) from None
                await self._alive()
                raise ToolError(
                    "the browser had died and was started again; look at the page before you go on"
                ) from None

    async def state(self) -> PageState:
        """How the browser looks now."""
        return await self.act(self._state, looks=True)

    async def text(self) -> tuple[str, ...]:
        """All lines of the page, also those out of view."""

        async def work() -> tuple[str, ...]:
            return tuple((await snapshot.lines_of(self.page, self.numbers, full=True)).lines)

        return await self.act(work, looks=True)

    async def view(self) -> int:
        """The number of how the page looks now: the same one whenever it looks so, so that who repeats a click can tell whether it did anything."""

        async def work() -> int:
            lines = (await self._walked()).lines
            digest = hashlib.sha256("\n".join([self.address, *lines]).encode()).digest()
            return self._views.setdefault(digest, len(self._views) + 1)

        return await self.act(work, looks=True)

    async def _walked(self) -> Found:
        from playwright.async_api import Error

        try:
            return await snapshot.lines_of(self.page, self.numbers)
        except Error as error:
            # The page went elsewhere while it was read.
            if not snapshot.is_navigating(error):
                raise
            await self.page.wait_for_load_state("domcontentloaded")
            return await snapshot.lines_of(self.page, self.numbers)

    async def _state(self) -> PageState:
        await self._adopted()
        walked = await self._walked()
        notes = [*self.watch.taken(), *self._refusals()]
        return PageState(
            url=self.page.url,
            title=walked.title,
            tabs=await self._tabs(),
            above=walked.above,
            below=walked.below,
            lines=tuple(walked.lines),
            notes=tuple(notes),
        )

    async def _tabs(self) -> tuple[Tab, ...]:
        if len(self.pages) == 1:
            return (Tab(0, "", self.pages[0].url, current=True),)
        return tuple([await self._tab(place, page) for place, page in enumerate(self.pages)])

    async def _tab(self, place: int, page: "Page") -> Tab:
        title = ""
        with contextlib.suppress(Exception):
            async with asyncio.timeout(1):
                title = (await page.title())[:80]
        return Tab(place, title, page.url[:120], current=page is self._current)

    def _refusals(self) -> list[str]:
        """What the guard refused to pages; what the browser itself wanted is nobody's business here."""
        if self._running is None:
            return []
        told = self._running.proxy.refused
        refused = [why for host, why in dict.fromkeys(told) if host in self.watch.hosts]
        told.clear()
        return [f"refused: {each}" for each in refused[:3]]

    # Where it may go

    async def checked(self, url: str) -> str:
        """The address to open. Raises: ToolError for what may not be opened."""
        url = url.strip()
        if url == "about:blank":
            return url
        if url.lower().startswith("file:"):
            if not self._may_open(url):
                raise ToolError(f"{url}: only files of the workspace can be opened")
            await self._check_files()
            return url
        if ("://" not in url and not url.partition(":")[0].isalpha()) or (
            "://" not in url and "." in url.partition(":")[0]
        ):
            url = f"https://{url}"
        place = self.guard.place(url)
        await self.guard.addresses(place.host, place.port)
        fragment = urlsplit(url).fragment
        return f"{place.url}#{fragment}" if fragment else place.url

    def _may_open(self, url: str) -> bool:
        path = Path(unquote(urlsplit(url).path)).resolve()
        return not urlsplit(url).netloc and path.is_relative_to(self.workspace)

    async def _check_files(self) -> None:
        """From now on look at each file that a page wants; before the first one there is none to look at."""
        if self._files_checked or self._running is None:
            return
        self._files_checked = True

        async def look(route: "Route") -> None:
            if self._may_open(route.request.url):
                await route.continue_()
            else:
                self.watch.notes.append(f"refused: {route.request.url[:200]} is not in the workspace")
                await route.abort("accessdenied")

        await self._running.context.route(lambda url: url.startswith("file:"), look)

    async def _settled(self) -> None:
        """Wait until what was begun has got somewhere, and see where that is."""
        with contextlib.suppress(Exception):  # the page goes elsewhere, which is as well
            async with asyncio.timeout(LATEST):
                # Counted by the page itself: a machine that is slow needs longer to begin.
                await self.page.evaluate(f"() => new Promise(done => setTimeout(done, {1_000 * SETTLED:.0f}))")
        await self._adopted()
        page = self._current
        if page is None or page.is_closed():
            return
        if id(page) in self.watch.loading:
            await self._loaded(page)
        await self.watch.settle()
        if page.url.startswith("file:") and not self._may_open(page.url):
            await page.goto("about:blank")
            raise ToolError("the page led to a file outside the workspace; it was closed")
        if page.url.startswith(("http:", "https:", "file:")):
            self._last_url = page.url

    async def _loaded(self, page: "Page") -> None:
        """Wait for the page that was asked for: till then the old one stands there as if it were the answer."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.timeout / 2):
                while id(page) in self.watch.loading:  # noqa: ASYNC110 - Playwright tells by callbacks
                    await asyncio.sleep(SETTLED / 3)
        if id(page) in self.watch.loading:
            self.watch.loading.discard(id(page))
            self.watch.notes.append("the next page has not come yet: wait, or go elsewhere")
            return
        with contextlib.suppress(Exception):
            await page.wait_for_load_state("domcontentloaded", timeout=1_000 * self.settings.timeout / 2)
            await page.wait_for_load_state("load", timeout=1_500)

    async def _adopted(self) -> None:
        """Tabs that pages opened: the newest becomes the current one, too many are closed; a crashed one is replaced."""
        for page in self.watch.opened:
            if page.is_closed() or page is self._current:
                continue
            if len(self.pages) > MOST_TABS:
                await page.close()
                self.watch.notes.append(f"a further tab was closed: there are {MOST_TABS} already")
            else:
                self._current = page
                self.watch.notes.append("a new tab opened and is the current one")
        self.watch.opened.clear()
        if self._current and id(self._current) in self.watch.crashed:
            await self._give_up()
        if (self._current is None or self._current.is_closed()) and self._running:
            self._current = self.pages[-1] if self.pages else await self._new_page()

    async def new_tab(self) -> "Page":
        """A new empty tab, which becomes the current one. Raises: ToolError when there are many."""
        if len(self.pages) >= MOST_TABS:
            raise ToolError(f"{MOST_TABS} tabs are open; close one first")
        return await self._new_page()

    async def _new_page(self) -> "Page":
        assert self._running is not None  # noqa: S101 - it is launched before anything acts
        page = self._current = await self._running.context.new_page()
        self.watch.opened = [each for each in self.watch.opened if each is not page]
        return page

    async def opened(self, seconds: float = 2.0) -> None:
        """Wait until a page has opened the tab that it was asked for."""
        ends = asyncio.get_running_loop().time() + seconds
        while not self.watch.opened and asyncio.get_running_loop().time() < ends:  # noqa: ASYNC110 - Playwright tells by a callback
            await asyncio.sleep(0.01)

    def show(self, page: "Page") -> None:
        """Make a tab the current one."""
        self._current = page

    async def _give_up(self) -> str:
        """Close the current tab whatever it does, and open an empty one."""
        page, url = self._current, self._current.url if self._current else ""
        if page:
            with contextlib.suppress(Exception):
                async with asyncio.timeout(CLOSING):
                    await page.close(run_before_unload=False)
            self.watch.crashed.discard(id(page))
            self.watch.loading.discard(id(page))
        with contextlib.suppress(Exception):
            async with asyncio.timeout(CLOSING):
                await self._new_page()
        return url

    # Its life

    async def _alive(self) -> None:
        """Bring back a browser that died, with the page that it showed. Raises: ToolError when it cannot be started."""
        if self._running is None or not self._running.is_dead:
            return
        url = self._last_url
        await self._running.aclose()
        await self._launch()
        self.watch.notes.append(f"the browser had died and was started again{f' at {url}' if url else ''}")
        if url:
            with contextlib.suppress(Exception):
                await self.page.goto(await self.checked(url), wait_until="domcontentloaded", timeout=10_000)

    async def _launch(self) -> None:
        self.watch = Watch(self.workspace, self.watch.downloads, notes=self.watch.notes, files=self.watch.files)
        self._files_checked = False
        self._running = await Running.start(self.settings, self.guard, self.watch)
        self._current = self.pages[0] if self.pages else await self._new_page()
        await self.page.goto("about:blank")

    async def aclose(self) -> None:
        for task in list(self.watch.tasks):
            task.cancel()
        if self._running is not None:
            await self._running.aclose()
        self._running = self._current = None
        await asyncio.to_thread(self._arriving.cleanup)


@contextlib.asynccontextmanager
async def browsing(
    workspace: Path, settings: BrowserSettings | None = None, guard: Guard | None = None
) -> AsyncGenerator[BrowserSession]:
    """A session that is closed at the end."""
    session = await BrowserSession.open(workspace, settings, guard)
    try:
        yield session
    finally:
        await session.aclose()
