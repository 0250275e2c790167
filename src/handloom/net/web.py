"""Fetching from the web: a request that is sent to a checked address alone, its redirects followed by hand, its answer bounded."""

import asyncio
import contextlib
import email.utils
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin

from handloom.errors import ToolError
from handloom.net import body
from handloom.net.guard import Guard, Place, read_url

if TYPE_CHECKING:
    import httpcore2

AGENT = "Mozilla/5.0 (compatible; handloom)"
REDIRECTS = {301, 302, 303, 307, 308}
BUSY = {429, 503}
LONGEST_WAIT = 10.0  # seconds that a server may ask us to wait before the one further try


@dataclass(frozen=True, kw_only=True)
class Response:
    """An answer, whatever its status. `cut` says that the body was longer than the guard allows; `notes` what happened on the way."""

    url: str
    status: int
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    body: bytes = b""
    cut: bool = False
    notes: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The media type, in lower case and without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()


async def get(url: str, guard: Guard, *, headers: Mapping[str, str] | None = None) -> Response:
    """The answer to a GET, after redirects. Raises: ToolError that says why there is none."""
    return await request("GET", url, guard, headers=headers)


async def request(
    method: str, url: str, guard: Guard, *, headers: Mapping[str, str] | None = None, content: bytes = b""
) -> Response:
    """The answer, after at most `guard.redirects` redirects, each checked like the first address. Raises: ToolError."""
    notes: list[str] = []
    if "@" in url.partition("://")[2].partition("/")[0]:
        notes.append("the user name and password in the URL were left out")
    ends = time.monotonic() + guard.seconds
    try:
        async with asyncio.timeout(guard.seconds):
            place, waited = guard.place(url), False
            sent = {**_usual(), **(headers or {})}
            for _ in range(guard.redirects + 2):
                answer = await _once(method, place, guard, sent, content)
                wait = retry_after(answer.headers)
                if answer.status in BUSY and wait is not None and not waited and wait < _room(ends):
                    waited = True
                    await asyncio.sleep(wait)
                    continue
                target = answer.headers.get("location", "") if answer.status in REDIRECTS else ""
                if not target:
                    return _noted(answer, notes)
                if sum(note.startswith("redirected") for note in notes) >= guard.redirects:
                    break
                before, place = place, _redirected(place, target, guard)
                notes.append(f"redirected to {place.url}")
                # As browsers do. What was meant for one server, a key above all, is not for another.
                if answer.status == 303 or (answer.status in {301, 302} and method == "POST"):
                    method, content = "GET", b""
                if (before.scheme, before.host, before.port) != (place.scheme, place.host, place.port):
                    sent = _usual()
                    if content:
                        raise ToolError(
                            f"{url[:200]} sends what it was given on to {place.url[:200]}, which is refused"
                        )
    except TimeoutError:
        raise ToolError(f"{url[:200]}: no complete answer within {guard.seconds:g} seconds") from None
    raise ToolError(f"{url[:200]}: more than {guard.redirects} redirects, the last to {place.url[:200]}")


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds for which a busy server asks, as a number or a date."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    return None


def _room(ends: float) -> float:
    return min(LONGEST_WAIT, ends - time.monotonic() - 1)


def _usual() -> dict[str, str]:
    return {
        "User-Agent": AGENT,
        "Accept": "text/html,application/xhtml+xml,application/json;q=0.9,*/*;q=0.8",
        "Accept-Encoding": body.ACCEPTED,
    }


def _redirected(place: Place, target: str, guard: Guard) -> Place:
    """Raises: ToolError when the next address may not be reached."""
    try:
        # Servers send addresses as bytes, which were read as Latin-1.
        target = target.encode("latin-1").decode("utf-8", "replace")
        return guard.place(urljoin(place.url, target).replace(" ", "%20"))
    except (ToolError, ValueError) as error:
        raise ToolError(f"{place.url[:200]} redirects to {target[:200]}, which is refused: {error}") from None


def _noted(answer: Response, notes: Iterable[str]) -> Response:
    return Response(
        url=answer.url,
        status=answer.status,
        headers=answer.headers,
        body=answer.body,
        cut=answer.cut,
        notes=tuple(notes),
    )


async def _once(method: str, place: Place, guard: Guard, headers: Mapping[str, str], content: bytes) -> Response:
    """One request to one place. Raises: ToolError."""
    import httpcore2

    url = httpcore2.URL(scheme=place.scheme, host=place.host, port=place.port, target=place.target)
    waits = {"connect": guard.idle, "read": guard.idle, "write": guard.idle, "pool": guard.idle}
    sent = [("Host", place.netloc), *headers.items()]
    if content:
        sent.append(("Content-Length", str(len(content))))
    try:
        async with (
            httpcore2.AsyncConnectionPool(ssl_context=_tls(), network_backend=_dialer(guard)) as pool,
            pool.stream(method, url, headers=sent, content=content or None, extensions={"timeout": waits}) as answer,
        ):
            found = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in answer.headers}
            if answer.status in REDIRECTS and found.get("location"):
                return Response(url=place.url, status=answer.status, headers=found)
            data, cut = await body.read(answer.aiter_stream(), found.get("content-encoding", ""), guard.most_bytes)
            return Response(url=place.url, status=answer.status, headers=found, body=data, cut=cut)
    except httpcore2.TimeoutException:
        raise ToolError(f"{place.url[:200]}: nothing came for {guard.idle:g} seconds") from None
    except (httpcore2.NetworkError, httpcore2.ProtocolError, ssl.SSLError, OSError) as error:
        raise ToolError(f"{place.url[:200]}: {_reason(error)}") from None


def _reason(error: BaseException) -> str:
    said = str(error) or type(error).__name__
    if "certificate" in said.lower() or isinstance(error, ssl.SSLError):
        return f"the encrypted connection failed, and is not made without a valid certificate: {said}"
    return f"the connection failed: {said}"


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """The system's certificates, and those that `SSL_CERT_FILE` names."""
    import httpcore2

    return httpcore2.default_ssl_context()


def _dialer(guard: Guard) -> "httpcore2.AsyncNetworkBackend":
    """A network that connects to the addresses which the guard has checked, and looks no name up again."""
    import httpcore2

    system: Any = httpcore2.AnyIOBackend()

    class Dialer(httpcore2.AsyncNetworkBackend):
        async def connect_tcp(self, host: str, port: int, *args: Any, **options: Any) -> httpcore2.AsyncNetworkStream:
            problem: Exception = OSError("no address")
            for address in await guard.addresses(host, port):
                try:
                    return await system.connect_tcp(address, port, *args, **options)
                except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                    problem = error
            raise problem

    return Dialer()


__all__ = ["Guard", "Place", "Response", "get", "read_url", "request", "retry_after"]
