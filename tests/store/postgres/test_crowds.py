"""Crowds: many threads on one database, for thousands of orders; afterwards nothing is amiss."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import pairwise
from threading import Event

import pytest

from duly.domain.enums import Lane, Missed, ScheduleStatus
from duly.domain.fire_planning import plan_late, settle
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import decide_edit, decide_pause, decide_resume
from duly.errors import Conflict, NotFound, StoreUnavailable, UsageError
from duly.store.ports.dispatch import (
    DrainOwed,
    Fence,
    FireDelayed,
    FireSchedule,
    LeaseKey,
    LoadTimers,
    Renew,
)
from duly.store.ports.maintenance import Prune, Retention
from duly.store.ports.queries import RunFilter
from duly.store.ports.schedules import Stale
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance.kit import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    cancel,
    change_of,
    definition,
    move,
    new_run,
    on_time,
    template_of,
    timer_of,
)
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.postgres.turnstile import LIMIT_S, PATIENT, Watch

SIZE = int(os.environ.get("DULY_TEST_CROWD", "1"))
"""How many times what everyday's tests take: 50 for a proof."""
PAUSES = 200 * SIZE if SIZE > 1 else 100
ORDERS = 100 * SIZE
WRITES = 120
POLICIES = ("latest", "skip", "all")
EVERYTHING = Retention(
    outcomes_us={"cancelled": SECOND_US, "replaced": SECOND_US},
    runs_per_schedule=5,
    skips_us=SECOND_US,
    deleted_schedules_us=SECOND_US,
)
NOTHING = Retention(
    outcomes_us={}, runs_per_schedule=None, skips_us=None, deleted_schedules_us=None
)


@pytest.fixture
def timed_url(new_database):
    """Make a new database: a leaf that was emptied row by row keeps its pages, and rotation sees them."""
    return new_database(with_store_and_clock)


@pytest.fixture
def store(patient, timed_url, clock, open_store):
    """A store that does not give up, whatever the machine is busy with."""
    return open_store(timed_url, clock, settings=PATIENT)


def planned(record, now):
    """Return the fire of a pending occurrence as a dispatcher plans it: on time, or late."""
    if now - record.pending.due_at <= record.definition.misfire.grace_us:
        return on_time(record)
    plan = plan_late(template_of(record), record.pending, now)
    return on_time(record, plan=plan, late_after=None)


# Pause against fire


