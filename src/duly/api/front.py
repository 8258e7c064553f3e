"""The front: what every request passes, whether it asks the API or a page of the console.

One instance of it holds the door, the pace, the threads and the streams of a server, so that both
faces let in the same people, on the same terms, within one set of limits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import anyio

from duly.api.addresses import caller_address
from duly.api.door import Door
from duly.api.events import PAGE, EventResponse, Follower, Streams
from duly.api.pacing import Pace
from duly.api.problems import refuse
from duly.api.security import check_host, check_origin, too_large
from duly.api.settings import ApiSettings
from duly.api.threads import Threads
from duly.clock import SystemClock
from duly.domain.access import Scope
from duly.domain.audit import Actor

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from duly.app import App
    from duly.client.access import Doorkeeper
    from duly.client.events import EventPage
    from duly.clock import Clock
    from duly.domain.access import Principal

    T = TypeVar("T")

SOURCE = "api"


@dataclass(frozen=True, slots=True)
class Watching:
    """Somebody who follows events: as whom, from where, and how it is seen that they still may."""

    app: App
    principal: Principal
    first: EventPage
    recheck: Callable[[], object]
    is_of_all: bool = False
    """Whether they follow what happens to every tenant."""


class Front:
    """Everything between a connection and a handler."""

    def __init__(
        self,
        app: App,
        settings: ApiSettings | None = None,
        *,
        keeper: Doorkeeper | None = None,
        clock: Clock | None = None,
    ) -> None:
        self.app = app
        self.settings = settings or ApiSettings()
        self.keeper = keeper or app.doorkeeper(SOURCE)
        self.door = Door(self.keeper, self.settings)
        self.streams = Streams(self.settings)
        self.clock = clock or SystemClock()
        self._pace = Pace(self.settings, self.clock)
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
        self._pace.require(principal.id)
        principal.require(Scope(scope))

    def door_for(self, request: Request) -> Door:
        """Return the door as a request stands before it: from where it comes, is on record."""
        return self.door.asked_from(caller_address(request, self.settings.proxies))

    def acting(
        self, request: Request, principal: Principal, tenant: str | None, source: str = SOURCE
    ) -> App:
        """Return the application as it acts for whoever asks, in the tenant that they name."""
        address = caller_address(request, self.settings.proxies)
        return self.app.within(
            tenant=principal.tenant_for(tenant),
            actor=Actor(principal.name, source, address=address, credential=principal.credential),
            is_confined=not principal.is_everywhere,
        )

    async def in_thread(self, function: Callable[..., T], *args: object) -> T:
        """Carry something out that may block, in one of the bounded number of threads."""
        return await self._threads.run(partial(function, *args))

    def stream(self, watching: Watching) -> Response:
        """Answer with events as they happen, for as long as whoever asks may see them."""
        principal = watching.principal.id
        self.streams.enter(principal)

        async def after(number: int) -> EventPage:
            # A token that is revoked opens nothing a second later, not even what it had opened.
            await self.in_thread(watching.recheck)
            look = partial(watching.app.events.after, all_tenants=watching.is_of_all)
            return await self.in_thread(partial(look, number, limit=PAGE))

        told = self.streams.follow(Follower(first=watching.first, after=after))
        return EventResponse(told, partial(self.streams.leave, principal))


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
    raise refuse(408, "too-slow", problem, "send it at once", Connection="close")
