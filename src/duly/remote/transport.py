"""Requests, retries, idempotency keys, pages, problem documents read back as errors.

`Transport` draws an Idempotency-Key once for each order, so the server carries the order out once,
however often it is sent. `HttpConnection` repeats a request without a key only if repeating it has
no further effect, or if the connection was lost before the request was sent.
"""

from __future__ import annotations

import ast
import http.client
import ssl
import sys
import threading
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode
from uuid import UUID

import msgspec

from duly.errors import (
    Conflict,
    DulyError,
    Forbidden,
    NotFound,
    Outdated,
    OverQuota,
    SchemaMismatch,
    StoreError,
    StoreUnavailable,
    Unauthenticated,
    UsageError,
)
from duly.interface.problems import Problem
from duly.remote.operation import GET
from duly.timetable.instants import duration_text, iso_utc, to_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from duly.entropy import RandomSource
    from duly.interface.shapes import Page
    from duly.remote.address import Address
    from duly.remote.operation import Operation


_LIBRARY = "opentelemetry.trace"
"""Whoever has a span has loaded this; nobody else need."""


def trace_headers() -> dict[str, str]:
    """Return `traceparent`, and `tracestate` if there is one; nothing outside of any span."""
    words: dict[str, str] = {}
    if _LIBRARY in sys.modules:
        with suppress(Exception):  # no request fails because nobody can be told of its trace
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

            TraceContextTextMapPropagator().inject(words)
    return words


MEDIA_TYPE = "application/problem+json"
LATER = frozenset({429, 502, 503, 504})
"""Statuses that say nothing about the order, but that it could not be carried out just now."""
STILL_RUNNING = "still-running"
_STORE_PREFIX = "the store: "


class ProblemDocument:
    """A value as the server wrote it down, when it can't be read back."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def read_problem(reply: Reply) -> Problem | None:
    """Read the document of a refusal; None where something else than a server of ours answers."""
    if reply.media_type != MEDIA_TYPE:
        return None
    try:
        return msgspec.json.decode(reply.body, type=Problem)
    except msgspec.MsgspecError:
        return None


def error_of(reply: Reply, url: str) -> DulyError:
    """Return the error that a reply is."""
    problem = read_problem(reply)
    if problem is None:
        said = f"answered {reply.status}, and not as a server of Duly does"
        if reply.status in LATER:
            return StoreUnavailable(url, said, "try again")
        if 300 <= reply.status < 400:
            # Whoever sends a token on to where a stranger points gives it away.
            said = f"answered {reply.status}: it is elsewhere, and redirects are not followed"
            return StoreError(url, said, "give the URL where it is")
        return StoreError(url, said, "see whether the URL is that of the server")
    return _by_code(problem, url)


def _by_code(problem: Problem, url: str) -> DulyError:
    said, remedy = _sentence(problem)
    what, value = problem.field or "request", _value(problem.value)
    about_store = (url, said.removeprefix(_STORE_PREFIX), remedy)
    known: dict[str, Callable[[], DulyError]] = {
        UsageError.code: lambda: UsageError(what, value, said, remedy),
        NotFound.code: lambda: NotFound(what, value, remedy),
        Conflict.code: lambda: Conflict(what, value, said, remedy),
        Outdated.code: lambda: Outdated(what, value, said, remedy),
        OverQuota.code: lambda: OverQuota(
            value, said, remedy, problem.most or 0, problem.count or 0
        ),
        Unauthenticated.code: lambda: Unauthenticated(said, remedy),
        Forbidden.code: lambda: Forbidden(what, said, remedy),
        SchemaMismatch.code: lambda: SchemaMismatch(*about_store),
        STILL_RUNNING: lambda: StoreUnavailable(*about_store),
    }
    if problem.code in known:
        return known[problem.code]()
    if problem.status in LATER:
        return StoreUnavailable(*about_store)
    if problem.status >= 500:
        return StoreError(*about_store)
    if problem.status == 409:
        return Conflict(what, value, said, remedy)
    return UsageError(what, value, said, remedy)


def _sentence(problem: Problem) -> tuple[str, str]:
    """Return what happened and what to do, out of the whole sentence."""
    remedy = problem.remedy or "see what the server says"
    said = problem.detail.removesuffix(f"; {remedy}")
    for prefix in (f"{problem.field}: {problem.value} ", f"{problem.field}: "):
        if problem.field is not None and said.startswith(prefix):
            return said.removeprefix(prefix), remedy
    return said, remedy


def _value(text: str | None) -> object:
    """Return the value of which this is the text, if that can be told."""
    if text is None:
        return None
    try:
        found: object = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ProblemDocument(text)
    return found if repr(found) == text else ProblemDocument(text)


ANSWER_BYTES_MAX = 64 * 1024 * 1024
IDLE_MAX = 8
"""How many connections are kept for the next request."""
_DRAWN = 2**16


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How long to wait for a server, and how often to try."""

    timeout_seconds: float = 35
    """For a connection, and for each part of an answer; a server gives up after 30."""
    tries_max: int = 5
    pause_seconds: float = 0.2
    """Before the second try, up to so long; each pause is longer than the one before."""
    pause_seconds_max: float = 5

    def __post_init__(self) -> None:
        for name in ("timeout_seconds", "tries_max", "pause_seconds", "pause_seconds_max"):
            if not getattr(self, name) > 0:
                raise UsageError(name, getattr(self, name), "is not above 0", "give more")

    def pause(self, number: int, draw: float, wanted: float | None = None) -> float:
        """Return how long to wait after a try; all who lost a server come back spread out."""
        longest: float = min(self.pause_seconds * 2**number, self.pause_seconds_max)
        least = 0.0 if wanted is None else min(wanted, self.pause_seconds_max)
        return max(least, longest * (0.5 + draw / 2))


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpRequest:
    """A request, ready to be sent as often as needed."""

    method: str
    target: str
    """Path and query."""
    body: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_repeatable: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a server has answered, whole."""

    status: int
    headers: Mapping[str, str]
    """Names in small letters."""
    body: bytes

    @property
    def media_type(self) -> str:
        """What the body says it is."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_seconds(self) -> float | None:
        """After how long the server wants to be asked again."""
        said = self.headers.get("retry-after", "")
        return float(said) if said.isascii() and said.isdecimal() and len(said) < 6 else None


