"""Body: what a server sends, unpacked piece by piece, so that a bomb of compressed bytes never grows beyond the limit."""

import zlib
from collections.abc import AsyncIterable

from handloom.errors import ToolError

ACCEPTED = "gzip, deflate"  # what can be unpacked with a bound
_AUTO = 47  # gzip or zlib, told apart by the header


class Unpacker:
    """Unpacks up to a limit. `cut` says that there was more."""

    def __init__(self, encoding: str, most: int) -> None:
        self._names = [name.strip() for name in encoding.lower().split(",") if name.strip() not in ("", "identity")]
        self._most = most
        self._zlib: zlib._Decompress | None = None  # pyright: ignore[reportPrivateUsage]  # the type has no public name
        self.data = bytearray()
        self.cut = False
        if len(self._names) > 1 or (self._names and self._names[0] not in ("gzip", "x-gzip", "deflate")):
            raise ToolError(f"the server packs its answer as {encoding!r}, though only {ACCEPTED} was accepted")

    def feed(self, piece: bytes) -> bool:
        """Take in a piece; false when nothing more is wanted. Raises: ToolError for broken data."""
        room = self._most - len(self.data)
        self.data += self._unpacked(piece, room + 1) if self._names else piece[: room + 1]
        if len(self.data) > self._most:
            self.cut = True
            del self.data[self._most :]
        return not self.cut

    def _unpacked(self, piece: bytes, room: int) -> bytes:
        if self._zlib is None:
            raw = self._names[0] == "deflate" and (piece[:1] or b"x")[0] & 0x0F != 8
            self._zlib = zlib.decompressobj(-15 if raw else _AUTO)
        try:
            return self._zlib.decompress(piece, room)
        except zlib.error as error:
            raise ToolError(f"the server's packed answer is broken: {error}") from None


async def read(pieces: AsyncIterable[bytes], encoding: str, most: int) -> tuple[bytes, bool]:
    """The unpacked body, at most `most` bytes of it, and whether it was cut. Raises: ToolError."""
    unpacker = Unpacker(encoding, most)
    async for piece in pieces:
        if not unpacker.feed(piece):
            break
    return bytes(unpacker.data), unpacker.cut
