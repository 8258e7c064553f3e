"""Streams events to clients (server-sent events), and runs requests in a bounded number of threads.

`Streams` sends each entry of the audit trail as one event, with the entry's number as its id. A
browser that lost the connection sends the last id as Last-Event-ID and continues there. While
nothing happens, a comment keeps the connection open; its id says up to which entry the trail was
read.

`Threads` answers a request that takes too long with 504. Its thread continues, because nothing can
stop a thread in the middle, and is counted. When as many such threads run as the server may use,
the store or a handler hangs, and another request would only wait with the others: `Threads` refuses
it at once with 503. A request that was given up before its thread began is not begun.

Tenants share streams and threads. A thread that becomes free goes to the tenant that uses the
fewest. When all streams are taken, a tenant with far fewer than another gets one of the other's.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import anyio
import anyio.to_thread
import msgspec
from starlette.responses import StreamingResponse

from duly.api.requests import EVENT_STREAM, api_error
from duly.errors import Forbidden, StoreError, Unauthenticated, UsageError
from duly.interface.schedules import Entry

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from starlette.types import Receive, Scope, Send

    from duly.api.middleware import ApiSettings
    from duly.api.route import ApiRequest
    from duly.client.audit import EventPage
    from duly.domain.auth import Principal


LAST_HEADER = "last-event-id"
PAGE = 200
_NUMBER_LENGTH_MAX = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class EventStream:
    """Somebody who follows: where from, and how more is asked for."""

    first: EventPage
    """What there was when they came."""
    after: Callable[[int], Awaitable[EventPage]]
    """Returns what came after a number, while they may still see it."""
    place: StreamPlace


@dataclass(slots=True, eq=False)
class StreamPlace:
    """A place among those that follow events."""

    counted_as: bytes
    tenant: str
    is_lost: bool = False
    """Whether another tenant, which had less than its share, has taken it."""


class Streams:
    """All who follow, and their end."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._open: dict[StreamPlace, None] = {}
        """The places that are taken, the oldest first."""
        self._ended: anyio.Event | None = None
        self._is_over = False

    def enter(self, principal: Principal) -> StreamPlace:
        """Take a place; refuse one too many, of one token, or of all while none must give way."""
        own = StreamPlace(principal.counted_as, principal.tenant)
        count = sum(one.counted_as == own.counted_as for one in self._open)
        if count >= self._settings.streams_of_one_max:
            problem = f"{count} of yours follow events already"
            raise api_error(429, "too-many-streams", problem, "close one of them", Retry_After="5")
        if len(self._open) >= self._settings.streams_max and not self._make_room(own.tenant):
            problem = f"{len(self._open)} follow events already"
            raise api_error(503, "too-many-streams", problem, "try again later", Retry_After="5")
        self._open[own] = None
        return own

    def leave(self, place: StreamPlace) -> None:
        """Give a place back, unless it was lost."""
        self._open.pop(place, None)

    def _make_room(self, tenant: str) -> bool:
        """Take the newest place of the tenant that has the most, if this one has far fewer."""
        counts = Counter(one.tenant for one in self._open)
        largest = max(counts, key=lambda one: counts[one])
        if counts[largest] <= counts[tenant] + 1:
            return False
        lost = next(one for one in reversed(self._open) if one.tenant == largest)
        lost.is_lost = True
        del self._open[lost]
        return True

    def end(self) -> None:
        """Let all of them go: the server stops. Also whoever looks just now, and rests after it."""
        self._is_over = True
        if self._ended is not None:
            self._ended.set()

    async def follow(self, follower: EventStream) -> AsyncIterator[bytes]:
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
                    if await self.rest(follower.place):
                        return
                    silence += self._settings.event_seconds
                page = await follower.after(page.through)
        except (Unauthenticated, StoreError):
            return  # it comes again with its last number, and is told why there

    async def rest(self, place: StreamPlace) -> bool:
        """Let a while pass; say whether the server stops meanwhile, or the place is lost."""
        if self._is_over or place.is_lost:
            return True
        if self._ended is None:
            self._ended = anyio.Event()
        with anyio.move_on_after(self._settings.event_seconds):
            await self._ended.wait()
        return self._ended.is_set() or place.is_lost


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


