"""Duly keeps promises about the future: timetables that can be trusted in any zone, on any day."""

from duly.almanac.zone_files import ZoneFolder
from duly.domain.language.plain import read_plain
from duly.domain.language.recognise import recognise
from duly.domain.timetable.business_calendar import BusinessCalendar
from duly.domain.timetable.cron import cron
from duly.domain.timetable.explain import ClockChange, clock_changes
from duly.domain.timetable.interval import every
from duly.domain.timetable.monthly import monthly
from duly.domain.timetable.oncalendar import oncalendar
from duly.domain.timetable.once import after, at
from duly.domain.timetable.rrule import rrule
from duly.domain.timetable.stored import timetable_from_json
from duly.domain.timetable.timetable import Timetable
from duly.domain.zones.changes import Move, ZoneChange, moved, zone_changes
from duly.domain.zones.database import ZoneDatabase, default_zones
from duly.domain.zones.search import ZoneMatch, search_zones
from duly.errors import DulyError, UsageError

__version__ = "0.1.0"

__all__ = [
    "BusinessCalendar",
    "ClockChange",
    "DulyError",
    "Move",
    "Timetable",
    "UsageError",
    "ZoneChange",
    "ZoneDatabase",
    "ZoneFolder",
    "ZoneMatch",
    "__version__",
    "after",
    "at",
    "clock_changes",
    "cron",
    "default_zones",
    "every",
    "monthly",
    "moved",
    "oncalendar",
    "read_plain",
    "recognise",
    "rrule",
    "search_zones",
    "timetable_from_json",
    "zone_changes",
]
