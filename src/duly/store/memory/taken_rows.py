"""Rows as databases have them, put into the memory store's tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from duly.domain.backfill import BackfillOccurrenceKind
from duly.domain.enums import AttemptState, Lane, Missed, Origin, RunState, ScheduleStatus
from duly.domain.ids import BackfillId, RunId, ScheduleId
from duly.domain.limits import RateState
from duly.domain.quotas import Counted, Quota, QuotaKey
from duly.domain.runs import (
    AttemptCounts,
    LateReport,
    LineRecord,
    LogLine,
    ProgressRecord,
    stored_policy,
)
from duly.domain.schedules import Call, NextOccurrence, ScheduleRecord
from duly.store.alert_rulings import read_term
from duly.store.backfill_rows import backfill_record
from duly.store.limit_rows import breaker_of, limit_record
from duly.store.memory.tables import (
    Blocked,
    Claim,
    Dead,
    Ended,
    InDoubt,
    Outcome,
    PausedQueue,
    Ready,
    RunRow,
    ScopeItem,
    Waiting,
)
from duly.store.ports.backfill import BackfillOccurrenceRecord
from duly.store.ports.dispatch import Member, MemberId, MemberKind
from duly.store.ports.effects import TaskOrder
from duly.store.ports.execution import ClaimRef
from duly.store.ports.transfer import PARTS
from duly.store.records import (
    delayed_record,
    effect_record,
    owed_record,
    progress_of,
    read_definition,
    skip_record,
    verdict_record,
)
from duly.store.retry_slots import ReservedSlots
from duly.store.work_rulings import WorkerLease

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.memory.tables import Journal
    from duly.store.ports.transfer import PartRow

_Put = tuple["dict[Any, Any]", Any, Any]
"""A table, the key of a row there, and the row."""


def write_row(journal: Journal, part: str, row: PartRow) -> bool:
    """Write a row, unless it is there; say whether it was not."""
    table, key, value = _WRITERS[part](journal, row)
    if key in table and part not in _GROWING:
        return False
    journal.put(table, key, value)
    if part == "delayed" and row["key"] is not None:
        name = (str(row["tenant"]), str(row["key"]))
        journal.put(journal.tables.keys, name, cast("RunId", row["id"]))
    if part == "schedule_definitions":
        journal.put(journal.tables.definition_times, key, cast("int", row["made_at"]))
    if part == "blocked":
        journal.tables.gate_number = max(journal.tables.gate_number, value.number)
    return True


def write_schedule(journal: Journal, schedule: PartRow, state: PartRow) -> None:
    """Write a schedule whose definitions are written."""
    row: dict[str, Any] = schedule
    told: dict[str, Any] = state
    tables = journal.tables
    identity = ScheduleId(row["id"])
    plain = """version definition_number shard last_for last_run last_fired_at fires held_for
        pruned_through active_run overlaps"""
    names = "tenant name owner declared_by reason resume_at created_at updated_at updated_by"
    pending = (
        None if told["next_for"] is None else NextOccurrence(told["next_for"], told["next_due"])
    )
    record = ScheduleRecord(
        id=identity,
        **{name: row[name] for name in names.split()},
        **{name: told[name] for name in plain.split()},
        status=ScheduleStatus(row["status"]),
        resume_missed=None if row["resume_missed"] is None else Missed(row["resume_missed"]),
        status_before=_status(row["status_before"]),
        definition=tables.definitions[identity, told["definition_number"]],
        pending=pending,
    )
    journal.put(tables.schedules, identity, record)
    if record.status is not ScheduleStatus.DELETED:
        journal.put(tables.names, (record.tenant, record.name), identity)


def _status(value: str | None) -> ScheduleStatus | None:
    return None if value is None else ScheduleStatus(value)


def _tries(row: dict[str, Any]) -> AttemptCounts:
    return AttemptCounts(row["fence"], row["attempt"], row["charged"], row["begun_at"])


def _claim(row: dict[str, Any], tries: AttemptCounts) -> Claim:
    return Claim(
        worker=row["worker"],
        tries=tries,
        claimed_at=row["claimed_at"],
        deadline=row.get("deadline_at"),
        started_at=row["started_at"],
        progress=progress_of(row["progress_done"], row["progress_total"], row["progress_note"]),
        progress_at=row["progress_at"],
        cancel_asked_at=row["cancel_asked_at"],
        replaced_by=row.get("replaced_by"),
        effects_at=row["effects_at"],
        is_unsafe=row.get("is_unsafe"),
    )


def _late(row: dict[str, Any]) -> LateReport | None:
    if row["late_state"] is None:
        return None
    state = AttemptState(row["late_state"])
    return LateReport(
        state=state, at=row["late_at"], error=row["late_error"], result=row["late_result"]
    )


def _ordered(part: str, row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[column.name] for column in PARTS[part].columns)


def _task(journal: Journal, row: dict[str, Any]) -> _Put:
    name, tables = row["name"], journal.tables
    if row["policy"] is not None and name not in tables.policies:
        journal.put(tables.policies, name, stored_policy(row["policy"]))
    return tables.tasks, name, journal.now


def _slot(journal: Journal, row: dict[str, Any]) -> _Put:
    table = journal.tables.retry_slots
    taken = ReservedSlots(row["first_at"], row["last_at"])
    return table, row["task"], tuple(sorted((*table.get(row["task"], ()), taken)))


def _member(journal: Journal, row: dict[str, Any]) -> _Put:
    journal.put(journal.tables.wake_addresses, row["id"], "")
    names = "host process started_at renewed_at expires_at"
    member = Member(
        id=MemberId(row["id"]),
        kind=MemberKind.WORKER,
        **{name: row[name] for name in names.split()},
        is_alive=False,
        skew_us=0,
        is_holding=False,
        tzdata="",
    )
    return journal.tables.members, row["id"], member


def _worker(journal: Journal, row: dict[str, Any]) -> _Put:
    lease = WorkerLease(row["host"], row["process"], row["renewed_at"], row["expires_at"])
    return journal.tables.workers, row["id"], lease


def _quota(journal: Journal, row: dict[str, Any]) -> _Put:
    key, counted = QuotaKey(row["scope"], row["tenant"]), Counted(row["counted"])
    names = "most version updated_at updated_by"
    quota = Quota(key=key, counted=counted, **{name: row[name] for name in names.split()})
    return journal.tables.quotas, (key, counted), quota


def _term(journal: Journal, row: dict[str, Any]) -> _Put:
    term = read_term(_ordered("alert_terms", row))
    return journal.tables.alert_terms, (term.sort, term.name), term


def _limit(journal: Journal, row: dict[str, Any]) -> _Put:
    record = limit_record(_ordered("limits", row))
    return journal.tables.limits, (record.scope, record.source), record


def _breaker(journal: Journal, row: dict[str, Any]) -> _Put:
    name, *told, since = _ordered("breakers", row)
    return journal.tables.breakers, name, (breaker_of(tuple(told)), since)


def _delayed(journal: Journal, row: dict[str, Any]) -> _Put:
    names = """id tenant key task arguments queue priority due_at generation fingerprint
        created_at"""
    record = delayed_record(tuple(row[name] for name in names.split()))
    return journal.tables.delayed, record.id, record


def _owed(journal: Journal, row: dict[str, Any]) -> _Put:
    names = "schedule_id first_for last_for definition_number shard created_at"
    record = owed_record(tuple(row[name] for name in names.split()))
    return journal.tables.owed, (record.owed.schedule_id, record.owed.first_for), record


def _run(journal: Journal, row: dict[str, Any]) -> _Put:
    names = """id tenant schedule_id definition_number key root scheduled_for not_before
        window_from created_at fired_at"""
    call = None
    if row["arguments"] is not None:
        call = Call(**{name: row[name] for name in ("task", "arguments", "queue", "priority")})
    run = RunRow(
        **{name: row[name] for name in names.split()},
        call=call,
        origin=Origin(row["origin"]),
        lane=Lane(row["lane"]),
    )
    return journal.tables.runs, run.id, run


def _ready(journal: Journal, row: dict[str, Any]) -> _Put:
    place = Ready(row["rank"], row["fired_at"], _tries(row), row["priority"])
    return journal.tables.ready, row["run_id"], place


def _blocked(journal: Journal, row: dict[str, Any]) -> _Put:
    place = Blocked(row["gate"], row["priority"], row["number"], row["since"], _tries(row))
    return journal.tables.blocked, row["run_id"], place


def _outcome(journal: Journal, row: dict[str, Any]) -> _Put:
    tries = _tries(row)
    outcome = Outcome(
        RunState(row["state"]),
        row["reason"],
        row["finished_at"],
        tries,
        claim=None if row["worker"] is None else _claim(row, tries),
        error=row["error"],
        result=row["result"],
        late=_late(row),
        into=row["into_run"],
    )
    return journal.tables.outcomes, row["run_id"], outcome


def _attempt(journal: Journal, row: dict[str, Any]) -> _Put:
    ended = Ended(
        claim=_claim(row, AttemptCounts(row["fence"], row["number"] or 0, 0, row["claimed_at"])),
        number=row["number"],
        state=AttemptState(row["state"]),
        reason=row["reason"],
        error=row["error"],
        ended_at=row["ended_at"],
        late=_late(row),
    )
    return journal.tables.attempts, (row["run_id"], row["fence"]), ended


def _step(journal: Journal, row: dict[str, Any]) -> _Put:
    table, run_id = journal.tables.progress, row["run_id"]
    progress = progress_of(row["done"], row["total"], row["note"])
    assert progress is not None, "a step says how far"
    step = ProgressRecord(row["fence"], row["at"], progress)
    return table, run_id, (*table.get(run_id, ()), step)


def _line(journal: Journal, row: dict[str, Any]) -> _Put:
    table, run_id = journal.tables.lines, row["run_id"]
    known = table.get(run_id, ())
    line = LogLine(row["at"], row["level"], row["text"])
    return table, run_id, (*known, LineRecord(len(known) + 1, row["fence"], line))


def _effect(journal: Journal, row: dict[str, Any]) -> _Put:
    record = effect_record(_ordered("effects", row))
    return journal.tables.effects, (record.root, record.key), record


def _item(journal: Journal, row: dict[str, Any]) -> _Put:
    by = None if row["run_id"] is None else ClaimRef(RunId(row["run_id"]), row["fence"])
    item = ScopeItem(row["is_expected"], row["times"], by, row["at"])
    return journal.tables.scope_items, (row["root"], row["item"]), item


def _verdict(journal: Journal, row: dict[str, Any]) -> _Put:
    record = verdict_record(_ordered("verdicts", row))
    return journal.tables.verdicts, (record.run_id, record.number), record


def _skip(journal: Journal, row: dict[str, Any]) -> _Put:
    record = skip_record(_ordered("skips", row))
    return journal.tables.skips, (record.schedule_id, record.first_for), record


def _backfill(journal: Journal, row: dict[str, Any]) -> _Put:
    told = _ordered("backfills", row)
    schedule = journal.tables.schedules[ScheduleId(row["schedule_id"])]
    record = backfill_record((*told[:3], schedule.name, *told[3:17], 0, *told[17:]))
    return journal.tables.backfills, record.id, record


def _backfill_slot(journal: Journal, row: dict[str, Any]) -> _Put:
    slot = BackfillOccurrenceRecord(
        row["scheduled_for"], BackfillOccurrenceKind(row["kind"]), row["run_id"]
    )
    key = (BackfillId(row["backfill_id"]), slot.scheduled_for)
    return journal.tables.backfill_slots, key, slot


_GROWING = frozenset(("retry_slots", "progress", "lines"))
"""Of which several rows are one here."""
_WRITERS: dict[str, Callable[[Journal, dict[str, Any]], _Put]] = {
    "workers": _worker,
    "members": _member,
    "tasks": _task,
    "retry_slots": _slot,
    "task_orders": lambda journal, row: (
        journal.tables.task_orders,
        row["task"],
        TaskOrder(row["is_suspended"], row["is_blocked"]),
    ),
    "queues": lambda journal, row: (
        journal.tables.paused_queues,
        row["name"],
        PausedQueue(row["paused_at"], row["paused_by"], row["reason"]),
    ),
    "limits": _limit,
    "quotas": _quota,
    "alert_terms": _term,
    "paces": lambda journal, row: (
        journal.tables.paces,
        row["place"],
        RateState(row["promised_at"], row["begun_at"], row["again_at"]),
    ),
    "breakers": _breaker,
    "schedule_definitions": lambda journal, row: (
        journal.tables.definitions,
        (row["schedule_id"], row["number"]),
        read_definition(row["definition"]),
    ),
    "owed": _owed,
    "skips": _skip,
    "delayed": _delayed,
    "runs": _run,
    "ready": _ready,
    "claims": lambda journal, row: (
        journal.tables.claims,
        row["run_id"],
        _claim(row, _tries(row)),
    ),
    "waiting": lambda journal, row: (
        journal.tables.waiting,
        row["run_id"],
        Waiting(row["due_at"], _tries(row), row["reason"]),
    ),
    "dead": lambda journal, row: (
        journal.tables.dead,
        row["run_id"],
        Dead(row["reason"], row["died_at"], _tries(row)),
    ),
    "ambiguous": lambda journal, row: (
        journal.tables.in_doubt,
        row["run_id"],
        InDoubt(row["reason"], row["since"], _tries(row)),
    ),
    "blocked": _blocked,
    "outcomes": _outcome,
    "attempts": _attempt,
    "checkpoints": lambda journal, row: (
        journal.tables.checkpoints,
        (row["run_id"], row["partition"]),
        row["state"],
    ),
    "progress": _step,
    "lines": _line,
    "verdicts": _verdict,
    "held_gates": lambda journal, row: (journal.tables.held_gates, row["run_id"], row["gate"]),
    "held_places": lambda journal, row: (
        journal.tables.held_places,
        (row["run_id"], row["place"]),
        row["fence"],
    ),
    "turns": lambda journal, row: (journal.tables.turns, row["run_id"], row["at"]),
    "effects": _effect,
    "scopes": lambda journal, row: (journal.tables.scopes, row["root"], row["expected"]),
    "scope_items": _item,
    "backfills": _backfill,
    "backfill_slots": _backfill_slot,
}
