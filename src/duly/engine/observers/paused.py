"""Schedules that the system has paused by itself: somebody is to know, the owner first (S6).

What a person has paused was done on purpose, and is no alert. However many there are, a look is at
one page of them and at those that alerts are about.
"""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertKey, Observation
from duly.domain.attempts import TASK_GONE
from duly.domain.literals import ScheduleStatus
from duly.engine.observers.about_schedules import (
    PAGE,
    SUBJECT,
    Round,
    find_suspects,
    schedule_condition,
    told_one_by_one,
)

if TYPE_CHECKING:
    from duly.domain.alerting import Condition
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked

KINDS = (AlertKind.SCHEDULE_PAUSED,)


class PausedObserver:
    """Looks at paused schedules, page by page."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self._round = Round(ScheduleStatus.PAUSED)

    def observe(self, asked: Asked) -> Observation:
        """Say which were paused by the system, of one page and of those that alerts are about."""
        suspects = find_suspects(asked, KINDS)
        records = {one.id: one for one in suspects.values() if one is not None}
        if asked.status.schedules.get(ScheduleStatus.PAUSED):  # a store without any is not asked
            records |= {one.id: one for one in self._round.next_page(asked.store, self._page)}
        found = [one for one in records.values() if is_paused_by_itself(one)]
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        return Observation(
            conditions=tuple(told_one_by_one(asked, [_paused(one) for one in found])),
            keys=frozenset(
                AlertKey(AlertKind.SCHEDULE_PAUSED, tenant, f"{SUBJECT}{name}")
                for tenant, name in names
            ),
        )


def is_paused_by_itself(record: ScheduleRecord) -> bool:
    """Say whether the system has paused it, because what it needs is gone."""
    is_paused = record.status is ScheduleStatus.PAUSED
    return is_paused and (record.reason or "").startswith(TASK_GONE)


def _paused(record: ScheduleRecord) -> Condition:
    name = quote(record.name)
    whose = f" of {record.owner}" if record.owner else ""
    return schedule_condition(
        record,
        AlertKind.SCHEDULE_PAUSED,
        1.0,
        record.updated_at,
        (
            f"schedule {record.name}{whose} was paused by the system: {record.reason}",
            f"start a worker that has the code, then duly schedule resume {name}",
        ),
        {"owner": record.owner, "reason": record.reason},
    )
