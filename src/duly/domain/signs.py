"""Signs of a schedule: what its trigger does, and what comes of it, side by side and never one.

A trigger may be punctual for days while nothing useful is completed; so each has its own facts, its
own judgement, and its own words (V4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.instants import MINUTE, SECOND_US
from duly.domain.literals import ScheduleStatus
from duly.domain.schedules import jitter_offset_us
from duly.domain.vitals import STALE_FROM, cadence_of, count_behind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.identity import RunId
    from duly.domain.last_ends import LastEnd, LastEnds
    from duly.domain.run_vitals import RunVital
    from duly.domain.schedules import ScheduleRecord

LATE_US = MINUTE * SECOND_US
"""The grace of most schedules: what is overdue for longer is late by anybody's measure."""
_BEHIND_FROM = 2
"""So many occurrences must be without a useful completion: while one is under way all is well."""
_STALE_US_MIN = MINUTE * SECOND_US
"""No completion is stale sooner: of what is due every few seconds, a busy moment delays several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriggerSigns:
    """Whether a schedule fires when it should."""

    next_due_at: int | None
    last_fired_at: int | None
    last_run: RunId | None
    late_us: int | None
    """How long after its due it fired last."""
    overdue_us: int | None
    """How long its pending occurrence has been due; None while it is not."""

    @property
    def is_well(self) -> bool:
        """Whether nothing is due for longer than anybody's grace."""
        return self.overdue_us is None or self.overdue_us <= LATE_US


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionSigns:
    """Whether what a schedule is there for gets done."""

    finished_at: int | None
    """When an attempt of it was last over, however it ended."""
    ends: LastEnds
    useful: LastEnd | None
    """The last useful completion: verified where the task has a check, succeeded where not."""
    is_checked: bool
    age_us: int | None
    """How old that is."""
    cadence_us: int | None
    """How far apart occurrences are around now."""
    behind: int
    """How many occurrences have fallen due since the one that was last useful."""
    is_stale: bool

    @property
    def ratio(self) -> float | None:
        """How many cadences old the last useful completion is."""
        if self.age_us is None or not self.cadence_us:
            return None
        return self.age_us / self.cadence_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Signs:
    """A schedule with both, and the runs that they are drawn from."""

    record: ScheduleRecord
    now: int
    trigger: TriggerSigns
    completion: CompletionSigns
    runs: tuple[RunVital, ...]
    """Its newest, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What was read about a schedule, for its signs to be seen."""

    runs: Sequence[RunVital]
    """Its newest, newest first."""
    ends: LastEnds
    is_checked: bool
    """Whether its task has a check."""
    now: int


def signs_of(record: ScheduleRecord, known: Known) -> Signs:
    """Return the signs of a schedule."""
    return Signs(
        record=record,
        now=known.now,
        trigger=_trigger(record, known.now),
        completion=_completion(record, known),
        runs=tuple(known.runs),
    )


def _trigger(record: ScheduleRecord, now: int) -> TriggerSigns:
    pending, fired_at = record.pending, record.last_fired_at
    offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
    is_known = record.last_for is not None and fired_at is not None
    late_us = None
    if is_known:
        assert record.last_for is not None, "just seen"
        assert fired_at is not None, "just seen"
        # An edit may have changed the jitter since: then it is no longer known.
        late_us = max(fired_at - record.last_for - offset_us, 0)
    return TriggerSigns(
        next_due_at=None if pending is None else pending.due_at,
        last_fired_at=fired_at,
        last_run=record.last_run,
        late_us=late_us,
        overdue_us=None if pending is None or pending.due_at > now else now - pending.due_at,
    )


def _completion(record: ScheduleRecord, known: Known) -> CompletionSigns:
    now, timetable = known.now, record.definition.timetable
    useful = known.ends.verified if known.is_checked else known.ends.success
    cadence_us = cadence_of(timetable, now)
    # Nobody is behind with what an order has just begun or taken up again.
    floor = max(record.updated_at, record.created_at)
    since_for = floor if useful is None else max(floor, useful.scheduled_for)
    offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
    behind = count_behind(timetable, since_for, now - offset_us)
    since = floor if useful is None else max(floor, useful.at)
    is_stale = (
        record.status is ScheduleStatus.ACTIVE
        and behind >= _BEHIND_FROM
        and cadence_us is not None
        and now - since >= max(STALE_FROM * cadence_us, _STALE_US_MIN)
    )
    ended = [run.attempt_ended_at for run in known.runs if run.attempt_ended_at is not None]
    return CompletionSigns(
        finished_at=max(ended, default=None),
        ends=known.ends,
        useful=useful,
        is_checked=known.is_checked,
        age_us=None if useful is None else max(now - useful.at, 0),
        cadence_us=cadence_us,
        behind=behind,
        is_stale=is_stale,
    )
