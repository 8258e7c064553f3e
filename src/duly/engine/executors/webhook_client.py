"""Sends one webhook request with aiohttp to a pinned address; bounds and interprets the answer.

`judge_answer` maps a status to the end of the attempt:
- 2xx is success, whatever the body; 202 is noted as such.
- 410 says that the receiver wants no more requests: the run fails for good.
- Every other status is a failure that the task's own backoff retries, 3xx and 4xx included: a
  wrong answer is often a receiver's mistake that is corrected before the attempts are used up.
  Retry-After is respected.

Only 5xx and 429 say that the receiver is in trouble, and count against it in its breaker. A 4xx
answer other than 408 and 409 is a refusal: nothing has been done, and an unsafe webhook may be
tried again. After every other failure the effect is unknown.

A request uses no redirects, no proxies, no cookies and no decompression. Each attempt opens its
own connection, so it connects to the checked address, and a stale connection loses no message.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from importlib.metadata import version
from typing import TYPE_CHECKING, Protocol

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from duly.domain.outcomes import End, Failed, GaveUp, Succeeded, TimedOut
from duly.domain.runs import Reason
from duly.domain.schedules import canonical_json
from duly.domain.secret_refs import Secret, SecretReference
from duly.domain.webhooks import check_header, signing_key
from duly.engine.executors.address_guard import RefusedAddress
from duly.errors import NoSecret, UsageError, printable
from duly.timetable.instants import DAY, SECOND_US, duration_text

if TYPE_CHECKING:
    from duly.domain.outbound_urls import IpAddress, WebAddress
    from duly.domain.secret_refs import ReadSecret
    from duly.domain.webhooks import WebhookPlan
    from duly.engine.executors.address_guard import AddressGuard


AFTER_MIN_US = SECOND_US
"""A receiver that says "at once" is not called in a circle."""
AFTER_MAX_US = DAY * SECOND_US
EXCERPT_LENGTH_MAX = 1_000
LOCATION_LENGTH_MAX = 200
_RETRY_AFTER_LENGTH_MAX = 100
_MAYBE_DONE = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.CONFLICT)
"""Of the answers that refuse a request, those that may be given to one that is under way."""


class Hiding(Protocol):
    """Whoever knows what must not be seen: a run's live side, or a concealer."""

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookAnswer:
    """What came back."""

    status: int
    origin: str
    """Who answered, without path and query."""
    retry_after: str | None = None
    location: str | None = None
    encoding: str | None = None
    body: bytes = b""
    is_cut: bool = False
    """Whether there was more of it than was read."""


def judge_answer(answer: WebhookAnswer, now: datetime, live: Hiding) -> End:
    """Return how an attempt ended, by its answer; `live` leaves secrets out of what it says."""
    excerpt = _excerpt(answer, live)
    if 200 <= answer.status <= 299:
        return Succeeded(_result(answer, excerpt))
    said = f"{answer.origin} answered {_status_text(answer.status)}"
    if answer.status == HTTPStatus.GONE:
        return GaveUp(Reason.GONE, _sentence(f"{said}: it wants no more of these", excerpt))
    if 300 <= answer.status <= 399 and answer.location:
        to = printable(live.hide(answer.location)[:LOCATION_LENGTH_MAX])
        said += f" and points to {to}; redirects are not followed, give the address it points to"
    after_us = None if answer.retry_after is None else read_retry_after(answer.retry_after, now)
    reason = Reason.HTTP_STATUS
    if after_us is not None:
        reason = Reason.RETRY_AFTER
        said += f" and asked to wait {duration_text(after_us)}"
    # One that is overloaded or broken is to be left alone; one that says no is there.
    is_broken = answer.status >= 500 or answer.status == HTTPStatus.TOO_MANY_REQUESTS
    text = _sentence(said, excerpt)
    is_refused = 400 <= answer.status <= 499 and answer.status not in _MAYBE_DONE
    return Failed(text, reason, after_us=after_us, is_answered=not is_broken, is_undone=is_refused)


