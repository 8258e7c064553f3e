"""Plans ahead of time: what a crowd asks for is planned before the crowd has come.

A statement is planned when it is first carried out, which takes as long as claiming hundreds of
runs, and no plan is kept for long (`PLANS_KEPT_US`). In a crowd that comes after a quiet hour that
was a tenth of all the time until its last run was over, spent while everybody waited; and another
connection was opened for who brings ends. So a member that joins has all of that made ready, and
plans are made anew with its beats, on connections that nobody needs at the moment.

It is never more than a favour: nothing fails by it. Who beats waits for it, for a thousandth of the
time at most, and never so long that a lease could run out meanwhile.
"""

from __future__ import annotations

import threading
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

import psycopg

from duly.errors import StoreError
from duly.store.postgres.prepared import PreparedSession
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.postgres.connection import Connections
    from duly.store.postgres.prepared import Asked
    from duly.store.postgres.session import BoundedConnection

ANEW_AFTER_US = 10 * SECOND_US
"""Earlier than who comes for a connection would have to forget what is planned on it,"""
SHARE = 1000
"""and planning takes at most one part in so many of the time: a server may be far away."""
LIMIT_S = 0.5
"""So long an answer is waited for."""


class PlansAhead:
    """Knows what the connections of a member are asked for in a crowd."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._roles: Sequence[Sequence[Asked]] = ()
        """What the connection of the member's own thread is asked for, and what others are."""
        self._due_at = 0
        """When plans are to be made anew, by the monotonic clock."""

    def begin(self, roles: Sequence[Sequence[Asked]]) -> None:
        """Make connections ready: the first for whoever calls, another for who comes next."""
        self._roles = roles
        began_at = self._connections.clock.monotonic_us()
        with suppress(StoreError, psycopg.Error), ExitStack() as stack:
            for number, asked in enumerate(roles[: self._connections.settings.connections_max]):
                connection = stack.enter_context(self._connections.borrowed(for_dispatch=True))
                if connection.is_pooled:
                    self._roles = ()
                    return
                if number:
                    connection.used_by = 0
                self._plan(connection, asked, is_ours=not number)
        self._rest(began_at)

    def refresh(self) -> None:
        """Plan anew what has got old; for whoever beats, in the thread that has joined."""
        began_at = self._connections.clock.monotonic_us()
        if self._roles and began_at >= self._due_at:
            self._connections.look_after_idle(self._anew)
            self._rest(began_at)

    def _rest(self, began_at: int) -> None:
        ended_at = self._connections.clock.monotonic_us()
        self._due_at = ended_at + max(ANEW_AFTER_US, SHARE * (ended_at - began_at))

    def _anew(self, connection: BoundedConnection) -> None:
        is_ours = connection.used_by == threading.get_ident()
        connection.limit_s = LIMIT_S
        self._plan(connection, self._roles[0 if is_ours else -1], is_ours=is_ours)

    def _plan(
        self, connection: BoundedConnection, asked: Sequence[Asked], *, is_ours: bool
    ) -> None:
        connection.planned_at = self._connections.clock.monotonic_us()
        session = PreparedSession(connection)
        if is_ours:
            session.have_room()
        session.plan(asked)
