"""MailServer: takes what comes, from many at once, and waits for nobody when it is left."""

import smtplib
import socket
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage

from handloom.testing.mail import MailServer


def send(server: MailServer, number: int) -> None:
    message = EmailMessage()
    message["Subject"], message["From"], message["To"] = f"第 {number}", "a@example.org", "b@example.org"
    message.set_content(".\n..\n")
    with smtplib.SMTP(server.host, server.port, timeout=60) as client:
        client.send_message(message, mail_options=["SMTPUTF8"])


def test_many_may_come_at_once() -> None:
    with MailServer() as server, ThreadPoolExecutor(30) as clients:
        list(clients.map(lambda number: send(server, number), range(60)))
    assert {received.message["Subject"] for received in server.received} == {f"第 {number}" for number in range(60)}
    assert {str(received.message.get_content()).replace("\r\n", "\n") for received in server.received} == {".\n..\n"}


def test_a_client_that_says_nothing_is_left() -> None:
    with MailServer() as server:
        silent = socket.create_connection((server.host, server.port))
        assert silent.recv(100).startswith(b"220")
    assert silent.recv(100) == b""
    silent.close()
