"""The memory store's tables as rows, as databases have them, for whoever moves promises."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from duly.domain.schedules import canonical_json
from duly.store.alert_rulings import term_row
from duly.store.backfill_rows import backfill_row
from duly.store.limit_rows import breaker_row, limit_row
from duly.store.memory.attempts import call_of
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.transfer import PARTS
from duly.store.records import definition_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.ids import RunId
    from duly.domain.runs import AttemptCounts, LateReport
    from duly.domain.schedules import Call, ScheduleRecord
    from duly.store.memory.tables import Claim, Ended, Journal, Outcome, RunRow, Tables
    from duly.store.ports.transfer import PartRow


def read_tables(journal: Journal) -> dict[str, list[PartRow]]:
    """Return the rows of every part."""
    tables = journal.tables
    found = {
        "workers": list(_workers(tables)),
        **_settings(tables),
        **_schedules(tables),
        "runs": [_run(journal, row) for row in tables.runs.values()],
        **_places(tables),
        **_traces(tables),
        **_results(tables),
        **_backfills(tables),
    }
    assert found.keys() == PARTS.keys(), "every part is read"
    return found


def _workers(tables: Tables) -> Iterator[PartRow]:
    for member in tables.members.values():
        if member.kind is MemberKind.WORKER:
            ended_at = None if member.is_alive else member.expires_at
            yield {
                **_plain(member, "id host process started_at renewed_at expires_at"),
                "ended_at": ended_at,
            }
    for worker, lease in tables.workers.items():
        told = _plain(lease, "host process renewed_at expires_at")
        yield {
            "id": worker,
            **told,
            "started_at": lease.renewed_at,
            "ended_at": lease.expires_at,
        }


def _settings(tables: Tables) -> dict[str, list[PartRow]]:
    limits = [column.name for column in PARTS["limits"].columns]
    breakers = [column.name for column in PARTS["breakers"].columns]
    terms = [column.name for column in PARTS["alert_terms"].columns]
    return {
        "tasks": [_task(tables, name) for name in {*tables.tasks, *tables.policies}],
        "retry_slots": [
            {"task": task, **taken._asdict()}
            for task, slots in tables.retry_slots.items()
            for taken in slots
        ],
        "task_orders": [
            {"task": task, **one._asdict()} for task, one in tables.task_orders.items()
        ],
        "queues": [
            {"name": name, "paused_at": one.at, "paused_by": one.by, "reason": one.reason}
            for name, one in tables.paused_queues.items()
        ],
        "limits": [
            dict(zip(limits, limit_row(one), strict=True)) for one in tables.limits.values()
        ],
        "quotas": [
            {
                "scope": one.key.scope,
                "tenant": one.key.tenant,
                "counted": str(one.counted),
                **_plain(one, "most version updated_at updated_by"),
            }
            for one in tables.quotas.values()
        ],
        "alert_terms": [
            dict(zip(terms, term_row(one), strict=True)) for one in tables.alert_terms.values()
        ],
        "paces": [{"place": place, **pace._asdict()} for place, pace in tables.paces.items()],
        "breakers": [
            dict(zip(breakers, (name, *breaker_row(breaker), since), strict=True))
            for name, (breaker, since) in tables.breakers.items()
        ],
    }


def _task(tables: Tables, name: str) -> PartRow:
    policy = tables.policies.get(name)
    text = None if policy is None else canonical_json(policy.to_json())
    timeout_us = None if policy is None else policy.timeout_us
    return {"name": name, "policy": text, "timeout_us": timeout_us}


def _schedules(tables: Tables) -> dict[str, list[PartRow]]:
    return {
        "schedules": [_schedule(one) for one in tables.schedules.values()],
        "schedule_state": [_state(one) for one in tables.schedules.values()],
        "schedule_definitions": [
            {
                "schedule_id": schedule_id,
                "number": number,
                "definition": definition_text(definition),
                "made_at": tables.definition_times[schedule_id, number],
                "made_by": tables.schedules[schedule_id].updated_by,
            }
            for (schedule_id, number), definition in tables.definitions.items()
            if schedule_id in tables.schedules
        ],
        "owed": [
            {
                **_plain(one.owed, "schedule_id first_for last_for definition_number"),
                "created_at": one.created_at,
            }
            for one in tables.owed.values()
        ],
        "skips": [
            {
                **_plain(one, "schedule_id first_for last_for count at"),
                "reason": str(one.reason),
                "into_run": one.into,
            }
            for one in tables.skips.values()
        ],
        "delayed": [
            {
                **_plain(one, "id tenant key due_at generation fingerprint created_at"),
                **_call(one.call),
                "origin": "delay",
                "lane": "live",
                "schedule_id": None,
                "definition_number": None,
            }
            for one in tables.delayed.values()
        ],
    }


def _schedule(record: ScheduleRecord) -> PartRow:
    plain = "id tenant name owner declared_by reason resume_at created_at updated_at updated_by"
    return {
        **_plain(record, plain),
        "status": str(record.status),
        "resume_missed": _text(record.resume_missed),
        "status_before": _text(record.status_before),
    }


def _state(record: ScheduleRecord) -> PartRow:
    pending = record.pending
    plain = """version definition_number last_for last_run last_fired_at fires held_for
        pruned_through active_run overlaps"""
    return {
        "schedule_id": record.id,
        "next_for": None if pending is None else pending.scheduled_for,
        "next_due": None if pending is None else pending.due_at,
        **_plain(record, plain),
    }


def _run(journal: Journal, row: RunRow) -> PartRow:
    plain = """id tenant schedule_id definition_number key root scheduled_for not_before window_from
        created_at fired_at"""
    call = _call(call_of(journal, row))
    return {
        **_plain(row, plain),
        **call,
        "arguments": None if row.call is None else call["arguments"],
        "origin": str(row.origin),
        "lane": str(row.lane),
    }


def _places(tables: Tables) -> dict[str, list[PartRow]]:
    runs = tables.runs
    return {
        "ready": [
            {
                "run_id": run_id,
                **_plain(one, "priority rank fired_at"),
                "not_before": min(runs[run_id].not_before, one.fired_at),
                **_tries(one.tries),
            }
            for run_id, one in tables.ready.items()
        ],
        "claims": [
            {
                "run_id": run_id,
                **_claim(one),
                **_tries(one.tries),
                "deadline_at": one.deadline,
                "lines": sum(
                    line.fence == one.tries.fence for line in tables.lines.get(run_id, ())
                ),
                **_plain(one, "replaced_by is_unsafe"),
            }
            for run_id, one in tables.claims.items()
        ],
        "waiting": [
            {"run_id": run_id, **_plain(one, "due_at reason"), **_tries(one.tries)}
            for run_id, one in tables.waiting.items()
        ],
        "dead": [
            {"run_id": run_id, "reason": one.reason, "died_at": one.at, **_tries(one.tries)}
            for run_id, one in tables.dead.items()
        ],
        "ambiguous": [
            {"run_id": run_id, "reason": one.reason, "since": one.at, **_tries(one.tries)}
            for run_id, one in tables.in_doubt.items()
        ],
        "blocked": [
            {
                "run_id": run_id,
                **_plain(one, "gate priority number since"),
                **_tries(one.tries),
            }
            for run_id, one in tables.blocked.items()
        ],
        "outcomes": [_outcome(run_id, one) for run_id, one in tables.outcomes.items()],
        "held_gates": [{"run_id": one, "gate": gate} for one, gate in tables.held_gates.items()],
        "held_places": [
            {"run_id": run_id, "place": place, "fence": fence}
            for (run_id, place), fence in tables.held_places.items()
        ],
        "turns": [{"run_id": run_id, "at": at} for run_id, at in tables.turns.items()],
    }


def _claim(claim: Claim) -> PartRow:
    progress = claim.progress
    return {
        **_plain(claim, "worker claimed_at started_at cancel_asked_at progress_at effects_at"),
        "progress_done": None if progress is None else progress.done,
        "progress_total": None if progress is None else progress.total,
        "progress_note": None if progress is None else progress.note,
    }


_NO_CLAIM: PartRow = dict.fromkeys(
    (
        "worker",
        "claimed_at",
        "started_at",
        "cancel_asked_at",
        "progress_at",
        "effects_at",
        "progress_done",
        "progress_total",
        "progress_note",
    )
)


def _outcome(run_id: RunId, one: Outcome) -> PartRow:
    return {
        "run_id": run_id,
        **(_NO_CLAIM if one.claim is None else _claim(one.claim)),
        "state": str(one.state),
        **_plain(one, "reason finished_at error result"),
        **_tries(one.tries),
        **_late(one.late),
        "into_run": one.into,
    }


def _traces(tables: Tables) -> dict[str, list[PartRow]]:
    return {
        "attempts": [
            _attempt(run_id, fence, one) for (run_id, fence), one in tables.attempts.items()
        ],
        "checkpoints": [
            {"run_id": run_id, "partition": partition, "fence": 0, "state": state, "at": 0}
            for (run_id, partition), state in tables.checkpoints.items()
        ],
        "progress": [
            {
                "run_id": run_id,
                "number": number,
                **_plain(one, "fence at"),
                **_plain(one.progress, "done total note"),
            }
            for run_id, steps in tables.progress.items()
            for number, one in enumerate(steps, start=1)
        ],
        "lines": [
            {
                "run_id": run_id,
                **_plain(one, "number fence"),
                **_plain(one.line, "at level text"),
            }
            for run_id, lines in tables.lines.items()
            for one in lines
        ],
    }


def _attempt(run_id: RunId, fence: int, one: Ended) -> PartRow:
    return {
        "run_id": run_id,
        "fence": fence,
        **_claim(one.claim),
        **_plain(one, "number reason ended_at error"),
        "state": str(one.state),
        **_late(one.late),
    }


def _results(tables: Tables) -> dict[str, list[PartRow]]:
    effects = " ".join(column.name for column in PARTS["effects"].columns)
    verdicts = " ".join(column.name for column in PARTS["verdicts"].columns)
    return {
        "effects": [
            {**_plain(one, effects), "state": str(one.state)} for one in tables.effects.values()
        ],
        "scopes": [{"root": root, "expected": count} for root, count in tables.scopes.items()],
        "scope_items": [
            {
                "root": root,
                "item": item,
                **_plain(one, "is_expected times at"),
                "run_id": None if one.by is None else one.by.run_id,
                "fence": None if one.by is None else one.by.fence,
            }
            for (root, item), one in tables.scope_items.items()
        ],
        "verdicts": [
            {**_plain(one, verdicts), "finding": str(one.finding)}
            for one in tables.verdicts.values()
        ],
    }


def _backfills(tables: Tables) -> dict[str, list[PartRow]]:
    columns = [column.name for column in PARTS["backfills"].columns]
    return {
        "backfills": [
            {
                name: str(value) if name in {"mode", "order", "status"} else value
                for name, value in zip(columns, backfill_row(one), strict=True)
            }
            for one in tables.backfills.values()
        ],
        "backfill_slots": [
            {
                "backfill_id": backfill_id,
                "scheduled_for": one.scheduled_for,
                "kind": str(one.kind),
                "run_id": one.run_id,
                "is_open": one.run_id is not None and one.run_id not in tables.outcomes,
            }
            for (backfill_id, _), one in tables.backfill_slots.items()
        ],
    }


def _plain(one: object, names: str) -> dict[str, Any]:
    return {name: getattr(one, name) for name in names.split()}


def _call(call: Call) -> dict[str, Any]:
    return {field.name: getattr(call, field.name) for field in fields(call)}


def _tries(tries: AttemptCounts) -> dict[str, Any]:
    return tries._asdict()


def _late(late: LateReport | None) -> PartRow:
    return {
        "late_state": None if late is None else str(late.state),
        "late_at": None if late is None else late.at,
        "late_error": None if late is None else late.error,
        "late_result": None if late is None else late.result,
    }


def _text(value: object | None) -> str | None:
    return None if value is None else str(value)
