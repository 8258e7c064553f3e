"""Vitals and what is missing, over HTTP and from afar."""

from __future__ import annotations

from duly import every
from tests.api.test_metrics import numbers

BASE = "http://localhost/api/v1"


def test_a_schedule_tells_its_trigger_and_its_completions_apart(desk):
    """Of one schedule, of its task, of the tenant, and of each on a page."""
    one = desk.asked.get(f"{BASE}/schedules/hourly/vitals").json()
    page = desk.asked.get(f"{BASE}/vitals/schedules", params={"limit": 1}).json()
    tenant = desk.asked.get(f"{BASE}/vitals").json()
    task = desk.asked.get(f"{BASE}/tasks/{page['items'][0]['task']}/vitals").json()

    assert ("schedule", "hourly") == (one["of"], one["name"])
    assert (True, 1) == (one["trigger"]["is_well"], one["trigger"]["schedules"])
    assert one["completion"]["useful_by"] in {"verified", "succeeded"}
    assert 3600 == one["completion"]["cadence"]
    assert one["completion"] == page["items"][0]["completion"]
    assert one["window"]["runs"] <= task["window"]["runs"] <= tenant["window"]["runs"]
    assert (1, 1) == (tenant["work"]["dead"], tenant["work"]["ambiguous"])
    assert 404 == desk.asked.get(f"{BASE}/schedules/nobody/vitals").status_code
    assert 404 == desk.asked.get(f"{BASE}/tasks/nobody/vitals").status_code


def test_what_nobody_has_fired_is_missing(asked, app, clock):
    """With its cause, a page at a time; and it is not told as the work's fault."""
    begin = clock.now().isoformat()
    app.schedules.create("hourly", app.call("report"), every("1h"))
    clock.advance("210m")
    found = asked.get(f"{BASE}/missing", params={"since": begin}).json()
    told = numbers(asked.get("http://localhost/metrics").text)
    whose = 'tenant="default",schedule="hourly"'

    assert {("hourly", "missing", "no-dispatcher")} == {
        (one["schedule"], one["verdict"], one["cause"]) for one in found["items"]
    }
    assert (3, 1, None) == (len(found["items"]), found["schedules"], found["next_cursor"])
    assert 0 == told[f'duly_schedule_well{{{whose},light="trigger"}}']
    assert told[f"duly_schedule_overdue_seconds{{{whose}}}"] > 7200
    assert 422 == asked.get(f"{BASE}/missing").status_code


def test_metrics_tell_that_work_is_stale_while_triggers_are_punctual(desk):
    """Two lights for each schedule, and both for its task and its tenant."""
    told = numbers(desk.asked.get("http://localhost/metrics").text)
    whose = 'tenant="default",schedule="hourly"'

    assert 1 == told[f'duly_schedule_well{{{whose},light="trigger"}}']
    assert 3600 == told[f"duly_schedule_cadence_seconds{{{whose}}}"]
    assert told[f"duly_schedule_last_useful_timestamp_seconds{{{whose}}}"] > 0
    assert told[f'duly_schedule_lateness_seconds{{{whose},to="fired",quantile="0.99"}}'] < 60
    runs = told['duly_vitals_runs{of="tenant",name="default"}']
    assert runs >= told['duly_vitals_useful{of="tenant",name="default"}'] > 0
