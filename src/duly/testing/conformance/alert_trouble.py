"""Runs that are out of the ordinary: the part of the contract that watchers look at (V3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly.domain.attempts import TaskPolicy
from duly.domain.concluding import Failed
from duly.domain.identity import ordered_run_id
from duly.store.alerting import FindTrouble
from duly.store.execution import Report
from duly.testing import factories
from duly.testing.conformance import steps, work_steps
from duly.testing.factories import MINUTE_US, SECOND_US

if TYPE_CHECKING:
    from duly.store.alerting import Trouble
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

WINDOW_US = 15 * MINUTE_US
STALL_US = 30 * SECOND_US


def find(store: Store, **parts: Any) -> Trouble:
    """Look for trouble."""
    windows = dict.fromkeys(("died_us", "early_us", "made_us"), WINDOW_US)
    return store.find_trouble(FindTrouble(**{**windows, **parts}))


def order(store: Store, due_at: int | None) -> None:
    """Ask for a run under an id that begins with the time, as those that are drawn do."""
    identity = ordered_run_id("once", store.now(), str(due_at).encode())
    new = replace(factories.new_run(due_at), id=identity)
    store.add_runs(factories.add_runs(new))


class FindingTrouble:
    """What is promised about looking for trouble."""

    def test_a_store_where_all_is_well_has_no_trouble(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: runs that go on, wait for their first retry or are over are no trouble."""
        work_steps.make_waiting(store)
        work_steps.queue_and_take(store, "b")

        found = find(store, made_us=0)

        assert ((), (), (), 0, None) == (
            found.stalled,
            found.tried,
            found.dead,
            found.early,
            found.early_run,
        )
        assert clock.now_us() == found.now

    def test_an_attempt_that_does_not_advance_is_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3, R5: by its task's limit, from its last progress on; with whose it is."""
        store.register_policies(
            {"remind": TaskPolicy(stall_us=STALL_US), "other": TaskPolicy(stall_us=None)}
        )
        worker, claimed = work_steps.queue_and_take(store, tenant="acme", queue="mail")
        rival, other = work_steps.queue_and_take(store, "b", task="other")
        store.report(worker, [Report(hold=claimed.hold, started_at=clock.now_us())])
        store.report(rival, [Report(hold=other.hold, started_at=clock.now_us())])
        clock.advance(STALL_US)
        in_time = find(store).stalled
        clock.advance(1)

        (late,) = find(store).stalled

        assert () == in_time
        assert (claimed.record.id, "acme", "remind", "mail", None, worker, 1, STALL_US) == (
            late.id,
            late.tenant,
            late.task,
            late.queue,
            late.schedule,
            late.worker,
            late.attempt,
            late.stall_us,
        )
        assert clock.now_us() - STALL_US - 1 == late.since

    def test_a_run_that_was_tried_several_times_is_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: while it waits and while it is tried again, with how often."""
        begun = clock.now_us()
        run_id = work_steps.make_waiting(store)
        seen = [find(store).tried]
        for _ in range(2):
            work_steps.fire_retries(store, clock)
            worker = work_steps.join(store)
            claimed = work_steps.take_one(store, worker)
            seen.append(find(store).tried)
            failed = Failed("try again", after_us=SECOND_US)
            work_steps.end(store, worker, claimed, failed)
            seen.append(find(store).tried)

        assert [[], [], [2], [3], [3]] == [[one.attempt for one in each] for each in seen]
        assert {(run_id, begun)} == {(one.id, one.since) for each in seen for one in each}

    def test_dead_letters_are_counted_by_task_for_a_while(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: when the first of them died, and the newest of their runs."""
        first_at = clock.now_us()
        dead = [work_steps.make_dead(store, "a", tenant="acme")]
        clock.advance(SECOND_US)
        dead += [work_steps.make_dead(store, name, tenant="acme") for name in "bc"]
        work_steps.make_dead(store, "d", task="other")

        counts = {(one.tenant, one.task): one for one in find(store).dead}

        assert {("acme", "remind"): 3, ("default", "other"): 1} == {
            key: one.died for key, one in counts.items()
        }
        acme = counts["acme", "remind"]
        assert (first_at, max(dead)) == (acme.first_at, acme.last)
        clock.advance(WINDOW_US - SECOND_US)
        assert {2, 1} == {one.died for one in find(store).dead}
        clock.advance(SECOND_US)
        assert () == find(store).dead

    def test_what_people_and_programs_ask_for_is_counted(
        self, store: Store, clock: ManualClock
    ) -> None:
        """V3: schedules, delayed runs and runs at once; not what a schedule makes of itself."""
        record = steps.create(store)
        order(store, clock.now_us() + WINDOW_US)
        order(store, None)
        made = find(store).made
        steps.fire_due(store, clock, record)

        assert 3 == made
        assert 0 == find(store).made

    def test_no_more_is_told_than_was_asked_for(self, store: Store) -> None:
        """P3: the cost has a bound."""
        for name in "abc":
            work_steps.make_dead(store, name, task=name)
            steps.create(store, name)

        assert 2 == len(find(store, limit=2).dead)
        assert 2 == find(store, count_max=2).made
