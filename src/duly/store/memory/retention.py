"""Retention on the memory store: removing history, and remembering how far."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import Lane, ScheduleStatus
from duly.store.memory.access import forget_access
from duly.store.memory.alerting import forget_alerts
from duly.store.memory.attempts import forget_work, lease_of
from duly.store.memory.effects import forget_line
from duly.store.memory.limiting import forget_limits
from duly.store.memory.ownership import held_shards, seems_alive
from duly.store.memory.slots import still_ahead
from duly.store.memory.tables import OCCURRENCE_ORIGINS, Journal, RunRow
from duly.store.ports.dispatch import MemberId, MemberKind
from duly.store.ports.maintenance import Prune, Pruned, PruneKind
from duly.store.ports.schedules import NEAR_US
from duly.store.work_rulings import workers_kept_us

if TYPE_CHECKING:
    from duly.domain.ids import ScheduleId

ARRIVALS_KEPT_US = 10 * NEAR_US


def prune(journal: Journal, command: Prune) -> Pruned:
    """Remove what is past its retention, at most `limit` of each kind."""
    held, _ = held_shards(journal, command.fence, Lane.BACKFILL)
    counts = dict.fromkeys(PruneKind, 0)
    if 0 not in held:
        return Pruned(counts, has_more=False)
    counts[PruneKind.OUTCOMES] = _prune_runs(journal, command)
    counts[PruneKind.SKIPS] = _prune_skips(journal, command)
    counts[PruneKind.SCHEDULES] = _prune_schedules(journal, command)
    counts[PruneKind.MEMBERS] = _prune_members(journal, command)
    counts[PruneKind.ARRIVALS] = _prune_arrivals(journal, command)
    counts[PruneKind.ACCESS] = forget_access(journal, command.limit)
    counts[PruneKind.ALERTS] = forget_alerts(journal, command.limit)
    _forget_slots(journal)
    forget_limits(journal)
    _forget_workers(journal, command)
    return Pruned(counts, has_more=any(count >= command.limit for count in counts.values()))


def _prune_runs(journal: Journal, command: Prune) -> int:
    tables, retention = journal.tables, command.retention
    closed: dict[ScheduleId | None, list[RunRow]] = defaultdict(list)
    for run_id in tables.outcomes:
        row = tables.runs[run_id]
        closed[row.schedule_id].append(row)
    doomed: list[RunRow] = []
    for schedule_id, rows in closed.items():
        rows.sort(key=lambda row: row.id)
        kept = retention.runs_per_schedule
        surplus = len(rows) - kept if kept is not None and schedule_id is not None else 0
        doomed += [
            row
            for place, row in enumerate(rows)
            if place < surplus or _is_past(journal, command, row)
        ]
    doomed.sort(key=lambda row: row.id)
    for row in doomed[: command.limit]:
        journal.remove(tables.outcomes, row.id)
        journal.remove(tables.runs, row.id)
        forget_work(journal, row.id)
        forget_line(journal, row)
        if row.origin in OCCURRENCE_ORIGINS and row.schedule_id is not None:
            _remember(journal, row.schedule_id, row.scheduled_for)
    return len(doomed[: command.limit])


def _is_past(journal: Journal, command: Prune, row: RunRow) -> bool:
    outcome = journal.tables.outcomes[row.id]
    kept_us = command.retention.outcomes_us.get(outcome.state)
    return kept_us is not None and journal.now - outcome.finished_at > kept_us


def _prune_skips(journal: Journal, command: Prune) -> int:
    kept_us = command.retention.skips_us
    if kept_us is None:
        return 0
    rows = sorted(journal.tables.skips.items(), key=lambda item: (item[1].at, item[0]))
    # One that was ordered long ago may speak of an occurrence that is still to come.
    doomed = [(key, row) for key, row in rows if journal.now - max(row.at, row.last_for) > kept_us][
        : command.limit
    ]
    for key, row in doomed:
        journal.remove(journal.tables.skips, key)
        _remember(journal, row.schedule_id, row.last_for)
    return len(doomed)


def _remember(journal: Journal, schedule_id: ScheduleId, scheduled_for: int) -> None:
    """Note that up to here an occurrence without a trace is unknown, and not missing."""
    record = journal.tables.schedules.get(schedule_id)
    through = min(scheduled_for, journal.now)
    if record is not None and (record.pruned_through or through) <= through:
        changed = replace(record, pruned_through=through)
        journal.put(journal.tables.schedules, schedule_id, changed)


def _prune_schedules(journal: Journal, command: Prune) -> int:
    """Remove schedules that can no longer be restored, unless runs still speak of them."""
    tables, kept_us = journal.tables, command.retention.deleted_schedules_us
    if kept_us is None:
        return 0
    spoken_of = {row.schedule_id for row in tables.runs.values()}
    doomed = sorted(
        record.id
        for record in tables.schedules.values()
        if record.status is ScheduleStatus.DELETED
        and journal.now - record.updated_at > kept_us
        and record.id not in spoken_of
    )[: command.limit]
    for schedule_id in doomed:
        journal.remove(tables.schedules, schedule_id)
        for key in [key for key in tables.definitions if key[0] == schedule_id]:
            journal.remove(tables.definitions, key)
            journal.remove(tables.definition_times, key)
        for key in [key for key in tables.skips if key[0] == schedule_id]:
            journal.remove(tables.skips, key)
        for record in [one for one in tables.backfills.values() if one.schedule_id == schedule_id]:
            journal.remove(tables.backfills, record.id)
            for slot in [slot for slot in tables.backfill_slots if slot[0] == record.id]:
                journal.remove(tables.backfill_slots, slot)
    return len(doomed)


def _prune_members(journal: Journal, command: Prune) -> int:
    tables = journal.tables
    owners = {lease.owner for lease in tables.leases.values()}
    owners |= {MemberId(claim.worker) for claim in tables.claims.values()}
    doomed = sorted(
        member
        for member, row in tables.members.items()
        if not seems_alive(journal, row.id)
        and row.id not in owners
        and journal.now - row.expires_at > ARRIVALS_KEPT_US
    )[: command.limit]
    for member in doomed:
        lease = lease_of(journal, member)
        if lease is not None and tables.members[member].kind is MemberKind.WORKER:
            journal.put(tables.workers, member, lease)
        journal.remove(tables.members, member)
        journal.remove(tables.wake_addresses, member)
        journal.remove(tables.member_tasks, member)
    return len(doomed)


def _forget_workers(journal: Journal, command: Prune) -> None:
    """Forget workers of whom no history speaks any more."""
    workers, kept_us = journal.tables.workers, workers_kept_us(command.retention)
    if kept_us is None:
        return
    old = sorted(one for one in workers if journal.now - workers[one].expires_at > kept_us)
    for worker in old[: command.limit]:
        journal.remove(workers, worker)


def _forget_slots(journal: Journal) -> None:
    """Forget slots of retry budgets that have passed."""
    slots = journal.tables.retry_slots
    for task in list(slots):
        journal.put(slots, task, still_ahead(journal, task))


def _prune_arrivals(journal: Journal, command: Prune) -> int:
    arrivals = journal.tables.arrivals
    oldest = sorted(arrivals)[: command.limit]
    is_old = [journal.now - arrivals[number].at > ARRIVALS_KEPT_US for number in oldest]
    doomed = oldest[: (*is_old, False).index(False)]
    for number in doomed:
        journal.remove(arrivals, number)
    return len(doomed)
