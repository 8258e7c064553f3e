"""The pulse: tells an open page that something has changed, and the page looks again by itself.

What a page shows is more than the audit trail tells of, so a pulse is a mark of the state of all
that a tenant has. One look serves all who follow the same tenant, and nothing is told while the
mark stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING

from duly import StoreError, Unauthenticated
from duly.api.events import EventResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.requests import Request
    from starlette.responses import Response

    from duly import App
    from duly.api.front import Front
    from duly.api.views import Principal

LOOKED_US = 1_000_000
"""How old a mark may be that is told to one more follower."""
TENANTS_MAX = 1000
FOLLOWED_US = 60_000_000
"""After a longer silence only the end of all events is looked for."""


@dataclass(frozen=True, slots=True)
class Mark:
    """The state of a tenant's things, in a few letters, and when that was looked at."""

    text: str
    looked_at: int
    through: int
    """Up to which event it has looked."""


class Pulses:
    """All who have a page open."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._marks: dict[tuple[str, bool], Mark] = {}

    async def answer(self, app: App, principal: Principal, request: Request) -> Response:
        """Tell of changes for as long as somebody has the page open and may see it."""
        recheck = partial(self._front.door_for(request).visitor, request.headers)
        self._front.streams.enter(principal.id)
        leave = partial(self._front.streams.leave, principal.id)
        look = partial(self.mark, app, is_everywhere=principal.is_everywhere)
        return EventResponse(self._told(look, recheck), leave)

    async def _told(
        self, look: Callable[[], str], recheck: Callable[[], object]
    ) -> AsyncIterator[bytes]:
        front, last, silence = self._front, "", 0.0
        try:
            while True:
                mark = await front.in_thread(look)
                if mark != last:
                    yield f"data: {mark}\n\n".encode()
                    last, silence = mark, 0.0
                elif silence >= front.settings.heartbeat_seconds:
                    yield b": \n\n"
                    silence = 0.0
                if await front.streams.rest():
                    return
                silence += front.settings.event_seconds
                await front.in_thread(recheck)
        except (Unauthenticated, StoreError):
            return  # it comes again, and is told why there

    def mark(self, app: App, *, is_everywhere: bool = False) -> str:
        """Return the mark of what a tenant has; a second old at the most.

        Whoever may act everywhere sees alerts of what tenants share, too.
        """
        now = self._front.clock.monotonic_us()
        place = (app.tenant, is_everywhere)
        kept = self._marks.get(place)
        if kept is None or now - kept.looked_at > LOOKED_US:
            if len(self._marks) >= TENANTS_MAX:
                self._marks.clear()
            # From where events ended a moment ago, there are few to look at.
            is_near = kept is not None and now - kept.looked_at < FOLLOWED_US
            through = app.events.after(kept.through if kept and is_near else None).through
            kept = self._marks[place] = Mark(_look(app, through), now, through)
        return kept.text


def _look(app: App, through: int) -> str:
    """Return a mark that changes with what people look at, and not with every breath."""
    status = app.status(with_stale=False)
    newest = [(str(one.id), one.state) for one in app.runs.page(limit=5).items]
    alerts = [(str(one.id), one.told_at, one.acknowledged_at) for one in app.alerts.list(limit=20)]
    parts = (
        status.schedules, status.delayed, status.queued, status.owed, status.overdue,
        status.running, status.retrying, status.dead, status.ambiguous, status.paused_queues,
        [(one.id, one.is_alive, one.is_holding, one.standing) for one in status.members],
        newest, through, alerts,
    )  # fmt: skip
    return blake2b(repr(parts).encode(), digest_size=8).hexdigest()
