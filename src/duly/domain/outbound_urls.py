"""Addresses that webhooks may be sent to: what a URL says, and which networks are out of bounds.

The functions are pure and look up no names. The sender that connects resolves a name and passes
each of its addresses to `judge`.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, TypeAlias

from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable

IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
IpNetwork: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

URL_LENGTH_MAX = 2_000
HOST_LENGTH_MAX = 253
ALLOWED_MAX = 1_000
PORTS_DEFAULT = frozenset({80, 443, *range(8000, 9000)})
MAIL_PORTS = frozenset({25, 465, 587, 2525})
_SCHEME_PORTS = {"http": 80, "https": 443}

_URL = re.compile(r"(https?)://([^/?#]*)([/?][^#]*)?", re.IGNORECASE)
_AUTHORITY = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[^:\[\]]+)(?::([0-9]{1,5}))?")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_ESCAPES = re.compile(r"%(?![0-9A-Fa-f]{2})")
_AMBIGUOUS = frozenset("ßς\u200c\u200d")
"""Letters of which two standards make two different names."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A checked URL, in its plainest form."""

    scheme: str
    host: str
    """In lower case and ASCII; an IPv6 address without its brackets."""
    port: int
    target: str
    """The path and the query."""

    @property
    def ip(self) -> IpAddress | None:
        """The address that its host is, if it is not a name."""
        return _ip(self.host)

    @property
    def origin(self) -> str:
        """Where it leads, without path and query: those may hold what is not for everybody."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    @property
    def place(self) -> str:
        """Who is called, whatever for: the host, and the port unless it is the usual one."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _SCHEME_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def text(self) -> str:
        """The URL to ask for; the usual port is left out, as receivers expect it."""
        return f"{self.scheme}://{self.place}{self.target}"


def read_web_address(field: str, text: object) -> WebAddress:
    """Read a URL strictly: what two programs could read in two ways is refused."""
    require_text(field, text, URL_LENGTH_MAX)
    assert isinstance(text, str), "just checked"
    if any(one.isspace() or not one.isprintable() or one == "\\" for one in text):
        remedy = "write them as %20 and the like"
        raise UsageError(field, text, "holds blanks, backslashes or control characters", remedy)
    parts = _URL.fullmatch(text)
    if parts is None:
        remedy = "give http or https, as in https://example.com/hook, and no #fragment"
        raise UsageError(field, _without_login(text), "is not a web address", remedy)
    scheme, authority, target = parts[1].lower(), parts[2], parts[3] or "/"
    if "@" in authority:
        remedy = "put it into a header: headers={'Authorization': duly.secret(…)}"
        raise UsageError(field, _without_login(text), "holds a user or a password", remedy)
    if _ESCAPES.search(target):
        raise UsageError(field, text, "holds a % that escapes nothing", "write it as %25")
    place = _AUTHORITY.fullmatch(authority)
    if place is None:
        remedy = "give a host and perhaps a port, as in https://example.com:8443/hook"
        raise UsageError(field, text, "names no host", remedy)
    port = int(place[2]) if place[2] else _SCHEME_PORTS[scheme]
    if not 1 <= port <= 65_535:
        raise UsageError(field, text, "has a port out of range", "give a port from 1 to 65535")
    target = target if target.startswith("/") else f"/{target}"
    return WebAddress(scheme, read_host(field, place[1]), port, _escaped(target))


def read_host(field: str, text: str) -> str:
    """Read a host: an address in its one usual form, or a name, in ASCII and lower case."""
    if text.startswith("["):
        address = _ip(text[1:-1])
        if not isinstance(address, ipaddress.IPv6Address):
            _refuse_host(field, text, "is not an IPv6 address")
        return str(address)
    host = _ascii_host(field, text).lower().removesuffix(".")
    labels = host.split(".")
    # As the standard of URLs has it: a name whose last label is a number is an address.
    if _NUMBER.fullmatch(labels[-1]):
        address = _ip(host)
        if address is None:
            _refuse_host(field, text, "is an address in an unusual form", "write it as 192.0.2.1")
        return str(address)
    if len(host) > HOST_LENGTH_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        _refuse_host(field, text, "is not the name of a host")
    return host


def _ascii_host(field: str, text: str) -> str:
    if text.isascii():
        return text
    if _AMBIGUOUS.intersection(text):
        _refuse_host(field, text, "can be read as two names", "give its ASCII form, as in xn--…")
    try:
        return text.encode("idna").decode()
    except UnicodeError:
        _refuse_host(field, text, "is not the name of a host")


def _refuse_host(
    field: str, text: str, problem: str, remedy: str = "give a name such as example.com"
) -> NoReturn:
    raise UsageError(field, text, problem, remedy)


def _escaped(target: str) -> str:
    return "".join(
        one if one.isascii() else "".join(f"%{byte:02X}" for byte in one.encode()) for one in target
    )


def _without_login(text: str) -> str:
    before, at, after = text.rpartition("@")
    return f"{before.partition('//')[0]}//***@{after}" if at else text


def _ip(text: str) -> IpAddress | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


