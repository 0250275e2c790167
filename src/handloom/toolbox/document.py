"""Document: bytes from a file or from the web become text that a model can read, by what they are and not by what they are called."""

import asyncio
import codecs
import contextlib
import io
import re
import struct
import sys
import zipfile
from encodings import normalize_encoding
from encodings.aliases import aliases

from handloom.errors import ToolError
from handloom.tools.results import clean

SECONDS = 60.0
SNIFFED = 4_096
SHOWN_CHARS = 60  # of what a sender calls it
_META = re.compile(rb"""<meta[^>]+charset=["']?\s*([\w-]+)|<\?xml[^>]+encoding=["']([\w-]+)""", re.IGNORECASE)
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# The encodings of the web (https://encoding.spec.whatwg.org) by their names in Python, which knows others that are not of text, or slow.
_CODECS = {
    "ascii", "big5", "big5hkscs", "cp1250", "cp1251", "cp1252", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp866", "cp874", "cp932",
    "cp949", "cp950", "euc_jp", "euc_kr", "gb18030", "iso2022_jp", "iso8859_2", "iso8859_3", "iso8859_4", "iso8859_5", "iso8859_6", "iso8859_7",
    "iso8859_8", "iso8859_9", "iso8859_10", "iso8859_11", "iso8859_13", "iso8859_14", "iso8859_15", "iso8859_16", "koi8_r", "koi8_u", "latin_1",
    "mac_cyrillic", "mac_roman", "shift_jis", "tis_620", "utf_16", "utf_16_be", "utf_16_le", "utf_8", "utf_8_sig",
}  # fmt: skip
_TAG = re.compile(rb"<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE)
_BINARY = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")


async def text_of(data: bytes, *, type: str = "", charset: str = "", url: str = "") -> str:  # noqa: A002 - the word for it
    """The text of a document. `type` is what its sender calls it, `charset` what it says of the text, `url` where its links start.

    Raises: ToolError for what has no text, with what it is.
    """
    if not data.strip():
        return ""
    kind = kind_of(data, type)
    match kind:
        case "html":
            text = await _worked("html", decoded(data, charset).encode("utf-8", "replace"), url)
        case "pdf" | "docx" | "xlsx":
            text = await _worked(kind, data, url)
        case "text":
            text = decoded(data, charset)
        case _:
            size = image_size(data)
            shape = f", {size[0]} x {size[1]} pixels" if size else ""
            raise ToolError(f"this is {kind}{shape}, {len(data):,} bytes, and has no text to read")
    # A lone \r ends a line of a document; for `clean` it goes back to the start of one, as in a terminal.
    return clean(text.replace("\r\n", "\n").replace("\r", "\n"))


def kind_of(data: bytes, type: str = "") -> str:  # noqa: A002 - the word for it
    """`html`, `pdf`, `docx`, `xlsx`, `text`, or words for what else it is."""
    head = data[:SNIFFED]
    if head.lstrip()[:5] == b"%PDF-":
        return "pdf"
    if head[:4] == b"PK\x03\x04":
        return _zipped(data)
    for begin, name in ((b"\x89PNG", "a PNG image"), (b"\xff\xd8\xff", "a JPEG image"), (b"GIF8", "a GIF image")):
        if head.startswith(begin):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "a WebP image"
    if head[:2] not in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) and len(_BINARY.findall(head)) > len(head) // 100:
        return f"binary data{f' called {clean(type)[:SHOWN_CHARS]}' if type else ''}"
    return "html" if type in ("text/html", "application/xhtml+xml") or _begins_as_html(head) else "text"


def decoded(data: bytes, charset: str = "") -> str:
    """The text by its mark, by what is said of it, else UTF-8, else by a guess."""
    for mark, codec in _BOMS.items():
        if data.startswith(mark):
            return data.decode(codec, "replace")
    found = _META.search(data[:SNIFFED])
    said = (found[1] or found[2]).decode() if found else ""
    for name in (charset, said, "utf-8"):
        with contextlib.suppress(LookupError, UnicodeDecodeError):
            return data.decode(_codec(name or "utf-8"))
    with contextlib.suppress(LookupError):
        return data.decode(_codec(charset), "replace")
    return data.decode("utf-8" if _is_cut_utf8(data) else _guessed(data), "replace")


