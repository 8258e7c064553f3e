"""What tests of stores make things with: factories, snapshots, direct claims."""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.domain.audit import Actor
from duly.domain.enums import Lane, Origin, ScheduleStatus
from duly.domain.fire_planning import ScheduleVersion, plan_on_time
from duly.domain.ids import RunId, ScheduleId, ordered_run_id, schedule_id, shard_of
from duly.domain.outcomes import AttemptFacts, conclude
from duly.domain.runs import TaskPolicy
from duly.domain.schedule_changes import ScheduleChange, first_pending
from duly.domain.schedules import TENANT_DEFAULT, Call, Definition
from duly.store.ports.dispatch import FireDelayed, FirePlanned, Join, LoadTimers, MemberKind, Timer
from duly.store.ports.execution import WORKER_TTL_US, FinishAttempt
from duly.store.ports.operations import CancelRun, EditRun, OrderRuns
from duly.store.ports.queries import PAGE_MAX, AuditFilter, RunFilter, ScheduleFilter
from duly.store.ports.schedules import (
    AddRuns,
    CancelDelayed,
    ChangeSchedule,
    CreateSchedule,
    MoveDelayed,
    NewRun,
)
from duly.store.rulings import delayed_timer, schedule_timer
from duly.timetable.interval import every

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.effects import EffectRecord
    from duly.domain.outcomes import Conclusion, End
    from duly.domain.runs import DelayedRecord, RunRecord, SkipRecord
    from duly.domain.schedules import CatchUpRange, ScheduleRecord
    from duly.domain.verification import Scope
    from duly.store.ports import Store
    from duly.store.ports.dispatch import CatchUpRangeRecord
    from duly.store.ports.effects import AmbiguousRun, TaskOrder, VerdictRecord
    from duly.store.ports.execution import Claimed, ClaimedRun, ClaimRuns, ExecutionStore
    from duly.store.ports.queries import StoreStatus


class DirectClaims:
    """Claims at once, and keeps the answer until it is asked for."""

    def __init__(self, store: ExecutionStore) -> None:
        self._store = store

    def __call__(self, order: ClaimRuns) -> Callable[[], Claimed]:
        """Claim; what is raised is raised at once."""
        claimed = self._store.claim_runs(order)
        return lambda: claimed


SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US

ADA = Actor("ada", "test", "because", "192.0.2.7", "token:018f0000-0000-7000-8000-00000000000a")
"""Who gives orders in tests; over a network, so that whatever she orders tells from where."""
PROGRAM = replace(ADA, source="library")
"""A program of hers: what it enqueues is not on the audit trail."""


def definition(**parts: Any) -> Definition:
    """Return a template: hourly, of the task `report`, unless told otherwise."""
    names = ("task", "arguments", "queue", "priority")
    called: dict[str, Any] = {"task": "report"}
    called |= {name: parts.pop(name) for name in names if name in parts}
    call = Call(**called)
    given: dict[str, Any] = {"call": call, "timetable": every("1h")} | parts
    return Definition(**given)


def drawn(text: str) -> bytes:
    """Return ten bytes that stand for a text: what a draw would have been."""
    return blake2b(text.encode(), digest_size=10).digest()


def id_in_shard(now: int, text: str, shard: int, shards: int) -> ScheduleId:
    """Return an id for a schedule that lies in a shard."""
    found = schedule_id(now, drawn(text))
    number = 0
    while shard_of(found, shards) != shard:
        number += 1
        found = schedule_id(now, drawn(f"{text}{number}"))
    return found


def new_schedule(now: int, name: str = "nightly", **parts: Any) -> CreateSchedule:
    """Return the order to make a schedule; `parts` are those of the order or of its definition."""
    own = {key: parts.pop(key) for key in tuple(parts) if key in CreateSchedule.__slots__}
    template = own.pop("definition", None) or definition(**parts)
    tenant = own.get("tenant", TENANT_DEFAULT)
    identity = own.pop("id", None) or schedule_id(now, drawn(f"{tenant}/{name}"))
    order = CreateSchedule(
        id=identity,
        tenant=TENANT_DEFAULT,
        name=name,
        definition=template,
        pending=own.pop("pending", None) or first_pending(identity, template, now),
        owner=None,
        declared_by=None,
        actor=ADA,
    )
    return replace(order, **own)


def change_of(record: ScheduleRecord, change: ScheduleChange, actor: Actor = ADA) -> ChangeSchedule:
    """Return the order to apply a change to a schedule as it was seen."""
    return ChangeSchedule(
        id=record.id,
        expected_version=record.version,
        expected_pending=record.pending,
        change=change,
        actor=actor,
    )


