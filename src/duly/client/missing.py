"""What was expected and has no run, as people and programs see it: lost, owed, or held (M1, V3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.labels import run_label
from duly.domain.identity import ScheduleId
from duly.domain.instants import from_microseconds, iso_utc
from duly.domain.literals import ScheduleStatus
from duly.domain.missing import Cause, SlotKind
from duly.domain.timetable.combined import zone_of
from duly.store.missing import MissingFilter, find_missing

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.store.missing import MissingOccurrence

    Place = tuple[str, UUID]

KINDS = frozenset({SlotKind.MISSING, SlotKind.OWED, SlotKind.HELD})
_WORDS = {
    Cause.NO_DISPATCHER: "its time has come, and no dispatcher is alive: start duly dispatcher",
    Cause.DISPATCHER_HOLDING: (
        "its time has come, and every dispatcher holds back for its clock: duly doctor"
    ),
    Cause.DISPATCHER_BEHIND: (
        "its time has come, and nobody has fired it, although a dispatcher is alive: duly doctor"
    ),
    Cause.UNRECORDED: "nothing is recorded of it, which must never be: duly db check",
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
        return self.verdict == SlotKind.MISSING

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
    is_held = found.slot.kind is SlotKind.HELD
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
        says=_OWED if slot.kind is SlotKind.OWED else _HELD if slot.cause is None else _says(found),
    )


def _says(found: MissingOccurrence) -> str:
    slot = found.slot
    assert slot.cause is not None, "what is missing has a cause"
    if slot.cause is Cause.UNRECORDED and slot.was_kept:
        return f"{_WORDS[slot.cause]}; a dispatcher was alive when it fell due"
    return _WORDS[slot.cause]
