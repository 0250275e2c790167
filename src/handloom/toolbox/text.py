"""Text: what a text file holds, with the encoding and the line endings to write it back with."""

import bisect
import codecs
import dataclasses
import difflib
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Self

BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
NEAR_LINES = 5_000
NEAR_CHARS = 300
_ENDING = re.compile(r"\r\n|\r|\n")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_BINARY = re.compile(rb"[\x00-\x07\x0e-\x1a\x1c-\x1f]")


@dataclass(frozen=True)
class Text:
    r"""`content` has the file's own line endings; `plain` has only `\n`, as a model writes it."""

    content: str
    codec: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def decoded(cls, data: bytes) -> Self | None:
        """The text of the bytes, such that `encoded` gives the same bytes; None when they are no text."""
        for bom, codec in BOMS:
            if data.startswith(bom):
                content = _decoded(data[len(bom) :], codec)
                return None if content is None else cls(content, codec, bom)
        if b"\0" in data:
            return None
        if (content := _decoded(data, "utf-8")) is not None:
            return cls(content)
        if _BINARY.search(data):
            return None
        if (content := _decoded(data, "cp1252")) is not None:
            return cls(content, "cp1252")
        return cls(data.decode("latin-1"), "latin-1")

    def encoded(self) -> bytes:
        """Raises: UnicodeEncodeError when the file's encoding has no place for a character."""
        return self.bom + self.content.encode(self.codec)

    @cached_property
    def plain(self) -> str:
        return _ENDING.sub("\n", self.content)

    @cached_property
    def lines(self) -> list[str]:
        """The lines of `plain`, without their ends."""
        return self.plain.removesuffix("\n").split("\n") if self.content else []

    def line_at(self, place: int) -> int:
        """The number, from 1, of the line that holds this place of `plain`."""
        return self.plain.count("\n", 0, place) + 1

    def places(self, old: str, limit: int) -> list[int]:
        """Where `old` begins in `plain`, at most `limit` of them; they may overlap."""
        found: list[int] = []
        place = self.plain.find(old)
        while place >= 0 and len(found) < limit:
            found.append(place)
            place = self.plain.find(old, place + 1)
        return found

    def replaced(self, place: int, old: str, new: str) -> Self:
        """`new` in place of `old`, with the line ending that is in use there."""
        start, end = self._raw(place), self._raw(place + len(old))
        fresh = new.replace("\n", self._ending(start))
        return dataclasses.replace(self, content=self.content[:start] + fresh + self.content[end:])

    def inserted(self, after: int, new: str) -> Self:
        """`new` as lines of its own behind line `after`; a file without a final line ending stays without."""
        raw = _LINE.findall(self.content)
        head, tail = "".join(raw[:after]), "".join(raw[after:])
        ending = self._ending(len("".join(raw[: max(0, after - 1)])))
        fresh = new.removesuffix("\n").replace("\n", ending)
        unended = head and not head.endswith(("\r", "\n"))
        return dataclasses.replace(self, content=head + (ending + fresh if unended else fresh + ending) + tail)

    def spaced_otherwise(self, old: str) -> tuple[int, int] | None:
        """The first and last line, from 1, of what differs from `old` in nothing but whitespace."""
        wanted = _squeezed(old.strip("\n").split("\n"))
        here = _squeezed(self.lines)
        place = f"\n{here}\n".find(f"\n{wanted}\n") if wanted.strip() else -1
        if place < 0:
            return None
        first = here.count("\n", 0, place) + 1
        return first, first + wanted.count("\n")

    def near(self, old: str, count: int) -> list[int]:
        """The numbers, from 1, of the lines most like the first line of `old` that says something."""
        wanted = next((line.strip() for line in old.split("\n") if line.strip()), "")[:NEAR_CHARS]
        here = {line.strip()[:NEAR_CHARS]: number for number, line in reversed(list(self._numbered()))}
        return sorted(here[line] for line in difflib.get_close_matches(wanted, here, count))

    def _numbered(self) -> Iterator[tuple[int, str]]:
        return itertools.islice(enumerate(self.lines, 1), NEAR_LINES)

    @cached_property
    def _long_endings(self) -> list[int]:
        """Where in `plain` the line endings are that take two characters in `content`."""
        return [found.start() - number for number, found in enumerate(re.finditer("\r\n", self.content))]

    def _raw(self, place: int) -> int:
        return place + bisect.bisect_left(self._long_endings, place)

    def _ending(self, start: int) -> str:
        """The first line ending from `start` on, else the first of all."""
        found = _ENDING.search(self.content, start) or _ENDING.search(self.content)
        return found[0] if found else "\n"


def plain(text: str) -> str:
    r"""The text with `\n` as its only line ending."""
    return _ENDING.sub("\n", text)


def _decoded(data: bytes, codec: str) -> str | None:
    try:
        return data.decode(codec)
    except UnicodeDecodeError:
        return None


def _squeezed(lines: list[str]) -> str:
    return "\n".join(" ".join(line.split()) for line in lines)
