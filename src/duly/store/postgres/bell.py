"""The bell: wakes those whom something that was committed concerns; off the write path, not often.

NOTIFY takes a lock of the whole database until its commit, so it is never part of a write: one
thread sends it on a connection of its own, at most once in a while, however much was written. It
is a hint alone: the arrivals feed, and the next look at a queue, find what no bell was rung for.
"""

from __future__ import annotations

import select
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import psycopg

from duly.errors import StoreError
from duly.store.ports.dispatch import MemberKind
from duly.store.postgres.arrays import Texts
from duly.store.postgres.errands import CLOSE_WITHIN_S, LOOK_UP_US, Errand
from duly.store.postgres.neighbours import Neighbours
from duly.store.wakeups import SECOND_US, UdpWakeups

if TYPE_CHECKING:
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.handing import Taker
    from duly.store.postgres.session import BoundedConnection, Session

CHANNELS = {MemberKind.DISPATCHER: "duly", MemberKind.WORKER: "duly_work"}
RING = "SELECT pg_notify(channel, '') FROM pg_catalog.unnest($1::text[]) channel"
APART_US = {
    MemberKind.DISPATCHER: (SECOND_US // 100, SECOND_US // 100),
    MemberKind.WORKER: (SECOND_US // 500, SECOND_US // 100),
}
"""How long it is quiet at least and at most; runs are to start at once, timers are loaded ahead."""
NOTIFY_EVERY_US = SECOND_US // 10
"""How often NOTIFY is sent though all who are known hear us without it."""
LISTEN_AGAIN_US = SECOND_US


class Bell:
    """Rings for all that was written since it last rang."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._neighbours = {kind: Neighbours(kind, connections.clock) for kind in MemberKind}
        self._notify_at = dict.fromkeys(MemberKind, 0)
        self._errands = {
            kind: Errand(f"duly bell, {kind}", partial(self._ring, kind), connections.clock, apart)
            for kind, apart in APART_US.items()
        }

    def ring(self, kind: MemberKind = MemberKind.DISPATCHER) -> None:
        """Have members of a kind woken soon; returns at once and never fails.

        Where all are neighbours they are rung at once, and a NOTIFY now and then is for whoever has
        come since.
        """
        if self._neighbours[kind].ring():
            monotonic = self._connections.clock.monotonic_us()
            if monotonic < self._notify_at[kind]:
                return
            self._notify_at[kind] = monotonic + NOTIFY_EVERY_US
        self._errands[kind].call()

    def ring_all(self) -> None:
        """Have everybody woken soon."""
        for kind in MemberKind:
            self.ring(kind)

    def look_ahead(self, session: Session) -> None:
        """Learn which workers are neighbours before there is anything to ring for.

        The first of a crowd would wait for the thread that rings, for its connection, and for the
        answers.
        """
        self._neighbours[MemberKind.WORKER].look(session, is_ahead=True)

    def takers(self) -> tuple[Taker, ...]:
        """Return the workers that take offers, if all are next door and do."""
        return self._neighbours[MemberKind.WORKER].takers()

    def close(self) -> None:
        """Ring for what is still to be rung for, and let go."""
        for errand in self._errands.values():
            errand.close()
        for neighbours in self._neighbours.values():
            neighbours.close()

    def _ring(self, kind: MemberKind) -> None:
        with suppress(StoreError), self._connections.statement() as session:
            session.rows(RING, (Texts([CHANNELS[kind]]),))
            self._neighbours[kind].look(session)


class PostgresWakeups:
    """A place to wait at that hears the bell, wherever it is rung.

    A thread listens and wakes whoever waits; behind a pooler nothing can be heard, and the place
    is woken only by this process.
    """

    def __init__(self, connections: Connections, kind: MemberKind = MemberKind.DISPATCHER) -> None:
        self._connections = connections
        self._place = UdpWakeups()
        self.address = self._place.doorplate.address
        self._channel = CHANNELS[kind]
        self._offers = connections.offers if kind is MemberKind.WORKER else None
        if self._offers is not None:
            self._offers.open(self._place)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._listen, name="duly listener", daemon=True)
        self._thread.start()

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken. Never raises, never waits longer."""
        if self._offers is None:
            return self._place.wait(timeout_us)
        kept_us = self._offers.before_waiting()
        is_woken = self._place.wait(timeout_us if kept_us is None else min(timeout_us, kept_us))
        self._offers.after_waiting()
        return is_woken

    def wake(self) -> None:
        """Wake whoever waits here, from any thread or signal handler."""
        self._place.wake()

    def nudge(self) -> None:
        """End the wait, though nothing was written; from any thread or signal handler."""
        self._place.nudge()

    def close(self) -> None:
        """Stop listening, and wake whoever still waits."""
        if self._offers is not None:
            self._offers.stop()
        self._over.set()
        self._thread.join(CLOSE_WITHIN_S)
        self._place.close()

    def _listen(self) -> None:
        while not self._over.is_set():
            with suppress(psycopg.Error, StoreError):
                connection = self._connections.open()
                try:
                    if connection.is_pooled:
                        return
                    self._hear(connection)
                finally:
                    connection.close()
            self._over.wait(LISTEN_AGAIN_US / SECOND_US)

    def _hear(self, connection: BoundedConnection) -> None:
        connection.execute(f"LISTEN {self._channel}".encode())
        # Something may have been rung for before we listened.
        self._place.wake()
        server = connection.pgconn
        poll = select.poll()
        poll.register(server.socket, select.POLLIN)
        while not self._over.is_set():
            if not poll.poll(LOOK_UP_US // 1000):
                continue
            server.consume_input()
            if server.notifies() is not None:
                while server.notifies() is not None:
                    pass
                self._place.wake()
