"""What the role of a server may do, and which rows it sees: the second line between tenants.

The first line is every order and every question, which name their tenant. Should one of them forget
to, the database shows the role of `duly server` no row of another tenant's, and takes none from it.
Owners and other roles are not held: dispatchers and workers act for all tenants.

Each table is named here with what may be done to it and whose a row is. One that is not named is
not granted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from psycopg.sql import SQL, Identifier

from duly.domain.schedules import TENANT_DEFAULT
from duly.errors import NotFound, UsageError
from duly.store.postgres import limiting, ordering, reading
from duly.store.postgres.schema import ACCESS_NUMBER, ACCESS_OF_POLICY
from duly.store.postgres.session import first
from duly.store.postgres.tenant_connections import TENANT_SETTING

if TYPE_CHECKING:
    from duly.store.postgres.session import Session

TENANT = f"pg_catalog.current_setting('{TENANT_SETTING}', true)"
_READ = ("SELECT",)
_APPEND = (*_READ, "INSERT")
_CHANGE = (*_APPEND, "UPDATE")
_ALL = (*_CHANGE, "DELETE")


class Rule(NamedTuple):
    """Whose a row is: what may be seen and touched, and what may be written.

    `{table}` stands for the table that the rule holds for. Each of its columns is named with it: in
    a subquery, a bare name would mean a column of the other table, if that has one of that name.
    """

    seen: str
    written: str


class Grant(NamedTuple):
    """What may be done to a table; without a rule its rows are nobody's."""

    rights: tuple[str, ...]
    rule: Rule | None = None


def _of(column: str = "tenant", *others: str) -> Rule:
    """Return the rule for a table that says whose its rows are, or that they are nobody's."""
    also = "".join(f" OR {{table}}.{column} = '{other}'" for other in others)
    own = f"{{table}}.{column} = {TENANT}{also}"
    return Rule(own, own)


def _of_run(column: str = "run_id") -> Rule:
    """Return the rule for what belongs to a run, which may be written in the same statement."""
    own = f"{{table}}.{column}"
    seen = f"EXISTS (SELECT 1 FROM duly.runs of_run WHERE of_run.id = {own})"  # noqa: S608
    return Rule(seen, f"NOT duly.is_others_run({own})")


def _of_row(table: str, column: str) -> Rule:
    own = f"{{table}}.{column}"
    seen = f"EXISTS (SELECT 1 FROM duly.{table} of_row WHERE of_row.id = {own})"  # noqa: S608
    return Rule(seen, seen)


_SHARE = f"CASE {TENANT} WHEN '{TENANT_DEFAULT}' THEN '' ELSE {TENANT} END"
_QUEUED = Rule(
    f"{{table}}.tenant IN ('', {_SHARE}) AND {_of_run().seen}", f"{{table}}.tenant = {_SHARE}"
)
# What concerns every tenant is on the trail under no name. Who comes and who may is written before
# it is known whose he is.
_OF_ACCESS = "{table}.action ^@ 'token.' OR {table}.action ^@ 'session.'"
_ON_TRAIL = Rule(_of("tenant", "").seen, f"{_of('tenant', '').written} OR {_OF_ACCESS}")
_OF_SCHEDULE = _of_row("schedules", "schedule_id")

