"""History: what happened in the two weeks before the demo, so that there is one of everything.

A scene says how long before now it is played. Between scenes the engine goes on by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly.app.stores import open_scratch
from duly.demo import cast, tasks
from duly.demo.past import Past
from duly.domain.instants import DAY, HOUR, MINUTE, SECOND_US, from_microseconds
from duly.domain.timetable.cron import cron
from duly.engine.manual_clock import ManualClock

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path
    from uuid import UUID

    from duly.app import App
    from duly.clock import Clock

DAYS = 14
BACKFILL_DAYS = 20
BACKFILL_SHARE = 0.4
ORDERS = range(101, 115)
WAIT_MINUTES_MAX = 10
REPORTS_LOST = timedelta(hours=25.2)
"""For so long reports are lost: one falls into it also where clocks are put back that night."""
_WORLD = tasks.WORLD


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a scene is played on."""

    app: App
    past: Past
    now_us: int
    """When the demo was started: the end of the past."""

    @property
    def operator(self) -> App:
        """The application in the hands of somebody who runs things."""
        return self._by(cast.OPERATOR)

    @property
    def analyst(self) -> App:
        """The application in the hands of somebody who wants results."""
        return self._by(cast.ANALYST)

    def at(self, **distance: float) -> datetime:
        """Return an instant that is so far from the present."""
        return from_microseconds(self.now_us) + timedelta(**distance)

    def _by(self, actor: str) -> App:
        app = self.app
        return app.within(tenant=app.tenant, actor=actor, is_confined=False)


def make_history(
    app: App, file: Path, clock: Clock, tell: Callable[[str], None] | None = None
) -> int:
    """Write two weeks of history to a file, as the engine makes it; return how many runs it has.

    It ends when this returns, by the clock, and not when it was called: it takes a few seconds, in
    which `tell` hears how far it is.
    """
    until = clock.now_us()
    hands = ManualClock(until - DAYS * DAY * SECOND_US)
    store = open_scratch(file, hands)
    past = Past(app, store, hands)
    try:
        with app.standing_in(store, hands, lambda rest_us: past.live(rest_us / SECOND_US)):
            past.open()
            _play(Stage(app=app, past=past, now_us=until), tell)
            # So that neither the store's clock goes back, nor an occurrence is missed in between.
            past.live_until(clock.now_us())
            past.close()
            cast.create_live_schedules(app)
            return past.runs
    finally:
        store.close()


def _play(stage: Stage, tell: Callable[[str], None] | None) -> None:
    _WORLD.partner_is_up = True
    for before, scene in SCENES:
        if tell is not None:
            tell(f"day {DAYS - before.days} of {DAYS}")
        stage.past.live_until(stage.now_us - round(before.total_seconds()) * SECOND_US)
        scene(stage)


def _begin(stage: Stage) -> None:
    quota = f"owner:{cast.OWNER}"
    stage.operator.quotas.set(quota, schedules=100, reason="it owns all there is")
    cast.create_schedules(stage.app, stage.now_us)


def _change_minds(stage: Stage) -> None:
    """Change minds: edits in the audit trail, by different people."""
    analyst, operator = stage.analyst.schedules, stage.operator.schedules
    analyst.edit("search-index", priority=3, reason="search first: the shop waits for it")
    analyst.skip_next("weekday-standup", reason="the team is at the fair")
    operator.pause("old-export", reason="nobody reads it; gone for good unless somebody asks")
    operator.pause("image-cache", reason="new disks")


def _go_on_with_images(stage: Stage) -> None:
    stage.operator.schedules.resume("image-cache", reason="the disks are in")


def _slow_down(stage: Stage) -> None:
    """Slow all down for some hours: runs overlap, by each policy in its own way."""
    _WORLD.slowness = 500.0
    for reason in ("the pictures of the fair", "and those that were forgotten"):
        stage.analyst.schedules.trigger("image-cache", reason=reason)
        stage.past.watch(2 * MINUTE)


