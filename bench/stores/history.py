"""A store with a past: so many runs of many schedules and tenants, in every state, with errors.

What is in it follows from a run's number alone, so that both databases have the same. All of it
is skewed as life is: a few schedules and tenants have most runs, a few errors are most errors, and
most runs went well.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import chain
from typing import TYPE_CHECKING, Any

import apsw
import psycopg

from bench.stores.database import Database, execute
from bench.stores.places import CLOCK, DAY_US, SECOND_US, far_away

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from bench.stores.file import SqliteFile

SCHEDULES = 500
TENANTS = 20
WORKERS = 40
KEYS_PER = 5
"""So many runs have the same key."""
SPAN_US = 30 * DAY_US
STATES = (
    (0.900, "succeeded"),
    (0.940, "failed"),
    (0.955, "dead"),
    (0.965, "cancelled"),
    (0.973, "skipped"),
    (0.981, "coalesced"),
    (0.984, "discarded"),
    (0.994, "queued"),
    (0.997, "retrying"),
    (0.999, "ambiguous"),
    (1.000, "running"),
)
ERRORS = (
    (0.60, "ConnectionRefusedError: [Errno 111] Connection refused"),
    (0.90, "TimeoutError: the other side said nothing for 30 s"),
    (0.99, "ValueError: no such customer"),
    (1.00, "OSError: [Errno 28] No space left on device"),
)
TRACEBACK = "Traceback (most recent call last):\n" + "".join(
    f'  File "/srv/app/tasks/step_{number}.py", line {number}, in step_{number}\n'
    f"    return step_{number + 1}(arguments, retry=False)\n"
    for number in range(10)
)
AUDITED = ("schedule.paused", "schedule.changed", "run.retried", "run.discarded", "queue.paused")
RUN = (
    *("id", "tenant", "schedule_id", "definition_number", "key", "task", "arguments", "queue"),
    *("priority", "origin", "lane", "root", "scheduled_for", "not_before", "created_at"),
    "fired_at",
)
OUTCOME = (
    *("run_id", "state", "reason", "finished_at", "fence", "attempt", "charged", "begun_at"),
    *("worker", "claimed_at", "started_at", "error"),
)
ATTEMPT = (
    *("run_id", "fence", "number", "worker", "state", "reason", "claimed_at", "started_at"),
    *("ended_at", "error"),
)
TRIES = ("run_id", "fence", "attempt", "charged", "begun_at")
PLACES = {
    "dead": (*TRIES, "reason", "died_at"),
    "waiting": (*TRIES, "reason", "due_at", "shard"),
    "claims": (*TRIES, "worker", "claimed_at"),
    "ambiguous": (*TRIES, "reason", "since"),
}
CLOSED = ("succeeded", "failed", "cancelled", "skipped", "coalesced", "discarded")
OPEN = {"dead": "dead", "waiting": "retrying", "claims": "running", "ambiguous": "ambiguous"}
READY = ("run_id", "queue", "priority", "rank", "fired_at", "not_before", "tenant")
AUDIT = ("at", "actor", "source", "reason", "action", "tenant", "subject")


@dataclass(frozen=True)
class Past:
    """A run of the past."""

    number: int
    count: int
    start_at: int
    schedules: Sequence[bytes]
    tenants: int = TENANTS

    @cached_property
    def _draws(self) -> list[float]:
        digest = blake2b(self.number.to_bytes(8), digest_size=32).digest()
        return [int.from_bytes(digest[at : at + 4]) / (1 << 32) for at in range(0, 32, 4)]

    @property
    def schedule(self) -> int:
        """Which schedule: the first have most."""
        return int(len(self.schedules) * self._draws[0] ** 3)

    @property
    def tenant(self) -> str:
        """Whose: the first have most."""
        return tenant_of(self.schedule, len(self.schedules), self.tenants)

    @property
    def at(self) -> int:
        """When it was due."""
        return self.start_at + SPAN_US * self.number // self.count

    @property
    def is_by_hand(self) -> bool:
        """Whether somebody asked for it, under a key."""
        return self._draws[1] < 0.1

    @property
    def is_repeated(self) -> bool:
        """Whether it repeats a run of long ago."""
        return self._draws[1] > 0.99

    @cached_property
    def id(self) -> bytes:
        """Begins with when it was due, unless it repeats another."""
        stamp = self.at // 1000 if not self.is_repeated else (self.start_at + SPAN_US) // 1000
        low = blake2b(b"id" + self.number.to_bytes(8), digest_size=10).digest()
        rest = int.from_bytes(low) & ~(0xF << 76) & ~(0b11 << 62) | 0x8 << 76 | 0b10 << 62
        return (stamp << 80 | rest & (1 << 80) - 1).to_bytes(16)

    @property
    def state(self) -> str:
        """What has become of it."""
        return _chosen(STATES, self._draws[2])

    @property
    def error(self) -> str:
        """What it, or an attempt of it, said."""
        return f"{TRACEBACK}{_chosen(ERRORS, self._draws[3])} ({self.number})"

    @property
    def worker(self) -> int:
        """By whom."""
        return 1 + int(WORKERS * self.number / self.count)

    @property
    def is_tried_again(self) -> bool:
        """Whether an attempt failed before."""
        is_open = self.state in ("dead", "retrying")
        return is_open or (self.state == "succeeded" and self._draws[4] < 0.03)

    def run(self) -> tuple[Any, ...]:
        """Return its row among the runs."""
        by_hand = self.is_by_hand
        origin = "now" if by_hand else "rerun" if self.is_repeated else "schedule"
        return (
            self.id,
            self.tenant,
            None if by_hand else self.schedules[self.schedule],
            None if by_hand else 1,
            f"order:{self.number // KEYS_PER}" if by_hand else None,
            f"task_{self.schedule % 50}",
            '{"number":1}' if by_hand else None,
            "default",
            5,
            origin,
            "live",
            self.schedules[0] if self.is_repeated else None,
            self.at,
            self.at,
            self.at,
            self.at + 1000,
        )

    def outcome(self) -> tuple[Any, ...]:
        """Return its row among the outcomes."""
        is_worked = self.state in ("succeeded", "failed")
        tries = 2 if self.is_tried_again else 1
        worked = (self.worker, self.at, self.at) if is_worked else (None, None, None)
        error = self.error if self.state == "failed" else None
        reason = None if self.state == "succeeded" else "not-retryable"
        return (
            *(self.id, self.state, reason, self.at + SECOND_US, tries, tries, tries, self.at),
            *worked,
            error,
        )

    def attempt(self) -> tuple[Any, ...]:
        """Return the row of its first attempt."""
        at = self.at
        return (
            *(self.id, 1, 1, self.worker, "failed", "error", at, at, at + SECOND_US),
            self.error,
        )

    def place(self) -> tuple[Any, ...]:
        """Return its row in the place where it is."""
        tries = (self.id, 1, 1, 1, self.at)
        match self.state:
            case "retrying":
                return (*tries, "error", self.at + SECOND_US, 0)
            case "running":
                return (*tries, self.worker, self.at)
            case _:
                return (*tries, "budget", self.at + SECOND_US)

    def ready(self) -> tuple[Any, ...]:
        """Return its row in the queue."""
        fired_at = self.at + 1000
        share = "" if self.tenant == "default" else self.tenant
        return (self.id, "default", 5, self.number, fired_at, self.at, share)

    def audit(self) -> tuple[Any, ...]:
        """Return an entry about it."""
        action = AUDITED[int(len(AUDITED) * self._draws[5] ** 2)]
        person = f"person {int(100 * self._draws[6] ** 2)}"
        return (self.at, person, "cli", "because", action, self.tenant, f"s{self.schedule}")


def tenant_of(schedule: int, of: int = SCHEDULES, tenants: int = TENANTS) -> str:
    """Return whose a schedule is, of so many."""
    tenant = int(tenants * (schedule / of))
    return "default" if tenant == 0 else f"tenant-{tenant}"


def fill_database(place: Database, count: int, of: int = SCHEDULES, tenants: int = TENANTS) -> None:
    """Fill a database with runs of so many schedules, and let it know what is in it."""
    place.fill(far_away(of))
    schedules = _schedules(place)
    with ExitStack() as stack:
        for table in ("runs", "outcomes"):
            stack.enter_context(place.without_indexes(table))
        connection = stack.enter_context(psycopg.connect(place.url))
        execute(connection, "SET LOCAL synchronous_commit = off")
        for number, schedule in enumerate(schedules):
            sql = "UPDATE duly.schedules SET tenant = %s WHERE id = %s"
            connection.execute(sql, (tenant_of(number, of, tenants), schedule.hex()))
        for table, columns, rows in _tables(count, schedules, tenants):
            named = (*columns, "era") if table == "ready" else columns
            copy = f"COPY duly.{table} ({', '.join(named)}) FROM STDIN"
            with connection.cursor().copy(copy) as written:
                for one in rows:
                    values = [each.hex() if isinstance(each, bytes) else each for each in one]
                    written.write_row([*values, 0] if table == "ready" else values)
    place.execute("VACUUM (ANALYZE)")


def fill_file(place: SqliteFile, count: int, of: int = SCHEDULES, tenants: int = TENANTS) -> None:
    """Fill a file with runs of so many schedules."""
    place.fill(far_away(of))
    schedules = _schedules(place)
    connection = apsw.Connection(place.url.removeprefix("sqlite:///"))
    connection.execute("PRAGMA synchronous = OFF; PRAGMA cache_size = -500000")
    with connection:
        for number, schedule in enumerate(schedules):
            sql = "UPDATE duly_schedules SET tenant = ? WHERE id = ?"
            connection.execute(sql, (tenant_of(number, of, tenants), schedule))
        for table, columns, rows in _tables(count, schedules, tenants):
            places = ", ".join("?" * len(columns))
            sql = f"INSERT INTO duly_{table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608
            connection.executemany(sql, rows)
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _schedules(place: Database | SqliteFile) -> list[bytes]:
    found = place.rows("SELECT id FROM duly.schedules ORDER BY name")
    return [one if isinstance(one, bytes) else one.bytes for (one,) in found]


def _tables(
    count: int, schedules: Sequence[bytes], tenants: int
) -> Iterator[tuple[str, Sequence[str], Iterator[tuple[Any, ...]]]]:
    """Return what goes where: first the runs, then what refers to them."""
    start_at = CLOCK.now_us() - SPAN_US
    numbers: dict[str, list[int]] = {}
    tried: list[int] = []
    for number in range(count):
        one = Past(number, count, start_at, schedules, tenants)
        numbers.setdefault(one.state, []).append(number)
        if one.is_tried_again:
            tried.append(number)

    def past(chosen: Iterable[int]) -> Iterator[Past]:
        return (Past(number, count, start_at, schedules, tenants) for number in chosen)

    closed = sorted(chain.from_iterable(numbers.get(state, ()) for state in CLOSED))
    yield "runs", RUN, (one.run() for one in past(range(count)))
    yield "outcomes", OUTCOME, (one.outcome() for one in past(closed))
    yield "attempts", ATTEMPT, (one.attempt() for one in past(tried))
    for table, state in OPEN.items():
        yield table, PLACES[table], (one.place() for one in past(numbers.get(state, ())))
    yield "ready", READY, (one.ready() for one in past(numbers.get("queued", ())))
    yield "audit", AUDIT, (one.audit() for one in past(range(0, count, 5)))


def _chosen(among: Sequence[tuple[float, str]], draw: float) -> str:
    return next(name for most, name in among if draw <= most)
