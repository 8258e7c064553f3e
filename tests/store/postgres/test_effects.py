"""Effects on PostgreSQL: the statement that permits them, what others may read, and older ends."""

from __future__ import annotations

from itertools import product
from uuid import UUID

import psycopg
import pytest

from duly.domain.effects import LEAST_TIME_LEFT_US, ClaimCheck, Grant, may_begin
from duly.domain.enums import Finding, RunState
from duly.domain.outcomes import Succeeded
from duly.domain.verification import ItemReport
from duly.errors import SchemaMismatch
from duly.store.ports.effects import AddVerdict
from duly.store.ports.execution import WORKER_TTL_US
from duly.store.postgres import PostgresSettings
from duly.store.postgres.schema import known_migrations
from duly_conformance import steps as work
from duly_conformance.effects import begin, done, in_doubt, rerun, taken
from duly_conformance.kit import SECOND_US

BEFORE = PostgresSettings(migrations=known_migrations()[:3])
READ_RESULTS = """
SELECT id, line, state, verdict, expected, done, repeated, effects_done, effects_unknown
FROM duly.public_results"""
SET_CLAIM = """
UPDATE duly.claims SET deadline_at = %s, cancel_asked_at = %s, effects_at = NULL"""
LEFT_US = (None, -1, 0, LEAST_TIME_LEFT_US - 1, LEAST_TIME_LEFT_US, LEAST_TIME_LEFT_US + 1)


@pytest.fixture
def line(timed_url):
    """A connection beside the store's."""
    with psycopg.connect(timed_url, autocommit=True) as opened:
        yield opened


@pytest.mark.parametrize("key", [None, "mail"])
def test_the_statement_permits_what_the_domain_permits(store, line, clock, key):
    """The same decision, once under the lock and once as a rule."""
    worker, claimed = taken(store)
    now = clock.now_us()

    for left_us, asked_at in product(LEFT_US, (None, now)):
        deadline = None if left_us is None else now + left_us
        line.execute(SET_CLAIM, (deadline, asked_at))
        line.execute("DELETE FROM duly.effects")
        expected = may_begin(
            ClaimCheck(
                is_ours=True,
                is_cancel_asked=asked_at is not None,
                deadline_at=deadline,
                now=now,
            )
        )

        assert expected is begin(store, worker, claimed, key).grant
        (permitted_at,) = line.execute("SELECT effects_at FROM duly.claims").fetchone()
        assert (now if expected is Grant.GRANTED else None) == permitted_at


def test_one_query_says_what_has_come_of_runs(store, line):
    """One row for each run, with what its line has in common."""
    worker, claimed = taken(store)
    done(store, worker, claimed)
    begin(store, worker, claimed, "letter")
    scope = ItemReport(expected=3, done=("a", "b"))
    work.end(store, worker, claimed, Succeeded(), scope=scope)
    for finding in (Finding.UNKNOWN, Finding.PARTIAL):
        found = AddVerdict(run_id=claimed.run_id, finding=finding, evidence=None, by="check")
        store.add_verdict(found)
    repair = rerun(store, claimed.run_id, is_repair=True)
    again = work.take_one(store, worker)
    work.end(store, worker, again, Succeeded(), scope=ItemReport(done=("b", "c")))

    with store.transaction(SECOND_US) as lent:
        shown = lent.execute(READ_RESULTS)

    first, second = UUID(bytes=claimed.run_id), UUID(bytes=repair.id)
    common = (3, 3, 1, 1, 1)
    expected = {
        (first, first, "succeeded", "partial", *common),
        (second, first, "succeeded", None, *common),
    }
    assert expected == set(shown)


def test_the_public_view_shows_what_is_in_doubt(store, line):
    in_doubt(store)

    shown = line.execute("SELECT state, state_reason, attempt FROM duly.public_runs").fetchall()

    assert [("ambiguous", "error", 1)] == shown


def test_a_program_of_the_schema_before_takes_nothing_from_who_has_begun_effects(
    store, timed_url, clock, open_store
):
    """INV-11, INV-25: from the moment at which somebody declares a task that is unsafe."""
    older = open_store(timed_url, settings=BEFORE)
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


@pytest.mark.parametrize("tenant", [None, "default", "elsewhere"])
def test_doubts_are_listed_by_tenant(store, tenant):
    claimed = in_doubt(store)

    found = [one.run.id for one in store.list_doubts(tenant, 10)]

    assert ([] if tenant == "elsewhere" else [claimed.run_id]) == found


def test_what_is_claimed_when_the_schema_comes_may_begin_effects(database, open_store):
    """From the schema before."""
    open_store(database, settings=BEFORE).now()
    with psycopg.connect(database, autocommit=True) as line:
        line.execute(
            """WITH made AS (
                INSERT INTO duly.runs (id, scheduled_for, not_before, created_at, fired_at,
                    priority, tenant, task, queue, origin, lane, arguments)
                VALUES (gen_random_uuid(), 1, 1, 1, 1, 50, 'default', 'remind', 'default', 'now',
                    'live', '{}') RETURNING id),
            joined AS (
                INSERT INTO duly.members (kind, host, process, started_at, renewed_at, expires_at,
                    skew_us, is_holding, tzdata, wake_address)
                VALUES ('worker', 'here', 1, 0, 0, 1::int8 << 60, 0, false, '', '') RETURNING id)
            INSERT INTO duly.claims (run_id, worker, claimed_at, begun_at, fence, attempt, charged)
            SELECT m.id, j.id, 1, 1, 1, 1, 0 FROM made m, joined j"""
        )
    store = open_store(database)

    assert 4 == store.migrate()[0].number
    with psycopg.connect(database, autocommit=True) as line:
        ((run_id, worker),) = line.execute("SELECT run_id, worker FROM duly.claims").fetchall()
    claimed = work.get_run(store, run_id.bytes)
    assert RunState.RUNNING is claimed.state
    assert worker == claimed.worker
    assert [] == store.list_effects(run_id.bytes, 10)
    assert [] == store.check()
