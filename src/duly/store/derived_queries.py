"""Queries composed of port calls: missing occurrences, vitals of schedules.

Each query only reads. It asks each question once for all schedules of a page, by an index. An
occurrence that seems missing is checked again before it is returned, because time has passed
between two questions.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from duly.domain.enums import ScheduleStatus
from duly.domain.missing_occurrences import (
    DispatcherPresence,
    ExpectedOccurrenceKind,
    MissingCause,
    cause_of,
    expect,
    judge_slot,
    neighbourhood,
    was_kept,
)
from duly.domain.verification import check_name
from duly.domain.vitals import (
    NO_ENDS,
    RUNS_LOOKED_AT_EACH,
    WINDOW_RUNS_EACH,
    VitalsFilter,
    VitalsInput,
    signs_of,
)
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.queries import OccurrenceStatuses, RunFilter, ScheduleFilter
from duly.store.rulings import OCCURRENCE_ORIGINS
from duly.timetable.instants import DAY, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.ids import ScheduleId
    from duly.domain.missing_occurrences import Expected, ExpectedOccurrence
    from duly.domain.runs import OccurrenceStatus
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import RunVital, Signs
    from duly.store.ports import Store
    from duly.store.ports.queries import ReadingStore

    Place = tuple[str, str, ScheduleId]


SCHEDULES_MAX = 100
"""So many schedules are looked at in one go."""
SLOTS_MAX = 5_000
"""And so many occurrences of all of them together."""
SLOTS_EACH_MAX = 1_000
"""Of one schedule the newest so many."""
DEFINITIONS_MAX = 100
"""So many versions of a template are looked at: older ones are no longer in force."""
LOOK_BACK_US = DAY * SECOND_US


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingFilter:
    """Where to look: schedules in order of tenant, name and id, and from when on."""

    since: int
    until: int | None = None
    """Up to then; None for now."""
    tenant: str | None = None
    """None for all tenants, for the system's own rounds."""
    schedule_id: ScheduleId | None = None
    """Only this one."""
    after: Place | None = None
    """Go on from here: the last schedule that was looked at."""
    schedules_max: int = SCHEDULES_MAX
    slots_max: int = SLOTS_MAX
    kinds: frozenset[ExpectedOccurrenceKind] = frozenset({ExpectedOccurrenceKind.MISSING})
    """What is told."""


@dataclass(frozen=True, slots=True)
class MissingOccurrence:
    """An occurrence that should exist, with its schedule."""

    record: ScheduleRecord
    slot: ExpectedOccurrence


@dataclass(frozen=True, slots=True)
class CutShort:
    """A schedule of which not all was looked at, and from when on it was."""

    record: ScheduleRecord
    since: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingPage:
    """What was found, how much was looked at, and where to go on."""

    found: list[MissingOccurrence]
    cut: list[CutShort]
    slots: int
    """How many occurrences were expected."""
    looked_at: tuple[ScheduleRecord, ...]
    """The schedules of which that was asked."""
    after: Place | None
    """None after the last schedule."""

    @property
    def schedules(self) -> int:
        """How many schedules were looked at."""
        return len(self.looked_at)


@dataclass(frozen=True, slots=True)
class _Look:
    """A schedule, and what was expected of it."""

    record: ScheduleRecord
    slots: Sequence[Expected]


def find_missing(reading: Store, command: MissingFilter) -> MissingPage:
    """Look for occurrences that should exist and do not, in a few schedules."""
    records = _records(reading, command)
    if not records:
        return MissingPage(found=[], cut=[], slots=0, looked_at=(), after=None)
    status = reading.status()
    keepers = [
        DispatcherPresence(one.started_at, one.is_holding)
        for one in status.members
        if one.is_alive and one.kind is MemberKind.DISPATCHER
    ]
    until = status.now if command.until is None else min(command.until, status.now)
    looks, cut = _expected(reading, records, command, until)
    found = [
        MissingOccurrence(look.record, slot)
        for look, judged in zip(looks, _judged(reading, looks, keepers), strict=True)
        for slot in judged
        if slot.kind in command.kinds
    ]
    last = looks[-1].record if len(records) > len(looks) else None
    return MissingPage(
        found=found,
        cut=cut,
        slots=sum(len(one.slots) for one in looks),
        looked_at=tuple(one.record for one in looks),
        after=None if last is None else (last.tenant, last.name, last.id),
    )


