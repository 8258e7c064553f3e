"""A snapshot: all that can be read of a store, to compare two stores, or one before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.literals import ScheduleStatus
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import LoadTimers
from duly.store.reading import PAGE_MAX, AuditFilter, RunFilter, ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.effects import EffectRecord
    from duly.domain.identity import RunId
    from duly.domain.runs import DelayedRecord, RunRecord, SkipRecord
    from duly.domain.schedules import Owed, ScheduleRecord
    from duly.domain.scope import Scope
    from duly.store.dispatch import OwedRecord, Timer
    from duly.store.effects import DoubtRecord, TaskOrder, VerdictRecord
    from duly.store.protocol import Store
    from duly.store.reading import StoreStatus

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
    owed: tuple[Owed, ...]
    timers: tuple[Timer, ...]
    drainable: tuple[OwedRecord, ...]
    doubts: tuple[DoubtRecord, ...]
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


def _drainable(store: Store, shards: tuple[int, ...]) -> list[OwedRecord]:
    found = store.load_owed(shards, PAGE_MAX)
    return sorted(found, key=lambda record: (record.owed.schedule_id, record.owed.first_for))
