"""What is filled in for the benchmark is what Duly itself would have made."""

from __future__ import annotations

import json

import pytest

from bench.stores.database import Database
from bench.stores.file import SqliteFile
from bench.stores.places import Promise
from tests.postgres.server import Server

SECOND_US = 1_000_000
READ = "SELECT definition FROM duly.schedule_definitions"
CARRIED = "SELECT name, arguments FROM duly.schedule_state ORDER BY name"


@pytest.fixture(scope="module")
def server():
    with Server.boot() as booted:
        yield booted


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    if request.param == "sqlite":
        yield SqliteFile(tmp_path / "filled.db")
        return
    yield Database(request.getfixturevalue("server"))


def test_schedules_have_their_number_period_and_phase(place):
    place.fill(Promise(due_at=at, period_us=5 * SECOND_US) for at in (1_000_000, 2_500_000))

    told = [json.loads(text) for (text,) in place.rows(READ)]

    assert {1, 2} == {one["arguments"]["number"] for one in told}
    assert {"5000000us"} == {one["timetable"]["period"] for one in told}
    assert 2 == len({one["timetable"]["anchor"] for one in told})
    # What a run is handed comes from here, and not from the definition.
    assert [("s1", '{"number":1}'), ("s2", '{"number":2}')] == place.rows(CARRIED)
    place.remove()


def test_definitions_are_written_as_duly_writes_them(place):
    place.fill([Promise(due_at=1_000_000)])

    ((text,),) = place.rows(READ)

    assert json.dumps(json.loads(text), separators=(",", ":")) == text
    place.remove()
