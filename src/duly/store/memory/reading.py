"""Looking at the memory store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import ScheduleStatus
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.runs import (
    OccurrenceStatus,
    OccurrenceStatusKind,
    RunRecord,
    status_of_run,
)
from duly.domain.vitals import RunSpan
from duly.store.memory.attempts import call_of, place_of
from duly.store.memory.ownership import seems_alive
from duly.store.ports.audit import AuditAfter, TrailPage, decided_page
from duly.store.ports.queries import (
    AuditFilter,
    RunFilter,
    ScheduleFilter,
    ScheduleSnapshot,
    StoreStatus,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.schedules import ScheduleRecord
    from duly.store.memory.tables import Journal, RunRow


def find_schedule(journal: Journal, tenant: str, name: str) -> ScheduleSnapshot | None:
    """Return the schedule of a name; of deleted ones the last, if no other has it."""
    tables = journal.tables
    if (tenant, name) in tables.names:
        return ScheduleSnapshot(tables.schedules[tables.names[tenant, name]], journal.now)
    deleted = [
        record
        for record in tables.schedules.values()
        if (record.tenant, record.name) == (tenant, name)
    ]
    if not deleted:
        return None
    return ScheduleSnapshot(
        max(deleted, key=lambda record: (record.updated_at, record.id)), journal.now
    )


def list_schedules(journal: Journal, command: ScheduleFilter) -> list[ScheduleRecord]:
    """Return schedules in order of tenant, name and id."""
    found = [record for record in journal.tables.schedules.values() if _matches(record, command)]
    found.sort(key=_order)
    return found[: command.limit]


def _order(record: ScheduleRecord) -> tuple[str, str, ScheduleId]:
    return (record.tenant, record.name, record.id)


def _matches(record: ScheduleRecord, command: ScheduleFilter) -> bool:
    statuses = command.statuses or frozenset(ScheduleStatus) - {ScheduleStatus.DELETED}
    return (
        command.tenant in (None, record.tenant)
        and record.status in statuses
        and command.task in (None, record.definition.call.task)
        and command.owner in (None, record.owner)
        and command.declared_by in (None, record.declared_by)
        and record.name.startswith(command.name_prefix or "")
        and (command.names is None or record.name in command.names)
        and (command.after is None or _order(record) > command.after)
    )


def run_record(journal: Journal, row: RunRow) -> RunRecord:
    """Return a run with where it is, or what became of it."""
    tables = journal.tables
    schedule = None if row.schedule_id is None else tables.schedules.get(row.schedule_id)
    return RunRecord(
        id=row.id,
        tenant=row.tenant,
        schedule_id=row.schedule_id,
        schedule_name=None if schedule is None else schedule.name,
        definition_number=row.definition_number,
        key=row.key,
        call=call_of(journal, row),
        origin=row.origin,
        lane=row.lane,
        root=row.id if row.root is None else row.root,
        scheduled_for=row.scheduled_for,
        not_before=row.not_before,
        window_from=row.window_from,
        created_at=row.created_at,
        fired_at=row.fired_at,
        **place_of(journal, row.id),
    )


def get_run(journal: Journal, run_id: RunId) -> RunRecord | None:
    """Return a run."""
    row = journal.tables.runs.get(run_id)
    return None if row is None else run_record(journal, row)


def list_runs(journal: Journal, command: RunFilter) -> list[RunRecord]:
    """Return runs, newest first by id."""
    found: list[RunRecord] = []
    for run_id in sorted(journal.tables.runs, reverse=True):
        row = journal.tables.runs[run_id]
        if command.before_id is not None and run_id >= command.before_id:
            continue
        record = run_record(journal, row)
        if _run_matches(record, command):
            found.append(record)
        if len(found) >= command.limit:
            break
    return found


def _run_matches(record: RunRecord, command: RunFilter) -> bool:
    return (
        record.tenant == command.tenant
        and command.schedule_id in (None, record.schedule_id)
        and command.key in (None, record.key)
        and command.task in (None, record.call.task)
        and command.queue in (None, record.call.queue)
        and command.reason in (None, record.state_reason)
        and (command.error is None or (record.error is not None and command.error in record.error))
        and (command.states is None or record.state in command.states)
        and (command.origins is None or record.origin in command.origins)
        and command.lane in (None, record.lane)
        and command.root in (None, record.root)
        and command.worker in (None, record.worker)
        and (command.since is None or record.scheduled_for >= command.since)
        and (command.until is None or record.scheduled_for < command.until)
    )


def judge(
    journal: Journal, schedule_id: ScheduleId, instants: Sequence[int]
) -> list[OccurrenceStatus]:
    """Say what is known about each occurrence."""
    return [_judge(journal, schedule_id, instant) for instant in instants]


def _judge(journal: Journal, schedule_id: ScheduleId, instant: int) -> OccurrenceStatus:
    found = _recorded(journal, schedule_id, instant)
    if found is not None:
        return found
    record = journal.tables.schedules.get(schedule_id)
    if record is None:
        return OccurrenceStatus(instant, OccurrenceStatusKind.UNKNOWN)
    coming = record.pending.scheduled_for if record.pending else record.held_for
    if coming is not None and instant >= coming:
        return OccurrenceStatus(instant, OccurrenceStatusKind.PENDING)
    is_pruned = record.pruned_through is not None and instant <= record.pruned_through
    return OccurrenceStatus(
        instant, OccurrenceStatusKind.UNKNOWN if is_pruned else OccurrenceStatusKind.MISSING
    )


def _recorded(journal: Journal, schedule_id: ScheduleId, instant: int) -> OccurrenceStatus | None:
    tables = journal.tables
    run_id = occurrence_run_id(schedule_id, instant)
    if run_id in tables.runs:
        outcome = tables.outcomes.get(run_id)
        closed = (None, None) if outcome is None else (outcome.state, outcome.into)
        return status_of_run(instant, run_id, *closed)
    for skip in tables.skips.values():
        if skip.schedule_id == schedule_id and skip.first_for <= instant <= skip.last_for:
            return OccurrenceStatus(instant, OccurrenceStatusKind.SKIPPED, skip.into, skip.reason)
    for row in tables.owed.values():
        owed = row.owed
        if owed.schedule_id == schedule_id and owed.first_for <= instant <= owed.last_for:
            return OccurrenceStatus(instant, OccurrenceStatusKind.OWED)
    return None


def list_run_times(
    journal: Journal, schedule_ids: Sequence[ScheduleId], limit: int
) -> dict[ScheduleId, list[RunSpan]]:
    """Return from when to when the newest runs of each were open."""
    tables = journal.tables
    found: dict[ScheduleId, list[RunSpan]] = {}
    for one in schedule_ids:
        rows = [row for row in tables.runs.values() if row.schedule_id == one]
        newest = sorted(rows, key=lambda row: row.id, reverse=True)[:limit]
        for record in (run_record(journal, row) for row in newest):
            is_counted = record.finished_at is None or record.started_at is not None
            if is_counted and record.fired_at is not None and record.id not in tables.dead:
                span = RunSpan(record.fired_at, record.finished_at)
                found.setdefault(one, []).append(span)
    return found


def list_audit(journal: Journal, command: AuditFilter) -> list[AuditEntry]:
    """Return audit entries, newest first."""
    found = [
        entry
        for entry in journal.tables.audit.values()
        if command.tenant in (None, entry.tenant)
        and command.subject_id in (None, entry.subject_id)
        and command.subject in (None, entry.subject)
        and command.action in (None, entry.action)
        and command.actor in (None, entry.actor.name)
        and (command.since is None or entry.at >= command.since)
        and (command.until is None or entry.at < command.until)
        and (command.before_number is None or entry.number < command.before_number)
    ]
    found.sort(key=lambda entry: entry.number, reverse=True)
    return found[: command.limit]


def follow_audit(journal: Journal, command: AuditAfter) -> TrailPage:
    """Return audit entries after a number, oldest first."""
    trail = sorted(journal.tables.audit.values(), key=lambda entry: entry.number)
    if command.after is None:
        return decided_page(command, trail[-1:], lambda _: False)
    found = [entry for entry in trail if entry.number > command.after][: command.limit]
    return decided_page(command, found, lambda _: False)


def status(journal: Journal) -> StoreStatus:
    """Return the state of the store."""
    tables, now = journal.tables, journal.now
    dues = [record.pending.due_at for record in tables.schedules.values() if record.pending]
    dues += [delayed.due_at for delayed in tables.delayed.values()]
    dues += [waiting.due_at for waiting in tables.waiting.values()]
    holders = Counter(claim.worker for claim in tables.claims.values())
    overdue = [due for due in dues if due <= now]
    early = sum(
        row.fired_at is not None and row.fired_at < row.not_before for row in tables.runs.values()
    )
    return StoreStatus(
        now=now,
        schedules=Counter(record.status for record in tables.schedules.values()),
        delayed=len(tables.delayed),
        queued=len(tables.ready),
        owed=len(tables.owed),
        overdue=len(overdue),
        oldest_due_at=min(overdue, default=None),
        next_due_at=min((due for due in dues if due > now), default=None),
        early_fires=early,
        members=tuple(
            replace(row, running=holders[row.id])
            for row in tables.members.values()
            if seems_alive(journal, row.id)
        ),
        leases=tuple(tables.leases[key] for key in sorted(tables.leases)),
        shards=tables.shards,
        tzdata=tables.cluster["tzdata"],
        incarnation=tables.cluster["incarnation"],
        queues=Counter(call_of(journal, tables.runs[run_id]).queue for run_id in tables.ready),
        running=len(tables.claims),
        retrying=len(tables.waiting),
        dead=len(tables.dead),
        ambiguous=len(tables.in_doubt),
        paused_queues=tuple(sorted(tables.paused_queues)),
    )
