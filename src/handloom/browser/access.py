"""Access: where a browser may go, which is what the guard lets it reach, and the files of the workspace."""

import re
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from handloom.errors import ToolError
from handloom.net import Guard

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page, Response, Route


_HERE = ("localhost", "127.0.0.1")  # where hardly anything speaks https
_SCHEMES = {
    "http",
    "https",
    "ws",
    "wss",
    "ftp",
    "file",
    "mailto",
    "tel",
    "sms",
    "javascript",
    "data",
    "about",
    "blob",
    "chrome",
}
_PORT = re.compile(r"[0-9]{1,5}(?:[/?#]|$)")


class Access:
    """What a page wanted and did not get is told in `notes`."""

    def __init__(self, workspace: Path, guard: Guard, notes: deque[str]) -> None:
        self.guard = guard
        self._workspace = workspace
        self._notes = notes
        self._looked_after: BrowserContext | None = None

    async def checked(self, url: str) -> str:
        """The address to open. Raises: ToolError for what may not be opened."""
        url = url.strip()
        if url == "about:blank":
            return url
        if url.lower().startswith("file:"):
            if not self.may_open(url):
                raise ToolError(f"{url}: only files of the workspace can be opened")
            return url
        place = self.guard.place(_with_scheme(url))
        await self.guard.addresses(place.host, place.port)
        fragment = urlsplit(url).fragment
        return f"{place.url}#{fragment}" if fragment else place.url

    def may_open(self, url: str) -> bool:
        """Whether the address of a file is one of the workspace, wherever links lead."""
        path = Path(unquote(urlsplit(url).path)).resolve()
        return not urlsplit(url).netloc and path.is_relative_to(self._workspace)

    async def load(self, page: "Page", address: str, *, seconds: float | None = None) -> "Response | None":
        """Load a checked address in a tab, as far as its text; in `seconds`, or the time of any action. Raises: Error of Playwright."""
        if address.lower().startswith("file:"):
            await self._look_after(page.context)
        milliseconds = None if seconds is None else 1_000 * seconds
        return await page.goto(address, wait_until="domcontentloaded", timeout=milliseconds)

    async def _look_after(self, context: "BrowserContext") -> None:
        """From now on look at each file that a page wants; before the first one there is none to look at."""
        if self._looked_after is context:
            return
        await context.route(lambda url: url.startswith("file:"), self._look)
        self._looked_after = context

    async def _look(self, route: "Route") -> None:
        if self.may_open(route.request.url):
            await route.continue_()
        else:
            self._notes.append(f"refused: {route.request.url[:200]} is not in the workspace")
            await route.abort("accessdenied")


def _with_scheme(url: str) -> str:
    """An address as people write it, with what they leave out. Letters before a colon are a scheme, unless they can be none and a port follows."""
    name, _, rest = url.partition(":")
    if "://" in url or (rest and name.isalpha() and (name.lower() in _SCHEMES or not _PORT.match(rest))):
        return url
    return f"{'http' if re.split('[/?#]', name)[0].lower() in _HERE else 'https'}://{url}"
