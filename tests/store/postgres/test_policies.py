"""Policies of `duly db access`: what a role of one tenant sees, changes and deletes in every table."""

from __future__ import annotations

import re
from hashlib import sha256
from uuid import UUID

import psycopg
import pytest
from psycopg import errors, sql

from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import SchemaMismatch
from duly.store.postgres import PostgresStore
from duly.store.postgres.access_grants import GRANTS, grant_statements, revoke_statements
from duly.store.postgres.schema import ACCESS_NUMBER
from duly.store.postgres.session import ConnectionSession
from tests.postgres.confined_role import as_role, new_role
from tests.postgres.reused_databases import with_schema

TENANTS = {
    TENANT_DEFAULT: UUID("0196b000-0000-4000-8000-00000000000d"),
    "acme": UUID("0196b000-0000-4000-8000-00000000000a"),
    "ours": UUID("0196b000-0000-4000-8000-00000000000b"),
}
"""One id for all that a tenant has: each run is its own root, and the id of its schedule."""
CHECKED = {
    ("schedules", "status"): "active",
    ("effects", "state"): "intended",
    ("verdicts", "finding"): "present",
    ("alerts", "state"): "pending",
    ("alert_deliveries", "state"): "pending",
    ("tokens", "role"): "viewer",
    ("sessions", "role"): "viewer",
    ("quotas", "counted"): "pending",
    ("ready", "era"): 0,
    ("blocked", "gate"): "cap:shared",
}
LIST_COLUMNS = """
SELECT column_name, udt_name FROM information_schema.columns
WHERE table_schema = 'duly' AND table_name = %s AND (udt_name = 'uuid' OR column_name = 'tenant'
    OR is_nullable = 'NO' AND column_default IS NULL AND is_identity = 'NO')
ORDER BY ordinal_position"""
UPDATE = "UPDATE duly.{} t SET COLUMN = COLUMN RETURNING t::text"
SHARED = ("tokens", "sessions", "quotas")
"""Have a tenant, and no policy: they are read before it is known which tenant asks."""
HELD = [name for name, grant in GRANTS.items() if grant.rule is not None]


def value_of(table, column, kind, tenant):
    """Return what a tenant's row has in a column that must have something."""
    if (table, column) in CHECKED:
        return CHECKED[table, column]
    if table == "ready" and column == "tenant" and tenant == TENANT_DEFAULT:
        return ""  # as the queue spells it
    if kind in {"int2", "int4", "int8"}:
        return 1 + list(TENANTS).index(tenant)
    return {"uuid": TENANTS[tenant], "bool": False, "bytea": tenant.encode()}.get(kind, tenant)


@pytest.fixture(scope="module")
def furnished(postgres_server):
    """A database with a row of each tenant in every table that has tenants, and a role."""
    url = postgres_server.create_database(postgres_server.prepared(with_schema))
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("SET session_replication_role = replica")
        for table in (*HELD, *SHARED):
            columns = owner.execute(LIST_COLUMNS, [table]).fetchall()
            names = sql.SQL(", ").join(sql.Identifier(name) for name, _ in columns)
            marks = sql.SQL(", ").join(sql.Placeholder() * len(columns))
            insert = sql.SQL("INSERT INTO duly.{} ({}) VALUES ({})").format(
                sql.Identifier(table), names, marks
            )
            for tenant in TENANTS:
                owner.execute(
                    insert, [value_of(table, name, kind, tenant) for name, kind in columns]
                )
    with new_role(url, "policies") as role:
        store = PostgresStore(url)
        store.grant_access(role, is_undone=False, is_dry=False)
        store.close()
        yield url, role
    postgres_server.drop_database(url)


def touched(connection, query, table):
    """Return the tenants whose rows a statement returns, sorted; None if it is not permitted."""
    with connection.transaction(force_rollback=True):
        try:
            found = connection.execute(sql.SQL(query).format(sql.Identifier(table))).fetchall()
        except errors.InsufficientPrivilege as refused:
            if "permission denied for table" in str(refused):
                return None
            raise
    rows = [row.replace(tenant.encode().hex(), tenant) for (row,) in found for tenant in TENANTS]
    return sorted(
        {
            tenant
            for tenant, mark in TENANTS.items()
            for row in rows
            if str(mark) in row or tenant in row
        }
    )


