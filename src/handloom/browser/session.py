"""BrowserSession: the browser of a run, started at its first use, brought back once when it dies, and closed with the run."""

import asyncio
import contextlib
import hashlib
import tempfile
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from handloom.browser import snapshot
from handloom.browser.access import Access
from handloom.browser.downloads import Downloads
from handloom.browser.running import Running, brief
from handloom.browser.settings import BrowserSettings, missing
from handloom.browser.snapshot import Found, Numbers, PageState
from handloom.browser.tabs import Tabs
from handloom.browser.watching import Watch
from handloom.errors import ToolError
from handloom.net import Guard

if TYPE_CHECKING:
    from playwright.async_api import Page

T = TypeVar("T")

REOPENING = 10.0  # seconds for the page that a browser showed when it died


class BrowserSession:
    """One browser at work: `act` does something to it under a time limit and tells what came of it; `state`, `text` and `view` look."""

    def __init__(self, workspace: Path, settings: BrowserSettings, guard: Guard) -> None:
        self.workspace = workspace
        self.settings = settings
        self._arriving = tempfile.TemporaryDirectory(prefix="handloom-browser-", ignore_cleanup_errors=True)
        self.watch = Watch(workspace, Downloads(workspace, Path(self._arriving.name)))
        self.access = Access(workspace, guard, self.watch.notes)
        self.tabs = Tabs(self.watch)
        self.numbers = Numbers()
        self._views: dict[bytes, int] = {}
        self._running: Running | None = None
        self._last_url = ""
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
        """What is acted on: the current tab. Raises: ToolError when there is none."""
        return self.tabs.page

    # Acting

    async def act(self, work: Callable[[], Awaitable[T]], *, looks: bool = False) -> T:
        """Do something, or just look; a browser that died is brought back, a tab that hangs is given up. Raises: ToolError."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as SlowError

        async with self._lock:
            await self._alive()
            await self.tabs.replace_crashed()
            try:
                async with asyncio.timeout(self.settings.timeout + 2):
                    done = await work()
                    if not looks:
                        await self._settled()
                    return done
            except SlowError as error:
                raise ToolError(f"the page did not do it within {self.settings.timeout:g} s: {brief(error)}") from None
            except TimeoutError:
                url = await self.tabs.give_up()
                raise ToolError(f"the page at {url[:200]} hangs, and its tab was closed; go elsewhere") from None
            except Error as error:
                raise await self._fault(error) from None

    async def _fault(self, error: Exception) -> ToolError:
        """What became of the browser, in words; one that died is brought back. Raises: ToolError when it cannot be started."""
        if "Page crashed" in str(error) or "Target crashed" in str(error):
            return ToolError(f"the tab crashed at {await self.tabs.give_up()} and an empty one is open")
        if self._running is None or not self._running.is_dead:
            return ToolError(brief(error))
        await self._alive()
        return ToolError("the browser had died and was started again; look at the page before you go on")

    async def _settled(self) -> None:
        """Wait until what was begun has got somewhere, and see where that is. Raises: ToolError when it may not be there."""
        await self.tabs.settle(self.settings.timeout / 2)
        await self.watch.settle()
        address = self.tabs.address
        if address.startswith("file:") and not self.access.may_open(address):
            await self.page.goto("about:blank")
            raise ToolError("the page led to a file outside the workspace; it was closed")
        if address.startswith(("http:", "https:", "file:")):
            self._last_url = address

    # Looking

    async def state(self) -> PageState:
        """How the browser looks now. Raises: ToolError, as the others that look do."""
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
            digest = hashlib.sha256("\n".join([self.tabs.address, *lines]).encode()).digest()
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
        await self.tabs.adopt()
        walked = await self._walked()
        refused = self._running.refusals(self.watch.hosts) if self._running else []
        notes = (*self.watch.taken(), *refused)
        return PageState(
            url=self.page.url,
            title=walked.title,
            tabs=await self.tabs.listed(),
            above=walked.above,
            below=walked.below,
            lines=tuple(walked.lines),
            notes=notes,
        )

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
                await self.access.load(self.page, await self.access.checked(url), seconds=REOPENING)

    async def _launch(self) -> None:
        self.watch = Watch(self.workspace, self.watch.downloads, notes=self.watch.notes, files=self.watch.files)
        self._running = await Running.start(self.settings, self.access.guard, self.watch)
        self.tabs = Tabs(self.watch, self._running.context)
        await self.tabs.begin()

    async def aclose(self) -> None:
        for task in list(self.watch.tasks):
            task.cancel()
        if self._running is not None:
            await self._running.aclose()
        self._running = None
        self.tabs = Tabs(self.watch)
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
