"""Loading, firing and draining on the memory store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import schedule_facts
from duly.domain.enums import Lane, ScheduleStatus
from duly.domain.ids import RunId, ScheduleId
from duly.store.auditing import SYSTEM
from duly.store.gates import comer_of
from duly.store.memory.delayed import fire_delayed
from duly.store.memory.gates import MemoryGates
from duly.store.memory.ownership import held_shards
from duly.store.memory.planning import write_settlement
from duly.store.ports.dispatch import (
    Arrivals,
    ArrivalsCursor,
    CatchUpRangeRecord,
    DrainOwed,
    Fired,
    FireDelayed,
    FireResult,
    FireRetry,
    FireSchedule,
    FireTimers,
    LoadedTimers,
    LoadTimers,
    Timer,
)
from duly.store.rulings import delayed_timer, retry_timer, schedule_timer

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.domain.schedules import ScheduleRecord
    from duly.store.memory.tables import Journal

DRAINABLE = frozenset((ScheduleStatus.ACTIVE, ScheduleStatus.ENDED))


def load_timers(journal: Journal, command: LoadTimers) -> LoadedTimers:
    """Read timers in order of due."""
    shards = set(command.shards)
    found = sorted(
        (
            timer
            for timer in _timers(journal)
            if timer.shard in shards
            and timer.due_at <= command.until
            and (command.after is None or timer.due_at > command.after)
        ),
        key=lambda timer: (timer.due_at, timer.ref),
    )
    through = command.until
    if len(found) > command.limit and not command.is_whole:
        through = found[command.limit].due_at - 1
        found = found[: command.limit]
    elif len(found) > command.limit:
        through = found[command.limit].due_at
        if found[0].due_at < through:
            # The instant at the cut is incomplete: leave it for the next page.
            through -= 1
        found = [timer for timer in found if timer.due_at <= through]
        if len(found) > max(command.crowd_max, command.limit):
            through -= 1
            found = found[: command.crowd_max]
    return LoadedTimers(tuple(found), through, journal.now)


def _timers(journal: Journal) -> Iterator[Timer]:
    for record in journal.tables.schedules.values():
        timer = schedule_timer(record)
        if timer is not None:
            yield timer
    for delayed in journal.tables.delayed.values():
        yield delayed_timer(delayed, journal.tables.shards)
    for run_id, row in journal.tables.waiting.items():
        yield retry_timer(run_id, row.due_at, row.tries.fence, journal.tables.shards)


def start_of_arrivals(journal: Journal) -> ArrivalsCursor:
    """Return a cursor behind everything committed, that remembers what is still open."""
    tables = journal.tables
    still_open = ",".join(str(number) for number in sorted(tables.open_arrivals))
    return ArrivalsCursor(f"{tables.arrival_number};{still_open}")


def read_arrivals(journal: Journal, cursor: ArrivalsCursor, shards: Sequence[int]) -> Arrivals:
    """Read what was announced since the cursor, also by transactions that were open then."""
    seen_text, _, open_text = cursor.partition(";")
    seen, was_open = int(seen_text), {int(number) for number in open_text.split(",") if number}
    tables = journal.tables
    timers: dict[bytes, Timer] = {}
    for number, arrival in tables.arrivals.items():
        if number in tables.open_arrivals or (number <= seen and number not in was_open):
            continue
        timer = tables.timer(arrival.kind, arrival.ref)
        if timer is not None and timer.shard in shards:
            timers[timer.ref] = timer
    return Arrivals(tuple(timers.values()), start_of_arrivals(journal), journal.now)


def fire_timers(journal: Journal, command: FireTimers) -> Fired:
    """Fire a batch under one fence; each timer has its own result."""
    held, lost = held_shards(journal, command.fence, Lane.LIVE)
    results: list[FireResult] = []
    made = 0
    for schedule in command.schedules:
        before = len(journal.tables.runs)
        results.append(_fire_schedule(journal, schedule, held))
        made += len(journal.tables.runs) - before
    for delayed in command.delayed:
        result = _fire_delayed(journal, delayed, held)
        results.append(result)
        made += result is FireResult.FIRED
    results += [_fire_retry(journal, retry, held) for retry in command.retries]
    return Fired(journal.now, tuple(results), made, tuple(lost))


def _judge(journal: Journal, timer: Timer, held: set[int]) -> FireResult | None:
    """Say why a timer can't be fired; None when it can."""
    if timer.shard not in held:
        return FireResult.FENCED
    pending = journal.tables.timer(timer.kind, timer.ref)
    believed = (timer.generation, timer.due_at)
    if pending is None or (pending.generation, pending.due_at) != believed:
        return FireResult.GONE
    return FireResult.EARLY if pending.due_at > journal.now else None


