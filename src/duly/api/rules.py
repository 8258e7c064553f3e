"""Rules as they come over the wire, read as timetables: words and a zone, or a whole timetable."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.client.spoken import Spoken, spoken_timetable
from duly.domain.timetable.combined import require_spread, spread
from duly.domain.timetable.stored import timetable_from_json
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.domain.timetable.timetable import Timetable
    from duly.wire.schedules import Rule

OCCURRENCES_SHOWN_MAX = 100
_BESIDE = ("tz", "gap", "fold", "calendar", "dtstart")


def is_rule_given(rule: Rule) -> bool:
    """Say whether anything is said about when."""
    return any(getattr(rule, name) is not None for name in ("when", "timetable", *_BESIDE))


def read_rule(rule: Rule, seed: str | None) -> Timetable:
    """Read a rule; its schedule's name spreads a cron expression's H, which is never left open."""
    timetable = _read(rule, seed)
    if seed is not None:
        return spread(timetable, seed)
    require_spread(timetable)
    return timetable


def _read(rule: Rule, seed: str | None) -> Timetable:
    if (rule.when is None) == (rule.timetable is None):
        remedy = 'give `when`, such as "every weekday at 9", or `timetable`, as a schedule shows it'
        raise UsageError("when", rule.when, "is one of two ways to say it", remedy)
    said = {name: value for name in _BESIDE if (value := getattr(rule, name)) is not None}
    if rule.when is not None:
        return spoken_timetable(Spoken(when=rule.when, seed=seed, **said))
    if said:
        name = next(iter(said))
        remedy = "write it in the timetable itself"
        raise UsageError(name, said[name], "says nothing about a whole timetable", remedy)
    stored: Any = rule.timetable
    return timetable_from_json(stored)


def read_count(count: int) -> int:
    """Read how many occurrences are to be shown."""
    if not 1 <= count <= OCCURRENCES_SHOWN_MAX:
        remedy = f"give 1 to {OCCURRENCES_SHOWN_MAX}"
        raise UsageError("count", count, "is out of range", remedy)
    return count