def _expected(
    reading: Store, records: Sequence[ScheduleRecord], command: MissingFilter, until: int
) -> tuple[list[_Look], list[CutShort]]:
    """Return what was expected of as many schedules as there is room for: one at the least."""
    within = records[: command.schedules_max]
    definitions = reading.list_many_definitions([one.id for one in within], DEFINITIONS_MAX)
    looks: list[_Look] = []
    cut: list[CutShort] = []
    slots = 0
    for record in within:
        if slots >= command.slots_max and looks:
            break
        room = min(SLOTS_EACH_MAX, command.slots_max - slots)
        expected = expect(record, definitions.get(record.id, ()), (command.since, until), room)
        if expected.since > command.since:
            if room < SLOTS_EACH_MAX and looks:
                break  # the next page has room for it
            cut.append(CutShort(record, expected.since))
        slots += len(expected.slots)
        looks.append(_Look(record, expected.slots))
    return looks, cut


class MissingRounds:
    """Goes round over all schedules, a few at a time: for whoever looks again and again.

    Each look costs no more than its bounds, and none reaches further back than its own.
    """

    def __init__(
        self,
        reading: Store,
        *,
        look_back_us: int = LOOK_BACK_US,
        schedules_max: int = SCHEDULES_MAX,
        slots_max: int = SLOTS_MAX,
    ) -> None:
        self._reading = reading
        self._look_back_us = look_back_us
        self._schedules_max = schedules_max
        self._slots_max = slots_max
        self._after: Place | None = None

    def look(self) -> MissingPage:
        """Look at the next few schedules; after the last one the first ones come again."""
        command = MissingFilter(
            since=self._reading.now() - self._look_back_us,
            after=self._after,
            schedules_max=self._schedules_max,
            slots_max=self._slots_max,
        )
        page = find_missing(self._reading, command)
        self._after = page.after
        return page


def _records(reading: Store, command: MissingFilter) -> list[ScheduleRecord]:
    if command.schedule_id is not None:
        seen = reading.get_schedule(command.schedule_id)
        return [] if seen is None else [seen.record]
    return reading.list_schedules(
        ScheduleFilter(
            tenant=command.tenant,
            statuses=frozenset(ScheduleStatus),
            after=command.after,
            limit=command.schedules_max + 1,
        )
    )


def _judged(
    reading: Store, looks: Sequence[_Look], keepers: Sequence[DispatcherPresence]
) -> list[list[ExpectedOccurrence]]:
    """Return what became of each occurrence; what seems missing is looked at twice."""
    first = _judge(reading, looks)
    doubted = [
        _Look(
            look.record,
            tuple(one for one, slot, _ in judged if slot.kind is ExpectedOccurrenceKind.MISSING),
        )
        for look, judged in zip(looks, first, strict=True)
    ]
    again = _judged_again(reading, [one for one in doubted if one.slots], keepers)
    return [
        [slot for _, slot, _ in judged]
        if not doubt.slots
        else _put_right([slot for _, slot, _ in judged], again.get(look.record.id), keepers)
        for look, judged, doubt in zip(looks, first, doubted, strict=True)
    ]


def _judged_again(
    reading: Store, doubted: Sequence[_Look], keepers: Sequence[DispatcherPresence]
) -> dict[ScheduleId, dict[int, ExpectedOccurrence]]:
    """Look once more at what seems missing, by schedule and instant; who is gone is left out."""
    if not doubted:
        return {}
    seen = reading.get_schedules([one.record.id for one in doubted])
    there = [replace(one, record=seen[one.record.id]) for one in doubted if one.record.id in seen]
    return {
        look.record.id: {
            one.scheduled_for: _told(
                reading, look.record, one, (slot, cause_of(slot, verdict, keepers))
            )
            if slot.kind is ExpectedOccurrenceKind.MISSING
            else slot
            for one, slot, verdict in judged
        }
        for look, judged in zip(there, _judge(reading, there), strict=True)
    }


