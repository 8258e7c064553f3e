"""Records from rows: how what a database returns becomes what the ports speak of.

Both databases select the same columns in the same order, so one reading serves them.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from duly.domain.audit import Actor, AuditEntry
from duly.domain.effects import EffectRecord, EffectState
from duly.domain.enums import Finding, Lane, Missed, Origin, RunState, ScheduleStatus, SkipReason
from duly.domain.ids import RunId, ScheduleId
from duly.domain.runs import (
    AttemptCounts,
    DelayedRecord,
    Progress,
    RunRecord,
    SkipRecord,
    policy_under,
    stored_policy,
)
from duly.domain.schedules import (
    Call,
    CatchUpRange,
    Definition,
    NextOccurrence,
    ScheduleRecord,
    canonical_json,
    definition_from_json,
)
from duly.domain.vitals import Fault, RunVital
from duly.store.ports.dispatch import (
    CatchUpRangeRecord,
    LeaseKey,
    LeaseRecord,
    Member,
    MemberId,
    MemberKind,
    Timer,
    TimerKind,
)
from duly.store.ports.effects import VerdictRecord
from duly.store.ports.execution import ClaimRef, LostClaim, LostClaimReason
from duly.store.ports.operations import QueueRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row = tuple[Any, ...]
RUN_COLUMNS = 37
_UNTRIED: Row = (0, 0, 0, None, *(None,) * 11)
"""The last columns of a run that nobody has claimed: its tries, and what a worker has done."""

# Looked up, because calling an enumeration takes several times as long, for each run of each claim.
_ORIGINS = {one.value: one for one in Origin}
_LANES = {one.value: one for one in Lane}
_STATES: dict[str | None, RunState] = {one.value: one for one in RunState}
_STATES[None] = RunState.QUEUED

_JSON = json.JSONDecoder()
_ARGUMENTS_FIRST = '{"arguments":{'


def definition_text(definition: Definition) -> str:
    """Write a definition as it is stored."""
    return canonical_json(definition.to_json())


@lru_cache(maxsize=4096)
def read_definition(text: str) -> Definition:
    """Read a definition as it is stored; definitions are values, so one copy serves all."""
    return definition_from_json(json.loads(text))


def stored_arguments(text: str) -> str:
    """Read no more of a stored definition than its arguments.

    For each run that is claimed: what else there is, above all the timetable, takes many times as
    long to read. As we write it the arguments come first, and stand there as they are wanted.
    """
    if text.startswith(_ARGUMENTS_FIRST):
        begin = len(_ARGUMENTS_FIRST) - 1
        _, end = _JSON.raw_decode(text, begin)
        return text[begin:end]
    return canonical_json(json.loads(text)["arguments"])


def schedule_record(row: Row) -> ScheduleRecord:
    """Return a schedule."""
    pending = None if row[10] is None else NextOccurrence(row[10], row[11])
    return ScheduleRecord(
        id=ScheduleId(row[0]),
        tenant=row[1],
        name=row[2],
        owner=row[3],
        declared_by=row[4],
        status=ScheduleStatus(row[5]),
        version=row[6],
        definition_number=row[7],
        definition=read_definition(row[8]),
        shard=row[9],
        pending=pending,
        held_for=row[12],
        last_for=row[13],
        last_run=None if row[14] is None else RunId(row[14]),
        last_fired_at=row[15],
        fires=row[16],
        reason=row[17],
        resume_at=row[18],
        resume_missed=None if row[19] is None else Missed(row[19]),
        status_before=None if row[20] is None else ScheduleStatus(row[20]),
        pruned_through=row[21],
        created_at=row[22],
        updated_at=row[23],
        updated_by=row[24],
        active_run=None if row[25] is None else RunId(row[25]),
        overlaps=row[26],
    )


def run_record(row: Row) -> RunRecord:
    """Return a run, with where it is or what became of it."""
    if len(row) < RUN_COLUMNS:
        row += _UNTRIED[len(row) - RUN_COLUMNS :]
    arguments = stored_arguments(row[8]) if row[7] is None else row[7]
    done = row[29]
    return RunRecord(
        id=row[0],
        tenant=row[1],
        schedule_id=row[2],
        schedule_name=row[3],
        definition_number=row[4],
        key=row[5],
        call=Call(task=row[6], arguments=arguments, queue=row[9], priority=row[10]),
        origin=_ORIGINS[row[11]],
        lane=_LANES[row[12]],
        root=row[0] if row[13] is None else row[13],
        scheduled_for=row[14],
        not_before=row[15],
        window_from=row[16],
        created_at=row[17],
        fired_at=row[18],
        state=_STATES[row[19]],
        state_reason=row[20],
        finished_at=row[21],
        tries=AttemptCounts(row[22], row[23], row[24], row[25]),
        worker=row[26],
        claimed_at=row[27],
        started_at=row[28],
        progress=None if done is None else Progress(done, row[30], row[31]),
        cancel_asked_at=row[32],
        next_at=row[33],
        error=row[34],
        result=row[35],
        into=row[36],
    )


def progress_of(done: int | None, total: int | None, note: str | None) -> Progress | None:
    """Return how far an attempt has come; None when it never said."""
    return None if done is None else Progress(done, total, note)


def delayed_record(row: Row) -> DelayedRecord:
    """Return a delayed run that is pending."""
    return DelayedRecord(
        id=RunId(row[0]),
        tenant=row[1],
        key=row[2],
        call=Call(task=row[3], arguments=row[4], queue=row[5], priority=row[6]),
        due_at=row[7],
        generation=row[8],
        fingerprint=row[9],
        created_at=row[10],
    )


def skip_record(row: Row) -> SkipRecord:
    """Return a range of occurrences that were not run."""
    return SkipRecord(
        schedule_id=ScheduleId(row[0]),
        first_for=row[1],
        last_for=row[2],
        count=row[3],
        reason=SkipReason(row[4]),
        into=None if row[5] is None else RunId(row[5]),
        at=row[6],
    )


def owed_record(row: Row) -> CatchUpRangeRecord:
    """Return a range of occurrences that are still to be settled."""
    owed = CatchUpRange(
        schedule_id=ScheduleId(row[0]),
        first_for=row[1],
        last_for=row[2],
        definition_number=row[3],
    )
    return CatchUpRangeRecord(owed=owed, shard=row[4], created_at=row[5])


def audit_entry(row: Row) -> AuditEntry:
    """Return an entry of the audit trail."""
    return AuditEntry(
        number=row[0],
        at=row[1],
        actor=Actor(row[2], row[3], row[4], row[11], row[12]),
        action=row[5],
        tenant=row[6],
        subject=row[7],
        subject_id=row[8],
        before=None if row[9] is None else json.loads(row[9]),
        after=None if row[10] is None else json.loads(row[10]),
    )


def member(row: Row, *, is_alive: bool) -> Member:
    """Return a member of the fleet."""
    return Member(
        id=MemberId(row[0]),
        kind=MemberKind(row[1]),
        host=row[2],
        process=row[3],
        is_alive=is_alive,
        started_at=row[5],
        renewed_at=row[6],
        expires_at=row[7],
        skew_us=row[8],
        is_holding=bool(row[9]),
        tzdata=row[10],
    )


def lease_record(row: Row) -> LeaseRecord:
    """Return a lease."""
    owner = None if row[3] is None else MemberId(row[3])
    return LeaseRecord(LeaseKey(row[0], Lane(row[1])), row[2], owner, row[4])


def timer(row: Row) -> Timer:
    """Return a timer, from (due, ref, shard, scheduled for, generation, definition number)."""
    due_at, ref, shard, scheduled_for, generation, definition_number = row
    # Definitions are numbered from one; a delayed run has none.
    kind: TimerKind = "schedule" if definition_number else "delayed"
    return Timer(kind, ref, shard, due_at, scheduled_for, generation, definition_number)


def lost_claim(row: Row, kind: LostClaimReason) -> LostClaim:
    """Read a claim that somebody else must settle."""
    run_id, worker, *tries, claimed_at, started_at, effects_at, is_unsafe, task, policy = row
    return LostClaim(
        hold=ClaimRef(RunId(run_id), tries[0]),
        kind=kind,
        worker=MemberId(worker),
        tries=AttemptCounts(*tries),
        task=task,
        policy=policy_under(stored_policy(policy), is_unsafe=is_unsafe),
        claimed_at=claimed_at,
        started_at=started_at,
        effects_at=effects_at,
    )


def queue_records(
    queued: Mapping[str, Sequence[Any]],
    running: Mapping[str, int],
    paused: Mapping[str, Sequence[Any]],
) -> list[QueueRecord]:
    """Read queues by name: how many wait and since when, how many run, and who paused them."""
    found: list[QueueRecord] = []
    for name in sorted({*queued, *running, *paused}):
        count, oldest_at = queued.get(name, (0, None))
        paused_at, paused_by, reason = paused.get(name, (None, None, None))
        found.append(
            QueueRecord(
                name=name,
                queued=count,
                running=running.get(name, 0),
                oldest_at=oldest_at,
                paused_at=paused_at,
                paused_by=paused_by,
                reason=reason,
            )
        )
    return found


def effect_record(row: Row) -> EffectRecord:
    """Return an entry of the ledger."""
    root, key, state, run_id, fence, begun_at, done_at, result, tries = row
    return EffectRecord(
        root=RunId(root),
        key=key,
        state=EffectState(state),
        run_id=RunId(run_id),
        fence=fence,
        begun_at=begun_at,
        done_at=done_at,
        result=result,
        tries=tries,
    )


def verdict_record(row: Row) -> VerdictRecord:
    """Return what was found about a run."""
    run_id, number, at, finding, evidence, by, doubt = row
    return VerdictRecord(
        run_id=RunId(run_id),
        number=number,
        at=at,
        finding=Finding(finding),
        evidence=evidence,
        by=by,
        doubt=doubt,
    )


def run_vital(row: Row) -> RunVital:
    """Return what is known of a run, from its ids and the columns of `RUN_VITALS`."""
    fault = row[24:28]
    return RunVital(
        run_id=RunId(row[0]),
        schedule_id=None if row[1] is None else ScheduleId(row[1]),
        task=row[2],
        origin=_ORIGINS[row[3]],
        lane=_LANES[row[4]],
        scheduled_for=row[5],
        due_at=row[6],
        fired_at=row[7],
        state=_STATES[row[8]],
        reason=row[9],
        finished_at=row[10],
        attempt=row[11],
        begun_at=row[12],
        worker=row[13],
        claimed_at=row[14],
        started_at=row[15],
        progress_done=row[16],
        progress_total=row[17],
        progress_at=row[18],
        next_at=row[19],
        heartbeat_at=row[20],
        attempt_ended_at=row[21],
        finding=None if row[22] is None else Finding(row[22]),
        found_at=row[23],
        fault=None if fault[0] is None else Fault(*fault),
    )
