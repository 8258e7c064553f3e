"""Sentence to timetable: what the parts mean together, or why they cannot."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, datetime, time, timedelta, timezone
from functools import lru_cache
from typing import TYPE_CHECKING

from duly.errors import UsageError
from duly.timetable.combinators import BetweenDates, Limited, OnBusinessDays, Union
from duly.timetable.cron import cron
from duly.timetable.instants import (
    DAY,
    DURATION_MAX_US,
    HOUR,
    MINUTE,
    SECOND_US,
    days_in_month,
    from_microseconds,
)
from duly.timetable.interval import FIRST_INSTANT, Interval, every
from duly.timetable.language.days import settle_days
from duly.timetable.language.sentence import TimeWindow
from duly.timetable.language.times import (
    ALL_DAY,
    ClockSet,
    check_parts,
    field_text,
    named_times,
    stepped_times,
)
from duly.timetable.language.tokens import NotUnderstoodError
from duly.timetable.monthly import monthly
from duly.timetable.once import Once, at
from duly.timetable.phrases import clock_of, members, ordinal
from duly.timetable.rrule import rrule
from duly.timetable.timetable import Timetable, Zoned
from duly.timetable.zones import default_zones

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.timetable.language.sentence import Days, Sentence
    from duly.timetable.local_time import Fold, Gap


PERIOD_MAX = 1000
_FREQUENCIES = {"day": "DAILY", "week": "WEEKLY", "month": "MONTHLY", "year": "YEARLY"}
_CODES = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")


def periodic(
    said: Sentence, clock_sets: Callable[[], list[ClockSet]], setting: ZoneSetting
) -> Timetable:
    """Make "every 2 weeks on monday at 9 from 2026-04-06"."""
    assert said.period, "only asked for sentences with a period"
    unit, number = said.period
    if number > PERIOD_MAX:
        raise NotUnderstoodError(f"counts more than {PERIOD_MAX} {unit}s", "say fewer")
    if said.step or said.minutes:
        raise NotUnderstoodError(
            "says both a period and a distance", "say one time, as in 'at 9:00'"
        )
    if said.span in ("quarter", "year") or said.left_out:
        remedy = "say the days themselves, or leave the period out"
        raise NotUnderstoodError("says a period and days that don't go with it", remedy)
    if said.start is None:
        raise NotUnderstoodError(f"does not say when the first {unit} is", _EXAMPLES[unit])
    days = _day_parts(said, unit, said.start)
    made = []
    for clock_set in clock_sets():
        hour, minute, second = clock_set.first
        start = datetime.combine(said.start, time(hour, minute, second))
        hours = ",".join(map(str, members(clock_set.hours)))
        minutes = ",".join(map(str, members(clock_set.minutes)))
        rule = (
            f"FREQ={_FREQUENCIES[unit]};INTERVAL={number}{days};BYHOUR={hours};BYMINUTE={minutes}"
        )
        made.append(rrule(rule, dtstart=start, tz=setting.tz, gap=setting.gap, fold=setting.fold))
    return made[0] if len(made) == 1 else Union(tuple(made))


def _day_parts(said: Sentence, unit: str, start: date) -> str:
    """Return the parts of the rule that choose days; the start must be one of them.

    Otherwise it would be open whether counting begins with the start's own week (or month) or with
    the first day that is named.
    """
    days = said.days
    if days.is_any and not said.months:
        return _like_start(unit, start)
    is_day_of_unit = {
        "day": False,
        "week": days.weekdays and not (days.of_months or days.dates or said.months),
        "month": days.of_months and not (days.weekdays or days.dates or said.months),
        "year": len(days.dates) == 1 and not (days.weekdays or days.of_months or said.months),
    }[unit]
    if not is_day_of_unit or days.nearest or days.business or len(_ways(days)) > 1:
        raise NotUnderstoodError(f"names days that can't be counted by the {unit}", _EXAMPLES[unit])
    if not _includes(days, start):
        remedy = "start on the first day that is meant"
        raise NotUnderstoodError(f"starts on {start}, which is not one of its days", remedy)
    return _chosen(days)


_EXAMPLES = {
    "day": "say 'every 3 days at 9 from 2026-04-06'",
    "week": "say 'every 2 weeks on monday at 9 from 2026-04-06'",
    "month": "say 'every 3 months on the 1st at 9 from 2026-04-01'",
    "year": "say 'every 2 years on 24 december at 9 from 2026-12-24'",
}


def _ways(days: Days) -> list[object]:
    """Return the ways in which days of a month were said."""
    return [way for way in (days.numbers, days.from_end, days.ordinals) if way]


def _like_start(unit: str, start: date) -> str:
    """Repeat the start's own day, if every period has it."""
    if unit in ("month", "year") and start.day > 28:
        remedy = f"say the day, as in 'on the last day' or 'on the {start.day}th'"
        raise NotUnderstoodError(f"repeats day {start.day}, which not every month has", remedy)
    return ""