def _speed_up(_stage: Stage) -> None:
    _WORLD.slowness = 1.0


def _break_feed(_stage: Stage) -> None:
    """Break the feed for some hours: retries, and dead letters."""
    _WORLD.feed_is_sound = False


def _mend_feed(stage: Stage) -> None:
    _WORLD.feed_is_sound = True
    dead = stage.operator.runs.list(state="dead", schedule="price-feed", limit=10)
    first, second, *_ = dead
    stage.operator.runs.retry([first.id], reason="the supplier has sent a sound file")
    stage.operator.runs.discard([second.id], reason="these prices are of no use any more")


def _be_away(stage: Stage) -> None:
    """Have an outage of five hours, and what each misfire policy makes of it."""
    stage.past.be_away_until(stage.now_us - round(8.5 * DAY * SECOND_US) + 5 * HOUR * SECOND_US)


def _lose_reports(_stage: Stage) -> None:
    """Have reports written, and not where they belong: their results are refuted."""
    _WORLD.report_is_stored = False


def _find_reports(stage: Stage) -> None:
    _WORLD.report_is_stored = True
    _wait_for(stage, "nightly-report")
    [refuted] = stage.app.runs.list(schedule="nightly-report", state="succeeded", limit=1)
    stage.analyst.inbox.rerun(refuted.id, reason="the archive is back, and has no report")


def _close_in_part(_stage: Stage) -> None:
    """Leave out two accounts: the scope of the run has missing items."""
    _WORLD.closing_ends_at = len(tasks.ACCOUNTS) - 2


def _close_all(stage: Stage) -> None:
    _WORLD.closing_ends_at = len(tasks.ACCOUNTS)
    _wait_for(stage, "ledger-close")
    _, older = stage.app.runs.list(schedule="ledger-close", state="succeeded", limit=2)
    reason = "the two accounts that were left out"
    stage.operator.inbox.rerun(older.id, repair=True, reason=reason)


def _lose_a_payment(stage: Stage) -> None:
    """Lose a worker in the middle of a payment; somebody looks, and says what became of it."""
    _wait_for(stage, "supplier-payouts")
    run = stage.operator.schedules.trigger("supplier-payouts", reason="an extra round")
    stage.past.lose_worker(40)
    stage.past.live(25 * MINUTE)
    found = {"transfer:1": True, "transfer:2": True}
    stage.operator.inbox.reconcile(
        run.id,
        is_done=True,
        reason="both transfers are on the bank's statement; the third is made by hand",
        evidence={"statement": 42},
        effects={key: found[key] for key in _unknown(stage, run.id)},
    )


def _lose_another(stage: Stage) -> None:
    """Do it again, and nobody has looked yet: it is in the inbox, and the next one waits."""
    _wait_for(stage, "supplier-payouts")
    stage.operator.schedules.trigger("supplier-payouts", reason="a round before the holiday")
    stage.past.lose_worker(20)


def _call_off(stage: Stage) -> None:
    """Cancel a run that waits and one that runs; and have one that gives up."""
    stage.app.enqueue(tasks.send_reminder.bind(class_id=9), delay="2h", key="class:9:reminder")
    stage.analyst.cancel("class:9:reminder", reason="the class was called off")
    running = stage.app.enqueue(tasks.rebuild_cache)
    stage.past.live(30)
    stage.operator.runs.cancel(running.id, reason="started by mistake")
    stage.app.enqueue(tasks.archive_mail.bind(month="unknown"))
    stage.past.live(30)


def _pause_and_delete(stage: Stage) -> None:
    until = stage.at(days=5)
    stage.operator.schedules.pause("newsletter", reason="a new layout is on its way", until=until)
    stage.operator.schedules.delete("old-export", reason="nobody has asked for it")


