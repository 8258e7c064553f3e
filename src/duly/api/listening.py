"""Where a server listens, and on which terms: nothing is open to others by accident (L1)."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING

from duly.api.addresses import read_proxies
from duly.api.settings import LOOPBACK, ApiSettings
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from pathlib import Path

HOST_DEFAULT = "127.0.0.1"
PORT_DEFAULT = 8420
PORT_VARIABLE = "DULY_PORT"
PORT_MAX = 65_535
HOST_LENGTH_MAX = 253
_LOCALHOST = "localhost"
_PORTS = f"give 1 to {PORT_MAX}, or 0 for any free port"
_TERMS = "give --tls-cert and --tls-key, or --behind-proxy for a proxy that brings TLS"


def chosen_port(port: int | None) -> int:
    """Return the port that is given, else that of $DULY_PORT, else the default."""
    if port is not None:
        return port
    text = os.environ.get(PORT_VARIABLE) or str(PORT_DEFAULT)
    if not (text.isascii() and text.isdecimal() and int(text[:6]) <= PORT_MAX):
        raise UsageError(PORT_VARIABLE, text, "is not a port", _PORTS)
    return int(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """An address, and what protects what goes over it."""

    host: str = HOST_DEFAULT
    port: int = PORT_DEFAULT
    """0: any free port, which `Serving.url` tells once it is bound."""
    is_behind_proxy: bool = False
    """Whether a proxy in front of it brings TLS."""
    tls_cert: Path | None = None
    tls_key: Path | None = None
    allow_hosts: tuple[str, ...] = ()
    """Names besides its own by which it may be asked for."""
    trust_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies that say from where callers come."""

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == _LOCALHOST:
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def has_tls(self) -> bool:
        """Whether it brings TLS itself."""
        return self.tls_cert is not None

    @property
    def url(self) -> str:
        """Where it is found."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.has_tls else 'http'}://{host}:{self.port}"

    def checked(self, *, has_token: bool) -> Listening:
        """Return it if it is safe to listen like this; `has_token`: whether any token is live."""
        require_text("host", self.host, HOST_LENGTH_MAX)
        if not 0 <= self.port <= PORT_MAX:
            raise UsageError("port", self.port, "is not a port", _PORTS)
        if (self.tls_cert is None) != (self.tls_key is None):
            field = "tls_key" if self.tls_key is None else "tls_cert"
            raise UsageError(field, None, "is missing", "give --tls-cert and --tls-key together")
        for field in ("tls_cert", "tls_key"):
            path: Path | None = getattr(self, field)
            if path is not None and not path.is_file():
                raise UsageError(field, str(path), "is not a file", "give a PEM file")
        read_proxies(self.trust_proxies)
        if self.is_loopback:
            return self
        if not (self.has_tls or self.is_behind_proxy):
            problem = "can be reached from other machines, and tokens would go over the wire"
            raise UsageError("host", self.host, problem, _TERMS)
        if not has_token:
            problem = "can be reached from other machines, and nobody has a token yet"
            remedy = "make one first: duly token create NAME --role admin"
            raise UsageError("host", self.host, problem, remedy)
        if self._is_every_address and not self.allow_hosts:
            problem = "stands for every address, and says no name to be asked for"
            raise UsageError("host", self.host, problem, "give --allow-host duly.example.com")
        return self

    def settings(self, settings: ApiSettings | None = None) -> ApiSettings:
        """Return what the API is to allow when it is served like this."""
        own = () if self._is_every_address else (self.host,)
        names = (*LOOPBACK, *own, *self.allow_hosts)
        hosts = tuple(dict.fromkeys(_bracketed(name.lower()) for name in names))
        given = settings or ApiSettings()
        return replace(
            given,
            hosts=hosts,
            proxies=(*given.proxies, *read_proxies(self.trust_proxies)),
            is_secure=self.has_tls or self.is_behind_proxy,
        )

    @property
    def _is_every_address(self) -> bool:
        try:
            return ip_address(self.host).is_unspecified
        except ValueError:
            return False


def _bracketed(name: str) -> str:
    """Write an address of the sixth version as it stands in a URL."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
