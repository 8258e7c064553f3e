"""Restricts a webhook's connections to the addresses that were checked.

`AddressGuard` judges a URL by the addresses that it resolves to, looked up once. If one of them is
out of bounds, none is used: an honest name has no mixture of allowed and refused addresses.

The guard pins the addresses for the attempt, and checks every socket once more by its address just
before it is opened. This defeats a name that resolves differently the second time, a redirect, and
a form of address that another parser reads differently.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from duly.domain.outbound_urls import Allowed, ConnectTarget, IpAddress, WebAddress, judge

if TYPE_CHECKING:
    from collections.abc import Iterable

ADDRESSES_MAX = 16
"""How many addresses of a name are tried."""

Lookup: TypeAlias = Callable[[str, int], Awaitable[list[str]]]
"""Return the addresses of a host; OSError when there are none."""

AddressInfo: TypeAlias = tuple[int | socket.AddressFamily, int | socket.SocketKind, int, str, Any]


class RefusedAddress(Exception):  # noqa: N818 - it says what happened
    """A webhook leads to where it may not go."""


async def look_up(host: str, port: int) -> list[str]:
    """Return the addresses of a host, as the operating system knows them."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP, flags=socket.AI_ADDRCONFIG
    )
    return [str(address[0]) for *_, address in found]


class AddressGuard:
    """Lets one attempt connect to its own address, and to nothing else."""

    def __init__(
        self, address: WebAddress, allowed: tuple[Allowed, ...], lookup: Lookup = look_up
    ) -> None:
        self._address = address
        self._allowed = allowed
        self._lookup = lookup
        self._checked: frozenset[IpAddress] = frozenset()

    async def resolve(self) -> list[IpAddress]:
        """Look the host up, once, and return its addresses; RefusedAddress if one is refused."""
        ip = self._address.ip
        if ip is not None:
            found = [ip]
        else:
            texts = await self._lookup(self._address.host, self._address.port)
            found = list(dict.fromkeys(_read_all(texts)))
        if not found:
            raise OSError("the name leads to no address")
        for one in found:
            self._check(one)
        self._checked = frozenset(found)
        return found[:ADDRESSES_MAX]

    def open_socket(self, info: AddressInfo) -> socket.socket:
        """Open a socket for an address that was checked; called just before connecting."""
        family, kind, protocol, _, address = info
        ip = _read(str(address[0]))
        self._check(ip, int(address[1]))
        if ip not in self._checked:
            raise RefusedAddress(f"{ip} is not what {self._address.host} led to")
        return socket.socket(family, kind, protocol)

    def _check(self, ip: IpAddress, port: int | None = None) -> None:
        place = ConnectTarget(self._address.host, ip, self._address.port if port is None else port)
        problem = judge(place, self._allowed)
        if problem is not None:
            leads = "is" if self._address.ip is not None else f"leads to {ip}, which is"
            raise RefusedAddress(f"{self._address.host} {leads} {problem}")


def _read_all(texts: Iterable[str]) -> list[IpAddress]:
    return [_read(text) for text in texts]


def _read(text: str) -> IpAddress:
    # A link-local address comes with its interface, which the rules know nothing about.
    return ipaddress.ip_address(text.partition("%")[0])
