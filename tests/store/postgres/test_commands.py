"""The doctor and a wrapped command on PostgreSQL: the same as on a file."""

from __future__ import annotations

from duly.app import App
from duly.app.doctor import Level, examine
from duly.cli.exec import CommandRun, run_wrapped


def test_the_doctor_finds_a_fresh_database_well(url):
    """There is no file, and so no disk to look at."""
    with App(url) as app:
        found = examine(app)

    assert {"schema", "store", "clock", "dispatch", "work"} <= {one.about for one in found.checks}
    assert found.level in {Level.OK, Level.NOTE}, found


def test_a_database_that_does_not_answer_is_broken():
    """With what to do, and without the password."""
    with App("postgresql://me:canary@127.0.0.1:1/nowhere") as app:
        found = examine(app)

    assert Level.BROKEN == found.level
    assert ["store-unavailable"] == [one.code for one in found.checks if one.level is Level.BROKEN]
    assert "canary" not in str(found)


def test_a_command_is_a_recorded_run(url):
    with App(url) as app:
        recorded = run_wrapped(app, CommandRun(name="five", argv=["sh", "-c", "exit 5"]))

        assert (5, True) == (recorded.status, recorded.is_settled)
        assert recorded.run is not None
        assert ("failed", "exec:five") == (recorded.run.state, recorded.run.task)
