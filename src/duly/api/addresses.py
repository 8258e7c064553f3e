"""From where a caller has come: by the connection, and behind a proxy by what the proxy says (A2).

Anybody can write an X-Forwarded-For. It is believed as far as those have written it whom the
operator has named, from the right to the left: each proxy adds who connected to it. Nobody is named
unless told, and then the address is that of the connection.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING

from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from starlette.requests import Request

Network = IPv4Network | IPv6Network
HEADER = "x-forwarded-for"
HOPS_MAX = 20
"""So many proxies are followed; whoever has more is known by the last of these."""
TEXT_LENGTH_MAX = 100
PROXIES_MAX = 100
_FIELD = "trust_proxy"
_REMEDY = "give the address of a proxy, or the network that yours are in: 10.0.0.5, 10.0.8.0/24"


def read_proxies(texts: Sequence[str]) -> tuple[Network, ...]:
    """Read whose word about addresses is taken; refuse what would be everybody's."""
    if len(texts) > PROXIES_MAX:
        remedy = f"give at most {PROXIES_MAX}, or the networks that they are in"
        raise UsageError(_FIELD, len(texts), "is more than can be trusted", remedy)
    return tuple(_read_network(text) for text in texts)


def caller_address(request: Request, proxies: Sequence[Network]) -> str | None:
    """Return the address that a request comes from; None where the connection has none."""
    client = request.scope.get("client")
    peer = None if client is None else _read_address(client[0])
    if peer is None:
        return None
    for hop in _hops(request.headers.getlist(HEADER)) if _is_one_of(peer, proxies) else ():
        said = _read_address(hop)
        if said is None:
            break  # not of a proxy's making: what is known is who has passed it on
        peer = said
        if not _is_one_of(peer, proxies):
            break
    return str(peer)


def _hops(values: Sequence[str]) -> Iterable[str]:
    """Return what proxies have written, the last of them first."""
    written = ",".join(values[-HOPS_MAX:])
    return reversed(written.rsplit(",", HOPS_MAX)[-HOPS_MAX:])


def _read_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address as connections and proxies tell it; some tell the port, too."""
    bare = text.strip()
    if len(bare) > TEXT_LENGTH_MAX:
        return None
    if bare.startswith("["):
        bare = bare[1:].partition("]")[0]
    elif bare.count(":") == 1:
        bare = bare.partition(":")[0]
    try:
        # Which of our own interfaces it came in by is nobody's address.
        found = ip_address(bare.partition("%")[0])
    except ValueError:
        return None
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return mapped or found


def _is_one_of(address: IPv4Address | IPv6Address, proxies: Sequence[Network]) -> bool:
    return any(address in one for one in proxies)


def _read_network(text: str) -> Network:
    try:
        found = ip_network(text.strip())
    except ValueError as error:
        raise UsageError(_FIELD, text, "is not an address or a network", _REMEDY) from error
    if found.prefixlen == 0:
        problem = "is everybody: then anybody says from where they come"
        raise UsageError(_FIELD, text, problem, _REMEDY)
    return found