GRANTS: dict[str, Grant] = {
    # Promises, and what has become of them.
    "schedules": Grant(_CHANGE, _of()),
    "schedule_definitions": Grant(_APPEND, _OF_SCHEDULE),
    "schedule_state": Grant(_CHANGE, _of()),
    "skips": Grant(_CHANGE, _OF_SCHEDULE),
    "owed": Grant(_ALL, _OF_SCHEDULE),
    "delayed": Grant(_ALL, _of()),
    # An id is claimed by a row of nobody's, which is gone before anybody can see it.
    "runs": Grant(_ALL, _of("tenant", "")),
    "ready": Grant(_ALL, _QUEUED),
    "claims": Grant((*_READ, "UPDATE"), _of_run()),
    "waiting": Grant(_ALL, _of_run()),
    "dead": Grant(_ALL, _of_run()),
    "ambiguous": Grant(_ALL, _of_run()),
    "blocked": Grant(_ALL, _of_run()),
    "held_gates": Grant(_ALL, _of_run()),
    "held_places": Grant(_ALL, _of_run()),
    "turns": Grant(_ALL, _of_run()),
    "outcomes": Grant(_CHANGE, _of_run()),
    "attempts": Grant(_READ, _of_run()),
    "progress": Grant(_READ, _of_run()),
    "lines": Grant(_READ, _of_run()),
    "checkpoints": Grant((*_READ, "DELETE"), _of_run()),
    "effects": Grant(_ALL, _of_run("root")),
    "scopes": Grant(_CHANGE, _of_run("root")),
    "scope_items": Grant(_CHANGE, _of_run("root")),
    "verdicts": Grant(_APPEND, _of_run()),
    "backfills": Grant(_CHANGE, _of()),
    "backfill_slots": Grant((*_READ, "UPDATE"), _of_row("backfills", "backfill_id")),
    "audit": Grant(_APPEND, _ON_TRAIL),
    "answers": Grant(_ALL, _of()),
    "frozen_sets": Grant(_ALL, _of()),
    # Who asks is found out before it is known whose he is.
    "tokens": Grant(_CHANGE),
    "sessions": Grant(_ALL),
    "codes": Grant(_ALL),
    # What tenants share: operators order about it.
    "gates": Grant(_CHANGE),
    "queues": Grant(_ALL),
    "limits": Grant(_ALL),
    "paces": Grant(_ALL),
    "breakers": Grant(_CHANGE),
    "quotas": Grant(_ALL),
    "tasks": Grant(_CHANGE),
    "task_orders": Grant(_ALL),
    "retry_budgets": Grant(_ALL),
    "retry_slots": Grant(_ALL),
    "cluster": Grant((*_READ, "UPDATE (limits_version, program_min)")),
    "arrivals": Grant(("INSERT",)),
    "tallies": Grant(_READ),
    "tally_changes": Grant(_APPEND),
    "members": Grant((*_READ, "UPDATE (standing, ended_at)")),
    "quarantined_hosts": Grant(_ALL),
    "workers": Grant(_READ),
    "worker_tasks": Grant(_READ),
    "leases": Grant(_READ),
    "seals": Grant(_READ),
    # A server that is held to a tenant sees too little to watch.
    "watch": Grant(_READ),
    "alerts": Grant(_CHANGE, _of("tenant", "")),
    "alert_deliveries": Grant(_READ, _of_row("alerts", "alert_id")),
    "alert_terms": Grant(_ALL, _of("tenant", "")),
    "migrations": Grant(_READ),
}

# Says of a run that is not there that it is nobody's: it may be about to be written.
MAKE_FUNCTION = f"""
CREATE OR REPLACE FUNCTION duly.is_others_run(asked uuid) RETURNS bool LANGUAGE sql VOLATILE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM duly.runs
        WHERE id = asked AND tenant NOT IN ('', coalesce({TENANT}, ''))) $$"""  # noqa: S608 - ours
# Ids that callers choose live in one space: one that another tenant has used can't be used again.
MAKE_OTHERS_IDS = f"""
CREATE OR REPLACE FUNCTION duly.others_ids(asked uuid[]) RETURNS SETOF uuid LANGUAGE sql VOLATILE
    SECURITY DEFINER SET search_path = pg_catalog, pg_temp SET enable_seqscan = off AS $$
    SELECT id FROM (
        SELECT id, tenant FROM duly.runs WHERE id = ANY(asked)
        UNION ALL SELECT id, tenant FROM duly.delayed WHERE id = ANY(asked)
        UNION ALL SELECT id, tenant FROM duly.schedules WHERE id = ANY(asked)
        UNION ALL SELECT id, tenant FROM duly.backfills WHERE id = ANY(asked)) used
    WHERE tenant NOT IN ('', coalesce({TENANT}, '')) $$"""  # noqa: S608 - ours
