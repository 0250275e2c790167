"""Looking for something on a page: words that stand there or will come, and a picture of it."""

import asyncio
import base64
import contextlib

from handloom.browser.session import BrowserSession
from handloom.errors import ToolError
from handloom.messages import ImagePart

MOST_WAIT = 30.0  # seconds
QUALITY = 60  # of a JPEG, in percent
MOST_HEIGHT = 6_000  # pixels of a picture


async def find_text(session: BrowserSession, words: str) -> str:
    """Scroll to where words stand. Raises: ToolError when they stand nowhere."""
    lines = await session.text()
    found = [line for line in lines if words.lower() in line.lower()]
    if not found:
        raise ToolError(f"{words!r} is not on the page")

    async def work() -> None:
        place = session.page.get_by_text(words).first
        if await place.count():
            await place.scroll_into_view_if_needed(timeout=2_000)

    # It may stand in a field's value, or in something hidden: the lines are told all the same.
    with contextlib.suppress(ToolError):
        await session.act(work)
    more = f"\n({len(found) - 8} more)" if len(found) > 8 else ""
    return f"{words!r} is in {len(found)} lines:\n" + "\n".join(line[:300] for line in found[:8]) + more


async def wait(session: BrowserSession, seconds: float = 1.0, words: str = "") -> str:
    """Wait for a time, or until words stand on the page. Raises: ToolError when they do not come."""
    if not 0 <= seconds <= MOST_WAIT:
        raise ToolError(f"seconds: give 0 to {MOST_WAIT:g}")
    if not words:
        await asyncio.sleep(seconds)
        return f"waited {seconds:g} s"
    try:
        async with asyncio.timeout(max(seconds, 1.0)):
            while not any(words.lower() in line.lower() for line in await session.text()):  # noqa: ASYNC110 - nobody tells when a page changes
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise ToolError(f"{words!r} did not appear within {seconds:g} s") from None
    return f"{words!r} is there"


async def screenshot(session: BrowserSession, *, full_page: bool = False) -> ImagePart:
    """What the window shows, or the whole page as far as is useful."""

    async def work() -> bytes:
        size = {"x": 0, "y": 0, "width": session.settings.width, "height": MOST_HEIGHT}
        clip = {"full_page": True, "clip": size} if full_page else {}
        return await session.page.screenshot(type="jpeg", quality=QUALITY, scale="css", **clip)  # pyright: ignore[reportArgumentType]  # the clip's type has a private name

    return ImagePart(data=base64.b64encode(await session.act(work)).decode(), mime="image/jpeg")
