"""W7: more processes, more history, and a transaction that somebody holds open.

A burst with one, two and four dispatchers and workers; a burst after so many runs that are long
over; and a steady stream while a session in REPEATABLE READ stays open, minute by minute.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import psycopg

from bench.harness import (
    SECOND_US,
    START_SECONDS,
    Crowd,
    Figures,
    Turn,
    keep,
    kept,
    lateness,
    sleep_until,
)
from bench.peers.journal import clear_journal, read_journal
from bench.running import Team, started, told
from bench.stores.database import Database
from bench.workloads.burst import summary
from bench.workloads.punctuality import Offered, fill, judged

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.contenders import Contender
    from bench.grounds import Grounds, Site

PROCESSES = "W7 processes"
HISTORY = "W7 history"
HELD = "W7 held transaction"
REPEAT_HISTORY = """
INSERT INTO duly.{table} ({names})
SELECT {values} FROM duly.{table} t CROSS JOIN generate_series(1, {times}) n ORDER BY {new_id}"""
NEW_ID = "md5({column}::text || n)::uuid"


def process_turns(contenders: Iterable[Contender], count: int) -> list[Turn]:
    """Return turns with one, two and four of each process."""
    return [
        Turn(
            workload=PROCESSES,
            contender=one,
            settings={"count": count, "dispatchers": dispatchers, "workers": workers},
            measure=partial(processes, one, Crowd(count, team=Team(dispatchers, workers))),
        )
        for one in contenders
        for dispatchers, workers in ((1, 1), (1, 2), (2, 2), (4, 4))
    ]


def processes(contender: Contender, crowd: Crowd, grounds: Grounds) -> Figures:
    """Run a burst by several processes."""
    return summary(kept(contender, grounds, crowd), crowd.size)


def history_turns(contenders: Iterable[Contender], lengths: Iterable[int]) -> list[Turn]:
    """Return a turn for each length of history."""
    return [
        Turn(
            workload=HISTORY,
            contender=one,
            settings={"history": length, "count": 10_000},
            measure=partial(history, one, length),
        )
        for one in contenders
        if one.store == "PostgreSQL" and one.is_ours
        for length in lengths
    ]


def history(contender: Contender, length: int, grounds: Grounds) -> Figures:
    """Run a burst on a store that remembers much."""
    with grounds.site(contender) as site:
        told(contender, site.journal, "prepare", site.url)
        lead = 4 * START_SECONDS
        keep(contender, site, Crowd(1000), lead)
        _remember(site, max(0, length // 1000 - 1))
        grounds.checkpoint()
        clear_journal(site.journal)
        found = keep(contender, site, Crowd(10_000), lead)
    return summary(found, 10_000)


def _remember(site: Site, times: int) -> None:
    """Repeat the runs that are over, and their outcomes."""
    assert isinstance(site.place, Database)
    if not times:
        return
    for table, column in (("runs", "id"), ("outcomes", "run_id")):
        sql = f"""
            SELECT attname FROM pg_attribute
            WHERE attrelid = 'duly.{table}'::regclass AND attnum > 0 AND NOT attisdropped"""  # noqa: S608
        names = [name for (name,) in site.place.rows(sql)]
        new_id = NEW_ID.format(column=f"t.{column}")
        values = [new_id if name == column else f"t.{name}" for name in names]
        told_names, told_values = ", ".join(names), ", ".join(values)
        parts = {"table": table, "names": told_names, "values": told_values, "new_id": new_id}
        with site.place.without_indexes(table):
            site.place.execute("SET work_mem = '256MB'; SET synchronous_commit = off")
            site.place.execute(REPEAT_HISTORY.format(**parts, times=times))
        site.place.execute(f"VACUUM (ANALYZE) duly.{table}")


class Holding(NamedTuple):
    """A stream, and whether somebody holds a transaction open meanwhile."""

    rate: int
    minutes: int
    minute: int
    """In seconds; less for a quick look."""
    period: int
    """Each schedule is due once in so many seconds; each fire leaves an old row behind."""
    is_held: bool


def held_turns(contenders: Iterable[Contender], sizes: tuple[int, int, int, int]) -> list[Turn]:
    """Return turns with and without a transaction that is held open."""
    return [
        Turn(
            workload=HELD,
            contender=one,
            settings=Holding(*sizes, is_held)._asdict(),
            measure=partial(held, one, Holding(*sizes, is_held)),
        )
        for one in contenders
        if one.store == "PostgreSQL" and one.is_ours
        for is_held in (False, True)
    ]


def held(contender: Contender, holding: Holding, grounds: Grounds) -> Figures:
    """Let a steady stream flow while a transaction is open; tell minute by minute."""
    minute = holding.minute
    offered = Offered(holding.rate, holding.minutes * minute, period=holding.period)
    with grounds.site(contender) as site:
        start_at = fill(contender, site, offered, times=2)
        assert site.place is not None
        buffers = []
        with (
            _open_transaction(site.url, is_held=holding.is_held),
            site.place.counting() as counted,
            started(contender, site.url, site.journal),
        ):
            for number in range(offered.seconds // minute + 1):
                sleep_until(start_at + number * minute * SECOND_US)
                buffers.append(counted.read()["buffers"])
            time.sleep(5)
        starts = read_journal(site.journal)
    figures = judged(starts, offered, start_at)
    runs = offered.rate * minute
    pairs = pairwise(buffers)
    figures["buffers_per_run"] = [round((late - early) / runs, 1) for early, late in pairs]
    figures["minutes"] = _by_minute(starts, offered, start_at, minute)
    return figures


def _by_minute(
    starts: list[tuple[int, int]], offered: Offered, start_at: int, minute: int
) -> list[Figures]:
    """Describe lateness minute by minute, each schedule's first run beside its first instant."""
    by_number: dict[int, list[int]] = defaultdict(list)
    for one, at in starts:
        by_number[one].append(at)
    late: dict[int, list[int]] = defaultdict(list)
    for one, began in by_number.items():
        for turn, at in enumerate(sorted(began)):
            due = offered.due(one, start_at) + turn * offered.period * SECOND_US
            late[(due - start_at) // (minute * SECOND_US)].append(at - due)
    return [
        {name: value for name, value in lateness(late[number]).items() if name != "curve_ms"}
        for number in range(offered.seconds // minute)
    ]


@contextmanager
def _open_transaction(url: str, *, is_held: bool) -> Iterator[None]:
    """Hold a transaction open that has read something, as a forgotten session or a report does."""
    if not is_held:
        yield
        return
    with psycopg.connect(url) as connection:
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        connection.execute("SELECT count(*) FROM duly.members")
        yield
        connection.rollback()
