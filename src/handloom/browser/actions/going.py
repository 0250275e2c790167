"""Going somewhere: addresses, back, and from tab to tab."""

from typing import TYPE_CHECKING, Literal

from handloom.browser.session import BrowserSession
from handloom.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import Page


async def navigate(session: BrowserSession, url: str, *, new_tab: bool = False) -> str:
    """Open an address. Raises: ToolError."""
    from playwright.async_api import Error

    address = await session.access.checked(url)

    async def work() -> str:
        page = await session.tabs.open() if new_tab else session.page
        try:
            answer = await session.access.load(page, address)
        except Error as error:
            if "Download is starting" in str(error) or "ERR_ABORTED" in str(error):
                await session.watch.settle()
                return f"{address} is a file and not a page"
            if "Timeout" in str(error):
                return f"{address} is still loading"
            raise
        status = f" (status {answer.status})" if answer and answer.status >= 400 else ""
        return f"opened {page.url}{status}"

    return await session.act(work)


async def go_back(session: BrowserSession) -> str:
    async def work() -> str:
        page, before = session.page, session.page.url
        await page.go_back(wait_until="domcontentloaded")
        if page.url == "about:blank" != before:  # where every tab begins; nothing is to be seen there
            await page.go_forward(wait_until="domcontentloaded")
            raise ToolError("there is no page to go back to")
        return f"went back to {page.url}"

    return await session.act(work)


async def tab(session: BrowserSession, action: Literal["switch_tab", "close_tab"], index: int) -> str:
    """Show or close a tab by its number. Raises: ToolError."""

    async def work() -> str:
        page = _tab(session, index)
        if action == "close_tab":
            await page.close()
            return f"closed tab {index}"
        session.tabs.show(page)
        await page.bring_to_front()
        return f"tab {index} is the current one: {page.url}"

    return await session.act(work)


def _tab(session: BrowserSession, index: int) -> "Page":
    if not 0 <= index < len(session.tabs.pages):
        raise ToolError(f"there is no tab {index}; tabs are 0 to {len(session.tabs.pages) - 1}")
    return session.tabs.pages[index]
