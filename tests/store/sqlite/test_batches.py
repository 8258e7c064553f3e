"""Many rows at once, among them some that are not as believed: each has its own answer."""

from __future__ import annotations

from collections import Counter

import apsw
import pytest

from duly.domain.outcomes import Succeeded
from duly.store.ports.dispatch import FireResult, FireTimers
from duly.store.ports.execution import FinishResult
from duly.store.sqlite.batches import ROWS_MAX, Among, Batch, chunks
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import HOUR_US, SECOND_US, delayed_fire, finish, on_time

MANY = 2 * ROWS_MAX + 3
ODD = (0, 40, MANY - 1)
"""Where in a batch one is that is not as believed: in three different chunks."""


@pytest.mark.parametrize("count", [1, 2, 8, 9, 32, 33, ROWS_MAX, ROWS_MAX + 1, MANY])
def test_every_row_is_bound_once(store, count):
    batch = Batch(
        "\nSELECT a.place FROM asked a JOIN (SELECT ?1 AS one) o ON a.one = o.one",
        "place",
        "one",
        also=1,
    )
    asked = [(place, "yes") for place in range(count)]

    with store._connections.read() as look:  # noqa: SLF001 - how it is read is private
        found = [
            place
            for chunk in chunks(asked, ("yes",))
            for (place,) in batch.run(look.connection, chunk)
        ]

    assert list(range(count)) == found


@pytest.mark.parametrize("columns", [1, 2, 3])
@pytest.mark.parametrize("count", [1, ROWS_MAX, ROWS_MAX + 1, MANY])
def test_what_is_changed_is_what_was_named_and_all_of_it_is_counted(count, columns):
    """However many columns name a row, and however many chunks the rows fill."""
    names, places = [", ".join(one[:columns]) for one in ("abc", "???")]
    connection = apsw.Connection(":memory:")
    connection.execute(f"CREATE TABLE kept ({names})")
    rows = [tuple(place * 10 + column for column in range(columns)) for place in range(count + 2)]
    connection.executemany(f"INSERT INTO kept VALUES ({places})", rows)  # noqa: S608 - columns of ours
    drop = Among(f"DELETE FROM kept WHERE ({names})", columns)  # noqa: S608 - as before

    changed = drop.change(connection, rows[1:-1])

    assert count == changed
    assert [rows[0], rows[-1]] == connection.execute("SELECT * FROM kept ORDER BY a").fetchall()


def test_schedules_that_are_not_as_believed_do_not_keep_others_from_firing(store, clock):
    """INV-1."""
    made = [steps.create(store, f"schedule {place}") for place in range(MANY)]
    steps.fall_due(clock, made[0])
    fence = steps.own(store)
    fires = [on_time(record) for record in made]
    for place in ODD:
        fires[place] = fires[place]._replace(
            timer=fires[place].timer._replace(generation=made[place].version + 1)
        )

    fired = store.fire_timers(FireTimers(fence=fence, schedules=tuple(fires)))

    assert list(ODD) == [
        place for place, result in enumerate(fired.results) if result is FireResult.GONE
    ]
    assert {FireResult.FIRED: MANY - len(ODD), FireResult.GONE: len(ODD)} == Counter(fired.results)
    assert (MANY - len(ODD), MANY - len(ODD)) == (fired.runs_made, store.status().queued)
    assert [] == store.check()


def test_a_schedule_whose_run_exists_does_not_keep_others_from_firing(store, clock):
    """INV-1: as when an older copy of its state was restored."""
    made = [steps.create(store, f"schedule {place}") for place in range(3)]
    steps.fall_due(clock, made[0])
    fence = steps.own(store)
    fires = tuple(on_time(record) for record in made)
    store.fire_timers(FireTimers(fence=fence, schedules=fires[1:2]))
    pending = made[1].pending
    assert pending is not None
    connection = store._connections._open_writer()  # noqa: SLF001 - nobody else can undo a fire
    connection.execute(
        "UPDATE duly_schedule_state SET next_for = ?, next_due = ?, last_for = NULL, fires = 0"
        " WHERE schedule_id = ?",
        (*pending, made[1].id),
    )

    fired = store.fire_timers(FireTimers(fence=fence, schedules=fires))

    assert (FireResult.FIRED,) * 3 == fired.results
    assert (2, 3) == (fired.runs_made, store.status().queued)
    assert [] == store.check()


def test_delayed_runs_that_were_moved_do_not_keep_others_from_firing(store, clock):
    """INV-1."""
    due_at = clock.now_us() + HOUR_US
    pending = [steps.delay(store, due_at, f"run {place}") for place in range(MANY)]
    fires = [delayed_fire(record, store.status().shards) for record in pending]
    for place in ODD:
        later = fires[place].timer._replace(due_at=due_at + SECOND_US)
        fires[place] = fires[place]._replace(timer=later)
    clock.set(due_at + 2 * SECOND_US)
    fence = steps.own(store)

    fired = store.fire_timers(FireTimers(fence=fence, delayed=tuple(fires)))

    assert list(ODD) == [
        place for place, result in enumerate(fired.results) if result is FireResult.GONE
    ]
    assert MANY - len(ODD) == fired.runs_made == store.status().queued
    assert [] == store.check()


def test_ends_that_are_refused_do_not_keep_others_from_being_accepted(store):
    """INV-4."""
    for place in range(MANY):
        work.queue(store, f"run {place}")
    worker, other = work.join_worker(store), work.join_worker(store)
    taken = work.take(store, worker, MANY)
    ends = [finish(claimed, Succeeded()) for claimed in taken]
    assert {FinishResult.REFUSED} == set(store.finish_runs(other, ends[:3]).results)
    for place in ODD:
        ends[place].hold = ends[place].hold._replace(fence=7)

    finished = store.finish_runs(worker, ends)

    assert list(ODD) == [
        place for place, result in enumerate(finished.results) if result is FinishResult.REFUSED
    ]
    assert len(ODD) == store.status().running
    assert [] == store.check()


def test_an_end_that_is_told_twice_in_one_batch_is_accepted_twice_and_written_once(store):
    """As when the first answer was lost."""
    work.queue(store)
    worker = work.join_worker(store)
    end = finish(work.take_one(store, worker), Succeeded())

    finished = store.finish_runs(worker, [end, end])

    assert (FinishResult.ACCEPTED,) * 2 == finished.results
    assert [] == store.check()