# How many schedules are made in a minute is bounded over all tenants: when, and nothing else.
MAKE_COUNTING = """
CREATE OR REPLACE FUNCTION duly.made_since(first uuid, since int8, most int8) RETURNS SETOF int8
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
    SELECT created_at FROM duly.schedules WHERE id >= first AND created_at > since
    ORDER BY created_at DESC LIMIT most $$"""
# How much waits and runs concerns the fleet: in which queue, by which worker, at which limit.
MAKE_QUEUED = f"""
CREATE OR REPLACE FUNCTION duly.queued_of_all()
    RETURNS TABLE (queue text, queued int8, oldest_at int8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ {ordering.LIST_QUEUED} $$"""
MAKE_CLAIMED = f"""
CREATE OR REPLACE FUNCTION duly.claimed_of_all() RETURNS TABLE (queue text, claimed int8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ {ordering.COUNT_CLAIMED} $$"""
MAKE_HELD = f"""
CREATE OR REPLACE FUNCTION duly.held_of_all() RETURNS TABLE (worker int8, held int8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ {reading.COUNT_HELD} $$"""
MAKE_PLACES = f"""
CREATE OR REPLACE FUNCTION duly.places_of_all() RETURNS TABLE (place text, held int8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ {limiting.COUNT_PLACES} $$"""
MAKE_STANDING = f"""
CREATE OR REPLACE FUNCTION duly.standing_of_all() RETURNS TABLE (place text, waiting int8)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
    AS $$ {limiting.COUNT_STANDING} $$"""
FUNCTIONS = (
    "duly.is_others_run(uuid)",
    "duly.others_ids(uuid[])",
    "duly.made_since(uuid, int8, int8)",
    "duly.queued_of_all()",
    "duly.claimed_of_all()",
    "duly.held_of_all()",
    "duly.places_of_all()",
    "duly.standing_of_all()",
)
# An id is pending whichever tenant's it is: what is made under it would take the other's place.
SEE_ALL_PENDING = """
ALTER FUNCTION duly.are_pending(uuid[]) SECURITY DEFINER SET search_path = pg_catalog, pg_temp"""
SEE_OWN_PENDING = "ALTER FUNCTION duly.are_pending(uuid[]) SECURITY INVOKER RESET search_path"
LIST_TABLES = """
SELECT c.relname FROM pg_catalog.pg_class c
WHERE c.relnamespace = 'duly'::pg_catalog.regnamespace AND c.relkind IN ('r', 'p', 'v')
ORDER BY c.relname"""
READ_ROLE = """
SELECT r.rolsuper OR r.rolbypassrls, pg_catalog.pg_has_role(r.oid, c.relowner, 'USAGE')
FROM pg_catalog.pg_roles r CROSS JOIN pg_catalog.pg_class c
WHERE r.rolname = $1 AND c.oid = 'duly.runs'::pg_catalog.regclass"""
LIST_HELD = f"""
SELECT r.rolname, {ACCESS_OF_POLICY}
FROM pg_catalog.pg_policy p JOIN pg_catalog.pg_roles r ON r.oid = p.polroles[1]
WHERE p.polrelid = 'duly.runs'::pg_catalog.regclass AND NOT p.polpermissive
ORDER BY r.rolname"""  # noqa: S608 - ours