class ConnectionLost(Exception):  # noqa: N818 - what happened
    """A connection was lost: before the request was out, or with the reply."""

    def __init__(self, cause: Exception, *, is_sent: bool) -> None:
        super().__init__(str(cause))
        self.is_sent = is_sent
        self.words = str(cause) or type(cause).__name__


class HttpConnection:
    """Connections to one server; threads may share it."""

    def __init__(  # noqa: PLR0913 - each may be another in a test
        self,
        address: Address,
        patience: RetryPolicy,
        draws: RandomSource,
        *,
        rest: Callable[[float], object] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.address = address
        self.patience = patience
        self._draws = draws
        self._rest = threading.Event().wait if rest is None else rest
        self._tls = _trusted(tls) if address.is_secure else None
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []

    def ask(self, ask: HttpRequest) -> Reply:
        """Send a request until it is answered, within bounds; raise if it never was."""
        for number in range(self.patience.tries_max):
            is_last = number + 1 == self.patience.tries_max
            try:
                reply = self._once(ask)
            except ConnectionLost as lost:
                if is_last or (lost.is_sent and not ask.is_repeatable):
                    raise self._unreachable(ask, lost) from lost
                self.pause(number)
                continue
            if is_last or not (ask.is_repeatable and _is_for_later(reply)):
                return reply
            self.pause(number, reply.retry_seconds)
        raise AssertionError("the last try returns or raises")

    def pause(self, number: int, wanted: float | None = None) -> None:
        """Wait before the next try."""
        draw = int.from_bytes(self._draws.draw(2), "big") / _DRAWN
        self._rest(self.patience.pause(number, draw, wanted))

    def connect(self, timeout_seconds: float | None = None) -> http.client.HTTPConnection:
        """Return a new connection, which is opened by the first request."""
        host, port = self.address.host, self.address.port
        seconds = self.patience.timeout_seconds if timeout_seconds is None else timeout_seconds
        if self._tls is None:
            return http.client.HTTPConnection(host, port, timeout=seconds)
        return http.client.HTTPSConnection(host, port, timeout=seconds, context=self._tls)

    def close(self) -> None:
        """Let go of connections that wait for the next request."""
        with self._lock:
            idle, self._idle = self._idle, []
        for one in idle:
            one.close()

    def _once(self, ask: HttpRequest) -> Reply:
        connection = self._lent(is_fresh=not ask.is_repeatable)
        is_sent = False
        try:
            if connection.sock is None:
                connection.connect()
            is_sent = True  # from here on some of it may have arrived
            connection.request(ask.method, ask.target, ask.body, dict(ask.headers))
            response = connection.getresponse()
            body = response.read(ANSWER_BYTES_MAX + 1)
        except ssl.SSLCertVerificationError as error:
            connection.close()
            problem = f"shows a certificate that is not trusted ({error.verify_message})"
            remedy = "see whether it is the right server; give tls= to trust another authority"
            raise StoreError(self.address.url, problem, remedy) from error
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise ConnectionLost(error, is_sent=is_sent) from error
        except BaseException:
            connection.close()
            raise
        if len(body) > ANSWER_BYTES_MAX:
            connection.close()
            problem = f"answered more than {ANSWER_BYTES_MAX:,} bytes"
            raise StoreError(self.address.url, problem, "ask for less at once")
        headers = {name.lower(): value for name, value in response.getheaders()}
        self._give_back(connection, is_open=not response.will_close)
        return Reply(status=response.status, headers=headers, body=body)

    def _lent(self, *, is_fresh: bool) -> http.client.HTTPConnection:
        """Return a connection; what can't be sent twice does not go out on one that may be gone."""
        with self._lock:
            if self._idle and not is_fresh:
                return self._idle.pop()
        return self.connect()

    def _give_back(self, connection: http.client.HTTPConnection, *, is_open: bool) -> None:
        with self._lock:
            if is_open and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def _unreachable(self, ask: HttpRequest, lost: ConnectionLost) -> StoreUnavailable:
        if ask.method == "GET" or not lost.is_sent:
            problem = f"can't be reached ({lost.words})"
            return StoreUnavailable(self.address.url, problem, "see whether it runs, and try again")
        problem = (
            f"gave no answer ({lost.words}): it is not known whether the order was carried out"
        )
        return StoreUnavailable(self.address.url, problem, "look before you give it again")


def _is_for_later(reply: Reply) -> bool:
    """Say whether the same request may well be carried out in a moment."""
    if reply.status not in LATER and reply.status != 409:
        return False
    problem = read_problem(reply)
    if reply.status == 409:
        return problem is not None and problem.code == STILL_RUNNING
    # A quota and a schema stay as they are for longer than anybody waits.
    return problem is None or problem.code not in {"over-quota", "schema-mismatch"}


def _trusted(tls: ssl.SSLContext | None) -> ssl.SSLContext:
    """Return how a server proves who it is; whoever does without sends its token to anybody."""
    if tls is None:
        return ssl.create_default_context()
    if tls.verify_mode is not ssl.CERT_REQUIRED or not tls.check_hostname:
        remedy = "use ssl.create_default_context(cafile=…) to trust an authority of your own"
        raise UsageError("tls", tls, "does not verify who answers", remedy)
    return tls


T = TypeVar("T")
Item = TypeVar("Item")
Instant = datetime | str
Delay = timedelta | str
PREFIX = "/api/v1"
PAGE_LIMIT_MAX = 1000
_KEY_BYTES = 16
_MICROSECOND = timedelta(microseconds=1)


class Transport:
    """Carries operations out as somebody; every part of a `Remote` shares it."""

    def __init__(
        self, exchange: HttpConnection, token: str, tenant: str | None, draws: RandomSource
    ) -> None:
        self.exchange = exchange
        self._draws = draws
        self._known = {"Authorization": f"Bearer {token}"}
        if tenant is not None:
            self._known["Duly-Tenant"] = _tenant_header(tenant)

    def ask(
        self,
        operation: Operation[T],
        *path: object,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        version: int | None = None,
    ) -> T:
        """Carry an operation out and return its answer; parts of the path come in their order."""
        headers = self.headers("application/json")
        written = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            written = msgspec.json.encode(body)
        if version is not None:
            headers["If-Match"] = f'"{version}"'
        if operation.is_keyed:
            headers["Idempotency-Key"] = self._draws.draw(_KEY_BYTES).hex()
        reply = self.exchange.ask(
            HttpRequest(
                method=operation.method,
                target=self.target(operation.path, path, query),
                body=written,
                headers=headers,
                is_repeatable=operation.is_repeatable,
            )
        )
        return self._read(operation, reply)

    def items(
        self,
        operation: Operation[Page[Item]],
        *path: object,
        query: Mapping[str, Any] | None = None,
        limit: int | None = None,
    ) -> list[Item]:
        """Return a list, page after page; up to `limit`, if one is given."""
        found: list[Item] = []
        for page in self._pages(operation, path, dict(query or {}), limit):
            found += page.items
            if limit is not None and len(found) >= limit:
                return found[:limit]
        return found

    def headers(self, accepted: str) -> dict[str, str]:
        """Return the headers of every request."""
        return {"Accept": accepted, "User-Agent": "duly", **trace_headers(), **self._known}

    def target(
        self, pattern: str, path: tuple[object, ...], query: Mapping[str, Any] | None
    ) -> str:
        """Return path and query as they are sent; a name may hold anything, a slash too."""
        given = iter(path)
        parts = [
            _part(part[1:-1], next(given)) if part.startswith("{") else part
            for part in pattern.split("/")
        ]
        text = f"{self.exchange.address.root}{PREFIX}{'/'.join(parts)}"
        said = {name: _query_text(name, value) for name, value in (query or {}).items()}
        return f"{text}?{urlencode(said, doseq=True)}" if said else text

    def _pages(
        self,
        operation: Operation[Page[Item]],
        path: tuple[object, ...],
        query: dict[str, Any],
        limit: int | None,
    ) -> Iterator[Page[Item]]:
        if limit is not None:
            _require_limit(limit)
            query["limit"] = min(limit, PAGE_LIMIT_MAX)
        while True:
            page = self.ask(operation, *path, query=query)
            yield page
            if page.next_cursor is None:
                return
            query["cursor"] = page.next_cursor

    def _read(self, operation: Operation[T], reply: Reply) -> T:
        url = self.exchange.address.url
        if not 200 <= reply.status < 300:
            raise error_of(reply, url)
        try:
            return msgspec.json.decode(reply.body, type=operation.answer)
        except msgspec.MsgspecError as error:
            problem = f"answered {operation.id} in words that are not known here ({error})"
            is_order = operation.method != GET
            remedy = "see whether it is older or newer than this program"
            remedy += "; the order was carried out" if is_order else ""
            raise StoreError(url, problem, remedy) from error


def said(kind: type[msgspec.Struct], /, **terms: Any) -> dict[str, Any]:  # noqa: ANN401 - of its fields
    """Return the terms that are given as they are written; refuse one that nobody knows."""
    names = kind.__struct_fields__
    for name, value in terms.items():
        if name not in names:
            remedy = f"known are {', '.join(names)}"
            raise UsageError(name, value, "is not known here", remedy)
    lists = _lists(kind)
    return {
        name: _listed(value) if name in lists else written(name, value)
        for name, value in terms.items()
        if value is not None
    }


@cache
def _lists(kind: type[msgspec.Struct]) -> frozenset[str]:
    """Return which terms may be several."""
    every = msgspec.structs.fields(kind)
    return frozenset(one.name for one in every if "list[" in str(one.type))


def _listed(value: object) -> list[object]:
    """Return one or several as a list, as callers of the library may give either."""
    if isinstance(value, str) or not isinstance(value, Iterable):
        return [value]
    # The same set is the same order under a key, in whatever order it comes.
    return sorted(value, key=str) if isinstance(value, set | frozenset) else list(value)


def written(field: str, value: object) -> object:
    """Return a value as it goes over the wire: an instant with its offset, a duration in words."""
    match value:
        case datetime():
            to_microseconds(value, field)  # refuses one that has no offset
            return iso_utc(value)
        case timedelta():
            return duration_text(value // _MICROSECOND)
        case UUID():
            return str(value)
        case _:
            return value


def _part(name: str, value: object) -> str:
    text = str(value)
    if not text:
        raise UsageError(name, value, "is empty", "say which one is meant")
    try:
        return quote(text, safe="")
    except UnicodeEncodeError as error:
        remedy = "give text that UTF-8 can write"
        raise UsageError(name, value, "holds half a character", remedy) from error


def _query_text(name: str, value: object) -> object:
    if value == []:
        # Left out of the address, it would mean all of them.
        raise UsageError(name, value, "names none", "name one, or leave it out")
    if isinstance(value, bool):
        return "true" if value else "false"
    return value


def _require_limit(limit: object) -> None:
    if not isinstance(limit, int) or isinstance(limit, bool) or limit < 1:
        raise UsageError("limit", limit, "is not a limit", "give a whole number from 1 on")


def _tenant_header(tenant: object) -> str:
    text = str(tenant)
    if not (text and text.isascii() and text.isprintable()):
        raise UsageError("tenant", tenant, "is not a tenant's name", "give its name")
    return text
