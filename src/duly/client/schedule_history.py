"""A schedule's history, occurrences, last ends, missing occurrences, and state at an instant.

A run's outcome, its attempts and every order about a schedule are stored with their times. The
place in which an open run waited is not stored. `run_state_as_of` reports such a run as waiting and
does not guess.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.parameters import read_limit, run_label
from duly.domain.backfill import BackfillOccurrenceKind, BackfillSpan, BackfillStatus, rest_of
from duly.domain.enums import RunState, ScheduleStatus
from duly.domain.ids import ScheduleId, is_occurrence_id
from duly.domain.missing_occurrences import ExpectedOccurrenceKind, MissingCause, expect
from duly.domain.runs import OccurrenceStatusKind
from duly.domain.schedules import definition_from_json
from duly.errors import UsageError
from duly.store.derived_queries import DEFINITIONS_MAX, MissingFilter, find_missing
from duly.store.ports.backfill import LISTED_MAX
from duly.store.ports.queries import (
    PAGE_MAX,
    AuditFilter,
    OccurrenceStatuses,
    RunFilter,
    ScheduleSnapshot,
)
from duly.store.rulings import OCCURRENCE_ORIGINS
from duly.timetable.combinators import zone_of
from duly.timetable.instants import from_microseconds, iso_utc, to_microseconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from duly.client.attempt_view import Attempt
    from duly.client.caller import Caller
    from duly.client.run_view import Run
    from duly.domain.audit import AuditEntry
    from duly.domain.runs import OccurrenceStatus
    from duly.domain.schedules import ScheduleRecord
    from duly.store.derived_queries import MissingOccurrence
    from duly.timetable.timetable import Timetable

    Place = tuple[str, UUID]


WAITING = "waiting"
"""It was open, and nobody ran it: queued, blocked, or before another attempt."""
LEFT_BY_AN_ATTEMPT = {
    str(RunState.DEAD): str(RunState.DEAD),
    str(RunState.AMBIGUOUS): str(RunState.AMBIGUOUS),
    str(RunState.DISCARDED): str(RunState.DEAD),
}
"""By what a run is now: what the end of its last attempt made it, until somebody orders otherwise.
What is discarded was dead all that time: nothing else can be."""


def run_state_as_of(run: Run, attempts: Sequence[Attempt], at: datetime) -> str | None:
    """Return in which state a run was at an instant; None if there was no such run yet."""
    if (run.fired_at or run.created_at) > at:
        return None
    if run.finished_at is not None and run.finished_at <= at:
        return run.state
    begun = [one for one in attempts if one.claimed_at <= at]
    if any(one.ended_at is None or one.ended_at > at for one in begun):
        return str(RunState.RUNNING)
    # Whoever brings it back has it tried again: there would be a later attempt.
    if begun and len(begun) == len(attempts) and run.state in LEFT_BY_AN_ATTEMPT:
        return LEFT_BY_AN_ATTEMPT[run.state]
    return WAITING


def entry_as_of(entries: Sequence[HistoryEntry], at: datetime) -> HistoryEntry | None:
    """Return the newest entry by an instant that says how a schedule was after it."""
    told = (one for one in entries if one.at <= at and "definition" in (one.after or {}))
    return max(told, key=lambda one: one.number, default=None)


_EPOCH_END = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry:
    """One order or decision about a schedule, as it was recorded when it was carried out."""

    number: int
    at: datetime
    actor: str
    source: str
    address: str | None
    """From which address of the network, if over one."""
    credential: str | None
    """By which token or session: its kind and its id."""
    reason: str | None
    action: str
    subject: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    label: str | None = None
    """What people call the run whose id the subject has; None for anything else."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "number": self.number,
            "at": iso_utc(self.at),
            "actor": self.actor,
            "source": self.source,
            "address": self.address,
            "credential": self.credential,
            "reason": self.reason,
            "action": self.action,
            "subject": self.subject,
            "label": self.label,
            "before": self.before,
            "after": self.after,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OwedRange:
    """Occurrences that a schedule still owes: they are to be made, or skipped by its policy."""

    first_for: datetime
    last_for: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"first_for": iso_utc(self.first_for), "last_for": iso_utc(self.last_for)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SkippedRange:
    """Occurrences that were not run, on record."""

    first_for: datetime
    last_for: datetime
    count: int | None
    """How many; None where nobody has counted them."""
    reason: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "first_for": iso_utc(self.first_for),
            "last_for": iso_utc(self.last_for),
            "count": self.count,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One expected occurrence of a schedule, and what became of it."""

    scheduled_for: datetime
    label: str
    verdict: str
    """`run`, `skipped`, `coalesced`, `replaced`, `owed`, `pending`; `unknown` if pruned.

    `missing` must never be.
    """
    run: UUID | None
    """The run it became, or the one that stands for it."""
    reason: str | None
    """Why it has no run that went ahead; `backfill` of one that a backfill still owes."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "scheduled_for": iso_utc(self.scheduled_for),
            "label": self.label,
            "verdict": self.verdict,
            "run": None if self.run is None else str(self.run),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class _Span:
    """From when until when, both included, a timetable decided what is expected."""

    timetable: Timetable
    first: int
    last: int