def _is_cut_utf8(data: bytes) -> bool:
    """Whether nothing is wrong with it as UTF-8 but that it ends within a character, of which it has others."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and not data[: error.start].isascii()
    return True


def image_size(data: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG, GIF, JPEG or WebP."""
    with contextlib.suppress(struct.error, IndexError):
        if data.startswith(b"\x89PNG"):
            return struct.unpack(">II", data[16:24])
        if data.startswith(b"GIF8"):
            return struct.unpack("<HH", data[6:10])
        if data[12:16] == b"VP8X":
            return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
        place = 2
        while data.startswith(b"\xff\xd8") and place + 9 < len(data):
            marker, length = data[place + 1], struct.unpack(">H", data[place + 2 : place + 4])[0]
            if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
                height, width = struct.unpack(">HH", data[place + 5 : place + 9])
                return width, height
            place += 2 + length
    return None


def _zipped(data: bytes) -> str:
    try:
        names = set(zipfile.ZipFile(io.BytesIO(data)).namelist())
    except (zipfile.BadZipFile, ValueError, OSError):
        return "a broken ZIP file"
    if "word/document.xml" in names:
        return "docx"
    return "xlsx" if "xl/workbook.xml" in names else f"a ZIP file of {len(names)} files"


def _begins_as_html(head: bytes) -> bool:
    """Whether a tag of HTML comes first, but for comments."""
    head = head.lstrip()
    while head.startswith(b"<!--"):
        head = head.partition(b"-->")[2].lstrip()
    return bool(_TAG.match(head))


def _codec(charset: str) -> str:
    """Python's name of an encoding of the web. Raises: LookupError for any other."""
    name = normalize_encoding(charset.lower())
    name = aliases.get(name, name)
    if name in ("gb2312", "gbk"):
        return "gb18030"  # what calls itself GB2312 is mostly the larger set
    if name not in _CODECS:
        raise LookupError(charset)
    return name


def _guessed(data: bytes) -> str:
    """A codec by what the bytes look like; Chinese first, since its common characters stand together and few bytes are enough to tell."""
    high = [byte for byte in data[:65_536] if byte > 0x7F]
    with contextlib.suppress(UnicodeDecodeError):
        data[:65_536].decode("gb2312", "strict" if len(data) <= 65_536 else "ignore")
        if sum(0xB0 <= byte <= 0xD7 for byte in high[::2]) > 0.7 * len(high[::2]):
            return "gb18030"
    try:
        import charset_normalizer
    except ImportError:
        return "cp1252"
    best = charset_normalizer.from_bytes(data[:65_536]).best()
    return best.encoding if best else "cp1252"


async def _worked(kind: str, data: bytes, url: str) -> str:
    """What the child makes of it. Raises: ToolError with the reason."""
    program = (sys.executable, "-P", "-m", "handloom.toolbox.document_worker", kind, url)
    pipe = asyncio.subprocess.PIPE
    child = await asyncio.create_subprocess_exec(*program, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    try:
        async with asyncio.timeout(SECONDS):
            out, said = await child.communicate(data)
    except TimeoutError:
        raise ToolError(f"the {kind} takes longer than {SECONDS:g} seconds to read and was given up") from None
    finally:
        if child.returncode is None:
            child.kill()
            await child.wait()
    if child.returncode == 0:
        return out.decode("utf-8", "replace")
    reason = (
        said.decode("utf-8", "replace")[-400:] if child.returncode == 3 else "its reader broke or used up its limits"
    )
    raise ToolError(f"the {kind} of {len(data):,} bytes was not read: {reason}")
