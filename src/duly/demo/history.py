"""Makes two weeks of history for the demo, in virtual time.

`PastSimulation` ticks the dispatcher and the workers of the product at each instant at which work
is due. Nothing is written to the store around them, so what they leave is history like any other.

`VirtualExecutor` gives each attempt a thread of its own. The thread runs until its code rests or
ends, while the executor waits for it. When the clock reaches the end of the rest, the thread
continues. So the log lines and the end of a task are as far apart as its work takes, and no thread
sleeps.

A scene states how long before now it happens. Between scenes the engine runs by itself.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from duly.app.stores import open_scratch
from duly.demo import app as cast
from duly.demo import app as tasks
from duly.demo.app import paced_by
from duly.domain.enums import TaskKind
from duly.engine.dispatcher.context import Node
from duly.engine.dispatcher.dispatcher import Dispatcher
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.engine.executors.executor import called, carried_out
from duly.engine.manual_clock import ManualClock
from duly.engine.worker import Worker, WorkerSettings
from duly.store.ports.dispatch import LoadTimers
from duly.timetable.cron import cron
from duly.timetable.instants import DAY, HOUR, MINUTE, SECOND_US, from_microseconds

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from pathlib import Path
    from uuid import UUID

    from duly.app import App
    from duly.clock import Clock
    from duly.engine.executors.executor import AttemptWork
    from duly.store.ports import Store


class AttemptAbandoned(BaseException):
    """Raised in code that nobody waits for any more."""


class VirtualExecutor:
    """Runs each work until it rests, and goes on with it when its rest is over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._resting: list[tuple[int, int, _Actor]] = []
        self._idle: list[_Actor] = []
        self._count = 0
        self.ended = 0
        """How many have ended."""

    def start(self, work: AttemptWork) -> None:
        """Begin, up to the first rest."""
        actor = self._idle.pop() if self._idle else _Actor(self._clock)
        actor.work = work
        self._play(actor)

    def next_at(self) -> int | None:
        """Return when the first rest is over; None when nobody rests."""
        return self._resting[0][0] if self._resting else None

    def go_on(self) -> bool:
        """Go on with all whose rest is over; say whether there were any."""
        has_gone_on = False
        while self._resting and self._resting[0][0] <= self._clock.now_us():
            self._play(heappop(self._resting)[2])
            has_gone_on = True
        return has_gone_on

    def ask(self, work: AttemptWork) -> None:
        """Let its code look at once whether it is to stop."""
        for actor in self._taken_out(work):
            self._play(actor)

    def insist(self, work: AttemptWork) -> bool:
        """End its code where it rests."""
        for actor in self._taken_out(work):
            actor.is_abandoned = True
            self._play(actor)
        return True

    def close(self) -> None:
        """End all that rests where it is, and the threads."""
        while self._resting:
            actor = heappop(self._resting)[2]
            actor.is_abandoned = True
            self._play(actor)
        for actor in self._idle:
            actor.end()
        self._idle.clear()

    def _taken_out(self, work: AttemptWork) -> list[_Actor]:
        found = [actor for _, _, actor in self._resting if actor.work is work]
        self._resting = sorted(one for one in self._resting if one[2] not in found)
        return found

    def _play(self, actor: _Actor) -> None:
        wake_at = actor.play()
        if wake_at is None:
            self._idle.append(actor)
            self.ended += 1
        else:
            self._count += 1
            heappush(self._resting, (wake_at, self._count, actor))


