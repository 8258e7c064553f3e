"""A wall of green with nothing done behind it, and schedules of which a record is gone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import Overlap, RunState
from duly.domain.outcomes import Succeeded
from duly.engine.alerts.schedule_detectors import MissingDetector
from duly.timetable.interval import every
from duly_conformance import steps
from duly_conformance.kit import MINUTE_US
from duly_conformance.vitals import KEEP, prune
from tests.engine.alerts.alert_rig import GuardRoom
from tests.engine.alerts.test_kinds import dispatcher, forget_run, worker

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord

TRIGGERS = {"late-run", "missing-run", "early-fire", "clock-skew", "no-executions"}
"""Kinds that say that time is not kept, or that nothing is begun."""


def wait(guard, minutes: int) -> None:
    """Let minutes pass, with a look every quarter of one."""
    guard.look(4 * minutes)


def test_alerts_tell_what_a_wall_of_green_hides(guard):
    """Triggers punctual, a queue eleven minutes old, a useful completion 47 minutes old."""
    dispatcher(guard)
    busy = worker(guard)
    quarter = every("15m")
    record = steps.create(guard.store, "settle", timetable=quarter, overlap=Overlap.ALLOW)
    record = steps.fire_due(guard.store, guard.clock, record)
    done = steps.take_one(guard.store, busy)
    wait(guard, 9)
    steps.end(guard.store, busy, done, Succeeded())
    wait(guard, 5)
    for _ in range(2):
        record = steps.fire_due(guard.store, guard.clock, record)
        steps.take_one(guard.store, busy)  # and it goes on, and on
        wait(guard, 14)
    record = steps.fire_due(guard.store, guard.clock, record)
    before = {str(one.kind) for one in guard.alerts()}
    wait(guard, 11)

    (age,) = guard.alerts("queue-age")
    (stale,) = guard.alerts("stale-completion")
    now = guard.store.now()
    assert set() == before
    assert {"queue-age", "stale-completion"} == {str(one.kind) for one in guard.alerts()}
    assert (11, 47) == ((now - age.since) // MINUTE_US, (now - stale.since) // MINUTE_US)
    assert "schedule settle" == stale.subject
    assert "3 occurrences fell due since" in stale.summary
    assert not TRIGGERS & {str(one.kind) for one in guard.alerts(is_open=False)}
    assert ("raised", "schedule settle") in guard.told("stale-completion")


def test_an_occurrence_is_missed_by_intent_although_its_schedule_was_edited_since(guard):
    """What the version before had promised is still looked for."""
    dispatcher(guard)
    record = steps.create(guard.store, "nightly", timetable=every("10m"))
    record = steps.fire_due(guard.store, guard.clock, record)
    lost = last_run(record)
    record = steps.fire_due(guard.store, guard.clock, record)
    forget_run(guard.store, lost)
    other = replace(record.definition, timetable=every("1h"))
    steps.edit(guard.store, record, other)
    guard.look(8)

    (alert,) = guard.alerts("missing-run")
    assert 1 == len(alert.evidence["missing"])


def test_what_retention_has_removed_is_unknown_and_no_alert(guard):
    """History that is no longer kept says nothing, in either direction."""
    dispatcher(guard)
    record = steps.create(guard.store, "nightly", timetable=every("10m"))
    for _ in range(3):
        record = steps.fire_due(guard.store, guard.clock, record)
        busy = worker(guard)
        for claimed in steps.take(guard.store, busy):
            steps.end(guard.store, busy, claimed, Succeeded())
    guard.clock.advance("1s")
    prune(guard.store, replace(KEEP, outcomes_us={RunState.SUCCEEDED: 0}))
    guard.look(8)

    assert [] == guard.alerts("missing-run")
    assert guard.store.find_schedule("default", "nightly").record.pruned_through is not None


def test_the_look_for_what_is_missing_goes_round(stored):
    """A few schedules at a time, and each comes again."""
    store, clock = stored
    guard = GuardRoom(store, clock, detectors=[MissingDetector(page=2, most=2)])
    dispatcher(guard)
    records = [steps.create(store, f"s{n}", timetable=every("10m")) for n in range(5)]
    for record in records:
        forget_run(store, last_run(steps.fire_due(store, clock, record)))
    clock.advance("1s")
    found = []
    for _ in range(4):
        guard.look(1, after="1s")
        found.append(len(guard.subjects("missing-run")))

    assert [2, 4, 5, 5] == found


def test_nothing_slips_through_a_round_that_takes_longer_than_a_look_reaches(stored):
    """What fell due since a schedule was last looked at is looked for, however long ago."""
    store, clock = stored
    guard = GuardRoom(store, clock, detectors=[MissingDetector(page=1, most=1)])
    dispatcher(guard)
    records = [steps.create(store, f"s{n}", timetable=every("10m")) for n in range(3)]
    guard.look(1, after="1s")
    for record in records:
        forget_run(store, last_run(steps.fire_due(store, clock, record)))
    guard.look(3, after="40m")

    assert [f"schedule s{n}" for n in range(3)] == guard.subjects("missing-run")


def last_run(record: ScheduleRecord) -> bytes:
    """Return the run that a schedule has made last."""
    assert record.last_run is not None
    return record.last_run
