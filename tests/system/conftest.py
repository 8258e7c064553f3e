"""Processes of a system test end with it."""

from __future__ import annotations

import pytest

from tests.system.fleet import Fleet


@pytest.fixture
def fleet(tmp_path):
    made = Fleet(tmp_path)
    yield made
    made.kill_all()
