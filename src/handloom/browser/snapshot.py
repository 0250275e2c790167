"""PageState: how the browser looks now, as text that a model can read."""

import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

import msgspec

from handloom.llm import tokens
from handloom.tools.results import clean

if TYPE_CHECKING:
    from playwright.async_api import Frame, Page

MOST_CHARS = 8_000
MOST_TOKENS = 1_700  # by the estimate of `tokens.count`
MOST_FRAMES = 30
MOST_NUMBERS = 100_000  # that one look at a frame may give
LINE_CHARS = 1_500
UNNUMBERED = "(this page cannot be read with numbers: click at x and y, or use send_keys)"
_FRAME = re.compile("\x01(\\d{1,9})")
_NUMBER = re.compile(r"\[(\d{1,9})\]")


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


class Numbers:
    """The numbers that a browser has given to things of its pages. None is given twice, and each belongs to the frame in which the thing is:
    another frame, which a stranger may have put there, cannot answer to it.
    """

    def __init__(self) -> None:
        self.next = 1
        self._given: list[tuple[int, int, Frame]] = []  # from, to (exclusive), where

    def take(self, frame: "Frame", following: int) -> None:
        """The numbers before `following` that are still free are the frame's."""
        if following > self.next:
            self._given.append((self.next, following, frame))
            self.next = following

    def owner(self, number: int) -> "Frame | None":
        """The frame of the thing with this number."""
        place = bisect_right(self._given, number, key=lambda given: given[0]) - 1
        return self._given[place][2] if place >= 0 and number < self._given[place][1] else None

    def forget(self) -> None:
        """Drop the frames that are gone."""
        self._given = [given for given in self._given if not given[2].is_detached()]


class Found(msgspec.Struct):
    """What the walk through one frame gives, if the scripts of the page let it."""

    lines: list[str]
    next: int
    frames: list[int]
    above: int
    below: int
    title: str
    broken: str = ""


async def lines_of(page: "Page", numbers: Numbers, *, full: bool = False) -> Found:
    """The lines of a page with those of its frames in their places.

    Of a page whose own scripts break ours, its accessibility tree is shown, which the browser makes without them, and without numbers.
    """
    from playwright.async_api import Error

    numbers.forget()
    try:
        return await _walked(page.main_frame, numbers, full, [MOST_FRAMES])
    except (Error, msgspec.ValidationError) as error:
        if is_navigating(error) or _is_gone(error):
            raise
        outline = await page.aria_snapshot()
        lines = [clean(line)[:LINE_CHARS] for line in outline.splitlines()]
        return Found([UNNUMBERED, *lines], numbers.next, [], 0, 0, await page.title())


def is_navigating(error: Exception) -> bool:
    """Whether a page could not be read because it went elsewhere meanwhile."""
    return any(words in str(error) for words in ("context was destroyed", "navigating"))


def _is_gone(error: Exception) -> bool:
    return any(words in str(error) for words in ("has been closed", "crashed"))


async def _walked(frame: "Frame", numbers: Numbers, full: bool, budget: list[int]) -> Found:  # noqa: FBT001 - passed on
    answer = await frame.evaluate(source("walk.js"), {"next": numbers.next, "full": full})
    found = msgspec.convert(answer, Found)
    if found.next > numbers.next + MOST_NUMBERS:
        raise msgspec.ValidationError("more numbers than a page has things")
    numbers.take(frame, found.next)
    if found.broken:
        raise msgspec.ValidationError(found.broken)
    children = await _children(frame) if found.frames else {}
    lines: list[str] = []
    for line in found.lines:
        match = _FRAME.fullmatch(line)
        if match is None:
            lines.append(_own(clean(line)[:LINE_CHARS], frame, numbers))
            continue
        child = children.get(int(match[1]))
        budget[0] -= 1
        if child is not None and budget[0] >= 0:
            lines += await _framed(match[1], child, numbers, full, budget)
    return msgspec.structs.replace(found, lines=lines)


async def _framed(number: str, child: "Frame", numbers: Numbers, full: bool, budget: list[int]) -> list[str]:  # noqa: FBT001 - passed on
    """The lines of a frame in a page; one that is broken, or goes elsewhere meanwhile, does not spoil the others."""
    from playwright.async_api import Error

    try:
        inner = await _walked(child, numbers, full, budget)
    except (Error, msgspec.ValidationError) as error:
        if _is_gone(error):
            raise
        return [f"[{number}]frame (cannot be read now)"]
    more = f" ({inner.above} px above, {inner.below} px below)" if inner.above or inner.below else ""
    return [f"[{number}]frame{more}:", *(f"  {each}" for each in inner.lines)] if inner.lines else []


def _own(line: str, frame: "Frame", numbers: Numbers) -> str:
    """The line, in which only things of its own frame bear numbers."""
    return _NUMBER.sub(lambda found: found[0] if numbers.owner(int(found[1])) is frame else f"({found[1]})", line)


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
        if isinstance(number, int):
            found[number] = child
    return found


@lru_cache(maxsize=4)
def source(name: str) -> str:
    """A script of this package."""
    return files("handloom.browser").joinpath(name).read_text(encoding="utf-8")
