"""Runs that were put off: letting them come back at other times, because a limit has changed."""

from __future__ import annotations

from operator import itemgetter
from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from duly.store.postgres.arrays import Int8s, Uuids

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.postgres.work import Work

# By an index of those alone. In the order of ids, as whoever locks several.
PUT_OFF = """
SELECT uuid_send(run_id), shard, due_at FROM duly.waiting
WHERE reason = $1 AND (reason ^@ 'rate ' OR reason ^@ 'breaker ')
ORDER BY run_id FOR UPDATE"""
CALL_BACK = """
UPDATE duly.waiting w SET due_at = u.at FROM unnest($1::uuid[], $2::int8[]) u(run_id, at)
WHERE w.run_id = u.run_id"""


def list_put_off(work: Work, why: str) -> list[tuple[RunId, int]]:
    """Return runs that were put off for one reason, each with its shard; the first back first."""
    found = work.session.rows(PUT_OFF, (why,))
    return [(RunId(run_id), shard) for run_id, shard, _ in sorted(found, key=itemgetter(2, 0))]


def call_back(work: Work, waiting: Sequence[tuple[RunId, int]], due_at: Sequence[int]) -> None:
    """Let runs that were put off come back at other times."""
    if waiting:
        ids = [run_id for run_id, _ in waiting]
        work.session.run(CALL_BACK, (Uuids(ids), Int8s(due_at)))
        timers = [(run_id, at, shard) for (run_id, shard), at in zip(waiting, due_at, strict=True)]
        work.announce_all("retry", timers)
