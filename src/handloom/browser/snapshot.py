"""PageState: how the browser looks now, as text that a model can read."""

import re
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from handloom.llm import tokens
from handloom.tools.results import clean

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page

MOST_CHARS = 8_000
MOST_TOKENS = 1_700  # by the estimate of `tokens.count`
MOST_FRAMES = 30
LINE_CHARS = 1_500
UNNUMBERED = "(this page cannot be read with numbers: click at x and y, or use send_keys)"
_FRAME = re.compile("\x01(\\d+)")


@dataclass(frozen=True)
class Tab:
    """A tab by its number."""

    index: int
    title: str
    url: str
    current: bool = False


@dataclass(frozen=True, kw_only=True)
class PageState:
    """The page in view. `above` and `below` are the pixels that are scrolled away; `lines` are all lines in view, `text` those that there is room for."""

    url: str
    title: str
    tabs: tuple[Tab, ...] = ()
    above: int = 0
    below: int = 0
    lines: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    next: int = 1

    @property
    def text(self) -> str:
        return bounded(self.lines)


def bounded(lines: tuple[str, ...]) -> str:
    """As many lines as there is room for, and how many are left."""
    chars, cost, shown = 0, 0.0, list[str]()
    for line in lines:
        chars, cost = chars + len(line) + 1, cost + tokens.count(line) + 1
        if chars > MOST_CHARS or cost > MOST_TOKENS:
            break
        shown.append(line)
    left = len(lines) - len(shown)
    return "\n".join([*shown, *([f"({left} more lines: scroll or extract)"] if left else [])])


@dataclass
class _Walked:
    lines: list[str] = field(default_factory=list[str])
    next: int = 1
    above: int = 0
    below: int = 0
    title: str = ""


async def lines_of(page: "Page", first: int, *, full: bool = False) -> _Walked:
    """The lines of a page with those of its frames in their places; numbers begin at `first`.

    Of a page whose own scripts break ours, its accessibility tree is shown, which the browser makes without them, and without numbers.
    """
    from playwright.async_api import Error

    try:
        return await _walked(page.main_frame, first, full, [MOST_FRAMES])
    except Error as error:
        if is_navigating(error) or _is_gone(error):
            raise
        outline = await page.aria_snapshot()
        lines = [clean(line)[:LINE_CHARS] for line in outline.splitlines()]
        return _Walked(lines=[UNNUMBERED, *lines], next=first, title=await page.title())


def is_navigating(error: Exception) -> bool:
    """Whether a page could not be read because it went elsewhere meanwhile."""
    return any(words in str(error) for words in ("context was destroyed", "navigating"))


def _is_gone(error: Exception) -> bool:
    return any(words in str(error) for words in ("has been closed", "crashed"))


async def _walked(frame: "Frame", first: int, full: bool, budget: list[int]) -> _Walked:  # noqa: FBT001 - passed on
    found: dict[str, Any] = await frame.evaluate(source("walk.js"), {"next": first, "full": full})
    walked = _Walked(next=found["next"], above=found["above"], below=found["below"], title=found["title"])
    children = await _children(frame) if found["frames"] else {}
    for line in found["lines"]:
        match = _FRAME.fullmatch(line)
        if match is None:
            walked.lines.append(clean(line)[:LINE_CHARS])
            continue
        child = children.get(int(match[1]))
        budget[0] -= 1
        if child is None or budget[0] < 0:
            continue
        inner = await _walked(child, walked.next, full, budget)
        walked.next = inner.next
        more = f" ({inner.above} px above, {inner.below} px below)" if inner.above or inner.below else ""
        if inner.lines:
            walked.lines += [f"[{match[1]}]frame{more}:", *(f"  {each}" for each in inner.lines)]
    return walked


async def _children(frame: "Frame") -> "dict[int, Frame]":
    """The frames inside this one by the numbers of their elements. Each is asked for itself: what is reached through its parent cannot be clicked."""
    from playwright.async_api import Error

    found: dict[int, Frame] = {}
    for child in frame.child_frames[:MOST_FRAMES]:
        try:
            element = await child.frame_element()
            number = await element.evaluate("e => window[Symbol.for('handloom.ids')]?.ids.get(e)")
        except Error:
            continue  # it went away meanwhile
        if number is not None:
            found[number] = child
    return found


@lru_cache(maxsize=4)
def source(name: str) -> str:
    """A script of this package."""
    return files("handloom.browser").joinpath(name).read_text(encoding="utf-8")
