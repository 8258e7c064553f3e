"""Worlds on PostgreSQL: each in a database of its own, which tells the time that the world has.

A process of the world does one thing after another, and so does the whole world: where a call has
to wait for a transaction that somebody left open, it waits in real time, and virtual time stands
still. So nobody waits for long here; what a caller sees is the same.
"""

from __future__ import annotations

import struct
from contextlib import ExitStack, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any
from unittest import mock

import psycopg

from duly.store.postgres import PostgresStore, connection, firing, handed, handing
from duly.store.wakeups import LocalWakeups
from tests.postgres.database_clock import install_clock
from tests.postgres.server import shared_databases
from tests.simulation.handing import Handed
from tests.simulation.recipe import recipe_of
from tests.simulation.simulation import Mutant, simulate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duly.store.ports.dispatch import MemberKind
    from duly.store.ports.execution import ClaimRuns
    from duly.store.wakeups import Sender
    from tests.postgres.server import Databases
    from tests.simulation.handing import Offer
    from tests.simulation.simulation import Report
    from tests.simulation.world import StoreClock

NOBODY = ("127.0.0.1", 0)
SET_CLOCK = "SELECT setval('duly_testing.clock', %s)"


class WorldBell:
    """Wakes whoever waits in this world, at once: so that a world goes the same way every time."""

    def __init__(self) -> None:
        self.places: list[LocalWakeups] = []

    def ring(self, _: MemberKind | None = None) -> None:
        """Wake everybody."""
        for place in self.places:
            place.wake()

    def look_ahead(self, _: object) -> None:
        """Know everybody already."""

    def close(self) -> None:
        """Let go of nothing."""


class Deaf:
    """A place at which nothing is heard: what is said there is kept."""

    def __init__(self) -> None:
        self.said: list[bytes] = []

    def hear_offers(self, _: object) -> None:
        """Know whom to bring offers to; nobody brings any here."""

    def hear(self) -> None:
        """Hear nothing."""

    def say(self, said: bytes, _: Sender) -> None:
        """Keep what is said."""
        self.said.append(said)


class WorldStore:
    """The shipped store; before every call its database is told what time it is."""

    def __init__(self, databases: Databases, clock: StoreClock, shards: int) -> None:
        self._databases = databases
        self._clock = clock
        self._url = databases.create_database()
        self._store = PostgresStore(self._url, clock, shards=shards)
        self._bell = WorldBell()
        self._store._connections.bell = self._bell  # type: ignore[assignment] # noqa: SLF001
        self._store.now()
        install_clock(self._url)
        self._line = psycopg.connect(self._url, autocommit=True)

    def __getattr__(self, name: str) -> Any:
        operation = getattr(self._store, name)

        def call(*arguments: Any, **parts: Any) -> Any:
            self._line.execute(SET_CLOCK, [self._clock.now_us()])
            return operation(*arguments, **parts)

        setattr(self, name, call)
        return call

    def fire_and_claim(self, offer: Offer, order: ClaimRuns) -> Handed:
        """Have an offer heard, and claim: by the statement that fires and claims, if it may."""
        connections, place = self._store._connections, Deaf()  # noqa: SLF001
        # Each worker has its own, as each process has its own store.
        connections.offers = offers = handing.Offers(self._clock)
        offers.open(place)  # type: ignore[arg-type]
        offers.most = len(offer.placed)
        timers = [timer for _, timer in offer.placed]
        offers.put(handing.offer_text(0, firing.run_values(offer.command, timers)), NOBODY)
        claimed = self.claim_runs(order)
        (said,) = place.said
        _, now, many, *_ = handing._ANSWER.unpack_from(said)  # noqa: SLF001
        if many < 0:
            return Handed(claimed.now, None, claimed)
        places = {place for (place,) in struct.iter_unpack(">h", said[handing._ANSWER.size :])}  # noqa: SLF001
        is_all = many == len(timers)
        fired = tuple(is_all or place in places for place in range(1, len(timers) + 1))
        return Handed(now, fired, claimed)

    def wakeups(self, _: MemberKind | None = None) -> LocalWakeups:
        """Return a place to wait at; the bell of PostgreSQL rings in real time alone."""
        place = LocalWakeups("simulated")
        self._bell.places.append(place)
        return place

    def close(self) -> None:
        """Remove the database."""
        self._store.close()
        self._line.close()
        self._databases.drop_database(self._url)


Change = tuple[object, str, str, str]
"""A module, the name of a statement in it, and what is replaced in that by what."""

IMPATIENT: tuple[Change, ...] = (
    (firing, "FIRE_SCHEDULES", "100ms", "2ms"),
    (firing, "FIRE_DELAYED", "100ms", "2ms"),
    (handed, "FIRE_HANDED", "100ms", "2ms"),
    (connection, "BEGIN_WRITE", "'2s'", "'10ms'"),
)
"""What somebody else holds is waited for, but only for a moment."""


@contextmanager
def changed_statements(changes: tuple[Change, ...]) -> Iterator[None]:
    """Let the store send other statements for a while."""
    with ExitStack() as stack:
        for place, name, old, new in changes:
            text = getattr(place, name)
            assert old in text, f"{name} has no {old}"
            stack.enter_context(mock.patch.object(place, name, text.replace(old, new)))
        yield


def on_postgres(databases: Databases, *defects: Change) -> Mutant:
    """Return what makes a world one on PostgreSQL, with defects or without."""

    def store(clock: StoreClock, shards: int) -> WorldStore:
        return WorldStore(databases, clock, shards)

    changes = (*IMPATIENT, *defects)
    return Mutant("postgres", store=store, patch=lambda _: changed_statements(changes))


@cache
def _databases(folder: Path) -> Databases:
    return shared_databases(folder)


def play_on_postgres(folder: Path, seed: int) -> Report:
    """Play the recipe of a seed, on the server of all processes that name this folder."""
    return simulate(recipe_of(seed), on_postgres(_databases(folder)))
