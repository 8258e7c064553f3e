"""The schema in the database: what it has of the migrations, and applying what is missing."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store import migrating
from duly.store.auditing import SYSTEM
from duly.store.effect_rulings import EFFECTS_SCHEMA, restricted_subject
from duly.store.migrating import Applied, applied_at, compatible_with, read_migrations
from duly.store.postgres.session import one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.ports.maintenance import Migration
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

# Read as rows: the server remembers of a name that it was not there, and who has waited for others
# may be told so once more.
HAS_SCHEMA = """
SELECT EXISTS (
    SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = 'duly' AND tablename = 'migrations')"""
HAS_NAMESPACE = "SELECT to_regnamespace('duly') IS NOT NULL"
# Held to the end of the transaction, so it needs no session of its own: of two that come at once,
# one makes the schema and the other finds it made.
WAIT_FOR_OTHERS = "SELECT pg_advisory_xact_lock(hashtext('duly.migrations'))"
LIST_APPLIED = "SELECT number, phase, name, checksum, applied_at FROM duly.migrations ORDER BY 1"
INSERT_APPLIED = "INSERT INTO duly.migrations VALUES ($1::int4, $2, $3, $4, $5::int8)"
READ_PROGRAM_MIN = "SELECT program_min FROM duly.cluster"
RAISE_PROGRAM_MIN = "UPDATE duly.cluster SET program_min = greatest(program_min, $1::int4)"
RESTRICT = "UPDATE duly.cluster SET program_min = $1::int4 WHERE program_min < $1::int4"
INSERT_CLUSTER = """
INSERT INTO duly.cluster (id, shards, incarnation, tzdata, program_min)
VALUES (1, $1::int4, 1, '', 1)"""
INSERT_LEASES = """
INSERT INTO duly.leases (shard, lane, epoch)
SELECT shard, lane, 0
FROM generate_series(0, $1::int4 - 1) shard CROSS JOIN pg_catalog.unnest($2::text[]) lane"""
READ_NOW = "SELECT duly.now_us()"
ACCESS_NUMBER = 2
"""Of what `duly db access` grants: a role with less is refused until it is granted access again.

It is raised with each change of a right, a policy or a function of `access_grants`, and noted on
the policy of `duly.runs`. What was granted before there were numbers counts as 0.
"""
ACCESS_OF_POLICY = """
coalesce(substring(pg_catalog.obj_description(p.oid, 'pg_policy') FROM '^[0-9]{1,9}$')::int4, 0)"""
# NULL where no policy holds for the role that asks.
READ_ACCESS = f"""
SELECT min({ACCESS_OF_POLICY})
FROM pg_catalog.pg_policy p CROSS JOIN pg_catalog.unnest(p.polroles) h(role)
WHERE p.polrelid = 'duly.runs'::pg_catalog.regclass AND NOT p.polpermissive
    AND pg_catalog.pg_has_role(h.role, 'USAGE')
    AND pg_catalog.row_security_active('duly.runs')"""  # noqa: S608 - ours


@cache
def known_migrations() -> tuple[Migration, ...]:
    """Return the migrations that this program brings, in order."""
    return read_migrations("duly.store.postgres")


def has_schema(session: Session) -> bool:
    """Say whether there is a store in this database."""
    return bool(one(session, HAS_SCHEMA)[0])


def create(session: Session, known: Sequence[Migration], shards: int) -> list[Migration]:
    """Make all of the schema, inside the caller's transaction, if nobody has meanwhile."""
    session.run(WAIT_FOR_OTHERS)
    if has_schema(session):
        return []
    first, *rest = known
    # Who may make no schema in this database can be given an empty one.
    if not one(session, HAS_NAMESPACE)[0]:
        session.run("CREATE SCHEMA duly")
    _execute(session, first)
    session.run(INSERT_CLUSTER, (shards,))
    session.run(INSERT_LEASES, (shards, [str(lane) for lane in Lane]))
    done = [applied_at(first, _note(session, first))]
    for migration in rest:
        _execute(session, migration)
        done.append(applied_at(migration, _note(session, migration)))
    return done


def apply(session: Session, migration: Migration) -> Migration | None:
    """Apply one, inside the caller's transaction; None if the database has it already."""
    session.run(WAIT_FOR_OTHERS)
    if migration.number in {row[0] for row in session.rows(LIST_APPLIED)}:
        return None
    _execute(session, migration)
    return applied_at(migration, _note(session, migration))


def read_applied(session: Session) -> Applied:
    """Return what a database has."""
    if not has_schema(session):
        return migrating.NOTHING_APPLIED
    return Applied(tuple(session.rows(LIST_APPLIED)), one(session, READ_PROGRAM_MIN)[0])


def refuse_older(work: Work, unsafe: list[str]) -> None:
    """Let no program go on that knows nothing of effects which may not be repeated."""
    if work.session.run(RESTRICT, (EFFECTS_SCHEMA,)):
        work.record(SYSTEM, "store.restricted", restricted_subject(unsafe))


def _execute(session: Session, migration: Migration) -> None:
    """Run the statements of a migration one by one: a statement with values is one by itself."""
    for statement in statements_of(migration.sql):
        session.run(statement)


def statements_of(sql: str) -> list[str]:
    """Split the text of a migration: a statement ends with a semicolon at the end of a line."""
    found: list[str] = []
    lines: list[str] = []
    for line in sql.splitlines():
        bare = line.strip()
        if not bare or bare.startswith("--"):
            continue
        lines.append(line)
        if bare.endswith(";"):
            found.append("\n".join(lines).rstrip(";"))
            lines = []
    assert not lines, "the last statement of a migration ends with a semicolon"
    return found


def _note(session: Session, migration: Migration) -> int:
    now = int(one(session, READ_NOW)[0])
    row = (migration.number, migration.phase, migration.name, migration.checksum, now)
    session.run(INSERT_APPLIED, row)
    session.run(RAISE_PROGRAM_MIN, (compatible_with(migration),))
    return now
