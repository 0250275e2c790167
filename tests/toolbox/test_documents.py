"""Documents: what a model reads of each kind, and what it is told of those that cannot be read."""

import asyncio
import encodings
import html
import io
import pkgutil
import re
import struct
import zipfile
from pathlib import Path

import docx
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from handloom.errors import ToolError
from handloom.llm.model import Model, Request
from handloom.llm.profiles import Profile
from handloom.net import Guard
from handloom.testing.models import ScriptedModel
from handloom.testing.site import Site, raw
from handloom.testing.tools import FakeContext
from handloom.toolbox import document, document_html
from handloom.toolbox.documents import document_tool
from handloom.toolbox.extract import extractor
from handloom.toolbox.fetch import fetch_tool

pytestmark = pytest.mark.anyio


def pdf(*pages: str) -> bytes:
    """A PDF with a line on each page, written by hand."""
    count = len(pages)
    kids = " ".join(f"{3 + 2 * place} 0 R" for place in range(count))
    font = 3 + 2 * count
    bodies = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {count} >>"]
    for place, text in enumerate(pages):
        stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET"
        resources = f"<< /Font << /F1 {font} 0 R >> >>"
        bodies.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {4 + 2 * place} 0 R /Resources {resources} >>"
        )
        bodies.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    bodies.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    out, places = b"%PDF-1.4\n", []
    for number, body in enumerate(bodies, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"trailer << /Size {len(bodies) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + f"xref\n0 {len(bodies) + 1}\n0000000000 65535 f \n{table}{end}".encode()


def word() -> bytes:
    file, out = docx.Document(), io.BytesIO()
    file.add_heading("季度报告", level=1)
    file.add_paragraph("Sales grew by 12 %.")
    table = file.add_table(rows=2, cols=2)
    for row, cells in zip(table.rows, [("Region", "Sum"), ("北京", "1,200")], strict=True):
        for cell, text in zip(row.cells, cells, strict=True):
            cell.text = text
    file.save(out)
    return out.getvalue()


def excel() -> bytes:
    book, out = openpyxl.Workbook(), io.BytesIO()
    sheet = book.active
    assert sheet is not None
    sheet.title = "Prices"
    for row in (["item", "price"], ["茶", 3.5], ["a|b", None]):
        sheet.append(row)
    book.create_sheet("Empty")
    book.save(out)
    return out.getvalue()


PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480) + b"\x08\x02\0\0\0"


async def read(folder: Path, data: bytes, name: str, **more: object) -> str:
    (folder / name).write_bytes(data)
    async with FakeContext(folder) as context:
        return (await document_tool().run({"path": name, **more}, context)).text


@pytest.mark.parametrize(
    ("data", "name", "parts"),
    [
        (pdf("The first page", "and the second"), "a.pdf", ["[page 1 of 2]\nThe first page", "[page 2 of 2]\nand the second"]),
        (word(), "a.docx", ["# 季度报告", "Sales grew by 12 %.", "| Region | Sum |\n|---|---|\n| 北京 | 1,200 |"]),
        (excel(), "a.xlsx", ["[sheet Prices]\n| item | price |\n|---|---|\n| 茶 | 3.5 |\n| a\\|b |  |", "[sheet Empty]"]),
        ("名,数\n茶,3\n".encode("gbk"), "a.csv", ["名,数\n茶,3"]),
        ("<h1>标题</h1><p>words</p>".encode(), "a.html", ["# 标题", "words"]),
        (b"plain words", "a.txt", ["plain words"]),
        (pdf("by its bytes"), "a.txt", ["by its bytes"]),
    ],
)  # fmt: skip
async def test_a_document_is_read_by_what_it_is(data: bytes, name: str, parts: list[str], tmp_path: Path):
    text = await read(tmp_path, data, name)
    assert all(part in text for part in parts), text
    assert text.startswith("[untrusted ")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (PNG, "a PNG image, 640 x 480 pixels"),
        (b"%PDF-1.4 broken", "the pdf of 15 bytes was not read"),
        (b"PK\x03\x04 broken", "a broken ZIP file"),
        (bytes(range(256)), "binary data"),
    ],
)
async def test_what_has_no_text_says_what_it_is(data: bytes, words: str, tmp_path: Path):
    with pytest.raises(ToolError, match=words):
        await read(tmp_path, data, "x.bin")


