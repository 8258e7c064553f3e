"""Retention as people say it, and that it holds for whoever runs the product."""

from __future__ import annotations

import pytest

import duly
from duly import UsageError
from duly.engine.dispatcher.settings import KEPT, RETENTION_DEFAULT, read_retention, retention_terms
from duly.timetable.instants import DAY, SECOND_US

DAY_US = DAY * SECOND_US


def test_what_is_not_said_is_kept_as_long_as_usual():
    assert RETENTION_DEFAULT == read_retention(())
    assert set(KEPT) == set(retention_terms(RETENTION_DEFAULT))


def test_each_kind_of_history_has_its_own_time():
    """By age and by count, per state."""
    terms = ("succeeded=7d", "failed = forever", "skips=1w", "runs-per-schedule=1000")
    found = read_retention((*terms, "deleted-schedules=14d"))

    assert 7 * DAY_US == found.outcomes_us["succeeded"]
    assert "failed" not in found.outcomes_us
    assert (7 * DAY_US, 14 * DAY_US, 1000) == (
        found.skips_us,
        found.deleted_schedules_us,
        found.runs_per_schedule,
    )
    assert 30 * DAY_US == found.outcomes_us["cancelled"]


def test_it_is_written_as_it_is_read():
    found = read_retention(("succeeded=7d", "failed=forever", "runs-per-schedule=5"))

    assert found == read_retention(f"{k}={v}" for k, v in retention_terms(found).items())


@pytest.mark.parametrize(
    ("term", "says"),
    [
        ("succeeded", "is not known"),
        ("queued=7d", "is not known"),
        ("succeeded=soon", "is not a duration"),
        ("succeeded=0s", "keeps nothing"),
        ("runs-per-schedule=0", "is no number of runs"),
        ("runs-per-schedule=many", "is no number of runs"),
    ],
)
def test_what_can_not_be_kept_is_refused(term, says):
    with pytest.raises(UsageError, match=says):
        read_retention((term,))


def test_a_variable_wins_over_what_the_program_says(monkeypatch):
    """Whoever runs it has the last word."""
    app = duly.App("memory:", settings=duly.Settings(retention=("succeeded=7d", "failed=8d")))
    monkeypatch.setenv("DULY_RETENTION", "succeeded=2d, deleted-schedules=3d")
    found = app.retention

    assert (2 * DAY_US, 8 * DAY_US) == (found.outcomes_us["succeeded"], found.outcomes_us["failed"])
    assert 3 * DAY_US == found.deleted_schedules_us
    monkeypatch.setenv("DULY_RETENTION", "nonsense")
    with pytest.raises(UsageError, match="retention"):
        app.dispatcher()


@pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"])
def test_a_dispatcher_is_told_what_holds(store, tmp_path, request):
    """That it removes just that, the tests of maintenance show."""
    urls = {"memory": "memory:", "sqlite": f"sqlite:///{tmp_path / 'duly.db'}"}
    url = urls.get(store) or request.getfixturevalue("database")
    settings = duly.Settings(retention=("succeeded=1m", "deleted-schedules=forever"))
    with duly.App(url, settings=settings) as app:
        kept = app.dispatcher()._around.settings.retention  # noqa: SLF001 - nothing tells it

        assert 60 * SECOND_US == kept.outcomes_us["succeeded"]
        assert kept.deleted_schedules_us is None
