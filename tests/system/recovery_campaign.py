"""Campaign 2: nobody fires for a while, and a hundred thousand occurrences are overdue.

    python -m tests.system.recovery_campaign [PLOT]
    python -m tests.system.recovery_campaign [PLOT] --busy     a thousand live runs a second beside it

Real processes on PostgreSQL: two dispatchers, two workers. For a while all is well; then the
dispatchers are stopped, and every schedule's state is moved back by SQL to what it would be, had
they been down for 25 minutes: its timer stands at the first occurrence that was missed. Nothing
else is compressed. When they are back, what falls due is to be as punctual as it was before.
"""

from __future__ import annotations

import random
import signal
import sys
import tempfile
from collections import defaultdict
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import duly
from bench.stores.database import Database, boot
from bench.stores.places import Promise
from duly.clock import SystemClock
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.loop import Loop
from tests.system.fleet import Process
from tests.system.recovery_plot import draw
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.postgres.server import Server

SECOND_US = 1_000_000
PROGRAM = "tests.system.recovery_campaign"
WORKERS = 2
DRAIN_SECONDS = 900.0
ENDS_MAX = 20
CLOCK = SystemClock()

# As if nobody had fired since `down_us` ago: the first occurrence since then is pending.
MOVE_BACK = """
UPDATE duly.schedule_state SET next_for = next_for - back, next_due = next_due - back,
    load_at = load_at - back
FROM (SELECT schedule_id AS id,
        %(period)s * ((next_for - %(now)s + %(down)s) / %(period)s) AS back
    FROM duly.schedule_state) b
WHERE b.id = schedule_id"""
RUN_ALL = """
UPDATE duly.schedule_definitions
SET definition = replace(replace(replace(definition, '"policy":"latest"', '"policy":"all"'),
    '"grace":"1m"', '"grace":"%(grace)ss"'), '"overlap":"skip"', '"overlap":"allow"')"""
# A late run must not be the reason for which the next one on time is skipped.
ALLOW = "UPDATE duly.schedule_state SET overlap = 'allow'"
COUNT_OVERDUE = """
SELECT sum((%(now)s - next_for) / %(period)s + 1) FROM duly.schedule_state
WHERE next_for <= %(now)s"""
COUNT_OWED = "SELECT count(*) FROM duly.owed"
COUNT_BEHIND = """
SELECT (SELECT count(*) FROM duly.owed)
    + (SELECT count(*) FROM duly.schedule_state WHERE next_due < %(now)s - %(grace)s * 1000000)"""
COUNT_OPEN = """
SELECT (SELECT count(*) FROM duly.runs) - (SELECT count(*) FROM duly.outcomes)"""
READ_RUNS = """
SELECT r.origin, r.not_before, r.fired_at, o.started_at FROM duly.runs r
LEFT JOIN duly.outcomes o ON o.run_id = r.id WHERE r.fired_at >= %(since)s"""
# Every occurrence between the first that was missed and the next to come, without a run.
COUNT_LOST = """
SELECT count(*) FROM duly.schedule_state t
CROSS JOIN generate_series(0::int8, %(slots)s) AS back
WHERE t.next_for - (back + 1) * %(period)s >= %(since)s AND NOT EXISTS (
    SELECT 1 FROM duly.runs r
    WHERE r.schedule_id = t.schedule_id
        AND r.scheduled_for = t.next_for - (back + 1) * %(period)s)"""
# The same before they are caught up: from the first that was moved back to until now.
COUNT_MISSED = """
SELECT count(*) FROM duly.schedule_state t
CROSS JOIN generate_series(0::int8, %(slots)s) AS later
WHERE t.next_for + later * %(period)s BETWEEN %(since)s AND %(now)s AND NOT EXISTS (
    SELECT 1 FROM duly.runs r
    WHERE r.schedule_id = t.schedule_id
        AND r.scheduled_for = t.next_for + later * %(period)s)"""
COUNT_TWICE = """
SELECT (SELECT count(*) FROM (SELECT 1 FROM duly.runs GROUP BY schedule_id, scheduled_for
        HAVING count(*) > 1) d)
    + (SELECT count(*) FROM duly.attempts)
    + (SELECT count(*) FROM duly.outcomes WHERE fence <> 1 OR state <> 'succeeded')"""
