"""Transactional tasks: an attempt ends in the transaction that holds the caller's own rows (E4)."""
# ruff: noqa: PT012 - a lent transaction is a block, and it is the block that fails

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import LogLine, Progress
from duly.domain.checking import check_of
from duly.domain.concluding import Failed, Succeeded
from duly.domain.literals import Origin, Overlap, RunState
from duly.domain.scope import ScopeReport
from duly.errors import LeaseLost, StoreUnavailable, UsageError
from duly.store.execution import WORKER_TTL_US, FinishResult
from duly.testing.conformance import steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.overlap_steps import fired, states
from duly.testing.conformance.transactions import Interrupted
from duly.testing.factories import HOUR_US, SECOND_US, add_runs, finish, new_run
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

DONE = Succeeded('"paid"')


def written(store: Store, worker: MemberId, claimed: ClaimedRun, text: str, **parts: Any) -> None:
    """Write something and end an attempt, together."""
    with store.transaction(SECOND_US) as lent:
        store.add_runs(add_runs(new_run(None, text)), within=lent)
        store.finish_within(lent, worker, finish(claimed, DONE, **parts))


def lose(store: Store, clock: ManualClock) -> None:
    """Let all claims be taken from their workers."""
    clock.advance(WORKER_TTL_US)
    fence = work.maintain(store)
    assert all(work.settle(store, fence, *work.lost_claims(store)))
    store.leave(fence.member)


