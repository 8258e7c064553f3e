"""What alerts about schedules have in common: a subject, labels, and whom to look at again."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import Condition
from duly.domain.instants import SECOND_US, from_microseconds
from duly.domain.schedules import tenant_option
from duly.domain.time_texts import utc_text
from duly.engine.observers import SUBJECTS_MAX
from duly.store.reading import ScheduleFilter

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from duly.domain.identity import ScheduleId
    from duly.domain.literals import ScheduleStatus
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked
    from duly.store.protocol import Store

SUBJECT = "schedule "
"""How the subject of such an alert begins; its name follows."""
PAGE = 100
"""How many schedules are asked about at once: some 20 ms, whoever fires beside it."""
SCHEDULES_MAX = 1_500
"""How many are looked at in one go, if that is quick."""


class Round:
    """Goes round over the schedules of a status, page by page; behind the last comes the first."""

    def __init__(self, status: ScheduleStatus) -> None:
        self._statuses = frozenset({status})
        self._after: tuple[str, str, ScheduleId] | None = None

    @property
    def is_over(self) -> bool:
        """Whether the next page is the first one again."""
        return self._after is None

    def next_page(self, store: Store, limit: int) -> list[ScheduleRecord]:
        """Return some more."""
        command = ScheduleFilter(
            tenant=None, statuses=self._statuses, after=self._after, limit=limit
        )
        found = store.list_schedules(command)
        last = found[-1] if len(found) == limit else None
        self._after = None if last is None else (last.tenant, last.name, last.id)
        return found


def find_suspects(
    asked: Asked, kinds: Collection[AlertKind]
) -> dict[tuple[str, str], ScheduleRecord | None]:
    """Return the schedules that alerts are about, by tenant and name; None for one that is gone.

    Of more than are told one by one, others each time.
    """
    if not asked.with_suspects:
        return {}
    about = list(
        dict.fromkeys(
            (one.tenant, one.subject.removeprefix(SUBJECT))
            for one in asked.alerts
            if one.kind in kinds and one.subject.startswith(SUBJECT)
        )
    )
    most = SUBJECTS_MAX * len(kinds)
    first = asked.now // SECOND_US % len(about) if len(about) > most else 0
    found: dict[tuple[str, str], ScheduleRecord | None] = {}
    for tenant, name in (about[first:] + about[:first])[:most]:
        seen = asked.store.find_schedule(tenant, name)
        found[tenant, name] = None if seen is None else seen.record
    return found


def told_one_by_one(asked: Asked, conditions: Sequence[Condition]) -> list[Condition]:
    """Return what is known already and, of each kind, the worst of the rest: so many and no more.

    Whoever has ten thousand schedules that stopped at once needs no ten thousand messages.
    """
    known = {one.key for one in asked.alerts}
    room = Counter(dict.fromkeys(AlertKind, SUBJECTS_MAX))
    room.subtract(one.kind for one in asked.alerts)
    told = [one for one in conditions if one.key in known]
    for one in sorted(conditions, key=lambda one: -one.value):
        if one.key not in known and room[one.kind] > 0:
            room[one.kind] -= 1
            told.append(one)
    return told


def schedule_condition(  # noqa: PLR0913, PLR0917 - the parts of a condition
    record: ScheduleRecord,
    kind: AlertKind,
    value: float,
    since: int,
    words: tuple[str, str],
    evidence: dict[str, object],
) -> Condition:
    """Say something of a schedule: what is so, and what to do."""
    call = record.definition.call
    return Condition(
        kind=kind,
        tenant=record.tenant,
        subject=f"{SUBJECT}{record.name}",
        value=value,
        since=since,
        summary=words[0],
        remedy=words[1],
        evidence=evidence,
        labels={"schedule": record.name, "task": call.task, "queue": call.queue},
    )


def command_name(record: ScheduleRecord) -> str:
    """Write a schedule as a command is told it: others may have one of the same name."""
    return f"{quote(record.name)}{tenant_option(record.tenant)}"


def instant_text(instant: int) -> str:
    """Write an instant for people, in UTC."""
    return utc_text(from_microseconds(instant))
