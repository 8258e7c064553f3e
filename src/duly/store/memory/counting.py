"""Counting what is whose, on the memory store."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.store.memory.attempts import call_of
from duly.store.ports.dispatch import MemberId
from duly.store.ports.queries import OpenCounts, OwnQueue, TenantCounts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.domain.ids import RunId
    from duly.store.memory.tables import Journal


def count_tenant(journal: Journal, tenant: str) -> TenantCounts:
    """Count what is a tenant's."""
    tables, now = journal.tables, journal.now

    def own(run_ids: Iterable[RunId]) -> list[RunId]:
        return [one for one in run_ids if tables.runs[one].tenant == tenant]

    def queue(run_id: RunId) -> str:
        return call_of(journal, tables.runs[run_id]).queue

    schedules = [one for one in tables.schedules.values() if one.tenant == tenant]
    delayed = [one for one in tables.delayed.values() if one.tenant == tenant]
    dues = [one.pending.due_at for one in schedules if one.pending]
    dues += [one.due_at for one in delayed]
    dues += [tables.waiting[one].due_at for one in own(tables.waiting)]
    overdue = [due for due in dues if due <= now]
    queued: dict[str, list[int]] = {}
    for run_id in own(tables.ready):
        queued.setdefault(queue(run_id), []).append(tables.ready[run_id].fired_at)
    claimed = own(tables.claims)
    running = Counter(queue(one) for one in claimed)
    ids = {one.id for one in schedules}
    return TenantCounts(
        schedules=Counter(one.status for one in schedules),
        delayed=len(delayed),
        owed=sum(schedule_id in ids for schedule_id, _ in tables.owed),
        overdue=len(overdue),
        oldest_due_at=min(overdue, default=None),
        next_due_at=min((due for due in dues if due > now), default=None),
        retrying=len(own(tables.waiting)),
        dead=len(own(tables.dead)),
        ambiguous=len(own(tables.in_doubt)),
        queues={
            name: OwnQueue(len(since), min(since, default=None), running[name])
            for name in sorted({*queued, *running})
            for since in [queued.get(name, [])]
        },
        held=Counter(MemberId(tables.claims[one].worker) for one in claimed),
    )


def count_tenants(journal: Journal) -> dict[str, OpenCounts]:
    """Count open runs by tenant."""
    tables = journal.tables
    places = (tables.ready, tables.claims, tables.waiting, tables.dead, tables.in_doubt)
    counted = [Counter(tables.runs[one].tenant for one in place) for place in places]
    tenants = sorted({tenant for place in counted for tenant in place})
    return {tenant: OpenCounts(*(place[tenant] for place in counted)) for tenant in tenants}