def all_touched(connection, column_of):
    """Return, by table, whose rows are seen, changed and deleted."""
    return {
        table: (
            touched(connection, "SELECT t::text FROM duly.{} t", table),
            touched(connection, UPDATE.replace("COLUMN", one), table),
            touched(connection, "DELETE FROM duly.{} t RETURNING t::text", table),
        )
        for table, one in column_of.items()
    }


@pytest.fixture
def column_of(furnished):
    """A column of each table that has tenants."""
    with psycopg.connect(furnished[0]) as owner:
        return {
            table: sql.Identifier(owner.execute(LIST_COLUMNS, [table]).fetchall()[0][0]).as_string(
                owner
            )
            for table in (*HELD, *SHARED)
        }


@pytest.mark.parametrize("tenant", [*TENANTS, "", "third", None])
def test_a_role_sees_changes_and_deletes_its_own_rows_in_every_table(furnished, column_of, tenant):
    """With every right that it has, and with no tenant set none; the owner has all."""
    url, role = furnished
    own = [tenant] if tenant in TENANTS else []
    everybody = sorted(TENANTS)
    expected = {
        table: tuple(
            (own if table in HELD else everybody) if right in GRANTS[table].rights else None
            for right in ("SELECT", "UPDATE", "DELETE")
        )
        for table in column_of
    }
    with psycopg.connect(as_role(url, role), autocommit=True) as held:
        if tenant is not None:
            held.execute("SELECT set_config('duly.tenant', %s, false)", [tenant])
        assert expected == all_touched(held, column_of)

    with psycopg.connect(url, autocommit=True) as owner:
        assert dict.fromkeys(column_of, (everybody,) * 3) == all_touched(owner, column_of)


OWN = "({column} = current_setting('duly.tenant'::text, true))"
OWN_OR_NOBODYS = f"({OWN} OR ({{column}} = ''::text))"
OF_ROW = "(EXISTS ( SELECT 1 FROM duly.{other} {alias} WHERE ({alias}.id = {table}.{column})))"
OF_RUN = OF_ROW.replace("{other}", "runs").replace("{alias}", "of_run")
NOT_ANOTHERS = "(NOT duly.is_others_run({column}))"
OF_SCHEDULE = OF_ROW.replace("{other}", "schedules").replace("{alias}", "of_row")
SHARE = """CASE current_setting('duly.tenant'::text, true) WHEN 'default'::text THEN ''::text
    ELSE current_setting('duly.tenant'::text, true) END"""
MEANT = {
    **dict.fromkeys(
        ("schedules", "schedule_state", "delayed", "backfills", "answers", "frozen_sets"),
        ("tenant", OWN, OWN),
    ),
    **dict.fromkeys(("runs", "alerts", "alert_terms"), ("tenant", OWN_OR_NOBODYS, OWN_OR_NOBODYS)),
    **dict.fromkeys(
        (
            *("claims", "waiting", "dead", "ambiguous", "blocked", "held_gates", "held_places"),
            *("turns", "outcomes", "attempts", "progress", "lines", "checkpoints", "verdicts"),
        ),
        ("run_id", OF_RUN, NOT_ANOTHERS),
    ),
    **dict.fromkeys(("effects", "scopes", "scope_items"), ("root", OF_RUN, NOT_ANOTHERS)),
    **dict.fromkeys(
        ("schedule_definitions", "skips", "owed"), ("schedule_id", OF_SCHEDULE, OF_SCHEDULE)
    ),
    "backfill_slots": (
        "backfill_id",
        *[OF_ROW.replace("{other}", "backfills").replace("{alias}", "of_row")] * 2,
    ),
    "alert_deliveries": (
        "alert_id",
        *[OF_ROW.replace("{other}", "alerts").replace("{alias}", "of_row")] * 2,
    ),
    "ready": (
        "run_id",
        f"(tenant = ANY (ARRAY[''::text, {SHARE}])) AND {OF_RUN}",
        f"(tenant = {SHARE})",
    ),
    "audit": (
        "tenant",
        OWN_OR_NOBODYS,
        f"{OWN_OR_NOBODYS} OR (action ^@ 'token.'::text) OR (action ^@ 'session.'::text)",
    ),
}
"""By the table: the column that says whose a row is, what is seen and what may be written."""
LIST_POLICIES = """
SELECT tablename, qual, with_check FROM pg_policies
WHERE schemaname = 'duly' AND permissive = 'RESTRICTIVE' AND roles = ARRAY[%s]::name[]"""


