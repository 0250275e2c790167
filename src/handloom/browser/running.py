"""Running: the program of a browser with what belongs to it, started together and closed together."""

import asyncio
import contextlib
import logging
import os
from collections.abc import Awaitable, Callable, Container
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from handloom.browser import snapshot
from handloom.browser.settings import BrowserSettings, program
from handloom.browser.watching import Watch
from handloom.errors import ToolError
from handloom.net import Guard
from handloom.net.proxy import GuardedProxy

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

log = logging.getLogger(__name__)

CLOSING = 5.0  # seconds for each part that is closed
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


@dataclass(frozen=True)
class Running:
    """A browser that runs: its driver, its one context, and the proxy through which all of it goes. A kept profile has no `browser` of its own."""

    driver: "Playwright"
    context: "BrowserContext"
    proxy: GuardedProxy
    browser: "Browser | None"

    @classmethod
    async def start(cls, settings: BrowserSettings, guard: Guard, watch: Watch) -> Self:
        """Raises: ToolError when it does not start."""
        from playwright.async_api import Error, async_playwright

        async with contextlib.AsyncExitStack() as undo:
            proxy = await GuardedProxy.open(guard)
            undo.push_async_callback(_closed, proxy.aclose)
            driver = await async_playwright().start()
            undo.push_async_callback(_closed, driver.stop)
            try:
                browser, context = await _opened(driver, settings, proxy, watch)
                undo.push_async_callback(_closed, context.close)
                context.set_default_timeout(1_000 * settings.timeout)
                if settings.listeners:
                    await context.add_init_script(snapshot.source("listeners.js"))
            except Error as error:
                raise ToolError(f"the browser {program(settings)} does not start: {brief(error)}") from None
            context.on("page", watch.on_page)
            for page in context.pages:
                watch.on_page(page)
            watch.opened.clear()
            undo.pop_all()
            return cls(driver, context, proxy, browser)

    @property
    def is_dead(self) -> bool:
        return self.browser is not None and not self.browser.is_connected()

    def refusals(self, hosts: Container[str]) -> list[str]:
        """What the guard has newly refused to pages, which asked for `hosts`; what the browser itself wanted is nobody's business here."""
        refused = [why for host, why in dict.fromkeys(self.proxy.refused) if host in hosts]
        self.proxy.refused.clear()
        return [f"refused: {each}" for each in refused[:3]]

    async def aclose(self) -> None:
        """Close every part, each within its time, whatever state it is in."""
        closes = [
            self.context.close,
            *([self.browser.close] if self.browser else []),
            self.driver.stop,
            self.proxy.aclose,
        ]
        for close in closes:
            await _closed(close)


async def _opened(
    driver: "Playwright", settings: BrowserSettings, proxy: GuardedProxy, watch: Watch
) -> "tuple[Browser | None, BrowserContext]":
    """The browser and its context; a profile that another browser has open is left alone, and said."""
    from playwright.async_api import Error

    root = os.geteuid() == 0
    if root:
        watch.notes.append("the browser runs as root, so without its own sandbox")
    options: dict[str, Any] = {
        "executable_path": program(settings),
        "headless": settings.headless,
        "args": [*OPTIONS, *(["--no-sandbox"] if root else [])],
        "proxy": {"server": f"http://127.0.0.1:{proxy.port}"},
        "handle_sigint": False,
        "handle_sigterm": False,
        "timeout": 30_000,
        "downloads_path": watch.downloads.arriving,
    }
    shown: dict[str, Any] = {
        "viewport": {"width": settings.width, "height": settings.height},
        "accept_downloads": True,
        "service_workers": "block",
    }
    if settings.profile:
        folder = await asyncio.to_thread(_folder, settings.profile)
        try:
            context = await driver.chromium.launch_persistent_context(folder, **options, **shown)
        except Error as error:
            watch.notes.append(f"the profile {folder} cannot be used now, so a temporary one is: {brief(error)[:200]}")
        else:
            return context.browser, context
    browser = await driver.chromium.launch(**options)
    return browser, await browser.new_context(**shown)


def _folder(path: Path) -> Path:
    path = path.expanduser()
    path.mkdir(parents=True, exist_ok=True)
    return path


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
