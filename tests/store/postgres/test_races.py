"""True races: several connections at once, held in the middle on purpose or let loose in crowds."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import psycopg
import pytest

from duly.domain.enums import Overlap
from duly.domain.schedule_changes import decide_edit
from duly.engine.manual_clock import START_US
from duly.errors import Conflict
from duly.store.ports.dispatch import FireResult, Renew
from duly.store.ports.schedules import Stale
from duly.store.postgres import firing, leases
from duly.timetable.interval import every
from duly.timetable.once import at
from duly_conformance import steps
from duly_conformance.kit import (
    HOUR_US,
    MINUTE_US,
    SECOND_US,
    add_runs,
    change_of,
    definition,
    delayed_fire,
    move,
    new_run,
    new_schedule,
    on_time,
    run_id,
    timer_of,
)
from tests.store.postgres.turnstile import LIMIT_S, PATIENT, replaced

SOON = "2027-03-08T08:01+00:00"
ROUNDS = 40
FIRED, GONE, FENCED, BUSY = (
    FireResult.FIRED,
    FireResult.GONE,
    FireResult.FENCED,
    FireResult.BUSY,
)


@pytest.fixture
def store(timed_url, clock, open_store):
    """A store that does not give up, whatever the machine is busy with."""
    return open_store(timed_url, clock, settings=PATIENT)


# Ownership: whoever takes a lease away, and whoever still writes under it


def plain(store):
    """Return a fire of the usual kind: one statement."""
    record = steps.create(store, timetable=every("1m"))
    return on_time(record), timer_of(record).due_at


def delayed(store):
    """Return the fire of a delayed run: one statement, too."""
    record = steps.delay(store, START_US + MINUTE_US)
    return delayed_fire(record, store.status().shards), record.due_at


def ending(store):
    """Return a fire that ends its schedule: a transaction."""
    record = steps.create(store, timetable=at(SOON))
    return on_time(record), timer_of(record).due_at


def gated(store):
    """Return a fire whose run comes to a gate: a transaction, too."""
    record = steps.create(store, timetable=every("1m"), overlap=Overlap.QUEUE_ALL)
    return on_time(record), timer_of(record).due_at


def take_over(store, clock, fence):
    """Declare the member dead, and own what it owned."""
    clock.advance(10 * SECOND_US)
    assert len(fence.leases) == len(steps.own(store).leases)


def release(store, clock, fence):
    store.release_leases(fence)


def leave(store, clock, fence):
    store.leave(fence.member)


FIRES = [plain, delayed, ending]
TAKERS = [take_over, release, leave]


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("make", [*FIRES, gated])
def test_who_takes_a_lease_waits_for_what_is_being_fired_under_it(
    store, clock, watch, patient, make, take
):
    """When a lease has been taken, nothing of its old owner is under way any more."""
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", "duly.runs", each="ROW")
    fired = watch.start(lambda: steps.fire(store, fence, fire))
    assert watch.stands_at_the_turnstile()

    def take_and_look():
        take(store, clock, fence)
        return store.status().queued

    taken = watch.start(take_and_look)

    assert watch.is_blocked()
    assert not taken.done()
    watch.open_turnstile()
    assert 1 == taken.result(LIMIT_S)
    assert (FIRED,) == fired.result(LIMIT_S).results


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("make", FIRES)
def test_what_was_sent_before_a_lease_was_taken_is_fenced_after_it(
    store, clock, watch, patient, make, take
):
    """It began when the lease was still its own, and what it sees of leases is as old as that."""
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)

    assert (FENCED,) == fired_meanwhile(store, clock, watch, (fence, fire, take)).results
    assert 0 == store.status().queued
    assert ["lease.refused"] == [
        entry.action for entry in steps.audit(store, action="lease.refused")
    ]


def fired_meanwhile(store, clock, watch, parts):
    """Fire while a lease is being taken: sent when it is nearly done, carried out after it."""
    fence, fire, take = parts
    watch.put_turnstile("UPDATE", "duly.leases")
    due_at = clock.now_us()
    taken = watch.start(lambda: take(store, clock, fence))
    assert watch.stands_at_the_turnstile()
    # The clock alone would refuse the old owner: what is tried here is the lease.
    clock.set(due_at)
    fired = watch.start(lambda: steps.fire(store, fence, fire))
    assert watch.is_blocked()
    watch.open_turnstile()
    taken.result(LIMIT_S)
    return fired.result(LIMIT_S)


HELD_BY_LEASES = """
    ARRAY(SELECT (l.epoch << 20) + (l.shard << 4) + CASE l.lane WHEN 'live' THEN 0
        WHEN 'catch-up' THEN 1 ELSE 2 END FROM duly.leases l WHERE l.owner = m.id) @>"""


@pytest.mark.parametrize("take", TAKERS)
@pytest.mark.parametrize("make", [plain, delayed])
def test_a_fence_that_reads_leases_would_let_it_through(store, clock, watch, patient, make, take):
    """Why the member's own row says what it holds: of that row alone the newest version is read."""
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)
    with ExitStack() as stack:
        for name in ("FIRE_SCHEDULES", "FIRE_DELAYED"):
            # As far as this fence knows, the member lives.
            stack.enter_context(replaced(firing, name, "AND m.ended_at IS NULL", ""))
            stack.enter_context(replaced(firing, name, "m.held @>", HELD_BY_LEASES))
        fired = fired_meanwhile(store, clock, watch, (fence, fire, take))

    assert (FIRED,) == fired.results


