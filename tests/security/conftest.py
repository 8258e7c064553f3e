"""The time of applications that are attacked."""

from __future__ import annotations

import pytest

from duly.engine.manual_clock import ManualClock
from duly.timetable.instants import to_microseconds
from tests.timetable.instants import moment


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(to_microseconds(moment("2026-04-02T12:00Z")))
