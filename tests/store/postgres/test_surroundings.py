"""Whatever a database, a role or a caller prefers: what Duly relies on holds on its connections."""

from __future__ import annotations

import threading

import psycopg
import pytest

from duly.domain.enums import Lane
from duly.errors import Conflict, StoreUnavailable, UsageError
from duly.store.ports.dispatch import FireResult, Join, LeaseKey, MemberKind, Renew
from duly.store.postgres import PostgresSettings
from duly.store.wakeups import SECOND_US
from duly_conformance import steps
from duly_conformance.kit import add_runs, delayed_fire, new_run

LONG_US = 60 * SECOND_US


def _owner(url, *statements):
    with psycopg.connect(url, autocommit=True) as owner:
        for statement in statements:
            owner.execute(statement.format(owner.info.dbname))


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_second_look_sees_what_came_since_the_first(url, open_store, level):
    """A snapshot that stays would hide who overtook us; rotation would lose a queued run."""
    _owner(url, f"ALTER DATABASE \"{{}}\" SET default_transaction_isolation = '{level}'")
    store = open_store(url)

    with store._connections.write() as work:  # noqa: SLF001 - how it begins is not seen else
        assert [("read committed",)] == work.session.rows("SHOW transaction_isolation")
    with store._connections.statement(for_dispatch=True) as session:  # noqa: SLF001
        assert [("read committed",)] == session.rows("SHOW transaction_isolation")


def test_a_pooler_that_hides_it_is_refused(url, pgbouncer_url, open_store):
    _owner(url, "ALTER DATABASE \"{}\" SET default_transaction_isolation = 'repeatable read'")

    with pytest.raises(StoreUnavailable, match="ALTER ROLE"):
        open_store(pgbouncer_url(url)).now()


def test_what_a_caller_leaves_on_a_lent_connection_reaches_nobody_else(url, open_store):
    """A setting, a lock of the session, a temporary table."""
    store = open_store(url, settings=PostgresSettings(connections_max=1))
    with store.transaction(LONG_US) as lent:
        lent.execute("SELECT set_config('synchronous_commit', 'off', false)")
        lent.execute("SELECT pg_advisory_lock(7)")
        lent.execute("CREATE TEMPORARY TABLE leftover (x int)")

    with store.transaction(LONG_US) as lent:
        assert [("on",)] == lent.execute("SHOW synchronous_commit")
        assert [(True,)] == lent.execute("SELECT pg_try_advisory_lock(7)")
        assert [(None,)] == lent.execute("SELECT to_regclass('pg_temp.leftover')::text")


def test_a_lock_that_cannot_be_had_is_told_as_such(url, open_store):
    """In a lent transaction, too, nobody has to know the driver's errors."""
    store = open_store(url)
    _owner(url, "CREATE TABLE seats (number int PRIMARY KEY)", "INSERT INTO seats VALUES (1)")
    with psycopg.connect(url) as other:
        other.execute("SELECT * FROM seats FOR UPDATE")

        with pytest.raises(StoreUnavailable, match="busy"), store.transaction(LONG_US) as lent:
            lent.execute("SELECT * FROM seats FOR UPDATE NOWAIT")


def test_a_constraint_that_waits_for_the_commit_is_the_callers(url, open_store):
    """Nothing of it is done, and nobody is told to report a defect."""
    store = open_store(url)
    _owner(
        url,
        "CREATE TABLE orders (id int PRIMARY KEY)",
        "CREATE TABLE lines (of int REFERENCES orders DEFERRABLE INITIALLY DEFERRED)",
    )

    def order():
        with store.transaction(LONG_US) as lent:
            lent.execute("INSERT INTO lines VALUES (1)")
            store.joined(lent).add_runs(add_runs(new_run(None)))

    with pytest.raises(Conflict, match="constraint"):
        order()
    assert 0 == store.status().queued


def test_a_dispatcher_in_a_busy_program_goes_on(url, open_store):
    """FAULT-14: threads that hold every connection do not keep it from renewing."""
    store = open_store(url, settings=PostgresSettings(connections_max=2, limit_us=LONG_US))
    member, _ = store.join(Join(kind=MemberKind.DISPATCHER, host="here", process=1))
    inside, over = threading.Barrier(3), threading.Event()

    def hold():
        with store.transaction(LONG_US):
            inside.wait(120)
            over.wait(120)

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for thread in threads:
        thread.start()
    inside.wait(120)
    renewal = store.renew(Renew(member=member))
    over.set()
    for thread in threads:
        thread.join()

    assert renewal.is_alive