@pytest.mark.parametrize("make", FIRES)
def test_without_the_lock_on_the_member_a_lease_would_be_taken_in_the_middle(
    store, clock, watch, patient, make
):
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", "duly.runs")
    fired = watch.start(lambda: steps.fire(store, fence, fire))
    assert watch.stands_at_the_turnstile()

    with replaced(leases, "LOCK_MEMBERS", "FOR UPDATE", ""):
        store.release_leases(fence)

    assert not fired.done()
    watch.open_turnstile()
    assert (FIRED,) == fired.result(LIMIT_S).results


@pytest.mark.parametrize("make", FIRES)
def test_a_renewal_passes_what_is_being_fired(store, clock, watch, patient, make):
    """However long a batch takes, its owner stays alive."""
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)
    watch.put_turnstile("INSERT", "duly.runs")
    fired = watch.start(lambda: steps.fire(store, fence, fire))
    assert watch.stands_at_the_turnstile()

    renewal = store.renew(Renew(member=fence.member))

    assert renewal.is_alive
    assert not fired.done()
    watch.open_turnstile()
    assert (FIRED,) == fired.result(LIMIT_S).results


def test_of_two_that_take_over_at_once_each_lease_goes_to_one(store, clock, watch):
    for _ in range(10):
        dead = steps.own(store)
        clock.advance(10 * SECOND_US)
        members = [steps.join(store) for _ in range(4)]
        wanted = [lease.key for lease in dead.leases]
        taken = watch.at_once(*(partial(store.acquire_leases, one, wanted) for one in members))
        keys = sorted(lease.key for leases in taken for lease in leases)

        assert sorted(wanted) == keys
        for member in members:
            store.leave(member)


# Edits and moves against fires


def test_of_an_edit_and_a_fire_exactly_one_wins(store, clock, watch):
    """INV-14: never both, never none."""
    record = steps.create(store, timetable=every("1m"))
    fence = steps.own(store, ttl_us=HOUR_US * 100)
    seen = set()
    for number in range(ROUNDS):
        clock.set(timer_of(record).due_at)
        fire = on_time(record)
        template = definition(timetable=every("1m"), arguments=f'{{"n":{number}}}')
        order = change_of(record, decide_edit(record, template, store.now(), None))
        fired, edited = watch.at_once(
            lambda fire=fire: steps.fire(store, fence, fire).results[0],
            lambda order=order: store.change_schedule(order),
        )
        after = steps.look(store, record)
        is_edited = not isinstance(edited, Stale)
        seen.add((fired, is_edited))

        assert (fired is FIRED) != is_edited
        assert record.fires + (fired is FIRED) == after.fires
        assert record.version + is_edited == after.version
        record = after

    assert [] == store.check()