def staying(record: ScheduleRecord, **parts: Any) -> ScheduleChange:
    """Return a change that leaves a schedule as it is, but for what is given."""
    change = ScheduleChange(
        action="schedule.edited",
        status=record.status,
        pending=record.pending,
        held_for=record.held_for,
        reason=record.reason,
    )
    return replace(change, **parts)


def run_id(text: str, at: int = 0) -> RunId:
    """Return the id that a caller would make for a run it asks for."""
    return ordered_run_id("once", at, drawn(text))


def new_run(due_at: int | None, text: str = "reminder", **parts: Any) -> NewRun:
    """Return a run to ask for: at an instant, or at once when that is None."""
    at_once = due_at is None and parts.get("delay_us") is None
    asked = NewRun(
        id=run_id(text, due_at or 0),
        tenant=TENANT_DEFAULT,
        call=Call(task="remind", arguments='{"class":42}'),
        origin=Origin.NOW if at_once else Origin.DELAY,
        lane=Lane.LIVE,
        due_at=due_at,
        fingerprint=f"{text}@{due_at}",
    )
    return replace(asked, **parts)


def add_runs(*runs: NewRun) -> AddRuns:
    """Return the order to make runs."""
    return AddRuns(runs=runs, actor=PROGRAM)


def move(target: str | RunId, due_at: int | None, **parts: Any) -> MoveDelayed:
    """Return the order to move a delayed run, by its key (a text) or its id (bytes)."""
    order = MoveDelayed(
        tenant=TENANT_DEFAULT,
        key=target if isinstance(target, str) else None,
        id=None if isinstance(target, str) else target,
        due_at=due_at,
        delay_us=None,
        is_late_ok=False,
        actor=ADA,
    )
    return replace(order, **parts)


def cancel(target: str | RunId, **parts: Any) -> CancelDelayed:
    """Return the order to cancel a delayed run, by its key (a text) or its id (bytes)."""
    order = CancelDelayed(
        tenant=TENANT_DEFAULT,
        key=target if isinstance(target, str) else None,
        id=None if isinstance(target, str) else target,
        actor=ADA,
    )
    return replace(order, **parts)


def dispatcher(**parts: Any) -> Join:
    """Return the order by which a dispatcher joins."""
    return replace(Join(kind=MemberKind.DISPATCHER, host="here", process=1), **parts)


def timer_of(record: ScheduleRecord) -> Timer:
    """Return a schedule's timer, as loading gives it."""
    timer = schedule_timer(record)
    assert timer is not None, "only a pending occurrence has a timer"
    return timer


def timer_of_delayed(record: DelayedRecord, shards: int) -> Timer:
    """Return a delayed run's timer, as loading gives it."""
    return delayed_timer(record, shards)


def template_of(record: ScheduleRecord) -> ScheduleVersion:
    """Return what planning asks for about a schedule."""
    return ScheduleVersion(record.id, record.definition_number, record.definition)


def on_time(record: ScheduleRecord, **parts: Any) -> FirePlanned:
    """Return the fire of a schedule's pending occurrence, as planned ahead of time."""
    assert record.pending is not None, "only a pending occurrence can be fired"
    fire = FirePlanned(
        timer=timer_of(record),
        plan=plan_on_time(template_of(record), record.pending),
        late_after=record.pending.due_at + record.definition.misfire.grace_us,
    )
    return fire._replace(**parts)


def delayed_fire(record: DelayedRecord, shards: int) -> FireDelayed:
    """Return the fire of a delayed run."""
    return FireDelayed(timer_of_delayed(record, shards))


def worker(**parts: Any) -> Join:
    """Return the order by which a worker joins."""
    order = Join(kind=MemberKind.WORKER, host="there", process=2, ttl_us=WORKER_TTL_US, slots=10)
    return replace(order, **parts)


def concluded(
    end: End,
    claimed: ClaimedRun,
    policy: TaskPolicy | None = None,
    *,
    has_begun_effects: bool = False,
) -> Conclusion:
    """Return what becomes of a run after an attempt that ended so."""
    attempted = AttemptFacts(
        run_id=claimed.record.id,
        policy=policy or TaskPolicy(),
        tries=claimed.tries,
        now=claimed.claimed_at,
        has_begun_effects=has_begun_effects,
    )
    return conclude(end, attempted)


