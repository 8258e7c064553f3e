"""Rotation: leaves take turns, and are emptied as a whole; pruning counts and remembers."""
# ruff: noqa: S608 - names of ours

from __future__ import annotations

from dataclasses import replace

import psycopg
import pytest

from duly.store.ports.maintenance import Prune, PruneKind
from duly.store.postgres.rotation import ERA_MAX_US, ERA_MIN_US, ERAS
from duly.store.rulings import ARRIVALS_KEPT_US
from duly_conformance import steps
from duly_conformance.kit import DAY_US, HOUR_US, SECOND_US, add_runs, new_run
from duly_conformance.vitals import KEEP, NOTHING_KEPT, maintenance, prune
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.postgres.turnstile import LIMIT_S, Watch


@pytest.fixture
def timed_url(new_database):
    """Make a new database: a table that was emptied row by row keeps its pages."""
    return new_database(with_store_and_clock)


@pytest.fixture
def line(timed_url):
    with psycopg.connect(timed_url, autocommit=True) as connection:
        yield connection


def era(line):
    return line.execute("SELECT era FROM duly.cluster").fetchone()[0]


def count(line, table):
    return line.execute(f"SELECT count(*) FROM duly.{table}").fetchone()[0]


def size(line, table):
    return line.execute(f"SELECT pg_relation_size('duly.{table}')").fetchone()[0]


def enqueue(store, text):
    store.add_runs(add_runs(new_run(None, text)))


def announce(store, clock, text):
    steps.delay(store, clock.now_us() + SECOND_US, text)


def work_off(line, *eras):
    """Do as workers will: take everything out of some leaves."""
    for one in eras:
        line.execute(f"DELETE FROM duly.ready_{one}")


def removed(store):
    return prune(store, KEEP).counts[PruneKind.ARRIVALS]


def test_the_era_moves_on_once_a_minute_and_not_before(store, clock, line):
    enqueue(store, "first")
    prune(store, KEEP)
    assert 1 == era(line)
    enqueue(store, "second")
    clock.advance(ERA_MIN_US - 1)
    prune(store, KEEP)

    assert 1 == era(line)
    clock.advance(1)
    prune(store, KEEP)
    assert 2 == era(line)
    assert (1, 1) == (count(line, "ready_0"), count(line, "ready_1"))


def test_a_clock_that_was_put_back_does_not_keep_the_era(store, clock, line):
    enqueue(store, "first")
    prune(store, KEEP)
    enqueue(store, "second")
    clock.set(clock.now_us() - DAY_US)
    prune(store, KEEP)

    assert 2 == era(line)


def test_the_era_stays_when_nothing_was_written_in_it(store, clock, line):
    for _ in range(3):
        clock.advance(HOUR_US)
        prune(store, KEEP)

    assert 0 == era(line)


def test_runs_in_all_leaves_are_seen_in_one_order(store, clock, line):
    for number in range(ERAS):
        enqueue(store, f"run {number}")
        clock.advance(HOUR_US)
        prune(store, KEEP)

    assert [1] * ERAS == [count(line, f"ready_{one}") for one in range(ERAS)]
    assert ERAS == store.status().queued
    assert [] == store.check()


def test_a_leaf_from_which_all_runs_have_gone_gives_its_space_back(store, clock, line):
    """Although a transaction that is left open elsewhere still sees them."""
    for number in range(50):
        enqueue(store, f"run {number}")
    prune(store, KEEP)
    with psycopg.connect(line.info.dsn) as left_open:
        left_open.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        left_open.execute("SELECT 1")
        work_off(line, 0)
        assert size(line, "ready_0") > 0
        clock.advance(ERA_MIN_US)
        prune(store, KEEP)

        assert 0 == size(line, "ready_0")


def test_a_leaf_with_runs_in_it_is_never_emptied(store, clock, line):
    enqueue(store, "open")
    for _ in range(6):
        clock.advance(HOUR_US)
        announce(store, clock, f"near {clock.now_us()}")
        prune(store, KEEP)

    assert 1 == store.status().queued