@pytest.mark.parametrize("make", [plain, delayed])
def test_what_an_open_order_holds_is_busy_and_all_others_fire(store, clock, watch, make):
    """Whoever leaves a transaction open holds up what he has touched, and nothing else."""
    others = tuple(new_run(START_US + MINUTE_US, f"run {number}") for number in range(999))
    store.add_runs(add_runs(*others))
    fire, due_at = make(store)
    clock.set(due_at)
    fence = steps.own(store)
    shards = store.status().shards
    fires = [delayed_fire(store.get_delayed(run.id), shards) for run in others]
    batch = [fire, *fires] if make is plain else [*fires, fire]
    table, key = ("schedule_state", "schedule_id") if make is plain else ("delayed", "id")
    lock = f"SELECT FROM duly.{table} WHERE {key} = %s::uuid FOR UPDATE"
    with watch.holding(lock, [fire.timer.ref.hex()]):
        results = steps.fire(store, fence, *batch).results

        assert BUSY is results[batch.index(fire)]
        assert 999 == results.count(FIRED)

    assert (FIRED,) == steps.fire(store, fence, fire).results


def test_what_an_open_edit_holds_is_busy_among_schedules(store, clock, watch):
    """The same where the whole batch is one statement, sent a second time row by row."""
    records = [steps.create(store, f"s{number}", timetable=every("1m")) for number in range(120)]
    clock.set(timer_of(records[0]).due_at)
    fence = steps.own(store)
    touch = "UPDATE duly.schedule_state SET version = version + 1 WHERE schedule_id = %s::uuid"
    with watch.holding(touch, [records[60].id.hex()]):
        results = steps.fire(store, fence, *map(on_time, records)).results

        assert BUSY is results[60]
        assert 119 == results.count(FIRED)

    assert (FIRED,) == steps.fire(store, fence, on_time(records[60])).results


def test_a_run_that_is_moved_while_it_fires_is_not_fired(store, clock, watch, patient):
    """Who waited for the move sees where it was moved to."""
    fire, due_at = delayed(store)
    clock.set(due_at)
    fence = steps.own(store)
    shift = """
        UPDATE duly.delayed SET due_at = due_at + 3600000000, generation = generation + 1
        WHERE id = %s::uuid"""
    with watch.holding(shift, [fire.timer.ref.hex()]) as mover:
        fired = watch.start(lambda: steps.fire(store, fence, fire))
        assert watch.is_blocked()
        mover.commit()

        assert (GONE,) == fired.result(LIMIT_S).results
    assert 0 == store.status().queued
    assert due_at + HOUR_US == store.get_delayed(fire.timer.ref).due_at


def test_of_a_move_and_a_fire_exactly_one_wins(store, clock, watch):
    fence = steps.own(store, ttl_us=HOUR_US * 100)
    shards = store.status().shards
    for number in range(ROUNDS):
        record = steps.delay(store, store.now() + SECOND_US, f"run {number}", key="k")
        clock.set(record.due_at)
        order = move("k", record.due_at + HOUR_US)

        def shift(order=order):
            try:
                return store.move_delayed(order)
            except Conflict:
                return None

        fired, moved = watch.at_once(
            lambda record=record: steps.fire(store, fence, delayed_fire(record, shards)).results[0],
            shift,
        )

        assert (fired is FIRED) != (moved is not None)
        if moved is not None:
            clock.set(moved.due_at)
            again = steps.fire(store, fence, delayed_fire(moved, shards)).results
            assert (FIRED,) == again
    assert ROUNDS == store.status().queued
    assert [] == store.check()


# The arrivals feed: transactions that commit in another order than they wrote


