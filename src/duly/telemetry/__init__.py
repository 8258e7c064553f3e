"""Telemetry: what the engine tells about itself, as events with ids, and one way to tell it.

An event is a hint for people and dashboards. What must be provable afterwards is in the store:
runs, skips and the audit trail.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from duly.telemetry.events import (
        AlertRaised,
        AlertResolved,
        AttemptEnded,
        AttemptFailed,
        AttemptGivenBack,
        AttemptLost,
        ClockStepped,
        CommandsLeftOut,
        CompletionFenced,
        CompletionRefused,
        DeclaredDead,
        DeliveryFailed,
        DetectorFailed,
        Event,
        HistoryPruned,
        ItemSkipped,
        LatePlanned,
        LeasesAcquired,
        LeasesLost,
        LeasesReleased,
        MemberJoined,
        MemberLeft,
        RunAmbiguous,
        RunCancelled,
        RunDead,
        RunEvent,
        RunFailed,
        RunLogged,
        RunStarted,
        RunSucceeded,
        ScheduleEnded,
        ScheduleResumed,
        SkewHoldBegun,
        SkewHoldEnded,
        SlotLeaked,
        StoreLost,
        StoreRecovered,
        TaskMissing,
        TickFailed,
        TimerRetimed,
        TimersFired,
        TzdataOutdated,
        TzdataRecomputed,
        WatchLost,
        WatchTaken,
        WorkerDraining,
        WorkerProcessCrashed,
        WorkerProcessEnded,
        WorkerProcessStarted,
        WorkerRecycling,
        WriteFenced,
    )
    from duly.telemetry.listeners import (
        LogTelemetry,
        NullTelemetry,
        Telemetry,
        event_line,
        has_listener,
    )

__all__ = [
    "AlertRaised",
    "AlertResolved",
    "AttemptEnded",
    "AttemptFailed",
    "AttemptGivenBack",
    "AttemptLost",
    "ClockStepped",
    "CommandsLeftOut",
    "CompletionFenced",
    "CompletionRefused",
    "DeclaredDead",
    "DeliveryFailed",
    "DetectorFailed",
    "Event",
    "HistoryPruned",
    "ItemSkipped",
    "LatePlanned",
    "LeasesAcquired",
    "LeasesLost",
    "LeasesReleased",
    "LogTelemetry",
    "MemberJoined",
    "MemberLeft",
    "NullTelemetry",
    "RunAmbiguous",
    "RunCancelled",
    "RunDead",
    "RunEvent",
    "RunFailed",
    "RunLogged",
    "RunStarted",
    "RunSucceeded",
    "ScheduleEnded",
    "ScheduleResumed",
    "SkewHoldBegun",
    "SkewHoldEnded",
    "SlotLeaked",
    "StoreLost",
    "StoreRecovered",
    "TaskMissing",
    "Telemetry",
    "TickFailed",
    "TimerRetimed",
    "TimersFired",
    "TzdataOutdated",
    "TzdataRecomputed",
    "WatchLost",
    "WatchTaken",
    "WorkerDraining",
    "WorkerProcessCrashed",
    "WorkerProcessEnded",
    "WorkerProcessStarted",
    "WorkerRecycling",
    "WriteFenced",
    "event_line",
    "has_listener",
]

_LISTENERS = ("LogTelemetry", "NullTelemetry", "Telemetry", "event_line", "has_listener")


# Events are fetched when the first is used: a client tells none.
def __getattr__(name: str) -> object:
    """Fetch a public name from where it lives."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    home = "listeners" if name in _LISTENERS else "events"
    value = globals()[name] = getattr(_import_module(f"{__name__}.{home}"), name)
    return value
