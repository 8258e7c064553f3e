"""What a run costs by count: no clock has a part in it, so a change that makes it dearer shows.

A dispatcher and a worker, ticked in one thread on a clock that is set by hand, take a burst from its
schedules to its outcomes. A bound is what was counted when it was set and a little more: ids are drawn,
so pages fill up a little differently. A change that needs more raises it here, with the reason.
"""

from __future__ import annotations

import pytest

from bench.parts.effect_cost import prices
from bench.parts.work_cost import cost
from bench.stores.database import Database
from bench.stores.file import SqliteFile
from duly.store.postgres import firing
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock
from tests.postgres.server import Server
from tests.store.postgres.postgres_pair import Street

RUNS = 2000
SLOTS = 500
CROWD = 1000
LOG_END = "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn"
ASKED = 200
"""Permissions, one after the other."""


@pytest.fixture(scope="module")
def server():
    """A server of our own: the log of one that is shared has others' work in it, too."""
    with Server.boot({"shared_preload_libraries": "pg_stat_statements"}) as booted:
        yield booted


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_run_on_postgresql_costs_no_more_than_it_did(server, is_observed):
    """Nor with metrics, a log of JSON and traces."""
    found = cost(Database(server), RUNS, SLOTS, is_observed=is_observed)

    # Counted 0.1185, the same each time: a statement is for a batch. With one for each run it would be
    # 1 or more.
    assert found.statements <= 0.12, found
    # Counted 1,758 to 1,762: rows of a run, the queue, a claim, an outcome and the schedule's state.
    assert found.log_bytes <= 1_850, found
    # Counted 43.7: a plan that turns into a scan of a table shows here first.
    assert found.pages <= 45, found
    # What has no effects, items or failures has not one row where those are kept.
    assert 0 == found.beside
    # The run and its outcome: nothing is written down for whoever observes.
    assert 2 == found.rows


@pytest.fixture
def street(server):
    """A dispatcher and a worker of one host, on a clock that is set by hand."""
    url = server.create_database()
    with_store_and_clock(url)
    with DatabaseClock(url) as clock:
        made = Street(url, clock)
        yield made
        made.close()


def test_a_run_that_is_handed_over_costs_less_than_one_that_is_queued(street, monkeypatch):
    """From due to claimed it is written once less, and neither searched nor deleted."""
    worker = street.move_in()
    queued, handed = street.crowd(CROWD), street.crowd(CROWD)

    def log_bytes(take):
        before = street.line.execute(LOG_END).fetchall()[0][0]
        assert CROWD == len(take())
        return int(street.line.execute(LOG_END).fetchall()[0][0] - before) / CROWD

    def take_from_the_queue():
        with monkeypatch.context() as patch:
            patch.setattr(firing, "HANDED_MIN", CROWD + 1)
            street.store.fire_timers(queued)
        return worker.claim_all(limit=CROWD + 1)

    def take_what_is_offered():
        heard = street.begin(handed)
        taken = worker.claim_all()
        assert CROWD == heard().runs_made
        return taken

    by_the_queue, next_door = log_bytes(take_from_the_queue), log_bytes(take_what_is_offered)

    # Counted 954 and 599.
    assert next_door <= 0.8 * by_the_queue, (next_door, by_the_queue)
    assert next_door <= 750, next_door


@pytest.mark.parametrize("is_observed", [False, True])
def test_a_run_on_sqlite_costs_no_more_than_it_did(tmp_path, is_observed):
    """As above."""
    found = cost(SqliteFile(tmp_path / "counts.db"), RUNS, SLOTS, is_observed=is_observed)

    # Counted 0.3915, the same each time; it was 9.5 with a statement for each row of each table.
    assert found.statements <= 0.4, found
    # Counted 1,400 to 1,424: whole pages, each written once for a commit. With a commit for each run
    # it would be 20,000 or more.
    assert found.log_bytes <= 1_550, found
    # Counted 31.4 to 31.5.
    assert found.pages <= 33, found
    assert 0 == found.beside
    assert 2 == found.rows


def test_a_permission_on_postgresql_costs_one_statement(server):
    """And so does saying that an effect is done."""
    found = prices(Database(server), ASKED)
    first, more, done, whole = (price.cost for price in found)

    assert {1.0} == {one.statements for one in (first, more, done, whole)}
    # An entry of the ledger; with the first permission of an attempt, the claim's row.
    assert [2.0, 1.0, 1.0, 1.0] == [price.rows for price in found]
    # Counted 545, 397 and 263.
    assert first.log_bytes <= 800, first
    assert more.log_bytes <= 600, more
    assert done.log_bytes <= 500, done
    # Counted 13: a plan that turns into a scan of a table shows here first.
    assert first.pages <= 20, first


def test_a_permission_on_sqlite_costs_a_few_statements(tmp_path):
    found = prices(SqliteFile(tmp_path / "e.db"), ASKED)

    # Counted 8, 7 and 7, the transaction's beginning and end among them.
    assert max(price.cost.statements for price in found) <= 10, found
    assert [2.0, 1.0, 1.0, 1.0] == [price.rows for price in found]
    # Counted 8,940, 6,407 and 4,717: whole pages.
    assert max(price.cost.log_bytes for price in found) <= 16_000, found
