"""Making and changing schedules: the part of the contract that is about their orders."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.literals import Missed, ScheduleStatus, SkipReason
from duly.domain.misfire import Misfire
from duly.domain.planning import decide_delete, decide_pause, decide_restore, decide_resume
from duly.domain.schedules import Owed
from duly.domain.settling import Settlement, Skip, plan_on_time
from duly.domain.timetable.interval import every
from duly.errors import Conflict, DulyError
from duly.store.planning import Stale
from duly.testing.conformance import steps
from duly.testing.factories import (
    ADA,
    HOUR_US,
    change_of,
    definition,
    new_schedule,
    staying,
    template_of,
)
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.planning import Change
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class CreatingSchedules:
    """What `create_schedule` promises."""

    def test_a_new_schedule_is_there_with_its_one_pending_timer(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D1, D2."""
        order = new_schedule(clock.now_us(), owner="bob", declared_by="code:app")

        made = store.create_schedule(order)

        assert made.is_new
        seen = store.get_schedule(order.id)
        assert seen is not None
        assert made.record == seen.record
        assert clock.now_us() == seen.now
        assert ("nightly", "bob", "code:app") == (
            made.record.name,
            made.record.owner,
            made.record.declared_by,
        )
        assert (ScheduleStatus.ACTIVE, 1, 1) == (
            made.record.status,
            made.record.version,
            made.record.definition_number,
        )
        assert order.pending == made.record.pending
        assert order.definition == made.record.definition
        assert [order.id] == [timer.ref for timer in steps.load(store, order.pending.due_at)]

    def test_a_new_schedule_has_no_history(self, store: Store, clock: ManualClock) -> None:
        """C4: nothing has been run, and it was made now, by whoever ordered it."""
        record = steps.create(store)

        assert (None, None, None, 0, None, None) == (
            record.last_for,
            record.last_run,
            record.last_fired_at,
            record.fires,
            record.held_for,
            record.pruned_through,
        )
        assert (clock.now_us(), clock.now_us(), ADA.name) == (
            record.created_at,
            record.updated_at,
            record.updated_by,
        )

    def test_a_definition_comes_back_as_it_was_given(self, store: Store) -> None:
        """T1: intent is stored as it was said."""
        template = definition(
            task="bill", arguments='{"tenant":42}', misfire=Misfire("all"), jitter_us=5_000_000
        )
        record = steps.create(store, definition=template)

        assert template.to_json() == record.definition.to_json()
        assert template == store.get_definition(record.id, 1)
        assert {(record.id, 1): template} == store.read_definitions([(record.id, 1)])

    def test_the_same_request_again_makes_no_second_schedule(self, store: Store) -> None:
        """INV-17: a request whose answer was lost is sent again."""
        order = new_schedule(store.now())
        first = store.create_schedule(order)
        before = snapshot(store)

        again = store.create_schedule(order)

        assert not again.is_new
        assert first.record == again.record
        assert before == snapshot(store)

    def test_a_known_id_is_the_same_request_even_after_an_edit(self, store: Store) -> None:
        """INV-17."""
        order = new_schedule(store.now())
        edited = steps.edit(store, store.create_schedule(order).record, definition(task="other"))

        again = store.create_schedule(order)

        assert (False, edited) == (again.is_new, again.record)

    def test_an_equal_schedule_of_that_name_is_the_same_one(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17: declared again at the next start, under another id."""
        first = steps.create(store)
        clock.advance("10m")
        order = new_schedule(clock.now_us())

        again = store.create_schedule(order)

        assert order.id != first.id
        assert (False, first) == (again.is_new, again.record)
        assert store.get_schedule(order.id) is None

    @pytest.mark.parametrize(
        "difference",
        [{"definition": definition(task="other")}, {"owner": "bob"}, {"declared_by": "code:app"}],
        ids=["definition", "owner", "declaration"],
    )
    def test_a_taken_name_with_something_else_is_a_conflict(
        self, store: Store, clock: ManualClock, difference: dict[str, Any]
    ) -> None:
        """INV-17, L6: nothing is half done."""
        steps.create(store)
        clock.advance(1000)
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.create_schedule(new_schedule(clock.now_us(), **difference))

        assert before == snapshot(store)

    def test_the_name_of_a_deleted_schedule_is_free(self, store: Store, clock: ManualClock) -> None:
        """S3, INV-13: a new schedule of the name has a new id."""
        first = steps.delete(store, steps.create(store))
        clock.advance(1000)

        second = steps.create(store, task="other")

        assert first.id != second.id
        found = store.find_schedule(second.tenant, second.name)
        assert found is not None
        assert second == found.record

    def test_two_tenants_may_use_one_name(self, store: Store) -> None:
        """L2, INV-20."""
        ours = steps.create(store, tenant="ours")
        theirs = steps.create(store, tenant="theirs", task="other")

        assert ours.id != theirs.id
        found = store.find_schedule("theirs", "nightly")
        assert found is not None
        assert theirs == found.record

    def test_creating_is_audited_once(self, store: Store, clock: ManualClock) -> None:
        """A2, INV-19: who, when, what, why, from where, and what there is now."""
        order = new_schedule(clock.now_us())
        store.create_schedule(order)
        store.create_schedule(order)

        (entry,) = steps.audit(store, subject_id=order.id)
        assert ("schedule.created", ADA, clock.now_us()) == (entry.action, entry.actor, entry.at)
        assert (order.tenant, order.name) == (entry.tenant, entry.subject)
        assert entry.before is None
        assert entry.after


class ChangingSchedules:
    """What `change_schedule` promises."""

    def test_a_change_is_written_whole(self, store: Store, clock: ManualClock) -> None:
        """S4: the whole of the new state, the version one higher."""
        record = steps.create(store)
        clock.advance(1000)
        change = decide_pause(record, reason="a rest", until=clock.now_us() + 5, missed=Missed.SKIP)

        changed = steps.apply(store, record, change)

        assert changed == steps.look(store, record)
        expected = replace(
            record,
            status=ScheduleStatus.PAUSED,
            version=2,
            pending=None,
            held_for=record.pending.scheduled_for if record.pending else None,
            reason="a rest",
            resume_at=clock.now_us() + 5,
            resume_missed=Missed.SKIP,
            updated_at=clock.now_us(),
        )
        assert expected == changed

    def test_a_paused_schedule_has_no_timer(self, store: Store) -> None:
        """S3, INV-12."""
        record = steps.create(store)
        steps.pause(store, record)

        assert () == steps.load(store, record.created_at + 100 * HOUR_US)

    def test_resuming_brings_the_timer_back(self, store: Store, clock: ManualClock) -> None:
        """M1: resuming is its own choice."""
        record = steps.create(store)
        paused = steps.pause(store, record)
        clock.advance("150m")

        resumed = steps.apply(
            store, paused, decide_resume(paused, clock.now_us(), Missed.SKIP, None)
        )

        assert resumed.pending is not None
        (timer,) = steps.load(store, resumed.pending.due_at)
        assert (resumed.version, resumed.pending.due_at) == (timer.generation, timer.due_at)
        (skip,) = store.list_skips(record.id, 10)
        assert (2, SkipReason.PAUSED, clock.now_us()) == (skip.count, skip.reason, skip.at)

    def test_a_new_definition_gets_the_new_version_as_its_number(self, store: Store) -> None:
        """S4: what old runs refer to stays readable."""
        record = steps.create(store)
        old = record.definition
        edited = steps.edit(store, record, definition(task="other"))

        assert (2, 2) == (edited.version, edited.definition_number)
        assert old == store.get_definition(record.id, 1)
        assert definition(task="other") == store.get_definition(record.id, 2)
        keys = [(record.id, number) for number in (2, 1, 3)]
        both = {keys[0]: definition(task="other"), keys[1]: old}
        assert both == store.get_definitions(keys)

    def test_a_change_without_definition_keeps_the_one_in_force(self, store: Store) -> None:
        """S4."""
        record = steps.create(store)
        paused = steps.pause(store, record)

        assert (2, 1, record.definition) == (
            paused.version,
            paused.definition_number,
            paused.definition,
        )

    def test_an_edit_replaces_the_one_timer(self, store: Store) -> None:
        """S4, D2: editing touches one template and one timer."""
        record = steps.create(store)
        edited = steps.edit(store, record, definition(timetable=every("7m")))

        (timer,) = steps.load(store, record.created_at + 100 * HOUR_US)
        assert edited.pending is not None
        assert (2, 2, edited.pending.due_at) == (
            timer.generation,
            timer.definition_number,
            timer.due_at,
        )

    def test_a_change_of_an_older_version_is_stale_and_changes_nothing(self, store: Store) -> None:
        """S4, INV-14: concurrent edits don't overwrite each other silently."""
        record = steps.create(store)
        newer = steps.edit(store, record, definition(task="other"))
        before = snapshot(store)

        answer = store.change_schedule(change_of(record, decide_delete(record, None)))

        assert Stale(newer, store.now()) == answer
        assert before == snapshot(store)

    def test_a_change_decided_before_a_fire_is_stale(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: the version is the same, the pending occurrence is not."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)
        before = snapshot(store)

        answer = store.change_schedule(change_of(record, decide_delete(record, None)))

        assert record.version == fired.version
        assert Stale(fired, clock.now_us()) == answer
        assert before == snapshot(store)

    def test_a_change_holds_until_the_instant_before(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-14: `before` itself is too late, a microsecond earlier is not."""
        record = steps.create(store)
        limit = clock.now_us() + HOUR_US
        order = change_of(record, staying(record, before=limit))
        clock.set(limit)
        before = snapshot(store)

        assert Stale(record, limit) == store.change_schedule(order)
        assert before == snapshot(store)
        clock.set(limit - 1)
        assert not isinstance(store.change_schedule(order), Stale)

    def test_a_taken_name_is_a_conflict_and_changes_nothing(self, store: Store) -> None:
        """L6."""
        record = steps.create(store)
        steps.create(store, "weekly")
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.change_schedule(change_of(record, staying(record, name="weekly")))

        assert before == snapshot(store)

    def test_a_renamed_schedule_frees_its_name(self, store: Store) -> None:
        """S4."""
        record = steps.create(store)
        steps.apply(store, record, staying(record, name="weekly"))

        assert store.find_schedule(record.tenant, "nightly") is None
        assert steps.create(store, id=new_schedule(store.now() + 1000).id).name == "nightly"

    def test_a_restored_schedule_needs_its_name_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S3: somebody else has taken it meanwhile."""
        deleted = steps.delete(store, steps.create(store))
        clock.advance(1000)
        steps.create(store, task="other")
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.change_schedule(change_of(deleted, decide_restore(deleted, clock.now_us(), None)))

        assert before == snapshot(store)

    def test_a_change_is_audited_with_before_and_after(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A2, INV-19: one entry, in the same transaction."""
        record = steps.create(store)
        clock.advance(1000)
        steps.pause(store, record)

        entry, created = steps.audit(store, subject_id=record.id)
        assert ("schedule.paused", ADA, clock.now_us()) == (entry.action, entry.actor, entry.at)
        assert entry.number > created.number
        assert entry.before == created.after
        assert entry.after
        assert entry.before != entry.after

    def test_runs_skips_and_what_is_owed_are_written_with_the_change(
        self, store: Store, clock: ManualClock
    ) -> None:
        """M1, INV-14: what an order settles, it settles in the same transaction."""
        record = steps.create(store)
        clock.advance("3h")
        changed = steps.apply(store, record, hour_by_hour(record))

        assert changed.pending is not None
        first, second, third = (record.created_at + hours * HOUR_US for hours in (1, 2, 3))
        verdicts = store.judge(record.id, (first, second, third, changed.pending.scheduled_for))
        assert ["run", "skipped", "owed", "pending"] == [verdict.kind for verdict in verdicts]
        assert (1, first, clock.now_us()) == (
            changed.fires,
            changed.last_for,
            changed.last_fired_at,
        )
        assert 1 == steps.queued(store)

    def test_a_change_leaves_a_run_that_exists_alone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-3."""
        record = steps.create(store)
        fired = steps.fire_due(store, clock, record)
        assert fired.last_run is not None
        run = store.get_run(fired.last_run)
        settlement = steps.on_time_plan(record).settlement
        clock.advance(1000)

        steps.apply(store, fired, staying(fired, settlement=settlement))

        assert run == store.get_run(fired.last_run)
        assert 1 == steps.queued(store)

    def test_a_run_that_is_not_due_is_never_made_by_a_change(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1, INV-1: one microsecond early is early."""
        record = steps.create(store)
        settlement = steps.on_time_plan(record).settlement
        order = change_of(record, staying(record, pending=None, settlement=settlement))
        steps.fall_due(clock, record, late_us=-1)
        before = snapshot(store)

        with suppress(DulyError, AssertionError):
            assert isinstance(store.change_schedule(order), Stale)

        assert before == snapshot(store)


def hour_by_hour(record: ScheduleRecord) -> Change:
    """Return a change by which the first hour is run, the second skipped, the third owed."""
    template = template_of(record)
    first, second, third, fourth = (record.created_at + hours * HOUR_US for hours in (1, 2, 3, 4))
    owed = Owed(
        schedule_id=record.id,
        first_for=third,
        last_for=third,
        definition_number=record.definition_number,
    )
    settlement = Settlement(
        plan_on_time(template, template.pending(first)).settlement.runs,
        (Skip(second, second, 1, SkipReason.SKIPPED),),
        owed,
    )
    return staying(record, pending=template.pending(fourth), settlement=settlement)
