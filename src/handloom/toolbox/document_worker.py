"""The child that reads documents: parsers of foreign formats run here, under limits, so that a hostile file ends a child and nothing else.

`python -m handloom.toolbox.document_worker KIND [URL]` reads the file on standard input and writes its text; 3 is the code of a fault that it explains.
"""

import io
import re
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from html.parser import HTMLParser
from itertools import islice
from typing import Any, NoReturn
from urllib.parse import urljoin

MEMORY = 2 * 1024**3
CPU_SECONDS = 40
MOST_CHARS = 4_000_000
RICH_CHARS = 1_000_000  # a longer page is read the plain way, and so is a shorter one than the next
SHORT_CHARS = 2_000  # of text: there is nothing to leave out
DEEP = 400  # nested elements; what is deeper is read the plain way
LITTLE = 0.25  # of the text; a reader that finds less may have missed the page
SHEET_ROWS = 5_000
_VOID = {"area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"}
_BLOCKS = {"p", "div", "section", "article", "ul", "ol", "table", "tr", "form", "header", "footer", "main", "nav", "aside", "pre", "blockquote", "dl", "dt", "dd", "figure", "body", "title"}  # fmt: skip
_SILENT = {"script", "style", "noscript", "template", "svg"}
# What may stand in a head, with what is silent; anything else ends it.
_HEAD = {"html", "head", "base", "basefont", "bgsound", "link", "meta", "noframes", "title"}
# Spaces of preformatted text, written as controls until the lines are made; `clean` would remove those of the page itself.
_KEPT = str.maketrans(" \t\n", "\x00\x01\x02")
_GIVEN = str.maketrans("\x00\x01\x02", " \t\n")


def main() -> None:
    kind, url = sys.argv[1], (sys.argv[2:] or [""])[0]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    data = sys.stdin.buffer.read()
    try:
        text = html(data.decode("utf-8", "replace"), url) if kind == "html" else READERS[kind](data)
    except ImportError as error:
        fail(f"the package {error.name} is missing; pip install 'handloom[documents]'")
    except MemoryError:
        fail("it needs too much memory")
    except Exception as error:  # noqa: BLE001 - whatever a parser says of a foreign file is the answer
        fail(f"it cannot be read: {type(error).__name__}: {str(error)[:300]}")
    sys.stdout.buffer.write(bounded(text).encode("utf-8", "replace"))


def bounded(text: str) -> str:
    """What is read of it at most, with a line that says so."""
    left = len(text) - MOST_CHARS
    more = f"\n[the document goes on for {left:,} characters, which are not read]" if left > 0 else ""
    return text[:MOST_CHARS] + more


def fail(reason: str) -> NoReturn:
    sys.stderr.write(reason)
    sys.exit(3)


def pdf(data: bytes) -> str:
    import pypdfium2  # pyright: ignore[reportMissingTypeStubs]  # it has none

    document = pypdfium2.PdfDocument(data)
    count = len(document)
    pages: list[str] = []
    for place in range(count):
        text = document[place].get_textpage().get_text_range().replace("\r\n", "\n").strip()
        pages.append(f"[page {place + 1} of {count}]\n{text or '(no text on this page)'}")
    return "\n\n".join(pages)


def docx(data: bytes) -> str:
    import docx as word
    from docx.table import Table

    lines: list[str] = []
    for block in word.Document(io.BytesIO(data)).iter_inner_content():
        if isinstance(block, Table):
            rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in block.rows]
            lines.append("\n".join(table(rows)))
            continue
        style = (block.style.name or "") if block.style else ""
        level = re.fullmatch(r"Heading (\d)", style)
        lines.append(f"{'#' * int(level[1])} {block.text}" if level else block.text)
    return "\n\n".join(line for line in lines if line.strip())


def xlsx(data: bytes) -> str:
    import openpyxl

    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    return "\n\n".join("\n".join(sheet(each)) for each in book.worksheets)


def sheet(sheet: Any) -> Iterator[str]:
    yield f"[sheet {sheet.title}]"
    rows = [["" if cell is None else str(cell) for cell in row] for row in islice(sheet.values, SHEET_ROWS + 1)]
    yield from table([row for row in rows[:SHEET_ROWS] if any(row)])
    if len(rows) > SHEET_ROWS:
        yield f"[more rows; read the file with Python to see all of {sheet.max_row}]"