def _put_right(
    slots: Sequence[ExpectedOccurrence],
    again: Mapping[int, ExpectedOccurrence] | None,
    keepers: Sequence[DispatcherPresence],
) -> list[ExpectedOccurrence]:
    if again is None:
        return []  # removed meanwhile: nothing is expected of it any more
    return [
        replace(found, was_kept=was_kept(found, keepers))
        if (found := again.get(slot.scheduled_for, slot)).kind is ExpectedOccurrenceKind.MISSING
        else found
        for slot in slots
    ]


def _judge(
    reading: Store, looks: Sequence[_Look]
) -> list[list[tuple[Expected, ExpectedOccurrence, OccurrenceStatus]]]:
    asked = [
        OccurrenceStatuses(one.record.id, [slot.scheduled_for for slot in one.slots])
        for one in looks
    ]
    verdicts = reading.judge_many(asked)
    now = reading.now()
    return [
        [
            (one, judge_slot(one, verdict, look.record, now), verdict)
            for one, verdict in zip(look.slots, judged, strict=True)
        ]
        for look, judged in zip(looks, verdicts, strict=True)
    ]


def _told(
    reading: Store,
    record: ScheduleRecord,
    one: Expected,
    found: tuple[ExpectedOccurrence, MissingCause],
) -> ExpectedOccurrence:
    """Return a missing occurrence with its cause, unless it was run under other time-zone rules."""
    slot, cause = found
    around = neighbourhood(one)
    if around is not None and cause is MissingCause.UNRECORDED:
        page = reading.search_runs(
            RunFilter(
                tenant=record.tenant,
                schedule_id=record.id,
                origins=OCCURRENCE_ORIGINS,
                since=around[0] + 1,
                until=around[1],
                limit=1,
            )
        )
        if page.records:
            return replace(slot, kind=ExpectedOccurrenceKind.PRESENT, run_id=page.records[0].id)
    return replace(slot, cause=cause)


@dataclass(frozen=True, slots=True)
class Reach:
    """How many of the newest runs of each schedule are looked at."""

    window: int = WINDOW_RUNS_EACH
    """None at all where nobody asks when an attempt was last over."""
    ends: int = RUNS_LOOKED_AT_EACH
    has_errors: bool = True
    """Whether the last error is read, which is most of what it costs."""


EACH = Reach()


def checked_tasks(reading: ReadingStore) -> frozenset[str]:
    """Return the names of checks that programs have told of, as `check_name` writes them."""
    return frozenset(reading.list_tasks())


def read_signs(
    reading: ReadingStore, records: Sequence[ScheduleRecord], reach: Reach = EACH
) -> list[Signs]:
    """Return the signs of schedules, in their order: four questions at most, however many."""
    ids = [one.id for one in records]
    named = checked_tasks(reading)
    ends = reading.list_last_ends(ids, reach.ends, with_errors=reach.has_errors)
    runs = _newest(reading, records, reach.window) if reach.window else {}
    now = reading.now()
    return [
        signs_of(
            one,
            VitalsInput(
                runs=runs.get(one.id, ()),
                ends=ends.get(one.id, NO_ENDS),
                is_checked=check_name(one.definition.call.task) in named,
                now=now,
            ),
        )
        for one in records
    ]


def _newest(
    reading: ReadingStore, records: Sequence[ScheduleRecord], window: int
) -> dict[ScheduleId, list[RunVital]]:
    # Besides the newest, the one that goes on may be an old one.
    going_on = [one.active_run for one in records if one.active_run is not None]
    ids = [one.id for one in records]
    found: dict[ScheduleId, list[RunVital]] = {}
    for one in reading.list_run_vitals(
        VitalsFilter(schedule_ids=ids, limit=window, run_ids=going_on)
    ):
        if one.schedule_id is not None:
            found.setdefault(one.schedule_id, []).append(one)
    return found
