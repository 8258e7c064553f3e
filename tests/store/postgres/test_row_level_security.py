"""Row-level security: a second line between tenants, should the first forget whose an order is."""

from __future__ import annotations

from dataclasses import replace
from threading import Thread
from typing import Any
from uuid import UUID

import psycopg
import pytest
from psycopg import errors, sql

import duly
from duly import Conflict, DulyError, Forbidden, NotFound, OverQuota, UsageError, every
from duly.app.metrics import measure
from duly.domain.backfill import BackfillMode, BackfillOccurrenceKind, BackfillOrder
from duly.domain.enums import Missed
from duly.domain.ids import BackfillId, RunId, ScheduleId
from duly.domain.schedule_changes import decide_pause
from duly.store.ports.backfill import CreateBackfill
from duly.store.ports.effects import Rerun
from duly.store.ports.queries import AuditFilter, RunFilter, ScheduleFilter
from duly.store.postgres import PostgresStore
from duly.store.postgres.access_grants import GRANTS
from duly_conformance import effects, steps
from duly_conformance import steps as work
from duly_conformance.kit import (
    ADA,
    HOUR_US,
    add_runs,
    cancel_run,
    change_of,
    edit_run,
    new_run,
    new_schedule,
    order_runs,
    snapshot,
)
from tests.cli.duly_command import duly as command
from tests.client.tenant_walk import (
    BY_REFERENCE,
    LOOKING,
    OPERATORS,
    OURS,
    THEIRS,
    confined,
    furnish,
)
from tests.postgres.confined_role import as_role, new_role
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_schema
from tests.waiting import wait_until

BOTH = (OURS, THEIRS)
OF_PROCESSES = {
    *("transaction", "dispatcher", "worker", "run", "migrate", "grant_access"),
}
OF_ALL_TENANTS = {
    *("check", "promises.export", "promises.import_from", "audit.page", "events.after"),
}
"""A part of what is asked for would look like all of it."""


FORGE_ENTRY = """
INSERT INTO duly.audit (at, actor, source, action, tenant, subject)
VALUES (1, 'eve', 'cli', 'schedule.deleted', %s, 'nightly')"""
FORGE_OUTCOME = "INSERT INTO duly.outcomes (run_id, finished_at, state) VALUES (%s, 1, 'succeeded')"
FORGE_SKIP = """
INSERT INTO duly.skips (schedule_id, first_for, last_for, at, reason)
VALUES (%s, 1, 1, 1, 'skipped')"""
FORGE_QUEUED = """
INSERT INTO duly.ready (rank, fired_at, not_before, run_id, priority, era, queue, tenant)
VALUES (0, 1, 1, %s, 0, 0, 'default', 'acme-inc')"""


class Place:
    """A database that a tenant has furnished, its owner, and the role of a server."""

    def __init__(self, url: str, clock: Any, role: str) -> None:
        self.url, self.clock, self.role = url, clock, role
        self.owner = PostgresStore(url, clock)
        self.theirs = furnish(self.owner, clock)
        self.owner.grant_access(role, is_undone=False, is_dry=False)
        self.server = PostgresStore(as_role(url, role), clock)

    def app(self, tenant: str, *, is_operator: bool = False) -> duly.App:
        """Return an application on the server's role."""
        app = duly.App(store=self.server, clock=self.clock, tenant=tenant, actor="operator")
        app.task(name="report")(lambda note: None)
        return app if is_operator else confined(app, tenant)

    def close(self) -> None:
        self.server.close()
        self.owner.close()


@pytest.fixture(scope="module")
def place(postgres_server):
    url = postgres_server.create_database(postgres_server.prepared(with_schema))
    with DatabaseClock(url) as clock, new_role(url) as role:
        place = Place(url, clock, role)
        yield place
        place.close()
    postgres_server.drop_database(url)


@pytest.fixture
def told(place):
    """A connection as the server's role, which may say whose it is."""
    with psycopg.connect(as_role(place.url, place.role), autocommit=True) as connection:
        yield connection


def number(connection, query):
    (found,) = connection.execute(query).fetchone()
    return found


def count(connection, table):
    return number(connection, sql.SQL("SELECT count(*) FROM duly.{}").format(sql.Identifier(table)))