class _Actor:
    """A thread that runs one attempt after the other, and only while its executor waits for it."""

    def __init__(self, clock: Clock) -> None:
        self.work: AttemptWork | None = None
        """What it is to run; None for nothing any more."""
        self.is_abandoned = False
        """Whether the code is to end where it rests."""
        self._clock = clock
        self._turn, self._answer = _closed(), _closed()
        self._wake_at: int | None = None
        self._thread = threading.Thread(target=self._act, name="duly-past", daemon=True)
        self._thread.start()

    def play(self) -> int | None:
        """Go on until the work rests or ends; return until when it rests."""
        self._wake_at = None
        self._turn.release()
        self._answer.acquire()
        return self._wake_at

    def end(self) -> None:
        """Let the thread end."""
        self.work = None
        self._turn.release()
        self._thread.join()

    def _act(self) -> None:
        while True:
            self._turn.acquire()
            if (work := self.work) is None:
                return
            self.is_abandoned = False
            with paced_by(self._rest):
                work.ended(carried_out(partial(called, work)))
            self._answer.release()

    def _rest(self, duration_us: int) -> None:
        if self.is_abandoned:
            raise AttemptAbandoned
        self._wake_at = self._clock.now_us() + duration_us
        self._answer.release()
        self._turn.acquire()
        if self.is_abandoned:
            raise AttemptAbandoned


def _closed() -> threading.Lock:
    """Return a lock for one thread to wait at until another opens it; cheaper than a semaphore."""
    lock = threading.Lock()
    lock.acquire()
    return lock


HOST = "demo-history"
SHARDS = (0,)
ROUNDS_MAX = 2_000
"""How often something may be done at one instant; more is a history that does not come to rest."""
IDLE_US = 15 * MINUTE * SECOND_US
"""How long nobody looks, when nothing is to be done."""
_STEP_US = 20_000
_MOMENT_US = 1_000
_OPEN_US = 8 * SECOND_US
_HOUR_US = HOUR * SECOND_US
# They are looked at when something happens, which is every few minutes: leases last for hours.
_DISPATCHER = DispatcherSettings(
    ttl_us=4 * _HOUR_US,
    renew_every_us=_HOUR_US,
    gates_every_us=6 * _HOUR_US,
    prune_every_us=24 * _HOUR_US,
    seal_every_us=6 * _HOUR_US,
)
_WORKER = WorkerSettings(
    ttl_us=4 * _HOUR_US,
    beat_every_us=_HOUR_US,
    lease_margin_us=_HOUR_US,
    talk_every_us=0,
    claim_apart_us=1,
    poll_min_us=_HOUR_US,
    poll_max_us=_HOUR_US,
)
_MORTAL = replace(
    _WORKER, ttl_us=15 * SECOND_US, beat_every_us=3 * SECOND_US, lease_margin_us=2 * SECOND_US
)