@pytest.mark.parametrize("has_savepoints", [False, True])
def test_what_is_committed_late_is_on_the_feed_exactly_once(
    timed_url, store, clock, has_savepoints
):
    """Whoever has read past a number would have lost it."""
    shards = range(store.status().shards)
    cursor = store.start_of_arrivals()
    early = new_schedule(clock.now_us(), "early", timetable=every("1m"))
    with psycopg.connect(timed_url) as slow:
        slow.execute("SELECT 1")
        if has_savepoints:
            slow.execute("SAVEPOINT one")
        store.joined(slow).create_schedule(early)
        if has_savepoints:
            slow.execute("RELEASE one")
        told = []
        for number in range(3):
            made = steps.create(store, f"other {number}", timetable=every("1m"))
            arrivals = store.read_arrivals(cursor, shards)
            cursor = arrivals.cursor
            told.append([timer.ref for timer in arrivals.timers])

            assert [made.id] == told[-1]
        slow.commit()
    late = store.read_arrivals(cursor, shards)

    assert [early.id] == [timer.ref for timer in late.timers]
    assert () == store.read_arrivals(late.cursor, shards).timers


def test_what_is_undone_is_never_on_the_feed(timed_url, store, clock):
    shards = range(store.status().shards)
    cursor = store.start_of_arrivals()
    kept = new_run(clock.now_us() + MINUTE_US, "kept")
    with psycopg.connect(timed_url) as slow:
        slow.execute("SAVEPOINT one")
        store.joined(slow).add_runs(add_runs(new_run(clock.now_us() + MINUTE_US, "undone")))
        slow.execute("ROLLBACK TO one")
        store.joined(slow).add_runs(add_runs(kept))
        cursor = store.read_arrivals(cursor, shards).cursor
        slow.commit()

    assert [kept.id] == [timer.ref for timer in store.read_arrivals(cursor, shards).timers]


def test_nothing_is_missed_while_many_write_and_one_reads(store, clock, watch):
    shards = range(store.status().shards)
    start = store.start_of_arrivals()

    def write(writer):
        for number in range(ROUNDS):
            run = new_run(clock.now_us() + MINUTE_US, f"{writer}/{number}")
            if number % 3:
                store.add_runs(add_runs(run))
                continue
            with store.transaction(MINUTE_US) as lent:
                store.joined(lent).add_runs(add_runs(run))

    def read():
        cursor = start
        heard: list[bytes] = []
        while len(heard) < 4 * ROUNDS:
            arrivals = store.read_arrivals(cursor, shards)
            cursor = arrivals.cursor
            heard += [timer.ref for timer in arrivals.timers]
        return heard

    *_, heard = watch.at_once(*(lambda n=n: write(n) for n in range(4)), read)

    assert 4 * ROUNDS == len(heard) == len(set(heard))


# Two that make the same


def made_elsewhere(watch, record):
    """Return what leaves a transaction open that has made the run of a pending occurrence."""
    run = on_time(record).plan.settlement.runs[0]
    statement = """
        INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at, schedule_id,
            definition_number, priority, tenant, task, queue, origin, lane)
        SELECT %s::uuid, next_for, next_due, next_due, next_due, schedule_id, definition_number,
            priority, tenant, task, queue, 'schedule', 'live'
        FROM duly.schedule_state WHERE schedule_id = %s::uuid"""
    return watch.holding(statement, [run.run_id.hex(), record.id.hex()])


@pytest.mark.parametrize("is_committed", [False, True])
def test_of_two_makers_of_one_occurrence_one_makes_the_run(store, clock, watch, is_committed):
    """Its id is the occurrence's; the rest of the batch is not lost over it."""
    records = [steps.create(store, f"s{number}", timetable=every("1m")) for number in range(20)]
    clock.set(timer_of(records[0]).due_at)
    fence = steps.own(store)
    with made_elsewhere(watch, records[7]) as maker:
        fired = watch.start(lambda: steps.fire(store, fence, *map(on_time, records)))
        assert watch.is_blocked()
        if is_committed:
            maker.commit()
        else:
            maker.rollback()
        result = fired.result(LIMIT_S)

    assert {FIRED} == set(result.results)
    assert (19 if is_committed else 20) == result.runs_made
    assert 20 == watch.value("SELECT count(*) FROM duly.runs")
    assert (19 if is_committed else 20) == store.status().queued


