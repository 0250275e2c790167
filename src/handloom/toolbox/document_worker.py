"""The child that reads documents: parsers of foreign formats run here, under limits, so that a hostile file ends a child and nothing else.

`python -m handloom.toolbox.document_worker KIND [URL]` reads the file on standard input and writes its text; 3 is the code of a fault that it explains.
"""

import io
import re
import resource
import sys
from collections.abc import Iterator
from itertools import islice
from typing import Any, NoReturn

from handloom.toolbox import document_html

MEMORY = 2 * 1024**3
CPU_SECONDS = 40
MOST_CHARS = 4_000_000
SHEET_ROWS = 5_000


def main() -> None:
    kind, url = sys.argv[1], (sys.argv[2:] or [""])[0]
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    if sys.platform == "linux":
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    data = sys.stdin.buffer.read()
    try:
        text = document_html.markdown(data.decode("utf-8", "replace"), url) if kind == "html" else READERS[kind](data)
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


READERS = {"pdf": pdf, "docx": docx, "xlsx": xlsx}

if __name__ == "__main__":
    main()