"""Runs of one occurrence, claims beside the one that closed a run, and ends that are no success."""

app = duly.App(name="recovery")


@app.task(name="ping")
async def ping(number: int = 0) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Plan:
    """How large, how long, how fast."""

    schedules: int = 60_000
    period: int = 900
    """Seconds between the occurrences of each schedule, as are all that follow."""
    down: int = 1_500
    settling: int = 30
    """How long after the start of all processes nothing is counted."""
    healthy: int = 60
    per_second: int | None = 1000
    """How many missed occurrences the fleet makes runs of; None for as many as live work allows."""
    dispatchers: int = 2
    grace: int = 60
    """How late still counts as on time."""


SHORT = Plan(schedules=600, period=30, down=50, settling=2, healthy=5, per_second=200, grace=2)
BUSY = Plan(schedules=15_000, period=15, down=105, per_second=None, dispatchers=1, grace=5)
"""A thousand live runs a second, 105,000 occurrences overdue, and the default rate."""


class Fired(NamedTuple):
    """A run, as the database has it."""

    origin: str
    due_at: int
    fired_at: int
    started_at: int | None

    @property
    def is_live(self) -> bool:
        """Whether it was fired on time."""
        return self.origin == "schedule"


@dataclass
class Second:
    """What was fired in one second."""

    live_us: list[int] = field(default_factory=list)
    """How late what had just fallen due was."""
    caught_up: int = 0


@dataclass
class Recovery:
    """What was seen."""

    plan: Plan
    overdue: int
    missed: int
    """How many of those that are overdue had not been run before the state was moved back."""
    healthy_us: list[int]
    recovering_us: list[int]
    begun_us: list[int]
    """How late the code of live runs began in recovery."""
    seconds: dict[int, Second]
    """From the moment at which the dispatchers were started again."""
    drained_after: float
    lost: int
    twice: int

    def problems(self) -> list[str]:
        """Return what must not be; how late anything was is told, not judged."""
        found = []
        if self.lost:
            found.append(f"INV-2: {self.lost} occurrences have no run")
        if self.twice:
            found.append(f"INV-3: {self.twice} were run or claimed twice, or did not succeed")
        caught_up = sum(one.caught_up for one in self.seconds.values())
        # Some were within their grace, more of them where dispatchers start slowly.
        if caught_up < self.missed // 2:
            found.append(f"only {caught_up} of {self.missed} were caught up: this proves nothing")
        if self.plan.per_second is None:
            return found
        # From their start on; a second's worth may be saved up. A machine that stands still makes
        # no second fuller by this count.
        rated = self.plan.per_second * (self.drained_after + 1)
        if caught_up > rated:
            found.append(f"INV-9: {caught_up} were caught up where the rate allows {rated:.0f}")
        return found

    def fastest(self) -> int:
        """Return the most that were caught up in one second."""
        return max((one.caught_up for one in self.seconds.values()), default=0)

    def summary(self) -> str:
        """Return the figures in a paragraph."""
        healthy, recovering = told(self.healthy_us), told(self.recovering_us)
        ratio = percentile(self.recovering_us, 0.99) / max(1, percentile(self.healthy_us, 0.99))
        caught_up = sum(one.caught_up for one in self.seconds.values())
        rate = caught_up / max(self.drained_after, 1)
        allowed = (
            "by default" if self.plan.per_second is None else f"{self.plan.per_second:,} allowed"
        )
        return (
            f"{self.plan.schedules:,} schedules every {self.plan.period} s, down for"
            f" {self.plan.down} s: {self.overdue:,} overdue, {caught_up:,} caught up in"
            f" {self.drained_after:.0f} s, {rate:,.0f} a second ({allowed}, most in one"
            f" {self.fastest():,}).\n"
            f"live, healthy: {healthy}\nlive, in recovery: {recovering}\n"
            f"live, begun in recovery: {told(self.begun_us)}\n"
            f"p99 in recovery is {ratio:.2f} times that of a healthy system."
            f" lost {self.lost}, twice {self.twice}"
        )