def _lack_workers(stage: Stage) -> None:
    """Let nobody work for twenty minutes: runs are queued on time, and begin late."""
    stage.past.lack_workers(20 * MINUTE)


def _make_up(stage: Stage) -> None:
    """Count visits of the weeks before, too; the backfill is paused on its way."""
    app = stage.analyst
    app.schedules.create(
        "visit-count", tasks.count_visits, cron("15 1 * * *", tz="UTC"), owner=cast.OWNER
    )
    backfill = app.backfills.create(
        "visit-count",
        since=stage.at(days=-BACKFILL_DAYS, hours=-3),
        until=stage.at(hours=-3),
        per_minute=1,
        reason="the new chart wants three weeks",
    )
    for _ in range(6 * BACKFILL_DAYS):
        if app.backfills.get(backfill.id).looked_at >= BACKFILL_SHARE * backfill.total:
            break
        stage.past.watch(10)
    stage.operator.backfills.pause(backfill.id, reason="not during the day")


def _lose_the_partner(stage: Stage) -> None:
    """Have the partner down: after a few failures its breaker opens, and orders wait."""
    app = stage.app
    app.enqueue_many([tasks.push_order.bind(order=number) for number in ORDERS])
    stage.past.live(30)
    _WORLD.partner_is_up = False
    app.enqueue_many([tasks.push_order.bind(order=number + 100) for number in ORDERS])


def _hold_bulk(stage: Stage) -> None:
    stage.operator.queues.pause(tasks.BULK, reason="the render farm is being moved")
    for title in ("spring", "summer"):
        stage.app.enqueue(tasks.render_video.bind(title=title))


def _promise_reminders(stage: Stage) -> None:
    """Promise runs under business keys: pending, moved, and one called off."""
    for class_id in (41, 42, 43):
        stage.app.enqueue(
            tasks.send_reminder.bind(class_id=class_id),
            at=stage.at(hours=class_id),
            key=f"class:{class_id}:reminder",
        )
    stage.analyst.move("class:42:reminder", at=stage.at(hours=66), reason="the class has moved")
    stage.analyst.cancel("class:43:reminder", reason="nobody has signed up")


def _wait_for(stage: Stage, schedule: str) -> None:
    """Let runs that are under way end: whoever comes behind them would wait at their gate."""
    for _ in range(WAIT_MINUTES_MAX):
        runs = stage.app.runs.list(schedule=schedule, limit=2)
        if all(run.is_over for run in runs):
            return
        stage.past.live(MINUTE)


def _unknown(stage: Stage, run: UUID) -> list[str]:
    return [one.key for one in stage.app.inbox.effects(run) if one.state == "unknown"]


SCENES: tuple[tuple[timedelta, Callable[[Stage], None]], ...] = (
    (timedelta(days=DAYS) - timedelta(seconds=30), _begin),
    (timedelta(days=13), _change_minds),
    (timedelta(days=12.5), _go_on_with_images),
    (timedelta(days=12), _slow_down),
    (timedelta(days=11.9), _speed_up),
    (timedelta(days=10), _break_feed),
    (timedelta(days=9.8), _mend_feed),
    (timedelta(days=8.5), _be_away),
    (timedelta(days=8), _lose_reports),
    (timedelta(days=8) - REPORTS_LOST, _find_reports),
    (timedelta(days=6.9), _close_in_part),
    (timedelta(days=5), _lose_a_payment),
    (timedelta(days=4.9), _close_all),
    (timedelta(days=4), _call_off),
    (timedelta(days=3), _pause_and_delete),
    (timedelta(days=2.5), _lack_workers),
    # Less than a day: with two of its occurrences waiting behind it, it would be stale as well.
    (timedelta(hours=22), _lose_another),
    (timedelta(hours=2), _make_up),
    (timedelta(minutes=30), _hold_bulk),
    (timedelta(minutes=15), _promise_reminders),
    (timedelta(minutes=8), _lose_the_partner),
)
