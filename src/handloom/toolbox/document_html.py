"""A page of HTML as Markdown, for a reader without scripts: what is its content, or all of its text."""

import re
from collections import Counter
from contextlib import suppress
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urljoin

RICH_CHARS = 1_000_000  # a longer page is read the plain way, and so is a shorter one than the next
SHORT_CHARS = 2_000  # of text: there is nothing to leave out
DEEP = 400  # nested elements; what is deeper is read the plain way
LITTLE = 0.25  # of the text; a reader that finds less may have missed the page
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_BLOCKS = {"p", "div", "section", "article", "ul", "ol", "table", "tr", "form", "header", "footer", "main", "nav", "aside", "pre", "blockquote", "dl", "dt", "dd", "figure", "body", "title"}  # fmt: skip
_HEADINGS = {"h1", "h2", "h3", "h4", "h5", "h6"}
_SILENT = {"script", "style", "template"}
# What may stand in a head, with what is silent; anything else ends it.
_HEAD = {"html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes", "noscript", "title"}
# What no drawing has, so that one which was never closed ends there (https://html.spec.whatwg.org/#parsing-main-inforeign), and all blocks.
_NOT_DRAWN = (_BLOCKS - {"title"}) | _HEADINGS | {
    "b", "big", "br", "center", "code", "em", "embed", "head", "hr", "i", "img", "li", "listing", "menu", "meta", "nobr", "ruby", "s", "small",
    "span", "strike", "strong", "sub", "sup", "td", "th", "tt", "u", "var",
}  # fmt: skip
# Spaces of preformatted text, written as controls until the lines are made; `clean` would remove those of the page itself.
_KEPT = str.maketrans(" \t\n", "\x00\x01\x02")
_GIVEN = str.maketrans("\x00\x01\x02", " \t\n")


def markdown(source: str, url: str) -> str:
    """The page as Markdown: what is its content, or everything where that would be little. `url` is where its links start."""
    plain = Plain(url)
    plain.feed(source)
    plain.close()
    everything = plain.text()
    if len(source) > RICH_CHARS or len(everything) < SHORT_CHARS or plain.deepest > DEEP or plain.torn:
        return everything
    found = _content(source, plain.base, url)
    if len(found) < LITTLE * len(everything):
        return everything
    return f"# {plain.title}\n\n{found}" if plain.title and plain.title not in found[:500] else found


