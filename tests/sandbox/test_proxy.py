"""The way out with an allowlist: the proxy by itself, and through it from inside a sandbox."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from running import ran

from handloom.sandbox import Host, SandboxSettings, open_sandbox
from handloom.sandbox.addresses import public
from handloom.sandbox.proxy import Proxy, RefusedError, read_head

pytestmark = pytest.mark.anyio

ALLOWED = (
    Host(name="localhost", allow_private=True),
    Host(name="*.example.org"),
    Host(name="192.0.2.7"),
    Host(name="127.0.0.1"),
)


@contextlib.asynccontextmanager
async def service() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A web server that answers every request with `fine`; its port, and the heads it got."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nfine")
            await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1], heads


async def asked(proxy: Proxy, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    writer.write(request)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    return answer


async def test_a_listed_host_is_reached_by_both_ways_of_asking():
    proxy = await Proxy.listen(ALLOWED)
    async with service() as (port, heads):
        request = f"GET http://localhost:{port}/a?b=1 HTTP/1.1\r\nHost: localhost\r\nProxy-Connection: keep-alive\r\nConnection: keep-alive\r\n\r\n"
        assert (await asked(proxy, request.encode())).endswith(b"fine")
        assert heads == [b"GET /a?b=1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"]
        tunnel = f"CONNECT localhost:{port} HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"
        answer = await asked(proxy, tunnel.encode())
        assert answer.startswith(b"HTTP/1.1 200 Connection established\r\n\r\nHTTP/1.1 200 OK")
    await proxy.aclose()


@pytest.mark.parametrize(
    ("request_line", "words"),
    [
        (b"CONNECT example.com:443 HTTP/1.1", b"example.com is not among the hosts"),
        (b"CONNECT notexample.org:443 HTTP/1.1", b"notexample.org is not among"),
        (b"CONNECT 127.0.0.1:80 HTTP/1.1", b"127.0.0.1 is at 127.0.0.1, which is not a public address"),
        (b"CONNECT 192.0.2.7:80 HTTP/1.1", b"which is not a public address"),
        (b"CONNECT 2130706433:80 HTTP/1.1", b"is not among the hosts"),
        (b"CONNECT [::1]:80 HTTP/1.1", b"::1 is not among the hosts"),
        (b"GET https://localhost/ HTTP/1.1", b"only http and https go through here"),
        (b"GET file:///etc/passwd HTTP/1.1", b"only http and https"),
        (b"GET / HTTP/1.1", b"only http and https"),
        (b"CONNECT localhost:99999 HTTP/1.1", b"no request that a proxy understands"),
        (b"\xff\xfe", b"no request that a proxy understands"),
        (b"CONNECT localhost:1 HTTP/1.1", b"localhost:1 cannot be reached"),
    ],
)
async def test_anything_else_is_refused_with_the_reason(request_line: bytes, words: bytes):
    proxy = await Proxy.listen(ALLOWED)
    answer = await asked(proxy, request_line + b"\r\n\r\n")
    await proxy.aclose()
    assert answer.startswith(b"HTTP/1.1 403 Forbidden")
    assert words in answer


@given(st.binary(max_size=200))
def test_reading_a_head_gives_a_host_or_a_refusal(head: bytes):
    with contextlib.suppress(RefusedError):
        method, host, port, sent = read_head(head)
        assert method
        assert host
        assert 0 < port < 65_536
        assert sent.endswith(b"\r\nConnection: close\r\n\r\n")


@pytest.mark.parametrize(
    "address",
    [
        *(
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "192.0.2.1",
        ),
        *(
            "::1",
            "::",
            "fe80::1%eth0",
            "fc00::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "2002:7f00:1::",
            "64:ff9b::7f00:1",
            "64:ff9b::a00:1",
        ),
        *("64:ff9b:1::a00:1", "2001:db8::1", "nonsense", ""),
    ],
)
def test_an_address_that_is_not_public_is_known_in_any_spelling(address: str):
    assert not public(address)


@pytest.mark.parametrize(
    "address", ["1.1.1.1", "8.8.8.8", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]
)
def test_a_public_address_is_public(address: str):
    assert public(address)


async def test_from_inside_only_what_is_listed_is_reached(tmp_path: Path):
    (tmp_path / "ws").mkdir()
    settings = SandboxSettings(
        net="allowlist", allow=(Host(name="localhost", allow_private=True),), cache=tmp_path / "cache"
    )
    sandbox = await open_sandbox(tmp_path / "ws", settings)
    assert "listed hosts only" in sandbox.banner
    async with service() as (port, heads):
        fetch = (
            f"{sandbox.python} -c \"import urllib.request as r; print(r.urlopen('http://{{}}/', timeout=5).read())\""
        )
        assert await ran(sandbox, fetch.format(f"localhost:{port}")) == (0, "b'fine'")
        assert len(heads) == 1
        code, output = await ran(sandbox, fetch.format(f"127.0.0.1:{port}"))
        assert (code, "403" in output) == (1, True)
        code, output = await ran(sandbox, f"exec 3<>/dev/tcp/127.0.0.1/{port}")
        assert (code != 0, len(heads)) == (True, 1)
    assert (await ran(sandbox, "yes | head -c 1000000 | wc -c"))[1] == "1000000"
    await sandbox.aclose()