def tables(connection):
    found = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = 'duly'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition"
    )
    return {name for (name,) in found}


KEPT = [name for name, grant in GRANTS.items() if grant.rule and "SELECT" in grant.rights]


def test_every_table_is_named(place):
    """One that nobody has thought about is granted to nobody, and fails here."""
    with psycopg.connect(place.url) as owner:
        assert set() == tables(owner) - set(GRANTS)


def test_numbers_of_all_tenants_are_told_by_whoever_sees_them_and_by_nobody_else(place):
    """A role that is held would tell that nothing is due, and all is well."""
    told = measure(duly.App(store=place.owner, clock=place.clock)).text()

    assert f'duly_schedule_fires_total{{tenant="{THEIRS}"' in told
    with pytest.raises(
        Forbidden, match="one tenant at a time; ask about one tenant, or ask a server"
    ):
        measure(place.app(OURS, is_operator=True))


def test_the_state_of_all_tenants_is_never_told_as_if_nothing_were_there(place):
    """Who sees one tenant is told of that one, by its name."""
    everybody = duly.App(store=place.owner, clock=place.clock).status()
    seen = place.app(THEIRS, is_operator=True).status()

    assert (None, THEIRS) == (everybody.tenant, seen.tenant)
    assert seen.schedules["active"] > 0
    assert sum(seen.schedules.values()) <= sum(everybody.schedules.values())


def test_statements_without_a_tenant_see_nothing(place, told):
    with psycopg.connect(place.url) as owner:
        there = {table for table in KEPT if table in tables(owner) and count(owner, table)}
        shared = number(owner, "SELECT count(*) FROM duly.audit WHERE tenant = ''")

        seen = {table: count(told, table) for table in there}

        assert {"schedules", "runs", "ready", "claims", "dead", "ambiguous", "effects"} <= there
        assert seen == dict.fromkeys(there, 0) | {"audit": shared}


@pytest.mark.parametrize("tenant", [OURS, "", "*", "'; --"])
def test_nobody_elses_rows_are_seen_changed_or_removed(place, told, tenant):
    """Whatever a statement asks for."""
    told.execute("SELECT set_config('duly.tenant', %s, false)", [tenant])
    before = snapshot(place.owner, BOTH)
    touched = [
        told.execute(statement).rowcount
        for statement in (
            "UPDATE duly.schedules SET status = 'deleted'",
            "UPDATE duly.runs SET arguments = '{}'",
            "DELETE FROM duly.delayed",
            "DELETE FROM duly.ready",
            "DELETE FROM duly.effects",
            "UPDATE duly.claims SET cancel_asked_at = 1",
        )
    ]

    assert [0] * 6 == touched
    assert 0 == count(told, "runs") == count(told, "attempts") == count(told, "backfills")
    assert before == snapshot(place.owner, BOTH)


def test_nothing_is_written_in_anothers_name(place, told):
    """Neither a row of its own, nor one that belongs to another's run or schedule."""
    theirs = place.theirs
    told.execute("SELECT set_config('duly.tenant', %s, false)", [OURS])
    for statement, identity in (
        (FORGE_ENTRY, THEIRS),
        (FORGE_OUTCOME, theirs.queued),
        (FORGE_SKIP, theirs.schedule),
        (FORGE_QUEUED, theirs.dead),
    ):
        with pytest.raises(errors.InsufficientPrivilege, match="row-level security"):
            told.execute(statement, [identity])
    with pytest.raises(errors.InsufficientPrivilege):
        told.execute("SELECT * FROM duly.public_runs")
    with pytest.raises(errors.InsufficientPrivilege):
        told.execute("SELECT * FROM duly.ready_0")


