"""The shell of `run` steps: a command in the run's sandbox, with the step's values as variables and bounded output."""

import asyncio
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass

from handloom.runs import Run
from handloom.sandbox.sandbox import Shared, Stdio

OUTPUT = 4_000_000  # bytes of each stream that are kept
LONGEST_VARIABLE = 16_000  # bytes; Linux refuses more than 128 kB in one variable, and 2 MB in all of them


@dataclass(frozen=True)
class Ran:
    """How a command ended. `cut` says that it wrote more than is kept, `fate` why the sandbox ended it."""

    code: int
    out: str
    err: str
    cut: bool = False
    fate: str = ""


async def shell(command: str, variables: Mapping[str, str], run: Run) -> Ran:
    """Run a command to its end; with it, or when the task is cancelled, all that it started is ended. Raises: SandboxError."""
    sandbox = await run.sandbox()
    ends = [os.pipe(), os.pipe()]
    readers = [asyncio.ensure_future(_read(end)) for end, _ in ends]
    try:
        try:
            stdio = Stdio(stdout=ends[0][1], stderr=ends[1][1])
            program = await sandbox.spawn(
                ["bash", "-c", command], stdio=stdio, env=_environment(variables, sandbox.shared)
            )
        finally:
            for _, end in ends:
                os.close(end)
        try:
            code = await program.wait()
        finally:
            # What the command left in the background holds the pipes open, and nothing that the step still needs.
            program.kill()
        (out, cut), (err, _) = await asyncio.gather(*readers)
        return Ran(code, out, err, cut, program.fate)
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)


def _environment(variables: Mapping[str, str], shared: Shared) -> dict[str, str]:
    """The variables of a command; a value that is too long for one is in a file, and `<name>_file` names it."""
    found: dict[str, str] = {}
    for name, text in variables.items():
        data = text.replace("\x00", "").encode("utf-8", "replace")
        if len(data) <= LONGEST_VARIABLE:
            found[name] = data.decode()
            continue
        path = f"value-{hashlib.sha256(data).hexdigest()[:16]}"
        (shared.outside / path).write_bytes(data)
        found[f"{name}_file"] = f"{shared.inside}/{path}"
    return found


async def _read(end: int) -> tuple[str, bool]:
    """The beginning of what comes through a pipe, and whether there was more; the rest is dropped, so that the writer does not wait."""
    stream = asyncio.StreamReader()
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(stream), os.fdopen(end, "rb", buffering=0)
    )
    kept = bytearray()
    cut = False
    try:
        while piece := await stream.read(65_536):
            room = OUTPUT - len(kept)
            kept += piece[:room]
            cut = cut or len(piece) > room
    finally:
        transport.close()
    return kept.decode("utf-8", "replace"), cut
