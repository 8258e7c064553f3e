"""Looking back at a schedule: who did what to it, and what became of each expected occurrence."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.labels import run_label
from duly.client.reading import read_limit
from duly.domain.instants import from_microseconds, iso_utc, to_microseconds
from duly.domain.missing import expect
from duly.domain.schedules import definition_from_json
from duly.domain.timetable.combined import zone_of
from duly.errors import UsageError
from duly.store.missing import DEFINITIONS_MAX
from duly.store.reading import PAGE_MAX, AuditFilter, Seen
from duly.store.surveys import Judged

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from duly.client.caller import Caller
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import ScheduleId
    from duly.domain.runs import OccurrenceVerdict
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.timetable.timetable import Timetable

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
    """One expected occurrence of a schedule, and what became of it (M1)."""

    scheduled_for: datetime
    label: str
    verdict: str
    """`run`, `skipped`, `owed`, `pending`; `unknown` if pruned; `missing` must never be."""
    run: UUID | None
    """The run it became, or the one that stands for it."""
    reason: str | None
    """Why it was skipped."""

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


def read_occurrences(caller: Caller, seen: Seen, span: tuple[int, int]) -> list[Occurrence]:
    """Judge each occurrence that was expected in a span, under the timetable then in force."""
    record = seen.record
    start, end = span
    most = caller.settings.occurrences_max
    expected: dict[int, Timetable] = {}
    for one in _spans(caller, record):
        cursor = max(start, one.first)
        while (found := one.timetable.first_from(cursor)) is not None:
            if found >= end or found > one.last:
                break
            expected[found] = one.timetable
            cursor = found + 1
            if len(expected) > most:
                remedy = f"ask for a shorter time: at most {most:,} occurrences"
                raise UsageError("end", _iso(end), "is too far from start", remedy)
    instants = sorted(expected)
    verdicts = caller.store.judge(record.id, instants)
    return [_occurrence(record.name, one, expected[one.scheduled_for]) for one in verdicts]


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
        Judged(one, [slot.scheduled_for for slot in found.slots]) for one, found in expected.items()
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


def _occurrence(name: str, verdict: OccurrenceVerdict, timetable: Timetable) -> Occurrence:
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