def test_a_client_that_forgets_to_ask_whose_it_is_finds_nothing(place):
    """What the walk over clients relies on is taken away, and nothing shows."""
    store, theirs = place.server.within(OURS), place.theirs
    schedule, run = ScheduleId(theirs.schedule.bytes), RunId(theirs.running.bytes)
    dead, before = RunId(theirs.dead.bytes), snapshot(place.owner, BOTH)
    seen = place.owner.get_schedule(schedule)
    assert seen is not None
    pause = decide_pause(seen.record, reason=None, until=None, missed=Missed.SKIP)

    assert (None, None, None) == (
        store.get_schedule(schedule),
        store.get_run(run),
        store.get_delayed(RunId(theirs.delayed.bytes)),
    )
    assert [] == store.list_schedules(ScheduleFilter(tenant=None))
    assert [] == store.list_runs(RunFilter(tenant=THEIRS))
    assert [] == store.list_attempts(dead) == store.list_lines(dead, 0, 10)
    assert [] == store.list_doubts(None, 10) == store.list_backfills(THEIRS, None, 10)
    assert {""} >= {entry.tenant for entry in store.list_audit(AuditFilter())}
    assert [None] == [one.state for one in store.retry_runs(order_runs(dead, tenant=THEIRS))]
    for order in (
        lambda: store.change_schedule(change_of(seen.record, pause)),
        lambda: store.cancel_run(cancel_run(run, tenant=THEIRS)),
        lambda: store.edit_run(edit_run(dead, "{}", tenant=THEIRS)),
    ):
        with pytest.raises(NotFound):
            order()
    assert before == snapshot(place.owner, BOTH)


TABLES_OF_ROWS = """
SELECT relname FROM pg_class WHERE relnamespace = 'duly'::regnamespace
    AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY 1"""


def whole(url):
    """Return every row of every table."""
    with psycopg.connect(url) as connection:
        return {
            table: connection.execute(
                sql.SQL("SELECT t::text FROM duly.{} t ORDER BY 1").format(sql.Identifier(table))
            ).fetchall()
            for (table,) in connection.execute(TABLES_OF_ROWS).fetchall()
        }


def taking(place, store, repeated, schedule):
    """Yield orders under ids that another tenant has used, each with its name."""
    theirs, now = place.theirs, store.now()
    for name in ("delayed", "queued", "running", "dead", "doubtful"):
        used = RunId(getattr(theirs, name).bytes)
        for due_at in (None, now, now + HOUR_US):
            new = add_runs(new_run(due_at, "mine", id=used, tenant=OURS))
            for order in (new, replace(new, actor=ADA)):
                yield f"{name} at {due_at}", lambda order=order: store.add_runs(order)
        again = Rerun(tenant=OURS, id=repeated, new_id=used, actor=ADA)
        yield f"{name} rerun", lambda again=again: store.rerun_run(again)
    made = new_schedule(now, "mine", id=ScheduleId(theirs.schedule.bytes), tenant=OURS)
    yield "schedule", lambda: store.create_schedule(made)
    backfill = CreateBackfill(
        id=BackfillId(theirs.backfill.bytes),
        tenant=OURS,
        schedule_id=schedule.id,
        definition_number=1,
        since=now - HOUR_US,
        until=now,
        mode=BackfillMode.FILL,
        order=BackfillOrder.OLDEST,
        classes=frozenset(BackfillOccurrenceKind),
        per_minute=1,
        concurrency=1,
        cursor=now - HOUR_US,
        total=1,
        actor=ADA,
    )
    yield "backfill", lambda: store.create_backfill(backfill)


def test_an_id_that_another_tenant_has_used_is_a_conflict_for_held_role_and_owner_alike(place):
    """Of a run that is delayed, open or over, a schedule, a backfill: nothing is taken or told."""
    repeated = work.queue(place.owner, "ours to repeat", tenant=OURS)
    place.owner.cancel_run(cancel_run(repeated, tenant=OURS))
    schedule = steps.create(place.owner, "ours to fill", tenant=OURS)
    before = whole(place.url)
    said: dict[str, set[str]] = {}
    for store in (place.server.within(OURS), place.owner):
        for name, order in taking(place, store, repeated, schedule):
            with pytest.raises(Conflict, match="is that of another request") as refused:
                order()
            said.setdefault(name, set()).add(str(refused.value))

    assert [] == [name for name, answers in said.items() if len(answers) > 1]
    assert before == whole(place.url)
    assert [] == place.owner.check()
    steps.pause(place.owner, schedule)


WAITING = """
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND wait_event_type = 'Lock'"""