def read_history(caller: Caller, record: ScheduleRecord, limit: int) -> list[HistoryEntry]:
    """Return the audit entries of a schedule, newest first."""
    most = read_limit(limit, caller.settings.listed_max)
    entries = _entries(caller, record, min(most, PAGE_MAX))
    return [entry_view(one) for one in islice(entries, most)]


def read_occurrences(
    caller: Caller, seen: ScheduleSnapshot, span: tuple[int, int]
) -> list[Occurrence]:
    """Judge each occurrence of a span: those that the timetable then in force expected, and others.

    The others have a run, or are owed by a backfill: it may have used a timetable that was not in
    force then, and the schedule may not have existed.
    """
    record = seen.record
    expected = _in_force(caller, record, span)
    left = _left_by_backfills(caller, record, span)
    left = {instant: status for instant, status in left.items() if instant not in expected}
    for instant in chain(left, _instants_of_runs(caller, record, span)):
        expected.setdefault(instant, record.definition.timetable)
        _require_room(expected, caller, span)
    found: list[Occurrence] = []
    for one in caller.store.judge(record.id, sorted(expected)):
        shown = _occurrence(record.name, one, expected[one.scheduled_for])
        if one.kind is OccurrenceStatusKind.MISSING and one.scheduled_for in left:
            kind, reason = left[one.scheduled_for]
            shown = replace(shown, verdict=str(kind), reason=reason)
        found.append(shown)
    return found


def _in_force(
    caller: Caller, record: ScheduleRecord, span: tuple[int, int]
) -> dict[int, Timetable]:
    start, end = span
    expected: dict[int, Timetable] = {}
    for one in _spans(caller, record):
        cursor = max(start, one.first)
        while (found := one.timetable.first_from(cursor)) is not None:
            if found >= end or found > one.last:
                break
            expected[found] = one.timetable
            cursor = found + 1
            _require_room(expected, caller, span)
    return expected


def _require_room(expected: Mapping[int, Timetable], caller: Caller, span: tuple[int, int]) -> None:
    most = caller.settings.occurrences_max
    if len(expected) > most:
        remedy = f"ask for a shorter time: at most {most:,} occurrences"
        raise UsageError("end", _iso(span[1]), "is too far from start", remedy)


def _instants_of_runs(
    caller: Caller, record: ScheduleRecord, span: tuple[int, int]
) -> Iterator[int]:
    # A run of an occurrence has the id that is computed from its instant; a repetition has not.
    command = RunFilter(
        tenant=record.tenant,
        schedule_id=record.id,
        origins=OCCURRENCE_ORIGINS,
        since=span[0],
        until=span[1],
    )
    while True:
        page = caller.store.list_runs(command)
        yield from (one.scheduled_for for one in page if is_occurrence_id(one.id))
        if len(page) < command.limit:
            return
        command = replace(command, before_id=page[-1].id)


def _left_by_backfills(
    caller: Caller, record: ScheduleRecord, span: tuple[int, int]
) -> dict[int, tuple[OccurrenceStatusKind, str]]:
    """Return the instants that backfills have not reached: owed, or skipped if called off."""
    store, (start, end) = caller.store, span
    backfills = [
        one
        for one in store.list_backfills(record.tenant, record.id, LISTED_MAX)
        if one.cursor is not None
        and one.since < end
        and start < one.until
        and BackfillOccurrenceKind.MISSING in one.classes
    ]
    if not backfills:
        return {}
    oldest = min(one.definition_number for one in backfills)
    versions = store.list_many_definitions([record.id], record.definition_number - oldest + 1)
    timetables = {one.number: one.definition.timetable for one in versions[record.id]}
    found: dict[int, tuple[OccurrenceStatusKind, str]] = {}
    for one in sorted(backfills, key=lambda one: one.status is BackfillStatus.CANCELLED):
        assert one.cursor is not None, "it was just selected"
        since, until = rest_of(BackfillSpan(one.since, one.until, one.order, one.cursor))
        status = OccurrenceStatusKind.OWED, "backfill"
        if one.status is BackfillStatus.CANCELLED:
            status = OccurrenceStatusKind.SKIPPED, "backfill-cancelled"
        cursor, until = max(start, since), min(end, until)
        while (at := timetables[one.definition_number].first_from(cursor)) is not None:
            if at >= until or len(found) > caller.settings.occurrences_max:
                break
            found.setdefault(at, status)
            cursor = at + 1
    return found