def grant_statements(session: Session, role: str) -> list[list[str]]:
    """Return what gives a role its rights and holds it to one tenant at a time.

    Each part is a transaction of its own, about one table: a table is locked while it gets its
    policies, and a dispatcher that runs meanwhile may wait for one, but never in a circle. The
    number of it all is noted at the end.
    """
    _require_fit(session, role)
    name = _quoted(role)
    parts = [
        [
            MAKE_FUNCTION.strip(),
            MAKE_OTHERS_IDS.strip(),
            MAKE_COUNTING.strip(),
            MAKE_QUEUED.strip(),
            MAKE_CLAIMED.strip(),
            MAKE_HELD.strip(),
            MAKE_PLACES.strip(),
            MAKE_STANDING.strip(),
            SEE_ALL_PENDING.strip(),
            *(f"REVOKE ALL ON FUNCTION {one} FROM PUBLIC" for one in FUNCTIONS),
            f"GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA duly TO {name}",
        ]
    ]
    for table in _tables(session):
        part = [f"REVOKE ALL ON duly.{table} FROM {name}"]
        grant = GRANTS.get(table)
        if grant is not None and grant.rule is not None:
            part += _hold(table, role, grant.rule)
        if grant is not None:
            part.append(f"GRANT {', '.join(grant.rights)} ON duly.{table} TO {name}")
        parts.append(part)
    noted = f"COMMENT ON POLICY {_policy(role)} ON duly.runs IS '{ACCESS_NUMBER}'"
    return [*parts, [f"GRANT USAGE ON SCHEMA duly TO {name}", noted]]


def revoke_statements(session: Session, role: str) -> list[list[str]]:
    """Return what takes a role's rights back, and lifts what was held for its sake alone."""
    name, policy = _quoted(role), _policy(role)
    others = {found for found, _ in session.rows(LIST_HELD)} - {role}
    parts = [
        [
            f"REVOKE ALL ON ALL TABLES IN SCHEMA duly FROM {name}",
            f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA duly FROM {name}",
            f"REVOKE ALL ON SCHEMA duly FROM {name}",
        ]
    ]
    for table in _tables(session):
        if table not in GRANTS or GRANTS[table].rule is None:
            continue
        part = [f"DROP POLICY IF EXISTS {policy} ON duly.{table}"]
        if not others:
            part += [
                f"DROP POLICY IF EXISTS everybody ON duly.{table}",
                f"ALTER TABLE duly.{table} DISABLE ROW LEVEL SECURITY",
            ]
        parts.append(part)
    if not others:
        parts.append([*(f"DROP FUNCTION IF EXISTS {one}" for one in FUNCTIONS), SEE_OWN_PENDING])
    return parts


def roles_with_less(session: Session) -> list[str]:
    """Return the roles that were granted access by an older program."""
    return [role for role, number in session.rows(LIST_HELD) if number < ACCESS_NUMBER]


def _hold(table: str, role: str, rule: Rule) -> list[str]:
    """Return what lets a role see a tenant's rows of a table only, and everybody else all."""
    name, policy = _quoted(role), _policy(role)
    return [
        f"ALTER TABLE duly.{table} ENABLE ROW LEVEL SECURITY",
        f"DROP POLICY IF EXISTS everybody ON duly.{table}",
        f"CREATE POLICY everybody ON duly.{table} USING (true) WITH CHECK (true)",
        f"DROP POLICY IF EXISTS {policy} ON duly.{table}",
        f"""CREATE POLICY {policy} ON duly.{table} AS RESTRICTIVE TO {name}
    USING ({rule.seen.format(table=table)})
    WITH CHECK ({rule.written.format(table=table)})""",
    ]


def _tables(session: Session) -> list[str]:
    return [str(name) for (name,) in session.rows(LIST_TABLES)]


def _require_fit(session: Session, role: str) -> None:
    """Refuse a role that nothing would hold."""
    found = first(session, READ_ROLE, (role,))
    if found is None:
        raise NotFound("role", role, "make it first: CREATE ROLE … LOGIN")
    is_above, is_owner = found
    if is_above or is_owner:
        problem = "is above row-level security" if is_above else "has the rights of the owner"
        remedy = "give one of its own: neither SUPERUSER nor BYPASSRLS, nor a member of the owner"
        raise UsageError("role", role, problem, remedy)


def _policy(role: str) -> str:
    return _quoted(f"tenant of {role}")


def _quoted(name: str) -> str:
    return SQL("{}").format(Identifier(name)).as_string(None)
