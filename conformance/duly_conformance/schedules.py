"""What every store must do about schedules, owners and moved occurrences."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.effects import EffectState, Grant
from duly.domain.enums import Finding, Missed, Overlap, RunState, ScheduleStatus, SkipReason
from duly.domain.fire_planning import Settlement, Skip, plan_on_time
from duly.domain.ids import identity_text, schedule_id
from duly.domain.outcomes import Failed, Succeeded, WorkerLost
from duly.domain.policies import Misfire, Retry
from duly.domain.quotas import EACH_OWNER, Counted, DepartedOwner, QuotaKey, decide_gone
from duly.domain.runs import LogLine, OccurrenceStatusKind, Progress, Reason, TaskPolicy
from duly.domain.schedule_changes import decide_delete, decide_pause, decide_restore, decide_resume
from duly.domain.schedules import CatchUpRange
from duly.domain.verification import ItemReport
from duly.errors import Conflict, DulyError, NotFound
from duly.store.memory import MemoryStore
from duly.store.ports.alerts import AlertSettingKind, SetAlertSetting
from duly.store.ports.effects import OrderTask
from duly.store.ports.execution import Report, SaveCheckpoint
from duly.store.ports.operations import MarkOwner, SetQuotas
from duly.store.ports.schedules import Stale
from duly.store.ports.transfer import PARTS, ImportPromises, OnConflict
from duly.timetable.interval import every
from duly_conformance import backfills, effects, steps
from duly_conformance import steps as work
from duly_conformance.effects import verdict
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    SECOND_US,
    change_of,
    definition,
    new_schedule,
    snapshot,
    staying,
    template_of,
)
from duly_conformance.misfires import owing
from duly_conformance.steps import fired

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.execution import ClaimedRun
    from duly.store.ports.transfer import Imported, TransferUnit


TENANTS = ("default", "acme")
EXPORT_ID = bytes(range(16))
SPACED = TaskPolicy(retry=Retry(5, base="1s", per_minute=60))


class Moving:
    """What `export_promises` and `import_promises` promise, between any two stores."""

    def test_all_that_is_promised_arrives(self, store: Store, clock: ManualClock) -> None:
        """Out of this store and into it, with something in every state there is."""
        everything(store, clock)
        other, back = MemoryStore(clock, shards=5), told(store)
        assert set(PARTS) == {name for bundle in exported(store) for name in bundle.rows}

        move(store, other)

        assert back == told(other)
        assert [] == other.check()

    def test_all_that_comes_is_kept(self, store: Store, clock: ManualClock) -> None:
        """The other way round; the number of shards may be another one."""
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
        """Open runs come, closed ones stay; nobody takes them for forgotten."""
        record = steps.create(store)
        run = steps.fire_due(store, clock, record).last_run
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        other = MemoryStore(clock)

        move(store, other, has_history=False)

        assert run is not None
        assert other.get_run(run) is None
        assert record.pending is not None
        (verdict,) = other.judge(record.id, [record.pending.scheduled_for])
        assert OccurrenceStatusKind.UNKNOWN is verdict.kind
        assert steps.look(store, record).pending == steps.look(other, record).pending

    def test_what_is_moved_goes_on_here(self, store: Store, clock: ManualClock) -> None:
        """Timers fire at their instant; who waits at a gate goes when it is free."""
        other = MemoryStore(clock)
        record = fired(other, clock, Overlap.QUEUE_ALL, times=2)
        pending = steps.delay(other, clock.now_us() + HOUR_US, key="k")
        waiting = work.get_run(other, _first(other, RunState.BLOCKED)).id
        move(other, store)

        worker = steps.join_limited_worker(store)
        steps.end_all(store, worker, work.take_one(store, worker))

        assert waiting == work.take_one(store, worker).run_id
        steps.fire_delayed(store, clock, pending.id)
        assert RunState.QUEUED is work.get_run(store, pending.id).state
        assert 3 == steps.fire_due(store, clock, steps.look(store, record)).fires

    def test_what_was_running_is_lost_and_what_it_did_is_not_repeated(
        self, store: Store, clock: ManualClock
    ) -> None:
        """INV-11: an effect that is done stays done; one that was begun is in doubt."""
        other = MemoryStore(clock)
        worker, claimed = effects.taken(other)
        effects.done(other, worker, claimed, "first")
        assert Grant.GRANTED is effects.begin(other, worker, claimed, "second").grant
        move(other, store)

        (lost,) = work.lost_claims(store)
        assert [True] == work.settle_lost(store, work.maintain(store), lost, how=WorkerLost())

        assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
        ledger = store.list_effects(claimed.run_id, 10)
        assert [("first", EffectState.DONE), ("second", EffectState.UNKNOWN)] == [
            (one.key, one.state) for one in ledger
        ]
        (attempt,) = store.list_attempts(claimed.run_id, 10)
        assert Reason.LOST == attempt.reason
        assert [] == store.check()

    def test_the_same_export_again_changes_nothing(self, store: Store, clock: ManualClock) -> None:
        """INV-3: also when what came has been done and forgotten meanwhile."""
        other = MemoryStore(clock)
        run_id = work.queue(other)
        move(other, store)
        worker = work.join_worker(store)
        work.end(store, worker, work.take_one(store, worker), Succeeded())
        before = snapshot(store)

        moved = move(other, store, on_conflict=OnConflict.SKIP)

        assert moved.is_repeated
        assert before == snapshot(store)
        assert RunState.SUCCEEDED is work.get_run(store, run_id).state

    def test_a_conflict_leaves_nothing_behind(self, store: Store, clock: ManualClock) -> None:
        """A name or a key that is taken, an id that is there; all of them are counted."""
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
        """Of a schedule that is left out no run comes either."""
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
        """And says what would be written."""
        other = MemoryStore(clock)
        steps.create(other)
        before = snapshot(store)

        moved = move(other, store, is_dry_run=True)

        assert 1 == moved.taken["schedule"]
        assert before == snapshot(store)

    def test_a_store_whose_clock_is_behind_takes_nothing(
        self, store: Store, clock: ManualClock
    ) -> None:
        """What has fallen due elsewhere would be early here."""
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
    store.leave(steps.fail_often(store))
    steps.limit(store, "task:paced", rate="1/s burst 1")
    steps.limit(store, "task:capped", running=1)
    worker = work.join_worker(store)
    for task in ("paced", "capped"):
        for number in range(2):
            work.queue(store, f"{task} {number}", task=task)
        steps.ways(store, worker, *work.take(store, worker))


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
                scope=ItemReport(expected=2, names=("a", "b"), done=("a",)),
            )
        ],
    )
    order = SaveCheckpoint(worker=worker, hold=claimed.hold, partition="", state="{}")
    assert store.save_checkpoint(order)


def _settings(store: Store) -> None:
    store.pause_queue("mail", ADA)
    store.order_task(OrderTask(task="remind", actor=ADA, is_suspended=True))
    steps.limit(store, running=3, rate="10/m")
    key = QuotaKey("tenant:acme")
    store.set_quotas(SetQuotas(key=key, most={Counted.SCHEDULES: 5}, actor=ADA))
    store.mark_gone(MarkOwner(owner="anna", tenant="default", actor=ADA))
    store.set_alert_term(
        SetAlertSetting(sort=AlertSettingKind.RULE, name="mail", terms={"threshold": 3}, actor=ADA)
    )


def move(source: Store, target: Store, *, has_history: bool = True, **parts: Any) -> Imported:
    """Export a store whole, and import it into another."""
    with source.export_promises(has_history=has_history) as found:
        bundles: list[TransferUnit] = list(found.bundles)
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


def exported(store: Store) -> list[TransferUnit]:
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
        "alert terms": [store.list_alert_terms(sort) for sort in AlertSettingKind],
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


MANY = 100


class GoneOwners:
    """What it means that somebody says of an owner that they are gone."""

    def test_nothing_new_is_made_for_an_owner_who_is_gone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Whether declared or not; of another tenant or name, they are somebody else."""
        said_at = clock.now_us()
        gone(store, "anna")
        clock.advance(HOUR_US)
        before = snapshot(store)

        with pytest.raises(Conflict, match=r"'anna' is gone, .* duly owner back anna$") as no:
            steps.create(store, "new", owner="anna")
        with pytest.raises(Conflict, match="'anna' is gone"):
            steps.create(store, "declared", owner="anna", declared_by="code:app")

        assert ("owner", "anna") == (no.value.what, no.value.name)
        assert before == snapshot(store)
        steps.create(store, "another's", owner="ann")
        steps.create(store, "nobody's")
        steps.create(store, "elsewhere", owner="anna", tenant="acme")
        expected = DepartedOwner(
            owner="anna", tenant="default", gone_at=said_at, said_by=ADA.name, active=0
        )
        assert [expected] == store.list_gone("default", "", 10)

    def test_what_rests_is_not_woken_for_an_owner_who_is_gone(self, store: Store) -> None:
        """Neither resumed, restored, nor given to them; somebody else may take it over."""
        hers, his, old = (steps.create(store, who, owner=who) for who in ("anna", "bob", "cleo"))
        paused, deleted = steps.pause(store, hers), steps.delete(store, old)
        gone(store, "anna")
        gone(store, "cleo")
        before = snapshot(store)
        with pytest.raises(Conflict, match="'anna' is gone"):
            resume(store, paused)
        with pytest.raises(Conflict, match="'anna' is gone"):
            steps.apply(store, his, staying(his, owner="anna"))
        with pytest.raises(Conflict, match="'cleo' is gone"):
            steps.apply(store, deleted, decide_restore(deleted, store.now(), None))
        assert before == snapshot(store)

        taken = steps.apply(store, paused, staying(paused, owner="bob"))

        assert "active" == resume(store, taken).status

    def test_what_still_fires_for_them_is_found_until_it_is_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Also what would go on by itself; it is paused without an end, and its reason told."""
        fires, second, rests = (steps.create(store, name, owner="anna") for name in "abc")
        steps.pause(store, rests)
        comes_back = steps.pause(store, second, until=clock.now_us() + HOUR_US)
        declared = steps.create(store, "declared", owner="anna", declared_by="code:app")
        steps.create(store, "his", owner="bob")
        gone(store, "anna")
        expected = sorted(one.id for one in (fires, comes_back, declared))
        assert expected == store.list_active_of("default", "anna", MANY)
        assert expected[:2] == store.list_active_of("default", "anna", 2)
        assert [3] == [one.active for one in store.list_gone("default", "", 10)]

        for schedule in (fires, comes_back):
            change = decide_gone(schedule, "anna", "left")
            assert change is not None
            steps.apply(store, schedule, change)

        assert [declared.id] == store.list_active_of("default", "anna", MANY)
        assert [1] == [one.active for one in store.list_gone("default", "", 10)]
        seen = steps.look(store, comes_back)
        assert ("paused", "left", None) == (str(seen.status), seen.reason, seen.resume_at)

    def test_an_edit_that_leaves_the_owner_is_not_refused(self, store: Store) -> None:
        """What an order has not come to yet can be changed, and paused, all the same."""
        record = steps.create(store, owner="anna")
        gone(store, "anna")

        renamed = steps.apply(store, record, staying(record, name="renamed"))

        assert "paused" == str(steps.pause(store, renamed).status)

    def test_who_is_back_has_schedules_again(self, store: Store) -> None:
        """What was paused stays so; who is not gone can't be back."""
        paused = steps.pause(store, steps.create(store, owner="anna"))
        gone(store, "anna")

        was = store.mark_back(of("anna"))

        assert ("anna", ADA.name) == (was.owner, was.said_by)
        assert [] == store.list_gone("default", "", 10)
        assert "paused" == str(steps.look(store, paused).status)
        assert "active" == str(resume(store, paused).status)
        with pytest.raises(NotFound):
            store.mark_back(of("anna"))
        with pytest.raises(NotFound):
            store.mark_back(of("nobody"))

    def test_what_is_said_of_owners_is_on_record_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Said again, it stands as it was said first."""
        first = gone(store, "anna")
        clock.advance(SECOND_US)
        assert first == gone(store, "anna")
        store.mark_back(of("anna"))

        trail = [one for one in steps.audit(store) if one.action.startswith("owner.")]

        assert [("owner.back", "anna", "default"), ("owner.gone", "anna", "default")] == [
            (one.action, one.subject, one.tenant) for one in trail
        ]
        assert ADA.name == trail[1].actor.name
        assert trail[1].after == trail[0].before
        assert (None, None) == (trail[1].before, trail[0].after)

    def test_those_who_are_gone_are_listed_by_name_and_tenant(self, store: Store) -> None:
        """Page after page; they are no quotas, whatever is set for them."""
        key = QuotaKey(EACH_OWNER)
        store.set_quotas(SetQuotas(key=key, most={Counted.SCHEDULES: 3}, actor=ADA))
        for name in ("bob", "anna", "Äda", "a:b"):
            gone(store, name)
        gone(store, "cleo", tenant="acme")

        first = store.list_gone("default", "", 2)
        rest = store.list_gone("default", first[-1].owner, 10)

        assert ["a:b", "anna", "bob", "Äda"] == [one.owner for one in (*first, *rest)]
        assert ["cleo"] == [one.owner for one in store.list_gone("acme", "", 10)]
        assert [key] == [one.key for one in store.list_quotas()]

    def test_an_owner_who_is_gone_is_so_within_a_lent_transaction(self, store: Store) -> None:
        """The order is refused, and the caller goes on."""
        gone(store, "anna")
        with store.transaction(SECOND_US) as lent:
            with pytest.raises(Conflict, match="'anna' is gone"):
                store.joined(lent).create_schedule(new_schedule(store.now(), "a", owner="anna"))
            store.joined(lent).create_schedule(new_schedule(store.now(), "b"))

        assert store.find_schedule("default", "a") is None
        assert store.find_schedule("default", "b") is not None


def of(owner: str, **parts: Any) -> MarkOwner:
    """Return an order about an owner."""
    return MarkOwner(**{"owner": owner, "tenant": "default", "actor": ADA, **parts})


def gone(store: Store, owner: str, **parts: Any) -> DepartedOwner:
    """Say that an owner is gone."""
    return store.mark_gone(of(owner, **parts))


def resume(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Resume a schedule from now on."""
    change = decide_resume(record, store.now(), Missed.SKIP, "taken over")
    return steps.apply(store, record, change)