def read_many_occurrences(
    caller: Caller, spans: Mapping[ScheduleId, tuple[int, int]], most: int
) -> dict[ScheduleId, list[Occurrence]]:
    """Judge occurrences of several schedules, each from an instant on and before another.

    Under the definitions that were in force then; of too many, the newest.
    """
    store, ids = caller.store, list(spans)
    seen = {
        one: record
        for one, record in store.get_schedules(ids).items()
        if record.tenant == caller.tenant
    }
    definitions = store.list_many_definitions(list(seen), DEFINITIONS_MAX)
    expected = {
        one: expect(record, definitions.get(one, ()), (spans[one][0], spans[one][1] - 1), most)
        for one, record in seen.items()
    }
    asked = [
        OccurrenceStatuses(one, [slot.scheduled_for for slot in found.slots])
        for one, found in expected.items()
    ]
    return {
        one: [
            _occurrence(seen[one].name, verdict, slot.definition.timetable)
            for slot, verdict in zip(expected[one].slots, judged, strict=True)
        ]
        for (one, _), judged in zip(asked, store.judge_many(asked), strict=True)
    }


def _spans(caller: Caller, record: ScheduleRecord) -> list[_Span]:
    """Return which timetable was in force when: an edit's old one up to the edit, then the new."""
    changes = [entry for entry in _entries(caller, record) if _is_new_definition(entry)]
    spans: list[_Span] = []
    last = _EPOCH_END
    for entry in changes:
        assert entry.after is not None, "a definition was written"
        definition = definition_from_json(entry.after["definition"])
        begin = entry.after["next_for"] or entry.after["held_for"]
        first = entry.at + 1 if begin is None else _instant(begin)
        spans.append(_Span(definition.timetable, first, last))
        last = entry.at
    return spans


def _is_new_definition(entry: AuditEntry) -> bool:
    """Say whether an entry wrote a definition: at the creation, or by an edit."""
    if entry.after is None or "definition" not in entry.after:
        return False
    return entry.before is None or (
        entry.before["definition"]["timetable"] != entry.after["definition"]["timetable"]
    )


def _entries(caller: Caller, record: ScheduleRecord, size: int = PAGE_MAX) -> Iterator[AuditEntry]:
    """Yield the audit entries of a schedule, newest first, page by page."""
    before: int | None = None
    while True:
        command = AuditFilter(
            tenant=record.tenant, subject_id=record.id, before_number=before, limit=size
        )
        page = caller.store.list_audit(command)
        yield from page
        if len(page) < size:
            return
        before = page[-1].number


def entry_view(entry: AuditEntry) -> HistoryEntry:
    """Show an audit entry."""
    return HistoryEntry(
        number=entry.number,
        at=from_microseconds(entry.at),
        actor=entry.actor.name,
        source=entry.actor.source,
        address=entry.actor.address,
        credential=entry.actor.credential,
        reason=entry.actor.reason,
        action=entry.action,
        subject=entry.subject,
        before=entry.before,
        after=entry.after,
    )


def _occurrence(name: str, verdict: OccurrenceStatus, timetable: Timetable) -> Occurrence:
    return Occurrence(
        scheduled_for=from_microseconds(verdict.scheduled_for),
        label=run_label(name, verdict.scheduled_for, zone_of(timetable)),
        verdict=str(verdict.kind),
        run=None if verdict.run_id is None else UUID(bytes=verdict.run_id),
        reason=None if verdict.reason is None else str(verdict.reason),
    )


def _instant(text: str) -> int:
    return to_microseconds(datetime.fromisoformat(text))


def _iso(instant: int) -> str:
    return iso_utc(from_microseconds(instant))


def read_owed(caller: Caller, schedule: ScheduleId, limit: int) -> list[OwedRange]:
    """Return what a schedule still owes, oldest first."""
    most = read_limit(limit, PAGE_MAX)
    return [
        OwedRange(
            first_for=from_microseconds(one.first_for), last_for=from_microseconds(one.last_for)
        )
        for one in caller.store.list_owed(schedule, most)
    ]


def read_skips(caller: Caller, schedule: ScheduleId, limit: int) -> list[SkippedRange]:
    """Return what of a schedule was skipped, newest first."""
    most = read_limit(limit, PAGE_MAX)
    return [
        SkippedRange(
            first_for=from_microseconds(one.first_for),
            last_for=from_microseconds(one.last_for),
            count=one.count,
            reason=str(one.reason),
        )
        for one in caller.store.list_skips(schedule, most)
    ]


