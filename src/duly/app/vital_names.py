"""The metrics of single schedules, and of tasks and tenants by those schedules (V1, V2)."""

from __future__ import annotations

from duly.telemetry.exposition import Metric

_OF = ("tenant", "schedule")
_GROUP = ("of", "name")


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"duly_schedule_{name}", "gauge", meaning, (*_OF, *labels))


def _of_many(name: str, meaning: str) -> Metric:
    return Metric(f"duly_vitals_{name}", "gauge", meaning, _GROUP)


WELL = _gauge("well", "1 while its trigger, or its work, is well, else 0; two lights.", "light")
OVERDUE = _gauge("overdue_seconds", "How long its pending occurrence is due; 0: it is not.")
LAST_ATTEMPT = _gauge(
    "last_attempt_timestamp_seconds", "When an attempt of it was last over, however it ended."
)
LAST_USEFUL = _gauge(
    "last_useful_timestamp_seconds",
    "When it last completed usefully: verified where its task has a check, else succeeded.",
)
CADENCE = _gauge("cadence_seconds", "How far apart its occurrences are around now.")
BEHIND = _gauge("behind", "Occurrences that have fallen due since the last useful one, up to 1000.")
ACTIVE = _gauge("active_attempts", "Attempts of it that go on.")
ACTIVE_AGE = _gauge("active_age_seconds", "How long the oldest of those has gone on; 0: none.")
HEARTBEAT_AGE = _gauge(
    "heartbeat_age_seconds", "How long ago the stalest of their workers was heard of; 0: none."
)
PROGRESS_AGE = _gauge(
    "progress_age_seconds", "How long ago the stalest of those that report advanced; 0: none."
)
QUEUED = _gauge("queued_runs", "Runs of it that wait in a queue, of the newest.")
QUEUE_DELAY = _gauge("queue_delay_seconds", "How long the one that waits longest has; 0: none.")
RETRIES = _gauge("retries", "Attempts beyond the first of each of its newest runs.")
USEFUL_RATE = _gauge("useful_per_attempt", "Useful completions for each attempt, of the newest.")
LATENESS = _gauge(
    "lateness_seconds",
    "From due to fired, to the first start and to the useful completion, of the newest runs.",
    *("to", "quantile"),
)
FAILURES = _gauge("failures", "How many of its newest runs last went wrong so.", "state", "reason")
BACKFILL_LEFT = _gauge("backfill_left", "Occurrences that its backfills have not looked at yet.")

MANY_RUNS = _of_many("runs", "Newest runs of the schedules told of a task or a tenant.")
MANY_ATTEMPTS = _of_many("attempts", "Attempts of those.")
MANY_RETRIES = _of_many("retries", "Attempts beyond the first of each of those.")
MANY_USEFUL = _of_many("useful", "Useful completions of those.")
MANY_FAILED = _of_many("failed", "How many of those had an attempt that went wrong.")
MANY_ACTIVE = _of_many("active_attempts", "Attempts of those that go on.")
MANY_QUEUE_DELAY = _of_many("queue_delay_seconds", "How long the one that waits longest has.")
MANY_OVERDUE = _of_many("overdue_seconds", "How long the oldest pending occurrence is due.")
MANY_STALE = _of_many("stale_schedules", "Schedules whose last useful completion is old.")
MANY_RATIO = _of_many(
    "useful_age_ratio", "How many cadences old the oldest last useful completion is."
)

VITAL_METRICS = (
    *(WELL, OVERDUE, LAST_ATTEMPT, LAST_USEFUL, CADENCE, BEHIND, ACTIVE, ACTIVE_AGE),
    *(HEARTBEAT_AGE, PROGRESS_AGE, QUEUED, QUEUE_DELAY, RETRIES, USEFUL_RATE, LATENESS),
    *(FAILURES, BACKFILL_LEFT, MANY_RUNS, MANY_ATTEMPTS, MANY_RETRIES, MANY_USEFUL),
    *(MANY_FAILED, MANY_ACTIVE, MANY_QUEUE_DELAY, MANY_OVERDUE, MANY_STALE, MANY_RATIO),
)
