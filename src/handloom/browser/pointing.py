"""Pointing: from a number of the page to its element, and to a spot of it that a mouse would really hit."""

import contextlib
from dataclasses import dataclass
from math import isfinite
from typing import TYPE_CHECKING, TypeVar

import msgspec

from handloom.browser.session import BrowserSession
from handloom.errors import ToolError

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Frame

T = TypeVar("T")

FIND = """number => {
  const known = window[Symbol.for('handloom.ids')];
  return known?.elements.get(number)?.deref() ?? null;
}"""
# Where the element is in its own frame, and which of its spots is not covered; the covering element in words.
SPOT = """element => {
  if (!element.isConnected) return {gone: true};
  const boxes = [...element.getClientRects()].filter(box => box.width > 0 && box.height > 0);
  if (!boxes.length) return {hidden: true};
  const whole = element.getBoundingClientRect();
  const words = (it) => `${it.tagName.toLowerCase()} ${JSON.stringify((it.innerText || it.getAttribute('aria-label') || '').trim().slice(0, 60))}`;
  const hit = (x, y) => {
    let found = document.elementFromPoint(x, y);
    while (found?.shadowRoot) {
      const inner = found.shadowRoot.elementFromPoint(x, y);
      if (!inner || inner === found) break;
      found = inner;
    }
    return found;
  };
  const same = (found) => {
    for (let it = found; it; it = it.parentNode || it.host) if (it === element) return true;
    if (!found || found.tagName === 'HTML' || found.tagName === 'BODY') return false;
    return [...(element.labels || [])].some(label => label.contains(found)) || (element instanceof SVGElement && found.contains(element));
  };
  let cover = null;
  for (const box of boxes.slice(0, 4)) {
    for (const [across, down] of [[.5, .5], [.2, .5], [.8, .5], [.5, .2], [.5, .8], [.1, .1], [.9, .9]]) {
      const x = box.left + box.width * across, y = box.top + box.height * down;
      if (x < 0 || y < 0 || x >= innerWidth || y >= innerHeight) continue;
      const found = hit(x, y);
      if (same(found)) return {x: x - whole.left, y: y - whole.top};
      cover ??= found;
    }
  }
  return cover ? {cover: words(cover), number: window[Symbol.for('handloom.ids')]?.ids.get(cover) ?? null} : {outside: true};
}"""
ABOUT = """element => ({
  tag: element.tagName.toLowerCase(), type: typeof element.type === 'string' ? element.type : '', editable: !!element.isContentEditable,
  blank: !!element.closest('a[target=_blank]'), disabled: !!element.disabled, readonly: !!element.readOnly && element.type !== 'range',
  words: ((/^(checkbox|radio)$/.test(element.type) && element.labels?.[0]?.innerText) || element.innerText || element.value || element.getAttribute('aria-label') || element.title || '').toString().trim().replace(/\\s+/g, ' ').slice(0, 60),
})"""


class About(msgspec.Struct):
    """What an element is."""

    tag: str
    type: str
    editable: bool
    blank: bool
    disabled: bool
    readonly: bool
    words: str


class Spot(msgspec.Struct):
    """Where a mouse can hit an element in its own frame, or why it cannot."""

    x: float = 0.0
    y: float = 0.0
    gone: bool = False
    hidden: bool = False
    outside: bool = False
    cover: str = ""
    number: int | None = None

    def __post_init__(self) -> None:
        if not (isfinite(self.x) and isfinite(self.y)):
            raise ValueError("no place in a window")


async def told(place: "ElementHandle | Frame", script: str, form: type[T], argument: object = None) -> T:
    """What a script of ours says of a page, whose own scripts may have broken it. Raises: ToolError for what has another form."""
    try:
        return msgspec.convert(await place.evaluate(script, argument), form)
    except msgspec.ValidationError:
        raise ToolError("this page's own scripts break what looks at it; read it with fetch, or go elsewhere") from None


@dataclass(frozen=True)
class Target:
    """An element that is there, with what it is."""

    number: int
    handle: "ElementHandle"
    about: About

    def __str__(self) -> str:
        words = f' "{self.about.words}"' if self.about.words and self.about.type != "password" else ""
        return f"[{self.number}]{self.about.tag}{words}"


async def target(session: BrowserSession, number: int) -> Target:
    """The element with this number. Raises: ToolError when the page has it no more."""
    from playwright.async_api import Error

    frame = session.numbers.owner(number)
    with contextlib.suppress(Error):  # the frame went away meanwhile
        handle = (await frame.evaluate_handle(FIND, number)).as_element() if frame in session.page.frames else None
        if handle and await handle.evaluate("element => element.isConnected"):
            return Target(number, handle, await told(handle, ABOUT, About))
    raise ToolError(f"[{number}] is not on the page now; look at the newest page and use one of its numbers")


async def spot(aim: Target) -> tuple[float, float]:
    """Where to point the mouse, in the whole page's viewport. Raises: ToolError when the element cannot be hit, with what is in the way."""
    from playwright.async_api import Error

    # What is always moving never counts as settled; the next look tells where it is.
    with contextlib.suppress(Error):
        await aim.handle.scroll_into_view_if_needed(timeout=2_000)
    found = await told(aim.handle, SPOT, Spot)
    if found.gone:
        raise ToolError(f"{aim} was taken off the page; look at the newest page")
    if found.hidden:
        raise ToolError(f"{aim} is not visible; something else must be opened first")
    if found.cover:
        number = f"[{found.number}]" if found.number else ""
        raise ToolError(f"{aim} is covered by {number}{found.cover}; close that, or scroll")
    box = await aim.handle.bounding_box()
    if found.outside or box is None:
        raise ToolError(f"{aim} is outside the window and cannot be scrolled into it")
    return box["x"] + found.x, box["y"] + found.y


async def aimed(session: BrowserSession, aim: Target) -> tuple[float, float]:
    """Move the mouse onto the element, and after it where the move itself has shifted the page. Raises: ToolError like `spot`."""
    x, y = await spot(aim)
    await session.page.mouse.move(x, y)
    again = await spot(aim)
    if again != (x, y):
        await session.page.mouse.move(*again)
    return again
