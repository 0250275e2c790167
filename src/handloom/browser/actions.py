"""What can be done to a page. Each action says in a line what it did; what the page made of it is in the next state."""

import asyncio
import base64
import contextlib
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import msgspec

from handloom.browser.pointing import Target, aimed, target, told
from handloom.browser.session import BrowserSession
from handloom.errors import ToolError
from handloom.messages import ImagePart

if TYPE_CHECKING:
    from playwright.async_api import Page

Button = Literal["left", "right", "middle"]
MOST_WAIT = 30.0
QUALITY = 60
MOST_HEIGHT = 6_000
STEPS = 12  # of a drag, since pages follow the way of the mouse
_NAMED = "Enter|Tab|Backspace|Delete|Escape|Space|Insert|Home|End|Page(?:Up|Down)|Arrow(?:Up|Down|Left|Right)|F[1-9][0-2]?|ContextMenu"
_KEYS = re.compile(
    rf"(?:Shift\+)?(?:{_NAMED}|Shift|Control|Alt|Meta)|(?:(?:Shift|Control|Alt|Meta|ControlOrMeta)\+)*(?:Control|Alt|Meta|ControlOrMeta)\+(?:Shift\+)?\S+"
)
FORMS = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM",
    "month": "YYYY-MM",
    "week": "YYYY-Www",
    "datetime-local": "YYYY-MM-DDTHH:MM",
}
PLAIN = ("text", "search", "email", "url", "tel", "number", "password", "date", "time", "month", "week", "datetime-local", "color", "range", "textarea", "")  # fmt: skip


async def navigate(session: BrowserSession, url: str, *, new_tab: bool = False) -> str:
    """Open an address. Raises: ToolError."""
    from playwright.async_api import Error

    address = await session.checked(url)

    async def work() -> str:
        page = await session.new_tab() if new_tab else session.page
        try:
            answer = await page.goto(address, wait_until="domcontentloaded")
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
            await session.opened()
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


async def input_text(
    session: BrowserSession, index: int, text: str, *, submit: bool = False, slowly: bool = False
) -> str:
    """Replace what stands in a field. `slowly` types key by key, for pages that offer completions. Raises: ToolError."""
    from playwright.async_api import Error

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.disabled or aim.about.readonly:
            raise ToolError(f"{aim} cannot be changed: it is {'disabled' if aim.about.disabled else 'read-only'}")
        typed = aim.about.tag in ("input", "textarea") and aim.about.type in PLAIN
        if not (typed or aim.about.tag == "textarea" or aim.about.editable):
            raise ToolError(f"{aim} is no field for text{_instead(aim)}")
        try:
            await aim.handle.fill("" if slowly else text)
        except Error as error:
            raise ToolError(f"{aim} did not take {text[:60]!r}: {_malformed(aim, error)}") from None
        if aim.about.type in FORMS and await aim.handle.evaluate("e => e.value") != text:
            raise ToolError(f"{aim} did not take {text[:60]!r}: write it as {FORMS[aim.about.type]}")
        if slowly:
            await aim.handle.type(text, timeout=1_000 * session.settings.timeout)
        if submit:
            await aim.handle.press("Enter")
        return f"wrote {'*' * len(text) if aim.about.type == 'password' else repr(text[:60])} into [{index}]{aim.about.tag}{' and pressed Enter' if submit else ''}"

    return await session.act(work)


def _instead(aim: Target) -> str:
    kind = aim.about.type or aim.about.tag
    return {
        "select-one": ": use select_option",
        "select-multiple": ": use select_option",
        "file": ": use upload_file",
    }.get(kind, ": click it, then send_keys" if kind not in ("checkbox", "radio") else ": click it")


def _malformed(aim: Target, error: Exception) -> str:
    form = FORMS.get(aim.about.type)
    return f"write it as {form}" if form else str(error).partition("\n")[0][:200]


# Value and label of each option.
OPTIONS = "e => [...e.options].map(o => [o.value, (o.label || o.text).trim().replace(/\\s+/g, ' ')])"