async def test_a_zip_that_unpacks_to_gigabytes_ends_its_reader_alone(tmp_path: Path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        with archive.open("word/document.xml", "w", force_zip64=True) as entry:
            for _ in range(150):
                entry.write(b"<w>" * 1_000_000)
    with pytest.raises(ToolError, match="was not read"):
        await read(tmp_path, out.getvalue(), "bomb.docx")


async def test_a_long_document_is_read_in_pieces_and_for_a_goal(tmp_path: Path):
    text = await read(tmp_path, b"word " * 5_000, "long.txt", start=20_000)
    assert "more characters" not in text
    with pytest.raises(ToolError, match="no model to look for a goal"):
        await read(tmp_path, b"word", "long.txt", goal="x")


async def test_a_goal_goes_through_a_long_document_to_its_end(tmp_path: Path):
    text = "".join(f"line {number:04d}\n" for number in range(500))
    (tmp_path / "long.txt").write_text(text)
    model = ScriptedModel(["nothing here"] * 5, profile=Profile(max_context=2_000, max_output=200))

    async def opened() -> Model:
        return model

    used = document_tool(extractor(opened))
    starts = [0]
    async with FakeContext(tmp_path) as context:
        while starts[-1] < len(text):
            result = await used.run({"path": "long.txt", "goal": "the end", "start": starts[-1]}, context)
            more = re.search(r"goes on for ([\d,]+) characters: start=(\d+)", result.text)
            starts.append(int(more[2]) if more else len(text))
            assert int(more[1].replace(",", "") if more else 0) == len(text) - starts[-1]
        for start in (-1, len(text), 10**9):
            with pytest.raises(ToolError, match="start must be between 0 and 4999"):
                await used.run({"path": "long.txt", "goal": "the end", "start": start}, context)
    assert "".join(_shown(request) for request in model.requests) == text
    assert len(model.requests) == len(starts) - 1 == 5


def _shown(request: Request) -> str:
    """The text of which a side request asks."""
    return request.messages[0].text.removeprefix("Text:\n").rpartition("\n\nGoal: ")[0]


WORDS = "".join(
    f"<p>Number {number} of the paragraphs that are long enough to be the content of a page.</p>"
    for number in range(60)
)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("<title>Notes</title><p>The answer is 42.<p>More.", "# Notes\n\nThe answer is 42.\nMore."),
        ("<head><title>Notes</title><p>The answer is 42.<p>More.", "# Notes\n\nThe answer is 42.\nMore."),
        ("<head><meta name=a><title>T</title><style>x</style>\n words <b>here</b>", "# T\n\nwords here"),
        ("<head><noscript><img alt=x></noscript><title>T</title></head>words", "# T\n\nwords"),
        ("<head><title>Shop</title></head><body><svg><title>Cart</title></svg><p>words", "# Shop\n\nwords"),
        ("<body><svg><title>Cart</title></svg><title>Shop</title><p>words", "# Shop\n\nwords"),
        ("<p>a</p><pre>def f(x):\n    if x:\n\n\n\n\treturn  1</pre> b  c", "a\n\ndef f(x):\n    if x:\n\n\n\n\treturn  1\nb c"),
        ("<body><pre>    <b>a</b>  b\r        c</pre><p>d", "    a  b\n        c\n\nd"),
        ("<head><base href=//a.org/b/><base href=//c.org/></head><a href=d>e</a>", "[e](//a.org/b/d)"),
        ("<body><p>a</p><svg><title>Cart</title><path d=M0><p>b<section>c", "a\n\nb\nc"),
        ("<body><a href=//a.org><svg><style>g{}</style><g><path d=M0></a> b", "[](//a.org) b"),
        ("<body><div><svg><path d=M0></div>b <svg><g><text>c</text></g></svg>d", "b d"),
        ("<body><p>a</p><svg><style>g{}</style><path d=M0>b <a href=c>c</a>", "a\nb c"),
        ("<body><svg><foreignObject><p>a</p></foreignObject><text>b</text></svg><svg/>c", "c"),
        ("<body><p>a <noscript>b <a href=//c.org>c</a></noscript>d", "a b [c](//c.org)d"),
        ("<head><noscript><link href=x><style>y</style></noscript><title>T</title></head>words", "# T\n\nwords"),
        ("<head><title>T</title><noscript><p>Prices: 7</p></noscript></head><body>words", "# T\n\nPrices: 7\n\nwords"),
    ],
)  # fmt: skip
async def test_of_a_page_no_text_is_lost(page: str, text: str, tmp_path: Path):
    said = await read(tmp_path, f"<!doctype html><html>{page}".encode(), "a.html")
    assert said.partition("\n")[2].rpartition("\n[end ")[0] == text


