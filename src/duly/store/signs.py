"""Reads the signs of schedules: a page of them by a fixed number of questions (V1, V4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.checking import check_name
from duly.domain.last_ends import NO_ENDS, RUNS_LOOKED_AT_EACH
from duly.domain.run_vitals import VitalsFilter
from duly.domain.signs import Known, signs_of
from duly.domain.vitals import WINDOW_RUNS_EACH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.identity import ScheduleId
    from duly.domain.run_vitals import RunVital
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.signs import Signs
    from duly.store.reading import ReadingStore


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
            Known(
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
