"""What each request passes before a handler: address, authentication, rate limit; server settings.

`Middleware` holds the authenticator, the rate limiter, the threads and the event streams of a
server. The API and the console share one instance, so both admit the same callers, on the same
terms, within one set of limits.

`caller_address` reads X-Forwarded-For from right to left, because each proxy appends the address
that connected to it. Any client can write that header, so only entries of proxies that the operator
named are believed. By default no proxy is trusted, and the address is that of the connection.

`Authenticator` accepts a token in a header of every request, as programs send it. A browser shows a
token, or the one-time code that the server printed, once. From then on a cookie that no script can
read stands for it and ends with it. `TokenAuthenticator` in `duly.client.access` decides to which
principal a token or cookie belongs.

`RateLimiter` keeps its buckets in the memory of one server process. It bounds what one principal
costs this process and is no quota.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass
from functools import partial
from http.cookies import CookieError, SimpleCookie
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, TypeVar

import anyio

from duly.api.events import PAGE, EventResponse, EventStream, Streams, Threads
from duly.api.requests import api_error, check_csrf, check_host, check_origin, too_large
from duly.clock import SystemClock
from duly.domain.audit import Actor
from duly.domain.auth import PrincipalKind, Refusal, Scope, unauthenticated
from duly.errors import UsageError
from duly.store.ports.auth import SESSION_US
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from duly.app import App
    from duly.client.access import NewSession, TokenAuthenticator
    from duly.client.audit import EventPage
    from duly.clock import Clock
    from duly.domain.auth import Principal

    T = TypeVar("T")


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


def is_proxy(address: str, proxies: Sequence[Network]) -> bool:
    """Say whether an address is that of a trusted proxy, which stands for many callers."""
    found = _read_address(address)
    return found is not None and _is_one_of(found, proxies)


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


_COOKIES_LENGTH_MAX = 8000
_BEARER = "bearer "


class Authenticator:
    """Says who asks."""

    def __init__(
        self, keeper: TokenAuthenticator, settings: ApiSettings, address: str | None = None
    ) -> None:
        self._keeper = keeper
        self._settings = settings
        self._address = address
        """From where whoever stands before it has come."""

    def asked_from(self, address: str | None) -> Authenticator:
        """Return the same door, for somebody who comes from there."""
        return Authenticator(self._keeper, self._settings, address)

    def who(self, method: str, headers: Mapping[str, str]) -> Principal:
        """Return who asks; refuse a stranger, and an order by a cookie that somebody else used."""
        said = headers.get("authorization")
        if said is not None:
            if not said.lower().startswith(_BEARER):
                raise unauthenticated(Refusal.MALFORMED)
            return self._keeper.authenticate(said[len(_BEARER) :].strip(), self._address)
        secret = self.session_secret(headers)
        if secret is None:
            raise unauthenticated(Refusal.MISSING)
        principal = self._keeper.session(secret, self._address)
        check_csrf(method, headers, secret)
        return principal

    def visitor(self, headers: Mapping[str, str]) -> tuple[Principal, str]:
        """Return who visits by a session's cookie, and its secret; a page takes no token."""
        secret = self.session_secret(headers)
        if secret is None:
            raise unauthenticated(Refusal.MISSING)
        return self._keeper.session(secret, self._address), secret

    def session_secret(self, headers: Mapping[str, str]) -> str | None:
        """Return the secret that a browser's cookie holds, if it has one."""
        text = headers.get("cookie", "")
        if len(text) > _COOKIES_LENGTH_MAX:
            return None
        try:
            found = SimpleCookie(text).get(self.cookie_name)
        except CookieError:
            return None
        return None if found is None or not found.value else found.value

    def begin(self, *, code: str | None, token: str | None) -> NewSession:
        """Begin a session by a one-time code, or by a token."""
        if token is not None:
            return self._keeper.begin_session(token, self._address)
        return self._keeper.spend_code(code or "", self._address)

    def end(self, principal: Principal, headers: Mapping[str, str]) -> bool:
        """End the session that asks for it; a token is nothing that a session's end could end."""
        secret = self.session_secret(headers)
        if principal.kind is not PrincipalKind.SESSION or secret is None:
            return False
        return self._keeper.end_session(secret, self._address)

    @property
    def cookie_name(self) -> str:
        """The cookie's name; by HTTPS it may belong to no path, no subdomain and no plain page."""
        return "__Host-duly" if self._settings.is_secure else "duly_session"

    def cookie(self, secret: str | None) -> str:
        """Write the cookie of a session, or the one that takes it away."""
        seconds = 0 if secret is None else SESSION_US // SECOND_US
        parts = [
            f"{self.cookie_name}={secret or ''}",
            "Path=/",
            "HttpOnly",
            "SameSite=Strict",
            f"Max-Age={seconds}",
        ]
        if self._settings.is_secure:
            parts.append("Secure")
        return "; ".join(parts)


PRINCIPALS_MAX = 10_000
"""How many are remembered; whoever was silent longest is forgotten first, with a full bucket."""


