"""What every store must do about adding, moving and cancelling delayed runs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.audit import instant_text
from duly.domain.enums import Origin, RunState
from duly.domain.ids import identity_text
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Conflict, NotFound, UsageError
from duly.store.ports.schedules import AddRuns
from duly_conformance import steps
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    add_runs,
    cancel,
    move,
    new_run,
    run_id,
    snapshot,
    timer_of_delayed,
)

if TYPE_CHECKING:
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store


class AddingRuns:
    """What `add_runs` promises."""

    def test_a_run_at_once_is_queued(self, store: Store, clock: ManualClock) -> None:
        asked = new_run(None, key="class:42")
        (added,) = store.add_runs(add_runs(asked))

        run = store.get_run(asked.id)
        assert run is not None
        assert (asked.id, clock.now_us(), True) == (added.id, added.due_at, added.is_new)
        assert (RunState.QUEUED, Origin.NOW, "class:42") == (run.state, run.origin, run.key)
        assert (asked.call, asked.id, None) == (run.call, run.root, run.schedule_id)
        assert (clock.now_us(), clock.now_us()) == (run.created_at, run.fired_at)
        assert 1 == steps.queued(store)
        assert store.get_delayed(asked.id) is None

    def test_a_run_about_another_names_it_as_its_root(self, store: Store) -> None:
        """As a check does that somebody asks for; asked again it stays so."""
        first = new_run(None)
        check = new_run(None, "check", origin=Origin.VERIFY, root=first.id)
        store.add_runs(add_runs(first))

        store.add_runs(add_runs(check))
        store.add_runs(add_runs(check))

        run = store.get_run(check.id)
        assert run is not None
        assert (first.id, check.id) == (run.root, run.line)

    def test_a_deleted_schedule_is_not_triggered(self, store: Store) -> None:
        """INV-13: whoever read it a moment before it was deleted."""
        record = steps.create(store, "gone")
        asked = new_run(None, origin=Origin.MANUAL, schedule_id=record.id, definition_number=1)
        steps.delete(store, record)
        before = snapshot(store)

        with pytest.raises(Conflict, match="is deleted; restore it first"):
            store.add_runs(add_runs(asked))
        assert before == snapshot(store)

    def test_a_run_later_is_pending_with_a_timer(self, store: Store, clock: ManualClock) -> None:
        """It is no run before it fires."""
        due_at = clock.now_us() + HOUR_US
        asked = new_run(due_at, key="class:42")
        (added,) = store.add_runs(add_runs(asked))

        pending = store.get_delayed(asked.id)
        assert pending is not None
        assert (asked.id, due_at, True) == (added.id, added.due_at, added.is_new)
        assert (asked.id, "class:42", asked.call, due_at, asked.fingerprint, clock.now_us()) == (
            pending.id,
            pending.key,
            pending.call,
            pending.due_at,
            pending.fingerprint,
            pending.created_at,
        )
        assert pending == store.find_delayed(TENANT_DEFAULT, "class:42")
        assert (timer_of_delayed(pending, store.status().shards),) == steps.load(store, due_at)
        assert store.get_run(asked.id) is None
        assert 0 == steps.queued(store)

    def test_a_delay_counts_from_the_clock_of_the_store(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The caller's clock has no say."""
        (added,) = store.add_runs(add_runs(new_run(None, delay_us=HOUR_US)))

        assert clock.now_us() + HOUR_US == added.due_at
        assert store.get_delayed(added.id) is not None

    def test_a_known_id_is_the_same_request_again(self, store: Store, clock: ManualClock) -> None:
        """INV-17: whether it is pending, or at once."""
        order = add_runs(new_run(clock.now_us() + HOUR_US, key="class:42"), new_run(None, "now"))
        first = store.add_runs(order)
        clock.advance(1000)
        before = snapshot(store)

        again = store.add_runs(order)

        assert [(one.id, one.due_at, False) for one in first] == [
            (one.id, one.due_at, one.is_new) for one in again
        ]
        assert before == snapshot(store)

    def test_a_known_id_is_known_after_it_has_fired(self, store: Store, clock: ManualClock) -> None:
        """INV-17: asking again once it is over makes no second one."""
        due_at = clock.now_us() + HOUR_US
        asked = new_run(due_at, key="class:42")
        store.add_runs(add_runs(asked))
        steps.fire_delayed(store, clock, asked.id)
        before = snapshot(store)

        (again,) = store.add_runs(add_runs(asked))

        assert (asked.id, due_at, False) == (again.id, again.due_at, again.is_new)
        assert before == snapshot(store)

    @pytest.mark.parametrize("state", ["pending", "at once", "fired"])
    @pytest.mark.parametrize("part", ["tenant", "task", "arguments", "queue", "priority"])
    def test_a_known_id_with_another_request_is_a_conflict(
        self, store: Store, clock: ManualClock, state: str, part: str
    ) -> None:
        """INV-17: nobody is told that a promise was made which was not."""
        asked = new_run(None if state == "at once" else clock.now_us() + HOUR_US)
        store.add_runs(add_runs(asked))
        if state == "fired":
            steps.fire_delayed(store, clock, asked.id)
        before = snapshot(store)
        value: Any = 7 if part == "priority" else "other"
        if part == "tenant":
            other = replace(asked, tenant=value)
        else:
            other = replace(asked, call=replace(asked.call, **{part: value}))

        with pytest.raises(Conflict, match="is that of another request"):
            store.add_runs(add_runs(new_run(None, "beside"), other))
        assert before == snapshot(store)

    def test_a_known_id_that_is_pending_for_another_instant_is_a_conflict(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17: the fingerprint tells, unless the request has none."""
        asked = new_run(clock.now_us() + HOUR_US)
        store.add_runs(add_runs(asked))

        (again,) = store.add_runs(add_runs(replace(asked, fingerprint="")))
        with pytest.raises(Conflict, match="is that of another request"):
            store.add_runs(add_runs(replace(asked, fingerprint="other")))
        assert not again.is_new

    def test_a_known_id_without_a_fingerprint_is_compared_by_its_instant(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17: what was asked for under a drawn id is told by what is pending."""
        due_at = clock.now_us() + HOUR_US
        asked = new_run(due_at, fingerprint="")
        store.add_runs(add_runs(asked))

        (again,) = store.add_runs(add_runs(asked))
        with pytest.raises(Conflict, match="is that of another request"):
            store.add_runs(add_runs(replace(asked, due_at=due_at + 1, fingerprint="other")))
        store.move_delayed(move(asked.id, due_at + HOUR_US))
        (moved,) = store.add_runs(add_runs(asked))
        assert ([False, False], due_at + HOUR_US) == ([again.is_new, moved.is_new], moved.due_at)

    def test_runs_that_a_person_orders_are_on_the_audit_trail(
        self, store: Store, clock: ManualClock
    ) -> None:
        """One entry for the whole order, by whichever way it came in."""
        runs = [new_run(clock.now_us() + HOUR_US, f"run {place}") for place in range(12)]
        order = AddRuns(runs=(replace(runs[0], key="class:42"), *runs[1:]), actor=ADA)
        store.add_runs(order)

        (entry,) = steps.audit(store)
        assert ("runs.added", "class:42", runs[0].id, TENANT_DEFAULT, ADA) == (
            entry.action,
            entry.subject,
            entry.subject_id,
            entry.tenant,
            entry.actor,
        )
        expected = {
            "count": 12,
            "ids": [identity_text(run.id) for run in runs[:10]],
            "tasks": ["remind"],
            "first_due_at": instant_text(runs[0].due_at),
        }
        assert (None, expected) == (entry.before, entry.after)

    def test_an_order_without_a_key_is_audited_by_its_id_and_only_once(self, store: Store) -> None:
        """INV-17: asking again changes nothing, so there is nothing to record."""
        asked = new_run(None)
        store.add_runs(AddRuns(runs=(asked,), actor=ADA))
        store.add_runs(AddRuns(runs=(asked,), actor=ADA))

        (entry,) = steps.audit(store)
        assert ("runs.added", identity_text(asked.id)) == (entry.action, entry.subject)

    def test_runs_that_a_program_enqueues_are_their_own_record(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The trail is for orders of people."""
        store.add_runs(add_runs(new_run(None), new_run(clock.now_us() + HOUR_US, "later")))

        assert [] == steps.audit(store)

    def test_a_trigger_of_a_person_is_audited_as_such_alone(self, store: Store) -> None:
        record = steps.create(store)
        asked = new_run(None, origin=Origin.MANUAL, schedule_id=record.id, definition_number=1)
        store.add_runs(AddRuns(runs=(asked,), actor=ADA))

        actions = [entry.action for entry in steps.audit(store)]
        assert ["schedule.triggered", "schedule.created"] == actions

    def test_a_pending_key_with_the_same_request_is_the_same(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17: the same request, under another id."""
        due_at = clock.now_us() + HOUR_US
        first = steps.delay(store, due_at, key="class:42", fingerprint="same")
        before = snapshot(store)

        (again,) = store.add_runs(
            add_runs(new_run(due_at, "another", key="class:42", fingerprint="same"))
        )

        assert (first.id, due_at, False) == (again.id, again.due_at, again.is_new)
        assert before == snapshot(store)

    def test_a_pending_key_with_another_request_is_a_conflict(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-17."""
        due_at = clock.now_us() + HOUR_US
        steps.delay(store, due_at, key="class:42")
        before = snapshot(store)

        with pytest.raises(Conflict, match="class:42"):
            store.add_runs(add_runs(new_run(due_at, "another", key="class:42")))

        assert before == snapshot(store)

    def test_one_tenant_knows_nothing_of_the_keys_of_another(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-20."""
        due_at = clock.now_us() + HOUR_US
        ours = steps.delay(store, due_at, key="class:42")
        theirs = steps.delay(store, due_at, "theirs", key="class:42", tenant="theirs")

        assert ours == store.find_delayed(TENANT_DEFAULT, "class:42")
        assert theirs == store.find_delayed("theirs", "class:42")

    def test_a_key_is_free_once_its_run_has_fired(self, store: Store, clock: ManualClock) -> None:
        """A key is unique while it is pending."""
        first = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        steps.fire_delayed(store, clock, first.id)

        second = steps.delay(store, clock.now_us() + HOUR_US, "another", key="class:42")

        assert second == store.find_delayed(TENANT_DEFAULT, "class:42")

    def test_replacing_ends_the_old_one_on_record(self, store: Store, clock: ManualClock) -> None:
        """The old one is closed as replaced, and only the new one has a timer."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        clock.advance(1000)
        new = steps.delay(
            store, clock.now_us() + 2 * HOUR_US, "another", key="class:42", replaces=True
        )

        assert store.get_delayed(old.id) is None
        closed = store.get_run(old.id)
        assert closed is not None
        assert (RunState.REPLACED, clock.now_us(), None) == (
            closed.state,
            closed.finished_at,
            closed.fired_at,
        )
        assert new == store.find_delayed(TENANT_DEFAULT, "class:42")
        assert [new.id] == [timer.ref for timer in steps.load(store, new.due_at)]
        assert 0 == steps.queued(store)

    def test_replacing_is_audited(self, store: Store, clock: ManualClock) -> None:
        """INV-19."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        steps.delay(store, clock.now_us() + 2 * HOUR_US, "new", key="class:42", replaces=True)

        (entry,) = steps.audit(store, subject_id=old.id)
        assert ("delayed.replaced", "class:42", ADA.name) == (
            entry.action,
            entry.subject,
            entry.actor.name,
        )

    def test_an_instant_in_the_past_is_refused(self, store: Store, clock: ManualClock) -> None:
        """By the store's clock, a microsecond is enough."""
        before = snapshot(store)

        with pytest.raises(UsageError):
            store.add_runs(add_runs(new_run(clock.now_us() - 1)))

        assert before == snapshot(store)

    def test_an_instant_in_the_past_may_mean_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """It says when it was asked for, and when it became visible."""
        due_at = clock.now_us() - HOUR_US
        asked = new_run(due_at, is_late_ok=True)
        (added,) = store.add_runs(add_runs(asked))

        run = store.get_run(asked.id)
        assert run is not None
        assert (asked.id, due_at, True) == (added.id, added.due_at, added.is_new)
        assert (due_at, clock.now_us()) == (run.scheduled_for, run.fired_at)
        assert 1 == steps.queued(store)

    def test_runs_are_made_all_or_none(self, store: Store, clock: ManualClock) -> None:
        """The last one is refused, so the first is not there."""
        good, late, bad = (
            new_run(None, "good"),
            new_run(clock.now_us() + HOUR_US, "late"),
            new_run(clock.now_us() - 1, "bad"),
        )
        before = snapshot(store)

        with pytest.raises(UsageError):
            store.add_runs(add_runs(good, late, bad))

        assert before == snapshot(store)

    def test_answers_come_in_the_order_of_the_request(
        self, store: Store, clock: ManualClock
    ) -> None:
        asked = [new_run(clock.now_us() + number, f"{number}") for number in (5, 3, 9, 1)]

        added = store.add_runs(add_runs(*asked))

        assert [(one.id, one.due_at) for one in asked] == [(one.id, one.due_at) for one in added]


class MovingAndCancelling:
    """What `move_delayed` and `cancel_delayed` promise."""

    @pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
    def test_moving_gives_a_new_due_under_the_next_generation(
        self, store: Store, clock: ManualClock, *, by_key: bool
    ) -> None:
        """The old timer is gone."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        due_at = clock.now_us() + 3 * HOUR_US

        moved = store.move_delayed(move("class:42" if by_key else old.id, due_at))

        assert (old.id, due_at, True) == (
            moved.id,
            moved.due_at,
            moved.generation > old.generation,
        )
        assert moved == store.get_delayed(old.id)
        assert moved == store.find_delayed(TENANT_DEFAULT, "class:42")
        assert (timer_of_delayed(moved, store.status().shards),) == steps.load(store, due_at)

    def test_a_move_can_be_a_delay_from_now(self, store: Store, clock: ManualClock) -> None:
        steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        clock.advance("10m")

        moved = store.move_delayed(move("class:42", None, delay_us=2 * HOUR_US))

        assert clock.now_us() + 2 * HOUR_US == moved.due_at

    def test_moving_into_the_past_is_refused_unless_it_means_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        before = snapshot(store)

        with pytest.raises(UsageError):
            store.move_delayed(move("class:42", clock.now_us() - 1))

        assert before == snapshot(store)
        moved = store.move_delayed(move("class:42", clock.now_us() - 1, is_late_ok=True))
        assert moved.due_at <= clock.now_us()

    def test_moving_is_audited(self, store: Store, clock: ManualClock) -> None:
        """INV-19."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        store.move_delayed(move("class:42", clock.now_us() + 2 * HOUR_US))

        (entry,) = steps.audit(store, action="delayed.moved")
        assert ("class:42", old.id, ADA) == (entry.subject, entry.subject_id, entry.actor)
        assert entry.before
        assert entry.after
        assert entry.before != entry.after

    @pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
    def test_cancelling_closes_the_run_on_record(
        self, store: Store, clock: ManualClock, *, by_key: bool
    ) -> None:
        """It has an outcome, no timer, and never fired."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        clock.advance(1000)

        run = store.cancel_delayed(cancel("class:42" if by_key else old.id))

        assert run == store.get_run(old.id)
        assert (RunState.CANCELLED, ADA.reason, clock.now_us(), None) == (
            run.state,
            run.state_reason,
            run.finished_at,
            run.fired_at,
        )
        assert (old.due_at, old.created_at, Origin.DELAY) == (
            run.scheduled_for,
            run.created_at,
            run.origin,
        )
        assert store.get_delayed(old.id) is None
        assert store.find_delayed(TENANT_DEFAULT, "class:42") is None
        assert () == steps.load(store, old.due_at)

    def test_cancelling_is_audited_once(self, store: Store, clock: ManualClock) -> None:
        """INV-19."""
        old = steps.delay(store, clock.now_us() + HOUR_US)
        store.cancel_delayed(cancel(old.id))

        (entry,) = steps.audit(store, subject_id=old.id)
        assert ("delayed.cancelled", identity_text(old.id), ADA) == (
            entry.action,
            entry.subject,
            entry.actor,
        )

    @pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
    def test_cancelling_again_returns_what_is_cancelled(
        self, store: Store, clock: ManualClock, *, by_key: bool
    ) -> None:
        """INV-17."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        order = cancel("class:42" if by_key else old.id)
        first = store.cancel_delayed(order)
        clock.advance(1000)
        before = snapshot(store)

        assert first == store.cancel_delayed(order)
        assert before == snapshot(store)

    def test_what_was_never_there_is_not_found(self, store: Store, clock: ManualClock) -> None:
        nobody = run_id("nobody")
        for target in ("nobody", nobody):
            with pytest.raises(NotFound):
                store.move_delayed(move(target, clock.now_us() + 1))
            with pytest.raises(NotFound):
                store.cancel_delayed(cancel(target))

    def test_what_belongs_to_another_tenant_is_not_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-20: neither by its key nor by its id."""
        theirs = steps.delay(store, clock.now_us() + HOUR_US, key="class:42", tenant="theirs")
        before = snapshot(store, ("theirs",))

        for target in ("class:42", theirs.id):
            with pytest.raises(NotFound):
                store.move_delayed(move(target, clock.now_us() + 1))
            with pytest.raises(NotFound):
                store.cancel_delayed(cancel(target))
        assert before == snapshot(store, ("theirs",))

    @pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
    def test_what_has_fired_can_be_neither_moved_nor_cancelled(
        self, store: Store, clock: ManualClock, *, by_key: bool
    ) -> None:
        """INV-6: the order came too late, and is told so."""
        old = steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        steps.fire_delayed(store, clock, old.id)
        target = "class:42" if by_key else old.id
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.move_delayed(move(target, clock.now_us() + HOUR_US))
        with pytest.raises(Conflict):
            store.cancel_delayed(cancel(target))

        assert before == snapshot(store)


class AddingMany:
    """What `add_runs` promises of runs that are alike."""

    @pytest.mark.parametrize("delay_us", [HOUR_US, 1])
    @pytest.mark.parametrize("is_told_by", ["instant", "delay"])
    def test_many_that_are_alike_are_made_together(
        self, store: Store, clock: ManualClock, delay_us: int, is_told_by: str
    ) -> None:
        """Each with its own arguments, announced if near, and the same if asked again."""
        due_at = clock.now_us() + delay_us
        when: dict[str, Any] = {"due_at": due_at, "delay_us": None, "is_drawn": True}
        if is_told_by == "delay":
            when |= {"due_at": None, "delay_us": delay_us}
        asked = [
            replace(one, call=replace(one.call, arguments=f'{{"class":{number}}}'), **when)
            for number in range(300)
            for one in (new_run(due_at, f"class {number}", fingerprint=""),)
        ]
        start = store.start_of_arrivals()
        added = store.add_runs(add_runs(*asked))
        again = store.add_runs(add_runs(*asked))

        assert [(one.id, due_at, True) for one in asked] == added
        assert [(one.id, due_at, False) for one in asked] == again
        pending = [store.get_delayed(one.id) for one in asked]
        assert [one.call for one in asked] == [one.call for one in pending if one is not None]
        assert 300 == store.status().delayed
        heard = store.read_arrivals(start, range(store.status().shards))
        assert (300 if delay_us == 1 else 0) == len(heard.timers)

    def test_of_many_that_are_alike_none_is_made_in_the_past(
        self, store: Store, clock: ManualClock
    ) -> None:
        """All or none."""
        past = clock.now_us() - 1
        asked = [new_run(past, f"{n}", is_drawn=True, fingerprint="") for n in range(3)]
        before = snapshot(store)

        with pytest.raises(UsageError, match="is in the past"):
            store.add_runs(add_runs(*asked))
        assert before == snapshot(store)
        late = store.add_runs(add_runs(*(replace(one, is_late_ok=True) for one in asked)))
        assert [True] * 3 == [one.is_new for one in late]
        assert 3 == steps.queued(store)