@pytest.mark.parametrize("due_in", [None, HOUR_US])
@pytest.mark.parametrize("is_first_delayed", [False, True])
def test_of_two_tenants_that_use_one_id_at_once_the_second_meets_a_conflict(
    place, is_first_delayed, due_in
):
    """It waits for the first to commit, and is not told that somebody is busy."""
    due_at = None if due_in is None else place.owner.now() + due_in
    first_at = place.owner.now() + HOUR_US if is_first_delayed else None
    name = f"raced {is_first_delayed} {due_in}"
    first = new_run(first_at, name, tenant=THEIRS)
    second = replace(new_run(due_at, name, tenant=OURS), id=first.id)
    said = []

    def order():
        try:
            place.server.within(OURS).add_runs(add_runs(second))
        except DulyError as error:
            said.append(error)

    ordering = Thread(target=order)
    with psycopg.connect(place.url, autocommit=True) as line:
        with place.owner.transaction(60_000_000) as lent:
            place.owner.joined(lent).add_runs(add_runs(first))
            ordering.start()
            wait_until("the second order waits", lambda: number(line, WAITING) > 0)
        ordering.join(60)

    (refused,) = said
    assert isinstance(refused, Conflict)
    assert "is that of another request" in str(refused)
    assert [] == place.owner.check()


def test_what_an_operator_says_of_effects_is_kept_over_a_held_role(place):
    """It sees the ledger of its own runs, as the owner does."""
    work.take(place.owner, work.join_worker(place.owner))  # what else waits
    run = UUID(bytes=effects.in_doubt(place.owner, "to be settled", tenant=THEIRS).run_id)
    app = place.app(THEIRS)
    owners = duly.App(store=place.owner, clock=place.clock, tenant=THEIRS, actor="operator")
    (unknown,) = app.inbox.effects(run)
    assert ("mail", "unknown") == (unknown.key, unknown.state)

    app.inbox.reconcile(run, is_done=True, reason="asked the provider", effects={"mail": True})

    (settled,) = app.inbox.effects(run)
    assert ("done", settled) == (settled.state, *owners.inbox.effects(run))


def test_all_that_a_tenant_may_do_it_does_as_the_servers_role(place):
    """With its own things, and with nobody's; what the database refuses is a StoreError."""
    app, operator = place.app(THEIRS), place.app(THEIRS, is_operator=True)
    refused = {}
    orders = [
        (name, lambda call=call: call(app)) for name, calls in LOOKING.items() for call in calls
    ]
    orders += [
        (name, lambda call=call: call(operator))
        for name, call in OPERATORS.items()
        if name not in OF_PROCESSES
    ]
    orders += [
        (f"{name} {number}", lambda call=call: call(app, place.theirs))
        for name, calls in BY_REFERENCE.items()
        for number, call in enumerate(calls)
        if name != "runs.wait"
    ]
    for name, order in orders:
        try:
            order()
        except (UsageError, NotFound, Conflict):
            pass  # an order that came too late: others before it have changed what it is about
        except DulyError as error:
            refused[name] = str(error)

    seen_in_part = {name: text for name, text in refused.items() if name in OF_ALL_TENANTS}
    assert {} == {name: text for name, text in refused.items() if name not in OF_ALL_TENANTS}
    assert set(seen_in_part) == OF_ALL_TENANTS
    assert all("sees one tenant at a time; ask about one" in one for one in seen_in_part.values())
    assert [] == place.owner.check()


def test_promises_are_made_as_the_servers_role(place):
    """With all that is told to those who keep them."""
    app = place.app(OURS)
    report = app.tasks.find("report")
    app.enqueue(report.bind("now"))
    app.enqueue(report.bind("later"), delay="1h", key="mine")
    app.enqueue(report.bind("instead"), delay="2h", key="mine", replace=True)
    app.enqueue_many([report.bind(str(number)) for number in range(3)], delay="1s")
    made = app.schedules.create("mine", report.bind("hourly"), every("1h"), overlap="queue-all")
    app.schedules.create(
        "serial", report.bind("x"), every("1h"), overlap="serialize", serialize_by="k"
    )
    app.schedules.trigger("mine")
    app.schedules.trigger("mine")
    app.schedules.trigger("serial")
    app.schedules.edit("mine", timetable=every("2h"))
    app.schedules.pause("mine")
    app.schedules.resume("mine")
    app.schedules.delete("mine")
    app.schedules.restore("mine")

    assert (made.id, 2) == (app.schedules.get("mine").id, app.status().schedules["active"])
    assert 4 == app.status().delayed
    assert [] == place.owner.check()
    for run in app.runs.list(state=["queued", "blocked"]):
        app.runs.cancel(run)
    assert [] == app.runs.list(state=["queued", "blocked"])


