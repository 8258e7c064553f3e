"""Events as they happen, over one long answer (server-sent events), and exactly on after a break.

Each event is an entry of the audit trail, told with its number as its id; a browser that lost the
connection sends the last one it saw as Last-Event-ID, and goes on right there. While nothing
happens a comment says that somebody is still there, and how far the trail has been looked through.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import anyio
import msgspec
from starlette.responses import StreamingResponse

from duly.api.problems import refuse
from duly.api.security import EVENT_STREAM
from duly.errors import Forbidden, StoreError, Unauthenticated, UsageError
from duly.wire.schedules import Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from duly.api.route import Received
    from duly.api.settings import ApiSettings
    from duly.client.events import EventPage

LAST_HEADER = "last-event-id"
PAGE = 200
_NUMBER_LENGTH_MAX = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Follower:
    """Somebody who follows: where from, and how more is asked for."""

    first: EventPage
    """What there was when they came."""
    after: Callable[[int], Awaitable[EventPage]]
    """Returns what came after a number, while they may still see it."""


class Streams:
    """All who follow, and their end."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._open: Counter[bytes] = Counter()
        """By who follows."""
        self._ended: anyio.Event | None = None
        self._is_over = False

    def enter(self, principal: bytes) -> None:
        """Count somebody in; refuse one too many, of all and of one principal's own."""
        if self._open.total() >= self._settings.streams_max:
            problem = f"{self._open.total()} follow events already"
            raise refuse(503, "too-many-streams", problem, "try again later", Retry_After="5")
        if self._open[principal] >= self._settings.streams_of_one_max:
            problem = f"{self._open[principal]} of yours follow events already"
            raise refuse(429, "too-many-streams", problem, "close one of them", Retry_After="5")
        self._open[principal] += 1

    def leave(self, principal: bytes) -> None:
        """Count somebody out."""
        self._open[principal] -= 1
        if not self._open[principal]:
            del self._open[principal]

    def end(self) -> None:
        """Let all of them go: the server stops. Also whoever looks just now, and rests after it."""
        self._is_over = True
        if self._ended is not None:
            self._ended.set()

    async def follow(self, follower: Follower) -> AsyncIterator[bytes]:
        """Tell what happens until somebody goes."""
        try:
            page, silence = follower.first, 0.0
            # An id says that all up to it is told: none goes ahead of what it stands for.
            yield b": \n\n" if page.items else _mark(page.through)
            while True:
                if page.items:
                    silence = 0.0
                    yield b"".join(_told(Entry.from_view(one)) for one in page.items)
                elif silence >= self._settings.heartbeat_seconds:
                    silence = 0.0
                    yield _mark(page.through)
                if len(page.items) < PAGE:
                    if await self.rest():
                        return
                    silence += self._settings.event_seconds
                page = await follower.after(page.through)
        except (Unauthenticated, StoreError):
            return  # it comes again with its last number, and is told why there

    async def rest(self) -> bool:
        """Let a while pass; say whether the server stops meanwhile."""
        if self._is_over:
            return True
        if self._ended is None:
            self._ended = anyio.Event()
        with anyio.move_on_after(self._settings.event_seconds):
            await self._ended.wait()
        return self._ended.is_set()


class EventResponse(StreamingResponse):
    """The long answer; whoever has entered leaves with it, also when it could not be begun."""

    def __init__(self, told: AsyncIterator[bytes], leave: Callable[[], None]) -> None:
        super().__init__(told, media_type=EVENT_STREAM)
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer until it is over."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()


def read_place(received: Received) -> int | None:
    """Return the number after which somebody wants to be told; None for from now on."""
    said = received.headers.get(LAST_HEADER)
    if said is None or not said.strip():
        after: int | None = received.query.after
        return after
    if not said.isascii() or not said.isdecimal() or len(said) > _NUMBER_LENGTH_MAX:
        remedy = "send the id of the last event, or leave it out"
        raise UsageError("Last-Event-ID", said, "is not the number of an event", remedy)
    return int(said)


def is_of_all(received: Received) -> bool:
    """Say whether all tenants are meant; refuse it to who may not see them."""
    is_whole: bool = received.query.all_tenants
    if is_whole and not received.principal.is_everywhere:
        remedy = "leave all_tenants out, or use a token of every tenant"
        raise Forbidden("all_tenants", "is not for a token of one tenant", remedy)
    return is_whole


def _told(entry: Entry) -> bytes:
    return b"id: %d\ndata: %s\n\n" % (entry.number, msgspec.json.encode(entry))


def _mark(through: int) -> bytes:
    """Say that somebody is there; the id is kept by whoever reads, though there is no event."""
    return b": \nid: %d\n\n" % through