class PastSimulation:
    """A dispatcher and a worker in virtual time; moving the clock has them do what falls due."""

    def __init__(self, app: App, store: Store, clock: ManualClock) -> None:
        self._store = store
        self._clock = clock
        self._catalogue = app.catalogue()
        self._processes = 0
        self._ticked_at = 0
        self._dispatchers: list[Dispatcher] = []
        self._dispatcher = self._new_dispatcher()
        self._crew = [self._new_worker(_WORKER)]

    @property
    def runs(self) -> int:
        """How many runs were made of what fell due."""
        counted = [one.statistics for one in self._dispatchers]
        return sum(one.runs + one.caught_up + one.backfilled for one in counted)

    def live_until(self, until: int) -> None:
        """Let time pass, and have done what falls due meanwhile."""
        self._work(has_news=True)  # somebody may have ordered something since
        self._settle(until)
        while (at := self._next_at()) <= until:
            self._clock.advance(max(0, at - self._clock.now_us()))
            self._settle(until)
        self._clock.advance(max(0, until - self._clock.now_us()))

    def live(self, seconds: float) -> None:
        """Let so much time pass."""
        self.live_until(self._clock.now_us() + round(seconds * SECOND_US))

    def watch(self, seconds: float) -> None:
        """Let so much time pass with a dispatcher that looks around every second.

        For what no timer announces: workers that are lost, backfills that go on at a rate.
        """
        ends_at = self._clock.now_us() + round(seconds * SECOND_US)
        while self._clock.now_us() < ends_at:
            self._dispatcher.tick()
            self.live(1)

    def open(self) -> None:
        """Have the dispatcher take its shards, for which it takes a few seconds."""
        ends_at = self._clock.now_us() + _OPEN_US
        while self._clock.now_us() < ends_at:
            self._dispatcher.tick()
            self._clock.advance(SECOND_US // 4)

    def be_away_until(self, until: int) -> None:
        """Have no dispatcher for a while: what falls due meanwhile is late."""
        self._dispatcher.stop()
        while (at := self._worked_at()) is not None and at <= until:
            self._clock.advance(max(0, at - self._clock.now_us()))
            self._work()
        self._clock.advance(max(0, until - self._clock.now_us()))
        self._dispatcher = self._new_dispatcher()
        self.open()

    def lose_worker(self, seconds: float) -> None:
        """Let a worker of its own take what is queued, and vanish in the middle of it."""
        kept = self._crew
        self._crew = [lost] = [self._new_worker(_MORTAL)]
        self.live(seconds)
        self._crew = kept
        self.watch(2 * _MORTAL.ttl_us / SECOND_US)
        lost[1].close()

    def lack_workers(self, seconds: float) -> None:
        """Have nobody work for a while: what is queued waits."""
        kept, self._crew = self._crew, []
        self.live(seconds)
        self._crew = kept
        self._work(has_news=True)

    def close(self) -> None:
        """End them in good order: what runs is given back."""
        for worker, _ in self._crew:
            worker.stop()
        self._dispatcher.stop()

    def _new_node(self) -> Node:
        self._processes += 1
        return Node(host=HOST, process=self._processes)

    def _new_dispatcher(self) -> Dispatcher:
        new = Dispatcher(self._store, self._clock, _DISPATCHER, node=self._new_node())
        self._dispatchers.append(new)
        return new

    def _new_worker(self, settings: WorkerSettings) -> tuple[Worker, VirtualExecutor]:
        executor = VirtualExecutor(self._clock)
        executors = dict.fromkeys(TaskKind, executor)
        node = self._new_node()
        worker = Worker(self._store, self._clock, self._catalogue, executors, settings, node=node)
        return worker, executor

    def _next_at(self) -> int:
        """Return the next instant at which something is to be done, or somebody looks."""
        now = self._clock.now_us()
        times = (now + IDLE_US, self._due_at(now + IDLE_US), self._worked_at())
        return min(one for one in times if one is not None)

    def _due_at(self, until: int) -> int | None:
        """Return when the first timer is due, if that is not after `until`."""
        order = LoadTimers(shards=SHARDS, after=None, until=until, limit=1, is_whole=False)
        return next((one.due_at for one in self._store.load_timers(order).timers), None)

    def _worked_at(self) -> int | None:
        times = [executor.next_at() for _, executor in self._crew]
        return min((one for one in times if one is not None), default=None)

    def _settle(self, until: int) -> None:
        """Do all that is to be done at this instant; a few milliseconds may pass by it."""
        self._work()
        for _ in range(ROUNDS_MAX):
            if self._ticked_at + IDLE_US > self._clock.now_us() and not self._is_due():
                return
            self._ticked_at = self._clock.now_us()
            self._dispatcher.wake()
            wanted = self._dispatcher.tick()
            self._work(has_news=True)
            left_us = max(0, until - self._clock.now_us())
            wait_us = min(wanted - self._clock.monotonic_us(), _STEP_US)
            self._clock.advance(min(max(_MOMENT_US, wait_us), left_us))
        raise AssertionError("the demo's history does not come to rest")

    def _is_due(self) -> bool:
        return self._due_at(self._clock.now_us()) is not None

    def _work(self, *, has_news: bool = False) -> None:
        """Have the workers do what there is, until nothing more ends."""
        for worker, executor in self._crew:
            ended = executor.ended
            has_gone_on = executor.go_on()
            if has_news:
                worker.wake()
                worker.tick()
            if has_news or has_gone_on:
                worker.tick()
            while ended != (ended := executor.ended):
                # What has ended may have opened a gate, or made room: there may be more to take.
                worker.tick()
                worker.wake()
                worker.tick()


DAYS = 14
BACKFILL_DAYS = 20
BACKFILL_SHARE = 0.4
ORDERS = range(101, 115)
WAIT_MINUTES_MAX = 10
REPORTS_LOST = timedelta(hours=25.2)
"""For so long reports are lost: one falls into it also where clocks are put back that night."""
_WORLD = tasks.WORLD


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """What a scene is played on."""

    app: App
    past: PastSimulation
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
    past = PastSimulation(app, store, hands)
    try:
        with app.standing_in(store, hands, lambda rest_us: past.live(rest_us / SECOND_US)):
            past.open()
            _play(HistoryStep(app=app, past=past, now_us=until), tell)
            # So that neither the store's clock goes back, nor an occurrence is missed in between.
            past.live_until(clock.now_us())
            past.close()
            cast.create_live_schedules(app)
            return past.runs
    finally:
        store.close()


def _play(stage: HistoryStep, tell: Callable[[str], None] | None) -> None:
    _WORLD.partner_is_up = True
    for before, scene in SCENES:
        if tell is not None:
            tell(f"day {DAYS - before.days} of {DAYS}")
        stage.past.live_until(stage.now_us - round(before.total_seconds()) * SECOND_US)
        scene(stage)


def _begin(stage: HistoryStep) -> None:
    quota = f"owner:{cast.OWNER}"
    stage.operator.quotas.set(quota, schedules=100, reason="it owns all there is")
    cast.create_schedules(stage.app, stage.now_us)


def _change_minds(stage: HistoryStep) -> None:
    """Change minds: edits in the audit trail, by different people."""
    analyst, operator = stage.analyst.schedules, stage.operator.schedules
    analyst.edit("search-index", priority=3, reason="search first: the shop waits for it")
    analyst.skip_next("weekday-standup", reason="the team is at the fair")
    operator.pause("old-export", reason="nobody reads it; gone for good unless somebody asks")
    operator.pause("image-cache", reason="new disks")


def _go_on_with_images(stage: HistoryStep) -> None:
    stage.operator.schedules.resume("image-cache", reason="the disks are in")


def _slow_down(stage: HistoryStep) -> None:
    """Slow all down for some hours: runs overlap, by each policy in its own way."""
    _WORLD.slowness = 500.0
    for reason in ("the pictures of the fair", "and those that were forgotten"):
        stage.analyst.schedules.trigger("image-cache", reason=reason)
        stage.past.watch(2 * MINUTE)


def _speed_up(_stage: HistoryStep) -> None:
    _WORLD.slowness = 1.0


def _break_feed(_stage: HistoryStep) -> None:
    """Break the feed for some hours: retries, and dead letters."""
    _WORLD.feed_is_sound = False


def _mend_feed(stage: HistoryStep) -> None:
    _WORLD.feed_is_sound = True
    dead = stage.operator.runs.list(state="dead", schedule="price-feed", limit=10)
    first, second, *_ = dead
    stage.operator.runs.retry([first.id], reason="the supplier has sent a sound file")
    stage.operator.runs.discard([second.id], reason="these prices are of no use any more")


def _be_away(stage: HistoryStep) -> None:
    """Have an outage of five hours, and what each misfire policy makes of it."""
    stage.past.be_away_until(stage.now_us - round(8.5 * DAY * SECOND_US) + 5 * HOUR * SECOND_US)


def _lose_reports(_stage: HistoryStep) -> None:
    """Have reports written, and not where they belong: their results are refuted."""
    _WORLD.report_is_stored = False


def _find_reports(stage: HistoryStep) -> None:
    _WORLD.report_is_stored = True
    _wait_for(stage, "nightly-report")
    [refuted] = stage.app.runs.list(schedule="nightly-report", state="succeeded", limit=1)
    stage.analyst.inbox.rerun(refuted.id, reason="the archive is back, and has no report")


def _close_in_part(_stage: HistoryStep) -> None:
    """Leave out two accounts: the scope of the run has missing items."""
    _WORLD.closing_ends_at = len(tasks.ACCOUNTS) - 2


def _close_all(stage: HistoryStep) -> None:
    _WORLD.closing_ends_at = len(tasks.ACCOUNTS)
    _wait_for(stage, "ledger-close")
    _, older = stage.app.runs.list(schedule="ledger-close", state="succeeded", limit=2)
    reason = "the two accounts that were left out"
    stage.operator.inbox.rerun(older.id, repair=True, reason=reason)


def _lose_a_payment(stage: HistoryStep) -> None:
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


def _lose_another(stage: HistoryStep) -> None:
    """Do it again, and nobody has looked yet: it is in the inbox, and the next one waits."""
    _wait_for(stage, "supplier-payouts")
    stage.operator.schedules.trigger("supplier-payouts", reason="a round before the holiday")
    stage.past.lose_worker(20)


def _call_off(stage: HistoryStep) -> None:
    """Cancel a run that waits and one that runs; and have one that gives up."""
    stage.app.enqueue(tasks.send_reminder.bind(class_id=9), delay="2h", key="class:9:reminder")
    stage.analyst.cancel("class:9:reminder", reason="the class was called off")
    running = stage.app.enqueue(tasks.rebuild_cache)
    stage.past.live(30)
    stage.operator.runs.cancel(running.id, reason="started by mistake")
    stage.app.enqueue(tasks.archive_mail.bind(month="unknown"))
    stage.past.live(30)


def _pause_and_delete(stage: HistoryStep) -> None:
    until = stage.at(days=5)
    stage.operator.schedules.pause("newsletter", reason="a new layout is on its way", until=until)
    stage.operator.schedules.delete("old-export", reason="nobody has asked for it")


def _lack_workers(stage: HistoryStep) -> None:
    """Let nobody work for twenty minutes: runs are queued on time, and begin late."""
    stage.past.lack_workers(20 * MINUTE)


def _make_up(stage: HistoryStep) -> None:
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


def _lose_the_partner(stage: HistoryStep) -> None:
    """Have the partner down: after a few failures its breaker opens, and orders wait."""
    app = stage.app
    app.enqueue_many([tasks.push_order.bind(order=number) for number in ORDERS])
    stage.past.live(30)
    _WORLD.partner_is_up = False
    app.enqueue_many([tasks.push_order.bind(order=number + 100) for number in ORDERS])


def _hold_bulk(stage: HistoryStep) -> None:
    stage.operator.queues.pause(tasks.BULK, reason="the render farm is being moved")
    for title in ("spring", "summer"):
        stage.app.enqueue(tasks.render_video.bind(title=title))


def _promise_reminders(stage: HistoryStep) -> None:
    """Promise runs under business keys: pending, moved, and one called off."""
    for class_id in (41, 42, 43):
        stage.app.enqueue(
            tasks.send_reminder.bind(class_id=class_id),
            at=stage.at(hours=class_id),
            key=f"class:{class_id}:reminder",
        )
    stage.analyst.move("class:42:reminder", at=stage.at(hours=66), reason="the class has moved")
    stage.analyst.cancel("class:43:reminder", reason="nobody has signed up")


def _wait_for(stage: HistoryStep, schedule: str) -> None:
    """Let runs that are under way end: whoever comes behind them would wait at their gate."""
    for _ in range(WAIT_MINUTES_MAX):
        runs = stage.app.runs.list(schedule=schedule, limit=2)
        if all(run.is_over for run in runs):
            return
        stage.past.live(MINUTE)


def _unknown(stage: HistoryStep, run: UUID) -> list[str]:
    return [one.key for one in stage.app.inbox.effects(run) if one.state == "unknown"]


SCENES: tuple[tuple[timedelta, Callable[[HistoryStep], None]], ...] = (
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
