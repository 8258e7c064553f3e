"""Rows of limits, paces and breakers, as both databases write and read them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.domain.admission import Breaker, BreakerState
from duly.domain.ids import RunId
from duly.domain.limits import Limit, LimitRecord, LimitSource, read_rate

if TYPE_CHECKING:
    from duly.store.records import Row


def limit_record(row: Row) -> LimitRecord:
    """Return a limit: of what, by whom, running, rate, by parameters, since when, who, why."""
    scope, source, running, rate, running_by, at, by, reason = row
    limit = Limit(
        running,
        None if rate is None else read_rate("rate", rate),
        () if running_by is None else tuple(sorted(json.loads(running_by).items())),
    )
    return LimitRecord(scope, LimitSource(source), limit, at, by, reason)


def limit_row(record: LimitRecord) -> Row:
    """Return the columns of a limit, in the same order."""
    limit = record.limit
    return (
        record.scope,
        str(record.source),
        limit.running,
        None if limit.rate is None else limit.rate.text,
        json.dumps(dict(limit.running_by), ensure_ascii=False) if limit.running_by else None,
        record.at,
        record.by,
        record.reason,
    )


def breaker_of(row: Row) -> Breaker:
    """Return a breaker: state, counted from, succeeded, failed, opened, retry, pause, probe, epoch.

    Whatever stands behind these columns is not looked at.
    """
    state, counted_from, succeeded, failed, opened_at, retry_at, pause_us, probe, epoch = row[:9]
    return Breaker(
        state=BreakerState(state),
        counted_from=counted_from,
        succeeded=succeeded,
        failed=failed,
        opened_at=opened_at,
        retry_at=retry_at,
        pause_us=pause_us,
        probe=None if probe is None else RunId(probe),
        epoch=epoch,
    )


def breaker_row(breaker: Breaker) -> Row:
    """Return the columns of a breaker, in the same order."""
    return (
        str(breaker.state),
        breaker.counted_from,
        breaker.succeeded,
        breaker.failed,
        breaker.opened_at,
        breaker.retry_at,
        breaker.pause_us,
        breaker.probe,
        breaker.epoch,
    )
