"""Neighbours: members who hear us on this host, so that nothing need be sent through the database.

A NOTIFY costs the server, who sends it and each who hears it more than many a run does. A datagram
costs next to nothing, but arrives only where both see the same loopback: so who is to be rung that
way has answered first. Names of hosts prove nothing, since containers have loopbacks of their own.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from duly.store.postgres.arrays import Text
from duly.store.postgres.handing import OFFERED_MIN, Taker
from duly.store.wakeups import DATAGRAM_MAX, LOOPBACK, SECOND_US, WRITTEN, WakeAddress

if TYPE_CHECKING:
    from duly.clock import Clock
    from duly.store.ports.dispatch import MemberKind
    from duly.store.postgres.session import Session

LOOK_EVERY_US = 2 * SECOND_US
CALLS_MIN = 20
"""Who rings less often than this between two looks does not look: a NOTIFY will do."""
PLACES_MAX = 16
"""More than these are rung by one NOTIFY."""
WHO_LIVES = """
SELECT wake_address FROM duly.members
WHERE kind = $1::text AND ended_at IS NULL AND expires_at > duly.now_us()"""


class _Known(NamedTuple):
    ports: tuple[int, ...] = ()
    """Where those listen who have answered,"""
    is_all: bool = False
    """and whether there is anybody besides."""
    takers: tuple[Taker, ...] = ()
    """Those who take offers, where all have answered and all do."""


class Neighbours:
    """The living members of one kind, as of the last look, and which of them answered."""

    def __init__(self, kind: MemberKind, clock: Clock) -> None:
        self._kind = kind
        self._clock = clock
        self._socket: socket.socket | None = None
        self._doorplates: set[WakeAddress] = set()
        self._answered: set[WakeAddress] = set()
        self._takes: dict[WakeAddress, int] = {}
        self._has_others = True
        self._known = _Known()
        self._look_at = 0
        self._calls = 0
        self._looking = threading.Lock()

    def ring(self) -> bool:
        """Ring at all who have answered; say whether that is everybody. From any thread."""
        if not self._known.is_all:
            self._hear_late()
        ports, is_all, _ = self._known
        sender = self._socket
        if sender is None:
            return False
        for port in ports:
            # One who is gone is not there to be rung; the next look finds out.
            with suppress(OSError):
                sender.sendto(WRITTEN, (LOOPBACK, port))
        return is_all

    def takers(self) -> tuple[Taker, ...]:
        """Return who takes offers; nobody unless everybody is next door and does. Any thread."""
        if not self._known.takers:
            self._hear_late()
        return self._known.takers

    def look(self, session: Session, *, is_ahead: bool = False) -> None:
        """Learn now and then who lives, ask those who have not answered, and hear who has.

        Nothing is waited for: who answers later is heard at the next call. Who looks ahead does so
        before there is anything to ring for.
        """
        with self._looking:
            self._calls += 1
            monotonic = self._clock.monotonic_us()
            if monotonic >= self._look_at and (is_ahead or self._calls >= CALLS_MIN):
                self._look_at, self._calls = monotonic + LOOK_EVERY_US, 0
                self._read(session)
                self._ask()
            if self._socket is not None:
                self._hear(self._socket)

    def _hear_late(self) -> None:
        """Hear who has answered since somebody looked: the first of a crowd is rung for by that."""
        if self._socket is not None and self._looking.acquire(blocking=False):
            try:
                if self._socket is not None:
                    self._hear(self._socket)
            finally:
                self._looking.release()

    def close(self) -> None:
        """Let go of the socket; from now on nobody is a neighbour."""
        self._known = _Known()
        sender, self._socket = self._socket, None
        if sender is not None:
            sender.close()

    def _read(self, session: Session) -> None:
        rows = session.rows(WHO_LIVES, (Text(self._kind),))
        read = [WakeAddress.read(address) for (address,) in rows]
        self._doorplates = {one for one in read if one is not None}
        self._has_others = None in read or not read or len(read) > PLACES_MAX
        self._answered &= self._doorplates
        self._takes = {one: self._takes[one] for one in self._takes if one in self._doorplates}

    def _ask(self) -> None:
        if self._has_others:
            return
        # Where no socket can be had nobody answers, and NOTIFY goes on.
        with suppress(OSError):
            if self._socket is None:
                self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                self._socket.settimeout(0)
            for one in self._doorplates - (self._answered & self._takes.keys()):
                self._socket.sendto(one.question, (LOOPBACK, one.port))

    def _hear(self, sender: socket.socket) -> None:
        with suppress(OSError):
            while True:
                answer, (_, port) = sender.recvfrom(DATAGRAM_MAX)
                for one in self._doorplates:
                    if one.port == port and answer == one.answer:
                        self._answered.add(one)
                    elif one.port == port and answer.startswith(one.takes):
                        most = int.from_bytes(answer.removeprefix(one.takes))
                        self._takes |= {one: most} if most >= OFFERED_MIN else {}
        ports = () if self._has_others else tuple(one.port for one in self._answered)
        is_all = not self._has_others and self._answered == self._doorplates
        takers = tuple(Taker(*one) for one in self._takes.items() if is_all)
        if len(takers) < len(self._doorplates):
            takers = ()
        self._known = _Known(ports, is_all, takers)
