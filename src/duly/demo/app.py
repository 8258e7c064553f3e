"""The demo application: tasks, schedules, actors, and controls that kill its workers.

The demo's tasks have no effect outside the process: they wait, count and log. The outside system
that a task calls is a `DemoScenario` in this process. The demo's history changes its state step by
step.

All schedules belong to the owner `demo`, by which pages and programs recognise them.
"""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from hashlib import blake2b
from typing import TYPE_CHECKING

from duly.app import App
from duly.app.demo_controls import DemoState, KilledWorker
from duly.client.run_view import Run
from duly.clock import SystemClock
from duly.domain.outcomes import GiveUp, give_up
from duly.domain.policies import Misfire, Retry
from duly.domain.verification import Verdict
from duly.errors import Conflict
from duly.timetable.combinators import zone_of
from duly.timetable.cron import cron
from duly.timetable.instants import SECOND_US, from_microseconds
from duly.timetable.interval import every
from duly.timetable.monthly import monthly
from duly.timetable.preview import clock_changes
from duly.timetable.rrule import rrule

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from datetime import datetime

    from duly.timetable.timetable import Timetable


LOOK_EVERY_SECONDS = 0.2
"""How soon a task notices that it is to stop."""
_thread = threading.local()


@contextmanager
def paced_by(rest: Callable[[int], None]) -> Iterator[None]:
    """Have `rest` called with microseconds in this thread, instead of waiting."""
    _thread.rest = rest
    try:
        yield
    finally:
        del _thread.rest


def rest(run: Run, seconds: float) -> None:
    """Let time pass; Cancelled if the run is to stop meanwhile."""
    instead: Callable[[int], None] | None = getattr(_thread, "rest", None)
    if instead is not None:
        instead(round(seconds * SECOND_US))
        run.check_cancelled()
        return
    clock, moment = SystemClock(), threading.Event()
    ends_at = clock.monotonic_us() + round(seconds * SECOND_US)
    while (left_us := ends_at - clock.monotonic_us()) > 0:
        run.check_cancelled()
        moment.wait(min(left_us / SECOND_US, LOOK_EVERY_SECONDS))
    run.check_cancelled()


ACCOUNTS = tuple(f"account-{number}" for number in range(1, 9))
PAYMENT_SECONDS = 50
"""How long a live payment is under way: long enough for somebody to kill its worker."""
PARTNER = "partner-api.demo"
BULK = "bulk"


@dataclass(slots=True)
class DemoScenario:
    """What lies outside; as it is here, it is now, while somebody looks on."""

    partner_is_up: bool = False
    feed_is_sound: bool = True
    report_is_stored: bool = True
    closing_ends_at: int = len(ACCOUNTS)
    slowness: float = 1.0


WORLD = DemoScenario()
app = App(name="demo", actor="demo")


def chance(run: Run, most: int) -> int:
    """Return a number below `most` that is always the same for a run."""
    return int.from_bytes(blake2b(run.id.bytes, digest_size=4).digest()) % most


