"""BrowserSession: the browser of a run, started at its first use, brought back once when it dies, and closed with the run."""

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar
from urllib.parse import unquote, urlsplit

from handloom.browser import snapshot
from handloom.browser.settings import BrowserSettings, missing, program
from handloom.browser.snapshot import PageState, Tab
from handloom.browser.watching import MOST_TABS, Watch
from handloom.errors import ToolError
from handloom.net import Guard
from handloom.net.proxy import GuardedProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Page, Playwright, Route

log = logging.getLogger(__name__)
T = TypeVar("T")

CLOSING = 5.0  # seconds for each part that is closed
SETTLED = 0.03  # seconds in which a click has begun to load what it leads to
OPTIONS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    # Nothing goes past the proxy: not this machine's own addresses, and no call between browsers.
    "--proxy-bypass-list=<-loopback>",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
)


class BrowserSession:
    """Tabs of one browser. `page` is the current one; `act` does something to it under a time limit and tells what came of it."""

    def __init__(self, workspace: Path, settings: BrowserSettings, guard: Guard) -> None:
        self.workspace = workspace
        self.settings = settings
        self.guard = guard
        self.watch = Watch(workspace)
        self.next = 1
        self._current: Page | None = None
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._context: BrowserContext | None = None
        self._proxy: GuardedProxy | None = None
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
        return self._context.pages if self._context else []

    @property
    def address(self) -> str:
        """The URL of the current tab; empty where there is none."""
        return self._current.url if self._current and not self._current.is_closed() else ""

    # Acting

    async def act(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do something; a browser that died is brought back, a tab that hangs is given up. Raises: ToolError."""
        from playwright.async_api import Error, TimeoutError as SlowError

        async with self._lock:
            await self._alive()
            if self._current and id(self._current) in self.watch.crashed:
                await self._give_up()
            try:
                async with asyncio.timeout(self.settings.timeout + 2):
                    done = await work()
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
                if not self._dead():
                    raise ToolError(brief(error)) from None
                await self._alive()
                raise ToolError(
                    "the browser had died and was started again; look at the page before you go on"
                ) from None

    async def state(self) -> PageState:
        """How the browser looks now."""
        return await self.act(self._state)

    async def text(self) -> tuple[str, ...]:
        """All lines of the page, also those out of view."""

        async def work() -> tuple[str, ...]:
            walked = await snapshot.lines_of(self.page, self.next, full=True)
            self.next = walked.next
            return tuple(walked.lines)

        return await self.act(work)

    async def _state(self) -> PageState:
        from playwright.async_api import Error

        await self._adopted()
        for attempt in (1, 2, 3):
            try:
                walked = await snapshot.lines_of(self.page, self.next)
                break
            except Error as error:
                # The page went elsewhere while it was read.
                if attempt == 3 or "context was destroyed" not in str(error) and "navigating" not in str(error):
                    raise
                await self.page.wait_for_load_state("domcontentloaded")
        self.next = walked.next
        notes = [*self.watch.taken(), *self._refusals()]
        return PageState(
            url=self.page.url,
            title=walked.title,
            tabs=await self._tabs(),
            above=walked.above,
            below=walked.below,
            lines=tuple(walked.lines),
            notes=tuple(notes),
            next=walked.next,
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
        if self._proxy is None:
            return []
        refused = [why for host, why in dict.fromkeys(self._proxy.refused) if host in self.watch.hosts]
        self._proxy.refused.clear()
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
        if "://" not in url and not url.partition(":")[0].isalpha():
            url = f"https://{url}"
        elif "://" not in url and "." in url.partition(":")[0]:
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
        if self._files_checked or self._context is None:
            return
        self._files_checked = True

        async def look(route: "Route") -> None:
            if self._may_open(route.request.url):
                await route.continue_()
            else:
                self.watch.notes.append(f"refused: {route.request.url[:200]} is not in the workspace")
                await route.abort("accessdenied")

        await self._context.route(lambda url: url.startswith("file:"), look)

    async def _settled(self) -> None:
        """Wait until what was begun has got somewhere, and see where that is."""
        await asyncio.sleep(SETTLED)
        await self._adopted()
        page = self._current
        if page is None or page.is_closed():
            return
        if id(page) in self.watch.loading:
            with contextlib.suppress(Exception):
                await page.wait_for_load_state("domcontentloaded", timeout=1_000 * self.settings.timeout / 2)
            with contextlib.suppress(Exception):
                await page.wait_for_load_state("load", timeout=1_500)
            self.watch.loading.discard(id(page))
        await self.watch.settle()
        if page.url.startswith("file:") and not self._may_open(page.url):
            await page.goto("about:blank")
            raise ToolError("the page led to a file outside the workspace; it was closed")
        if page.url.startswith(("http:", "https:", "file:")):
            self._last_url = page.url

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
        if (self._current is None or self._current.is_closed()) and self._context:
            self._current = self.pages[-1] if self.pages else await self._new_page()

    async def new_tab(self) -> "Page":
        """A new empty tab, which becomes the current one. Raises: ToolError when there are many."""
        if len(self.pages) >= MOST_TABS:
            raise ToolError(f"{MOST_TABS} tabs are open; close one first")
        return await self._new_page()

    async def _new_page(self) -> "Page":
        assert self._context is not None  # noqa: S101 - it is launched before anything acts
        page = self._current = await self._context.new_page()
        self.watch.opened = [each for each in self.watch.opened if each is not page]
        return page

    async def opened(self, seconds: float = 2.0) -> None:
        """Wait until a page has opened the tab that it was asked for."""
        ends = asyncio.get_running_loop().time() + seconds
        while not self.watch.opened and asyncio.get_running_loop().time() < ends:
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

    def _dead(self) -> bool:
        return self._browser is not None and not self._browser.is_connected()

    async def _alive(self) -> None:
        """Bring back a browser that died, with the page that it showed. Raises: ToolError when it cannot be started."""
        if not self._dead():
            return
        url = self._last_url
        await self._shut()
        await self._launch()
        self.watch.notes.append(f"the browser had died and was started again{f' at {url}' if url else ''}")
        if url:
            with contextlib.suppress(Exception):
                await self.page.goto(await self.checked(url), wait_until="domcontentloaded", timeout=10_000)

    async def _launch(self) -> None:
        from playwright.async_api import Error, async_playwright

        self.watch = Watch(self.workspace, notes=self.watch.notes, files=self.watch.files)
        self._files_checked = False
        self._proxy = await GuardedProxy.open(self.guard)
        self._playwright = await async_playwright().start()
        root = hasattr(os, "geteuid") and os.geteuid() == 0
        options = {
            "executable_path": program(self.settings),
            "headless": self.settings.headless,
            "args": [*OPTIONS, *(["--no-sandbox"] if root else [])],
            "proxy": {"server": f"http://127.0.0.1:{self._proxy.port}"},
            "handle_sigint": False,
            "handle_sigterm": False,
            "timeout": 30_000,
        }
        if root:
            self.watch.notes.append("the browser runs as root, so without its own sandbox")
        page_options = {
            "viewport": {"width": self.settings.width, "height": self.settings.height},
            "accept_downloads": True,
            "service_workers": "block",
        }
        chromium = self._playwright.chromium
        try:
            if self.settings.profile:
                await self._with_profile(options, page_options)
            if self._context is None:
                self._browser = await chromium.launch(**options)  # pyright: ignore[reportArgumentType]  # options of both ways to start
                self._context = await self._browser.new_context(**page_options)  # pyright: ignore[reportArgumentType]  # the same
        except Error as error:
            raise ToolError(f"the browser {options['executable_path']} does not start: {brief(error)}") from None
        self._context.set_default_timeout(1_000 * self.settings.timeout)
        if self.settings.listeners:
            await self._context.add_init_script(snapshot.source("listeners.js"))
        self._context.on("page", self.watch.on_page)
        for page in self._context.pages:
            self.watch.on_page(page)
        self.watch.opened.clear()
        self._current = self._context.pages[0] if self._context.pages else await self._new_page()
        await self.page.goto("about:blank")

    async def _with_profile(self, options: dict[str, object], page_options: dict[str, object]) -> None:
        """Start with the kept profile; one that another browser has open is left alone, and said."""
        from playwright.async_api import Error

        assert self._playwright is not None and self.settings.profile is not None  # noqa: S101,PT018 - seen by the caller
        folder = self.settings.profile.expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._context = await self._playwright.chromium.launch_persistent_context(folder, **options, **page_options)  # pyright: ignore[reportArgumentType]  # the same
            self._browser = self._context.browser
        except Error as error:
            self.watch.notes.append(f"the profile {folder} cannot be used now, so a temporary one is: {brief(error)}")

    async def _shut(self) -> None:
        """Close every part, each within its time, whatever state it is in."""
        for part in (self._context, self._browser):
            if part is not None:
                await _closed(part.close)
        if self._playwright is not None:
            await _closed(self._playwright.stop)
        if self._proxy is not None:
            await _closed(self._proxy.aclose)
        self._context = self._browser = self._playwright = self._proxy = self._current = None

    async def aclose(self) -> None:
        for task in list(self.watch.tasks):
            task.cancel()
        await self._shut()


async def _closed(close: Callable[[], Awaitable[object]]) -> None:
    try:
        async with asyncio.timeout(CLOSING):
            await close()
    except Exception as error:  # noqa: BLE001 - a browser that died cannot be closed, and its driver ends with it
        log.debug("closing the browser: %s", error)


def brief(error: Exception) -> str:
    """What Playwright says, without its log and its own name for the call."""
    said = str(error).partition("\nCall log")[0].partition("\n=====")[0].strip()
    said = said.partition(": ")[2] if said.split(" ")[0].rstrip(":").count(".") == 1 else said
    return " ".join(said.split())[:400] or type(error).__name__


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