def percentile(values: list[int], share: float) -> int:
    """Return the value that a share of all is not above."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0


def told(values: list[int]) -> str:
    """Return how late runs were, in a line."""
    parts = [f"p{share:g} {percentile(values, share / 100) / 1000:.1f}" for share in (50, 95, 99)]
    most = max(values, default=0) / 1000
    return f"{len(values):,} runs, ms late {', '.join(parts)}, most {most:.1f}"


class Campaign:
    """The processes and their database."""

    def __init__(self, plan: Plan, database: Database, folder: Path) -> None:
        self.plan = plan
        self.database = database
        self._folder = folder
        self._processes: list[Process] = []

    def play(self) -> Recovery:
        """Let it be well, let it be down, let it recover; return what was seen."""
        plan = self.plan
        self._fill()
        workers = [self._start(["duly", "worker", *self._worker_words()]) for _ in range(WORKERS)]
        dispatchers = self._dispatch()
        begun_at = CLOCK.now_us()
        pause(plan.settling + plan.healthy)
        for one in dispatchers:
            one.terminate()
        healthy = self._fired(begun_at + plan.settling * SECOND_US, CLOCK.now_us())
        overdue, since = self._move_back()
        span = {"since": since, "slots": plan.down // plan.period + 2}
        missed = self._ask(COUNT_MISSED, **span, now=since + plan.down * SECOND_US)
        up_at = CLOCK.now_us()
        dispatchers = self._dispatch()
        wait_until("nothing is behind", lambda: not self._behind(), DRAIN_SECONDS)
        drained_at = CLOCK.now_us()
        pause(2)
        self._end(dispatchers)
        wait_until("all runs are over", lambda: not self._ask(COUNT_OPEN), DRAIN_SECONDS)
        for one in workers:
            one.terminate()
        recovering = self._fired(up_at, drained_at)
        # What fell due before fresh work was fired again is late by the outage itself, of which
        # the start of the processes is a part.
        fresh = [row.fired_at for row in recovering if row.is_live]
        first_at = min(fresh, default=up_at)
        return Recovery(
            plan=plan,
            overdue=overdue,
            missed=missed,
            healthy_us=live_of(healthy, 0),
            recovering_us=live_of(recovering, first_at),
            begun_us=[
                row.started_at - row.due_at
                for row in recovering
                if row.is_live and row.due_at >= first_at and row.started_at is not None
            ],
            seconds=by_second(recovering, up_at),
            drained_after=(drained_at - up_at) / SECOND_US,
            lost=self._ask(COUNT_LOST, **span),
            twice=self._ask(COUNT_TWICE),
        )

    def close(self) -> None:
        """End whatever still runs."""
        for one in self._processes:
            if one.is_running:
                one.kill()
            one.close_input()

    def _fill(self) -> None:
        """Have the schedules fall due evenly from now on; what is missed is run late, all of it."""
        plan = self.plan
        first_at = CLOCK.now_us() + 3 * SECOND_US
        period_us = plan.period * SECOND_US
        step_us = period_us // plan.schedules
        instants = [first_at + number * step_us for number in range(plan.schedules)]
        random.Random("recovery").shuffle(instants)
        promises = (Promise(due_at=at - at % 1000, period_us=period_us) for at in instants)
        self.database.fill(schedules=promises)
        self._execute(RUN_ALL)
        self._execute(ALLOW)
        # Filling takes its time: what was to be due meanwhile is due a period later.
        self._execute(
            "UPDATE duly.schedule_state SET next_for = next_for + %(period)s,"
            " next_due = next_due + %(period)s, load_at = load_at + %(period)s"
            " WHERE next_due < %(now)s + 3000000",
        )
        # What filling left to the server's own housekeeping must not make the healthy time slow.
        self.database.execute("VACUUM ANALYZE")
        self.database.execute("CHECKPOINT")

    def _dispatch(self) -> list[Process]:
        words = ["dispatcher", self.database.url, str(self.plan.per_second or "")]
        return [self._start([PROGRAM, *words]) for _ in range(self.plan.dispatchers)]

    def _end(self, dispatchers: list[Process]) -> None:
        """End them when nothing is owed: where a machine stood still, more was late meanwhile."""
        for _ in range(ENDS_MAX):
            for one in dispatchers:
                one.terminate()
            if not self._ask(COUNT_OWED):
                return
            dispatchers = self._dispatch()
            wait_until("nothing is behind", lambda: not self._behind(), DRAIN_SECONDS)

    def _worker_words(self) -> list[str]:
        url = self.database.url
        return ["--url", url, "--app", f"{PROGRAM}:app", "--slots", "200"]

    def _start(self, words: list[str]) -> Process:
        process = Process(words, self._folder / f"{len(self._processes)}.log")
        self._processes.append(process)
        return process

    def _move_back(self) -> tuple[int, int]:
        """Return how much is overdue, and the first instant from which nothing may be missing."""
        now = CLOCK.now_us()
        self._execute(MOVE_BACK, now=now)
        self.database.execute("VACUUM ANALYZE duly.schedule_state")
        return self._ask(COUNT_OVERDUE, now=now), now - self.plan.down * SECOND_US

    def _behind(self) -> int:
        pause(0.3)
        return self._ask(COUNT_BEHIND)

    def _fired(self, since: int, until: int) -> list[Fired]:
        rows = (Fired(*row) for row in self._rows(READ_RUNS, since=since))
        return [row for row in rows if row.fired_at <= until]

    def _ask(self, sql: str, **values: int) -> int:
        return int(self._rows(sql, **values)[0][0] or 0)

    def _rows(self, sql: str, **values: int) -> list[tuple[Any, ...]]:
        return self.database.rows(sql % self._given(values))

    def _execute(self, sql: str, **values: int) -> None:
        self.database.execute(sql % self._given(values))

    def _given(self, values: dict[str, int]) -> dict[str, int]:
        plan = self.plan
        spans = {"period": plan.period * SECOND_US, "down": plan.down * SECOND_US}
        return {"now": CLOCK.now_us(), "grace": plan.grace, **spans, **values}


def live_of(rows: list[Fired], since: int) -> list[int]:
    """Return how late runs were that were fired on time, and fell due after an instant."""
    return [row.fired_at - row.due_at for row in rows if row.is_live and row.due_at >= since]


def by_second(rows: list[Fired], since: int) -> dict[int, Second]:
    """Return what was fired in each second."""
    found: dict[int, Second] = defaultdict(Second)
    for row in rows:
        second = found[(row.fired_at - since) // SECOND_US]
        if row.is_live:
            second.live_us.append(row.fired_at - row.due_at)
        else:
            second.caught_up += 1
    return dict(found)


@contextmanager
def campaign(plan: Plan, server: Server, folder: Path) -> Iterator[Campaign]:
    """Play on a server; whatever still runs is ended, and the database removed."""
    database = Database(server)
    one = Campaign(plan, database, folder)
    try:
        yield one
    finally:
        one.close()
        database.remove()


def dispatch(url: str, per_second: int | None) -> None:
    """Dispatch until SIGTERM, as `duly dispatcher` does, at another rate of catching up."""
    settings = DispatcherSettings(catch_up_per_second=per_second)
    with duly.App(url, name="recovery") as one:
        wakeups = one.store.wakeups()
        dispatcher = one.dispatcher(settings, wake_address=wakeups.address)
        loop = Loop(dispatcher, wakeups, CLOCK)
        signal.signal(signal.SIGTERM, lambda *_: loop.stop())
        loop.run()
        wakeups.close()


def main() -> int:
    """Play the long form on a server of its own, durable as in production."""
    words = [word for word in sys.argv[1:] if word != "--busy"]
    plan = BUSY if "--busy" in sys.argv else Plan()
    plot = Path(words[0]) if words else None
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(boot())
        found = stack.enter_context(campaign(plan, server, folder)).play()
    sys.stdout.write(f"{found.summary()}\n")
    if plot is not None:
        draw(plot, found)
    for problem in found.problems():
        sys.stdout.write(f"{problem}\n")
    return 1 if found.problems() else 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["dispatcher"]:
        dispatch(sys.argv[2], int(sys.argv[3]) if sys.argv[3] else None)
    else:
        sys.exit(main())