class RateLimiter:
    """Says whether a principal may ask once more."""

    def __init__(self, settings: ApiSettings, clock: Clock) -> None:
        self._fill = settings.requests_per_second
        self._most = float(settings.requests_burst_max)
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[bytes, tuple[float, int]] = OrderedDict()

    def require(self, principal: bytes) -> None:
        """Take one from a principal's bucket; refuse when it is empty."""
        now = self._clock.monotonic_us()
        with self._lock:
            left, before = self._buckets.pop(principal, (self._most, now))
            left = min(self._most, left + (now - before) * self._fill / SECOND_US)
            is_enough = left >= 1
            self._buckets[principal] = (left - 1 if is_enough else left, now)
            if len(self._buckets) > PRINCIPALS_MAX:
                self._buckets.popitem(last=False)
        if not is_enough:
            problem = f"more than {self._fill} requests a second come from you"
            raise api_error(429, "too-many-requests", problem, "ask less often", Retry_After="1")


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
    connections_max: int = 512
    """How many may be open beside those that follow events, before silent ones are ended."""
    connections_of_one_max: int = 128
    """How many one address may have open before its silent ones are ended; a trusted proxy stands
    for many."""
    threads_max: int = 16
    """How many requests are carried out at once; the store has few connections."""
    requests_per_second: int = 100
    """Of one token with its sessions, on the average."""
    requests_burst_max: int = 400
    """How many of them may come at once after a pause."""
    streams_max: int = 100
    """How many may follow events at once."""
    streams_of_one_max: int = 20
    """How many of them one token may have, with its sessions. When all are taken, a tenant takes
    one of the tenant that has the most."""
    heartbeat_seconds: float = 15
    """How long a stream of events may say nothing: proxies cut what is silent."""
    event_seconds: float = 1
    """How often the trail is looked at for whoever follows."""
    proxies: tuple[Network, ...] = ()
    """Whose word is taken for where a caller has come from (X-Forwarded-For): nobody's unless
    told, for anybody can write that."""
    is_secure: bool = False
    """Whether browsers reach it by HTTPS: cookies go by nothing else then."""


SOURCE = "api"


@dataclass(frozen=True, slots=True)
class EventSubscription:
    """Somebody who follows events: as whom, from where, and how it is seen that they still may."""

    app: App
    principal: Principal
    first: EventPage
    recheck: Callable[[], object]
    is_of_all: bool = False
    """Whether they follow what happens to every tenant."""


class Middleware:
    """Everything between a connection and a handler."""

    def __init__(
        self,
        app: App,
        settings: ApiSettings | None = None,
        *,
        keeper: TokenAuthenticator | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.app = app
        self.settings = settings or ApiSettings()
        self.keeper = keeper or app.doorkeeper(SOURCE)
        self.door = Authenticator(self.keeper, self.settings)
        self.streams = Streams(self.settings)
        self.clock = clock or SystemClock()
        self._pace = RateLimiter(self.settings, self.clock)
        self._threads = Threads(self.settings)

    @property
    def is_at_work(self) -> bool:
        """Whether something is carried out that nobody waits for any more."""
        return self._threads.is_at_work

    def check(self, request: Request) -> None:
        """Refuse what is not for us, and an order that another origin's page gives."""
        check_host(request.headers, self.settings)
        check_origin(request.method, request.headers, self.settings)

    def admit(self, principal: Principal, scope: str) -> None:
        """Refuse whoever asks too often, or may not do this."""
        self._pace.require(principal.counted_as)
        principal.require(Scope(scope))

    def door_for(self, request: Request) -> Authenticator:
        """Return the door as a request stands before it: from where it comes, is on record."""
        return self.door.asked_from(caller_address(request, self.settings.proxies))

    def acting(
        self, request: Request, principal: Principal, tenant: str | None, source: str = SOURCE
    ) -> App:
        """Return the application as it acts for whoever asks, in the tenant that they name."""
        address = caller_address(request, self.settings.proxies)
        actor = Actor(
            name=principal.name,
            source=source,
            address=address,
            credential=principal.credential,
            is_operator=principal.is_everywhere and Scope.ADMIN in principal.scopes,
        )
        return self.app.within(
            tenant=principal.tenant_for(tenant),
            actor=actor,
            is_confined=not principal.is_everywhere,
        )

    async def in_thread(
        self, function: Callable[..., T], *args: object, principal: Principal | None = None
    ) -> T:
        """Carry something out that may block, in one of the bounded number of threads.

        Tenants share the threads. What is done before a caller is known counts as one more.
        """
        tenant = "" if principal is None else principal.tenant
        return await self._threads.run(partial(function, *args), tenant)

    def stream(self, watching: EventSubscription) -> Response:
        """Answer with events as they happen, for as long as whoever asks may see them."""
        in_thread = partial(self.in_thread, principal=watching.principal)
        place = self.streams.enter(watching.principal)

        async def after(number: int) -> EventPage:
            # A token that is revoked opens nothing a second later, not even what it had opened.
            await in_thread(watching.recheck)
            look = partial(watching.app.events.after, all_tenants=watching.is_of_all)
            return await in_thread(partial(look, number, limit=PAGE))

        told = self.streams.follow(EventStream(first=watching.first, after=after, place=place))
        return EventResponse(told, partial(self.streams.leave, place))


async def read_raw(request: Request, settings: ApiSettings) -> bytes:
    """Read a body up to its limit, whatever its length says or does not say."""
    parts: list[bytes] = []
    size = 0
    with anyio.move_on_after(settings.body_seconds_max):
        async for part in request.stream():
            size += len(part)
            if size > settings.body_bytes_max:
                raise too_large(settings)
            parts.append(part)
        return b"".join(parts)
    problem = "the body took too long to arrive"
    raise api_error(408, "too-slow", problem, "send it at once", Connection="close")