def _chosen(days: Days) -> str:
    if days.weekdays:
        return f";BYDAY={','.join(_CODES[day] for day in members(days.weekdays))}"
    if days.dates:
        ((month, day),) = days.dates
        return f";BYMONTH={month};BYMONTHDAY={day}"
    if days.ordinals:
        return (
            f";BYDAY={','.join(f'{number}{_CODES[day]}' for day, number in sorted(days.ordinals))}"
        )
    numbers = sorted(days.numbers) or [-back - 1 for back in sorted(days.from_end)]
    return f";BYMONTHDAY={','.join(map(str, numbers))}"


def _includes(days: Days, start: date) -> bool:
    """Say whether a date is one of the days."""
    if days.weekdays:
        return bool(days.weekdays >> start.weekday() & 1)
    if days.dates:
        return (start.month, start.day) in days.dates
    from_end = days_in_month(start.year, start.month) - start.day
    if start.day in days.numbers or from_end in days.from_end:
        return True
    is_last = (start + timedelta(days=7)).month != start.month
    counts = {(start.day - 1) // 7 + 1, -1 if is_last else 0}
    return any((start.weekday(), count) in days.ordinals for count in counts)


def zone_named(text: str) -> str:
    """Return the name of a zone; refuse a city, and say what its zone is called."""
    if text.upper() == "UTC":
        return "UTC"
    if text in default_zones().keys:
        return text
    raise NotUnderstoodError(f"says {text!r}, which is not the name of a zone", _remedy(text))


@lru_cache(maxsize=256)
def _remedy(text: str) -> str:
    """Look for the zone that was meant, once: mending a sentence may ask for it several times."""
    keys = default_zones().keys
    cities = sorted(key for key in keys if key.lower().endswith(f"/{text.lower()}"))
    if cities:
        return f"write {cities[0]!r}"
    try:
        default_zones().zone(text)
    except UsageError as error:
        return error.remedy
    raise AssertionError("only asked for names that are not zones")


PARTS_MAX = 50
_HOURS = (1 << 24) - 1


@dataclass(frozen=True, slots=True)
class ZoneSetting:
    """Where and how wall times are read: a zone and the policies for clock changes."""

    tz: str
    gap: Gap
    fold: Fold


def timetable_of(said: Sentence, setting: ZoneSetting) -> Timetable:
    """Make the timetable that a sentence means."""
    setting = _with_zone(said, setting)
    check_parts(said)
    if said.is_once or said.days.once:
        return _once(said, setting)
    if said.period and said.period[1] > 1:
        # The start is where counting begins, so it is part of the rule and not a limit to it.
        made = periodic(said, lambda: _clock_sets(said), setting)
        return _valid(made, said, setting, is_started=True)
    settle_days(said)
    _check_distance(said)
    is_all_day = not (said.minutes or said.windows or said.months) and said.days.is_any
    if said.step and is_all_day:
        return _valid(_evenly(said.step, setting), said, setting)
    parts = _crons(said, setting) + _business(said, setting)
    if len(parts) > PARTS_MAX:
        raise NotUnderstoodError("says too much at once", "divide it into several timetables")
    made = parts[0] if len(parts) == 1 else Union(tuple(parts))
    if said.days.is_business:
        made = made.on_business_days(None, tz=setting.tz)
    return _valid(made, said, setting)


def _check_distance(said: Sentence) -> None:
    """Refuse a distance beside a time of day; minutes belong to every hour, and to no other."""
    if said.step and said.times is not None:
        remedy = "say 'between 8 and 17' to limit it, or leave the time out"
        if said.step == HOUR:
            remedy = "say 'every hour at :15' for a minute, or leave the hour out"
        raise NotUnderstoodError("says both a distance and a time of day", remedy)
    if said.minutes and said.step not in (None, HOUR):
        remedy = "say 'every hour' beside a minute, or leave the minute out"
        raise NotUnderstoodError("says both a distance and a minute of the hour", remedy)
    if said.minutes and not (said.step or said.is_of_hours):
        remedy = "write 'at minute 5 of every hour'"
        raise NotUnderstoodError("has a minute without its hours", remedy)


def with_words(timetable: Timetable, words: str) -> Timetable:
    """Keep a person's words in each leaf that has room for them."""
    if isinstance(timetable, Zoned | Interval | Once):
        return replace(timetable, words=words)
    if isinstance(timetable, Union):
        return Union(tuple(with_words(part, words) for part in timetable.parts))
    assert isinstance(timetable, BetweenDates | Limited | OnBusinessDays)
    return replace(timetable, timetable=with_words(timetable.timetable, words))


def _with_zone(said: Sentence, setting: ZoneSetting) -> ZoneSetting:
    """Take the zone that was said; UTC, the default, gives way to it, another one must agree."""
    if said.zone is None:
        return setting
    tz = zone_named(said.zone)
    if setting.tz not in ("UTC", tz):
        remedy = f"leave one of them out, or say '{setting.tz}' in both"
        raise NotUnderstoodError(f"says {tz}, but the zone was given as {setting.tz}", remedy)
    return replace(setting, tz=tz)


def _once(said: Sentence, setting: ZoneSetting) -> Timetable:
    day = said.days.once
    if day is None:
        raise NotUnderstoodError("says 'once' without a date", "write 'once on 2026-04-03 at 9:00'")
    days_only = replace(said.days, once=None).is_any
    others = said.step or said.period or said.months or said.windows or said.start or said.end
    if not days_only or others or said.minutes or said.count or said.left_out:
        raise NotUnderstoodError("mixes one date with a rule", "write 'once on 2026-04-03 at 9:00'")
    if said.times is None or len(said.times) != 1:
        remedy = f"say the time, as in 'once on {day} at 9:00'"
        raise NotUnderstoodError("needs one time of day", remedy)
    moment = datetime.combine(day, time()) + timedelta(seconds=said.times[0])
    return at(moment, setting.tz, setting.gap, setting.fold)


def _evenly(step: int, setting: ZoneSetting) -> Timetable:
    """Make "every 15 minutes": by the clock where it fits the clock, otherwise a fixed distance."""
    if step < HOUR and (60 % step == 0 or (step % MINUTE == 0 and 60 % (step // MINUTE) == 0)):
        is_fitting = True
    else:
        is_fitting = step % HOUR == 0 and step < DAY and DAY % step == 0
    if is_fitting:
        (clock_set,) = stepped_times(step, ALL_DAY)
        return _cron(f"{clock_set.fields} * * *", setting)
    if step * SECOND_US > DURATION_MAX_US:
        raise NotUnderstoodError("has a distance longer than a century", "say a shorter one")
    unit, letter = next(
        pair for pair in ((HOUR, "h"), (MINUTE, "m"), (1, "s")) if step % pair[0] == 0
    )
    return every(f"{step // unit}{letter}")


def _clock_sets(said: Sentence) -> list[ClockSet]:
    """Return the times of day, whichever way they were said."""
    windows = said.windows or [ALL_DAY]
    for window in windows:
        _check_window(window, said)
    if said.minutes:
        return _minute_sets(said)
    if said.step:
        return [one for window in windows for one in stepped_times(said.step, window)]
    if said.windows:
        remedy = "say how often, as in 'every 15 minutes between 8 and 17'"
        raise NotUnderstoodError("has a stretch of the day and no distance", remedy)
    if said.times is None:
        if not said.is_shorthand:
            raise NotUnderstoodError("says no time of day")
        return named_times([0])
    return named_times(said.times)


def _minute_sets(said: Sentence) -> list[ClockSet]:
    """Return minutes of every hour, or of the hours of each stretch, as far as they are in it."""
    if not said.windows:
        return [ClockSet(_HOURS, said.minutes, is_interval=True)]
    found = []
    for window in said.windows:
        if window.end < window.start:
            remedy = "make a timetable for each side of midnight"
            raise NotUnderstoodError("has minutes in a stretch that runs past midnight", remedy)
        for minute in members(said.minutes):
            first = window.start + (minute * MINUTE - window.start) % HOUR
            if first <= window.end:
                found += stepped_times(HOUR, TimeWindow(first, window.end, is_exact=True))
    if not found:
        raise NotUnderstoodError("has no minute in its stretch of the day", "say a longer one")
    return found


def _check_window(window: TimeWindow, said: Sentence) -> None:
    if window.start <= window.end:
        return
    is_on_days = said.months or not said.days.is_any
    if is_on_days or not window.is_exact:
        problem = "has a stretch of the day that ends before it starts"
        remedy = "say both ends as 22:00 or 10pm; on certain days it can't run past midnight"
        raise NotUnderstoodError(problem, remedy)


def _crons(said: Sentence, setting: ZoneSetting) -> list[Timetable]:
    """Make one cron expression for each product of days and times that it takes."""
    return [
        _cron(f"{clock_set.fields} {fields}", setting, clock_set)
        for clock_set in _clock_sets(said)
        for fields in _day_fields(said.days, said.months)
    ]


def _business(said: Sentence, setting: ZoneSetting) -> list[Timetable]:
    """Make a calendar rule for each business day; without holidays, which a sentence can't name."""
    if not said.days.business:
        return []
    if said.months:
        raise NotUnderstoodError("limits business days to some months", "leave the months out")
    if said.times is None:
        raise NotUnderstoodError("says no time for a business day", "add one, such as 'at 18:00'")
    clocks = tuple(clock_of(time) for time in sorted(set(said.times)))
    return [
        monthly(
            f"{ordinal(number)} business day",
            clocks[0] if len(clocks) == 1 else clocks,
            tz=setting.tz,
            gap=setting.gap,
            fold=setting.fold,
        )
        for number in sorted(said.days.business)
    ]


def _day_fields(days: Days, months: int) -> list[str]:
    """Return the last three fields of a cron expression, once for each product that it takes."""
    month = field_text(months, 13, 1) if months else "*"
    if days.is_any or days.is_business:
        return [f"* {month} *"]
    found = [f"{number}W {month} *" for number in sorted(days.nearest) if number > 0]
    found += [f"LW {month} *" for number in days.nearest if number < 0]
    month_days = [field_text(sum(1 << n for n in days.numbers), 32, 1)] if days.numbers else []
    month_days += [f"L-{back}" if back else "L" for back in sorted(days.from_end)]
    weekdays = [_weekday_text(days.weekdays)] if days.weekdays else []
    for weekday, number in sorted(days.ordinals):
        from_sunday = (weekday + 1) % 7
        weekdays.append(f"{from_sunday}#{number}" if number > 0 else f"{from_sunday}L")
    if month_days or weekdays:
        # Cron itself takes either where both are given, as "on monday or the 13th" does.
        found.append(f"{','.join(month_days) or '*'} {month} {','.join(weekdays) or '*'}")
    for one in sorted({month for month, _ in days.dates}):
        numbers = sum(1 << day for month, day in days.dates if month == one)
        found.append(f"{field_text(numbers, 32, 1)} {one} *")
    return found


def _weekday_text(monday_first: int) -> str:
    """Write weekdays in cron's numbers, Sunday as 7 so that a week reads from Monday on."""
    return field_text(monday_first << 1, 8, 1)


def _cron(expression: str, setting: ZoneSetting, clock_set: ClockSet | None = None) -> Timetable:
    made = cron(expression, setting.tz, setting.gap, setting.fold)
    if clock_set and clock_set.is_interval and not made.fields.is_interval:
        # No star could be written, but "every so often" has no named time that must be kept.
        return replace(made, gap="skip", fold="both")
    return made


def _valid(
    timetable: Timetable, said: Sentence, setting: ZoneSetting, *, is_started: bool = False
) -> Timetable:
    """Limit a timetable to the dates and the number of times that were said."""
    start = _instant(said.start, setting.tz) if said.start else None
    if said.start and said.end and said.end < said.start:
        raise NotUnderstoodError("ends before it starts", "give an end date after the start date")
    # A count says its start itself, as a period does.
    first = None if is_started or said.count is not None else said.start
    if first or said.end:
        timetable = BetweenDates(timetable, first, said.end, setting.tz)
    if said.count is None:
        return timetable
    if start is None:
        remedy = "say from when, as in '10 times from 2026-04-06'"
        raise NotUnderstoodError("counts without a start", remedy)
    return Limited(timetable, said.count, start)


def _instant(day: date, tz: str) -> datetime:
    """Return the instant at which a day starts in a zone, with the zone's offset at that moment."""
    found = at(datetime.combine(day, time()), tz).first_from(FIRST_INSTANT)
    assert found is not None, "a wall time is never dropped under gap='next'"
    offset = default_zones().zone(tz).segment(found // SECOND_US).offset
    return from_microseconds(found).astimezone(timezone(timedelta(seconds=offset)))
