"""Sealing the audit trail on PostgreSQL: what is settled is found first, then sealed.

Between the two nothing of it changes: a trail is only added to, and there is one sealer. Should the
lease have gone to another in between, the fence refuses; should he have sealed, it is seen by the
number of the last seal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import make_seal
from duly.domain.enums import Lane
from duly.errors import UsageError
from duly.store.ports.audit import TALLY, AuditAfter, TrailMarks, read_seal, seal_row
from duly.store.postgres.leases import held_shards
from duly.store.postgres.session import first

if TYPE_CHECKING:
    from duly.domain.audit import Seal
    from duly.store.ports.audit import SealAudit
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session
    from duly.store.postgres.trailing import Trail

_SEAL = "SELECT number, after, through, format, entries, hash, sealed_at, sealed_by FROM duly.seals"
LAST = f"{_SEAL} ORDER BY number DESC LIMIT 1"
AFTER = f"{_SEAL} WHERE number > $1::int8 ORDER BY number LIMIT $2::int8"
INSERT = """
INSERT INTO duly.seals (number, after, through, format, entries, hash, sealed_at, sealed_by)
VALUES ($1::int8, $2::int8, $3::int8, $4::int4, $5::bytea, $6::bytea, $7::int8, $8::int8)"""
SEALED = "SELECT count FROM duly.tallies WHERE name = $1"
# NULL for a role that may not look at the sequence, and before the first number.
DRAWN = """
SELECT CASE
    WHEN pg_catalog.has_sequence_privilege('duly.audit_number_seq', 'SELECT,USAGE')
    THEN pg_catalog.pg_sequence_last_value('duly.audit_number_seq'::regclass)
END"""
NOTE = """
INSERT INTO duly.tallies (name, count) VALUES ($1, $2::int8)
ON CONFLICT (name) DO UPDATE SET count = excluded.count"""


def seal_audit(connections: Connections, trail: Trail, command: SealAudit) -> Seal | None:
    """Write the next seal, if the maintenance lease is ours."""
    with connections.statement(for_dispatch=True) as session:
        last = _last(session)
    through = 0 if last is None else last.through
    page = trail.follow(connections, AuditAfter(after=through, limit=command.limit))
    if not page.entries:
        return None
    with connections.write(for_dispatch=True) as work:
        held, _ = held_shards(work, command.fence, Lane.BACKFILL)
        if 0 not in held or _last(work.session) != last:
            return None
        made = _sealed(work.session) or 0
        seal = make_seal(last, page.entries, now=work.now, by=command.fence.member, made=made)
        work.session.run(INSERT, seal_row(seal))
        work.session.run(NOTE, (TALLY, seal.number))
    return seal


def trail_marks(connections: Connections) -> TrailMarks:
    """Return the highest numbers of entries and seals, as noted apart from them.

    A transaction that is rolled back keeps the numbers that it has drawn.
    """
    with connections.statement() as session:
        drawn = first(session, DRAWN)
        number = None if drawn is None else drawn[0]
        return TrailMarks(sealed=_sealed(session), drawn=number, is_gapless=False)


def list_seals(connections: Connections, after: int, limit: int) -> list[Seal]:
    """Return seals of higher numbers."""
    with connections.statement() as session:
        if connections.keeps_tenants:
            problem = "sees one tenant's part of the audit trail, and can't compare it with seals"
            remedy = "use a role that is not held to a tenant: the owner's, or a dispatcher's"
            raise UsageError("store", connections.name, problem, remedy)
        return [read_seal(row) for row in session.rows(AFTER, (after, limit))]


def _sealed(session: Session) -> int | None:
    row = first(session, SEALED, (TALLY,))
    return None if row is None else int(row[0])


def _last(session: Session) -> Seal | None:
    row = first(session, LAST)
    return None if row is None else read_seal(row)