def test_the_feeds_leaves_take_turns_even_if_nobody_works_on_the_queue(store, clock, line):
    """A queue that is full everywhere must not let the feed grow."""
    told = 0
    for number in range(40):
        enqueue(store, f"run {number}")
        announce(store, clock, f"near {number}")
        told += 1
        clock.advance(ERA_MAX_US // 2)
        told -= removed(store)

    assert all(count(line, f"ready_{one}") for one in range(ERAS))
    assert told < 20


def test_a_leaf_of_the_feed_goes_as_a_whole_when_all_of_it_is_old(store, clock, line):
    for number in range(7):
        announce(store, clock, f"near {number}")
    prune(store, KEEP)
    assert 1 == era(line)
    clock.advance(ARRIVALS_KEPT_US)
    assert 0 == removed(store)
    clock.advance(1)

    assert 7 == removed(store)
    assert 0 == size(line, "arrivals_0")


def test_a_leaf_of_the_feed_with_anything_young_in_it_stays(store, clock, line):
    announce(store, clock, "old")
    prune(store, KEEP)
    clock.advance(ARRIVALS_KEPT_US + 1)
    line.execute(
        """INSERT INTO duly.arrivals (at, ref, shard, era, is_schedule)
        VALUES (duly.now_us(), gen_random_uuid(), 0, 0, false)"""
    )

    assert 0 == removed(store)
    assert 2 == count(line, "arrivals_0")


def test_old_rows_go_one_by_one_from_the_leaf_that_is_written_to(store, clock, line):
    """In steps, when the era has not moved for very long; it moves on then, and the rest waits."""
    for number in range(3):
        announce(store, clock, f"old {number}")
    clock.advance(HOUR_US)
    announce(store, clock, "young")
    command = Prune(fence=maintenance(store, ttl_us=DAY_US), retention=KEEP, limit=2)

    first, second = store.prune(command), store.prune(command)

    assert (2, True) == (first.counts[PruneKind.ARRIVALS], first.has_more)
    assert (0, False) == (second.counts[PruneKind.ARRIVALS], second.has_more)
    clock.advance(HOUR_US)
    assert 2 == store.prune(command).counts[PruneKind.ARRIVALS]


@pytest.mark.parametrize("table", ["ready_0", "arrivals_0"])
def test_a_leaf_that_somebody_reads_is_left_for_the_next_time(store, clock, line, table):
    announce(store, clock, "near")
    enqueue(store, "run")
    prune(store, KEEP)
    work_off(line, 0)
    clock.advance(HOUR_US)
    with psycopg.connect(line.info.dsn) as backup:
        backup.execute(f"LOCK TABLE duly.{table} IN ACCESS SHARE MODE")
        prune(store, KEEP)
        assert size(line, table) > 0
    prune(store, KEEP)

    assert 0 == size(line, table)


def test_whoever_lacks_the_lease_empties_nothing_and_is_on_record_once(store, clock, line):
    announce(store, clock, "near")
    prune(store, KEEP)
    fence = maintenance(store)
    store.leave(fence.member)
    clock.advance(HOUR_US)

    pruned = store.prune(Prune(fence=fence, retention=KEEP, limit=9))

    assert (0, 1) == (sum(pruned.counts.values()), count(line, "arrivals_0"))
    assert 1 == len(steps.audit(store, action="lease.refused"))


def test_changes_of_tallies_are_folded_into_them(store, clock, line):
    steps.pause(store, steps.create(store))
    for number in range(5):
        announce(store, clock, f"near {number}")
    before = store.status()
    assert count(line, "tally_changes") > 0

    prune(store, KEEP)

    assert 0 == count(line, "tally_changes")
    after = store.status()
    assert (before.schedules, 5) == (after.schedules, after.delayed)
    assert [] == store.check()


def test_what_is_remembered_of_pruning_never_lies_ahead(store, clock, line):
    """Not even of a run that a clock made which ran ahead."""
    began = clock.now_us()
    record = steps.fire_due(store, clock, steps.create(store))
    line.execute("INSERT INTO duly.outcomes SELECT id, %s, 'succeeded' FROM duly.runs", [began - 1])
    clock.set(began)

    assert 1 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]
    assert began == steps.look(store, record).pruned_through


def test_the_newest_runs_of_each_schedule_are_kept(store, clock, line):
    """Walked in steps, whichever schedules they are of."""
    records = [steps.create(store, f"s{number}") for number in range(3)]
    for _ in range(4):
        records = [steps.fire_due(store, clock, record) for record in records]
    line.execute("INSERT INTO duly.outcomes SELECT id, 1, 'succeeded' FROM duly.runs")
    line.execute("DELETE FROM duly.ready")
    retention = replace(KEEP, runs_per_schedule=1)
    fence = maintenance(store)
    counts = []
    while True:
        pruned = store.prune(Prune(fence=fence, retention=retention, limit=4))
        counts.append(pruned.counts[PruneKind.OUTCOMES])
        if not pruned.has_more:
            break

    assert 9 == sum(counts)
    assert max(counts) <= 4
    left = {run_id for (run_id,) in line.execute("SELECT uuid_send(id) FROM duly.runs")}
    assert {record.last_run for record in records} == left


def test_a_schedule_that_is_being_restored_is_not_removed(store, clock, line, timed_url):
    """Who restores it has its row; we wait, and look again."""
    record = steps.delete(store, steps.create(store))
    clock.advance(DAY_US)
    watch = Watch(timed_url)
    lock = "SELECT 1 FROM duly.schedule_state WHERE schedule_id = %s::uuid FOR UPDATE"
    with watch.holding(lock, [record.id.hex()]) as restorer:
        pruned = watch.start(lambda: prune(store, NOTHING_KEPT))
        assert watch.is_blocked()
        restorer.execute("UPDATE duly.schedules SET status = 'paused'")
        restorer.commit()
        counts = pruned.result(LIMIT_S).counts
    watch.close()

    assert 0 == counts[PruneKind.SCHEDULES]
    assert "paused" == steps.look(store, record).status


def test_members_whom_somebody_holds_are_left_for_the_next_time(store, clock, line):
    """Nobody waits in a circle."""
    dead = [steps.join(store) for _ in range(2)]
    clock.advance(DAY_US)
    with psycopg.connect(line.info.dsn) as holder:
        holder.execute("SELECT 1 FROM duly.members WHERE id = %s FOR KEY SHARE", [dead[0]])
        assert 1 == prune(store, KEEP).counts[PruneKind.MEMBERS]

    assert 1 == prune(store, KEEP).counts[PruneKind.MEMBERS]
