"""How fast a dispatcher fires: a crowd at one instant, and a steady stream, beside a bare loop."""

from __future__ import annotations

import shutil
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import apsw

from bench.engine_files import CLOCK, SECOND_US, Promise, make_file, new_app, shift
from duly.domain.identity import occurrence_run_id

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from duly.engine.dispatcher import Dispatcher
    from duly.store.dispatch import Wakeups

Rows = list[tuple[Any, ...]]
BATCH = 1000
HEAD_START_US = 8 * SECOND_US
"""How long before the crowd's instant the dispatcher starts: what a healthy one always has."""

INSERT_RUN = """
INSERT INTO duly_runs (id, tenant, schedule_id, definition_number, task, queue, priority, origin,
    lane, scheduled_for, not_before, created_at, fired_at)
VALUES (?, 'default', ?, 1, 'ping', 'default', 4, 'schedule', 'live', ?, ?, ?, ?)"""
INSERT_READY = "INSERT INTO duly_ready VALUES ('default', 4, ?, ?, ?, ?)"
ADVANCE = """
UPDATE duly_schedule_state SET next_for = ?, next_due = ?, last_for = ?, last_run = ?,
    last_fired_at = ?, fires = fires + 1
WHERE schedule_id = ?"""


class Spread(NamedTuple):
    """A median and how far the rounds lay apart."""

    median: float
    lowest: float
    highest: float

    def __str__(self) -> str:
        return f"{self.median:,.0f} ({self.lowest:,.0f}-{self.highest:,.0f})"


def spread(values: list[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def drive(dispatcher: Dispatcher, wakeups: Wakeups, until_us: int, fires: int | None) -> None:
    """Tick as the loop does, until so much has fired or the time is over."""
    while fires is None or dispatcher.statistics.fired < fires:
        wake_at = dispatcher.tick()
        monotonic = CLOCK.monotonic_us()
        if monotonic > until_us:
            return
        wait_us = min(wake_at, until_us) - monotonic
        if wait_us > 0 and wakeups.wait(wait_us):
            dispatcher.wake()


def crowd(folder: Path, count: int, kind: str) -> float:
    """Fire a crowd due at one instant; return fires a second, from first fire to last commit."""
    due_at = CLOCK.now_us()
    promises = (Promise(due_at=due_at) for _ in range(count))
    path = folder / "crowd.db"
    make_file(path, **{kind: promises})
    shift(path, CLOCK.now_us() - due_at + HEAD_START_US)
    with new_app(path) as app:
        wakeups = app.store.wakeups()
        dispatcher = app.dispatcher()
        drive(dispatcher, wakeups, CLOCK.monotonic_us() + 300 * SECOND_US, count)
        ended = CLOCK.now_us()
        dispatcher.stop()
    connection = apsw.Connection(str(path))
    sql = "SELECT min(fired_at), count(*) FROM duly_runs"
    ((first, runs),) = cast("Rows", connection.execute(sql).fetchall())
    connection.close()
    assert runs == count, f"{runs} runs for {count} promises"
    _remove(path)
    return float(count / (ended - first) * SECOND_US)


def bare(folder: Path, count: int) -> float:
    """Do the least that a durable fire takes, in a bare loop; return fires a second."""
    due_at = CLOCK.now_us()
    path = make_file(folder / "bare.db", (Promise(due_at=due_at) for _ in range(count)))
    connection = apsw.Connection(str(path))
    connection.pragma("journal_mode", "wal")
    connection.pragma("synchronous", "full")
    connection.pragma("cache_size", -65_536)
    connection.pragma("wal_autocheckpoint", 10_000)
    order = "SELECT schedule_id FROM duly_schedule_state ORDER BY shard, schedule_id"
    rows = list(_rows([one for (one,) in connection.execute(order)], due_at))
    began = CLOCK.monotonic_us()
    for start in range(0, count, BATCH):
        part = rows[start : start + BATCH]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT_RUN, [one[0] for one in part])
        connection.executemany(INSERT_READY, [one[1] for one in part])
        connection.executemany(ADVANCE, [one[2] for one in part])
        connection.execute("COMMIT")
    took = CLOCK.monotonic_us() - began
    connection.close()
    _remove(path)
    return count / took * SECOND_US


def _rows(schedules: list[bytes], due_at: int) -> Iterator[tuple[tuple[object, ...], ...]]:
    next_at = due_at + 86_400 * SECOND_US
    for one in schedules:
        run = occurrence_run_id(one, due_at)  # type: ignore[arg-type]
        yield (
            (run, one, due_at, due_at, due_at, due_at),
            (due_at, run, due_at, due_at),
            (next_at, next_at, due_at, run, due_at, one),
        )


class Sustained(NamedTuple):
    """A steady stream: what was expected of it, and what came."""

    rate: int
    expected: int
    fired: int
    missed: int
    doubled: int
    lateness_us: list[int]


def sustained(folder: Path, rate: int, seconds: int, period: int = 5) -> Sustained:
    """Fire schedules that are spread evenly over their period, for some seconds."""
    count, period_us = rate * period, period * SECOND_US
    start_at = CLOCK.now_us() // period_us * period_us
    promises = (
        Promise(due_at=start_at + number * period_us // count, period_us=period_us)
        for number in range(count)
    )
    path = make_file(folder / "stream.db", promises)
    periods = (CLOCK.now_us() + HEAD_START_US - start_at) // period_us + 1
    shift(path, periods * period_us)
    start_at += periods * period_us
    end_at = start_at + seconds * SECOND_US
    with new_app(path) as app:
        dispatcher = app.dispatcher()
        over = CLOCK.monotonic_us() + end_at - CLOCK.now_us() + SECOND_US // 2
        drive(dispatcher, app.store.wakeups(), over, None)
        dispatcher.stop()
    connection = apsw.Connection(str(path))
    sql = """
        SELECT schedule_id, scheduled_for, fired_at - not_before FROM duly_runs
        WHERE scheduled_for < ?"""
    found = cast("Rows", connection.execute(sql, (end_at,)).fetchall())
    connection.close()
    _remove(path)
    distinct, expected = len({one[:2] for one in found}), rate * seconds
    lateness = sorted(one[2] for one in found)
    return Sustained(
        rate, expected, len(found), expected - distinct, len(found) - distinct, lateness
    )


def share(ordered: list[int], part: float) -> int:
    """Return what so great a part of sorted values does not exceed."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] if ordered else 0


def milliseconds(ordered: list[int]) -> str:
    """Write p50, p99 and the highest of sorted microseconds."""
    parts = (share(ordered, 0.5), share(ordered, 0.99), ordered[-1] if ordered else 0)
    return " | ".join(f"{one / 1000:,.2f}" for one in parts)


def _remove(path: Path) -> None:
    for one in path.parent.glob(f"{path.name}*"):
        one.unlink()


def make_room(folder: Path) -> None:
    """Begin with an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
