"""A snapshot: all that can be read of a store, to compare two stores, or one before and after."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duly.domain.literals import ScheduleStatus
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import LoadTimers
from duly.store.reading import PAGE_MAX, AuditFilter, RunFilter, ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.runs import DelayedRecord, RunRecord, SkipRecord
    from duly.domain.schedules import Owed, ScheduleRecord
    from duly.store.dispatch import OwedRecord, Timer
    from duly.store.protocol import Store
    from duly.store.reading import StoreStatus

FAR_US = 1 << 60


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
        audit=tuple(store.list_audit(AuditFilter())),
        status=status,
    )


def _skips(store: Store, schedule: ScheduleRecord) -> list[SkipRecord]:
    # Two ranges of one moment have no order of their own.
    return sorted(store.list_skips(schedule.id, PAGE_MAX), key=lambda skip: skip.first_for)


def _drainable(store: Store, shards: tuple[int, ...]) -> list[OwedRecord]:
    found = store.load_owed(shards, PAGE_MAX)
    return sorted(found, key=lambda record: (record.owed.schedule_id, record.owed.first_for))
