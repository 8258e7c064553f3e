"""The history of the demo: made by the engine, so that all that must hold holds, one of everything."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from duly.app import App
from duly.demo import app
from duly.demo import app as tasks
from duly.demo.history import BACKFILL_SHARE, DAYS, REPORTS_LOST, make_history
from duly.engine.manual_clock import ManualClock
from duly.timetable.instants import to_microseconds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.client.run_view import Run

NOW = datetime(2027, 3, 28, 7, 41, 7, tzinfo=UTC)
"""A Sunday; in the night before it clocks in Europe were put forward."""
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
OPERATOR = app.OPERATOR
pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> Iterator[App]:
    """Return an application that looks at the history when it has just been made."""
    file = tmp_path_factory.mktemp("demo") / "promises.db"
    made = make_history(tasks.app, file, ManualClock(to_microseconds(NOW)))
    assert 2_000 <= made <= 4_000
    with App(f"sqlite:///{file}", clock=ManualClock(to_microseconds(NOW))) as app:
        yield app


@pytest.fixture(scope="module")
def runs(past: App) -> list[Run]:
    return past.runs.list(limit=10_000)


def test_what_must_always_hold_holds(past: App):
    """Nothing is forged, so the check, the seals and the count of early fires agree."""
    status = past.status()

    assert [] == past.check()
    assert past.audit.verify().is_sound
    assert 0 == status.early_fires
    assert [] == [one for one in status.members if one.is_alive]
    assert () == status.stale, "at whatever hour it is begun"


def test_there_is_a_run_of_every_kind(runs: list[Run]):
    """One of everything."""
    states = Counter(run.state for run in runs)
    origins = Counter(run.origin for run in runs)
    expected = {
        *("succeeded", "failed", "dead", "discarded", "cancelled", "retrying", "queued"),
        *("blocked", "coalesced", "replaced", "ambiguous"),
    }

    assert set() == expected - set(states)
    assert {"schedule", "now", "delay", "manual", "catch-up", "backfill", "verify"} <= set(origins)
    assert {"rerun", "repair"} <= set(origins)
    assert any(run.state == "succeeded" and run.attempt > 1 for run in runs)


def test_it_begins_two_weeks_ago_and_ends_now(runs: list[Run]):
    fired = [run.fired_at for run in runs if run.fired_at is not None]

    assert NOW - timedelta(days=DAYS) <= min(fired) < NOW - timedelta(days=DAYS - 1)
    assert NOW - timedelta(minutes=16) < max(fired) <= NOW


def test_every_expected_occurrence_has_a_verdict(past: App):
    """Nothing is unknown or overdue, and only an open backfill still has occurrences to run."""
    begin = NOW - timedelta(days=DAYS)
    found: Counter[tuple[str, str | None]] = Counter()
    for schedule in past.schedules.list(status="active"):
        for one in past.schedules.occurrences(schedule.name, begin, NOW):
            found[one.verdict, one.reason] += 1
    reasons = {reason for verdict, reason in found if verdict == "skipped"}

    assert {"run", "skipped", "coalesced", "owed"} == {verdict for verdict, _ in found}
    assert {"backfill"} == {reason for verdict, reason in found if verdict == "owed"}
    assert {"misfire", "overlap", "coalesced", "paused", "skipped"} <= reasons


def test_runs_are_late_for_want_of_a_dispatcher_and_for_want_of_a_worker(runs: list[Run]):
    fired_late = [run for run in runs if run.fired_at and run.fired_at - run.due_at > HOUR]
    begun_late = [
        run
        for run in runs
        if run.fired_at and run.started_at and run.attempt == 1
        if run.fired_at - run.due_at < MINUTE and run.started_at - run.fired_at > 5 * MINUTE
        if run.origin == "schedule"
    ]

    assert "price-feed" in {run.schedule for run in fired_late}
    assert begun_late


def test_runs_overlapped_where_that_is_allowed(runs: list[Run]):
    feeds = sorted(
        (run for run in runs if run.schedule == "price-feed"), key=lambda run: run.due_at
    )
    pairs = pairwise(feeds)

    assert any(a.finished_at and b.started_at and b.started_at < a.finished_at for a, b in pairs)


def test_results_are_verified_and_refuted(past: App, runs: list[Run]):
    reports = [run for run in runs if run.schedule == "nightly-report"]
    verdicts = {one.verdict for run in reports for one in past.inbox.checks(run.id)}

    assert {"verified", "refuted"} <= verdicts


def test_a_report_is_refuted_whenever_the_demo_is_started():
    """Nights in which clocks are put back are longer than others."""
    reports = app.NIGHTLY.upcoming(datetime(2026, 10, 20, tzinfo=UTC), 10)
    longest = max(b - a for a, b in pairwise(reports))

    assert 25 * HOUR == longest < REPORTS_LOST


def test_a_scope_has_missing_items(past: App, runs: list[Run]):
    scopes = [past.inbox.scope(run.id) for run in runs if run.schedule == "ledger-close"]

    assert 1 == [one.missing for one in scopes].count(("account-7", "account-8"))
    assert any(one.is_complete for one in scopes)


def test_one_payment_is_in_doubt_and_one_was_settled(past: App, runs: list[Run]):
    """By whom and why is in the audit trail."""
    [item] = past.inbox.list()
    settled = [one for one in past.audit.page(action="run.settled").items if one.actor == OPERATOR]

    assert "supplier-payouts" == item.run.schedule
    assert "lost" == item.run.reason
    assert "reconcile" == item.advice.choice
    assert 1 == len(settled)
    assert any(run.reason == "reconciled" for run in runs)


def test_a_backfill_stands_at_two_fifths(past: App):
    [backfill] = past.backfills.list()

    assert "paused" == backfill.status
    assert BACKFILL_SHARE * backfill.total == backfill.made
    assert 0 == backfill.open


def test_a_breaker_is_open_and_a_queue_is_paused(past: App):
    [breaker] = past.breakers.list()
    queue = past.queues.get(tasks.BULK)

    assert "closed" != breaker.state
    assert (True, 2, OPERATOR) == (queue.is_paused, queue.queued, queue.paused_by)


def test_delayed_runs_wait_under_their_keys(past: App):
    assert {"class:41:reminder", "class:42:reminder"} == {one.key for one in past.delayed.list()}


def test_schedules_are_of_the_owner_demo_and_some_are_paused_or_deleted(past: App):
    schedules = {one.name: one for one in past.schedules.list(include_deleted=True)}
    newsletter = schedules["newsletter"]

    assert {app.OWNER} == {one.owner for one in schedules.values()}
    assert ("paused", NOW + timedelta(days=5)) == (newsletter.status, newsletter.resume_at)
    assert newsletter.reason
    assert "deleted" == schedules["old-export"].status


def test_people_of_the_demo_gave_orders(past: App):
    actors = Counter(one.actor for one in past.audit.page(limit=1000).items)

    assert {OPERATOR, app.ANALYST, "demo"} <= set(actors)
    assert {OPERATOR, app.ANALYST, "demo", "duly"} == set(actors)


def test_the_night_of_the_clock_change_is_in_it(past: App, runs: list[Run]):
    """02:30 did not exist in Berlin; the report ran at 03:00, once."""
    night = [
        run
        for run in runs
        if run.schedule == "nightly-report" and run.due_at > NOW - timedelta(hours=8)
    ]

    assert ["nightly-report@2027-03-28T03:00+02:00"] == [run.label for run in night]


@pytest.mark.parametrize(
    ("now", "zone"),
    [
        (datetime(2026, 10, 20, tzinfo=UTC), "Europe/Berlin"),
        (datetime(2026, 10, 30, tzinfo=UTC), "America/New_York"),
        (datetime(2027, 3, 30, tzinfo=UTC), "Pacific/Auckland"),
    ],
)
def test_a_schedule_lives_where_clocks_change_soonest(now: datetime, zone: str):
    assert zone == app.zone_of_next_change(now)
