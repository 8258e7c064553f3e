"""Counting what is whose: statements that both databases run, but for their own spelling.

A tenant's own rows are read in the order of an index, and no others, ten thousand at most: who has
more knows that they are many. What is open in the whole store is few, and looked at by run: joins
are written as CROSS JOIN, whose order SQLite keeps, or it would walk all runs there ever were.

Most stores have one tenant. An index of the runs that are others' says so at once, and then what is
open is counted where it stands: looking up ten thousand runs takes longer than all the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import ScheduleStatus
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.ports.dispatch import MemberId
from duly.store.ports.queries import OpenCounts, OwnQueue, TenantCounts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.store.records import Row

    Ask = Callable[[str, Sequence[object]], list[Row]]

SCHEDULES = """
SELECT s.status, count(*) FROM (
    SELECT status FROM duly_schedules WHERE tenant = ?1 ORDER BY name LIMIT 10000) s
GROUP BY s.status"""
DELAYED = """
SELECT count(*) FROM (
    SELECT 1 FROM duly_delayed WHERE tenant = ?1 ORDER BY due_at, id LIMIT 10000) d"""
_RETRIES = """duly_waiting w CROSS JOIN duly_runs r
    WHERE r.id = w.run_id AND r.tenant = ?1"""
_DUES = """
SELECT count(*) FILTER (WHERE p.due <= ?2), min(p.due) FILTER (WHERE p.due <= ?2),
    min(p.due) FILTER (WHERE p.due > ?2), count(*) FILTER (WHERE p.is_retry = 1)
FROM (
    SELECT t.next_due AS due, 0 AS is_retry FROM (
        SELECT id FROM duly_schedules WHERE tenant = ?1 ORDER BY name LIMIT 10000) s
    JOIN duly_schedule_state t ON t.schedule_id = s.id
    UNION ALL
    SELECT d.due_at, 0 FROM (
        SELECT due_at FROM duly_delayed WHERE tenant = ?1 ORDER BY due_at, id LIMIT 10000) d
    UNION ALL
    SELECT w.due_at, 1 FROM {retries}) p"""
DUES = _DUES.format(retries=_RETRIES)
DUES_ALONE = _DUES.format(retries="duly_waiting w")
OWED = """
SELECT count(*) FROM duly_owed o CROSS JOIN duly_schedules s
WHERE s.id = o.schedule_id AND s.tenant = ?1"""
DEAD = """
SELECT count(*) FROM duly_dead x CROSS JOIN duly_runs r
WHERE r.id = x.run_id AND r.tenant = ?1"""
AMBIGUOUS = """
SELECT count(*) FROM duly_ambiguous u CROSS JOIN duly_runs r
WHERE r.id = u.run_id AND r.tenant = ?1"""
QUEUED = """
SELECT r.queue, count(*), min(y.fired_at)
FROM duly_ready y CROSS JOIN duly_runs r WHERE r.id = y.run_id AND r.tenant = ?1 GROUP BY r.queue"""
QUEUED_ALONE = "SELECT queue, count(*), min(fired_at) FROM duly_ready GROUP BY queue"
HELD = """
SELECT c.worker, r.queue, count(*)
FROM duly_claims c CROSS JOIN duly_runs r WHERE r.id = c.run_id AND r.tenant = ?1
GROUP BY c.worker, r.queue"""
_OPEN = """(
    SELECT run_id, 'queued' AS place FROM (SELECT run_id FROM duly_ready LIMIT 1000) a
    UNION ALL
    SELECT run_id, 'running' FROM (SELECT run_id FROM duly_claims LIMIT 1000) b
    UNION ALL
    SELECT run_id, 'retrying' FROM (SELECT run_id FROM duly_waiting LIMIT 1000) c
    UNION ALL
    SELECT run_id, 'dead' FROM (SELECT run_id FROM duly_dead LIMIT 1000) d
    UNION ALL
    SELECT run_id, 'ambiguous' FROM (SELECT run_id FROM duly_ambiguous LIMIT 1000) e) p"""
OPEN_BY_TENANT = f"""
SELECT r.tenant, p.place, count(*) FROM {_OPEN}
JOIN duly_runs r ON r.id = p.run_id
GROUP BY r.tenant, p.place"""  # noqa: S608 - ours
OPEN_ALONE = f"SELECT p.place, count(*) FROM {_OPEN} GROUP BY p.place"  # noqa: S608 - ours
# As the index of just these runs is written, or it would not be used.
HAS_OTHERS = "SELECT EXISTS (SELECT 1 FROM duly_runs WHERE tenant <> 'default')"


def count_tenants(ask: Ask) -> dict[str, OpenCounts]:
    """Count open runs by tenant; `ask` runs a statement with its values."""
    if not ask(HAS_OTHERS, ())[0][0]:
        counts: dict[str, int] = dict(ask(OPEN_ALONE, ()))
        return {TENANT_DEFAULT: OpenCounts(**counts)} if counts else {}
    found: dict[str, OpenCounts] = {}
    for tenant, place, count in ask(OPEN_BY_TENANT, ()):
        found[tenant] = found.get(tenant, OpenCounts())._replace(**{place: count})
    return dict(sorted(found.items()))


def count_tenant(ask: Ask, tenant: str, now: int) -> TenantCounts:
    """Count what is a tenant's; `ask` runs a statement with its values."""

    def number(statement: str) -> int:
        return int(ask(statement, (tenant,))[0][0])

    is_alone = tenant == TENANT_DEFAULT and not ask(HAS_OTHERS, ())[0][0]
    dues, queued = (DUES_ALONE, QUEUED_ALONE) if is_alone else (DUES, QUEUED)
    overdue, oldest, coming, retrying = ask(dues, (tenant, now))[0]
    found = ask(queued, () if is_alone else (tenant,))
    waiting = {name: (count, since) for name, count, since in found}
    running: dict[str, int] = {}
    held: dict[MemberId, int] = {}
    for worker, queue, count in ask(HELD, (tenant,)):
        running[queue] = running.get(queue, 0) + count
        held[MemberId(worker)] = held.get(MemberId(worker), 0) + count
    return TenantCounts(
        schedules={ScheduleStatus(one): count for one, count in ask(SCHEDULES, (tenant,))},
        delayed=number(DELAYED),
        owed=number(OWED),
        overdue=overdue,
        oldest_due_at=oldest,
        next_due_at=coming,
        retrying=retrying,
        dead=number(DEAD),
        ambiguous=number(AMBIGUOUS),
        queues={
            name: OwnQueue(*waiting.get(name, (0, None)), running.get(name, 0))
            for name in sorted({*waiting, *running})
        },
        held=held,
    )