class Pausing:
    """One who pauses and resumes all day, and those who fire meanwhile."""

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.records = [
            steps.create(store, policy, timetable=every("1s"), misfire=Misfire(policy, grace="2s"))
            for policy in POLICIES
        ]
        self.fence = steps.own(store, ttl_us=1000 * HOUR_US)
        self.is_over = Event()
        self.counts: Counter[str] = Counter()

    def pause_and_resume(self):
        draws = random.Random(1)
        try:
            for number in range(PAUSES):
                record = self.records[number % len(self.records)]
                paused = self._order(record, lambda seen, _: decide_pause(seen, **self._pause()))
                if draws.random() < 0.5:
                    self.clock.advance(draws.choice((1, SECOND_US, 3 * SECOND_US)))
                seen = steps.look(self.store, record)

                # INV-12: nothing was fired after the pause was acknowledged.
                assert paused.fires == seen.fires
                assert ScheduleStatus.PAUSED is seen.status
                choice = draws.choice(tuple(Missed))
                self._order(record, lambda seen, now, c=choice: decide_resume(seen, now, c, None))
        finally:
            self.is_over.set()

    def collide(self):
        """Let a fire come between a pause's look and its order, and a pause between a fire's."""
        record = self.records[0]
        self.clock.advance(SECOND_US)
        seen = self.store.get_schedule(record.id)
        fire = planned(seen.record, seen.now)
        pause = change_of(seen.record, decide_pause(seen.record, **self._pause()))
        fired = steps.fire(self.store, self.fence, fire).results
        is_stale = isinstance(self.store.change_schedule(pause), Stale)
        self.clock.advance(SECOND_US)
        late = steps.look(self.store, record)
        self._order(record, lambda seen, _: decide_pause(seen, **self._pause()))
        gone = steps.fire(self.store, self.fence, planned(late, self.clock.now_us())).results
        self._order(record, lambda seen, now: decide_resume(seen, now, Missed.SKIP, None))
        return [*map(str, fired)], is_stale, [*map(str, gone)]

    def _pause(self):
        return {"reason": "tired", "until": None, "missed": Missed.SKIP}

    def _order(self, record, decide):
        """Look, decide, apply; again, when a fire came first."""
        while True:
            seen = self.store.get_schedule(record.id)
            order = change_of(seen.record, decide(seen.record, seen.now))
            answer = self.store.change_schedule(order)
            if not isinstance(answer, Stale):
                return answer
            self.counts["stale"] += 1

    def fire(self):
        while not self.is_over.is_set():
            self.clock.advance(SECOND_US // 4)
            fires = []
            for record in self.records:
                seen = self.store.get_schedule(record.id)
                if seen.record.pending is not None and seen.record.pending.due_at <= seen.now:
                    fires.append(planned(seen.record, seen.now))
            for result in steps.fire(self.store, self.fence, *fires).results:
                self.counts[str(result)] += 1


@pytest.mark.timeout(3600)
def test_a_pause_and_a_fire_never_both_have_an_occurrence(store, clock, watch):
    """INV-12, INV-2, INV-3: each is run, skipped, owed or still to come, exactly once."""
    world = Pausing(store, clock)

    assert (["fired"], True, ["gone"]) == world.collide()
    watch.at_once(world.pause_and_resume, world.fire, world.fire, limit_s=3600)

    for record in world.records:
        reckon(store, steps.look(store, record), timer_of(record).scheduled_for)
    assert [] == store.check()


def reckon(store, record, first_for):
    """See that each occurrence before what is pending or held has one verdict."""
    runs = Counter(run.scheduled_for for run in all_runs(store, record))
    skips = store.list_skips(record.id, 1_000_000)
    ranges = [(skip.first_for, skip.last_for) for skip in skips]
    ranges += [(owed.first_for, owed.last_for) for owed in store.list_owed(record.id)]
    ranges.sort()

    assert [] == [pair for pair in pairwise(ranges) if pair[0][1] >= pair[1][0]]
    covered = Counter(
        instant for first, last in ranges for instant in range(first, last + 1, SECOND_US)
    )
    upto = record.pending.scheduled_for if record.pending else record.held_for
    assert Counter(range(first_for, upto, SECOND_US)) == runs + covered
    assert len(runs) == record.fires


def all_runs(store, record):
    found, before = [], None
    while True:
        wanted = RunFilter(tenant="default", schedule_id=record.id, before_id=before)
        page = store.list_runs(wanted)
        found += page
        if len(page) < wanted.limit:
            return found
        before = page[-1].id


# Rotation against whoever writes


def rotate(store, clock, fence):
    """Let a minute pass, and maintenance do its work."""
    clock.advance(61 * SECOND_US)
    store.renew(Renew(member=fence.member, ttl_us=HOUR_US))
    return store.prune(Prune(fence=fence, retention=NOTHING, limit=1000))


def enqueue(store, fence, fire):
    return store.add_runs(add_runs(new_run(None, "again")))


def fire_it(store, fence, fire):
    return steps.fire(store, fence, fire)


@pytest.mark.parametrize("write", [enqueue, fire_it])
def test_what_is_written_to_a_leaf_that_was_emptied_meanwhile_is_kept(store, clock, watch, write):
    """The writer has read an era that has passed since; the leaf is empty, and still a leaf."""
    record = steps.create(store, timetable=every("1m"), misfire=Misfire("latest", grace="1d"))
    clock.set(timer_of(record).due_at)
    fence = steps.own(store, ttl_us=HOUR_US)
    store.add_runs(add_runs(new_run(None, "the first")))
    watch.line.execute("DELETE FROM duly.ready")
    watch.put_turnstile("INSERT", "duly.ready")
    writing = watch.start(partial(write, store, fence, on_time(record)))
    assert watch.stands_at_the_turnstile()

    rotate(store, clock, fence)
    rotate(store, clock, fence)

    assert 1 == watch.value("SELECT era FROM duly.cluster")
    assert 0 == watch.value("SELECT pg_relation_size('duly.ready_0')")
    watch.open_turnstile()
    writing.result(LIMIT_S)
    assert 1 == store.status().queued
    assert 1 == watch.value("SELECT count(*) FROM duly.ready_0")


def test_a_leaf_in_which_an_open_transaction_has_written_is_not_emptied(store, clock, watch):
    fence = steps.own(store, ttl_us=HOUR_US)
    store.add_runs(add_runs(new_run(None, "the first")))
    watch.line.execute("DELETE FROM duly.ready")
    with store.transaction(HOUR_US) as lent:
        store.joined(lent).add_runs(add_runs(new_run(None, "open")))
        for _ in range(5):
            rotate(store, clock, fence)

    assert 1 == store.status().queued
    assert 1 == watch.value("SELECT count(*) FROM duly.ready_0")


def test_nothing_queued_is_lost_while_leaves_take_turns(store, clock, watch):
    """Writers, of whom one rotates as well, and one who takes from the queue, all at once."""
    world = TakingTurns(store, clock, watch)
    watch.at_once(world.work, world.take)
    made = watch.value("SELECT count(*) FROM duly.runs")

    assert len(world.eras) > 1
    assert made == len(world.taken) + store.status().queued
    assert len(world.taken) == len(set(world.taken))


class TakingTurns:
    """Some who fill the queue, of whom one has its leaves take turns, and one who empties it."""

    def __init__(self, store, clock, watch):
        self.store = store
        self.clock = clock
        self.watch = watch
        self.records = [steps.create(store, f"s{n}", timetable=every("1m")) for n in range(5)]
        self.fence = steps.own(store, ttl_us=1000 * HOUR_US)
        self.taken: list[object] = []
        self.eras = {watch.value("SELECT era FROM duly.cluster")}
        self.is_over = Event()

    def work(self):
        try:
            self.watch.at_once(*(partial(self._enqueue, n) for n in range(2)), self._fire)
        finally:
            self.is_over.set()

    def _enqueue(self, writer):
        for number in range(WRITES):
            if writer == 0 and number % 4 == 1:
                self._rotate()
            order = add_runs(new_run(None, f"{writer}/{number}"))
            if number % 5:
                self.store.add_runs(order)
                continue
            # The clock is in a hurry here.
            with self.store.transaction(500 * HOUR_US) as lent:
                self.store.joined(lent).add_runs(order)

    def _fire(self):
        for _ in range(40):
            seen = [self.store.get_schedule(record.id) for record in self.records]
            due = [one.record for one in seen if one.record.pending.due_at <= one.now]
            fires = [planned(record, self.store.now()) for record in due]
            steps.fire(self.store, self.fence, *fires)

    def take(self):
        with Watch(self.watch.url) as own:
            while not self.is_over.is_set():
                rows = own.line.execute(
                    """DELETE FROM duly.ready WHERE run_id = ANY(ARRAY(
                        SELECT run_id FROM duly.ready LIMIT 20)) RETURNING run_id"""
                )
                self.taken.extend(run_id for (run_id,) in rows)

    def _rotate(self):
        rotate(self.store, self.clock, self.fence)
        self.eras.add(self.watch.value("SELECT era FROM duly.cluster"))


# Everybody at once


class Crowd:
    """Threads that each give drawn orders; whatever happens to be refused is looked away from."""

    KEYS = ("a", "b", "c", "d")
    PROVOKED = ("result fired", "result fenced", "drain fired")
    ORDERS = (
        ("edit", 4),
        ("pause_or_resume", 4),
        ("fire", 8),
        ("drain", 4),
        ("prune", 2),
        ("take_over", 2),
        ("replace", 5),
        ("move", 3),
        ("cancel", 3),
        ("transact", 2),
    )

    def __init__(self, store, clock):
        self.store = store
        self.clock = clock
        self.shards = store.status().shards
        self.fence = steps.own(store)
        self.counts: Counter[str] = Counter()
        self.records = [
            steps.create(
                store, f"s{n}", timetable=every("5s"), misfire=Misfire(POLICIES[n % 3], grace="1s")
            )
            for n in range(12)
        ]

    def live(self, seed, orders):
        draws = random.Random(seed)
        names, weights = zip(*self.ORDERS, strict=True)
        for _ in range(orders):
            name = draws.choices(names, weights)[0]
            if draws.random() < 0.3:
                self.clock.advance(draws.choice((1000, SECOND_US, 3 * SECOND_US)))
            try:
                getattr(self, f"_{name}")(draws)
                self.counts[name] += 1
            except (Conflict, NotFound, UsageError):
                self.counts["refused"] += 1
            except StoreUnavailable as error:
                cause = type(error.__cause__).__name__
                self.counts[f"busy: {name}, {cause}"] += 1

    def provoke(self):
        """Bring about each kind of answer in one thread, so that the crowd is known to give them."""
        draws, old = random.Random(0), self.fence
        self.clock.advance(MINUTE_US)
        self._take_over(draws)
        self._fire(draws, old)
        self._fire(draws)
        self._drain(draws)
        self._prune(draws)
        return [name for name in self.PROVOKED if not self.counts[name]]

    def _seen(self, draws):
        return self.store.get_schedule(draws.choice(self.records).id)

    def _edit(self, draws):
        seen = self._seen(draws)
        template = definition(
            timetable=every(draws.choice(("5s", "7s"))), misfire=seen.record.definition.misfire
        )
        change = decide_edit(seen.record, template, seen.now, None)
        self.store.change_schedule(change_of(seen.record, change))

    def _pause_or_resume(self, draws):
        seen = self._seen(draws)
        if seen.record.status is ScheduleStatus.PAUSED:
            change = decide_resume(seen.record, seen.now, draws.choice(tuple(Missed)), None)
        else:
            change = decide_pause(seen.record, reason="x", until=None, missed=Missed.SKIP)
        self.store.change_schedule(change_of(seen.record, change))

    def _fire(self, draws, fence=None):
        now = self.store.now()
        command = LoadTimers(shards=tuple(range(self.shards)), after=None, until=now, limit=100)
        fires = []
        for timer in self.store.load_timers(command).timers:
            if timer.kind == "delayed":
                fires.append(FireDelayed(timer))
                continue
            record = self.store.get_schedule(timer.ref).record
            if record.pending is not None:
                fires.append(planned(record, now))
        draws.shuffle(fires)
        fires.sort(key=lambda fire: not isinstance(fire, FireSchedule))
        for result in steps.fire(self.store, fence or self.fence, *fires).results:
            self.counts[f"result {result}"] += 1

    def _drain(self, draws):
        for row in self.store.load_owed(range(self.shards), 3):
            owed = row.owed
            record = self.store.get_schedule(owed.schedule_id).record
            key = (owed.schedule_id, owed.definition_number)
            template = replace(
                template_of(record),
                definition=self.store.read_definitions([key])[key],
                definition_number=owed.definition_number,
            )
            settlement = settle(template, owed.first_for, owed.last_for, self.store.now(), 3)
            result = self.store.drain_owed(
                DrainOwed(fence=self.fence, shard=row.shard, owed=owed, settlement=settlement)
            )
            self.counts[f"drain {result}"] += 1

    def _prune(self, draws):
        self.store.prune(Prune(fence=self.fence, retention=EVERYTHING, limit=20))

    def _take_over(self, draws):
        """Let the owner die, or leave, or give up a part; somebody else takes all there is."""
        old, choice = self.fence, draws.random()
        if choice < 0.3:
            self.store.leave(old.member)
        elif choice < 0.6:
            self.store.release_leases(Fence(old.member, old.leases[:20]))
        else:
            self.clock.advance(6 * SECOND_US)
        member = steps.join(self.store)
        wanted = [LeaseKey(shard, lane) for shard in range(self.shards) for lane in Lane]
        draws.shuffle(wanted)
        taken = self.store.acquire_leases(member, wanted)
        if taken:
            self.fence = Fence(member, tuple(taken))

    def _replace(self, draws):
        keys = draws.sample(self.KEYS, draws.randint(1, 3))
        due_at = self.store.now() + draws.choice((SECOND_US, 2 * SECOND_US, MINUTE_US))
        text = str(draws.random())
        runs = [new_run(due_at, f"{text}{key}", key=key, replaces=True) for key in keys]
        self.store.add_runs(add_runs(*runs))

    def _move(self, draws):
        due_at = self.store.now() + draws.choice((SECOND_US, MINUTE_US))
        self.store.move_delayed(move(draws.choice(self.KEYS), due_at))

    def _cancel(self, draws):
        self.store.cancel_delayed(cancel(draws.choice(self.KEYS)))

    def _transact(self, draws):
        """Hold on to several things for a while."""
        with self.store.transaction(MINUTE_US) as lent:
            # In one order for all: against each other, callers have to see to that themselves.
            for key in sorted(draws.sample(self.KEYS, 2)):
                run = new_run(self.store.now() + SECOND_US, f"{draws.random()}", key=key)
                order = add_runs(replace(run, replaces=True))
                self.store.joined(lent).add_runs(order)


@pytest.mark.timeout(3600)
def test_nobody_locks_anybody_out(timed_url, clock, open_store, watch):
    """Edits, fires, drains, pruning, takeovers and transactions: no error but, rarely, busy."""
    world = Crowd(open_store(timed_url, clock, settings=PATIENT), clock)

    assert [] == world.provoke()
    watch.at_once(*(partial(world.live, seed, ORDERS) for seed in range(6)), limit_s=3600)

    assert [] == world.store.check()
    # How often a store is busy is the machine's affair. Who replaces what is pending under several
    # keys in a transaction of his own may meet another who does, in a circle; orders that are ours
    # alone are carried out again.
    locked_out = {name for name in world.counts if "Deadlock" in name}
    assert locked_out <= {"busy: transact, DeadlockDetected"}