def test_of_two_that_create_one_name_one_does(store, clock, watch):
    """The other one is told what is there, or that it is another."""
    for number in range(ROUNDS):
        now, name = clock.now_us(), f"s{number}"
        same = [new_schedule(now, name, id=new_schedule(now, f"{name}/{n}").id) for n in range(2)]
        other = replace(same[1], definition=definition(task="other"))

        def create(order):
            try:
                return store.create_schedule(order).is_new
            except Conflict:
                return None

        orders = [same[0], other if number % 2 else same[1]]
        made = watch.at_once(*(lambda order=order: create(order) for order in orders))

        assert 1 == made.count(True)
        assert 1 == made.count(None if number % 2 else False)
    assert [] == store.check()


def test_one_order_that_is_given_twice_at_once_is_carried_out_once(store, clock, watch):
    """Asking again after a lost answer, while the first is still on its way."""
    for number in range(ROUNDS):
        order = new_schedule(clock.now_us(), f"s{number}")
        run = add_runs(new_run(None, f"now {number}"))
        later = add_runs(new_run(clock.now_us() + HOUR_US, f"later {number}", key=f"k{number}"))
        made = watch.at_once(
            *(lambda order=order: store.create_schedule(order).is_new for _ in range(2)),
            *(lambda run=run: store.add_runs(run)[0].is_new for _ in range(2)),
            *(lambda later=later: store.add_runs(later)[0].is_new for _ in range(2)),
        )

        assert [[False, True]] * 3 == [sorted(made[n : n + 2]) for n in (0, 2, 4)]
    assert ROUNDS == store.status().queued
    assert [] == store.check()


def test_of_two_runs_under_one_key_one_is_pending(store, clock, watch):
    for number in range(ROUNDS):
        orders = [
            add_runs(new_run(clock.now_us() + HOUR_US, f"{number}/{n}", key="k", replaces=n == 1))
            for n in range(3)
        ]

        def add(order):
            try:
                return store.add_runs(order)[0].is_new
            except Conflict:
                return None

        watch.at_once(*(lambda order=order: add(order) for order in orders))

        assert 1 == len(store.list_delayed("default", 9))
    assert [] == store.check()


def test_one_id_for_two_different_requests_at_once_is_one_run(store, clock, watch):
    """A caller's mistake; whichever of the two is run, the other one is not, nor in the way."""
    ids = [run_id(f"same {number}") for number in range(ROUNDS)]
    due_at = clock.now_us() + HOUR_US
    for identity in ids:
        soon = replace(new_run(None, "x"), id=identity)
        later = replace(new_run(due_at, "x"), id=identity)

        def add(run):
            try:
                store.add_runs(add_runs(run))
            except Conflict:
                return

        watch.at_once(lambda run=soon: add(run), lambda run=later: add(run))
    clock.set(due_at)
    fence = steps.own(store)
    shards = store.status().shards
    pending = [record for record in map(store.get_delayed, ids) if record is not None]
    fired = steps.fire(store, fence, *(delayed_fire(record, shards) for record in pending))

    assert {FIRED} >= set(fired.results)
    assert ROUNDS == watch.value("SELECT count(*) FROM duly.runs") == store.status().queued
    assert [] == store.check()


def test_a_run_that_exists_is_not_in_the_way_of_others(store, clock, watch):
    """It is left alone, and not queued again."""
    records = [steps.delay(store, START_US + MINUTE_US, f"run {number}") for number in range(5)]
    watch.line.execute(
        """INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, priority, tenant, task,
            queue, origin, lane)
        SELECT id, due_at, due_at, created_at, priority, tenant, task, queue, origin, lane
        FROM duly.delayed WHERE id = %s::uuid""",
        [records[2].id.hex()],
    )
    clock.set(records[0].due_at)
    fence = steps.own(store)
    shards = store.status().shards
    fired = steps.fire(store, fence, *(delayed_fire(record, shards) for record in records))

    assert (FIRED,) * 5 == fired.results
    assert 4 == fired.runs_made == store.status().queued
    assert 0 == store.status().delayed
