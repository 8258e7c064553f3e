"""Virtual time: what falls due is run at once, on a memory store, without sleeping."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path

import pytest

import duly
from duly import UsageError, cron, every


@pytest.fixture
def app(tmp_path):
    return duly.App(f"sqlite:///{tmp_path / 'own.db'}", actor="ada")


@pytest.fixture
def nightly(app):
    @app.schedule(cron("30 2 * * *", tz="Europe/Berlin"), name="nightly")
    @app.task
    def nightly(run: duly.Run) -> str:
        return run.label

    return nightly


def test_three_lines_show_what_happens_on_the_night_of_a_clock_change(app, nightly):
    with duly.testing.virtual_time(app, "2026-03-28T12:00", tz="Europe/Berlin") as clock:
        clock.advance("24h")

        assert ["nightly@2026-03-29T03:00+02:00"] == [one.label for one in app.runs.list()]


def test_the_hour_that_comes_twice_runs_once(app, nightly):
    with duly.testing.virtual_time(app, "2026-10-24T12:00", tz="Europe/Berlin") as clock:
        clock.advance("24h")
        runs = app.runs.list()

    assert [("nightly@2026-10-25T02:30+02:00", "succeeded")] == [
        (one.label, one.state) for one in runs
    ]
    assert runs[0].label == runs[0].result


def test_each_run_happens_at_its_own_instant(app):
    seen = []

    @app.schedule(every("1h"))
    @app.task
    def hourly() -> None:
        seen.append(clock.now)

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        clock.advance("3h")

        assert [13, 14, 15] == [one.hour for one in seen]
        assert all(one.minute == 0 and one.microsecond == 0 for one in seen)
        assert [timedelta(0)] * 3 == [one.lateness for one in app.runs.list()]


def test_errors_are_seen_in_runs_and_retries_happen_in_virtual_time(app):
    @app.task(retry=duly.Retry(3, base="1h", cap="4h"))
    def fail() -> None:
        raise ConnectionError("the other side is away")

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        made = app.enqueue(fail)
        clock.advance("0s")

        assert "retrying" == app.runs.get(made.id).state

        clock.advance("1d")
        run = app.runs.get(made.id)

        assert ("dead", "budget", 3) == (run.state, run.reason, run.attempt)
        assert "the other side is away" in (run.error or "")
        assert ["failed"] * 3 == [one.state for one in app.runs.attempts(made.id)]


def test_async_tasks_and_what_they_enqueue_are_run(app):
    @app.task
    def second(number: int) -> int:
        return number + 1

    @app.task
    async def first(run: duly.Run) -> None:
        await run.aio.checkpoint({"begun": True})
        app.enqueue(second.bind(1), delay="10m")

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        app.enqueue(first)
        clock.advance("10m")

        assert [("second", 2), ("first", None)] == [
            (one.task, one.result) for one in app.runs.list()
        ]


def test_snoozing_and_giving_up_are_answers(app):
    @app.task
    def later(run: duly.Run) -> object:
        return duly.snooze("10m") if run.attempt == 1 else duly.give_up("no use")

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        made = app.enqueue(later)
        clock.advance("9m")

        assert "retrying" == app.runs.get(made.id).state

        clock.advance("1m")
        run = app.runs.get(made.id)

        assert ("failed", "gave-up", 2, 1) == (run.state, run.reason, run.attempt, run.charged)


def test_waiting_lets_virtual_time_pass(app, nightly):
    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        made = app.schedules.trigger("nightly")
        run = app.runs.wait(made.id, timeout="1m")

        assert run.is_over
        assert clock.now < datetime(2026, 4, 2, 12, 1, tzinfo=UTC)


def test_a_pause_that_ends_by_itself_ends_at_its_instant(app):
    @app.schedule(every("1h"), name="hourly")
    @app.task
    def hourly() -> None: ...

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        app.schedules.pause("hourly", until="2026-04-02T14:30Z")
        clock.advance("4h")

        assert [16, 15] == [one.scheduled_for.hour for one in app.runs.list()]


def test_commands_and_webhooks_are_not_carried_out(app, tmp_path):
    touch = app.command("touch", ["touch", "{path}"])

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        made = app.enqueue(touch.bind(path=str(tmp_path / "made")))
        clock.advance("1s")

        assert {"path": str(tmp_path / "made")} == app.runs.get(made.id).result
    assert not (tmp_path / "made").exists()


def test_the_applications_own_store_is_untouched_and_back_afterwards(app, nightly, tmp_path):
    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        clock.advance("24h")
        assert 1 == len(app.runs.list())
        assert not Path(tmp_path / "own.db").exists()

    assert [] == app.runs.list()
    assert f"sqlite:///{tmp_path / 'own.db'}" == app.status().store


def test_it_is_back_after_an_error_too(app, nightly):
    with (
        pytest.raises(RuntimeError, match="oh"),
        duly.testing.virtual_time(app, "2026-04-02T12:00"),
    ):
        raise RuntimeError("oh")

    assert "sqlite" in app.status().store


def test_time_passes_forwards_up_to_a_moment(app, nightly):
    with duly.testing.virtual_time(app, "2026-04-02T12:00", tz="Europe/Berlin") as clock:
        clock.advance_to("2026-04-03T02:30")

        assert "2026-04-03T02:30:00+02:00" == clock.now.isoformat()
        assert 1 == len(app.runs.list())
        with pytest.raises(UsageError, match="is in the past"):
            clock.advance_to("2026-04-03T02:29")
        with pytest.raises(UsageError, match="is negative"):
            clock.advance("-1h")


@pytest.mark.parametrize("start", ["yesterday", None, 5, "2026-13-01"])
def test_a_start_that_is_no_moment_is_refused(app, start):
    with (
        pytest.raises(UsageError, match="is not a moment"),
        duly.testing.virtual_time(app, start),
    ):
        pass


def test_a_task_that_never_comes_to_rest_is_told(app, monkeypatch):
    monkeypatch.setattr(import_module("duly.testing"), "ROUNDS_MAX", 20)

    @app.task
    def again() -> None:
        app.enqueue(app.call("again"))

    with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
        app.enqueue(again)
        with pytest.raises(UsageError, match="does not come to rest"):
            clock.advance("1h")


def test_nothing_is_left_to_chance(app):
    """Ids, the order of what falls due together and the spread of retries, at every run."""
    seen: list[list[tuple[object, datetime]]] = []

    @app.task(retry=duly.Retry(attempts=3, base="1m"))
    def fail(run: duly.Run) -> None:
        seen[-1].append((run.id, clock.now))
        raise ConnectionError("not now")

    for _ in range(2):
        seen.append([])
        with duly.testing.virtual_time(app, "2026-04-02T12:00") as clock:
            for number in range(8):
                app.schedules.create(f"at one instant, {number}", fail, every("1h"))
            clock.advance("90m")

    assert 3 * 8 == len(seen[0])
    assert seen[0] == seen[1]
