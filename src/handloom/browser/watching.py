"""What a browser does beside what it was told: dialogs, downloads, new tabs, crashes. Each is dealt with at once, and told at the next look."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from handloom.browser.downloads import Downloads
from handloom.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Page, Request, Response

MOST_NOTES = 12
MOST_HOSTS = 5_000
NO_PAGE = {204, 205}  # answers after which the old page stays


@dataclass
class Watch:
    """The notes since the last look, and what the pages are about to do."""

    workspace: Path
    downloads: Downloads
    notes: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_NOTES))
    files: list[Path] = field(default_factory=list[Path])
    loading: set[int] = field(default_factory=set[int])
    hosts: set[str] = field(default_factory=set[str])  # what pages asked for, as against the browser's own calls
    crashed: set[int] = field(default_factory=set[int])
    opened: "list[Page]" = field(default_factory=list["Page"])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def on_page(self, page: "Page") -> None:
        """Watch a new tab."""
        self.opened.append(page)
        page.on("dialog", lambda dialog: self._soon(self._dialog(dialog)))
        page.on("download", lambda download: self._soon(self._download(page, download)))
        page.on("crash", self._crash)
        page.on("request", lambda request: self._request(page, request))
        page.on("response", lambda response: self._response(page, response))
        page.on("filechooser", lambda _: self.notes.append("the page asks for a file: use upload_file on its input"))
        page.on("framenavigated", lambda frame: self.loading.discard(id(page)) if frame == page.main_frame else None)
        page.on("requestfailed", lambda request: self._failed(page, request))

    def taken(self) -> tuple[str, ...]:
        """The notes, which are told once."""
        notes = tuple(dict.fromkeys(self.notes))
        self.notes.clear()
        return notes

    async def settle(self) -> None:
        """Wait for what was begun, and give up what is not over."""
        if self.tasks:
            await asyncio.wait(set(self.tasks), timeout=1.0)

    def _soon(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled():
            task.exception()  # a page that is gone cannot be answered, and need not be

    async def _dialog(self, dialog: "Dialog") -> None:
        accepted = dialog.type in ("alert", "beforeunload")
        did = "accepted" if accepted else "dismissed"
        self.notes.append(f"the page showed a dialog ({dialog.type}), which was {did}: {dialog.message[:300]}")
        await (dialog.accept() if accepted else dialog.dismiss())

    async def _download(self, page: "Page", download: "Download") -> None:
        self.loading.discard(id(page))  # what a link led to is no page
        try:
            path = await self.downloads.keep(download)
        except ToolError as error:
            self.notes.append(str(error))
            return
        self.files.append(path)
        self.notes.append(f"downloaded {path.relative_to(self.workspace)} ({path.stat().st_size:,} bytes)")

    def _crash(self, page: "Page") -> None:
        self.crashed.add(id(page))
        self.notes.append(f"the tab crashed at {page.url}")

    def _request(self, page: "Page", request: "Request") -> None:
        if len(self.hosts) < MOST_HOSTS:
            self.hosts.add(urlsplit(request.url).hostname or "")
        if request.is_navigation_request() and request.frame == page.main_frame:
            self.loading.add(id(page))

    def _failed(self, page: "Page", request: "Request") -> None:
        if request.is_navigation_request() and request.frame == page.main_frame:
            self.loading.discard(id(page))
            if request.failure and "ERR_ABORTED" not in request.failure:
                self.notes.append(f"{request.url[:200]} was not loaded: {request.failure}")

    def _response(self, page: "Page", response: "Response") -> None:
        request = response.request
        if not request.is_navigation_request() or request.frame != page.main_frame:
            return
        kind = response.headers.get("content-type", "").partition(";")[0]
        if kind == "application/pdf":
            self.notes.append(f"{response.url[:300]} is a PDF, which is not shown here: read it with fetch(url)")
        if response.status in NO_PAGE:
            self.loading.discard(id(page))
        if response.status >= 400:
            self.notes.append(f"{response.url[:200]} answered {response.status}")
