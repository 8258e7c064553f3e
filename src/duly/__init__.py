"""Duly keeps promises about the future: timetables that can be trusted in any zone, on any day."""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from duly import testing as testing
    from duly.app import App
    from duly.client.declarations import Reconciliation
    from duly.client.run_context import secret
    from duly.client.run_view import DelayedRun, EnqueuedRun, Run
    from duly.client.schedule_view import Schedule
    from duly.client.tasks import BoundCall, Task
    from duly.config import Settings
    from duly.domain.outcomes import give_up, retry, snooze
    from duly.domain.policies import Misfire, Retry
    from duly.domain.secret_refs import Secret
    from duly.domain.verification import Verdict
    from duly.engine.executors.task_output import RunLogFilter
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
    from duly.telemetry.listeners import JsonLogFormatter
    from duly.timetable.business_calendar import BusinessCalendar
    from duly.timetable.cron import cron
    from duly.timetable.data_sources import ZoneFolder
    from duly.timetable.interval import every
    from duly.timetable.language.detect import recognise
    from duly.timetable.language.english import read_plain
    from duly.timetable.monthly import monthly
    from duly.timetable.oncalendar import oncalendar
    from duly.timetable.once import after, at
    from duly.timetable.preview import ClockChange, clock_changes
    from duly.timetable.rrule import rrule
    from duly.timetable.serialization import timetable_from_json
    from duly.timetable.timetable import Timetable
    from duly.timetable.zone_search import ZoneMatch, search_zones
    from duly.timetable.zones import (
        Move,
        ZoneChange,
        ZoneDatabase,
        default_zones,
        moved,
        zone_changes,
    )

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
    "BusinessCalendar": "duly.timetable.business_calendar",
    "Cancelled": "duly.errors",
    "EffectDone": "duly.errors",
    "EffectNotDone": "duly.errors",
    "EffectRefused": "duly.errors",
    "EffectUnknown": "duly.errors",
    "ClockChange": "duly.timetable.preview",
    "Conflict": "duly.errors",
    "DelayedRun": "duly.client.run_view",
    "DulyError": "duly.errors",
    "EnqueuedRun": "duly.client.run_view",
    "Forbidden": "duly.errors",
    "JsonLogFormatter": "duly.telemetry.listeners",
    "LeaseLost": "duly.errors",
    "Misfire": "duly.domain.policies",
    "Move": "duly.timetable.zones",
    "NoSecret": "duly.errors",
    "NotFound": "duly.errors",
    "Outdated": "duly.errors",
    "OverQuota": "duly.errors",
    "Reconciliation": "duly.client.declarations",
    "Remote": "duly.remote.connecting",
    "Retry": "duly.domain.policies",
    "Run": "duly.client.run_view",
    "RunLogFilter": "duly.engine.executors.task_output",
    "Schedule": "duly.client.schedule_view",
    "SchemaMismatch": "duly.errors",
    "Secret": "duly.domain.secret_refs",
    "Settings": "duly.config",
    "StoreError": "duly.errors",
    "StoreUnavailable": "duly.errors",
    "Task": "duly.client.tasks",
    "Timetable": "duly.timetable.timetable",
    "Unauthenticated": "duly.errors",
    "UsageError": "duly.errors",
    "Verdict": "duly.domain.verification",
    "ZoneChange": "duly.timetable.zones",
    "ZoneDatabase": "duly.timetable.zones",
    "ZoneFolder": "duly.timetable.data_sources",
    "ZoneMatch": "duly.timetable.zone_search",
    "after": "duly.timetable.once",
    "at": "duly.timetable.once",
    "clock_changes": "duly.timetable.preview",
    "connect": "duly.remote.connecting",
    "cron": "duly.timetable.cron",
    "default_zones": "duly.timetable.zones",
    "every": "duly.timetable.interval",
    "give_up": "duly.domain.outcomes",
    "monthly": "duly.timetable.monthly",
    "moved": "duly.timetable.zones",
    "oncalendar": "duly.timetable.oncalendar",
    "read_plain": "duly.timetable.language.english",
    "recognise": "duly.timetable.language.detect",
    "retry": "duly.domain.outcomes",
    "rrule": "duly.timetable.rrule",
    "search_zones": "duly.timetable.zone_search",
    "secret": "duly.client.run_context",
    "snooze": "duly.domain.outcomes",
    "timetable_from_json": "duly.timetable.serialization",
    "zone_changes": "duly.timetable.zones",
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
