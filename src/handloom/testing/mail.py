"""MailServer: a mail server on this machine that takes messages and keeps them, for tests of what sends mail."""

import socket
import threading
from contextlib import suppress
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import EmailMessage
from socketserver import StreamRequestHandler, ThreadingTCPServer
from typing import Self


@dataclass(frozen=True)
class Received:
    """A message as it was handed in."""

    sender: str
    receivers: tuple[str, ...]
    message: EmailMessage


class MailServer:
    """Takes messages on a port of its own while the context lasts; `refuse` are receivers that it does not take.

    with MailServer() as server:
        ...  # send to server.host, server.port
    assert server.received[0].message["Subject"] == "hello"

    Each conversation has a thread; leaving the context ends them all.
    """

    def __init__(self, refuse: frozenset[str] = frozenset()) -> None:
        self.refuse = refuse
        self.received: list[Received] = []
        self._server = _Listener(self)
        self.host, self.port = "127.0.0.1", int(self._server.server_address[1])
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.hang_up()
        self._server.server_close()


class _Listener(ThreadingTCPServer):
    request_queue_size = 128

    def __init__(self, post: MailServer) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.post = post
        self.talking: set[socket.socket] = set()

    def hang_up(self) -> None:
        """End the conversations that go on, so that nobody waits for a client that says nothing."""
        for each in list(self.talking):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


class _Conversation(StreamRequestHandler):
    """One conversation, as RFC 5321 has it."""

    server: _Listener  # pyright: ignore[reportIncompatibleVariableOverride]  # always the one that made it

    def handle(self) -> None:
        self.server.talking.add(self.connection)
        with suppress(OSError):  # the client went away: what it had handed in is kept
            self._talk()
        self.server.talking.discard(self.connection)

    def _talk(self) -> None:
        post, sender, receivers = self.server.post, "", list[str]()
        self._say("220 test")
        while line := self.rfile.readline():
            words = line.decode("utf-8", "replace").strip()
            match words.split(" ")[0].split(":")[0].upper():
                case "EHLO" | "HELO":
                    self._say("250-test\r\n250-8BITMIME\r\n250 SMTPUTF8")
                case "MAIL":
                    sender, receivers = _address(words), []
                    self._say("250 ok")
                case "RCPT" if _address(words) in post.refuse:
                    self._say("550 nobody of this name")
                case "RCPT":
                    receivers.append(_address(words))
                    self._say("250 ok")
                case "DATA":
                    self._say("354 go on")
                    post.received.append(Received(sender, tuple(receivers), self._message()))
                    self._say("250 kept")
                case "RSET" | "NOOP":
                    self._say("250 ok")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("502 not known here")

    def _say(self, words: str) -> None:
        self.wfile.write(f"{words}\r\n".encode())

    def _message(self) -> EmailMessage:
        lines: list[bytes] = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return message_from_bytes(b"".join(lines), policy=policy.default)


def _address(words: str) -> str:
    return words.partition("<")[2].partition(">")[0]