class FinishingWithin:
    """What `finish_within` promises."""

    has_own_tables: bool
    placeholder: str

    @pytest.fixture
    def invoices(self, store: Store) -> str:
        """Return the statement that writes into a table of the caller's."""
        if not self.has_own_tables:
            pytest.skip("this store has no tables for the caller")
        with store.transaction(SECOND_US) as lent:
            lent.execute("CREATE TABLE invoice (number INTEGER)")
        return f"INSERT INTO invoice VALUES ({self.placeholder})"  # noqa: S608 - no value

    def test_own_rows_and_the_end_of_the_run_commit_together(
        self, store: Store, invoices: str
    ) -> None:
        """E4: one business result."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (1,))
            store.finish_within(lent, worker, finish(claimed, DONE))

        record = work.look(store, claimed.run_id)
        assert (RunState.SUCCEEDED, '"paid"') == (record.state, record.result)
        with store.transaction(SECOND_US) as lent:
            assert [(1,)] == lent.execute("SELECT number FROM invoice")

    def test_own_rows_are_undone_when_the_run_is_somebody_elses(
        self, store: Store, clock: ManualClock, invoices: str
    ) -> None:
        """E4, INV-4, INV-5: the one who has it now writes them."""
        worker, claimed = work.queue_and_take(store)
        lose(store, clock)
        work.fire_retries(store, clock)
        heir = work.join(store)
        again = work.take_one(store, heir)

        with pytest.raises(LeaseLost), store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (1,))
            store.finish_within(lent, worker, finish(claimed, DONE))
        with store.transaction(SECOND_US) as lent:
            lent.execute(invoices, (2,))
            store.finish_within(lent, heir, finish(again, DONE))

        with store.transaction(SECOND_US) as lent:
            assert [(2,)] == lent.execute("SELECT number FROM invoice")

    def test_an_end_within_is_like_any_other(self, store: Store) -> None:
        """E4, E6, R2: with all that its attempt still had to tell."""
        worker, claimed = work.queue_and_take(store)
        check = check_of(claimed.record, claimed.fence)

        written(
            store,
            worker,
            claimed,
            "more",
            progress=Progress(3, 3, None),
            lines=(LogLine(store.now(), "info", "paid"),),
            scope=ScopeReport(expected=3, done=("a", "b", "c")),
            follow_up=check,
        )

        (attempt,) = store.list_attempts(claimed.run_id)
        assert (1, Progress(3, 3, None)) == (attempt.number, attempt.progress)
        assert ["paid"] == [one.line.text for one in store.list_lines(claimed.run_id, 0, 10)]
        assert store.get_scope(claimed.run_id).is_complete
        checking = work.look(store, check.id)
        assert (Origin.VERIFY, claimed.run_id) == (checking.origin, checking.root)
        assert [] == store.check()

    def test_an_attempt_may_end_badly_within(self, store: Store) -> None:
        """E4: what it has written stays, and it is tried again."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, Failed("half of it")))

        assert RunState.RETRYING is work.look(store, claimed.run_id).state
        assert [] == store.check()

    def test_the_attempt_goes_on_when_the_caller_fails(self, store: Store) -> None:
        """E4, INV-18: neither his rows nor the end."""
        worker, claimed = work.queue_and_take(store)
        before = snapshot(store)

        with pytest.raises(Interrupted), store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            raise Interrupted

        assert before == snapshot(store)
        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, DONE)

    def test_the_attempt_goes_on_when_the_commit_comes_too_late(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D3, E4."""
        worker, claimed = work.queue_and_take(store)

        with pytest.raises(StoreUnavailable), store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            clock.advance(SECOND_US + 1)

        assert RunState.RUNNING is work.look(store, claimed.run_id).state

    def test_who_lost_the_run_writes_nothing(self, store: Store, clock: ManualClock) -> None:
        """E4, INV-5: not even who keeps the refusal to himself."""
        worker, claimed = work.queue_and_take(store)
        lose(store, clock)
        before = snapshot(store)

        with pytest.raises(LeaseLost, match="taken from this worker"):
            written(store, worker, claimed, "more")
        with pytest.raises(LeaseLost), store.transaction(SECOND_US) as lent:
            store.add_runs(add_runs(new_run(None, "more")), within=lent)
            with suppress(LeaseLost):
                store.finish_within(lent, worker, finish(claimed, DONE))

        assert before == snapshot(store)

    def test_an_attempt_that_has_ended_does_not_end_again(self, store: Store) -> None:
        """E4, INV-6: whatever it would write is written already."""
        worker, claimed = work.queue_and_take(store)
        written(store, worker, claimed, "first")
        before = snapshot(store)

        with pytest.raises(LeaseLost):
            written(store, worker, claimed, "second")

        assert before == snapshot(store)

    def test_who_did_not_hear_of_the_commit_may_say_the_end_again(self, store: Store) -> None:
        """E4, INV-17: by itself, and nothing happens twice."""
        worker, claimed = work.queue_and_take(store)
        written(store, worker, claimed, "first")
        before = snapshot(store)

        assert FinishResult.ACCEPTED == work.end(store, worker, claimed, DONE)
        assert before == snapshot(store)

    def test_nothing_comes_after_the_last_word(self, store: Store) -> None:
        """E4: what the run did is decided by then."""
        worker, claimed = work.queue_and_take(store)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))
            with pytest.raises(UsageError, match="takes nothing more"):
                store.add_runs(add_runs(new_run(None, "more")), within=lent)

        assert 0 == steps.queued(store)
        assert RunState.SUCCEEDED is work.look(store, claimed.run_id).state

    def test_whoever_waits_for_the_run_is_let_through_afterwards(
        self, store: Store, clock: ManualClock
    ) -> None:
        """E4, O1: no gate is opened inside the caller's transaction."""
        record = fired(store, clock, Overlap.QUEUE_ALL, times=2)
        worker = work.join(store, ttl_us=10 * HOUR_US)
        claimed = work.take_one(store, worker)

        with store.transaction(SECOND_US) as lent:
            store.finish_within(lent, worker, finish(claimed, DONE))

        assert ["succeeded", "blocked"] == states(store, record)
        assert 1 == store.open_gates(10)
        assert [] == store.check()

    def test_a_transaction_that_nobody_lent_is_refused(self, store: Store) -> None:
        """E4."""
        worker, claimed = work.queue_and_take(store)

        for within in (None, object()):
            with pytest.raises(UsageError):
                store.finish_within(within, worker, finish(claimed, DONE))

        assert RunState.RUNNING is work.look(store, claimed.run_id).state
