"""The metrics of a store: their names, which dashboards hold on to, and what they mean (V2)."""

from __future__ import annotations

from duly.app.vital_names import VITAL_METRICS
from duly.telemetry.exposition import Metric

SCHEDULE_LABELS = ("tenant", "schedule")
MEMBER_LABELS = ("kind", "member")

# Whether time is kept.
DISPATCH_WELL = Metric(
    "duly_dispatch_well", "gauge", "1 while nothing keeps timers from firing on time, else 0."
)
SCHEDULES = Metric("duly_schedules", "gauge", "Schedules, by status.", ("status",))
DELAYED = Metric("duly_delayed_runs", "gauge", "Delayed runs that are not due yet.")
OVERDUE = Metric("duly_timers_overdue", "gauge", "Timers that are due and have not fired.")
OLDEST_DUE = Metric(
    "duly_timers_oldest_due_age_seconds", "gauge", "How long the oldest of those is due; 0: none."
)
NEXT_DUE = Metric(
    "duly_timers_next_due_timestamp_seconds", "gauge", "When the next timer falls due, if any does."
)
OWED = Metric("duly_owed_ranges", "gauge", "Ranges of occurrences that are to be caught up with.")
EARLY = Metric(
    "duly_early_fires", "gauge", "Runs of this store's history that were fired early: 0 for ever."
)
MEMBERS = Metric(
    "duly_members",
    "gauge",
    "Living members of the fleet; holding: fires nothing, because of its clock or time zones.",
    ("kind", "state"),
)
HEARTBEAT = Metric(
    "duly_member_heartbeat_age_seconds",
    "gauge",
    "How long ago a living member was last heard of.",
    MEMBER_LABELS,
)
SKEW = Metric(
    "duly_member_clock_skew_seconds",
    "gauge",
    "How far a living member's clock is ahead of the store's.",
    MEMBER_LABELS,
)
LEASES = Metric("duly_leases", "gauge", "Leases on lanes of shards, owned or free.", ("state",))
TZDATA = Metric(
    "duly_tzdata_info", "gauge", "Always 1: by which time-zone release instants are computed.",
    ("release",),
)  # fmt: skip

# Whether work gets done.
WORK_WELL = Metric(
    "duly_work_well", "gauge", "1 while there is no work that nobody will do, else 0."
)
RUNS = Metric("duly_runs", "gauge", "Open runs, by state.", ("state",))
QUEUED = Metric("duly_queue_runs", "gauge", "Runs that wait in a queue.", ("queue",))
QUEUE_AGE = Metric(
    "duly_queue_oldest_age_seconds",
    "gauge",
    "How long the oldest run has waited in a queue.",
    ("queue",),
)
QUEUE_PAUSED = Metric("duly_queue_paused", "gauge", "1 while a queue is paused.", ("queue",))
SLOTS = Metric("duly_slots", "gauge", "Slots of living workers: busy, free, leaked.", ("state",))
BREAKERS = Metric("duly_breakers", "gauge", "Destinations, by their breaker's state.", ("state",))
ALERTS = Metric(
    "duly_alerts_open",
    "gauge",
    "Alerts that are raised and not over, silenced or not.",
    ("kind", "severity"),
)
BACKFILLS = Metric("duly_backfills_active", "gauge", "Backfills that go on.")
BACKFILL_LEFT = Metric(
    "duly_backfill_occurrences_left", "gauge", "Occurrences that those have not looked at yet."
)
FINDINGS = Metric(
    "duly_findings", "gauge", "What duly status says is wrong, by light and code.",
    ("light", "code"),
)  # fmt: skip

# Of each schedule.
SCHEDULE_NEXT = Metric(
    "duly_schedule_next_due_timestamp_seconds",
    "gauge",
    "When an active schedule falls due next.",
    SCHEDULE_LABELS,
)
SCHEDULE_FIRES = Metric(
    "duly_schedule_fires_total", "counter", "How often it has fired.", SCHEDULE_LABELS
)
SCHEDULE_OVERLAPS = Metric(
    "duly_schedule_overlaps_total",
    "counter",
    "How many of its occurrences found an earlier run open.",
    SCHEDULE_LABELS,
)
LAST_FIRE = Metric(
    "duly_schedule_last_fire_timestamp_seconds", "gauge", "When it fired last.", SCHEDULE_LABELS
)
LAST_SUCCESS = Metric(
    "duly_schedule_last_success_timestamp_seconds",
    "gauge",
    "When the newest of its last runs that succeeded was over.",
    SCHEDULE_LABELS,
)
LAST_VERIFIED = Metric(
    "duly_schedule_last_verified_timestamp_seconds",
    "gauge",
    "When the newest of those that a check has found to be in place was found so.",
    SCHEDULE_LABELS,
)
LAST_ERROR = Metric(
    "duly_schedule_last_error_timestamp_seconds",
    "gauge",
    "When the newest of its last attempts that went wrong was over.",
    SCHEDULE_LABELS,
)
LEFT_OUT = Metric(
    "duly_metrics_left_out",
    "gauge",
    "What is beyond the number that is told one by one; active schedules, queues, members.",
    ("what",),
)

STORE_METRICS = (
    DISPATCH_WELL,
    SCHEDULES,
    DELAYED,
    OVERDUE,
    OLDEST_DUE,
    NEXT_DUE,
    OWED,
    EARLY,
    MEMBERS,
    HEARTBEAT,
    SKEW,
    LEASES,
    TZDATA,
    WORK_WELL,
    RUNS,
    QUEUED,
    QUEUE_AGE,
    QUEUE_PAUSED,
    SLOTS,
    BREAKERS,
    ALERTS,
    BACKFILLS,
    BACKFILL_LEFT,
    FINDINGS,
    SCHEDULE_NEXT,
    SCHEDULE_FIRES,
    SCHEDULE_OVERLAPS,
    LAST_FIRE,
    LAST_SUCCESS,
    LAST_VERIFIED,
    LAST_ERROR,
    *VITAL_METRICS,
    LEFT_OUT,
)
