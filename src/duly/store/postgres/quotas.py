"""Quotas on PostgreSQL: who counts against one waits for those before to commit.

What is waited for is a lock of the transaction's under the quota's name. It is taken after the
order is written, and what is counted then is read by a statement of its own: it sees all that were
committed before, and the order itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import ScheduleId, schedule_id
from duly.domain.quotas import GONE, DepartedOwner, gone_record
from duly.store.owners import GONE_END
from duly.store.postgres.arrays import Texts
from duly.store.postgres.session import as_values, one, uid
from duly.store.quotas import COUNTED_FROM_US, QuotaCounter, QuotaWriter, in_order, quota_record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.quotas import Bound, Quota, QuotaKey
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

QUOTA = """
SELECT q.scope, q.tenant, q.counted, q.most, q.version, q.updated_at, q.updated_by
FROM duly.quotas q"""
LIST_QUOTAS = f"""{QUOTA}
WHERE NOT (q.scope >= '{GONE}' AND q.scope < '{GONE_END}')"""
OF_SCOPE = f"{QUOTA} WHERE q.scope = $1 AND q.tenant = $2"
OF_SCOPES = f"""{QUOTA} WHERE (q.scope, q.tenant) IN (
    SELECT u.scope, u.tenant FROM unnest($1::text[], $2::text[]) u(scope, tenant))"""  # noqa: S608 - columns of ours
IS_PENDING_BOUND = "SELECT 1 FROM duly.quotas WHERE counted = 'pending' LIMIT 1"
WRITE_QUOTA = """
INSERT INTO duly.quotas (scope, tenant, counted, most, version, updated_at, updated_by)
VALUES ($1, $2, $3, $4::int4, $5::int4, $6::int8, $7)
ON CONFLICT (scope, tenant, counted) DO UPDATE
SET most = excluded.most, version = excluded.version, updated_at = excluded.updated_at,
    updated_by = excluded.updated_by"""
REMOVE_QUOTAS = "DELETE FROM duly.quotas WHERE scope = $1 AND tenant = $2"
WAIT = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended($1, 1684369529))"
# Who makes a schedule active holds back who would say that its owner is gone, and nobody else.
WAIT_FOR_WORD = """
SELECT pg_catalog.pg_advisory_xact_lock_shared(pg_catalog.hashtextextended($1, 1684369529))"""
COUNTS = "(status = 'active' OR (status = 'paused' AND resume_at IS NOT NULL))"
# In the order of an index, so that a tenant's own rows are read and no others: a planner that takes
# them for a third of the table would look for them from its beginning.
ACTIVE_OF_TENANT = f"""
SELECT count(*) FROM (
    SELECT 1 FROM duly.schedules
    WHERE tenant = $1 AND status <> 'deleted' AND {COUNTS}
    ORDER BY name LIMIT $2::int8) s"""  # noqa: S608 - ours
ACTIVE_OF_OWNER = f"""
SELECT count(*) FROM (
    SELECT 1 FROM duly.schedules
    WHERE tenant = $1 AND owner = $2 AND declared_by IS NULL AND {COUNTS}
    LIMIT $3::int8) s"""  # noqa: S608 - ours
ACTIVE_OF = f"""
SELECT uuid_send(id) FROM duly.schedules
WHERE tenant = $1 AND owner = $2 AND {COUNTS} ORDER BY id LIMIT $3::int8"""  # noqa: S608 - ours
LIST_GONE = f"""
SELECT q.scope, q.tenant, q.counted, q.most, q.version, q.updated_at, q.updated_by,
    (SELECT count(*) FROM duly.schedules s
     WHERE s.tenant = q.tenant AND {COUNTS}
     AND s.owner = substr(q.scope, {len(GONE) + 1}) COLLATE "default")
