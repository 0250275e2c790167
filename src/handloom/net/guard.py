"""Guard: decides which address of the network may be reached, after its name was resolved and in whatever spelling it comes."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from urllib.parse import quote, urlsplit

from handloom import hosts
from handloom.errors import ToolError
from handloom.sandbox import addresses

SCHEMES = {"http": 80, "https": 443}
MOST_CHARS = 8_192  # of a URL
_CONTROL = re.compile("[\x00-\x20\x7f]")

Resolve = Callable[[str, int], Awaitable[list[str]]]


@dataclass(frozen=True)
class Place:
    """A checked http or https address. `target` is the path with its query; `url` is written without credentials and fragment."""

    scheme: str
    host: str
    port: int
    target: str

    @property
    def netloc(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == SCHEMES[self.scheme] else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{self.scheme}://{self.netloc}{self.target}"


@dataclass(frozen=True, kw_only=True)
class Guard:
    """Any public address is allowed, none other. A name is `example.org`, `*.example.org` for every name below it, either with `:port` behind it.

    `allow`, when it names any, allows these alone; `deny` wins over everything; `private` may be at addresses that are not public.
    `most_bytes` bounds a body after it was unpacked; `seconds` bounds a whole fetch, `idle` the wait for its next byte; `redirects` are followed.
    """

    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    most_bytes: int = 10_000_000
    seconds: float = 30.0
    idle: float = 15.0
    redirects: int = 5
    resolve: Resolve = addresses.resolved

    def trusting(self, *names: str) -> "Guard":
        """The same guard that also lets these names be at private addresses: a service that the person has set."""
        return replace(self, private=(*self.private, *names), allow=(*self.allow, *names) if self.allow else ())

    def place(self, url: str) -> Place:
        """The address in a URL. Raises: ToolError for what is not http or https, or not allowed by its name."""
        place = read_url(url)
        self.check_name(place.host, place.port)
        return place

    def check_name(self, host: str, port: int) -> None:
        """Raises: ToolError when the lists refuse the name."""
        if _listed(self.deny, host, port):
            raise ToolError(f"{host} is on the list of hosts that must not be reached (net.deny)")
        if self.allow and not _listed((*self.allow, *self.private), host, port):
            raise ToolError(f"{host} is not among the hosts that may be reached (net.allow)")

    async def addresses(self, host: str, port: int) -> list[str]:
        """Where the host is, each address checked: these are to be dialled, and no name is looked up again.

        Raises: ToolError when it is refused or unknown.
        """
        self.check_name(host, port)
        try:
            async with asyncio.timeout(self.idle):
                found = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise ToolError(f"{host}: the name cannot be resolved ({error or 'no answer in time'})") from None
        hidden = [address for address in found if not addresses.public(address)]
        if hidden and not _listed(self.private, host, port):
            raise ToolError(
                f"{host} is at {hidden[0]}, which is not a public address; a person can allow it with net.private"
            )
        if not found:
            raise ToolError(f"{host}: the name has no address")
        return found


def read_url(url: str) -> Place:
    """Raises: ToolError for what no http or https address is. Credentials in it are left out, never sent."""
    url = url.strip()
    if len(url) > MOST_CHARS:
        raise ToolError(f"the URL has {len(url):,} characters; the limit is {MOST_CHARS:,}")
    if _CONTROL.search(url):
        raise ToolError(f"the URL {url[:200]!r} holds spaces or control characters; write them as %20 and so on")
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme.lower(), parts.hostname or "", parts.port
    except ValueError as error:
        raise ToolError(f"{url[:200]!r} is no URL: {error}") from None
    if scheme not in SCHEMES:
        given = f"{scheme}: is not allowed" if scheme else "it has no scheme"
        raise ToolError(f"{url[:200]}: {given}; give an address that begins with https:// or http://")
    if not host or port == 0:
        raise ToolError(f"{url[:200]!r} names no host; write it like https://example.org/page")
    path = quote(parts.path or "/", safe="/%:@!$&'()*+,;=~-._")
    query = quote(parts.query, safe="/%:@!$&'()*+,;=~-._?")
    return Place(scheme, _ascii(host), port or SCHEMES[scheme], f"{path}{'?' + query if query else ''}")


def _ascii(host: str) -> str:
    """The name as it is looked up. Raises: ToolError."""
    try:
        return hosts.canonical(host)
    except UnicodeError as error:
        raise ToolError(f"{host!r} is no name of a host: {error}") from None


def _listed(names: tuple[str, ...], host: str, port: int) -> bool:
    return any(_fits(name, host, port) for name in names)


def _fits(name: str, host: str, port: int) -> bool:
    bare, colon, wanted = name.rpartition(":")
    if not (colon and wanted.isdecimal() and (":" not in bare or bare.endswith("]"))):
        bare, wanted = name, ""
    return (not wanted or int(wanted) == port) and hosts.covers(bare.strip("[]"), host)