def table(rows: list[list[str]]) -> Iterator[str]:
    """Rows as a Markdown table."""
    for place, row in enumerate(rows):
        yield "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) + " |"
        if place == 0:
            yield "|" + "---|" * len(row)


def html(source: str, url: str) -> str:
    """The page as Markdown: what is its content, or everything where that would be little."""
    plain = Plain(url)
    plain.feed(source)
    plain.close()
    everything = plain.text()
    if len(source) > RICH_CHARS or len(everything) < SHORT_CHARS or plain.deepest > DEEP:
        return everything
    try:
        import trafilatura
    except ImportError:
        return everything
    tree: Any = trafilatura.load_html(source)
    if tree is None:
        return everything
    for link in tree.iter("a"):
        # Done here, since trafilatura starts them all at the root of the site; what is no address is left as it is.
        with suppress(ValueError, KeyError):
            link.set("href", urljoin(plain.base, link.attrib["href"]))
    found = trafilatura.extract(
        tree, url=url or None, output_format="markdown", include_links=True, include_tables=True, favor_recall=True
    )
    if not found or len(found) < LITTLE * len(everything):
        return everything
    return f"# {plain.title}\n\n{found}" if plain.title and plain.title not in found[:500] else found


class Plain(HTMLParser):
    """All text of a page with its links and headings, by a reader that no depth of nesting troubles."""

    def __init__(self, url: str) -> None:
        super().__init__(convert_charrefs=True)
        self.base = url
        self._based = False
        self._parts: list[str] = []
        self._silent = 0
        self._in_head = False
        self._preformatted = 0
        self._link = ""
        self._depth = 0
        self._in_title = False
        self.title = ""
        self.deepest = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: C901 - what each kind of element writes
        if tag not in _VOID:
            self._depth += 1
            self.deepest = max(self.deepest, self._depth)
        given = dict(attrs)
        if tag in _SILENT:
            self._silent += 1
        elif tag == "body":
            self._silent = 0
        self._in_title = tag == "title" and not self._silent and not self.title
        if self._silent:
            return
        self._in_head = tag == "head" or (self._in_head and tag in _HEAD)
        self._preformatted += tag == "pre"
        if tag == "base" and given.get("href") and not self._based:
            self.base, self._based = joined(self.base, given["href"] or ""), True
        if self._in_head:
            return
        if tag in _BLOCKS or tag == "br":
            self._parts.append("\n")
        elif tag == "li":
            self._parts.append("\n- ")
        elif tag in ("td", "th"):
            self._parts.append(" | ")
        elif re.fullmatch("h[1-6]", tag):
            self._parts.append(f"\n\n{'#' * int(tag[1])} ")
        elif (
            tag == "a"
            and (given.get("href") or "").strip()
            and not (given["href"] or "").startswith(("#", "javascript:"))
        ):
            self._link = given["href"] or ""
            self._parts.append("[")
        elif tag == "img" and given.get("alt"):
            self._parts.append(f"(image: {given['alt']})")

    def handle_endtag(self, tag: str) -> None:
        self._depth = max(0, self._depth - 1)
        if tag in _SILENT:
            self._silent = max(0, self._silent - 1)
        self._in_head = self._in_head and tag != "head"
        self._in_title = False
        if tag == "pre" and not self._silent:
            self._preformatted = max(0, self._preformatted - 1)
        if tag == "a" and self._link:
            self._parts.append(f"]({joined(self.base, self._link)})")
            self._link = ""
        if tag in _BLOCKS or re.fullmatch("h[1-6]", tag):
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title = " ".join((self.title + data).split())[:300]
        elif not self._silent and (data.strip() or not self._in_head):
            self._in_head = False
            self._parts.append(data.translate(_KEPT) if self._preformatted else re.sub(r"\s+", " ", data))

    def text(self) -> str:
        lines = (re.sub(r" {2,}", " ", line).strip() for line in "".join(self._parts).split("\n"))
        body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
        titled = self.title and not body.startswith(f"# {self.title}")
        return (f"# {self.title}\n\n{body}" if titled else body).translate(_GIVEN)


def joined(url: str, link: str) -> str:
    try:
        return urljoin(url, link)
    except ValueError:
        return link


READERS = {"pdf": pdf, "docx": docx, "xlsx": xlsx}

if __name__ == "__main__":
    main()
