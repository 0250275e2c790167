"""What a model is shown of a file or a folder: lines with their numbers, two levels of names, or what else it is."""

import base64
import contextlib
import io
import itertools
import mimetypes
import os
from collections.abc import Iterable, Iterator
from typing import BinaryIO

from handloom.errors import ToolError
from handloom.messages import ImagePart, ToolResult
from handloom.noise import NOISE
from handloom.toolbox.text import Text
from handloom.toolbox.workspace_file import WorkspaceFile
from handloom.tools import results

SHOWN_CHARS = 32_000
EXCERPT_CHARS = 4_000
ENTRIES = 200
SCANNED = 10_000
PART_LINES = 200
LINE_CHARS = 10_000
IMAGE_BYTES = 5_000_000
IMAGES = {b"\x89PNG\r\n": "image/png", b"\xff\xd8\xff": "image/jpeg", b"GIF8": "image/gif"}
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def size_of(opened: BinaryIO) -> int:
    return os.fstat(opened.fileno()).st_size


def whole(text: Text, wanted: list[int] | None) -> str:
    """The lines with numbers, or those of the range. Raises: ToolError for a range that is none."""
    total = len(text.lines)
    if not total:
        return "(empty file)"
    first, last = _range(wanted or [1, total], total)
    shown = numbered(text.lines[first - 1 : last], first)
    note = f"\n(lines {first}-{last} of {total})" if (first, last) != (1, total) else ""
    return results.cut(shown, SHOWN_CHARS, where="give view_range") + note


def excerpt(text: Text, first: int, last: int) -> str:
    first = max(1, first)
    return results.cut(numbered(text.lines[first - 1 : last], first), EXCERPT_CHARS, where="view the file")


def part(file: WorkspaceFile, opened: BinaryIO, size: int, wanted: list[int] | None) -> str:
    """Some lines of a file that is too large to load."""
    start = opened.read(8192)
    wide = start.startswith(UTF16)
    if b"\0" in start and not wide:
        return f"{file} is binary, {size:,} bytes"
    opened.seek(0)
    first, last = _range(wanted or [1, PART_LINES], size)
    last = min(last, first + PART_LINES - 1)
    with io.TextIOWrapper(opened, "utf-16" if wide else "utf-8-sig", errors="replace") as reader:
        lines = list(itertools.islice(_bounded_lines(reader), first - 1, last))
    if not lines:
        raise ToolError(f"{file} ends before line {first}")
    note = f"\n(lines {first}-{first + len(lines) - 1} of a file of {size:,} bytes; give view_range for others)"
    return results.cut(numbered(lines, first), SHOWN_CHARS, where="give a smaller view_range") + note


def binary(file: WorkspaceFile, data: bytes) -> ToolResult:
    """What the file is; an image is shown to models that take images."""
    kind = next((mime for magic, mime in IMAGES.items() if data.startswith(magic)), None)
    if kind and len(data) <= IMAGE_BYTES:
        image = ImagePart(data=base64.b64encode(data).decode(), mime=kind)
        return ToolResult(text=f"{file} is an image ({kind}, {len(data):,} bytes)", images=(image,))
    guessed = mimetypes.guess_type(file.name)[0] or "type unknown"
    return ToolResult(text=f"{file} is binary ({guessed}, {len(data):,} bytes), not text; use Python to read it")


def folder(file: WorkspaceFile) -> str:
    """Two levels of names; folders end in `/`. Hidden and generated ones are left out."""
    names = list(_tree(file))
    shown = names[:ENTRIES]
    if len(names) > ENTRIES:
        shown.append(f"[... {len(names) - ENTRIES:,} or more left out; view a folder below ...]")
    return "\n".join(map(results.clean, shown)) or "(empty folder)"


def numbered(lines: Iterable[str], first: int) -> str:
    text = "\n".join(f"{number}\t{line}" for number, line in enumerate(lines, first))
    # An escape sequence of a file must not make lines of the view vanish.
    return results.clean(text.replace("\x1b", "\N{SYMBOL FOR ESCAPE}"))


def _range(wanted: list[int], total: int) -> tuple[int, int]:
    match wanted:
        case [first, last] if first <= total and (last in (-1, 0) or last >= first):
            return max(1, first), total if last in (-1, 0) else min(last, total)
        case _:
            raise ToolError(f"view_range {wanted}: give [first, last] with lines from 1 to {total}; -1 is the end")


def _bounded_lines(reader: io.TextIOWrapper) -> Iterator[str]:
    """Lines without their ends; of a longer one only the first `LINE_CHARS`."""
    while line := reader.readline(LINE_CHARS):
        rest = line
        while rest and not rest.endswith("\n"):
            rest = reader.readline(LINE_CHARS)
        yield line.removesuffix("\n")


def _tree(file: WorkspaceFile) -> Iterator[str]:
    for name, is_folder in _entries(file):
        yield name + "/" * is_folder
        if is_folder:
            yield from _below(WorkspaceFile(file.workspace, (*file.parts, name)))


def _below(file: WorkspaceFile) -> Iterator[str]:
    with contextlib.suppress(OSError):  # not ours to read, or gone by now
        yield from (f"{file.name}/{name}{'/' * is_folder}" for name, is_folder in _entries(file))


def _entries(file: WorkspaceFile) -> list[tuple[str, bool]]:
    """Names, with whether each is a folder."""
    with file.listing() as entries:
        kept = (entry for entry in entries if not entry.name.startswith(".") and entry.name not in NOISE)
        return sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in itertools.islice(kept, SCANNED))
