"""send_email: a message with files of the workspace, handed to the person's own mail server."""

import asyncio
import mimetypes
import os
import re
import smtplib
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate, make_msgid, parseaddr
from pathlib import Path
from typing import Literal

from handloom.errors import ToolError
from handloom.toolbox.workspace_file import WorkspaceFile
from handloom.tools.tool import Tool, ToolContext, tool

Tls = Literal["none", "starttls", "tls"]
MOST_FILES, MOST_BYTES = 20, 20_000_000
MOST_RECEIVERS = 50
UNKNOWN = "application/octet-stream"
PACKED = {"gzip": "application/gzip", "bzip2": "application/x-bzip2", "xz": "application/x-xz"}
_ADDRESS = re.compile(r'(?:"[^"]*"|[^,;])+')


@dataclass(frozen=True, kw_only=True)
class MailServer:
    """Where messages are handed in, and as whom. The password is in the variable `password_env`; `to` is who gets a message that names nobody."""

    host: str = ""
    port: int = 587
    sender: str = ""
    user: str = ""
    password_env: str = ""
    tls: Tls = "starttls"
    to: tuple[str, ...] = ()
    timeout: float = 60.0


def email_tool(server: MailServer) -> Tool:
    """The tool for a server."""

    @tool(effects={"external", "network_send"}, destinations=("to",))
    async def send_email(
        context: ToolContext,
        to: list[str] | str | None = None,
        subject: str = "",
        body: str = "",
        attach: list[str] | None = None,
    ) -> str:
        """Send an e-mail. `to`: addresses. `attach`: files of the workspace."""
        return await asyncio.to_thread(_send, server, context.workspace, to, subject, body, attach or [])

    return send_email


def _send(
    server: MailServer,
    workspace: Path,
    to: list[str] | str | None,
    subject: str,
    body: str,
    attach: Sequence[str],
) -> str:
    if not server.host or not server.sender:
        raise ToolError("no mail server is set: the settings need [email] with host and from")
    receivers = _receivers(to) or list(server.to)
    if not receivers:
        raise ToolError("say who gets the message: `to`, or email.to in the settings")
    for address in (*receivers, server.sender):
        _check_address(address)
    message = _message(server, receivers, subject, body)
    names = _attach(message, workspace, attach)
    refused = _deliver(server, message)
    if len(refused) == len(receivers):
        raise ToolError(f"the server {server.host} takes no message for {', '.join(refused)}")
    missed = f"; the server refused {', '.join(refused)}" if refused else ""
    files = f" with {', '.join(names)}" if names else ""
    taken = [one for one in receivers if parseaddr(one)[1] not in refused]
    return f"sent to {', '.join(taken)}{files}{missed}"


def _receivers(to: list[str] | str | None) -> list[str]:
    """Each receiver as written; a text may name several, and a name in quotes may hold a comma."""
    given = to if isinstance(to, list) else [to or ""]
    parts = [part.strip() for text in given for part in _ADDRESS.findall(text)]
    return list(dict.fromkeys(part for part in parts if part))


def _check_address(address: str) -> None:
    name, plain = parseaddr(address)
    user, at, host = plain.rpartition("@")
    if not (at and user and host) or any(sign in address for sign in "\r\n") or (name and plain not in address):
        raise ToolError(f"{address!r} is no address; write name@example.org")


def _message(server: MailServer, receivers: Sequence[str], subject: str, body: str) -> EmailMessage:
    if len(receivers) > MOST_RECEIVERS:
        raise ToolError(f"{len(receivers)} receivers are too many, at most {MOST_RECEIVERS}")
    message = EmailMessage()
    message["From"] = server.sender
    message["To"] = ", ".join(receivers)
    message["Subject"] = " ".join(subject.split())
    message["Date"] = formatdate(localtime=True)
    message["Message-ID"] = make_msgid(domain=server.sender.rpartition("@")[2].strip("> ") or None)
    message.set_content(body if body.endswith("\n") else f"{body}\n")
    return message


def _attach(message: EmailMessage, workspace: Path, attach: Sequence[str]) -> list[str]:
    """Put files into the message; their names. Raises: ToolError for what is no file of the workspace."""
    if len(attach) > MOST_FILES:
        raise ToolError(f"{len(attach)} files are too many, at most {MOST_FILES}; pack them into one")
    total = 0
    names: list[str] = []
    for path in attach:
        file = WorkspaceFile.at(workspace, path)
        try:
            with file.reading() as opened:
                data = opened.read(MOST_BYTES + 1)
        except OSError as error:
            raise ToolError(f"{path} cannot be attached: {error.strerror}") from None
        total += len(data)
        if total > MOST_BYTES:
            raise ToolError(f"the files are too large together, at most {MOST_BYTES // 1_000_000} MB")
        kind, packed = mimetypes.guess_type(file.name)
        kind = PACKED.get(packed, UNKNOWN) if packed else kind or UNKNOWN
        main, _, sub = kind.partition("/")
        charset = {"charset": "utf-8"} if main == "text" else None  # what the tools of handloom write is UTF-8
        message.add_attachment(data, maintype=main, subtype=sub, filename=file.name, params=charset)
        names.append(str(file))
    return names


def _deliver(server: MailServer, message: EmailMessage) -> list[str]:
    """Hand the message in; who was refused. Raises: ToolError."""
    try:
        with _connected(server) as connection:
            if server.user:
                password = os.environ.get(server.password_env, "") if server.password_env else ""
                if not password:
                    raise ToolError(
                        f"the password for {server.user} is missing: set the variable {server.password_env or 'that email.password_env names'}"
                    )
                connection.login(server.user, password)
            return list(connection.send_message(message))
    except smtplib.SMTPRecipientsRefused as error:
        return list(error.recipients)
    except smtplib.SMTPAuthenticationError:
        raise ToolError(f"{server.host} does not take the password of {server.user}") from None
    except smtplib.SMTPException as error:
        raise ToolError(f"{server.host} did not take the message: {error}") from None
    except OSError as error:
        raise ToolError(f"the mail server {server.host}:{server.port} cannot be reached: {error}") from None


def _connected(server: MailServer) -> smtplib.SMTP:
    if server.tls == "tls":
        return smtplib.SMTP_SSL(server.host, server.port, timeout=server.timeout, context=ssl.create_default_context())
    connection = smtplib.SMTP(server.host, server.port, timeout=server.timeout)
    if server.tls == "starttls":
        try:
            connection.starttls(context=ssl.create_default_context())
        except BaseException:
            connection.close()
            raise
    return connection
