"""Tenancy: the part of the contract about what one tenant may know and touch of another's."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Missed, Origin, ScheduleStatus
from duly.domain.planning import decide_pause
from duly.errors import Conflict, NotFound
from duly.store.effects import Rerun
from duly.store.planning import Stale
from duly.store.reading import OpenCounts, OwnQueue, TenantCounts
from duly.testing.conformance import access, alerts, steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.effects import in_doubt
from duly.testing.factories import ADA, HOUR_US, add_runs, change_of, new_run, new_schedule, staying
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

OURS = "ours"
THEIRS = "theirs"
BOTH = (OURS, THEIRS)
NOTHING = TenantCounts(
    schedules={},
    delayed=0,
    owed=0,
    overdue=0,
    oldest_due_at=None,
    next_due_at=None,
    retrying=0,
    dead=0,
    ambiguous=0,
    queues={},
    held={},
)


class Tenancy:
    """What every order and every count promises about tenants; each order has tests of its own."""

    def test_another_tenants_schedule_is_changed_as_little_as_one_that_is_not_there(
        self, store: Store
    ) -> None:
        """L2, INV-20: decided where it is written, and not only where it was looked up."""
        record = steps.create(store, tenant=THEIRS)
        change = decide_pause(record, reason=None, until=None, missed=Missed.SKIP)
        order = replace(change_of(record, change), tenant=OURS)
        before = snapshot(store, BOTH)

        with pytest.raises(NotFound, match="schedule"):
            store.change_schedule(order)

        assert before == snapshot(store, BOTH)

    def test_who_names_a_tenant_finds_that_tenants_things_and_no_others(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L2: whatever is looked up by its id; what is another's is not read at all."""
        schedule = steps.create(store, tenant=THEIRS)
        delayed = steps.delay(store, clock.now_us() + HOUR_US, tenant=THEIRS)
        run = work.queue(store, "a", tenant=THEIRS)
        token = access.add(store, tenant=THEIRS)
        alerts.look(store, alerts.watch(store), alerts.condition(tenant=THEIRS))
        (alert,) = alerts.listed(store)

        def found(tenant: str | None) -> list[bool]:
            looks = (
                store.get_schedule(schedule.id, tenant),
                store.get_delayed(delayed.id, tenant),
                store.get_run(run, tenant),
                store.find_token(token.prefix, tenant),
                store.get_alert(alert.id, tenant),
            )
            return [one is not None for one in looks]

        assert ([True] * 5, [True] * 5, [False] * 5) == (found(None), found(THEIRS), found(OURS))

    @pytest.mark.parametrize("tenant", [THEIRS, None])
    def test_its_own_tenant_and_the_system_change_it(
        self, store: Store, tenant: str | None
    ) -> None:
        """L2: the system's own orders are about any."""
        record = steps.create(store, tenant=THEIRS)
        changed = store.change_schedule(
            replace(change_of(record, staying(record, name="another")), tenant=tenant)
        )

        assert not isinstance(changed, Stale)
        assert ("another", THEIRS) == (changed.name, changed.tenant)

    def test_nobody_runs_another_tenants_schedule(self, store: Store) -> None:
        """L2, O3: its arguments would be another's, and so would its gate."""
        record = steps.create(store, tenant=THEIRS)
        new = new_run(
            None,
            tenant=OURS,
            origin=Origin.MANUAL,
            schedule_id=record.id,
            definition_number=1,
        )
        before = snapshot(store, BOTH)

        with pytest.raises(NotFound, match="schedule"):
            store.add_runs(add_runs(new))

        assert before == snapshot(store, BOTH)

    def test_an_id_that_another_tenant_has_used_is_taken_and_no_more_is_told(
        self, store: Store
    ) -> None:
        """L2: neither what it was used for, nor what has become of that."""
        record = steps.create(store, tenant=THEIRS)
        order = new_schedule(store.now(), "mine", id=record.id, tenant=OURS)
        before = snapshot(store, BOTH)

        taken = "is that of another request; give every request an id of its own"
        with pytest.raises(Conflict, match=taken):
            store.create_schedule(order)

        assert before == snapshot(store, BOTH)

    def test_another_tenants_run_is_not_taken_for_one_that_repeats_ours(self, store: Store) -> None:
        """L2, A1: nothing of it is told."""
        dead = work.make_dead(store, "dead", tenant=OURS)
        theirs = work.queue(store, "theirs", tenant=THEIRS)
        before = snapshot(store, BOTH)

        with pytest.raises(Conflict, match="is that of another request"):
            store.rerun_run(Rerun(tenant=OURS, id=dead, new_id=theirs, actor=ADA))

        assert before == snapshot(store, BOTH)

    def test_what_is_a_tenants_is_counted_and_nothing_else(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L2, INV-20."""
        record = steps.create(store, tenant=THEIRS)
        steps.pause(store, steps.create(store, "paused", tenant=THEIRS))
        pending = steps.delay(store, clock.now_us() + 2 * HOUR_US, tenant=THEIRS)
        dead = work.make_dead(store, "dead", tenant=THEIRS)
        worker, _ = work.queue_and_take(store, "running", tenant=THEIRS, queue="mail")
        work.queue(store, "queued", tenant=THEIRS, queue="mail")
        assert record.pending is not None

        counts = store.count_tenant(THEIRS)

        assert dead
        assert counts == replace(
            NOTHING,
            schedules={ScheduleStatus.ACTIVE: 1, ScheduleStatus.PAUSED: 1},
            delayed=1,
            next_due_at=min(record.pending.due_at, pending.due_at),
            dead=1,
            queues={"mail": OwnQueue(1, clock.now_us(), 1)},
            held={worker: 1},
        )
        assert NOTHING == store.count_tenant(OURS)
        clock.set(pending.due_at)
        counts = store.count_tenant(THEIRS)
        overdue = record.pending.due_at, pending.due_at
        assert (2, min(overdue), None) == (
            counts.overdue,
            counts.oldest_due_at,
            counts.next_due_at,
        )

    def test_retries_and_debts_are_counted_for_whom_they_are(self, store: Store) -> None:
        """L2: those of the tenant that most stores have only."""
        work.make_waiting(store)

        assert (1, 0) == (store.count_tenant("default").retrying, store.count_tenant(OURS).retrying)

    def test_one_tenant_counts_alone_as_it_does_beside_others(self, store: Store) -> None:
        """L2, V4: what is quicker in a store of one tenant says the same."""
        work.make_waiting(store)
        work.make_dead(store, "dead")
        in_doubt(store, "doubt")
        work.queue_and_take(store, "running", queue="mail")
        work.queue(store, "queued", queue="mail")
        alone, open_runs = store.count_tenant("default"), store.count_tenants()["default"]
        work.queue(store, "theirs", tenant=THEIRS, queue="mail")

        assert (1, 1, 1) == (alone.retrying, alone.dead, alone.ambiguous)
        assert (1, 1) == (alone.queues["mail"].queued, alone.queues["mail"].running)
        assert alone == store.count_tenant("default")
        assert open_runs == store.count_tenants()["default"]

    def test_open_runs_are_counted_by_tenant_for_whoever_sees_all(self, store: Store) -> None:
        """V4: what waits for somebody is found, whosever it is."""
        assert {} == store.count_tenants()
        work.make_waiting(store)
        in_doubt(store, "doubt")
        work.make_dead(store, "dead", tenant=THEIRS)
        work.queue_and_take(store, "running", tenant=THEIRS, queue="mail")
        work.queue(store, "queued", tenant=OURS, queue="mail")

        assert {
            "default": OpenCounts(retrying=1, ambiguous=1),
            OURS: OpenCounts(queued=1),
            THEIRS: OpenCounts(running=1, dead=1),
        } == store.count_tenants()
