"""What every test of traces has: a provider that keeps spans, and a store of each kind."""

from __future__ import annotations

import pytest

from tests.telemetry.recorded import Recorded


@pytest.fixture
def recorded():
    return Recorded()


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/duly.db"
    return request.getfixturevalue("database")
