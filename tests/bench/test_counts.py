"""What a run costs by count: no clock has a part in it, so a change that makes it dearer shows.

A dispatcher and a worker run a crowd from its schedules to its outcomes. A bound is what was
counted when it was set and a tenth more, because how a crowd falls into batches is not the same
each time. Who needs more raises it here, with the reason.
"""

from __future__ import annotations

import pytest

from bench.parts.work_cost import cost
from bench.stores.database import Database
from bench.stores.file import SqliteFile
from tests.postgres.server import Server

RUNS = 2000
SLOTS = 500


@pytest.fixture(scope="module")
def server():
    """A server of our own: the log of one that is shared has others' work in it, too."""
    with Server.boot({"shared_preload_libraries": "pg_stat_statements"}) as booted:
        yield booted


def test_a_run_on_postgresql_costs_no_more_than_it_did(server):
    found = cost(Database(server), RUNS, SLOTS)

    # A statement is for a batch: with one for each run this would be 1 or more.
    assert found.statements <= 0.3, found
    # Five rows (run, ready, claim, outcome, state) with their indexes.
    assert found.log_bytes <= 1_950, found
    # A plan that turns into a scan of a table shows here first.
    assert found.pages <= 58, found


def test_a_run_on_sqlite_costs_no_more_than_it_did(tmp_path):
    found = cost(SqliteFile(tmp_path / "counts.db"), RUNS, SLOTS)

    # Prepared statements that are run for each row of a batch.
    assert found.statements <= 10.5, found
    # Whole pages, each written once for a commit.
    assert found.log_bytes <= 1_200, found
    assert found.pages <= 54, found