def read_retry_after(text: str, now: datetime) -> int | None:
    """Return how long a receiver asks to wait, from a second to a day; None if it says nothing."""
    text = text.strip()
    if not text or len(text) > _RETRY_AFTER_LENGTH_MAX:
        return None
    if text.isascii() and text.isdigit():
        wait_us = min(int(text), DAY) * SECOND_US
    else:
        try:
            until = parsedate_to_datetime(text)
        except (ValueError, TypeError, IndexError, OverflowError):
            return None
        until = until if until.tzinfo else until.replace(tzinfo=UTC)
        wait_us = (until - now) // timedelta(microseconds=1)
    return max(AFTER_MIN_US, min(wait_us, AFTER_MAX_US))


def _result(answer: WebhookAnswer, excerpt: str) -> str:
    result: dict[str, object] = {"status": answer.status}
    if answer.status == HTTPStatus.ACCEPTED:
        result["note"] = "accepted: the receiver goes on by itself"
    if excerpt:
        result["answer"] = excerpt
    return canonical_json(result)


def _status_text(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _sentence(said: str, excerpt: str) -> str:
    return f"{said}: {excerpt}" if excerpt else said


def _excerpt(answer: WebhookAnswer, live: Hiding) -> str:
    """Return the beginning of a body, fit for records and terminals."""
    if not answer.body:
        return ""
    more = "at least " if answer.is_cut else ""
    if answer.encoding and answer.encoding.strip().lower() != "identity":
        # It was asked for without; a kilobyte of it may stand for a gigabyte.
        return f"({more}{len(answer.body):,} bytes, compressed, not unpacked)"
    # Secrets go first: cut in the middle, one would no longer be recognised.
    decoded = codecs.getincrementaldecoder("utf-8")("replace").decode(
        answer.body, final=not answer.is_cut
    )
    text = live.hide(decoded, is_cut=answer.is_cut)
    text = "".join(one if one.isprintable() else " " for one in text).strip()
    return text if len(text) <= EXCERPT_LENGTH_MAX else f"{text[:EXCERPT_LENGTH_MAX]}…"


def revealed(
    plan: WebhookPlan, field: str, read: ReadSecret
) -> tuple[dict[str, str], tuple[bytes, ...]]:
    """Return the headers that a plan gives, and the keys to sign with; NoSecret, UsageError."""
    headers: dict[str, str] = {}
    for name, value in plan.headers:
        if isinstance(value, SecretReference):
            secret = read(value, f"{field} header {name}")
            headers[name] = _as_header(secret, value, f"{field} header {name}")
        else:
            headers[name] = value
    keys = tuple(
        signing_key(read(one, f"{field} secret"), one, f"{field} secret") for one in plan.secrets
    )
    return headers, keys


def _as_header(secret: Secret, reference: SecretReference, field: str) -> str:
    """Return a secret as the value of a header, if it can be one: it is the worker's, not ours."""
    try:
        check_header(field, secret.reveal(), shown=reference.secret)
    except UsageError as error:
        raise NoSecret(field, reference.secret, error.problem, error.remedy) from None
    return secret.reveal()


CONNECT_US_MAX = 10 * SECOND_US
HEADER_BYTES_MAX = 8 * 1024
HEADERS_MAX = 64
_PROBLEM_LENGTH_MAX = 500
_USER_AGENT = f"Duly/{version('duly')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRequest:
    """What is to be sent, where, and how much of an answer is awaited."""

    address: WebAddress
    guard: AddressGuard
    body: bytes
    headers: dict[str, str]
    timeout_us: int
    response_bytes_max: int


async def send(request: WebhookRequest) -> WebhookAnswer | End:
    """Send it once; return the answer, or how the attempt ended without one."""
    origin, connected = request.address.origin, asyncio.Event()
    try:
        async with asyncio.timeout(request.timeout_us / SECOND_US) as limit:
            addresses = await request.guard.resolve()
            return await _post(request, addresses, limit, connected)
    except RefusedAddress as refused:
        remedy = "the operator can allow it: --allow-address"
        said = printable(f"{refused}; {remedy}")
        return Failed(said, Reason.REFUSED_ADDRESS, is_retryable=False, is_undone=True)
    except TimeoutError as error:
        is_connecting = isinstance(error, aiohttp.ServerTimeoutError)
        limit_us = min(request.timeout_us, CONNECT_US_MAX) if is_connecting else request.timeout_us
        waited = duration_text(limit_us)
        if not connected.is_set():
            # Nothing was sent, whichever limit was first to be over.
            return Failed(f"{origin} could not be connected to within {waited}", is_undone=True)
        return TimedOut(Reason.TIMEOUT, f"{origin} gave no answer within {waited}")
    except (aiohttp.ClientError, OSError, ValueError) as error:
        problem = printable(str(error) or type(error).__name__)[:_PROBLEM_LENGTH_MAX]
        # Each request has a connection of its own: where there was none, nothing was sent.
        is_undone = isinstance(error, aiohttp.ClientConnectorError)
        return Failed(f"{origin} could not be asked: {problem}", is_undone=is_undone)


class _Pinned(AbstractResolver):
    """Answers with the addresses that were checked, whatever the name says by now."""

    def __init__(self, addresses: list[IpAddress]) -> None:
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=str(ip),
                port=port,
                family=socket.AF_INET if ip.version == 4 else socket.AF_INET6,
                proto=socket.IPPROTO_TCP,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for ip in self._addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def _post(
    request: WebhookRequest,
    addresses: list[IpAddress],
    limit: asyncio.Timeout,
    connected: asyncio.Event,
) -> WebhookAnswer:
    async with (
        _session(request, addresses, connected) as session,
        session.post(
            URL(request.address.text, encoded=True),
            data=request.body,
            headers={
                **request.headers,
                "User-Agent": _USER_AGENT,
                "Accept-Encoding": "identity",
                "Accept": "*/*",
            },
            allow_redirects=False,
        ) as response,
    ):
        body, is_cut = await _read_some(response, request.response_bytes_max, limit)
        return WebhookAnswer(
            status=response.status,
            origin=request.address.origin,
            retry_after=response.headers.get("Retry-After"),
            location=response.headers.get("Location"),
            encoding=response.headers.get("Content-Encoding"),
            body=body,
            is_cut=is_cut,
        )


def _session(
    request: WebhookRequest, addresses: list[IpAddress], connected: asyncio.Event
) -> aiohttp.ClientSession:
    """Return a session for one request; it notes when its connection is made."""

    async def note_connection(*_: object) -> None:
        connected.set()

    connector = aiohttp.TCPConnector(
        resolver=_Pinned(addresses),
        socket_factory=request.guard.open_socket,
        use_dns_cache=False,
        force_close=True,
        # One after the other: a refusal must not be one of several answers in a race.
        happy_eyeballs_delay=None,
    )
    trace = aiohttp.TraceConfig()
    trace.on_connection_create_end.append(note_connection)
    connect_s = min(request.timeout_us, CONNECT_US_MAX) / SECOND_US
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        trust_env=False,
        auto_decompress=False,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=connect_s),
        trace_configs=[trace],
        max_line_size=HEADER_BYTES_MAX,
        max_field_size=HEADER_BYTES_MAX,
        max_headers=HEADERS_MAX,
    )


BODY_S_MAX = 5.0
"""How long the body of an answer is waited for; what matters is its status, which is there."""


async def _read_some(
    response: aiohttp.ClientResponse, bytes_max: int, limit: asyncio.Timeout
) -> tuple[bytes, bool]:
    """Read the beginning of a body, and say whether there was more."""
    until = asyncio.get_running_loop().time() + BODY_S_MAX
    until = min(until, limit.when() or until)
    # The receiver has said how it went; that its words end early does not take that back.
    limit.reschedule(None)
    body = bytearray()
    with contextlib.suppress(aiohttp.ClientError, TimeoutError, OSError):
        async with asyncio.timeout_at(until):
            while len(body) <= bytes_max:
                chunk = await response.content.read(bytes_max + 1 - len(body))
                if not chunk:
                    return bytes(body), False
                body += chunk
    return bytes(body[:bytes_max]), True