def _fire_schedule(journal: Journal, item: FireSchedule, held: set[int]) -> FireResult:
    refused = _judge(journal, item.timer, held)
    if refused is not None:
        return refused
    if item.late_after is not None and journal.now > item.late_after:
        return FireResult.LATE
    if any(run.not_before > journal.now for run in item.plan.settlement.runs):
        return FireResult.EARLY
    record = journal.tables.schedules[ScheduleId(item.timer.ref)]
    settlement = item.plan.settlement
    changed = write_settlement(journal, record, settlement, record.definition_number)
    changed = replace(changed, pending=item.plan.pending)
    if changed.pending is None:
        changed = replace(
            changed,
            status=ScheduleStatus.ENDED,
            version=record.version + 1,
            reason=item.plan.end_reason,
            updated_at=journal.now,
            updated_by=SYSTEM.name,
        )
        journal.record(
            SYSTEM,
            "schedule.ended",
            record.tenant,
            subject=record.name,
            subject_id=record.id,
            before=schedule_facts(record),
            after=schedule_facts(changed),
        )
    journal.put(journal.tables.schedules, record.id, changed)
    return FireResult.FIRED


def _fire_delayed(journal: Journal, item: FireDelayed, held: set[int]) -> FireResult:
    refused = _judge(journal, item.timer, held)
    if refused is not None:
        return refused
    fire_delayed(journal, journal.tables.delayed[item.timer.ref])  # type: ignore[index]
    return FireResult.FIRED


def _fire_retry(journal: Journal, item: FireRetry, held: set[int]) -> FireResult:
    refused = _judge(journal, item.timer, held)
    if refused is not None:
        return refused
    run_id = RunId(item.timer.ref)
    row = journal.tables.waiting[run_id]
    journal.remove(journal.tables.waiting, run_id)
    journal.queue(run_id, row.due_at, row.tries)
    return FireResult.FIRED


def load_owed(
    journal: Journal, shards: Sequence[int], limit: int, after: CatchUpRangeRecord | None
) -> list[CatchUpRangeRecord]:
    """Read ranges of schedules that still run, oldest first."""
    schedules = journal.tables.schedules
    found = [
        row
        for row in journal.tables.owed.values()
        if row.shard in shards
        and schedules[row.owed.schedule_id].status in DRAINABLE
        and (after is None or row.place > after.place)
    ]
    found.sort(key=lambda row: row.place)
    return found[:limit]


def drain_owed(journal: Journal, command: DrainOwed) -> FireResult:
    """Settle a part of a range, if it is still what it was."""
    held, _ = held_shards(journal, command.fence, Lane.CATCH_UP)
    if command.shard not in held:
        return FireResult.FENCED
    tables, owed = journal.tables, command.owed
    row = tables.owed.get((owed.schedule_id, owed.first_for))
    if row is None or row.owed != owed:
        return FireResult.GONE
    record = tables.schedules[owed.schedule_id]
    if record.status not in DRAINABLE:
        return FireResult.GONE
    if any(run.not_before > journal.now for run in command.settlement.runs):
        return FireResult.EARLY
    if not _may_drain(journal, command, record):
        return FireResult.BUSY
    journal.remove(tables.owed, (owed.schedule_id, owed.first_for))
    rest = command.settlement.owed
    changed = write_settlement(
        journal, record, command.settlement._replace(owed=None), owed.definition_number
    )
    if rest is not None:
        journal.insert(tables.owed, (rest.schedule_id, rest.first_for), replace(row, owed=rest))
    journal.put(tables.schedules, record.id, changed)
    return FireResult.FIRED


def _may_drain(journal: Journal, command: DrainOwed, record: ScheduleRecord) -> bool:
    """Say whether the runs of a settlement would find their gate free: else they stay owed."""
    definition = journal.tables.definitions[record.id, command.owed.definition_number]
    gates = MemoryGates(journal)
    return all(
        gates.is_free(comer_of(record, definition, run.run_id))
        for run in command.settlement.runs
        if run.run_id not in journal.tables.runs
    )