FROM duly.quotas q
WHERE q.scope > $1 AND q.scope < '{GONE_END}' AND q.tenant = $2
ORDER BY q.scope LIMIT $3::int8"""  # noqa: S608 - ours
# Ids begin with the time they were made at, so that no index by time is needed.
MADE_SINCE = """
SELECT created_at FROM duly.schedules
WHERE id >= $1::uuid AND created_at > $2::int8 AND ($3::text IS NULL OR tenant = $3)
ORDER BY created_at DESC LIMIT $4::int8"""
# A role that is shown one tenant's rows has a function to count all tenants' by.
IS_HELD = "SELECT 1 WHERE pg_catalog.current_setting('duly.tenant', true) <> ''"
_MADE_BY_ANYBODY = "SELECT duly.made_since($1::uuid, $2::int8, $3::int8)"
PENDING = """
SELECT count(*) FROM (
    SELECT 1 FROM duly.delayed WHERE tenant = $1 ORDER BY due_at, id LIMIT $2::int8) d"""


class PostgresCounting(QuotaCounter):
    """Counts what is committed, and what this transaction has written."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def quotas(self, keys: Sequence[QuotaKey]) -> list[Quota]:
        """Return what was set for any of them."""
        values = (Texts([one.scope for one in keys]), Texts([one.tenant for one in keys]))
        return [quota_record(row) for row in self._session.rows(OF_SCOPES, values)]

    def is_pending_bound(self) -> bool:
        """Say whether there is any quota of delayed runs."""
        return bool(self._session.rows(IS_PENDING_BOUND))

    def wait_turn(self, bound: Bound) -> None:
        """Wait for others that count against a quota, until they have committed."""
        self._session.rows(WAIT, (f"duly.quota:{bound.name}",))

    def wait_for_word(self, key: QuotaKey) -> None:
        """Wait for who says something of a scope; nobody else says it until we have committed."""
        self._session.rows(WAIT_FOR_WORD, (_word(key),))

    def active(self, tenant: str, owner: str | None, limit: int) -> int:
        """Count active schedules."""
        if owner is None:
            return int(one(self._session, ACTIVE_OF_TENANT, (tenant, limit))[0])
        return int(one(self._session, ACTIVE_OF_OWNER, (tenant, owner, limit))[0])

    def made_since(self, tenant: str | None, since: int, limit: int) -> list[int]:
        """Return when schedules were made, newest first."""
        first = uid(schedule_id(since - COUNTED_FROM_US, bytes(10)))
        if tenant is None and self._session.rows(IS_HELD):
            found = self._session.rows(_MADE_BY_ANYBODY, (first, since, limit))
        else:
            found = self._session.rows(MADE_SINCE, (first, since, tenant, limit))
        return [made_at for (made_at,) in found]

    def pending(self, tenant: str, limit: int) -> int:
        """Count delayed runs."""
        return int(one(self._session, PENDING, (tenant, limit))[0])


class PostgresSetting(QuotaWriter):
    """Sets quotas; who changes one of a scope waits for who does."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.now = work.now

    def hold(self, key: QuotaKey) -> list[Quota]:
        """Return what was set for a scope, and let nobody change it until the commit."""
        self._work.session.rows(WAIT, (_word(key),))
        self.now = self._work.look_at_the_clock()
        return [quota_record(row) for row in self._work.session.rows(OF_SCOPE, key)]

    def write(self, quota: Quota) -> None:
        """Write a quota."""
        told = (quota.most, quota.version, quota.updated_at, quota.updated_by)
        self._work.session.run(WRITE_QUOTA, as_values((*quota.key, quota.counted, *told)))

    def remove(self, key: QuotaKey) -> None:
        """Remove what was set for a scope."""
        self._work.session.run(REMOVE_QUOTAS, key)

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._work.record(actor, action, subject)


def list_quotas(session: Session) -> list[Quota]:
    """Return what was set, by scope."""
    return in_order(quota_record(row) for row in session.rows(LIST_QUOTAS))


def list_gone(session: Session, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
    """Return who is gone, by name."""
    rows = session.rows(LIST_GONE, (f"{GONE}{after}", tenant, limit))
    return [gone_record(quota_record(row[:-1]), row[-1]) for row in rows]


def list_active_of(session: Session, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
    """Return an owner's schedules that fire or will again by themselves."""
    found = session.rows(ACTIVE_OF, (tenant, owner, limit))
    return [ScheduleId(one) for (one,) in found]


def _word(key: QuotaKey) -> str:
    """Return under which name those wait for each other who say something of a scope."""
    return f"duly.quotas:{len(key.tenant)}:{key.tenant}:{key.scope}"
