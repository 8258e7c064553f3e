"""A schedule with a run, a skip and a range that is owed; each to be removed behind its back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import Missed
from duly.domain.missing_occurrences import ExpectedOccurrenceKind
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import decide_resume
from duly.store.derived_queries import MissingFilter, find_missing
from duly.timetable.interval import every
from duly_conformance import kit, steps

if TYPE_CHECKING:
    from duly.domain.missing_occurrences import ExpectedOccurrence
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store

REMOVALS = {
    "a run and all that it left": (
        ["outcomes", "ready", "attempts", "claims", "runs"],
        [0, 1],
    ),
    "what was skipped": (["skips"], [2, 3]),
    "what is owed": (["owed"], [4, 5]),
}
"""By what is removed: from which tables, and which occurrences are missing then, by their place."""


def lived(store: Store, clock: ManualClock) -> ScheduleRecord:
    """Return an hourly schedule: two runs, two that were skipped, two that are owed, one pending."""
    record = steps.create(store, timetable=every("1h"), misfire=Misfire("all"))
    for _ in range(2):
        record = steps.fire_due(store, clock, record)
    record = steps.pause(store, record)
    clock.advance("2h")
    record = steps.apply(store, record, decide_resume(record, store.now(), Missed.SKIP, None))
    steps.fall_due(clock, record)
    clock.advance("65m")
    return steps.edit(store, record, kit.definition(timetable=every("1d")))


def slots(store: Store) -> list[ExpectedOccurrence]:
    """Return what became of all that was expected."""
    command = MissingFilter(since=0, kinds=frozenset(ExpectedOccurrenceKind))
    return [one.slot for one in find_missing(store, command).found]