def finish(claimed: ClaimedRun, end: End, **parts: Any) -> FinishAttempt:
    """Return the end of an attempt that was started as soon as it was claimed."""
    given = {name: parts.pop(name) for name in ("policy", "has_begun_effects") if name in parts}
    order = FinishAttempt(
        hold=claimed.hold,
        started_at=claimed.claimed_at,
        conclusion=concluded(end, claimed, **given),
    )
    return replace(order, **parts)


def order_runs(*ids: RunId, **parts: Any) -> OrderRuns:
    """Return an order about runs."""
    return replace(OrderRuns(tenant=TENANT_DEFAULT, ids=ids, actor=ADA), **parts)


def cancel_run(run: RunId, **parts: Any) -> CancelRun:
    """Return the order to cancel a run."""
    return replace(CancelRun(tenant=TENANT_DEFAULT, id=run, actor=ADA), **parts)


def edit_run(run: RunId, arguments: str, **parts: Any) -> EditRun:
    """Return the order to give a dead run other arguments."""
    order = EditRun(tenant=TENANT_DEFAULT, id=run, arguments=arguments, actor=ADA)
    return replace(order, **parts)


FAR_US = 1 << 60


class Result(NamedTuple):
    """What is known of what a run has done, beside its attempts."""

    run_id: RunId
    effects: tuple[EffectRecord, ...]
    scope: Scope
    verdicts: tuple[VerdictRecord, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What a store shows at one moment."""

    schedules: tuple[ScheduleRecord, ...]
    runs: tuple[RunRecord, ...]
    delayed: tuple[DelayedRecord, ...]
    skips: tuple[SkipRecord, ...]
    owed: tuple[CatchUpRange, ...]
    timers: tuple[Timer, ...]
    drainable: tuple[CatchUpRangeRecord, ...]
    doubts: tuple[AmbiguousRun, ...]
    results: tuple[Result, ...]
    task_orders: tuple[tuple[str, TaskOrder], ...]
    audit: tuple[AuditEntry, ...]
    status: StoreStatus

    def without_audit(self) -> Snapshot:
        """Return it without the trail: a refusal may be recorded, and change nothing else."""
        return replace(self, audit=())


def snapshot(store: Store, tenants: Sequence[str] = (TENANT_DEFAULT,)) -> Snapshot:
    """Read all there is, of stores that hold as much as a test writes."""
    schedules: list[ScheduleRecord] = []
    runs: list[RunRecord] = []
    delayed: list[DelayedRecord] = []
    every_status = frozenset(ScheduleStatus)
    for tenant in tenants:
        schedules += store.list_schedules(ScheduleFilter(tenant=tenant, statuses=every_status))
        runs += store.list_runs(RunFilter(tenant=tenant))
        delayed += store.list_delayed(tenant, PAGE_MAX)
    status = store.status()
    shards = tuple(range(status.shards))
    loaded = store.load_timers(LoadTimers(shards=shards, after=None, until=FAR_US, limit=PAGE_MAX))
    return Snapshot(
        schedules=tuple(sorted(schedules, key=lambda record: record.id)),
        runs=tuple(runs),
        delayed=tuple(sorted(delayed, key=lambda record: record.id)),
        skips=tuple(skip for one in schedules for skip in _skips(store, one)),
        owed=tuple(owed for one in schedules for owed in store.list_owed(one.id)),
        timers=tuple(sorted(loaded.timers, key=lambda timer: (timer.due_at, timer.ref))),
        drainable=tuple(_drainable(store, shards)),
        doubts=tuple(store.list_doubts(None, PAGE_MAX)),
        # Nobody but an attempt has effects or a scope.
        results=tuple(_result(store, run.id) for run in runs if run.tries.fence),
        task_orders=tuple(sorted(store.task_orders().items())),
        audit=tuple(store.list_audit(AuditFilter())),
        status=status,
    )


def _result(store: Store, run_id: RunId) -> Result:
    effects = tuple(store.list_effects(run_id, PAGE_MAX))
    return Result(run_id, effects, store.get_scope(run_id), tuple(store.list_verdicts(run_id)))


def _skips(store: Store, schedule: ScheduleRecord) -> list[SkipRecord]:
    # Two ranges of one moment have no order of their own.
    return sorted(store.list_skips(schedule.id, PAGE_MAX), key=lambda skip: skip.first_for)


def _drainable(store: Store, shards: tuple[int, ...]) -> list[CatchUpRangeRecord]:
    found = store.load_owed(shards, PAGE_MAX)
    return sorted(found, key=lambda record: (record.owed.schedule_id, record.owed.first_for))
