"""Runs that are made of others: checks of their results, reruns and repairs.

Their ids are drawn from those they are made of: told twice, each is made once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duly.store.postgres.arrays import (
    Int4s,
    Int8s,
    OptionalInt4s,
    OptionalInt8s,
    OptionalUuids,
    Texts,
    Uuids,
)
from duly.store.postgres.rows import RANKED, SHARE
from duly.store.postgres.settlements import GATED, QUEUED, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.domain.enums import Lane, Origin
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Call
    from duly.domain.verification import CheckRun
    from duly.store.postgres.arrays import Encoded
    from duly.store.postgres.work import Work

# Those that are there are left alone. Behind their priority, from now on.
MAKE = f"""
WITH made AS (
    INSERT INTO duly.runs (id, tenant, schedule_id, definition_number, task, arguments, queue,
        priority, origin, lane, root, scheduled_for, window_from, not_before, created_at, fired_at)
    SELECT u.*, $1::int8, $1::int8, $1::int8
    FROM unnest($3::uuid[], $4::text[], $5::uuid[], $6::int4[], $7::text[], $8::text[], $9::text[],
        $10::int4[], $11::text[], $12::text[], $13::uuid[], $14::int8[], $15::int8[]) u
    ON CONFLICT (id) DO NOTHING
    RETURNING id, queue, priority, lane, tenant, not_before, fired_at),
queued AS (
    INSERT INTO duly.ready (queue, priority, rank, run_id, fired_at, not_before, era, is_gated,
        tenant)
    SELECT queue, {RANKED}, not_before, id, fired_at, not_before,
        (SELECT era FROM duly.cluster WHERE id = 1), CASE WHEN $2::int4 = {GATED} THEN true END,
        {SHARE}
    FROM made WHERE $2::int4 <> {WAITING})
SELECT 1 FROM made"""  # noqa: S608 - an expression of ours


_KINDS: tuple[Callable[[Any], Encoded], ...] = (
    Uuids,
    Texts,
    OptionalUuids,
    OptionalInt4s,
    Texts,
    Texts,
    Texts,
    Int4s,
    Texts,
    Texts,
    Uuids,
    Int8s,
    OptionalInt8s,
)


class Follower(NamedTuple):
    """A run that is made of another."""

    id: RunId
    tenant: str
    schedule_id: ScheduleId | None
    definition_number: int | None
    call: Call
    origin: Origin
    lane: Lane
    root: RunId
    scheduled_for: int
    window_from: int | None


def make(work: Work, followers: Sequence[Follower], put: int = QUEUED) -> int:
    """Make runs, and queue them unless they wait at a gate; return how many were not there yet."""
    rows = [
        (
            new.id,
            new.tenant,
            new.schedule_id,
            new.definition_number,
            new.call.task,
            new.call.arguments,
            new.call.queue,
            new.call.priority,
            new.origin,
            new.lane,
            new.root,
            new.scheduled_for,
            new.window_from,
        )
        for new in sorted(followers, key=lambda one: one.id)
    ]
    columns = zip(_KINDS, zip(*rows, strict=True), strict=True)
    values = [kind(column) for kind, column in columns]
    made = len(work.session.rows(MAKE, (work.now, put, *values)))
    work.has_orders = work.has_orders or (made > 0 and put != WAITING)
    return made


def follow_up(work: Work, checks: Iterable[CheckRun | None]) -> None:
    """Queue runs that follow from some that have ended; once, however often they are told."""
    asked = {check.id: check for check in checks if check is not None}
    followers = [
        Follower(
            id=check.id,
            tenant=check.tenant,
            schedule_id=None,
            definition_number=None,
            call=check.call,
            origin=check.origin,
            lane=check.lane,
            root=check.root,
            scheduled_for=work.now,
            window_from=None,
        )
        for check in asked.values()
    ]
    if followers:
        make(work, followers)