class CreatingSchedules:
    """What `create_schedule` promises."""

    def test_a_new_schedule_is_there_with_its_one_pending_timer(
        self, store: Store, clock: ManualClock
    ) -> None:
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
        """Nothing has been run, and it was made now, by whoever ordered it."""
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
        """Intent is stored as it was said."""
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
        """INV-17: nothing is half done."""
        steps.create(store)
        clock.advance(1000)
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.create_schedule(new_schedule(clock.now_us(), **difference))

        assert before == snapshot(store)

    def test_the_name_of_a_deleted_schedule_is_free(self, store: Store, clock: ManualClock) -> None:
        """INV-13: a new schedule of the name has a new id."""
        first = steps.delete(store, steps.create(store))
        clock.advance(1000)

        second = steps.create(store, task="other")

        assert first.id != second.id
        found = store.find_schedule(second.tenant, second.name)
        assert found is not None
        assert second == found.record

    def test_two_tenants_may_use_one_name(self, store: Store) -> None:
        """INV-20."""
        ours = steps.create(store, tenant="ours")
        theirs = steps.create(store, tenant="theirs", task="other")

        assert ours.id != theirs.id
        found = store.find_schedule("theirs", "nightly")
        assert found is not None
        assert theirs == found.record

    def test_creating_is_audited_once(self, store: Store, clock: ManualClock) -> None:
        """INV-19: who, when, what, why, from where, and what there is now."""
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
        """The whole of the new state, the version one higher."""
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
        """INV-12."""
        record = steps.create(store)
        steps.pause(store, record)

        assert () == steps.load(store, record.created_at + 100 * HOUR_US)

    def test_resuming_brings_the_timer_back(self, store: Store, clock: ManualClock) -> None:
        """Resuming is its own choice."""
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
        """What old runs refer to stays readable."""
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
        record = steps.create(store)
        paused = steps.pause(store, record)

        assert (2, 1, record.definition) == (
            paused.version,
            paused.definition_number,
            paused.definition,
        )

    def test_an_edit_replaces_the_one_timer(self, store: Store) -> None:
        """Editing touches one template and one timer."""
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
        """INV-14: concurrent edits don't overwrite each other silently."""
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
        record = steps.create(store)
        steps.create(store, "weekly")
        before = snapshot(store)

        with pytest.raises(Conflict):
            store.change_schedule(change_of(record, staying(record, name="weekly")))

        assert before == snapshot(store)

    def test_a_renamed_schedule_frees_its_name(self, store: Store) -> None:
        record = steps.create(store)
        steps.apply(store, record, staying(record, name="weekly"))

        assert store.find_schedule(record.tenant, "nightly") is None
        assert steps.create(store, id=new_schedule(store.now() + 1000).id).name == "nightly"

    def test_a_restored_schedule_needs_its_name_back(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Somebody else has taken it meanwhile."""
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
        """INV-19: one entry, in the same transaction."""
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
        """INV-14: what an order settles, it settles in the same transaction."""
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
        """INV-1: one microsecond early is early."""
        record = steps.create(store)
        settlement = steps.on_time_plan(record).settlement
        order = change_of(record, staying(record, pending=None, settlement=settlement))
        steps.fall_due(clock, record, late_us=-1)
        before = snapshot(store)

        with suppress(DulyError, AssertionError):
            assert isinstance(store.change_schedule(order), Stale)

        assert before == snapshot(store)


def hour_by_hour(record: ScheduleRecord) -> ScheduleChange:
    """Return a change by which the first hour is run, the second skipped, the third owed."""
    template = template_of(record)
    first, second, third, fourth = (record.created_at + hours * HOUR_US for hours in (1, 2, 3, 4))
    owed = CatchUpRange(
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
