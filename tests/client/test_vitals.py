"""How schedules, tasks and tenants are doing: triggers and completions side by side."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from shlex import quote
from typing import TYPE_CHECKING

import pytest

import duly
from duly import Retry, Verdict, every
from duly.client.status import judge_health
from duly.errors import NotFound, UsageError
from duly.testing import virtual_time

if TYPE_CHECKING:
    from duly.client.vitals_view import VitalSigns

START = "2026-04-03T02:00"
MINUTE = timedelta(minutes=1)


def test_a_wall_of_green_shows_that_nothing_useful_is_completed():
    """Triggers punctual, a queue eleven minutes old, a completion 47 minutes old."""
    app = duly.App("memory:")
    wrong: list[str] = []

    @app.task(queue="billing")
    def settle() -> None:
        """Do what the business waits for."""

    @settle.verify
    def is_settled(run: duly.Run) -> Verdict:
        return Verdict.absent() if wrong else Verdict.present()

    def work_at(moment: str) -> None:
        """Let what has waited be done then, and nothing before it."""
        app.queues.pause("billing")
        clock.advance_to(f"2026-04-03T{moment}")
        app.queues.resume("billing")
        clock.advance("1s")
        app.queues.pause("billing")

    with virtual_time(app, "2026-04-03T01:50") as clock:
        quarter = every("15m", anchor=datetime(2026, 4, 3, 0, 6, tzinfo=UTC))
        app.schedules.create("settle", settle, quarter, overlap="allow")
        work_at("01:51:30")
        work_at("02:15:00")
        healthy = app.vitals.of_schedule("settle")
        wrong.append("the ledger")
        work_at("02:50:00")
        clock.advance_to("2026-04-03T03:02:00")
        found = app.vitals.of_schedule("settle")
        (row,) = app.vitals.schedules().items
        health = judge_health(app.status(), app.queues.list())

    assert (True, True) == (healthy.trigger.is_well, healthy.completion.is_well)
    assert (True, False) == (found.trigger.is_well, found.completion.is_well)
    # Every trigger was punctual: 99 of 100 within half a second.
    assert found.window.window.fired.runs == 5
    assert found.window.window.fired.p99 is not None
    assert found.window.window.fired.p99 < 500_000
    assert (None, True) == (found.trigger.overdue, row.trigger.is_well)
    # And the business is late: what waits, waits for eleven minutes, and what was done was in vain.
    assert 11 * MINUTE == found.work.queue_delay
    assert 47 * MINUTE == found.completion.age
    assert ("verified", 15 * MINUTE) == (found.completion.useful_by, found.completion.cadence)
    assert found.completion.ratio is not None
    assert 3.1 == round(found.completion.ratio, 1)
    assert found.completion.last_success is not None
    assert found.completion.last_useful is not None
    assert found.completion.last_success.at > found.completion.last_useful.at
    assert (2, 4) == (found.window.window.useful, found.window.window.attempts)
    assert 9 * 60_000_000 <= (found.window.window.useful_after.p99 or 0)
    assert ((), 1) == (health.dispatch, len(health.work))
    assert "stale-completion" == health.work[0].code
    assert "the last verified completion of settle is 47 min old" in str(health.work[0])
    assert "one is expected every 15 min" in str(health.work[0])
    assert (row.completion.age, row.completion.findings) == (
        found.completion.age,
        found.completion.findings,
    )


def test_what_is_due_every_few_seconds_is_not_stale_within_a_minute():
    """A busy moment delays several of its occurrences, and says nothing about its work."""
    app = duly.App("memory:")

    @app.task
    def poll() -> None:
        """Look at something."""

    with virtual_time(app, START) as clock:
        app.schedules.create("poll", poll, every("4s"), overlap="allow")
        clock.advance("10s")
        app.queues.pause("default")
        clock.advance("50s")
        delayed = app.vitals.of_schedule("poll").completion
        clock.advance("15s")
        stopped = app.vitals.of_schedule("poll").completion

    assert timedelta(seconds=50) <= (delayed.age or timedelta())
    assert (True, False) == (delayed.is_well, stopped.is_well)


def test_a_schedule_tells_what_goes_on_and_how_it_went_wrong():
    """Active attempts, retries, failures by class, useful completions per attempt."""
    app = duly.App("memory:")
    seen: list[VitalSigns] = []

    @app.task(retry=Retry(attempts=2))
    def close(run: duly.Run) -> None:
        run.progress(3, 40)
        seen.append(app.vitals.of_schedule("close"))
        if len(seen) == 1:
            raise ValueError("no such ledger")

    with virtual_time(app, START) as clock:
        app.schedules.create("close", close, every("1h"))
        fresh = app.vitals.of_schedule("close")
        clock.advance("3h")
        found = app.vitals.of_schedule("close")

    assert (None, None) == (fresh.completion.last_useful, fresh.trigger.last_fired_at)
    assert (True, 0, True) == (
        fresh.window.is_whole,
        fresh.window.window.runs,
        fresh.trigger.is_well,
    )
    (attempt,) = seen[0].work.attempts
    assert (1, "close") == (attempt.attempt, attempt.task)
    assert attempt.age < MINUTE
    assert attempt.heartbeat_age is not None
    window = found.window.window
    assert (3, 4, 3, 1) == (window.runs, window.attempts, window.useful, window.retries)
    assert [("failed", "error", "ValueError", 1)] == [tuple(one) for one in window.failures]
    assert 0.75 == window.useful_per_attempt
    assert "succeeded" == found.completion.useful_by
    assert found.completion.last_error is not None
    assert "no such ledger" in (found.completion.last_error.error or "")
    assert found.completion.last_success is not None
    assert found.completion.last_finished_at == found.completion.last_success.at
    told = found.to_json()
    assert ("schedule", "close") == (told["of"], told["name"])
    assert 0.75 == told["window"]["useful_per_attempt"]


def test_a_task_and_a_tenant_are_told_by_all_that_is_theirs():
    """Scheduled or not; and which schedules are not well, the worst first."""
    app = duly.App("memory:")

    @app.task(queue="slow")
    def mail() -> None:
        """Send it."""

    @app.task
    def other() -> None:
        """Be somebody else's."""

    with virtual_time(app, START) as clock:
        app.schedules.create("often", mail, every("10m"), overlap="allow")
        app.schedules.create("seldom", mail, every("1h"))
        app.schedules.create("others", other, every("10m"))
        app.enqueue(mail)
        clock.advance("61m")
        app.queues.pause("slow")
        clock.advance("41m")
        task = app.vitals.of_task("mail")
        tenant = app.vitals.of_tenant()
        page = app.vitals.schedules(limit=2)
        rest = app.vitals.schedules(limit=2, after=page.after)

    assert (2, True, False) == (
        task.trigger.schedules,
        task.trigger.is_well,
        task.completion.is_well,
    )
    assert ["often"] == [one.name for one in task.not_well]
    assert 4 == task.work.queued == tenant.work.queued
    assert task.work.queue_delay is not None
    assert 31 * MINUTE < task.work.queue_delay < 41 * MINUTE
    assert 3 == tenant.trigger.schedules
    assert tenant.window.window.runs > task.window.window.runs
    assert (["often", "others"], ["seldom"]) == (
        [one.name for one in page.items],
        [one.name for one in rest.items],
    )
    assert rest.after is None


def test_what_is_not_there_is_refused_by_name():
    app = duly.App("memory:")

    with pytest.raises(NotFound, match="nobody"):
        app.vitals.of_schedule("nobody")
    with pytest.raises(NotFound, match="nobody"):
        app.vitals.of_task("nobody")
    with pytest.raises(NotFound, match="theirs"):
        app.vitals.of_tenant("theirs")
    with pytest.raises(UsageError, match="limit"):
        app.vitals.schedules(limit=1000)
    with pytest.raises(UsageError, match="status"):
        app.vitals.schedules(status="gone")


def test_what_is_told_to_be_typed_is_quoted():
    """A name that a shell would obey does nothing by being copied."""
    app, name = duly.App("memory:"), "close $(touch x); `id`"

    @app.task(retry=Retry(attempts=1))
    def fail() -> None:
        raise ValueError("no")

    with virtual_time(app, START) as clock:
        app.schedules.create(name, fail, every("10m"))
        clock.advance("2h")
        found = judge_health(app.status(), app.queues.list())

    told = [one for one in found.work if one.code == "stale-completion"]
    assert [f"duly run list --schedule {quote(name)}"] == [one.remedy for one in told]