@pytest.mark.parametrize(
    "part",
    [
        "<noscript><p>The price without scripts is 12 euros, as long as there are any.</p></noscript>",
        "<svg><path d=M0><p>The price beside the icon is 12 euros, as long as there are any.</p>",
        "<svg><path d=M0>The price beside the icon is 12 euros, as long as there are any.",
    ],
)
async def test_of_a_long_page_nothing_is_lost_for_a_reader_without_scripts(part: str, tmp_path: Path):
    said = await read(tmp_path, f"<!doctype html><html><body>{WORDS}{part}".encode(), "a.html")
    assert "Number 59 of the paragraphs" in said
    assert "is 12 euros" in said


@given(st.text("ab<&é \t\n"))
def test_preformatted_text_stays_as_it_is(text: str):
    page = f"<body><p>before</p><pre>|{html.escape(text)}|</pre><p>after"
    assert document_html.markdown(page, "") == f"before\n\n|{text}|\n\nafter"


async def test_a_link_that_is_no_address_stays_as_it_is(tmp_path: Path):
    page = f"<html><body>{WORDS}<p>And <a href='http://[x'>one</a>, <a name=y>two</a> and <a href='&#1;'>three</a> of them.</p>"
    assert "And [one](http://[x), two and " in await read(tmp_path, page.encode(), "a.html")


@pytest.mark.parametrize("words", ["", WORDS])
@pytest.mark.parametrize(("base", "link"), [("", "/a/page"), ("<base href=root/>", "/a/root/page")])
async def test_links_start_where_the_page_says(words: str, base: str, link: str, tmp_path: Path):
    page = f"<!doctype html><html><head>{base}<title>T</title></head><body>{words}<p>And <a href=page>a link</a> with more words after it.</p>"
    with Site({"/a/b": raw(page.encode(), "text/html")}) as site:
        async with FakeContext(tmp_path) as context:
            result = await fetch_tool(Guard(private=(site.host,))).run({"url": f"{site.url}/a/b"}, context)
    assert f"[a link]({site.url}{link})" in result.text


async def test_a_document_longer_than_its_reader_takes_says_so(tmp_path: Path):
    page = b"<html><body>" + b"words " * 700_000
    said = await read(tmp_path, page, "a.html", start=3_999_990)
    assert "[the document goes on for 199,999 characters, which are not read]" in said


@pytest.mark.parametrize("end", ["\r", "\r\n", "\n"])
async def test_lines_end_in_any_of_three_ways(end: str, tmp_path: Path):
    assert "name,qty\ntea,3\n\nrice,5" in await read(tmp_path, f"name,qty{end}tea,3{end}{end}rice,5".encode(), "a.csv")


@pytest.mark.parametrize(
    ("path", "words"), [("../x.pdf", "outside"), ("none.pdf", "there is no"), (".", "is a folder")]
)
async def test_a_path_that_is_no_file_of_the_workspace_is_refused(path: str, words: str, tmp_path: Path):
    async with FakeContext(tmp_path) as context:
        with pytest.raises(ToolError, match=words):
            await document_tool().run({"path": path}, context)
        with pytest.raises(ToolError, match="wrong arguments"):
            await document_tool().run({}, context)


async def test_a_document_of_the_web_is_read_by_fetch(tmp_path: Path):
    with Site({"/a": raw(pdf("from afar"), "application/octet-stream")}) as site:
        async with FakeContext(tmp_path) as context:
            result = await fetch_tool(Guard(private=(site.host,))).run({"url": f"{site.url}/a"}, context)
    assert "from afar" in result.text


@given(st.binary(max_size=300), st.sampled_from(["", "text/html", "image/png"]))
def test_any_bytes_have_a_kind_and_those_of_text_a_text(data: bytes, said: str):
    kind = document.kind_of(data, said)
    assert kind
    assert isinstance(document.decoded(data, "utf-8"), str)
    size = document.image_size(data)
    assert size is None or len(size) == 2


CHARSETS = st.sampled_from(sorted(module.name for module in pkgutil.iter_modules(encodings.__path__)))


@given(st.binary(max_size=300), CHARSETS | st.text(max_size=20), st.sampled_from(["", "text/plain"]))
def test_text_is_read_whatever_codec_is_said(data: bytes, charset: str, type: str):  # noqa: A002 - the word for it
    try:
        text = asyncio.run(document.text_of(data, type=type, charset=charset))
    except ToolError:
        return  # any other exception would fail the test
    assert text.encode().decode() == text
