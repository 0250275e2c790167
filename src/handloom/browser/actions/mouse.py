"""What a mouse does: clicks, hovers, drags, and turns its wheel."""

from typing import Literal

import msgspec

from handloom.browser.pointing import aimed, target, told
from handloom.browser.session import BrowserSession
from handloom.errors import ToolError

Button = Literal["left", "right", "middle"]
STEPS = 12  # of a drag, since pages follow the way of the mouse
SCROLL = """([element, dy, pages]) => {
  const room = (it) => it.scrollHeight - it.clientHeight > 1 && (it === document.scrollingElement || /auto|scroll/.test(getComputedStyle(it).overflowY) || it.tagName === 'TEXTAREA');
  let box = element;
  while (box && box !== document.body && !room(box)) box = box.parentElement;
  if (!box || box === document.body) box = document.scrollingElement;
  if (!element && !room(box)) {
    const size = (it) => it.clientWidth * it.clientHeight;
    box = [...document.querySelectorAll('*')].filter(room).sort((a, b) => size(b) - size(a))[0] || box;
  }
  const before = box.scrollTop;
  box.scrollBy({top: dy ?? pages * 0.9 * box.clientHeight, behavior: 'instant'});
  return {moved: Math.round(box.scrollTop - before), below: Math.round(box.scrollHeight - box.clientHeight - box.scrollTop)};
}"""


async def click(session: BrowserSession, index: int, *, double: bool = False, button: Button = "left") -> str:
    """Click an element where a mouse would hit it. Raises: ToolError when it would not."""

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.tag == "select":
            raise ToolError(f"{aim} is a list to choose from: use select_option")
        if aim.about.type == "file":
            raise ToolError(f"{aim} takes a file: use upload_file")
        if aim.about.disabled:
            raise ToolError(f"{aim} is disabled")
        x, y = await aimed(session, aim)
        await session.page.mouse.click(x, y, button=button, click_count=2 if double else 1)
        if aim.about.blank:
            await session.tabs.wait_for_new()
        return f"clicked {aim}"

    return await session.act(work)


async def click_at(
    session: BrowserSession, x: float, y: float, *, double: bool = False, button: Button = "left"
) -> str:
    """Click a spot of the window."""

    async def work() -> str:
        _inside(session, x, y)
        await session.page.mouse.click(x, y, button=button, click_count=2 if double else 1)
        return f"clicked at {x:g},{y:g}"

    return await session.act(work)


def _inside(session: BrowserSession, x: float, y: float) -> None:
    if not (0 <= x < session.settings.width and 0 <= y < session.settings.height):
        raise ToolError(f"{x:g},{y:g} is outside the window of {session.settings.width}x{session.settings.height}")


async def hover(session: BrowserSession, index: int) -> str:
    async def work() -> str:
        aim = await target(session, index)
        await aimed(session, aim)
        return f"the mouse is on {aim}"

    return await session.act(work)


async def drag(
    session: BrowserSession, index: int, *, to_index: int | None = None, dx: float = 0.0, dy: float = 0.0
) -> str:
    """Drag an element onto another one, or by pixels."""

    async def work() -> str:
        aim = await target(session, index)
        x, y = await aimed(session, aim)
        if to_index is None:
            to_x, to_y, where = x + dx, y + dy, f"by {dx:g},{dy:g}"
        else:
            end = await target(session, to_index)
            box = await end.handle.bounding_box()
            if box is None:
                raise ToolError(f"{end} is not visible")
            to_x, to_y, where = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, f"onto {end}"
        mouse = session.page.mouse
        await mouse.down()
        await mouse.move(x + (to_x - x) / 8, y + (to_y - y) / 8)
        await mouse.move(to_x, to_y, steps=STEPS)
        await mouse.up()
        return f"dragged {aim} {where}"

    return await session.act(work)


class Scrolled(msgspec.Struct):
    """How far a box moved, and how much of it is below, in pixels."""

    moved: int
    below: int


async def scroll(
    session: BrowserSession, *, pages: float | None = None, dy: float | None = None, index: int | None = None
) -> str:
    """Scroll the window, or the box with this number, by windows or pixels; down is positive."""

    async def work() -> str:
        aim = await target(session, index) if index is not None else None
        frame = await aim.handle.owner_frame() if aim else session.page.main_frame
        how = [aim.handle if aim else None, dy, 1.0 if pages is None else pages]
        done = await told(frame or session.page.main_frame, SCROLL, Scrolled, how)
        if not done.moved:
            return f"nothing moved: this is the {'end' if done.below <= 1 else 'top'}"
        return f"scrolled by {done.moved} pixels; {done.below} pixels are below"

    return await session.act(work)
