"""Quotas on SQLite: counted while nobody else writes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.domain.ids import ScheduleId, schedule_id
from duly.domain.quotas import GONE, DepartedOwner, gone_record
from duly.store.owners import GONE_END
from duly.store.quotas import COUNTED_FROM_US, QuotaCounter, QuotaWriter, in_order, quota_record
from duly.store.sqlite.rows import one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.domain.quotas import Bound, Quota, QuotaKey
    from duly.store.sqlite.work import Look, Work

QUOTA = "SELECT scope, tenant, counted, most, version, updated_at, updated_by FROM duly_quotas"
LIST_QUOTAS = f"""{QUOTA}
WHERE NOT (scope >= '{GONE}' AND scope < '{GONE_END}') ORDER BY scope, tenant, counted"""
OF_SCOPE = f"{QUOTA} WHERE scope = ? AND tenant = ?"
OF_SCOPES = f"""{QUOTA} WHERE (scope, tenant) IN (
    SELECT value ->> 0, value ->> 1 FROM json_each(?))"""  # noqa: S608 - columns of ours
IS_PENDING_BOUND = "SELECT 1 FROM duly_quotas WHERE counted = 'pending' LIMIT 1"
WRITE_QUOTA = "INSERT OR REPLACE INTO duly_quotas VALUES (?, ?, ?, ?, ?, ?, ?)"
REMOVE_QUOTAS = "DELETE FROM duly_quotas WHERE scope = ? AND tenant = ?"
COUNTS = "(status = 'active' OR (status = 'paused' AND resume_at IS NOT NULL))"
ACTIVE_OF_TENANT = f"""
SELECT count(*) FROM (
    SELECT 1 FROM duly_schedules WHERE tenant = ? AND {COUNTS} LIMIT ?)"""  # noqa: S608 - ours
ACTIVE_OF_OWNER = f"""
SELECT count(*) FROM (
    SELECT 1 FROM duly_schedules
    WHERE tenant = ? AND owner = ? AND declared_by IS NULL AND {COUNTS} LIMIT ?)"""  # noqa: S608
ACTIVE_OF = f"""
SELECT id FROM duly_schedules
WHERE tenant = ? AND owner = ? AND {COUNTS} ORDER BY id LIMIT ?"""  # noqa: S608 - ours
LIST_GONE = f"""
SELECT q.scope, q.tenant, q.counted, q.most, q.version, q.updated_at, q.updated_by,
    (SELECT count(*) FROM duly_schedules s
     WHERE s.tenant = q.tenant AND s.owner = substr(q.scope, {len(GONE) + 1}) AND {COUNTS})
FROM duly_quotas q
WHERE q.scope > ? AND q.scope < '{GONE_END}' AND q.tenant = ?
ORDER BY q.scope LIMIT ?"""  # noqa: S608 - ours
# Ids begin with the time they were made at, so that no index by time is needed.
MADE_SINCE = """
SELECT created_at FROM duly_schedules
WHERE id >= ?1 AND created_at > ?2 AND (?3 IS NULL OR tenant = ?3)
ORDER BY created_at DESC LIMIT ?4"""
PENDING = """
SELECT count(*) FROM (SELECT 1 FROM duly_delayed WHERE tenant = ? LIMIT ?)"""


class SqliteCounting(QuotaCounter):
    """Counts what a transaction sees that holds the write lock."""

    def __init__(self, work: Work) -> None:
        self._connection = work.connection

    def quotas(self, keys: Sequence[QuotaKey]) -> list[Quota]:
        """Return what was set for any of them."""
        found = self._connection.execute(OF_SCOPES, (json.dumps(keys),))
        return [quota_record(row) for row in found]

    def is_pending_bound(self) -> bool:
        """Say whether there is any quota of delayed runs."""
        return self._connection.execute(IS_PENDING_BOUND).fetchone() is not None

    def wait_turn(self, bound: Bound) -> None:
        """Nobody else writes meanwhile."""

    def wait_for_word(self, key: QuotaKey) -> None:
        """Nobody else writes meanwhile."""

    def active(self, tenant: str, owner: str | None, limit: int) -> int:
        """Count active schedules."""
        if owner is None:
            return int(one(self._connection, ACTIVE_OF_TENANT, (tenant, limit))[0])
        return int(one(self._connection, ACTIVE_OF_OWNER, (tenant, owner, limit))[0])

    def made_since(self, tenant: str | None, since: int, limit: int) -> list[int]:
        """Return when schedules were made, newest first."""
        first = schedule_id(since - COUNTED_FROM_US, bytes(10))
        found = self._connection.execute(MADE_SINCE, (first, since, tenant, limit))
        return [made_at for (made_at,) in found]

    def pending(self, tenant: str, limit: int) -> int:
        """Count delayed runs."""
        return int(one(self._connection, PENDING, (tenant, limit))[0])


class SqliteSetting(QuotaWriter):
    """Sets quotas while nobody else writes."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self.now = work.now

    def hold(self, key: QuotaKey) -> list[Quota]:
        """Return what was set for a scope."""
        return [quota_record(row) for row in self._work.connection.execute(OF_SCOPE, key)]

    def write(self, quota: Quota) -> None:
        """Write a quota."""
        told = (quota.most, quota.version, quota.updated_at, quota.updated_by)
        self._work.connection.execute(WRITE_QUOTA, (*quota.key, quota.counted, *told))

    def remove(self, key: QuotaKey) -> None:
        """Remove what was set for a scope."""
        self._work.connection.execute(REMOVE_QUOTAS, key)

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        self._work.record(actor, action, subject)


def list_quotas(look: Look) -> list[Quota]:
    """Return what was set, by scope."""
    return in_order(quota_record(row) for row in look.connection.execute(LIST_QUOTAS))


def list_gone(look: Look, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
    """Return who is gone, by name."""
    rows = look.connection.execute(LIST_GONE, (f"{GONE}{after}", tenant, limit))
    return [gone_record(quota_record(row[:-1]), row[-1]) for row in rows]


def list_active_of(look: Look, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
    """Return an owner's schedules that fire or will again by themselves."""
    found = look.connection.execute(ACTIVE_OF, (tenant, owner, limit))
    return [ScheduleId(bytes(one)) for (one,) in found]
