"""Whether every occurrence has a record: by what was intended, and not by what was recorded (M1).

Each look goes on where the last one ended, and after the last schedule with the first. What nobody
has fired yet is late and not missing: that is told once, by who looks at dispatchers. What
retention has removed is unknown, and no alert (D6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertKey, Observation
from duly.domain.instants import DAY, HOUR, SECOND_US
from duly.domain.missing import Cause
from duly.engine.observers.about_schedules import (
    PAGE,
    SCHEDULES_MAX,
    SUBJECT,
    command_name,
    find_suspects,
    instant_text,
    schedule_condition,
    told_one_by_one,
)
from duly.store.missing import MissingFilter, find_missing

if TYPE_CHECKING:
    from duly.domain.alerting import Condition
    from duly.domain.identity import ScheduleId
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked
    from duly.store.missing import MissingPage, Place

SLOTS_MAX = 2_500
"""How many occurrences are asked about at once: at least one schedule is looked at whole."""
SLOTS_LOOKED_AT_MAX = 20_000
"""And in one go; those that fire every minute take longer to go round."""
LOOKED_BACK_US = HOUR * SECOND_US
LOOKED_BACK_MAX_US = DAY * SECOND_US
"""How far a look reaches where it takes longer to go round."""
TOLD_MAX = 20
"""Of so many occurrences the instants are told."""
KINDS = (AlertKind.MISSING_RUN,)


class MissingObserver:
    """Looks for occurrences without a record, page by page."""

    def __init__(self, page: int = PAGE, most: int = SCHEDULES_MAX) -> None:
        self._page = page
        self._most = most
        self._after: Place | None = None
        self._rounds_from: tuple[int, int] | None = None
        """When the round before this one began, and this one."""

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._after is None

    def observe(self, asked: Asked) -> Observation:
        """Say what is missing, of some pages and of those that alerts are about."""
        suspects = find_suspects(asked, KINDS)
        since = self._since(asked.now)
        pages = self._next_pages(asked, since)
        seen = {one.id for page in pages for one in page.looked_at}
        for record in suspects.values():
            if record is not None and record.id not in seen:
                alone = MissingFilter(since=since, schedule_id=record.id, slots_max=SLOTS_MAX)
                pages.append(find_missing(asked.store, alone))
        names = {(one.tenant, one.name) for page in pages for one in page.looked_at}
        return Observation(
            conditions=tuple(
                told_one_by_one(asked, [one for page in pages for one in _conditions(page)])
            ),
            keys=frozenset(
                AlertKey(AlertKind.MISSING_RUN, tenant, f"{SUBJECT}{name}")
                for tenant, name in names | suspects.keys()
            ),
        )

    def _next_pages(self, asked: Asked, since: int) -> list[MissingPage]:
        """Go on to look, until the round is over or enough was done for now."""
        pages: list[MissingPage] = []
        looked = slots = 0
        while looked < self._most and slots < SLOTS_LOOKED_AT_MAX:
            command = MissingFilter(
                since=since,
                after=self._after,
                schedules_max=min(self._page, self._most - looked),
                slots_max=SLOTS_MAX,
            )
            page = find_missing(asked.store, command)
            pages.append(page)
            self._after = page.after
            looked, slots = looked + page.schedules, slots + page.slots
            if self._after is None or asked.is_time_up():
                break
        return pages

    def _since(self, now: int) -> int:
        """Return from when on: what fell due since a schedule was last looked at is always in."""
        if self._after is None:
            self._rounds_from = (self._rounds_from[1] if self._rounds_from else now, now)
        assert self._rounds_from is not None, "a round has begun"
        wanted = min(now - LOOKED_BACK_US, self._rounds_from[0])
        return max(wanted, now - LOOKED_BACK_MAX_US)


def _conditions(page: MissingPage) -> list[Condition]:
    gone: dict[ScheduleId, tuple[ScheduleRecord, list[int]]] = {}
    for one in page.found:
        if one.slot.cause is Cause.UNRECORDED:
            of_one = gone.setdefault(one.record.id, (one.record, []))
            of_one[1].append(one.slot.scheduled_for)
    return [_missing(record, instants) for record, instants in gone.values()]


def _missing(record: ScheduleRecord, instants: list[int]) -> Condition:
    first = instants[0]
    count = "1 occurrence" if len(instants) == 1 else f"{len(instants):,} occurrences"
    what = f"{count} of schedule {record.name} without any record"
    return schedule_condition(
        record,
        AlertKind.MISSING_RUN,
        float(len(instants)),
        first,
        (
            f"{what}, the first of {instant_text(first)}",
            f"duly run missing --schedule {command_name(record)}; duly db check",
        ),
        {"missing": [instant_text(one) for one in instants[:TOLD_MAX]]},
    )
