"""Moving: the part of the contract about promises that leave a store and come into another (D7)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.attempts import LogLine, Progress, Reason, TaskPolicy
from duly.domain.concluding import Failed, LostEnd, Succeeded
from duly.domain.effects import EffectState, Grant
from duly.domain.identity import identity_text, schedule_id
from duly.domain.literals import Finding, Overlap, RunState
from duly.domain.quotas import Counted, QuotaKey
from duly.domain.retrying import Retry
from duly.domain.runs import VerdictKind
from duly.domain.scope import ScopeReport
from duly.errors import Conflict
from duly.store.alerting import SetTerm, TermSort
from duly.store.effects import OrderTask
from duly.store.execution import Report, SaveCheckpoint
from duly.store.memory import MemoryStore
from duly.store.moving import PARTS, ImportPromises, OnConflict
from duly.store.owners import MarkOwner
from duly.store.quotas import SetQuotas
from duly.testing.conformance import backfills, effects, limit_steps, steps
from duly.testing.conformance import work_steps as work
from duly.testing.conformance.doubts import verdict
from duly.testing.conformance.overlap_steps import fired
from duly.testing.conformance.owed import owing
from duly.testing.factories import ADA, HOUR_US, SECOND_US
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.identity import RunId
    from duly.store.execution import ClaimedRun
    from duly.store.moving import Bundle, Imported
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

TENANTS = ("default", "acme")
EXPORT_ID = bytes(range(16))
SPACED = TaskPolicy(retry=Retry(5, base="1s", per_minute=60))


class Moving:
    """What `export_promises` and `import_promises` promise, between any two stores."""

    def test_all_that_is_promised_arrives(self, store: Store, clock: ManualClock) -> None:
        """D7: out of this store and into it, with something in every state there is."""
        everything(store, clock)
        other, back = MemoryStore(clock, shards=5), told(store)
        assert set(PARTS) == {name for bundle in exported(store) for name in bundle.rows}

        move(store, other)

        assert back == told(other)
        assert [] == other.check()

    def test_all_that_comes_is_kept(self, store: Store, clock: ManualClock) -> None:
        """D7: the other way round; the number of shards may be another one."""
        other = MemoryStore(clock, shards=5)
        everything(other, clock)
        other_told = told(other)

        moved = move(other, store)

        assert other_told == told(store)
        assert [] == store.check()
        assert {} == moved.skipped
        assert "promises.imported" == steps.audit(store)[0].action

    def test_without_history_what_is_over_is_unknown_and_not_missing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D7, M1: open runs come, closed ones stay; nobody takes them for forgotten."""
        record = steps.create(store)
        run = steps.fire_due(store, clock, record).last_run
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        other = MemoryStore(clock)

        move(store, other, has_history=False)

        assert run is not None
        assert other.get_run(run) is None
        assert record.pending is not None
        (verdict,) = other.judge(record.id, [record.pending.scheduled_for])
        assert VerdictKind.UNKNOWN is verdict.kind
        assert steps.look(store, record).pending == steps.look(other, record).pending

    def test_what_is_moved_goes_on_here(self, store: Store, clock: ManualClock) -> None:
        """D7, F1, O1: timers fire at their instant; who waits at a gate goes when it is free."""
        other = MemoryStore(clock)
        record = fired(other, clock, Overlap.QUEUE_ALL, times=2)
        pending = steps.delay(other, clock.now_us() + HOUR_US, key="k")
        waiting = work.look(other, _first(other, RunState.BLOCKED)).id
        move(other, store)

        worker = limit_steps.join(store)
        limit_steps.end_all(store, worker, work.take_one(store, worker))

        assert waiting == work.take_one(store, worker).run_id
        steps.fire_delayed(store, clock, pending.id)
        assert RunState.QUEUED is work.look(store, pending.id).state
        assert 3 == steps.fire_due(store, clock, steps.look(store, record)).fires

    def test_what_was_running_is_lost_and_what_it_did_is_not_repeated(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D7, E2, E3, INV-11: an effect that is done stays done; one that was begun is in doubt."""
        other = MemoryStore(clock)
        worker, claimed = effects.taken(other)
        effects.done(other, worker, claimed, "first")
        assert Grant.GRANTED is effects.begin(other, worker, claimed, "second").grant
        move(other, store)

        (lost,) = work.lost_claims(store)
        assert [True] == work.settle(store, work.maintain(store), lost, how=LostEnd())

        assert RunState.AMBIGUOUS is work.look(store, claimed.run_id).state
        ledger = store.list_effects(claimed.run_id, 10)
        assert [("first", EffectState.DONE), ("second", EffectState.UNKNOWN)] == [
            (one.key, one.state) for one in ledger
        ]
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert Reason.LOST == attempt.reason
        assert [] == store.check()

    def test_the_same_export_again_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        """D7, INV-3: also when what came has been done and forgotten meanwhile."""
        other = MemoryStore(clock)
        run_id = work.queue(other)
        move(other, store)
        worker = work.join(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        before = snapshot(store)

        moved = move(other, store, on_conflict=OnConflict.SKIP)

        assert moved.is_repeated
        assert before == snapshot(store)
        assert RunState.SUCCEEDED is work.look(store, run_id).state

    def test_a_conflict_leaves_nothing_behind(self, store: Store, clock: ManualClock) -> None:
        """D7: a name or a key that is taken, an id that is there; all of them are counted."""
        other = MemoryStore(clock)
        steps.create(other, "mine")
        steps.create(other, "free")
        steps.delay(other, clock.now_us() + HOUR_US, "theirs", key="k")
        steps.create(store, "mine", id=schedule_id(1, bytes(10)))
        steps.delay(store, clock.now_us() + HOUR_US, "ours", key="k")
        before = snapshot(store)

        with pytest.raises(Conflict, match=r"2 promises can't be taken in: schedule mine is the"):
            move(other, store)

        assert before == snapshot(store)

    def test_what_is_in_the_way_can_be_left_out_with_all_that_refers_to_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        """D7: of a schedule that is left out no run comes either."""
        other = MemoryStore(clock)
        theirs = steps.create(other, "mine")
        free = steps.create(other, "free")
        clock.advance(HOUR_US)
        for record in (theirs, free):
            steps.fire_due(other, clock, steps.look(other, record))
        ours = steps.create(store, "mine", id=schedule_id(1, bytes(10)))

        moved = move(other, store, on_conflict=OnConflict.SKIP)

        assert {"schedule": 1, "run": 1} == moved.skipped
        assert {"schedule": 1, "run": 1} == {
            kind: moved.taken[kind] for kind in ("schedule", "run")
        }
        assert ours == steps.look(store, ours)
        assert 1 == steps.look(store, free).fires
        assert [] == store.check()

    def test_a_trial_writes_nothing(self, store: Store, clock: ManualClock) -> None:
        """D7: and says what would be written."""
        other = MemoryStore(clock)
        steps.create(other)
        before = snapshot(store)

        moved = move(other, store, is_dry_run=True)

        assert 1 == moved.taken["schedule"]
        assert before == snapshot(store)

    def test_a_store_whose_clock_is_behind_takes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """F1: what has fallen due elsewhere would be early here."""
        other = MemoryStore(clock)
        steps.fire_due(other, clock, steps.create(other))
        before = snapshot(store)

        with pytest.raises(Conflict, match=r"is behind the clock of the store .* wait 60 s"):
            move(other, store, as_of=clock.now_us() + 60 * SECOND_US)

        assert before == snapshot(store)


def everything(store: Store, clock: ManualClock) -> None:
    """Put something into every state there is."""
    _limited(store)
    _work_done(store)
    _settings(store)
    record = backfills.past(store, clock, name="history")
    backfills.step(store, backfills.begun(store, record), count=2)
    for lease in store.status().leases:
        if lease.owner is not None:
            store.leave(lease.owner)
    owing(store, clock, "owing")
    steps.delete(store, owing(store, clock, "not run"))
    steps.pause(store, steps.create(store, "paused"), until=clock.now_us() + 900 * HOUR_US)
    steps.delete(store, steps.create(store, "deleted"))
    fired(store, clock, Overlap.QUEUE_ALL, times=3)
    steps.delay(store, clock.now_us() + HOUR_US, "pending", key="k")
    steps.delay(store, clock.now_us() + 2 * HOUR_US, "elsewhere", tenant="acme")


def _limited(store: Store) -> None:
    """Fill the places of a limit, give turns at a rate, and let a destination be down."""
    store.leave(limit_steps.fail_often(store))
    limit_steps.limit(store, "task:paced", rate="1/s burst 1")
    limit_steps.limit(store, "task:capped", running=1)
    worker = work.join(store)
    for task in ("paced", "capped"):
        for number in range(2):
            work.queue(store, f"{task} {number}", task=task)
        limit_steps.ways(store, worker, *work.take(store, worker))


def _work_done(store: Store) -> None:
    work.make_dead(store, "dead")
    work.make_waiting(store, "waiting")
    worker, claimed = work.queue_and_take(store, "spaced")
    work.end(store, worker, claimed, Failed("oh", after_us=SECOND_US), policy=SPACED)
    store.leave(worker)
    doubt = effects.in_doubt(store, "doubt")
    store.add_verdict(verdict(doubt, Finding.UNKNOWN, '"no answer"'))
    worker, claimed = work.queue_and_take(store, "over")
    work.end(store, worker, claimed, Succeeded("7"))
    store.leave(worker)
    worker, claimed = work.queue_and_take(store, "running")
    effects.done(store, worker, claimed, "mail")
    _tell(store, worker, claimed)


def _tell(store: Store, worker: Any, claimed: ClaimedRun) -> None:
    store.report(
        worker,
        [
            Report(
                hold=claimed.hold,
                started_at=store.now(),
                progress=Progress(1, 3, "on its way"),
                lines=(LogLine(store.now(), "info", "hello"),),
                scope=ScopeReport(expected=2, names=("a", "b"), done=("a",)),
            )
        ],
    )
    order = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="{}")
    assert store.save_checkpoint(order)


def _settings(store: Store) -> None:
    store.pause_queue("mail", ADA)
    store.order_task(OrderTask(task="remind", actor=ADA, is_suspended=True))
    limit_steps.limit(store, running=3, rate="10/m")
    key = QuotaKey("tenant:acme")
    store.set_quotas(SetQuotas(key=key, most={Counted.SCHEDULES: 5}, actor=ADA))
    store.mark_gone(MarkOwner(owner="anna", tenant="default", actor=ADA))
    store.set_alert_term(
        SetTerm(sort=TermSort.RULE, name="mail", terms={"threshold": 3}, actor=ADA)
    )


def move(source: Store, target: Store, *, has_history: bool = True, **parts: Any) -> Imported:
    """Export a store whole, and import it into another."""
    with source.export_promises(has_history=has_history) as found:
        bundles: list[Bundle] = list(found.bundles)
    command = ImportPromises(
        id=EXPORT_ID,
        source=source.name,
        as_of=found.as_of,
        program_min=found.program_min,
        bundles=bundles,
        on_conflict=OnConflict.FAIL,
        actor=ADA,
    )
    return target.import_promises(replace(command, **parts))


def exported(store: Store) -> list[Bundle]:
    """Return all that a store hands out."""
    with store.export_promises(has_history=True) as found:
        return list(found.bundles)


def told(store: Store) -> dict[str, Any]:
    """Return all that a store tells of its promises, but for who works where."""
    seen = snapshot(store, TENANTS)
    ids = [run.id for run in seen.runs]
    return {
        "schedules": tuple(replace(one, shard=0) for one in seen.schedules),
        "runs": tuple(replace(run, worker=None) for run in seen.runs),
        "delayed": seen.delayed,
        "skips": seen.skips,
        "owed": seen.owed,
        "timers": tuple(one._replace(shard=0) for one in seen.timers),
        "doubts": tuple(one.run.id for one in seen.doubts),
        "results": seen.results,
        "task_orders": seen.task_orders,
        "attempts": {identity_text(one): _attempts(store, one) for one in ids},
        "checkpoints": {identity_text(one): store.get_checkpoints(one) for one in ids},
        "lines": {
            identity_text(one): [line.line for line in store.list_lines(one, 0, 100)] for one in ids
        },
        "progress": {identity_text(one): store.list_progress(one, 100) for one in ids},
        "queues": store.list_queues(),
        "limits": store.list_limits().records,
        "quotas": store.list_quotas(),
        "gone": store.list_gone("default", "", 100),
        "alert terms": [store.list_alert_terms(sort) for sort in TermSort],
        "backfills": store.list_backfills("default", None, 100),
        "slots": [
            store.list_slots(one.id, None, 100)
            for one in store.list_backfills("default", None, 100)
        ],
    }


def _attempts(store: Store, run_id: RunId) -> list[Any]:
    return [
        replace(one, worker=0, heartbeat_at=None, state=_plain(one.state))
        for one in store.list_attempts(run_id, 100)
    ]


def _plain(state: str) -> Any:
    """Return a state; that of an attempt whose worker is elsewhere is stale."""
    return "running" if state == "heartbeat-stale" else state


def _first(store: Store, state: RunState) -> RunId:
    return next(run.id for run in snapshot(store).runs if run.state is state)