@app.task(retry=Retry(attempts=1))
def poll_sensors(run: Run) -> dict[str, int]:
    """Read a few sensors; worth doing on time or not at all."""
    rest(run, (2 + chance(run, 6)) * WORLD.slowness)
    run.progress(12, total=12, note="12 sensors")
    return {"sensors": 12, "alarms": chance(run, 40) // 39}


@app.task(retry=Retry(attempts=3, base="5s", cap="1m"))
def refresh_index(run: Run) -> dict[str, int]:
    """Build the search index anew; only the newest counts."""
    documents = 4_000 + chance(run, 900)
    run.log(f"indexing {documents} documents")
    rest(run, (180 + chance(run, 240)) * WORLD.slowness)
    run.progress(documents, total=documents)
    return {"documents": documents}


@app.task(retry=Retry(attempts=4, base="20s", cap="5m"))
def import_feed(run: Run, source: str = "prices") -> dict[str, object]:
    """Import a feed; a source that is away for a moment is tried again, a broken one is not."""
    rest(run, (20 + chance(run, 30)) * WORLD.slowness)
    if not WORLD.feed_is_sound:
        raise ValueError(f"{source}: line 214 has 7 fields, expected 9")
    if run.attempt == 1 and chance(run, 9) == 0:
        raise ConnectionError(f"{source}: the connection was reset")
    return {"source": source, "rows": 900 + chance(run, 100)}


@app.task(retry=Retry(attempts=3, base="30s"))
def nightly_report(run: Run) -> dict[str, str]:
    """Write the report of the night, part by part; a lost worker costs no part twice."""
    parts = ("sales", "stock", "returns", "forecast")
    done = run.resume_from() or 0
    for number, part in enumerate(parts[done:], done + 1):
        run.log(f"writing {part}")
        rest(run, 40 + chance(run, 50))
        run.checkpoint(number)
        run.progress(number, total=len(parts), note=part)
    return {"file": f"report-{run.label}.pdf"}


@nightly_report.verify
def report_is_there(run: Run) -> Verdict:
    """Look whether the report is where it belongs."""
    if WORLD.report_is_stored:
        return Verdict.present({"file": f"report-{run.label}.pdf", "bytes": 48_213})
    return Verdict.absent({"looked_in": "the archive"})


@app.task(preset="one-result")
def close_ledger(run: Run) -> str:
    """Close the books of every account; those that are missing show in the scope of the run."""
    run.expect(ACCOUNTS)
    for number, account in enumerate(run.remaining(ACCOUNTS[: WORLD.closing_ends_at]), 1):
        rest(run, 15)
        run.done(account)
        run.progress(number, total=len(ACCOUNTS), note=account)
    return f"{WORLD.closing_ends_at} of {len(ACCOUNTS)} accounts are closed"


@app.task(preset="never-twice", timeout="10m")
def pay_suppliers(run: Run) -> str:
    """Pay what is due; a payment may not be made twice."""
    run.log("reading what is due")
    rest(run, 5)
    for number in range(1, 4):
        run.once(f"transfer:{number}", _transfer, run, number)
        run.progress(number, total=3)
    return "3 transfers"


def _transfer(run: Run, number: int) -> dict[str, int]:
    run.log(f"transfer {number} is sent to the bank")
    rest(run, 20)
    return {"receipt": 70_000 + chance(run, 9_000) + number}


@app.task(preset="never-twice", timeout="5m")
def charge_card(run: Run) -> str:
    """Charge a card, slowly: the worker that does it is there to be killed."""
    run.log("asking the bank")
    rest(run, 1)
    with run.effect("charge"):
        run.log("the bank is charging the card: nobody knows until it answers")
        for second in range(PAYMENT_SECONDS):
            run.progress(second, total=PAYMENT_SECONDS, note="waiting for the bank")
            rest(run, 1)
    return "charged"


@app.task(retry=Retry(attempts=6, base="10s", cap="2m"), destination=PARTNER)
def push_order(run: Run, order: int) -> str:
    """Tell a partner of an order; while the partner is down, orders wait."""
    rest(run, 1)
    if not WORLD.partner_is_up:
        raise ConnectionError(f"{PARTNER}: connection refused")
    return f"order {order} is there"


@app.task
def send_reminder(run: Run, class_id: int) -> str:
    """Remind somebody of a class."""
    rest(run, 1)
    return f"class {class_id} was reminded"


@app.task(queue=BULK)
def render_video(run: Run, title: str) -> str:
    """Render a video; its queue is paused, so that it waits."""
    rest(run, 60)
    return title


@app.task(retry=Retry(attempts=2, base="5s"))
def rebuild_cache(run: Run) -> str:
    """Rebuild a cache; a newer order replaces an older one that still runs."""
    rest(run, 600 * WORLD.slowness)
    return "rebuilt"


@app.task
def archive_mail(run: Run, month: str = "last") -> str | GiveUp:
    """Archive mail; a month that is gone is given up."""
    rest(run, 10)
    if month == "unknown":
        return give_up("there is no such month")
    return f"{month} is archived"


@app.task(retry=Retry(attempts=2))
def count_visits(run: Run) -> dict[str, int]:
    """Count the visits of a day; days that were missed are made up for by a backfill."""
    rest(run, 45)
    return {"visits": 11_000 + chance(run, 3_000)}


@app.task
def pulse(run: Run) -> str:
    """Beat, so that there is always something to see."""
    steps = 3 + chance(run, 4)
    for step in range(1, steps + 1):
        rest(run, 0.6)
        run.progress(step, total=steps)
    run.log(f"beat of {steps} steps")
    return f"{steps} steps"


@app.task(retry=Retry(attempts=3, base="1s"))
def import_pages(run: Run, pages: int = 12) -> str:
    """Import pages one by one; after a lost worker another goes on from the last checkpoint."""
    done = run.resume_from() or 0
    run.log(f"attempt {run.attempt}, fence {run.fence}: begins after page {done}")
    for page in range(done + 1, pages + 1):
        rest(run, 0.8)
        run.checkpoint(page)
        run.progress(page, total=pages, note=f"page {page}")
    return f"{pages} pages, the last {pages - done} of them by attempt {run.attempt}"


OWNER = "demo"
OPERATOR, ANALYST = "demo operator", "demo analyst"
PAYMENTS = "card-payments"
"""The schedule whose worker is there to be killed."""
NIGHTLY = cron("30 2 * * *", tz="Europe/Berlin")
CLOCK_CHANGE = "night-of-the-clock-change"
CLOCK_CHANGE_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "Pacific/Auckland")
"""Where clocks are put forward at two in the morning, so that there is no 02:30."""
_YEAR = timedelta(days=366)


