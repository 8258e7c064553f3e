"""What alerts about schedules have in common: a subject, labels, and whom to look at again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alerting import Condition
from duly.domain.instants import from_microseconds
from duly.domain.time_texts import utc_text
from duly.engine.observers import SUBJECTS_MAX

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.domain.alert_kinds import AlertKind
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked

SUBJECT = "schedule "
"""How the subject of such an alert begins; its name follows."""


def find_suspects(
    asked: Asked, kinds: Collection[AlertKind]
) -> dict[tuple[str, str], ScheduleRecord | None]:
    """Return the schedules that alerts are about, by tenant and name; None for one that is gone."""
    about = [
        (one.tenant, one.subject.removeprefix(SUBJECT))
        for one in asked.alerts
        if one.kind in kinds and one.subject.startswith(SUBJECT)
    ]
    found: dict[tuple[str, str], ScheduleRecord | None] = {}
    for tenant, name in list(dict.fromkeys(about))[:SUBJECTS_MAX]:
        seen = asked.store.find_schedule(tenant, name)
        found[tenant, name] = None if seen is None else seen.record
    return found


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


def instant_text(instant: int) -> str:
    """Write an instant for people, in UTC."""
    return utc_text(from_microseconds(instant))
