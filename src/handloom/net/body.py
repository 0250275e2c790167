"""Body: what a server sends, unpacked piece by piece, so that a bomb of compressed bytes never grows beyond the limit."""

import zlib
from collections.abc import AsyncIterable

from handloom.errors import ToolError

ACCEPTED = "gzip, deflate"  # what can be unpacked with a bound
SHOWN_CHARS = 60  # of a name that was not accepted
_AUTO = 47  # gzip or zlib, told apart by the header
_GZIP = b"\x1f\x8b\x08"  # how a member of gzip begins: RFC 1952, where one may follow another


class Unpacker:
    """Unpacks up to a limit. `cut` says that there is more, or was to come when the packed bytes ended."""

    def __init__(self, encoding: str, most: int) -> None:
        self._names = [name.strip() for name in encoding.lower().split(",") if name.strip() not in ("", "identity")]
        self._most = most
        self._zlib: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage]  # the type has no public name
        self._after = b""  # the first bytes behind the end of a member, which tell whether another begins
        self._full = False
        self.data = bytearray()
        if len(self._names) > 1 or (self._names and self._names[0] not in ("gzip", "x-gzip", "deflate")):
            shown = encoding[:SHOWN_CHARS]
            raise ToolError(f"the server packs its answer as {shown!r}, though only {ACCEPTED} was accepted")

    @property
    def cut(self) -> bool:
        return self._full or (self._zlib is not None and not self._zlib.eof)

    def feed(self, piece: bytes) -> bool:
        """Take in a piece; false when nothing more is wanted. Raises: ToolError for broken data."""
        room = self._most - len(self.data)
        self.data += self._unpacked(piece, room + 1) if self._names else piece[: room + 1]
        if len(self.data) > self._most:
            self._full = True
            del self.data[self._most :]
        return not self._full

    def _unpacked(self, piece: bytes, room: int) -> bytearray:
        packed, out = self._after + piece, bytearray()
        try:
            while packed and len(out) < room:
                if self._zlib is None:
                    raw = self._names[0] == "deflate" and packed[0] & 0x0F != 8
                    self._zlib = zlib.decompressobj(-15 if raw else _AUTO)
                elif self._zlib.eof and packed.startswith(_GZIP):
                    self._zlib = zlib.decompressobj(_AUTO)
                elif self._zlib.eof:
                    break
                out += self._zlib.decompress(packed, room - len(out))
                packed = self._zlib.unused_data
        except zlib.error as error:
            raise ToolError(f"the server's packed answer is broken: {error}") from None
        self._after = packed[: len(_GZIP)]
        return out


async def read(pieces: AsyncIterable[bytes], encoding: str, most: int) -> tuple[bytes, bool]:
    """The unpacked body, at most `most` bytes of it, and whether it was cut. Raises: ToolError."""
    unpacker = Unpacker(encoding, most)
    async for piece in pieces:
        if not unpacker.feed(piece):
            break
    return bytes(unpacker.data), unpacker.cut
