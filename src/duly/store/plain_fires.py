"""Fires that do nothing but make one run, on time: databases move them many at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.literals import Lane, Origin
from duly.store.dispatch import FireOnTime

if TYPE_CHECKING:
    from duly.store.dispatch import FireSchedule


def as_plain(fire: FireSchedule) -> FireOnTime | None:
    """Return a fire that makes one run, on time, and goes on to a next instant; None if not so."""
    if isinstance(fire, FireOnTime):
        return fire
    timer, (settlement, following, _), late_after = fire
    if late_after is None or following is None or len(settlement.runs) != 1:
        return None
    (run,) = settlement.runs
    is_plain = (
        not settlement.skips
        and settlement.owed is None
        and (run.scheduled_for, run.not_before) == (timer.scheduled_for, timer.due_at)
        and (run.origin, run.lane) == (Origin.SCHEDULE, Lane.LIVE)
    )
    if not is_plain:
        return None
    return FireOnTime(
        timer.ref,
        timer.generation,
        timer.due_at,
        timer.scheduled_for,
        timer.shard,
        late_after,
        run.run_id,
        *following,
        timer.definition_number,
    )