def test_tokens_and_sessions_are_kept_as_the_servers_role(place):
    """What is on record of each is so in its own tenant."""
    app = place.app(OURS, is_operator=True)
    door = app.doorkeeper()
    for tenant in (OURS, THEIRS, "*"):
        made = app.tokens.create("ci", tenant=tenant)
        begun = door.begin_session(made.text)
        assert tenant == door.authenticate(made.text).tenant == door.session(begun.secret).tenant
        assert door.end_session(begun.secret)
        assert "revoked" == app.tokens.revoke(made.token.id).state
        told = place.owner.list_audit(AuditFilter(tenant=tenant, limit=4))
        assert ["token.revoked", "session.ended", "session.begun", "token.created"] == [
            entry.action for entry in told
        ]
    assert door.session(door.spend_code(door.make_code()).secret).is_everywhere
    with pytest.raises(duly.Unauthenticated):
        door.authenticate("nonsense")
    (refused, *_) = place.owner.list_audit(AuditFilter(action="access.refused"))
    assert {"malformed": 1} == refused.after


def test_schedules_of_all_tenants_are_counted_as_the_servers_role(place):
    """How many are made in a minute is bounded over all of them, though none is seen."""
    operator = place.app("another", is_operator=True)
    others = duly.App(store=place.owner, clock=place.clock, tenant="third")
    report = others.task(name="report")(lambda note: None)
    operator.quotas.set("all", creations=2)
    place.clock.advance("10m")
    others.schedules.create("fourth", report.bind("x"), every("1h"))
    app = place.app("another")
    app.schedules.create("first", report.bind("x"), every("1h"))

    with pytest.raises(OverQuota, match="all"):
        app.schedules.create("second", report.bind("x"), every("1h"))

    operator.quotas.remove("all")


@pytest.fixture
def bare(new_database):
    """A database with our schema, and a role without rights in it."""
    url = new_database(with_schema)
    with new_role(url, "bare") as role:
        yield url, role


POLICIES = """
SELECT tablename, policyname, permissive, roles, cmd, qual, with_check FROM pg_policies
ORDER BY 1, 2"""
TABLES = """
SELECT relname, relrowsecurity, relacl::text FROM pg_class
WHERE relnamespace = 'duly'::regnamespace ORDER BY 1"""
FUNCTIONS = """
SELECT proname, proacl::text FROM pg_proc WHERE pronamespace = 'duly'::regnamespace ORDER BY 1"""


def rules(url):
    """Return every policy and every right that there is."""
    with psycopg.connect(url) as connection:
        return [connection.execute(one).fetchall() for one in (POLICIES, TABLES, FUNCTIONS)]


def test_access_can_be_granted_again_and_taken_back(bare, open_store):
    """Nothing is left of it."""
    url, role = bare
    store = open_store(url)
    before = rules(url)
    shown = store.grant_access(role, is_undone=False, is_dry=True)

    assert before == rules(url)

    assert shown == store.grant_access(role, is_undone=False, is_dry=False)
    granted = rules(url)
    store.grant_access(role, is_undone=False, is_dry=False)

    assert before != granted == rules(url)

    store.grant_access(role, is_undone=True, is_dry=False)
    policies, tables_after, functions = rules(url)

    assert [] == policies
    assert [row[:2] for row in before[1]] == [row[:2] for row in tables_after]
    assert not any(role in str(row) for row in (*tables_after, *functions))


def test_one_role_that_is_let_go_leaves_another_held(bare, open_store):
    url, role = bare
    store = open_store(url)
    with new_role(url, "other") as other:
        for one in (role, other):
            store.grant_access(one, is_undone=False, is_dry=False)

        store.grant_access(other, is_undone=True, is_dry=False)

        server = open_store(as_role(url, role)).within("ours")
        assert [] == server.list_schedules(ScheduleFilter(tenant=None))
        assert {f"tenant of {role}"} == {row[1] for row in rules(url)[0] if row[2] == "RESTRICTIVE"}


