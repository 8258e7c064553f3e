"""What a server of the API allows, and how much of it; each limit has its reason."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly.api.addresses import Network

LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiSettings:
    """The limits of one server; the defaults are right for one that listens on loopback."""

    hosts: tuple[str, ...] = LOOPBACK
    """Names by which it may be asked for: a page elsewhere that has its own name point here is
    refused, whatever the browser believes (DNS rebinding)."""
    body_bytes_max: int = 256 * 1024
    """Four payloads; what is larger belongs where the work is."""
    body_seconds_max: float = 10
    """How long a body may take to arrive: a connection that drips holds nothing for long."""
    answer_seconds_max: float = 30
    """How long an answer may take; whoever waits longer has gone."""
    threads_max: int = 16
    """How many requests are carried out at once; the store has few connections."""
    requests_per_second: int = 100
    """Of one principal, on the average."""
    requests_burst_max: int = 400
    """How many of one principal may come at once after a pause."""
    streams_max: int = 100
    """How many may follow events at once."""
    streams_of_one_max: int = 20
    """How many of them one principal may be: nobody takes the places of all."""
    heartbeat_seconds: float = 15
    """How long a stream of events may say nothing: proxies cut what is silent."""
    event_seconds: float = 1
    """How often the trail is looked at for whoever follows."""
    proxies: tuple[Network, ...] = ()
    """Whose word is taken for where a caller has come from (X-Forwarded-For): nobody's unless
    told, for anybody can write that."""
    is_secure: bool = False
    """Whether browsers reach it by HTTPS: cookies go by nothing else then."""
