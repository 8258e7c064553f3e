"""Backfills: the part of the contract about history that is made on purpose."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.backfill import (
    FILLED,
    BackfillMode,
    BackfillOccurrenceKind,
    BackfillOrder,
    BackfillSpan,
    BackfillStatus,
    first_of,
    next_step,
    slots_of,
)
from duly.domain.enums import Lane, Origin, Overlap, RunState
from duly.domain.ids import backfill_id, occurrence_run_id
from duly.domain.outcomes import Succeeded
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Conflict, NotFound
from duly.store.ports.backfill import ChangeBackfill, CreateBackfill, StepBackfill
from duly.store.ports.dispatch import FireResult
from duly.store.ports.execution import FinishResult
from duly.store.ports.maintenance import Prune
from duly.store.ports.queries import RunFilter
from duly_conformance import steps
from duly_conformance import steps as work
from duly_conformance.kit import ADA, HOUR_US, drawn, template_of
from duly_conformance.vitals import KEEP

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.backfill import BackfillRecord, Stepped
    from duly.store.ports.dispatch import Fence

SLOTS = 5
EVERYTHING = frozenset(BackfillOccurrenceKind) - {BackfillOccurrenceKind.IN_FLIGHT}


class Backfilling:
    """What steps promise about the occurrences of a backfill."""

    def test_holes_are_filled_with_the_one_run_that_each_can_have(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-3: on the lane of backfills, and in order."""
        record = past(store, clock)
        backfill = begun(store, record)

        stepped = step(store, backfill)

        assert (FireResult.FIRED, SLOTS) == (stepped.result, stepped.made)
        runs = runs_of(store, record)
        expected = [occurrence_run_id(record.id, one) for one in instants(record)]
        assert expected == [run.id for run in runs]
        assert {(Origin.BACKFILL, Lane.BACKFILL, RunState.QUEUED)} == {
            (run.origin, run.lane, run.state) for run in runs
        }
        assert {run.id: run.root for run in runs} == {run.id: run.id for run in runs}
        after = seen(store, backfill)
        assert (BackfillStatus.DONE, None, SLOTS, SLOTS, SLOTS) == (
            after.status,
            after.cursor,
            after.looked_at,
            after.made,
            after.open,
        )
        assert [] == store.check()

    def test_a_step_goes_on_where_the_last_one_ended(
        self, store: Store, clock: ManualClock
    ) -> None:
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)

        made = [step(store, backfill, fence=fence, count=2).made for _ in range(3)]

        assert [2, 2, 1] == made
        assert BackfillStatus.DONE == seen(store, backfill).status
        assert SLOTS == len(store.list_slots(backfill.id, None, 100))

    def test_the_newest_may_come_first(self, store: Store, clock: ManualClock) -> None:
        record = past(store, clock)
        backfill = begun(store, record, order=BackfillOrder.NEWEST)

        step(store, backfill, count=2)

        made = [run.scheduled_for for run in runs_of(store, record)]
        assert instants(record)[-2:] == made

    def test_the_same_step_twice_is_one(self, store: Store, clock: ManualClock) -> None:
        """INV-17: the second finds the cursor elsewhere, whoever sends it."""
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)

        assert FireResult.FIRED == step(store, backfill, fence=fence, count=2).result
        again = step_from(store, backfill, fence, count=2)

        assert (FireResult.GONE, 0) == (again.result, again.made)
        assert 2 == len(runs_of(store, record))

    def test_a_stale_owner_makes_nothing(self, store: Store, clock: ManualClock) -> None:
        """INV-5."""
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)
        store.leave(fence.member)
        steps.own(store)

        assert FireResult.FENCED == step(store, backfill, fence=fence).result
        assert [] == runs_of(store, record)

    def test_what_has_succeeded_or_is_open_is_passed_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-3: no duplicates of runs that exist, looked at when their turn has come."""
        record = past(store, clock)
        first = begun(store, record)
        fence = steps.own(store)
        step(store, first, fence=fence, count=2)
        finish_one(store)

        second = begun(store, record, name="second")
        stepped = step(store, second, fence=fence, count=3)

        kinds = [slot.kind for slot in store.list_slots(second.id, None, 100)]
        assert [
            BackfillOccurrenceKind.SUCCEEDED,
            BackfillOccurrenceKind.IN_FLIGHT,
            BackfillOccurrenceKind.MISSING,
        ] == kinds
        assert (1, 3) == (stepped.made, seen(store, second).looked_at)

    def test_what_failed_gets_another_run_that_names_the_first(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The lineage is kept, and the first run is what it was."""
        record = past(store, clock)
        fence = steps.own(store)
        step(store, begun(store, record), fence=fence, count=1)
        (failed,) = runs_of(store, record)
        kill_one(store)

        second = begun(store, record, name="second")
        step(store, second, fence=fence, count=1)

        again = [run for run in runs_of(store, record) if run.id != failed.id]
        assert [failed.id] == [run.root for run in again]
        assert [failed.scheduled_for] == [run.scheduled_for for run in again]
        assert RunState.DEAD == work.get_run(store, failed.id).state
        third = begun(store, record, name="third")
        finish_one(store)
        step(store, third, fence=fence, count=1)
        (slot,) = store.list_slots(third.id, None, 100)
        assert BackfillOccurrenceKind.SUCCEEDED == slot.kind

    @pytest.mark.parametrize("mode", BackfillMode)
    def test_what_has_succeeded_is_made_again_only_on_purpose(
        self, store: Store, clock: ManualClock, mode: BackfillMode
    ) -> None:
        """Redo, with its class chosen."""
        record = past(store, clock)
        fence = steps.own(store)
        step(store, begun(store, record), fence=fence, count=1)
        finish_one(store)

        again = begun(store, record, name="again", mode=mode, classes=EVERYTHING)
        stepped = step(store, again, fence=fence, count=1)

        assert (mode is BackfillMode.REDO) == stepped.made

    def test_a_class_that_was_not_chosen_is_passed_over(
        self, store: Store, clock: ManualClock
    ) -> None:
        record = past(store, clock)
        backfill = begun(store, record, classes=frozenset((BackfillOccurrenceKind.FAILED,)))

        assert 0 == step(store, backfill).made
        assert (BackfillStatus.DONE, SLOTS) == (
            seen(store, backfill).status,
            seen(store, backfill).looked_at,
        )

    def test_no_more_are_open_than_may_be(self, store: Store, clock: ManualClock) -> None:
        """Its concurrency; the next come when some are over."""
        record = past(store, clock)
        backfill = begun(store, record, concurrency=2)
        fence = steps.own(store)

        assert 2 == step(store, backfill, fence=fence).made
        assert FireResult.BUSY == step(store, backfill, fence=fence).result
        finish_one(store)
        assert 1 == step(store, backfill, fence=fence).made
        assert 2 == seen(store, backfill).open

    def test_no_more_are_made_than_the_rate_allows(self, store: Store, clock: ManualClock) -> None:
        """Whoever steps says how many that are."""
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)

        assert 1 == step(store, backfill, fence=fence, runs_max=1).made
        assert instants(record)[1] == seen(store, backfill).cursor

    def test_it_goes_on_while_its_schedule_is_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        record = past(store, clock)
        steps.pause(store, steps.look(store, record))

        assert SLOTS == step(store, begun(store, record)).made

    def test_it_is_called_off_when_its_schedule_is_deleted(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-13: a deleted schedule makes no runs."""
        record = past(store, clock)
        backfill = begun(store, record)
        steps.delete(store, steps.look(store, record))

        assert FireResult.GONE == step(store, backfill).result
        assert BackfillStatus.CANCELLED == seen(store, backfill).status
        assert [] == runs_of(store, record)
        with pytest.raises(Conflict, match="deleted"):
            begun(store, record, name="another")

    @pytest.mark.parametrize("policy", [one for one in Overlap if one is not Overlap.SERIALIZE])
    def test_it_is_in_nobodys_way(self, store: Store, clock: ManualClock, policy: Overlap) -> None:
        """What the timetable brings does not wait for it, and is not skipped because of it."""
        record = past(store, clock, overlap=policy)
        step(store, begun(store, record))

        record = steps.fire_due(store, clock, steps.look(store, record))

        assert (1, 0) == (record.fires, record.overlaps)

    def test_it_waits_for_a_business_key(self, store: Store, clock: ManualClock) -> None:
        """Serialize means it, whoever asks."""
        record = past(store, clock, overlap=Overlap.SERIALIZE, serialize_by="account:7")
        step(store, begun(store, record), count=2)

        assert ["queued", "blocked"] == [str(run.state) for run in runs_of(store, record)]

    def test_live_runs_go_first(self, store: Store, clock: ManualClock) -> None:
        record = past(store, clock)
        step(store, begun(store, record), count=1)
        live = work.queue(store, "live")

        assert live == work.take_ids(store, work.join_worker(store))[0]


class BackfillOrders:
    """What orders about backfills promise."""

    def test_the_same_backfill_again_is_the_same_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17."""
        record = past(store, clock)
        first = begun(store, record)
        step(store, first, count=1)

        assert seen(store, first) == begun(store, record)
        assert [seen(store, first)] == store.list_backfills(TENANT_DEFAULT, None, 10)

    def test_the_same_id_for_another_schedule_is_refused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17: nobody is shown what somebody else has ordered under it."""
        record = past(store, clock)
        first = begun(store, record)

        with pytest.raises(Conflict, match="is that of another request"):
            begun(store, record, tenant="another")
        assert [first] == store.list_backfills(TENANT_DEFAULT, None, 10)

    def test_it_can_be_paused_throttled_and_resumed(self, store: Store, clock: ManualClock) -> None:
        """Each order on record, with who and why."""
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)

        paused = order(store, backfill, status=BackfillStatus.PAUSED)
        assert FireResult.GONE == step(store, backfill, fence=fence).result
        assert [] == store.load_backfills(10)
        slower = order(store, paused, per_minute=1, concurrency=1)
        resumed = order(store, slower, status=BackfillStatus.ACTIVE)
        assert [resumed] == store.load_backfills(10)
        assert 1 == step(store, backfill, fence=fence).made

        told = [entry.action for entry in steps.audit(store, subject_id=backfill.id)]
        assert ["resumed", "throttled", "paused", "created"] == [
            action.removeprefix("backfill.") for action in told
        ]

    def test_it_can_be_called_off_and_its_runs_stay(self, store: Store, clock: ManualClock) -> None:
        record = past(store, clock)
        backfill = begun(store, record)
        fence = steps.own(store)
        step(store, backfill, fence=fence, count=2)

        order(store, seen(store, backfill), status=BackfillStatus.CANCELLED)

        assert FireResult.GONE == step(store, backfill, fence=fence).result
        assert 2 == len(runs_of(store, record))
        with pytest.raises(Conflict, match="cancelled"):
            order(store, seen(store, backfill), status=BackfillStatus.ACTIVE)

    def test_it_is_forgotten_with_its_schedule(self, store: Store, clock: ManualClock) -> None:
        """What was done about occurrences, too; not before the schedule is."""
        record = past(store, clock)
        backfill = begun(store, record, classes=frozenset((BackfillOccurrenceKind.FAILED,)))
        fence = steps.own(store, ttl_us=10 * HOUR_US)
        step(store, backfill, fence=fence)
        steps.delete(store, steps.look(store, record))
        retention = replace(KEEP, deleted_schedules_us=HOUR_US)

        store.prune(Prune(fence=fence, retention=retention, limit=10))
        assert SLOTS == len(store.list_slots(backfill.id, None, 100))
        clock.advance(HOUR_US + 1)
        store.prune(Prune(fence=fence, retention=retention, limit=10))

        assert store.get_backfill(TENANT_DEFAULT, backfill.id) is None
        assert [] == store.list_slots(backfill.id, None, 100)

    def test_who_was_slower_is_refused(self, store: Store, clock: ManualClock) -> None:
        backfill = begun(store, past(store, clock))
        order(store, backfill, per_minute=5)

        with pytest.raises(Conflict, match="version"):
            order(store, backfill, per_minute=7)

    def test_another_tenant_has_no_part_in_it(self, store: Store, clock: ManualClock) -> None:
        """INV-20."""
        record = past(store, clock)
        backfill = begun(store, record)

        assert store.get_backfill("another", backfill.id) is None
        assert [] == store.list_backfills("another", None, 10)
        with pytest.raises(NotFound):
            order(store, backfill, tenant="another", per_minute=5)
        with pytest.raises(NotFound):
            begun(store, record, name="stolen", tenant="another")

    def test_occurrences_are_told_by_what_is_known_of_them(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The plan, before anything is made."""
        record = past(store, clock)
        step(store, begun(store, record), count=3)
        finish_one(store)
        kill_one(store)

        found = store.classify_slots(record.id, instants(record))

        kinds = [
            BackfillOccurrenceKind.SUCCEEDED,
            BackfillOccurrenceKind.FAILED,
            BackfillOccurrenceKind.IN_FLIGHT,
        ]
        assert [*kinds, BackfillOccurrenceKind.MISSING, BackfillOccurrenceKind.MISSING] == [
            slot.kind for slot in found
        ]
        assert instants(record) == [slot.scheduled_for for slot in found]


def past(store: Store, clock: ManualClock, **parts: Any) -> ScheduleRecord:
    """Make an hourly schedule that has existed for a while without anybody to fire it."""
    clock.advance(100 * HOUR_US)
    return steps.create(store, **parts)


def instants(record: ScheduleRecord) -> list[int]:
    """Return the occurrences that backfills of these tests are about."""
    until = record.created_at
    return slots_of(template_of(record), until - SLOTS * HOUR_US, until)


def begun(
    store: Store, record: ScheduleRecord, name: str = "first", **parts: Any
) -> BackfillRecord:
    """Write a backfill down, of five occurrences before the schedule was made."""
    span = instants(record)
    given: dict[str, Any] = {
        "id": backfill_id(record.created_at, drawn(name)),
        "tenant": record.tenant,
        "schedule_id": record.id,
        "definition_number": record.definition_number,
        "since": span[0],
        "until": span[-1] + 1,
        "mode": BackfillMode.FILL,
        "order": BackfillOrder.OLDEST,
        "classes": FILLED,
        "per_minute": 600,
        "concurrency": 100,
        "total": len(span),
        "actor": ADA,
    } | parts
    first = first_of(template_of(record), given["since"], given["until"], given["order"])
    assert first is not None
    return store.create_backfill(CreateBackfill(cursor=first, **given))


def step(  # noqa: PLR0913 - what a step depends on
    store: Store,
    backfill: BackfillRecord,
    *,
    fence: Fence | None = None,
    count: int = 100,
    runs_max: int = 100,
) -> Stepped:
    """Do the next part of a backfill, as whoever owns everything."""
    now_at = seen(store, backfill)
    return step_from(store, now_at, fence or steps.own(store), count=count, runs_max=runs_max)


def step_from(  # noqa: PLR0913 - as above
    store: Store, backfill: BackfillRecord, fence: Fence, *, count: int, runs_max: int = 100
) -> Stepped:
    """Do the part that comes next after what was seen."""
    found = store.get_schedule(backfill.schedule_id)
    assert found is not None
    assert backfill.cursor is not None
    span = BackfillSpan(backfill.since, backfill.until, backfill.order, backfill.cursor)
    planned = next_step(template_of(found.record), span, backfill.id, count)
    return store.step_backfill(
        StepBackfill(
            fence=fence,
            id=backfill.id,
            expected_cursor=backfill.cursor,
            slots=planned.slots,
            cursor=planned.cursor,
            runs_max=runs_max,
        )
    )


def seen(store: Store, backfill: BackfillRecord) -> BackfillRecord:
    """Return a backfill as it is now."""
    found = store.get_backfill(backfill.tenant, backfill.id)
    assert found is not None
    return found


def order(store: Store, backfill: BackfillRecord, **parts: Any) -> BackfillRecord:
    """Give an order about a backfill as it was seen."""
    command = ChangeBackfill(
        tenant=backfill.tenant,
        id=backfill.id,
        expected_version=backfill.version,
        status=backfill.status,
        per_minute=backfill.per_minute,
        concurrency=backfill.concurrency,
        actor=ADA,
    )
    return store.change_backfill(replace(command, **parts))


def runs_of(store: Store, record: ScheduleRecord) -> list[RunRecord]:
    """Return a schedule's runs, oldest first."""
    command = RunFilter(tenant=record.tenant, schedule_id=record.id, limit=100)
    return sorted(store.list_runs(command), key=lambda run: (run.scheduled_for, run.created_at))


def finish_one(store: Store) -> None:
    """End the first run of the queue well."""
    worker = work.join_worker(store)
    (claimed,) = work.take(store, worker, limit=1)
    assert FinishResult.ACCEPTED == work.end(store, worker, claimed, Succeeded())
    store.leave(worker)


def kill_one(store: Store) -> None:
    """End the first run of the queue badly, for good."""
    worker = work.join_worker(store)
    (claimed,) = work.take(store, worker, limit=1)
    assert FinishResult.ACCEPTED == work.end(store, worker, claimed, work.FATAL)
    store.leave(worker)
