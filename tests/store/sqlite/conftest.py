"""A store on a fresh file, with a clock that is set by hand."""

from __future__ import annotations

import pytest

from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteSettings, SqliteStore
from tests.store.sqlite.made_file import made_file

AT_ONCE = SqliteSettings(busy_timeout_us=0)
"""Give up at once when the file is locked: no test waits."""


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "duly.db"


@pytest.fixture
def store(path, clock):
    opened = SqliteStore(made_file(path, clock), clock, settings=AT_ONCE)
    yield opened
    opened.close()
