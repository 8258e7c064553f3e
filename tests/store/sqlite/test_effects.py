"""Effects on SQLite: what the file shows of them, how it is pruned, and older programs."""

from __future__ import annotations

import apsw
import pytest

from duly.domain.enums import Finding, RunState
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.verification import ItemReport
from duly.errors import SchemaMismatch
from duly.store.ports.effects import AddVerdict
from duly.store.ports.execution import WORKER_TTL_US
from duly.store.sqlite import SqliteSettings, SqliteStore
from duly.store.sqlite.schema import known_migrations
from duly_conformance import steps as work
from duly_conformance.effects import begin, done, end_beyond, in_doubt, rerun, taken
from duly_conformance.kit import SECOND_US

BEFORE = SqliteSettings(migrations=known_migrations()[:3])
READ_RESULTS = """
SELECT id, line, state, verdict, expected, done, repeated, effects_done, effects_unknown
FROM duly_public_results ORDER BY id"""
LAST_OF_A_LINE = """
EXPLAIN QUERY PLAN SELECT 1 FROM duly_runs r WHERE r.origin IN ('repair', 'backfill')
    AND r.root = iif(? IN ('repair', 'backfill'), coalesce(?, ?), ?)"""
PRUNE = (
    "DELETE FROM duly_outcomes WHERE run_id = ?",
    "DELETE FROM duly_runs WHERE id = ? RETURNING schedule_id, scheduled_for, origin",
)


def ask(path, sql, values=()):
    """Ask the file itself."""
    connection = apsw.Connection(str(path))
    found = connection.execute(sql, values).fetchall()
    connection.close()
    return found


def test_one_query_says_what_has_come_of_runs(store):
    """Also to the caller of a lent transaction."""
    worker, claimed = taken(store)
    done(store, worker, claimed)
    begin(store, worker, claimed, "letter")
    scope = ItemReport(expected=3, done=("a", "b"))
    work.end(store, worker, claimed, Succeeded(), scope=scope)
    found = AddVerdict(run_id=claimed.run_id, finding=Finding.PARTIAL, evidence=None, by="check")
    store.add_verdict(found)
    repair = rerun(store, claimed.run_id, is_repair=True)
    work.end(
        store, worker, work.take_one(store, worker), Succeeded(), scope=ItemReport(done=("b", "c"))
    )

    with store.transaction(SECOND_US) as lent:
        shown = lent.execute(READ_RESULTS)

    common = (3, 3, 1, 1, 1)
    expected = [
        (claimed.run_id, claimed.run_id, "succeeded", "partial", *common),
        (repair.id, claimed.run_id, "succeeded", None, *common),
    ]
    assert sorted(expected) == shown


def test_the_public_view_shows_what_is_in_doubt(store):
    in_doubt(store)

    with store.transaction(SECOND_US) as lent:
        shown = lent.execute("SELECT state, state_reason, attempt FROM duly_public_runs")

    assert [("ambiguous", "error", 1)] == shown


def test_who_prunes_looks_for_repairs_in_an_index(store, path):
    """Of which plain runs are no part."""
    (line,) = [line for *_, line in ask(path, LAST_OF_A_LINE, ("", "", "", ""))]

    assert "SEARCH r USING" in line
    assert "duly_runs_repairs" in line or "duly_runs_root" in line


def test_a_program_of_an_older_schema_prunes_what_a_run_has_left(store, path, clock):
    """By its own statements."""
    worker, claimed = taken(store)
    done(store, worker, claimed)
    work.end(store, worker, claimed, Succeeded(), scope=ItemReport(expected=1, done=("a",)))

    for statement in PRUNE:
        ask(path, statement, (claimed.run_id,))

    for table in ("duly_effects", "duly_scopes", "duly_scope_items"):
        assert [(0,)] == ask(path, f"SELECT count(*) FROM {table}")  # noqa: S608 - ours
    assert [] == store.check()


def test_a_file_of_the_schema_before_goes_on(path, clock):
    """What is claimed there may begin effects once it is migrated."""
    old = SqliteStore(path, clock, settings=BEFORE)
    old.close()
    ask(
        path,
        """INSERT INTO duly_runs (id, tenant, task, arguments, queue, priority, origin, lane,
        scheduled_for, not_before, created_at, fired_at)
        VALUES (randomblob(16), 'default', 'remind', '{}', 'default', 5, 'now', 'live', 1, 1, 1,
        1)""",
    )
    ask(
        path,
        """INSERT INTO duly_ready (queue, priority, rank, run_id, fired_at, not_before)
        SELECT 'default', 5, 1, id, 1, 1 FROM duly_runs""",
    )
    store = SqliteStore(path, clock)
    assert 4 == store.migrate()[0].number

    worker = work.join_worker(store)
    claimed = work.take_one(store, worker)
    begin(store, worker, claimed)
    end_beyond(store, worker, claimed, Failed("boom"))

    assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
    assert [] == store.check()
    store.close()


def test_a_program_of_the_schema_before_takes_nothing_from_who_has_begun_effects(
    store, path, clock
):
    """INV-11, INV-25: from the moment at which somebody declares a task that is unsafe."""
    older = SqliteStore(path, clock, settings=BEFORE)
    fence = work.maintain(older)
    assert [] == work.settle_lost(older, fence), "until then it goes on"
    worker, claimed = taken(store)
    begin(store, worker, claimed)
    clock.advance(WORKER_TTL_US)

    with pytest.raises(SchemaMismatch, match="bring the newer program"):
        work.settle_lost(older, fence, *work.lost_claims(store))

    assert RunState.RUNNING is work.get_run(store, claimed.run_id).state
    work.settle_lost(store, work.maintain(store), *work.lost_claims(store))
    assert RunState.AMBIGUOUS is work.get_run(store, claimed.run_id).state
    older.close()


@pytest.mark.parametrize("tenant", [None, "default", "elsewhere"])
def test_doubts_are_listed_by_tenant(store, tenant):
    claimed = in_doubt(store)

    found = [one.run.id for one in store.list_doubts(tenant, 10)]

    assert ([] if tenant == "elsewhere" else [claimed.run_id]) == found
