"""Which addresses are public, in any spelling: what a program inside may reach is decided by the address, after the name was resolved."""

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

_NAT64 = IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = IPv6Network("64:ff9b:1::/48")


def public(address: str) -> bool:
    """Whether the address belongs to the open internet; an IPv6 address that carries an IPv4 one is as public as that."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return all(_global(each) for each in _carried(parsed) or [parsed])


def _global(address: IPv4Address | IPv6Address) -> bool:
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


def _carried(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """IPv4 addresses to which this one is translated on its way."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    if address in _NAT64_LOCAL:
        found.append(IPv4Address("127.0.0.1"))  # whatever it means, it is local
    return [each for each in found if each is not None]


async def resolved(name: str, port: int) -> list[str]:
    """The addresses of a name, in the system's order. Raises: OSError when there are none."""
    found = await asyncio.get_running_loop().getaddrinfo(name, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