def plain(text):
    """Return a condition without line breaks, and without brackets that only group."""
    return " ".join(text.split()).replace("( ", "(").replace("(", "").replace(")", "")


def test_each_policy_that_is_stored_says_what_was_meant(furnished):
    """As the server understands it: a bare name may be a column of another table."""
    url, role = furnished
    with psycopg.connect(url) as owner:
        stored = {
            table: (plain(seen), plain(written))
            for table, seen, written in owner.execute(LIST_POLICIES, [role])
        }
    meant = {
        table: tuple(plain(one.format(table=table, column=column)) for one in conditions)
        for table, (column, *conditions) in MEANT.items()
    }

    assert set(HELD) == set(meant)
    assert meant == stored


def test_what_waits_and_runs_is_counted_for_all_tenants(furnished, open_store):
    """In queues, at limits, by worker: over a role of one tenant as over the owner's."""
    url, role = furnished
    owner, server = open_store(url), open_store(as_role(url, role)).within("ours")

    assert {*TENANTS, "shared"} == {place.place for place in server.list_places()}
    assert set(TENANTS) == {queue.name for queue in server.list_queues()}
    assert owner.list_places() == server.list_places()
    assert owner.list_queues() == server.list_queues()


OLD_POLICY = """
DROP POLICY {policy} ON duly.effects;
CREATE POLICY {policy} ON duly.effects AS RESTRICTIVE TO {role}
    USING (EXISTS (SELECT 1 FROM duly.runs of_run WHERE of_run.id = root));
COMMENT ON POLICY {policy} ON duly.runs IS NULL;
ALTER FUNCTION duly.are_pending(uuid[]) SECURITY INVOKER RESET search_path;
DROP FUNCTION duly.others_ids(uuid[])"""
READ_ACCESS = """
SELECT (SELECT jsonb_agg(p ORDER BY tablename, policyname) FROM pg_policies p),
    (SELECT array_agg(pg_get_functiondef(oid) ORDER BY proname)
        FROM pg_proc WHERE pronamespace = 'duly'::regnamespace)"""


def test_a_migration_grants_access_again_to_roles_of_an_older_program(new_database, open_store):
    """Until then such a role is refused, and told what to do; with the right policies it serves."""
    url = new_database(with_schema)
    owner = open_store(url)
    with new_role(url, "older") as role, psycopg.connect(url, autocommit=True) as line:
        owner.grant_access(role, is_undone=False, is_dry=False)
        granted = line.execute(READ_ACCESS).fetchall()
        names = {"policy": sql.Identifier(f"tenant of {role}"), "role": sql.Identifier(role)}
        line.execute(sql.SQL(OLD_POLICY).format(**names))
        assert granted != line.execute(READ_ACCESS).fetchall()
        server = open_store(as_role(url, role)).within("ours")

        with pytest.raises(SchemaMismatch, match="of an older program; run `duly db migrate`"):
            server.status()
        assert [] == owner.migrate()

        assert granted == line.execute(READ_ACCESS).fetchall()
        assert server.status()
        assert server.is_held


def test_what_is_granted_has_a_number_of_its_own(furnished):
    """By it a role of an older program is known. Changed what is granted? Raise ACCESS_NUMBER."""
    url, _ = furnished
    with psycopg.connect(url, autocommit=True) as owner, new_role(url, "numbered") as role:
        parts = grant_statements(ConnectionSession(owner, is_ours=False), role)
    text = "\n".join(statement for part in parts for statement in part).replace(role, "ROLE")

    assert (2, "651da0db7a975657") == (ACCESS_NUMBER, sha256(text.encode()).hexdigest()[:16])


def test_each_part_of_a_grant_locks_one_table(furnished):
    """Then no dispatcher waits for one table while it holds another that the grant waits for."""
    url, role = furnished
    with psycopg.connect(url, autocommit=True) as owner:
        session = ConnectionSession(owner, is_ours=False)
        for part in (*grant_statements(session, role), *revoke_statements(session, role)):
            locked = [one for one in part if re.match("ALTER TABLE|(CREATE|DROP) POLICY", one)]
            tables = {
                name for one in locked for name in re.findall(r"(?:TABLE|ON) duly\.(\w+)", one)[:1]
            }

            assert len(tables) <= 1, part
