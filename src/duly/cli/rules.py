"""Rules as people type them on the command line, read as timetables together with their options."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from cyclopts import Parameter

from duly.cli.moments import local_date
from duly.client.spoken import Spoken, spoken_timetable
from duly.domain.language.recognise import recognise
from duly.domain.local_time import Fold, Gap
from duly.domain.timetable.business_calendar import read_calendar
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.cron import Cron
from duly.domain.timetable.explain import zoned_leaves
from duly.domain.timetable.month_days import BUSINESS_DAY
from duly.domain.timetable.monthly import Monthly
from duly.domain.timetable.rrule import RRule
from duly.domain.timetable.stored import timetable_from_json
from duly.domain.timetable.timetable import Timetable
from duly.domain.zones.database import default_zones
from duly.errors import UsageError

ZONE_DEFAULT = "UTC"


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """When a schedule runs."""

    when: str | None = None
    """Such as "0 2 * * *", "FREQ=WEEKLY;BYDAY=MO", "Mon..Fri 9:00", "15m", "every weekday at 9"."""
    tz: str | None = None
    """The zone that wall times are meant in, by its IANA name; UTC unless given."""
    gap: Gap | None = None
    """What becomes of a wall time that clocks jump over: next (the default), shift or skip."""
    fold: Fold | None = None
    """Which, when a wall time comes twice: first (the default), second or both."""
    calendar: str | None = None
    """Whose business days count: a country (US), one of its states (DE-BY), an exchange (XNYS)."""
    dtstart: str | None = None
    """Where an RRULE starts counting; today unless given."""

    @property
    def is_given(self) -> bool:
        """Whether any of them is."""
        parts = (self.when, self.tz, self.gap, self.fold, self.calendar, self.dtstart)
        return any(part is not None for part in parts)


def read_rule(
    options: RuleOptions, name: str, now: datetime, current: Timetable | None = None
) -> Timetable:
    """Read the rule of a schedule; its name spreads a cron expression's H.

    What is not given stays as it is in the current one, the zone above all.
    """
    if options.when is None:
        remedy = "say when it runs, such as --when 'every weekday at 9' --tz Europe/Paris"
        raise UsageError("when", None, "is missing", remedy)
    kept = {} if current is None else current.to_json()
    tz = options.tz or (zone_of(current) if current else None) or ZONE_DEFAULT
    default_zones().zone(tz)
    policies: dict[str, Any] = {
        "gap": options.gap or kept.get("gap", "next"),
        "fold": options.fold or kept.get("fold", "first"),
    }
    first = options.dtstart or f"{local_date(now, tz).isoformat()}T00:00:00"
    timetable = recognise(options.when, tz=tz, dtstart=first, seed=name, **policies)
    given = {"gap": options.gap, "fold": options.fold, "dtstart": options.dtstart}
    refuse_idle(given, timetable)
    if options.calendar is not None:
        timetable = with_calendar(timetable, options.calendar, tz)
    return timetable


def edited_rule(current: Timetable, options: RuleOptions, name: str, now: datetime) -> Timetable:
    """Read an edit of a rule: a new one, or the old one in another zone or by other policies."""
    if options.when is not None:
        return read_rule(options, name, now, current)
    if options.dtstart is not None or options.calendar is not None:
        field = "dtstart" if options.dtstart is not None else "calendar"
        remedy = "give the whole rule with --when as well"
        raise UsageError(field, getattr(options, field), "can't be changed alone", remedy)
    refuse_idle({"gap": options.gap, "fold": options.fold}, current)
    if options.tz is not None and zone_of(current) is None:
        problem = f"says nothing about {current.describe()!r}"
        raise UsageError("tz", options.tz, problem, "leave --tz out, or give --when too")
    parts = {"tz": options.tz, "gap": options.gap, "fold": options.fold}
    wanted = {key: value for key, value in parts.items() if value is not None}
    return timetable_from_json(_with_parts(current.to_json(), wanted))


def refuse_idle(options: dict[str, str | None], timetable: Timetable) -> None:
    """Refuse an option that says something about another kind of rule: it would be ignored."""
    leaves = list(zoned_leaves(timetable))
    uses = {
        "gap": bool(leaves),
        "fold": bool(leaves),
        "dtstart": any(isinstance(leaf, RRule) for leaf in leaves),
        "seed": any(isinstance(leaf, Cron) and "H" in leaf.expression.upper() for leaf in leaves),
    }
    for option, value in options.items():
        if value is not None and not uses[option]:
            remedy = f"leave --{option} out"
            raise UsageError(option, value, f"says nothing about {timetable.describe()!r}", remedy)


def with_calendar(timetable: Timetable, calendar: str, tz: str) -> Timetable:
    """Let business days be those of a calendar; a rule that names none keeps to them."""
    business_days = read_calendar(calendar)
    if isinstance(timetable, Monthly) and timetable.month_day.unit == BUSINESS_DAY:
        return replace(timetable, calendar=business_days)
    return timetable.on_business_days(business_days, tz=zone_of(timetable) or tz)


def spoken_parts(timetable: Timetable, name: str) -> dict[str, str] | None:
    """Return the options that give a rule again; None for one that takes more than options."""
    stored = timetable.to_json()
    text_key = {"every": "period", "at": "when"}.get(stored["kind"], "expression")
    text = stored.get("words") or stored.get(text_key)
    if not isinstance(text, str):
        return None
    keys = ("tz", "gap", "fold", "calendar", "dtstart")
    parts = {key: stored[key] for key in keys if isinstance(stored.get(key), str)}
    try:
        again = spoken_timetable(Spoken(when=text, seed=name, **parts)).to_json()
    except UsageError:
        return None
    if "seed" not in stored:
        again.pop("seed", None)  # where nothing is spread, it says nothing
    return {"when": text, **parts} if again == stored else None


def _with_parts(stored: Any, parts: dict[str, str]) -> Any:  # noqa: ANN401 - JSON values
    """Return a stored timetable with its zone or policies changed, wherever it holds them."""
    if isinstance(stored, list):
        return [_with_parts(one, parts) for one in stored]
    if not isinstance(stored, dict):
        return stored
    changed = {
        key: parts[key] if key in parts else _with_parts(value, parts)
        for key, value in stored.items()
    }
    if any(changed.get(key) != stored.get(key) for key in parts):
        changed.pop("words", None)  # what a person typed may name the old zone
    return changed