def _content(source: str, base: str, url: str) -> str:
    """What stands on the page for its own sake; empty where nothing is found, or there is no reader."""
    try:
        import trafilatura
    except ImportError:
        return ""
    tree: Any = trafilatura.load_html(source)
    if tree is None:
        return ""
    for link in tree.iter("a"):
        # Done here, since trafilatura starts them all at the root of the site; what is no address is left as it is.
        with suppress(ValueError, KeyError):
            link.set("href", urljoin(base, link.attrib["href"]))
    for element in list(tree.iter("noscript")):
        element.tag = "div"  # trafilatura leaves out what is in a noscript
    found = trafilatura.extract(
        tree, url=url or None, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    return found or ""


class Plain(HTMLParser):
    """All text of a page with its links and headings, by a reader that no depth of nesting troubles.

    `torn` tells of a drawing that was never closed: readers that make a tree take the rest of the page for a part of it.
    """

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = url
        self._based = False
        self._parts: list[str] = []
        self._silent = 0
        self._drawing: Drawing | None = None
        self._in_head = False
        self._in_noscript = False
        self._preformatted = 0
        self._link = ""
        self._depth = 0
        self._in_title = False
        self.title = ""
        self.deepest = 0
        self.torn = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _VOID:
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
        self._in_title = False
        if self._draws(tag):
            return
        if tag in _SILENT:
            self._silent += 1
        elif tag == "body":
            self._silent = 0
        if self._silent:
            return
        given = {name: value or "" for name, value in attrs}
        self._in_title = tag == "title" and not self.title
        self._in_noscript = self._in_noscript or tag == "noscript"
        counter = tag == "img" and self._in_noscript  # in a head it shows nothing and counts visits
        self._in_head = tag == "head" or (self._in_head and (tag in _HEAD or counter))
        self._preformatted += tag == "pre"
        if tag == "base" and given.get("href") and not self._based:
            self.base, self._based = joined(self.base, given["href"]), True
        if not self._in_head:
            self._begin(tag, given)

    def _draws(self, tag: str) -> bool:
        """Whether what begins here is a part of a drawing."""
        if self._drawing and self._drawing.lacks(tag):
            self._drawing, self.torn = None, True
        if tag == "svg" and not self._drawing:
            self._drawing = Drawing()
        if self._drawing:
            self._drawing.begin(tag)
        return self._drawing is not None

    def _begin(self, tag: str, given: dict[str, str]) -> None:
        """Write what stands before the words of an element."""
        if tag in _BLOCKS or tag == "br":
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag in ("td", "th"):
            self._parts.append(" | ")
        elif tag in _HEADINGS:
            self._parts.append(f"\n\n{'#' * int(tag[1])} ")
        elif tag == "a" and given.get("href", "").strip() and not given["href"].startswith(("#", "javascript:")):
            self._link = given["href"]
            self._parts.append("[")
        elif tag == "img" and given.get("alt"):
            self._parts.append(f"(image: {given['alt']})")

    def handle_endtag(self, tag: str) -> None:
        self._depth = max(0, self._depth - 1)
        if self._drawing and self._drawing.end(tag):
            self._drawing = self._drawing if self._drawing.is_open else None
            return
        self._drawing = None
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        self._in_head = self._in_head and tag != "head"
        self._in_noscript = self._in_noscript and tag != "noscript"
        self._in_title = False
        if tag == "pre" and not self._silent:
            self._preformatted = max(0, self._preformatted - 1)
        if tag == "a" and self._link:
            self._parts.append(f"]({joined(self.base, self._link)})")
            self._link = ""
        if tag in _BLOCKS or tag in _HEADINGS:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join((self.title + data).split())[:300]
        elif self._drawing:
            self._drawing.add(data)
        elif not self._silent and (data.strip() or not self._in_head):
            self._in_head = False
            self._write(data)

    def _write(self, data: str) -> None:
        self._parts.append(data.translate(_KEPT) if self._preformatted else re.sub(r"\s+", " ", data))

    def close(self) -> None:
        """Read what is left; the words of a drawing that goes on to the end may be those of the page, and are given."""
        super().close()
        if self._drawing:
            self.torn = True
            self._write("" if self._silent else "".join(self._drawing.words))

    def text(self) -> str:
        lines = (re.sub(r" {2,}", " ", line).strip() for line in "".join(self._parts).split("\n"))
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        titled = self.title and not body.startswith(f"# {self.title}")
        return (f"# {self.title}\n\n{body}" if titled else body).translate(_GIVEN)


class Drawing:
    """An svg that is being read: what is open in it, from the svg itself on, and the words in it."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._counts: Counter[str] = Counter()  # of the names that are open
        self.words: list[str] = []

    @property
    def is_open(self) -> bool:
        return bool(self._open)

    def lacks(self, tag: str) -> bool:
        """Whether this cannot begin in a drawing, so that the drawing was over before."""
        return tag in _NOT_DRAWN and not self._counts["foreignobject"]

    def begin(self, tag: str) -> None:
        if tag not in _VOID:
            self._open.append(tag)
            self._counts[tag] += 1

    def end(self, tag: str) -> bool:
        """Close the newest element of this name with all in it; False where there is none, since then it is what the drawing stands in that ends."""
        if not self._counts[tag]:
            return False
        closed = ""
        while closed != tag:
            closed = self._open.pop()
            self._counts[closed] -= 1
        return True

    def add(self, words: str) -> None:
        if self._open[-1] not in _SILENT:
            self.words.append(words)


def joined(url: str, link: str) -> str:
    """The address of a link; one that is no address stays as it is."""
    try:
        return urljoin(url, link)
    except ValueError:
        return link