def test_a_role_that_may_make_no_schema_can_be_given_an_empty_one(database, open_store):
    """As the how-to says."""
    with psycopg.connect(database, autocommit=True) as owner:
        name = f"keeper_{owner.info.dbname}"
        owner.execute(f'CREATE ROLE "{name}" LOGIN')
        owner.execute(f'CREATE SCHEMA duly AUTHORIZATION "{name}"')
        owner.execute(f'REVOKE CREATE ON DATABASE "{owner.info.dbname}" FROM PUBLIC')
    store = open_store(database.replace("postgres@", f"{name}@"))
    try:
        store.add_runs(add_runs(new_run(None)))

        assert 1 == store.status().queued
    finally:
        store.close()
        with psycopg.connect(database, autocommit=True) as owner:
            owner.execute(f'DROP OWNED BY "{name}"')
            owner.execute(f'DROP ROLE "{name}"')


@pytest.mark.parametrize("shards", [0, -1, 4097, 70_000])
def test_an_impossible_number_of_shards_is_refused(database, open_store, shards):
    with pytest.raises(UsageError, match="shards"):
        open_store(database, shards=shards)


def test_a_migration_may_take_longer_than_a_question(url, open_store):
    """An index on a large table."""
    store = open_store(url)

    with store._connections.migrating() as (connection, session):  # noqa: SLF001
        from duly.store.postgres.connection import BEGIN_MIGRATION, transaction

        with transaction(connection, BEGIN_MIGRATION):
            assert [("0",)] == session.rows("SHOW statement_timeout")
        assert connection.limit_s >= 600


def test_a_row_that_stays_locked_holds_up_only_itself(store, clock, timed_url):
    """After it was found locked once, it is not sent with the others."""
    first, *others = (steps.delay(store, clock.now_us() + 1, f"of {number}") for number in range(4))
    fence = steps.own(store)
    clock.advance(2)
    shards = store.status().shards
    with psycopg.connect(timed_url) as holder:
        holder.execute(
            "SELECT 1 FROM duly.delayed WHERE id = %s::uuid FOR UPDATE", (first.id.hex(),)
        )
        fires = [delayed_fire(one, shards) for one in (first, *others[:2])]
        results = steps.fire(store, fence, *fires).results

        assert (FireResult.BUSY, FireResult.FIRED, FireResult.FIRED) == results
        assert first.id in store._connections.held_up  # noqa: SLF001 - it is not seen else

        again = [delayed_fire(one, shards) for one in (first, others[2])]
        assert (FireResult.BUSY, FireResult.FIRED) == steps.fire(store, fence, *again).results
    fired = steps.fire(store, fence, delayed_fire(first, shards))

    assert (FireResult.FIRED,) == fired.results
    assert first.id not in store._connections.held_up  # noqa: SLF001 - as above
    assert LeaseKey(0, Lane.LIVE) in {lease.key for lease in fence.leases}


def test_a_lent_connection_returns_an_enum_as_its_text(url, open_store):
    """With values and without, as the driver does elsewhere."""
    _owner(url, "CREATE TYPE mood AS ENUM ('fine', 'tired')", "CREATE TABLE t (m mood, n int)")
    store = open_store(url)
    with store.transaction(LONG_US) as lent:
        lent.execute("INSERT INTO t VALUES (%s, %s)", ("fine", 1))

        assert [("fine", 1, None)] == lent.execute("SELECT m, n, NULL FROM t")
        assert [("fine", 1)] == lent.execute("SELECT m, n FROM t WHERE n = %s", (1,))


def test_a_callers_wish_to_be_fast_does_not_make_an_order_unsure(url, open_store):
    store = open_store(url)
    with store.transaction(LONG_US) as lent:
        lent.execute("SET LOCAL synchronous_commit = off")
        store.joined(lent).add_runs(add_runs(new_run(None)))
        lent.finish()
        assert [("on",)] == lent.execute("SHOW synchronous_commit")
