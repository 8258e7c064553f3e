"""Duly keeps promises about the future: timetables that can be trusted in any zone, on any day."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from duly import testing as testing
    from duly.almanac.zone_files import ZoneFolder
    from duly.app import App
    from duly.client.reconciling import Reconciliation
    from duly.client.run_view import DelayedRun, EnqueuedRun, Run
    from duly.client.schedule_view import Schedule
    from duly.client.secrets import secret
    from duly.client.tasks import BoundCall, Task
    from duly.config import Settings
    from duly.domain.answers import give_up, retry, snooze
    from duly.domain.checking import Verdict
    from duly.domain.language.plain import read_plain
    from duly.domain.language.recognise import recognise
    from duly.domain.misfire import Misfire
    from duly.domain.retrying import Retry
    from duly.domain.secrets import Secret
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
    from duly.engine.executors.run_filter import RunLogFilter
    from duly.errors import (
        Cancelled,
        Conflict,
        DulyError,
        EffectDone,
        EffectNotDone,
        EffectRefused,
        EffectUnknown,
        Forbidden,
        LeaseLost,
        NoSecret,
        NotFound,
        Outdated,
        OverQuota,
        SchemaMismatch,
        StoreError,
        StoreUnavailable,
        Unauthenticated,
        UsageError,
    )
    from duly.remote.connecting import Remote, connect
    from duly.telemetry.json_logs import JsonLogFormatter

__version__ = "0.1.0"

__all__ = [
    "App",
    "BoundCall",
    "BusinessCalendar",
    "Cancelled",
    "ClockChange",
    "Conflict",
    "DelayedRun",
    "DulyError",
    "EffectDone",
    "EffectNotDone",
    "EffectRefused",
    "EffectUnknown",
    "EnqueuedRun",
    "Forbidden",
    "JsonLogFormatter",
    "LeaseLost",
    "Misfire",
    "Move",
    "NoSecret",
    "NotFound",
    "Outdated",
    "OverQuota",
    "Reconciliation",
    "Remote",
    "Retry",
    "Run",
    "RunLogFilter",
    "Schedule",
    "SchemaMismatch",
    "Secret",
    "Settings",
    "StoreError",
    "StoreUnavailable",
    "Task",
    "Timetable",
    "Unauthenticated",
    "UsageError",
    "Verdict",
    "ZoneChange",
    "ZoneDatabase",
    "ZoneFolder",
    "ZoneMatch",
    "__version__",
    "after",
    "at",
    "clock_changes",
    "connect",
    "cron",
    "default_zones",
    "every",
    "give_up",
    "monthly",
    "moved",
    "oncalendar",
    "read_plain",
    "recognise",
    "retry",
    "rrule",
    "search_zones",
    "secret",
    "snooze",
    "timetable_from_json",
    "zone_changes",
]

# Names are fetched when they are first used: a command that shows a version has no need of every
# timetable, and neither has a program that uses one of them.
_HOMES = {
    "App": "duly.app",
    "BoundCall": "duly.client.tasks",
    "BusinessCalendar": "duly.domain.timetable.business_calendar",
    "Cancelled": "duly.errors",
    "EffectDone": "duly.errors",
    "EffectNotDone": "duly.errors",
    "EffectRefused": "duly.errors",
    "EffectUnknown": "duly.errors",
    "ClockChange": "duly.domain.timetable.explain",
    "Conflict": "duly.errors",
    "DelayedRun": "duly.client.run_view",
    "DulyError": "duly.errors",
    "EnqueuedRun": "duly.client.run_view",
    "Forbidden": "duly.errors",
    "JsonLogFormatter": "duly.telemetry.json_logs",
    "LeaseLost": "duly.errors",
    "Misfire": "duly.domain.misfire",
    "Move": "duly.domain.zones.changes",
    "NoSecret": "duly.errors",
    "NotFound": "duly.errors",
    "Outdated": "duly.errors",
    "OverQuota": "duly.errors",
    "Reconciliation": "duly.client.reconciling",
    "Remote": "duly.remote.connecting",
    "Retry": "duly.domain.retrying",
    "Run": "duly.client.run_view",
    "RunLogFilter": "duly.engine.executors.run_filter",
    "Schedule": "duly.client.schedule_view",
    "SchemaMismatch": "duly.errors",
    "Secret": "duly.domain.secrets",
    "Settings": "duly.config",
    "StoreError": "duly.errors",
    "StoreUnavailable": "duly.errors",
    "Task": "duly.client.tasks",
    "Timetable": "duly.domain.timetable.timetable",
    "Unauthenticated": "duly.errors",
    "UsageError": "duly.errors",
    "Verdict": "duly.domain.checking",
    "ZoneChange": "duly.domain.zones.changes",
    "ZoneDatabase": "duly.domain.zones.database",
    "ZoneFolder": "duly.almanac.zone_files",
    "ZoneMatch": "duly.domain.zones.search",
    "after": "duly.domain.timetable.once",
    "at": "duly.domain.timetable.once",
    "clock_changes": "duly.domain.timetable.explain",
    "connect": "duly.remote.connecting",
    "cron": "duly.domain.timetable.cron",
    "default_zones": "duly.domain.zones.database",
    "every": "duly.domain.timetable.interval",
    "give_up": "duly.domain.answers",
    "monthly": "duly.domain.timetable.monthly",
    "moved": "duly.domain.zones.changes",
    "oncalendar": "duly.domain.timetable.oncalendar",
    "read_plain": "duly.domain.language.plain",
    "recognise": "duly.domain.language.recognise",
    "retry": "duly.domain.answers",
    "rrule": "duly.domain.timetable.rrule",
    "search_zones": "duly.domain.zones.search",
    "secret": "duly.client.secrets",
    "snooze": "duly.domain.answers",
    "timetable_from_json": "duly.domain.timetable.stored",
    "zone_changes": "duly.domain.zones.changes",
}


def __getattr__(name: str) -> object:
    """Fetch a public name from where it lives."""
    if name == "testing":
        return _import_module("duly.testing")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(_import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    """List the public names, fetched or not."""
    return sorted({*globals(), *__all__})
