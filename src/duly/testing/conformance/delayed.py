"""Delayed runs: the part of the contract about moving and cancelling them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.identity import identity_text
from duly.domain.literals import Origin, RunState
from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import Conflict, NotFound, UsageError
from duly.testing.conformance import steps
from duly.testing.factories import (
    ADA,
    HOUR_US,
    cancel,
    move,
    run_id,
    timer_of_delayed,
)
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class MovingAndCancelling:
    """What `move_delayed` and `cancel_delayed` promise."""

    @pytest.mark.parametrize("by_key", [True, False], ids=["by key", "by id"])
    def test_moving_gives_a_new_due_under_the_next_generation(
        self, store: Store, clock: ManualClock, *, by_key: bool
    ) -> None:
        """S2: the old timer is gone."""
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
        """S2."""
        steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        clock.advance("10m")

        moved = store.move_delayed(move("class:42", None, delay_us=2 * HOUR_US))

        assert clock.now_us() + 2 * HOUR_US == moved.due_at

    def test_moving_into_the_past_is_refused_unless_it_means_at_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L6."""
        steps.delay(store, clock.now_us() + HOUR_US, key="class:42")
        before = snapshot(store)

        with pytest.raises(UsageError):
            store.move_delayed(move("class:42", clock.now_us() - 1))

        assert before == snapshot(store)
        moved = store.move_delayed(move("class:42", clock.now_us() - 1, is_late_ok=True))
        assert moved.due_at <= clock.now_us()

    def test_moving_is_audited(self, store: Store, clock: ManualClock) -> None:
        """A2, INV-19."""
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
        """S2: it has an outcome, no timer, and never fired."""
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
        """A2, INV-19."""
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
        """L6."""
        nobody = run_id("nobody")
        for target in ("nobody", nobody):
            with pytest.raises(NotFound):
                store.move_delayed(move(target, clock.now_us() + 1))
            with pytest.raises(NotFound):
                store.cancel_delayed(cancel(target))

    def test_what_belongs_to_another_tenant_is_not_found(
        self, store: Store, clock: ManualClock
    ) -> None:
        """L2, INV-20: neither by its key nor by its id."""
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
