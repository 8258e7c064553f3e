"""One request of a webhook, sent with aiohttp: to the checked address, within limits, and no more.

No redirects, no proxies, no cookies, no unpacking. A connection is made for each attempt, so that
what was checked is what is connected to, and a connection that went stale loses no message.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from duly.domain.attempts import Reason
from duly.domain.concluding import End, Failed, TimedOut
from duly.domain.durations import duration_text
from duly.domain.instants import SECOND_US
from duly.engine.addresses import RefusedAddress
from duly.engine.executors.webhook_answers import WebhookAnswer
from duly.errors import printable

if TYPE_CHECKING:
    from duly.domain.web_addresses import IpAddress, WebAddress
    from duly.engine.addresses import AddressGuard

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
