"""`duly vitals`: triggers and completions side by side, as a person reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly_conformance.kit import HOUR_US, new_schedule

if TYPE_CHECKING:
    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace

NIGHTLY = ("--task", "nightly_report", "--when", "every day at 2:30", "--tz", "Europe/Berlin")


def test_each_schedule_is_shown_with_two_lights(place: Workplace, store: SqliteStore):
    """One is overdue, and says nothing about its work; the exit code is 1."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    calm = place.duly("vitals")
    store.create_schedule(new_schedule(store.now() - 3 * HOUR_US, "hourly"))
    told = place.duly("vitals")
    found = place.duly("vitals", "--json")
    status = place.duly("status")

    assert "triggers: not well   work: well" in status.out
    assert (0, 1) == (calm.status, told.status)
    assert "NOT WELL" in told.out
    lights = {
        one["name"]: (one["trigger"]["is_well"], one["completion"]["is_well"]) for one in found.json
    }
    assert {"hourly": (False, True), "nightly": (True, True)} == lights


def test_all_that_is_known_of_one_is_shown(place: Workplace):
    """Also when nothing has happened yet."""
    place.duly("schedule", "create", "nightly", *NIGHTLY)
    told = place.duly("vitals", "nightly")
    tenant = place.duly("vitals", "--tenant", "--json")
    both = place.duly("vitals", "nightly", "--tenant")

    assert 0 == told.status
    assert "Trigger: well" in told.out
    assert "last useful" in told.out
    assert "none on record (succeeded)" in told.out
    assert "0 runs, all there are on record" in told.out
    assert ("tenant", 1) == (tenant.json["of"], tenant.json["trigger"]["schedules"])
    assert 2 == both.status
