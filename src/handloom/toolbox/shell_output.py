"""Capture: what one command prints, read while it runs; a bounded part stays in memory, all of it goes to a file when it is long."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

PIECE = 65_536
KEPT = 65_536  # bytes of the head, and of the tail
DRAIN_READS = 2_000


@dataclass(frozen=True)
class Printed:
    """Head and tail of an output, and how many bytes between them were not kept."""

    head: bytes
    lost: int
    tail: bytes


class Capture:
    """The reading end of a named pipe of the command's own, so that a background job's output is known for what it is, however late it comes.

    `full` is set when more than `most` bytes came. While the command is being stopped the rest is read and dropped, for the shell itself must not meet a
    broken pipe; a background job does.
    """

    def __init__(self, pipe: Path, most: int) -> None:
        self.full = asyncio.Event()
        self.total = 0
        self._most = most
        self._in_background = False
        self._pipe = pipe
        os.mkfifo(pipe)
        pipe.chmod(0o666)  # the program may be another user's; the folder decides who comes here
        self._end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._head, self._tail = bytearray(), bytearray()
        self._spill: Path | None = None
        self._file: BinaryIO | None = None
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._end, self._ready)

    @property
    def closed(self) -> bool:
        """Whether nobody can write any more."""
        return self._end < 0

    @property
    def spilled(self) -> bool:
        """Whether the complete output is in the file."""
        return self._file is not None

    def spill_to(self, path: Path) -> None:
        """Where the complete output goes when it is longer than what is kept."""
        self._spill = path

    def drain(self) -> None:
        """Read what is in the pipe; a job that prints without end must not hold us."""
        for _ in range(DRAIN_READS):
            if not self._read():
                return

    def take(self) -> Printed:
        """What came so far; what comes later starts anew, and goes to no file."""
        head, tail = bytes(self._head), bytes(self._tail[-KEPT:])
        lost = self.total - len(head) - len(tail)
        self._head, self._tail, self.total = bytearray(), bytearray(), 0
        if self._file:
            self._file.close()
        self._file = self._spill = None
        return Printed(head, lost, tail)

    def close(self) -> None:
        self._hang_up()
        self._pipe.unlink(missing_ok=True)
        if self._file:
            self._file.close()
            self._file = None

    def leave_to_jobs(self) -> None:
        """The command has ended; go on reading what its jobs print. The pipe's name goes, who has it open keeps it."""
        self._pipe.unlink(missing_ok=True)
        self._in_background = True
        if self.full.is_set():
            self._hang_up()

    def _ready(self) -> None:
        for _ in range(16):  # then others have their turn
            if not self._read():
                return

    def _read(self) -> bool:
        if self._end < 0:
            return False
        try:
            data = os.read(self._end, PIECE)
        except BlockingIOError:
            return False
        if data and not self.full.is_set():
            self._add(data)
        if self.total > self._most:
            self.full.set()
        if not data or (self.full.is_set() and self._in_background):
            self._hang_up()
        return self._end >= 0

    def _hang_up(self) -> None:
        if self._end >= 0:
            self._loop.remove_reader(self._end)
            os.close(self._end)
            self._end = -1

    def _add(self, data: bytes) -> None:
        if self._spill is not None and self._file is None and self.total + len(data) > 2 * KEPT:
            self._file = self._spill.open("wb")
            self._file.write(self._head + self._tail)
        if self._file:
            self._file.write(data)
        self.total += len(data)
        space = KEPT - len(self._head)
        self._head += data[:space]
        self._tail += data[space:]
        if len(self._tail) > 4 * KEPT:
            del self._tail[:-KEPT]
