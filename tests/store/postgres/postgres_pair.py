"""A dispatcher and a worker next door to each other: each has a store object of its own."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psycopg

from duly.domain.enums import Lane
from duly.store.ports.dispatch import FireDelayed, FireTimers, LoadTimers, MemberKind, Renew
from duly.store.ports.execution import ClaimRuns, Heartbeat
from duly.store.postgres import PostgresStore
from duly.store.postgres.neighbours import LOOK_EVERY_US
from duly.store.wakeups import LONG_MAX
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US, SECOND_US, add_runs, new_run
from tests.store.postgres.turnstile import PATIENT
from tests.waiting import comes_true

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from duly.store.ports.dispatch import Fence, Fired, MemberId
    from duly.store.ports.execution import Claimed, ClaimedRun
    from duly.store.postgres.bell import PostgresWakeups
    from duly.store.postgres.handing import Offering, Offers, Taker
    from tests.postgres.database_clock import DatabaseClock

SLOTS = 2000
CLAIMS_MAX = 50
COUNT = "SELECT count(*) FROM duly.{}"


class Employed:
    """A worker, and the store object and the place that are its own."""

    def __init__(self, store: PostgresStore, **parts: Any) -> None:
        self.store = store
        place: Any = store.wakeups(MemberKind.WORKER)
        self.place: PostgresWakeups = place
        given = {"slots": SLOTS, "ttl_us": HOUR_US, "wake_address": place.address} | parts
        self.id: MemberId = work.join_worker(store, **given)

    @property
    def offers(self) -> Offers:
        """What it was offered; it is told nowhere else."""
        return self.store._connections.offers  # noqa: SLF001

    def order(self, limit: int = SLOTS, **parts: Any) -> ClaimRuns:
        """Return the order to claim."""
        return ClaimRuns(worker=self.id, limit=limit, **parts)

    def claim(self, limit: int = SLOTS, **parts: Any) -> Claimed:
        """Claim, once."""
        return self.store.claim_runs(self.order(limit, **parts))

    def claim_all(self, **parts: Any) -> list[ClaimedRun]:
        """Claim as long as the store says that there is more to be had at once."""
        taken: list[ClaimedRun] = []
        for _ in range(CLAIMS_MAX):
            claimed = self.claim(**parts)
            taken += claimed.runs
            if not claimed.is_followed:
                return taken
        raise AssertionError("it never ends")

    def hear_all(self) -> int:
        """Hear what was offered, and return how many offers there are."""
        self.offers.is_any()
        return len(self.offers._offers)  # noqa: SLF001

    def refuse(self) -> None:
        """Refuse what was offered, as who has waited for too long does."""
        self.offers.refuse_all()


class Street:
    """A dispatcher with all leases, and the workers next door that it knows."""

    def __init__(self, url: str, clock: DatabaseClock) -> None:
        self.url = url
        self.clock = clock
        self.line = psycopg.connect(url, autocommit=True)
        self._stores: list[PostgresStore] = []
        self._employed: list[Employed] = []
        self.store = self.open()
        self.fence: Fence = steps.own(self.store, (Lane.LIVE,), ttl_us=HOUR_US)

    def open(self, url: str | None = None) -> PostgresStore:
        """Open another store object."""
        self._stores.append(PostgresStore(url or self.url, self.clock, settings=PATIENT))
        return self._stores[-1]

    def employ(self, url: str | None = None, **parts: Any) -> Employed:
        """Have another worker next door, with a process of its own as it were."""
        self._employed.append(Employed(self.open(url), **parts))
        return self._employed[-1]

    def move_in(self, **parts: Any) -> Employed:
        """Have a worker next door that the dispatcher knows."""
        worker = self.employ(**parts)
        assert comes_true(self.meet), "it never answers"
        return worker

    def meet(self) -> tuple[Taker, ...]:
        """Let the dispatcher look who is there, and those answer; return who takes offers."""
        self.clock.advance(LOOK_EVERY_US)
        self.renew()
        for one in self._employed:
            one.place.wait(0)
        return self.takers()

    def renew(self) -> None:
        """Let everybody stay a member for long."""
        assert self.store.renew(Renew(member=self.fence.member, ttl_us=HOUR_US)).is_alive
        for one in self._employed:
            one.store.beat(Heartbeat(worker=one.id, ttl_us=HOUR_US))

    def takers(self) -> tuple[Taker, ...]:
        """Return who takes offers, as far as the dispatcher knows."""
        return self.store._connections.bell.takers()  # noqa: SLF001 - told nowhere else

    @property
    def offering(self) -> Offering:
        """Who makes offers."""
        return self.store._connections.offering  # noqa: SLF001 - as above

    def lose_answers(self) -> int:
        """Let what was answered be lost; return how many answers there were."""
        lost = 0
        for line in self.offering._lines.values():  # noqa: SLF001 - as above
            with suppress(BlockingIOError):
                while True:
                    line.recv(LONG_MAX)
                    lost += 1
        return lost

    def willing(self) -> list[Taker]:
        """Return whom the dispatcher would ask now."""
        return self.offering.willing(self.takers())

    def promise(self, count: int, text: str = "r", **parts: Any) -> list[RunId]:
        """Have runs fall due in a second; return their ids."""
        due_at = self.clock.now_us() + SECOND_US
        runs = [new_run(due_at, f"{text}{number}", **parts) for number in range(count)]
        return [one.id for one in self.store.add_runs(add_runs(*runs))]

    def order(self, limit: int = 10_000) -> FireTimers:
        """Return the order to fire all that falls due within a second."""
        shards = tuple(lease.key.shard for lease in self.fence.leases)
        until = self.clock.now_us() + SECOND_US
        command = LoadTimers(shards=shards, after=None, until=until, limit=limit)
        found = self.store.load_timers(command).timers
        timers = [timer for timer in found if timer.kind == "delayed"]
        return FireTimers(fence=self.fence, delayed=tuple(map(FireDelayed, timers)))

    def crowd(self, count: int = 8, **parts: Any) -> FireTimers:
        """Return the order to fire so many runs, which are due."""
        self.promise(count, **parts)
        command = self.order()
        self.clock.advance(SECOND_US)
        return command

    def spread(self, command: FireTimers) -> dict[bytes, int]:
        """Have every other run of an order fall due a microsecond from now; return when each does."""
        now, dues = self.clock.now_us(), {}
        for number, ref in enumerate(sorted(fire.timer.ref for fire in command.delayed)):
            dues[ref] = now + number % 2
            values = [dues[ref], ref.hex()]
            self.line.execute("UPDATE duly.delayed SET due_at = %s WHERE id = %s", values)
        return dues

    def begin(self, command: FireTimers) -> Callable[[], Fired]:
        """Begin to fire, by offering it."""
        begun = self.store.begin_fire(command)
        assert begun is not None, "nobody was offered anything"
        return begun

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        row = self.line.execute(COUNT.format(table).encode()).fetchone()
        assert row is not None
        return int(row[0])

    def counts(self) -> tuple[int, int, int, int]:
        """Return how many runs are pending, made, queued and claimed."""
        pending, made = self.count("delayed"), self.count("runs")
        return pending, made, self.count("ready"), self.count("claims")

    def look(self, command: FireTimers) -> list[RunRecord]:
        """Return the runs of all timers of an order."""
        return [work.get_run(self.store, one.timer.ref) for one in command.delayed]  # type: ignore[arg-type]

    def close(self) -> None:
        """Let go of everything."""
        for one in self._employed:
            one.place._over.set()  # noqa: SLF001 - so that nobody waits for a second
        self.line.execute("NOTIFY duly_work")
        for one in self._employed:
            one.place.close()
        for store in self._stores:
            store.close()
        self.line.close()
