"""forbid_network: a test that would leave the machine fails instead."""

import contextlib
import ipaddress
import socket
from collections.abc import Generator
from typing import Any


class NetworkForbiddenError(AssertionError):
    """A connection to anything but this machine was tried. An AssertionError, so that no handler of connection errors hides it."""


@contextlib.contextmanager
def forbid_network() -> Generator[None]:
    """Refuse every connection that is not to a loopback address or a unix socket, and every look-up of a name but localhost.

    Holds for this process and while the context lasts.
    """
    connect, connect_ex, look_up = socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo

    def checked_connect(self: socket.socket, address: Any) -> None:
        _check(self.family, address)
        connect(self, address)

    def checked_connect_ex(self: socket.socket, address: Any) -> int:
        _check(self.family, address)
        return connect_ex(self, address)

    def checked_look_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        if not _is_local(host):
            raise NetworkForbiddenError(f"look-up of {host!r}")
        return look_up(host, *args, **kwargs)

    socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo = (
        checked_connect,
        checked_connect_ex,
        checked_look_up,
    )  # pyright: ignore[reportAttributeAccessIssue]  # replaced for a while
    try:
        yield
    finally:
        socket.socket.connect, socket.socket.connect_ex, socket.getaddrinfo = connect, connect_ex, look_up  # pyright: ignore[reportAttributeAccessIssue]  # put back


def _check(family: int, address: Any) -> None:
    if family != socket.AF_UNIX and not _is_local(address[0]):
        raise NetworkForbiddenError(f"connection to {address[0]!r}")


def _is_local(host: Any) -> bool:
    name = host.decode() if isinstance(host, bytes) else host
    if name in (None, "", "localhost"):
        return True
    try:
        return ipaddress.ip_address(str(name).split("%")[0]).is_loopback
    except ValueError:
        return False
