"""Pruning on SQLite: what it looks at, and what it remembers."""

from __future__ import annotations

import apsw

from duly.store.ports.maintenance import Prune, PruneKind
from duly_conformance import steps
from duly_conformance.kit import HOUR_US, SECOND_US
from duly_conformance.vitals import KEEP, NOTHING_KEPT, maintenance, prune


def test_arrivals_are_walked_by_number_up_to_the_first_that_is_young(store, clock):
    """Numbers grow with time, so nobody looks at the many that are fresh."""
    began = clock.now_us()
    steps.delay(store, began + SECOND_US, "old")
    clock.set(began + HOUR_US)
    steps.delay(store, clock.now_us() + SECOND_US, "young")
    clock.set(began)
    steps.delay(store, began + SECOND_US, "behind it")
    clock.set(began + HOUR_US)

    assert 1 == prune(store, KEEP).counts[PruneKind.ARRIVALS]
    clock.set(began + 2 * HOUR_US)
    assert 2 == prune(store, KEEP).counts[PruneKind.ARRIVALS]


def test_no_more_arrivals_are_removed_at_once_than_allowed(store, clock):
    for place in range(3):
        steps.delay(store, clock.now_us() + SECOND_US, f"run {place}")
    clock.advance(HOUR_US)
    command = Prune(fence=maintenance(store), retention=KEEP, limit=2)

    pruned = [store.prune(command) for _ in range(2)]

    assert [(2, True), (1, False)] == [
        (one.counts[PruneKind.ARRIVALS], one.has_more) for one in pruned
    ]


def test_what_is_remembered_of_pruning_never_lies_ahead(store, path, clock):
    """Not even of a run that a clock made which ran ahead."""
    began = clock.now_us()
    record = steps.fire_due(store, clock, steps.create(store))
    other = apsw.Connection(str(path))
    ended = """INSERT INTO duly_outcomes (run_id, state, finished_at)
    SELECT id, 'succeeded', ? FROM duly_runs"""
    other.execute(ended, (began - 1,))
    other.close()
    clock.set(began)

    assert 1 == prune(store, NOTHING_KEPT).counts[PruneKind.OUTCOMES]
    assert began == steps.look(store, record).pruned_through
