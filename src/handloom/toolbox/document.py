"""Document: bytes from a file or from the web become text that a model can read, by what they are and not by what they are called."""

import asyncio
import codecs
import contextlib
import io
import re
import struct
import sys
import zipfile

from handloom.errors import ToolError
from handloom.tools.results import clean

SECONDS = 60.0
SNIFFED = 4_096
_META = re.compile(rb"""<meta[^>]+charset=["']?\s*([\w-]+)|<\?xml[^>]+encoding=["']([\w-]+)""", re.IGNORECASE)
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_TAG = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
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
            return clean(await _worked("html", decoded(data, charset).encode(), url))
        case "pdf" | "docx" | "xlsx":
            return clean(await _worked(kind, data, url))
        case "text":
            return clean(decoded(data, charset))
        case _:
            size = image_size(data)
            shape = f", {size[0]} x {size[1]} pixels" if size else ""
            raise ToolError(f"this is {kind}{shape}, {len(data):,} bytes, and has no text to read")


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
        return f"binary data{f' called {type}' if type else ''}"
    return "html" if type in ("text/html", "application/xhtml+xml") or _TAG.match(head) else "text"


def decoded(data: bytes, charset: str = "") -> str:
    """The text by its mark, by what is said of it, else UTF-8, else by a guess."""
    for mark, codec in _BOMS.items():
        if data.startswith(mark):
            return data.decode(codec, "replace")
    found = _META.search(data[:SNIFFED])
    said = (found[1] or found[2]).decode() if found else ""
    for name in (charset, said, "utf-8"):
        with contextlib.suppress(LookupError, UnicodeDecodeError, ValueError):
            # What calls itself GB2312 is mostly the larger set.
            return data.decode("gb18030" if name.lower() in ("gb2312", "gbk") else name or "utf-8")
    return data.decode(charset if _known(charset) else _guessed(data), "replace")


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


def _known(charset: str) -> bool:
    with contextlib.suppress(LookupError):
        return bool(charset and codecs.lookup(charset))
    return False


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