def create_schedules(app: App, now: int) -> None:
    """Make the schedules that have a history."""
    made = app.schedules.create
    made(
        "sensor-poll",
        poll_sensors,
        every("15m"),
        preset="best-effort",
        owner=OWNER,
    )
    made("search-index", refresh_index, cron("5 * * * *"), preset="refresh", owner=OWNER)
    made(
        "price-feed",
        import_feed.bind(source="prices"),
        cron("10 * * * *", tz="Europe/London"),
        misfire=Misfire("all"),
        overlap="allow",
        owner=OWNER,
    )
    made(
        "nightly-report",
        nightly_report,
        NIGHTLY,
        misfire="latest",
        owner=OWNER,
    )
    made(
        "ledger-close",
        close_ledger,
        cron("0 18 * * *", tz="America/New_York"),
        preset="one-result",
        owner=OWNER,
    )
    made(
        "supplier-payouts",
        pay_suppliers,
        cron("0 7 * * *", tz="Europe/London"),
        preset="never-twice",
        owner=OWNER,
    )
    made("image-cache", rebuild_cache, cron("20 */6 * * *"), overlap="replace", owner=OWNER)
    made(
        CLOCK_CHANGE,
        archive_mail,
        cron("30 2 * * *", tz=zone_of_next_change(from_microseconds(now))),
        owner=OWNER,
    )
    _create_rare(app)


def _create_rare(app: App) -> None:
    made = app.schedules.create
    made(
        "weekday-standup",
        send_reminder.bind(class_id=7),
        cron("0 9 * * 1-5", tz="Asia/Tokyo"),
        owner=OWNER,
    )
    made(
        "month-end-archive",
        archive_mail,
        monthly("last friday", at="18:00", tz="America/New_York"),
        owner=OWNER,
    )
    made(
        "newsletter",
        archive_mail,
        rrule("FREQ=WEEKLY;BYDAY=TU", dtstart="2026-01-06T08:00", tz="Asia/Kolkata"),
        owner=OWNER,
    )
    made("old-export", archive_mail, every("12h"), owner=OWNER)


def create_live_schedules(app: App) -> None:
    """Make the schedules by which something happens every few seconds, while somebody looks on."""
    made = app.schedules.create
    made("pulse", pulse, every("4s"), preset="best-effort", owner=OWNER)
    made("page-import", import_pages, every("20s"), overlap="skip", owner=OWNER)
    made(PAYMENTS, charge_card, every("1m"), overlap="skip", owner=OWNER)
    app.schedules.trigger(PAYMENTS, reason="so that there is one to look at")


def zone_of_next_change(now: datetime) -> str:
    """Return the zone whose clocks change soonest."""

    def changes_at(zone: str) -> datetime:
        found = clock_changes(_at_night(zone), now, now + _YEAR)
        return found[0].at if found else now + 2 * _YEAR

    return min(CLOCK_CHANGE_ZONES, key=changes_at)


def _at_night(zone: str) -> Timetable:
    return cron("30 2 * * *", tz=zone)


DOUBTS_SHOWN_MAX = 20


class Controls:
    """The controls of a demo whose workers are processes of this machine."""

    def __init__(self, app: App, processes: Callable[[], Collection[int]]) -> None:
        """Take the application, and who says which processes are ours: no other is killed."""
        self._app = app
        self._processes = processes
        self._killed: KilledWorker | None = None

    def state(self) -> DemoState:
        """Say where the demo stands."""
        clock_change = self._app.schedules.get(CLOCK_CHANGE)
        runs = self._app.runs.list(schedule=PAYMENTS, state="ambiguous", limit=DOUBTS_SHOWN_MAX)
        return DemoState(
            payments=PAYMENTS,
            victim=self._victim(),
            in_doubt=tuple(run.id for run in runs),
            clock_change=CLOCK_CHANGE,
            clock_changes_at=self._clock_changes_at(clock_change.timetable),
            clock_change_zone=zone_of(clock_change.timetable),
            killed=self._killed,
        )

    def kill_worker(self) -> KilledWorker:
        """Kill a worker in the middle of a payment, as a power cut would; Conflict if none is."""
        victim = self._victim()
        if victim is None:
            problem = "is not under way just now"
            raise Conflict("payment", PAYMENTS, problem, "try again in a few seconds")
        with suppress(ProcessLookupError):
            os.kill(victim.process, signal.SIGKILL)
        self._killed = victim
        return victim

    def _victim(self) -> KilledWorker | None:
        """Return who has asked for permission, and not yet said that it is done."""
        alive = {one.id: one.process for one in self._app.workers.list() if one.is_alive}
        for run in self._app.runs.list(schedule=PAYMENTS, state="running", limit=1):
            process = alive.get(run.worker or 0)
            has_begun = any(one.state == "intended" for one in self._app.inbox.effects(run.id))
            if run.worker is not None and process in self._processes() and has_begun:
                assert process is not None, "one of ours"
                return KilledWorker(worker=run.worker, process=process, run=run.id)
        return None

    def _clock_changes_at(self, timetable: Timetable) -> datetime | None:
        now = self._app.status().now
        changes = clock_changes(timetable, now, now + _YEAR)
        return changes[0].at if changes else None
