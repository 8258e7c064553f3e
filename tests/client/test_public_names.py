"""What `import duly` offers: these names, and no others."""

from __future__ import annotations

import inspect

import duly

CLASSES = {
    *("App", "BoundCall", "BusinessCalendar", "Cancelled", "ClockChange", "Conflict"),
    *(
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
    ),
    *(
        "Reconciliation",
        "Remote",
        "Retry",
        "Run",
        "RunLogFilter",
        "Schedule",
        "SchemaMismatch",
        "Secret",
        "Settings",
    ),
    *("StoreError", "StoreUnavailable", "Task", "Timetable", "Unauthenticated", "UsageError"),
    *("Verdict", "ZoneChange", "ZoneDatabase", "ZoneFolder", "ZoneMatch"),
}
FUNCTIONS = {
    *(
        "after",
        "at",
        "clock_changes",
        "connect",
        "cron",
        "default_zones",
        "every",
        "give_up",
        "monthly",
    ),
    *("moved", "oncalendar", "read_plain", "recognise", "retry", "rrule", "search_zones"),
    *("secret", "snooze", "timetable_from_json", "zone_changes"),
}


def test_the_public_names_are_these():
    assert {*CLASSES, *FUNCTIONS, "__version__"} == set(duly.__all__)
    assert all(inspect.isclass(getattr(duly, name)) for name in CLASSES)
    assert all(callable(getattr(duly, name)) for name in FUNCTIONS)


def test_the_testing_kit_is_there_without_asking():
    assert {"virtual_time", "ManualClock"} <= set(duly.testing.__all__)


def test_a_cancellation_is_an_error_of_ours():
    assert issubclass(duly.Cancelled, duly.DulyError)
    assert not issubclass(duly.Cancelled, duly.StoreError)