def test_a_role_that_nothing_would_hold_is_refused(bare, open_store):
    """A policy that holds nobody would be worse than none."""
    url, role = bare
    store = open_store(url)
    with psycopg.connect(url, autocommit=True) as connection:
        owner = number(connection, "SELECT current_user")
        named = sql.Identifier(role)

        with pytest.raises(UsageError, match="is above row-level security; give one of its own"):
            store.grant_access(owner, is_undone=False, is_dry=False)
        with pytest.raises(NotFound, match="'nobody at all' was not found; make it first"):
            store.grant_access("nobody at all", is_undone=False, is_dry=False)
        connection.execute(sql.SQL("ALTER ROLE {} BYPASSRLS").format(named))
        with pytest.raises(UsageError, match="is above row-level security"):
            store.grant_access(role, is_undone=False, is_dry=False)
        connection.execute(sql.SQL("ALTER ROLE {} NOBYPASSRLS").format(named))
        connection.execute(sql.SQL("ALTER TABLE duly.runs OWNER TO {}").format(named))
        with pytest.raises(UsageError, match="has the rights of the owner"):
            store.grant_access(role, is_undone=False, is_dry=False)
        connection.execute("ALTER TABLE duly.runs OWNER TO CURRENT_USER")


def test_whoever_is_not_named_acts_for_all_tenants(place, open_store):
    """Dispatchers and workers under roles of their own see what they did before."""
    with new_role(place.url, "engine") as role:
        with psycopg.connect(place.url, autocommit=True) as connection:
            for right in (
                "USAGE ON SCHEMA duly",
                "ALL ON ALL TABLES IN SCHEMA duly",
                "ALL ON ALL SEQUENCES IN SCHEMA duly",
            ):
                query = sql.SQL(f"GRANT {right} TO {{}}").format(sql.Identifier(role))
                connection.execute(query)
        engine = open_store(as_role(place.url, role), place.clock)

        assert snapshot(place.owner, BOTH).runs == snapshot(engine, BOTH).runs
        assert engine.within(OURS) is engine


def test_an_owners_store_is_the_same_for_every_tenant(place):
    """Nobody who is not held pays for it."""
    assert place.owner.now()

    assert place.owner.within(OURS) is place.owner
    assert place.server.within(OURS) is not place.server


def test_the_command_shows_what_it_would_do_and_does_it(bare):
    url, role = bare
    shown = command("db", "access", "--role", role, "--dry-run", "--url", url)
    done = command("db", "access", "--role", role, "--url", url)
    undone = command("db", "access", "--role", role, "--undo", "--json", "--url", url)

    assert (0, 0, 0) == (shown.status, done.status, undone.status), (shown.err, done.err)
    assert f'GRANT SELECT, INSERT ON duly.audit TO "{role}"' in shown.out
    assert "nothing was changed (--dry-run)" in shown.out
    assert f"{role} may serve this store, and sees the rows of one tenant at a time.\n" == done.out
    assert (role, True) == (undone.json["role"], undone.json["is_undone"])


def test_commands_over_a_held_role_say_what_they_can_not_see(place, tmp_path):
    """Neither an alarm, nor a file without schedules, nor an empty inbox that looks like all."""
    url, file = as_role(place.url, place.role), tmp_path / "promises.jsonl"
    for words in (("db", "check"), ("export", str(file))):
        refused = command(*words, "--url", url)

        assert refused.status != 0, refused.out
        assert "sees one tenant at a time" in refused.err
    assert not file.exists()
    shown = command("inbox", "--url", url)
    assert "This is about tenant default: others can't be seen from here.\n" in shown.out


def test_a_part_of_the_trail_is_not_compared_with_the_seals_of_all(place):
    """What a role does not see would look as if it were removed."""
    operator = place.app(OURS, is_operator=True)

    with pytest.raises(duly.UsageError, match="use a role that is not held to a tenant"):
        operator.audit.verify()
