"""Schedules that are paused because what they need is gone: somebody is to know (S6).

The code of a task, who receives a call, or the owner: then it is told to who hears of the tenant.
What a person has paused for a reason of their own was done on purpose, and is no alert. However
many there are, a look is at one page of them and at those that alerts are about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertKey, Observation
from duly.domain.attempts import RECEIVER_GONE, TASK_GONE
from duly.domain.literals import ScheduleStatus
from duly.domain.owners import OWNER_GONE
from duly.engine.observers.about_schedules import (
    PAGE,
    SUBJECT,
    Round,
    command_name,
    find_suspects,
    schedule_condition,
    told_one_by_one,
)

if TYPE_CHECKING:
    from duly.domain.alerting import Condition
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked

KINDS = (AlertKind.SCHEDULE_PAUSED,)
REMEDIES = {
    TASK_GONE: "start a worker that has the code, then duly schedule resume {name}",
    RECEIVER_GONE: "see whether the address is right: duly schedule show {name}; then"
    " duly schedule resume {name}, or delete it",
    OWNER_GONE: "give it to somebody: duly schedule edit {name} --owner WHO, then"
    " duly schedule resume {name}; or delete it",
}
"""What to do, by how the reason begins."""


class PausedObserver:
    """Looks at paused schedules, page by page."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self._round = Round(ScheduleStatus.PAUSED)

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._round.is_over

    def observe(self, asked: Asked) -> Observation:
        """Say which are paused so, of one page and of those that alerts are about."""
        suspects = find_suspects(asked, KINDS)
        records = {one.id: one for one in suspects.values() if one is not None}
        if asked.status.schedules.get(ScheduleStatus.PAUSED):  # a store without any is not asked
            records |= {one.id: one for one in self._round.next_page(asked.store, self._page)}
        found = [one for one in records.values() if lacks_what_it_needs(one)]
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        return Observation(
            conditions=tuple(told_one_by_one(asked, [_paused(one) for one in found])),
            keys=frozenset(
                AlertKey(AlertKind.SCHEDULE_PAUSED, tenant, f"{SUBJECT}{name}")
                for tenant, name in names
            ),
        )


def lacks_what_it_needs(record: ScheduleRecord) -> bool:
    """Say whether it is paused because what it needs is gone."""
    return record.status is ScheduleStatus.PAUSED and _remedy(record) is not None


def _paused(record: ScheduleRecord) -> Condition:
    remedy = _remedy(record)
    assert remedy is not None, "just asked"
    whose = f" of {record.owner}" if record.owner else ""
    return schedule_condition(
        record,
        AlertKind.SCHEDULE_PAUSED,
        1.0,
        record.updated_at,
        (
            f"schedule {record.name}{whose} is paused: {record.reason}",
            remedy.format(name=command_name(record)),
        ),
        {"owner": record.owner, "reason": record.reason},
    )


def _remedy(record: ScheduleRecord) -> str | None:
    reason = record.reason or ""
    return next((one for cause, one in REMEDIES.items() if reason.startswith(cause)), None)