def read_place(received: ApiRequest) -> int | None:
    """Return the number after which somebody wants to be told; None for from now on."""
    said = received.headers.get(LAST_HEADER)
    if said is None or not said.strip():
        after: int | None = received.query.after
        return after
    if not said.isascii() or not said.isdecimal() or len(said) > _NUMBER_LENGTH_MAX:
        remedy = "send the id of the last event, or leave it out"
        raise UsageError("Last-Event-ID", said, "is not the number of an event", remedy)
    return int(said)


def is_of_all(received: ApiRequest) -> bool:
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


T = TypeVar("T")


class FairPlaces:
    """A bounded number of places; a free one goes to the waiting tenant that holds the fewest."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._held: Counter[str] = Counter()
        self._waiting: dict[str, deque[anyio.Event]] = {}
        """By tenant, in order of arrival; the tenant that was served last comes last."""

    @asynccontextmanager
    async def lent(self, tenant: str) -> AsyncIterator[None]:
        """Lend a place for the length of a block."""
        if self._free:
            self._free -= 1
            self._held[tenant] += 1
        else:
            await self._wait(tenant)
        try:
            yield
        finally:
            self._give_back(tenant)

    async def _wait(self, tenant: str) -> None:
        turn = anyio.Event()
        self._waiting.setdefault(tenant, deque()).append(turn)
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._give_back(tenant)
            else:
                self._forget(tenant, turn)
            raise

    def _give_back(self, tenant: str) -> None:
        self._held[tenant] -= 1
        if not self._held[tenant]:
            del self._held[tenant]
        if not self._waiting:
            self._free += 1
            return
        chosen = min(self._waiting, key=lambda one: self._held[one])
        turns = self._waiting.pop(chosen)
        self._held[chosen] += 1
        turns.popleft().set()
        if turns:
            self._waiting[chosen] = turns

    def _forget(self, tenant: str, turn: anyio.Event) -> None:
        turns = self._waiting[tenant]
        turns.remove(turn)
        if not turns:
            del self._waiting[tenant]


class Threads:
    """All threads of one server."""

    def __init__(self, settings: ApiSettings) -> None:
        self._settings = settings
        self._limiter = anyio.CapacityLimiter(settings.threads_max)
        self._places = FairPlaces(settings.threads_max)
        self._lock = threading.Lock()
        self._stuck = 0
        """How many go on though nobody waits for them."""

    @property
    def is_at_work(self) -> bool:
        """Whether some go on though nobody waits for them."""
        return self._stuck > 0

    async def run(self, function: Callable[[], T], tenant: str) -> T:
        """Carry something out that may block; refuse it when it takes too long, or can't begin."""
        if self._stuck >= self._settings.threads_max:
            problem = "all that was asked before is still being carried out"
            raise api_error(503, "too-busy", problem, "try again later", Retry_After="5")
        errand = _WorkItem(self, function)
        try:
            with anyio.move_on_after(self._settings.answer_seconds_max):
                async with self._places.lent(tenant):
                    return await anyio.to_thread.run_sync(
                        errand.run, abandon_on_cancel=True, limiter=self._limiter
                    )
        finally:
            errand.give_up()
        problem = "it took too long, and it is not known whether it was carried out"
        raise api_error(504, "no-answer", problem, "give it again under the same Idempotency-Key")

    def count_stuck(self, change: int) -> None:
        """Count one more that goes on alone, or one fewer."""
        with self._lock:
            self._stuck += change


class _WorkItem(Generic[T]):
    """One call, and whether somebody waits for it."""

    def __init__(self, threads: Threads, function: Callable[[], T]) -> None:
        self._threads = threads
        self._function = function
        self._lock = threading.Lock()
        self._is_running = False
        self._is_given_up = False

    def run(self) -> T:
        """Carry it out, in its thread."""
        with self._lock:
            if self._is_given_up:
                raise TimeoutError("nobody waits for it")
            self._is_running = True
        try:
            return self._function()
        finally:
            with self._lock:
                self._is_running = False
                if self._is_given_up:
                    self._threads.count_stuck(-1)

    def give_up(self) -> None:
        """Wait for it no longer, in the event loop; after its end this says nothing."""
        with self._lock:
            self._is_given_up = True
            if self._is_running:
                self._threads.count_stuck(1)
