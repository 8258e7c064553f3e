"""A timetable as a person types it in a file or a command: any kind of text, a zone, a calendar."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.domain.language.recognise import recognise
from duly.domain.timetable.business_calendar import read_calendar
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.month_days import BUSINESS_DAY
from duly.domain.timetable.monthly import Monthly

if TYPE_CHECKING:
    from datetime import date, datetime

    from duly.domain.timetable.timetable import Timetable


@dataclass(frozen=True, slots=True, kw_only=True)
class Spoken:
    """What a person typed, and what they said beside it."""

    when: str
    tz: str = "UTC"
    gap: Any = "next"
    fold: Any = "first"
    calendar: str | None = None
    """Whose business days count: a country (US), one of its states (DE-BY), or an exchange."""
    dtstart: datetime | date | str | None = None
    seed: str | None = None
    """What cron's H is spread by; the schedule's name."""


def spoken_timetable(spoken: Spoken) -> Timetable:
    """Read it."""
    timetable = recognise(
        spoken.when,
        tz=spoken.tz,
        gap=spoken.gap,
        fold=spoken.fold,
        seed=spoken.seed,
        dtstart=spoken.dtstart,
    )
    if spoken.calendar is None:
        return timetable
    business_days = read_calendar(spoken.calendar)
    if isinstance(timetable, Monthly) and timetable.month_day.unit == BUSINESS_DAY:
        return replace(timetable, calendar=business_days)
    return timetable.on_business_days(business_days, tz=zone_of(timetable) or spoken.tz)
