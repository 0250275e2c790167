"""A program that runs to its end, with what it printed: for commands that are not part of a session."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from handloom.sandbox.sandbox import Sandbox, Stdio

OUTPUT = 4_000_000  # bytes of each stream that are kept


@dataclass(frozen=True)
class Ran:
    """How a program ended. `cut` says that it wrote more than is kept, `fate` why the sandbox ended it."""

    code: int
    out: str
    err: str
    cut: bool = False
    fate: str = ""


async def run_once(
    sandbox: Sandbox, argv: Sequence[str], *, env: Mapping[str, str] | None = None, most: int = OUTPUT
) -> Ran:
    """Run a program to its end; with it, or when the task is cancelled, all that it started is ended. Raises: SandboxError."""
    ends = [os.pipe(), os.pipe()]
    readers = [asyncio.ensure_future(_read(end, most)) for end, _ in ends]
    try:
        try:
            program = await sandbox.spawn(argv, stdio=Stdio(stdout=ends[0][1], stderr=ends[1][1]), env=env)
        finally:
            for _, end in ends:
                os.close(end)
        try:
            code = await program.wait()
        finally:
            # What it left in the background holds the pipes open, and nothing that the caller still needs.
            program.kill()
        (out, cut), (err, _) = await asyncio.gather(*readers)
        return Ran(code, out, err, cut, program.fate)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


async def _read(end: int, most: int) -> tuple[str, bool]:
    """The beginning of what comes through a pipe, and whether there was more; the rest is dropped, so that the writer does not wait."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(end, "rb", buffering=0)
    )
    kept = bytearray()
    cut = False
    try:
        while piece := await stream.read(65_536):
            room = most - len(kept)
            kept += piece[:room]
            cut = cut or len(piece) > room
    finally:
        transport.close()
    return kept.decode("utf-8", "replace"), cut