async def select_option(session: BrowserSession, index: int, values: Sequence[str]) -> str:
    """Choose by label or value; those not named are unselected. Raises: ToolError with the options there are."""

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.tag != "select":
            raise ToolError(f"{aim} is no list of options; click it and choose from what opens")
        options = await told(aim.handle, OPTIONS, list[tuple[str, str]])
        chosen: list[int] = []
        for value in values:
            wanted = " ".join(value.split())
            found = [place for place, names in enumerate(options) if wanted in (names[1], names[0])]
            found = found or [place for place, names in enumerate(options) if wanted.lower() == names[1].lower()]
            if not found:
                labels = ", ".join(label[:60] for _, label in options[:40])
                raise ToolError(f"[{index}] has no option {value!r}; it has: {labels}")
            chosen.append(found[0])
        await aim.handle.select_option(index=chosen)
        return f"chose {', '.join(options[place][1] for place in chosen)} in [{index}]select"

    return await session.act(work)


async def send_keys(session: BrowserSession, keys: str, text: str = "") -> str:
    """Press keys such as `Enter`, `Control+A`, several with spaces between them; then type a text where the cursor is.

    Raises: ToolError for a key that does not exist, and for one that writes: what is written is `text`, on which the policy can decide.
    """
    from playwright.async_api import Error

    async def work() -> str:
        for key in keys.split():
            if not _KEYS.fullmatch(key):
                raise ToolError(f"{key!r} is no key that can be pressed; to write something give text")
            try:
                await session.page.keyboard.press(key)
            except Error as error:
                raise ToolError(f"{key!r} is no key ({str(error).partition(chr(10))[0][:120]})") from None
        if text:
            await session.page.keyboard.type(text)
        return " and ".join([*([f"pressed {keys}"] if keys else []), *([f"typed {text[:60]!r}"] if text else [])])

    return await session.act(work)


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


async def upload_file(session: BrowserSession, index: int, path: str) -> str:
    """Give a file of the workspace to a file input. Raises: ToolError."""
    file = (session.workspace / path).resolve()
    if not file.is_relative_to(session.workspace) or not file.is_file():
        raise ToolError(f"there is no file {path} in the workspace")

    async def work() -> str:
        aim = await target(session, index)
        if aim.about.type != "file":
            raise ToolError(f"{aim} takes no file; choose the element that is called file")
        await aim.handle.set_input_files(file)
        return f"gave {path} to [{index}]"

    return await session.act(work)


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


async def tab(session: BrowserSession, action: Literal["switch_tab", "close_tab"], index: int) -> str:
    """Show or close a tab by its number. Raises: ToolError."""

    async def work() -> str:
        page = _tab(session, index)
        if action == "close_tab":
            await page.close()
            return f"closed tab {index}"
        session.show(page)
        await page.bring_to_front()
        return f"tab {index} is the current one: {page.url}"

    return await session.act(work)


def _tab(session: BrowserSession, index: int) -> "Page":
    if not 0 <= index < len(session.pages):
        raise ToolError(f"there is no tab {index}; tabs are 0 to {len(session.pages) - 1}")
    return session.pages[index]


async def screenshot(session: BrowserSession, *, full_page: bool = False) -> ImagePart:
    """What the window shows, or the whole page as far as is useful."""

    async def work() -> bytes:
        size = {"x": 0, "y": 0, "width": session.settings.width, "height": MOST_HEIGHT}
        clip = {"full_page": True, "clip": size} if full_page else {}
        return await session.page.screenshot(type="jpeg", quality=QUALITY, scale="css", **clip)  # pyright: ignore[reportArgumentType]  # the clip's type has a private name

    return ImagePart(data=base64.b64encode(await session.act(work)).decode(), mime="image/jpeg")


def _inside(session: BrowserSession, x: float, y: float) -> None:
    if not (0 <= x < session.settings.width and 0 <= y < session.settings.height):
        raise ToolError(f"{x:g},{y:g} is outside the window of {session.settings.width}x{session.settings.height}")
