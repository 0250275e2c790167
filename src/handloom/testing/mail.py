"""MailServer: a mail server on this machine that takes messages and keeps them, for tests of what sends mail."""

import asyncio
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from types import TracebackType
from typing import Self


@dataclass(frozen=True)
class Received:
    """A message as it was handed in."""

    sender: str
    receivers: tuple[str, ...]
    message: EmailMessage


@dataclass
class MailServer:
    """Takes messages on a port of its own while the context lasts; `refuse` are receivers that it does not take.

    with MailServer() as server:
        ...  # send to server.host, server.port
    assert server.received[0].message["Subject"] == "hello"
    """

    refuse: frozenset[str] = frozenset()
    received: list[Received] = field(default_factory=list[Received])
    host: str = "127.0.0.1"
    port: int = 0
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop, repr=False)
    _thread: threading.Thread | None = field(default=None, repr=False)
    _talks: set["asyncio.Task[None]"] = field(default_factory=set["asyncio.Task[None]"], repr=False)

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, args=(ready,), daemon=True)
        self._thread.start()
        ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join(10)

    def _serve(self, ready: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._talk, self.host, self.port))
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.close()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One conversation, as RFC 5321 has it."""
        sender, receivers = "", list[str]()
        await _say(writer, "220 test")
        while line := await reader.readline():
            words = line.decode("utf-8", "replace").strip()
            match words.split(" ")[0].split(":")[0].upper():
                case "EHLO" | "HELO":
                    await _say(writer, "250-test\r\n250-8BITMIME\r\n250 SMTPUTF8")
                case "MAIL":
                    sender, receivers = _address(words), []
                    await _say(writer, "250 ok")
                case "RCPT" if _address(words) in self.refuse:
                    await _say(writer, "550 nobody of this name")
                case "RCPT":
                    receivers.append(_address(words))
                    await _say(writer, "250 ok")
                case "DATA":
                    await _say(writer, "354 go on")
                    self.received.append(Received(sender, tuple(receivers), await _data(reader)))
                    await _say(writer, "250 kept")
                case "RSET" | "NOOP":
                    await _say(writer, "250 ok")
                case "QUIT":
                    await _say(writer, "221 bye")
                    break
                case _:
                    await _say(writer, "502 not known here")
        writer.close()


async def _say(writer: asyncio.StreamWriter, words: str) -> None:
    writer.write(f"{words}\r\n".encode())
    await writer.drain()


async def _data(reader: asyncio.StreamReader) -> EmailMessage:
    lines: list[bytes] = []
    while (line := await reader.readline()) not in (b".\r\n", b""):
        lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
    return message_from_bytes(b"".join(lines), policy=policy.default)


def _address(words: str) -> str:
    return words.partition("<")[2].partition(">")[0]
