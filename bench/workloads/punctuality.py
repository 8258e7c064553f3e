"""W2: schedules that are due every second, their phases spread evenly over it, for some seconds.

A peer that has no such schedules gets the same instants as delayed runs, which is less work.
Missed: not begun five seconds after the end. Doubled: begun twice. "Aligned" lets all of them
fall due on the second: a pulse every second.

How much is too much is searched for: the rate doubles until the 99th percentile is late by more
than 250 ms, or anything is missed, and the gap is halved a few times.
"""

from __future__ import annotations

import time
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from bench.harness import (
    SECOND_US,
    SETTLED_US,
    Crowd,
    Figures,
    Turn,
    in_time,
    kept,
    lateness,
    per_run,
    sleep_until,
    usage,
)
from bench.peers.journal import read_journal
from bench.peers.protocol import now_us
from bench.running import started, told
from bench.stores.places import Promise, number

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from bench.contenders import Contender
    from bench.grounds import Grounds, Site
    from bench.stores.places import Place

NAME = "W2 punctuality"
LIMIT = "W2 limit"
LATE_MS_MAX = 250
FIRST_RATE, HALVED = 2000, 2
AFTERWARDS_SECONDS = 5
START_US = 12 * SECOND_US
RUNS = "SELECT count(*) FROM duly.runs"
DISTINCT = "SELECT count(*) FROM (SELECT DISTINCT schedule_id, scheduled_for FROM duly.runs) d"


class Offered(NamedTuple):
    """How much falls due."""

    rate: int
    seconds: int
    is_aligned: bool = False
    period: int = 1
    """Of each schedule, in seconds."""

    def promises(self, start_at: int) -> Iterator[Promise]:
        count, period_us = self.rate * self.period, self.period * SECOND_US
        if self.is_aligned:
            return (Promise(due_at=start_at, period_us=period_us) for _ in range(count))
        return (
            Promise(due_at=start_at + one * period_us // count, period_us=period_us)
            for one in range(count)
        )

    def due(self, number: int, start_at: int) -> int:
        """Return the first instant of a schedule; numbers begin at 1."""
        if self.is_aligned:
            return start_at
        return start_at + (number - 1) * SECOND_US // self.rate


def turns(contenders: Iterable[Contender], offers: Iterable[Offered]) -> list[Turn]:
    """Return a turn for each contender and offer."""
    return [
        Turn(
            workload=NAME,
            contender=one,
            settings=offered._asdict(),
            measure=partial(punctuality, one, offered),
        )
        for offered in offers
        for one in contenders
    ]


def punctuality(contender: Contender, offered: Offered, grounds: Grounds) -> Figures:
    """Let schedules fall due, and look how late each was begun."""
    if contender.is_ours:

        def attempt(times: int) -> Figures:
            with grounds.site(contender) as site:
                return recurring(contender, site, offered, times)

        return in_time(attempt)
    step = 0 if offered.is_aligned else SECOND_US // offered.rate
    crowd = Crowd(offered.rate * offered.seconds, step, limit=offered.seconds + 60)
    found = kept(contender, grounds, crowd)
    starts: dict[int, int] = {}
    for one, at in found.starts:
        starts.setdefault(one, at)
    late = [at - found.due_at - one * step for one, at in starts.items()]
    return {
        "as": "delayed runs",
        "expected": crowd.size,
        "seen": len(starts),
        "missed": crowd.size - len(starts),
        "doubled": len(found.starts) - len(starts),
        **lateness(late),
        **per_run(found.cpu, crowd.size),
    }


def limit_turns(contenders: Iterable[Contender], seconds: int) -> list[Turn]:
    """Return a turn for each contender that has schedules of a second."""
    return [
        Turn(
            workload=LIMIT,
            contender=one,
            settings={"late_ms_max": LATE_MS_MAX, "seconds": seconds},
            measure=partial(limit, one, seconds),
        )
        for one in contenders
        if one.is_ours
    ]


def limit(contender: Contender, seconds: int, grounds: Grounds) -> Figures:
    """Search for the highest rate that is kept up with."""
    tried: dict[int, float] = {}

    def is_kept(rate: int) -> bool:
        found = punctuality(contender, Offered(rate, seconds), grounds)
        tried[rate] = found.get("p99_ms", float(seconds * 1000))
        return tried[rate] <= LATE_MS_MAX and not found["missed"]

    kept_up, too_much = 0, FIRST_RATE
    while is_kept(too_much):
        kept_up, too_much = too_much, 2 * too_much
    for _ in range(HALVED):
        rate = (kept_up + too_much) // 2
        kept_up, too_much = (rate, too_much) if is_kept(rate) else (kept_up, rate)
    return {"per_second": kept_up, "too_much": too_much, "p99_ms_by_rate": tried}


def recurring(contender: Contender, site: Site, offered: Offered, times: int) -> Figures:
    """Do it with schedules of Duly's."""
    start_at = fill(contender, site, offered, times)
    end_at = start_at + offered.seconds * SECOND_US
    assert site.place is not None
    with started(contender, site.url, site.journal) as processes:
        sleep_until(start_at - SETTLED_US)
        before = usage(contender, site, processes)
        sleep_until(end_at)
        after = usage(contender, site, processes)
        spent = {name: after[name] - before[name] for name in before}
        time.sleep(AFTERWARDS_SECONDS)
    starts = read_journal(site.journal)
    figures = judged(starts, offered, start_at)
    runs, distinct = number(site.place, RUNS), number(site.place, DISTINCT)
    figures["doubled"] = runs - distinct + max(0, len(starts) - runs)
    return {
        "as": "schedules",
        **figures,
        **per_run(spent, offered.rate * offered.seconds),
        "cores": {name: round(one / offered.seconds, 3) for name, one in spent.items()},
    }


def fill(contender: Contender, site: Site, offered: Offered, times: int = 1) -> int:
    """Make the schedules; return when the first falls due, on a whole second."""
    place: Place | None = site.place
    assert place is not None
    told(contender, site.journal, "prepare", site.url)
    period_us = offered.period * SECOND_US
    start_at = now_us() // period_us * period_us
    place.fill(offered.promises(start_at))
    periods = (now_us() + times * START_US - start_at) // period_us + 1
    place.shift(periods * period_us)
    return start_at + periods * period_us


def judged(starts: list[tuple[int, int]], offered: Offered, start_at: int) -> Figures:
    """Compare what was begun with what was to begin: each schedule's first with its first."""
    by_number: dict[int, list[int]] = defaultdict(list)
    for one, at in starts:
        by_number[one].append(at)
    assert 0 not in by_number, "schedules begin at 1: a run was not told its number"
    each = offered.seconds // offered.period
    period_us = offered.period * SECOND_US
    limit = start_at + (offered.seconds + AFTERWARDS_SECONDS) * SECOND_US
    late, seen = [], 0
    for one in range(1, offered.rate * offered.period + 1):
        due = offered.due(one, start_at)
        found = sorted(by_number[one])[:each]
        seen += sum(at <= limit for at in found)
        late += [at - due - period_us * turn for turn, at in enumerate(found)]
    expected = each * offered.rate * offered.period
    return {"expected": expected, "seen": seen, "missed": expected - seen, **lateness(late)}
