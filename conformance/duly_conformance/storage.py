"""What every store must do about lent transactions and the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.errors import Conflict, StoreUnavailable
from duly.store.ports.dispatch import Renew
from duly_conformance import steps
from duly_conformance.kit import (
    HOUR_US,
    SECOND_US,
    add_runs,
    cancel,
    new_run,
    new_schedule,
    snapshot,
)
from duly_conformance.misfires import owing

if TYPE_CHECKING:
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store


# ruff: noqa: PT012 - a lent transaction is a block, and it is the block that fails


class Interrupted(Exception):  # noqa: N818 - what a caller's own code may raise
    """Whatever the caller's code raises inside a lent transaction."""


class LentTransactions:
    """What `transaction` promises."""

    has_own_tables = True
    """Whether the caller can have tables beside ours; a backend's tests may deny it."""
    placeholder = "?"
    """How a statement of the caller's names a value."""

    def test_all_that_is_done_commits_together(self, store: Store, clock: ManualClock) -> None:
        """INV-18."""
        order, asked = new_schedule(store.now()), new_run(clock.now_us() + HOUR_US)
        with store.transaction(SECOND_US) as lent:
            assert store.joined(lent).create_schedule(order).is_new
            assert store.joined(lent).add_runs(add_runs(asked))[0].is_new

        assert store.get_schedule(order.id) is not None
        assert store.get_delayed(asked.id) is not None
        assert ["schedule.created"] == [entry.action for entry in steps.audit(store)]

    def test_nothing_is_done_when_the_caller_fails(self, store: Store, clock: ManualClock) -> None:
        """INV-18, INV-19: no audit entry either."""
        before = snapshot(store)

        with pytest.raises(Interrupted), store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(new_schedule(store.now()))
            store.joined(lent).add_runs(add_runs(new_run(None)))
            raise Interrupted

        assert before == snapshot(store)
        assert () == steps.load(store, clock.now_us() + 100 * HOUR_US)

    def test_a_transaction_sees_what_it_has_done(self, store: Store) -> None:
        """INV-17: the same request twice within it is one."""
        order = new_schedule(store.now())
        with store.transaction(SECOND_US) as lent:
            first = store.joined(lent).create_schedule(order)
            again = store.joined(lent).create_schedule(order)

        assert (True, False) == (first.is_new, again.is_new)
        assert first.record == again.record

    def test_a_refused_order_leaves_the_rest_to_the_caller(self, store: Store) -> None:
        """Who catches the refusal may go on."""
        steps.create(store, "taken")
        order = new_schedule(store.now())
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(order)
            with pytest.raises(Conflict):
                store.joined(lent).create_schedule(
                    new_schedule(store.now() + 1000, "taken", task="other")
                )

        assert store.get_schedule(order.id) is not None

    def test_a_use_after_the_limit_fails_and_undoes_all(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Nobody holds the store for long."""
        before = snapshot(store)

        with pytest.raises(StoreUnavailable), store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(new_schedule(store.now()))
            clock.advance(SECOND_US + 1)
            store.joined(lent).add_runs(add_runs(new_run(None)))

        assert before.schedules == snapshot(store).schedules
        assert (before.audit, 0) == (snapshot(store).audit, steps.queued(store))

    def test_a_commit_after_the_limit_fails_and_undoes_all(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-18."""
        with pytest.raises(StoreUnavailable), store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(new_schedule(store.now()))
            clock.advance(SECOND_US + 1)

        assert () == snapshot(store).schedules
        assert [] == steps.audit(store)

    def test_after_a_transaction_the_store_goes_on(self, store: Store, clock: ManualClock) -> None:
        """Committed, failed or too late."""
        with pytest.raises(Interrupted), store.transaction(SECOND_US):
            raise Interrupted
        with pytest.raises(StoreUnavailable), store.transaction(SECOND_US) as lent:
            clock.advance(2 * SECOND_US)
            store.joined(lent).add_runs(add_runs(new_run(None)))
        with store.transaction(SECOND_US):
            pass

        assert steps.create(store) == snapshot(store).schedules[0]

    def test_own_tables_commit_with_ours(self, store: Store) -> None:
        """INV-18: both or neither."""
        if not self.has_own_tables:
            pytest.skip("this store has no tables for the caller")
        insert = f"INSERT INTO invoice VALUES ({self.placeholder})"  # noqa: S608 - no value
        with store.transaction(SECOND_US) as lent:
            lent.execute("CREATE TABLE invoice (number INTEGER)")
        with store.transaction(SECOND_US) as lent:
            lent.execute(insert, (1,))
            store.joined(lent).add_runs(add_runs(new_run(None, "first")))
        with pytest.raises(Interrupted), store.transaction(SECOND_US) as lent:
            lent.execute(insert, (2,))
            store.joined(lent).add_runs(add_runs(new_run(None, "second")))
            raise Interrupted

        with store.transaction(SECOND_US) as lent:
            assert [(1,)] == lent.execute("SELECT number FROM invoice")
        assert 1 == steps.queued(store)


class Upkeep:
    """What the schema port promises, and what the store remembers about time-zone data."""

    def test_a_new_store_lacks_no_migration(self, store: Store) -> None:
        status = store.schema_status()

        assert (True, None, (), ()) == (
            status.is_usable,
            status.problem,
            status.missing,
            status.unknown,
        )
        assert store.name == status.store

    def test_migrating_again_does_nothing(self, store: Store) -> None:
        steps.create(store)
        before, applied = snapshot(store), store.schema_status()

        assert [] == store.migrate()
        assert [] == store.migrate()
        assert (before, applied) == (snapshot(store), store.schema_status())

    def test_a_healthy_store_gives_no_findings(self, store: Store, clock: ManualClock) -> None:
        """With something in every state there is."""
        assert [] == store.check()
        record = owing(store, clock)
        steps.fire_due(store, clock, record)
        steps.pause(store, steps.create(store, "paused"))
        steps.delete(store, steps.create(store, "deleted"))
        steps.delay(store, clock.now_us() + HOUR_US, "pending", key="k")
        store.cancel_delayed(cancel(steps.delay(store, clock.now_us() + HOUR_US, "gone").id))

        assert [] == store.check()

    def test_the_newest_release_of_time_zone_rules_is_remembered(self, store: Store) -> None:
        """Every member is told."""
        member = steps.join(store)

        assert store.note_tzdata("2026b")
        assert "2026b" == store.status().tzdata
        assert "2026b" == store.renew(Renew(member=member)).tzdata

    def test_an_older_release_is_refused(self, store: Store) -> None:
        """A node with old rules does not recompute what a newer one has computed."""
        store.note_tzdata("2026b")

        assert not store.note_tzdata("2026a")
        assert not store.note_tzdata("2025z")
        assert store.note_tzdata("2026b")
        assert store.note_tzdata("2026c")
        assert "2026c" == store.status().tzdata
