"""send_email delivers to a real server on this machine, and says what is wrong where it cannot."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from handloom.errors import ToolError
from handloom.testing.mail import MailServer as Post
from handloom.testing.tools import FakeContext
from handloom.toolbox.send_email import MailServer, email_tool

pytestmark = pytest.mark.anyio


async def send(post: Post, folder: Path, settings: dict[str, Any] | None = None, **arguments: Any) -> str:
    server = MailServer(host=post.host, port=post.port, sender="我 <me@example.org>", tls="none")
    tool = email_tool(replace(server, **(settings or {})))
    return (await tool.run(arguments, FakeContext(folder))).text


async def test_a_message_arrives_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "报告.md").write_text("# 报告\n.一行", encoding="utf-8")
    (tmp_path / "data.bin").write_bytes(b"\x00\xff" * 500)
    with Post() as post:
        said = await send(
            post,
            tmp_path,
            to="a@example.org, b@example.org",
            subject="报告 ready",
            body=".dot\n你好",
            attach=["报告.md", "data.bin"],
        )
    assert said == "sent to a@example.org, b@example.org with 报告.md, data.bin"
    (received,) = post.received
    assert (received.sender, received.receivers) == ("me@example.org", ("a@example.org", "b@example.org"))
    message = received.message
    assert (message["Subject"], message["To"]) == ("报告 ready", "a@example.org, b@example.org")
    body = message.get_body()
    assert body is not None
    assert body.get_content().replace("\r\n", "\n") == ".dot\n你好\n"
    text, data = message.iter_attachments()
    assert (text.get_filename(), text.get_content().replace("\r\n", "\n").strip()) == ("报告.md", "# 报告\n.一行")
    assert data.get_content() == b"\x00\xff" * 500


async def test_a_message_that_names_nobody_goes_to_the_one_of_the_settings(tmp_path: Path) -> None:
    with Post() as post:
        assert await send(post, tmp_path, {"to": ("boss@example.org",)}) == "sent to boss@example.org"
    assert post.received[0].receivers == ("boss@example.org",)


async def test_who_was_refused_is_told(tmp_path: Path) -> None:
    with Post(refuse=frozenset({"x@example.org"})) as post:
        said = await send(post, tmp_path, to=["a@example.org", "x@example.org"])
        assert said == "sent to a@example.org; the server refused x@example.org"
        with pytest.raises(ToolError, match=r"takes no message for x@example\.org"):
            await send(post, tmp_path, to="x@example.org")


async def test_receivers_may_have_names_and_stand_in_one_text(tmp_path: Path) -> None:
    with Post(refuse=frozenset({"li@example.org"})) as post:
        said = await send(
            post, tmp_path, to='"Bo, the boss" <bo@example.org>, Li Wei <li@example.org>; 李 <wei@example.org>'
        )
    assert said == 'sent to "Bo, the boss" <bo@example.org>, 李 <wei@example.org>; the server refused li@example.org'
    assert post.received[0].receivers == ("bo@example.org", "wei@example.org")


async def test_a_packed_file_is_not_called_what_is_in_it(tmp_path: Path) -> None:
    (tmp_path / "a.csv.gz").write_bytes(b"\x1f\x8b")
    with Post() as post:
        await send(post, tmp_path, to="a@example.org", attach=["a.csv.gz"])
    (attached,) = post.received[0].message.iter_attachments()
    assert attached.get_content_type() == "application/gzip"


@pytest.mark.parametrize(
    ("settings", "arguments", "reason"),
    [
        ({"host": ""}, {"to": "a@example.org"}, r"need \[email\] with host and from"),
        ({}, {}, "say who gets the message"),
        ({}, {"to": "nobody"}, "'nobody' is no address"),
        ({}, {"to": ["a@example.org\nBcc: b@example.org"]}, "is no address"),
        ({}, {"to": [f"a{at}@example.org" for at in range(51)]}, "51 receivers are too many"),
        ({}, {"to": "a@example.org", "attach": ["../secret"]}, "outside the workspace"),
        ({}, {"to": "a@example.org", "attach": ["/etc/passwd"]}, "outside the workspace"),
        ({}, {"to": "a@example.org", "attach": ["link"]}, "outside the workspace"),
        ({}, {"to": "a@example.org", "attach": ["none.md"]}, "none.md"),
        ({}, {"to": "a@example.org", "attach": ["."]}, "."),
        ({"user": "me", "password_env": "NO_SUCH"}, {"to": "a@example.org"}, "set the variable NO_SUCH"),
        ({"tls": "starttls"}, {"to": "a@example.org"}, "did not take the message: STARTTLS"),
        ({"port": 9}, {"to": "a@example.org"}, "cannot be reached"),
    ],
)
async def test_what_cannot_be_sent_is_told_and_nothing_is_sent(
    settings: dict[str, Any], arguments: dict[str, Any], reason: str, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (tmp_path / "secret").write_text("s")
    (work / "link").symlink_to("../secret")
    with Post() as post:
        with pytest.raises(ToolError, match=reason):
            await send(post, work, settings, **arguments)
        assert post.received == []


async def test_no_line_of_the_subject_becomes_a_header(tmp_path: Path) -> None:
    with Post() as post:
        await send(post, tmp_path, to="a@example.org", subject="hi\r\nBcc: b@example.org")
    (received,) = post.received
    assert received.receivers == ("a@example.org",)
    assert received.message["Bcc"] is None
