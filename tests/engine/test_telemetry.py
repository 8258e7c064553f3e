"""Telemetry: one line for each event, which people and programs can both read."""

from __future__ import annotations

import logging

import pytest

from duly.engine.dispatcher.context import Statistics
from duly.engine.dispatcher.settings import DispatcherSettings
from duly.errors import UsageError
from duly.telemetry import (
    LeasesAcquired,
    LogTelemetry,
    NullTelemetry,
    StoreLost,
    TimersFired,
    event_line,
    has_listener,
)


def test_an_event_is_one_line_of_keys_and_values():
    """Structured, with ids."""
    line = event_line(TimersFired(member=7, fired=3, runs=2, lateness_max_us=1500))

    assert "batch-fired member=7 fired=3 runs=2 lateness_max_us=1500" == line


@pytest.mark.parametrize(
    ("problem", "written"),
    [
        ("is locked", '"is locked"'),
        ("", '""'),
        ("plain", "plain"),
        ("two\nlines", r"two\nlines"),
    ],
)
def test_a_value_can_not_be_taken_for_another(problem, written):
    """What somebody else wrote does not forge a line of the log."""
    line = event_line(StoreLost(member=1, problem=problem))

    assert f"store-lost member=1 problem={written}" == line


def test_lists_are_written_with_commas():
    line = event_line(LeasesAcquired(member=1, leases=("0/live", "1/live")))

    assert "leases-acquired member=1 leases=0/live,1/live" == line


def test_each_event_is_logged_at_its_own_level(caplog):
    """A healthy fire does not fill a log; trouble shows."""
    with caplog.at_level(logging.DEBUG, logger="duly"):
        LogTelemetry().emit(TimersFired(member=7, fired=3, runs=2, lateness_max_us=1500))
        LogTelemetry().emit(StoreLost(member=7, problem="gone"))
        NullTelemetry().emit(StoreLost(member=7, problem="gone"))

    assert [logging.DEBUG, logging.WARNING] == [record.levelno for record in caplog.records]


def test_lateness_is_summed_up_by_its_share():
    """What a benchmark reads."""
    statistics = Statistics()
    statistics.note_lateness([100] * 99 + [5000])
    statistics.note_lateness([])

    assert 128 == statistics.lateness_us(0.5)
    assert 5000 == statistics.lateness_us(1.0)
    assert 0 == Statistics().lateness_us(0.99)


@pytest.mark.parametrize(
    ("name", "value"),
    [("batch_max", 0), ("horizon_us", "30s"), ("batch_max", True), ("ttl_us", 1_900_000)],
)
def test_settings_that_can_not_work_are_refused(name, value):
    """One clear error that names the field."""
    with pytest.raises(UsageError, match=name):
        DispatcherSettings(**{name: value})


def test_who_writes_a_log_hears_what_its_level_lets_through():
    """What nobody would read need not be made."""
    logger = logging.getLogger("duly.hearing")
    logger.setLevel(logging.INFO)
    telemetry = LogTelemetry(logger)

    assert not has_listener(telemetry, TimersFired)
    assert has_listener(telemetry, LeasesAcquired)
    assert not has_listener(NullTelemetry(), LeasesAcquired)


def test_who_does_not_say_what_it_hears_hears_everything():
    class Plain:
        def emit(self, event):
            """Take it."""

    assert has_listener(Plain(), TimersFired)