@dataclass(frozen=True, slots=True)
class Allowed:
    """What an operator allows beyond the public network's usual ports: a host or a network."""

    host: str | None = None
    network: IpNetwork | None = None
    port: int | None = None
    """None for the usual ones."""

    @property
    def is_single(self) -> bool:
        """Whether it names one address and no more."""
        return self.network is not None and self.network.num_addresses == 1

    def covers(self, place: ConnectTarget, usual: frozenset[int] = PORTS_DEFAULT) -> bool:
        """Say whether it allows to connect there; without a port, to the usual ones."""
        is_port = place.port in usual if self.port is None else place.port == self.port
        if self.network is None:
            return is_port and place.host == self.host
        return is_port and place.ip.version == self.network.version and place.ip in self.network


@dataclass(frozen=True, slots=True)
class ConnectTarget:
    """Where a connection would go: an address, and the host that led to it."""

    host: str
    ip: IpAddress
    port: int


def read_allow_list(entries: Iterable[str], field: str = "allow_addresses") -> tuple[Allowed, ...]:
    """Read what an operator allows: hosts, addresses and networks, each perhaps with a port."""
    given = list(entries)
    if len(given) > ALLOWED_MAX:
        raise UsageError(field, len(given), "are too many", f"give at most {ALLOWED_MAX:,}")
    return tuple(_read_allowed(field, entry) for entry in given)


def _read_allowed(field: str, entry: object) -> Allowed:
    remedy = "give a host, an address or a network, as in hooks.internal:5000 or 10.0.0.0/8"
    require_text(field, entry, URL_LENGTH_MAX)
    assert isinstance(entry, str), "just checked"
    # An IPv6 address is full of colons: with a port it needs brackets, without it may have none.
    bare = _network(entry)
    if bare is not None:
        return Allowed(network=bare)
    what, colon, port_text = entry.rpartition(":")
    port = int(port_text) if port_text.isascii() and port_text.isdigit() else 0
    if colon and not 1 <= port <= 65_535:
        raise UsageError(field, entry, "is not a place on a network", remedy)
    place = what if colon else entry
    network = _network(place.removeprefix("[").removesuffix("]"))
    if network is None and ("/" in place or "[" in place or ":" in place):
        raise UsageError(field, entry, "is not a place on a network", remedy)
    if network is not None:
        return Allowed(network=network, port=port or None)
    return Allowed(host=read_host(field, place), port=port or None)


def _network(text: str) -> IpNetwork | None:
    try:
        return ipaddress.ip_network(text, strict=False)
    except ValueError:
        return None


def _networks(*texts: str) -> tuple[IpNetwork, ...]:
    return tuple(ipaddress.ip_network(text) for text in texts)


_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in (
        "169.254.169.254",
        "169.254.170.2",
        "169.254.170.23",
        "169.254.42.42",
        "100.100.100.200",
        "168.63.129.16",
        "192.0.0.192",
        "fd00:ec2::254",
        "fd00:ec2::23",
        "fd20:ce::254",
        "fd00:42::42",
    )
)
"""Where clouds hand out credentials to whoever asks from inside."""

_OUT_OF_BOUNDS: tuple[tuple[str, tuple[IpNetwork, ...]], ...] = (
    ("this host", _networks("0.0.0.0/8", "::/128")),
    ("a loopback address", _networks("127.0.0.0/8", "::1/128")),
    ("a link-local address", _networks("169.254.0.0/16", "fe80::/10", "fec0::/10")),
    (
        "a private address",
        _networks("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"),
    ),
    ("an address behind a carrier's translation", _networks("100.64.0.0/10")),
    ("a multicast address", _networks("224.0.0.0/4", "ff00::/8")),
    ("a 6to4 address", _networks("2002::/16", "192.88.99.0/24")),
    ("a Teredo address", _networks("2001::/32")),
    (
        "a reserved address",
        _networks(
            *("192.0.0.0/24", "192.0.2.0/24", "198.18.0.0/15", "198.51.100.0/24"),
            *("203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "3fff::/20"),
        ),
    ),
)
_PUBLIC_V6 = ipaddress.ip_network("2000::/3")
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


def judge(
    place: ConnectTarget, allowed: tuple[Allowed, ...], usual: frozenset[int] = PORTS_DEFAULT
) -> str | None:
    """Say what is wrong with connecting there; None when nothing is."""
    place = ConnectTarget(place.host, plain_address(place.ip), place.port)
    covering = [one for one in allowed if one.covers(place, usual)]
    if place.ip in _METADATA:
        # A network that happens to hold one is no reason; nor is a name, which may lead anywhere.
        return None if any(one.is_single for one in covering) else "a cloud's metadata address"
    if covering:
        return None
    problem = _out_of_bounds(place.ip)
    if problem is None and place.port not in usual:
        purpose = "the web" if usual is PORTS_DEFAULT else "mail"
        return f"port {place.port}, which is not one for {purpose}"
    return problem


def plain_address(ip: IpAddress) -> IpAddress:
    """Return the IPv4 address that an IPv6 one stands for on this host or behind NAT64."""
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip in _NAT64:
            return ipaddress.IPv4Address(int(ip) & 0xFFFF_FFFF)
    return ip


def _out_of_bounds(ip: IpAddress) -> str | None:
    for problem, networks in _OUT_OF_BOUNDS:
        if any(ip.version == network.version and ip in network for network in networks):
            return problem
    if ip.version == _PUBLIC_V6.version and ip not in _PUBLIC_V6:
        return "a reserved address"
    return None