KINDS = frozenset(
    {ExpectedOccurrenceKind.MISSING, ExpectedOccurrenceKind.OWED, ExpectedOccurrenceKind.HELD}
)
_WORDS = {
    MissingCause.NO_DISPATCHER: (
        "its time has come, and no dispatcher is alive: start duly dispatcher"
    ),
    MissingCause.DISPATCHER_HOLDING: (
        "its time has come, and every dispatcher holds back for its clock: duly doctor"
    ),
    MissingCause.DISPATCHER_BEHIND: (
        "its time has come, and nobody has fired it, although a dispatcher is alive: duly doctor"
    ),
    MissingCause.UNRECORDED: "nothing is recorded of it, which must never be: duly db check",
}
_OWED = "it was missed, and waits to be caught up with"
_HELD = "its schedule rests: it is decided when it goes on"


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingRun:
    """An occurrence that the timetable asks for, and that has no run."""

    schedule: str
    schedule_id: UUID
    scheduled_for: datetime
    due_at: datetime
    label: str
    verdict: str
    """`missing`; or `owed` or `held`, which are on record and decided later."""
    cause: str | None
    """Of a missing one: no-dispatcher, dispatcher-holding, dispatcher-behind, unrecorded."""
    says: str

    @property
    def is_missing(self) -> bool:
        """Whether it should exist by now, and does not."""
        return self.verdict == ExpectedOccurrenceKind.MISSING

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schedule": self.schedule,
            "schedule_id": str(self.schedule_id),
            "scheduled_for": iso_utc(self.scheduled_for),
            "due_at": iso_utc(self.due_at),
            "label": self.label,
            "verdict": self.verdict,
            "cause": self.cause,
            "says": self.says,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedFrom:
    """A schedule that fires so often that not all was looked at, and from when on it was."""

    schedule: str
    since: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"schedule": self.schedule, "since": iso_utc(self.since)}


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFound:
    """What was found in some schedules, and after which one to go on."""

    items: tuple[MissingRun, ...]
    cut: tuple[LookedFrom, ...]
    slots: int
    """How many occurrences were expected of them."""
    schedules: int
    after: Place | None
    """None after the last one."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values, without where to go on."""
        return {
            "items": [one.to_json() for one in self.items],
            "cut": [one.to_json() for one in self.cut],
            "slots": self.slots,
            "schedules": self.schedules,
        }


def look_for_missing(
    caller: Caller,
    span: tuple[int, int | None],
    schedule_id: ScheduleId | None,
    after: Place | None,
) -> MissingFound:
    """Look at a few schedules of the caller's tenant."""
    since, until = span
    place = None if after is None else (caller.tenant, after[0], ScheduleId(after[1].bytes))
    command = MissingFilter(
        since=since,
        until=until,
        tenant=caller.tenant,
        schedule_id=schedule_id,
        after=place,
        kinds=KINDS,
    )
    page = find_missing(caller.store, command)
    return MissingFound(
        items=tuple(_view(one) for one in page.found if _is_told(one)),
        cut=tuple(
            LookedFrom(schedule=one.record.name, since=from_microseconds(one.since))
            for one in page.cut
        ),
        slots=page.slots,
        schedules=page.schedules,
        after=None if page.after is None else (page.after[1], UUID(bytes=page.after[2])),
    )


def _is_told(found: MissingOccurrence) -> bool:
    """Leave out what nobody expects any more: a deleted schedule owes nothing while it is gone."""
    is_held = found.slot.kind is ExpectedOccurrenceKind.HELD
    return not is_held or found.record.status is ScheduleStatus.PAUSED


def _view(found: MissingOccurrence) -> MissingRun:
    record, slot = found.record, found.slot
    timetable = record.definition.timetable
    return MissingRun(
        schedule=record.name,
        schedule_id=UUID(bytes=record.id),
        scheduled_for=from_microseconds(slot.scheduled_for),
        due_at=from_microseconds(slot.due_at),
        label=run_label(record.name, slot.scheduled_for, zone_of(timetable)),
        verdict=str(slot.kind),
        cause=None if slot.cause is None else str(slot.cause),
        says=_OWED
        if slot.kind is ExpectedOccurrenceKind.OWED
        else _HELD
        if slot.cause is None
        else _says(found),
    )


def _says(found: MissingOccurrence) -> str:
    slot = found.slot
    assert slot.cause is not None, "what is missing has a cause"
    if slot.cause is MissingCause.UNRECORDED and slot.was_kept:
        return f"{_WORDS[slot.cause]}; a dispatcher was alive when it fell due"
    return _WORDS[slot.cause]
