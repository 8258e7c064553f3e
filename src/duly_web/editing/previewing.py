"""What a rule would do: its next occurrences on two clocks, what clock changes do, and the load.

Computed by the engine that will fire it, through the call that the API's preview makes (UX 17).
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from duly import DulyError, default_zones
from duly.api.views import zone_of
from duly_web.editing.rules import advanced_text, rule_fields
from duly_web.moments import Clocks

if TYPE_CHECKING:
    from datetime import datetime

    from duly import Schedule, Timetable
    from duly.api.views import PreviewedOccurrence
    from duly_web.editing.form import ScheduleForm
    from duly_web.moments import Moment
    from duly_web.page import Asked

SHOWN, SHOWN_MORE = 3, 5
CROWD_LOOKED_AT = 500
"""So many active schedules are asked whether they fall due in the same minute."""
CROWD_FROM = 3
QUIETER_MINUTES = (7, 23)
MINUTE = timedelta(minutes=1)
MICROSECOND = timedelta(microseconds=1)
KIND_WORDS = {
    "cron": "a cron expression",
    "rrule": "a recurrence rule",
    "oncalendar": "a calendar event of systemd",
    "every": "an interval",
    "at": "a date",
    "monthly": "a calendar rule",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Coming:
    """One coming occurrence."""

    own: Moment
    mine: Moment | None
    """On the viewer's clock, where that shows another time."""
    utc: Moment
    change: str | None
    """What a clock change does to it, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crowd:
    """How many others fall due in the minute of the next occurrence, and when fewer do."""

    count: int
    looked_at: int
    at: str
    quieter: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Previewed:
    """What somebody sees before they agree."""

    description: str
    kind: str
    zone: str
    occurrences: tuple[Coming, ...]
    has_more: bool
    changes: tuple[str, ...]
    tzdata: str
    crowd: Crowd | None
    simple: str
    """The form's fields that say the same as a sentence, as JSON; empty if there is none."""
    text: str
    """The same as a text."""


def make_preview(
    asked: Asked, timetable: Timetable, form: ScheduleForm, edited: Schedule | None = None
) -> Previewed:
    """Preview a form's rule for whoever looks; `edited` is no crowd for itself."""
    count = min(max(form.count, 1), SHOWN_MORE)
    found = asked.app.schedules.preview(timetable, None, count + 1)
    shown = found.occurrences[:count]
    own = zone_of(timetable) or form.tz or "UTC"
    fields = rule_fields(timetable)
    return Previewed(
        description=timetable.describe(),
        kind="" if form.mode == "simple" else _kind(timetable),
        zone=own,
        occurrences=tuple(_coming(one, own, asked) for one in shown),
        has_more=len(found.occurrences) > count and count < SHOWN_MORE,
        changes=tuple(dict.fromkeys(one.text for one in found.changes)),
        tzdata=found.tzdata,
        crowd=_crowd(asked, timetable, own, edited),
        simple=json.dumps(fields) if fields["mode"] == "simple" else "",
        text=advanced_text(timetable) or "",
    )


def _kind(timetable: Timetable) -> str:
    """Say how a text was understood."""
    stored = timetable.to_json()
    return "plain words" if stored.get("words") else KIND_WORDS.get(stored["kind"], "a rule")


def _coming(one: PreviewedOccurrence, own: str, asked: Asked) -> Coming:
    now, mine = asked.now, asked.clocks.mine
    shown = Clocks("schedule").moment(one.utc, now, own)
    viewers = None if mine is None else Clocks("mine", mine).moment(one.utc, now)
    is_same = viewers is not None and (viewers.day, viewers.clock) == (shown.day, shown.clock)
    return Coming(
        own=shown,
        mine=None if is_same else viewers,
        utc=Clocks("utc").moment(one.utc, now),
        change=None if one.change is None else one.change.text,
    )


def _crowd(asked: Asked, timetable: Timetable, zone: str, edited: Schedule | None) -> Crowd | None:
    """Count who else falls due in the minute of the next occurrence: planned load, not past."""
    first = timetable.next(asked.now)
    if first is None:
        return None
    minute = first.replace(second=0, microsecond=0)
    active = asked.app.schedules.page(status="active", limit=CROWD_LOOKED_AT).items
    own = None if edited is None else edited.id
    rules = [one.timetable for one in active if one.id != own]
    count = _due_in(rules, minute)
    if count < CROWD_FROM:
        return None
    hour = minute - timedelta(minutes=_local(minute, zone).minute)
    quieter = []
    for number in QUIETER_MINUTES:
        there = _due_in(rules, hour + number * MINUTE)
        if there < count:
            quieter.append((f"{_local(hour + number * MINUTE, zone):%H:%M}", there))
    at = f"{_local(minute, zone):%H:%M}"
    return Crowd(count=count, looked_at=len(rules), at=at, quieter=tuple(quieter))


def _due_in(rules: list[Timetable], minute: datetime) -> int:
    """Count the rules that have an occurrence in a minute."""
    found = 0
    for rule in rules:
        try:
            coming = rule.next(minute - MICROSECOND)
        except DulyError:  # one that can't be computed is told elsewhere
            continue
        found += coming is not None and coming < minute + MINUTE
    return found


def _local(at: datetime, zone: str) -> datetime:
    segment = default_zones().zone(zone).segment(int(at.timestamp()))
    return at + timedelta(seconds=segment.offset)
