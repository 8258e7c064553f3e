"""Metrics of a store: their names and values, and the port that serves them.

`measure` reads metrics on each scrape, from what `duly status` reads and one page of schedules. No
run pays for metrics, and the cost of a scrape is bounded, however large the store is.

`telling_metrics` serves them on loopback only, to a collector or its agent on this machine, without
a token. The port accepts no orders and shows nothing of tenants' work but the names of tasks. It
can't be opened to other machines.
"""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from socketserver import TCPServer
from typing import TYPE_CHECKING

from duly.client.status import completion_findings, judge_health, status_view
from duly.domain.alert_rules import USUAL
from duly.domain.alerts import AlertState
from duly.domain.enums import RunState, ScheduleStatus
from duly.domain.runs import TASK_GONE
from duly.domain.vitals import summarize_runs
from duly.errors import UsageError
from duly.store.derived_queries import Reach, read_signs
from duly.store.ports.alerts import AlertFilter
from duly.store.ports.auth import require_all_tenants
from duly.store.ports.backfill import LISTED_MAX
from duly.store.ports.queries import ScheduleFilter
from duly.telemetry.prometheus import MEDIA_TYPE, Metric, MetricSamples

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from duly.app.application import App
    from duly.client.limits import Queue
    from duly.client.status import Finding, Health, Status
    from duly.domain.ids import ScheduleId
    from duly.domain.vitals import RunVital, Signs, VitalsWindow
    from duly.store.ports.backfill import BackfillRecord

    Tell = Callable[[str, dict[str, object]], None]


HOST = "127.0.0.1"
PATH = "/metrics"
PORT_MAX = 65_535
SECONDS_MAX = 5.0
"""How long one who asks may take: they are answered one after the other."""
STOP_SECONDS_MAX = 1.0
POLL_SECONDS = 0.1
_NAMES = frozenset({HOST, "localhost"})


@contextmanager
def telling_metrics(
    port: int | None, measure: Callable[[], MetricSamples], tell: Tell
) -> Iterator[None]:
    """Answer on a port with what is measured whenever somebody asks; nothing without a port.

    `tell` gets the address, which is the only way to know it where any free port will do.
    """
    if port is None:
        yield
        return
    server = _listen(port, measure)
    # Whoever is to stop does not wait for one who asks and dawdles: hence daemons.
    thread = threading.Thread(
        target=server.serve_forever, args=(POLL_SECONDS,), name="duly-metrics", daemon=True
    )
    thread.start()
    url = f"http://{HOST}:{server.server_address[1]}{PATH}"
    tell(f"metrics at {url}", {"event": "metrics", "url": url})
    try:
        yield
    finally:
        threading.Thread(target=server.shutdown, daemon=True).start()
        thread.join(STOP_SECONDS_MAX)
        server.server_close()


def _listen(port: int, measure: Callable[[], MetricSamples]) -> _Server:
    if not 0 <= port <= PORT_MAX:
        remedy = f"give 1 to {PORT_MAX}, or 0 for any free port"
        raise UsageError("metrics-port", port, "is not a port", remedy)
    try:
        return _Server((HOST, port), measure)
    except OSError as error:
        problem = f"can't be listened on ({error.strerror})"
        raise UsageError("metrics-port", port, problem, "choose another") from error


class _Server(TCPServer):
    allow_reuse_address = True

    def __init__(self, place: tuple[str, int], measure: Callable[[], MetricSamples]) -> None:
        self.measure = measure
        super().__init__(place, _MetricsHandler)

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing: whoever asked has gone."""


class _MetricsHandler(BaseHTTPRequestHandler):
    timeout = SECONDS_MAX
    server_version = "duly"
    sys_version = ""

    def do_GET(self) -> None:
        # A page elsewhere whose name was made to point here asks for another name than ours.
        if self.headers.get("Host", "").rpartition(":")[0] not in _NAMES:
            self.send_error(421)
        elif self.path != PATH:
            self.send_error(404)
        else:
            assert isinstance(self.server, _Server), "nobody else has it answer"
            body = self.server.measure().text().encode()
            self.send_response(200)
            self.send_header("Content-Type", MEDIA_TYPE)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its own name
        """Say nothing: a process tells events, not who looked at it."""


_OF = ("tenant", "schedule")
_GROUP = ("of", "name")


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(f"duly_schedule_{name}", "gauge", meaning, (*_OF, *labels))


def _of_many(name: str, meaning: str) -> Metric:
    return Metric(f"duly_vitals_{name}", "gauge", meaning, _GROUP)


WELL = _gauge("well", "1 while its trigger, or its work, is well, else 0; two lights.", "light")
SCHEDULE_OVERDUE = _gauge(
    "overdue_seconds", "How long its pending occurrence is due; 0: it is not."
)
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
SCHEDULE_QUEUED = _gauge("queued_runs", "Runs of it that wait in a queue, of the newest.")
QUEUE_DELAY = _gauge("queue_delay_seconds", "How long the one that waits longest has; 0: none.")
RETRIES = _gauge("retries", "Attempts beyond the first of each of its newest runs.")
USEFUL_RATE = _gauge("useful_per_attempt", "Useful completions for each attempt, of the newest.")
LATENESS = _gauge(
    "lateness_seconds",
    "From due to fired, to the first start and to the useful completion, of the newest runs.",
    *("to", "quantile"),
)
FAILURES = _gauge("failures", "How many of its newest runs last went wrong so.", "state", "reason")
SCHEDULE_BACKFILL_LEFT = _gauge(
    "backfill_left", "Occurrences that its backfills have not looked at yet."
)

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
    *(WELL, SCHEDULE_OVERDUE, LAST_ATTEMPT, LAST_USEFUL, CADENCE, BEHIND, ACTIVE, ACTIVE_AGE),
    *(HEARTBEAT_AGE, PROGRESS_AGE, SCHEDULE_QUEUED, QUEUE_DELAY, RETRIES, USEFUL_RATE, LATENESS),
    *(FAILURES, SCHEDULE_BACKFILL_LEFT, MANY_RUNS, MANY_ATTEMPTS, MANY_RETRIES, MANY_USEFUL),
    *(MANY_FAILED, MANY_ACTIVE, MANY_QUEUE_DELAY, MANY_OVERDUE, MANY_STALE, MANY_RATIO),
)


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
    "How far a living member's clock is ahead of the store's; negative if it is behind.",
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


_MICROSECONDS = 1e6
_QUANTILES = ("0.5", "0.95", "0.99")


def note_vitals(
    measured: MetricSamples, found: Sequence[Signs], backfills: Sequence[BackfillRecord]
) -> None:
    """Note what is known of each schedule, and of tasks and tenants by them."""
    left: Counter[ScheduleId] = Counter()
    for one in backfills:
        left[one.schedule_id] += one.total - one.looked_at
    groups: dict[tuple[str, str], list[tuple[Signs, VitalsWindow]]] = {}
    for signs in found:
        record = signs.record
        window = _window(signs)
        who = (record.tenant, record.name)
        _note_lights(measured, who, signs)
        _note_runs(measured, who, signs)
        _note_window(measured, who, window)
        measured.note(SCHEDULE_BACKFILL_LEFT, left[record.id], *who)
        for group in (("task", record.definition.call.task), ("tenant", record.tenant)):
            groups.setdefault(group, []).append((signs, window))
    for group, members in sorted(groups.items()):
        _note_group(measured, group, members)


def _window(signs: Signs) -> VitalsWindow:
    def is_checked(_: str) -> bool:
        return signs.completion.is_checked

    return summarize_runs(signs.runs, is_checked, signs.now)


def _note_lights(measured: MetricSamples, who: tuple[str, str], signs: Signs) -> None:
    trigger, completion = signs.trigger, signs.completion
    measured.note(WELL, int(trigger.is_well), *who, "trigger")
    measured.note(WELL, int(not completion.is_stale), *who, "work")
    measured.note(SCHEDULE_OVERDUE, _seconds(trigger.overdue_us), *who)
    instants = {
        LAST_ATTEMPT: completion.finished_at,
        LAST_USEFUL: None if completion.useful is None else completion.useful.at,
        CADENCE: completion.cadence_us,
    }
    for metric, at in instants.items():
        if at is not None:
            measured.note(metric, at / _MICROSECONDS, *who)
    measured.note(BEHIND, completion.behind, *who)


def _note_runs(measured: MetricSamples, who: tuple[str, str], signs: Signs) -> None:
    active = _in(signs.runs, RunState.RUNNING)
    queued = _in(signs.runs, RunState.QUEUED)
    now = signs.now
    measured.note(ACTIVE, len(active), *who)
    measured.note(ACTIVE_AGE, _oldest((one.claimed_at for one in active), now), *who)
    measured.note(HEARTBEAT_AGE, _oldest((one.heartbeat_at for one in active), now), *who)
    measured.note(PROGRESS_AGE, _oldest((one.progress_at for one in active), now), *who)
    measured.note(SCHEDULE_QUEUED, len(queued), *who)
    measured.note(QUEUE_DELAY, _oldest((one.fired_at for one in queued), now), *who)


def _note_window(measured: MetricSamples, who: tuple[str, str], window: VitalsWindow) -> None:
    measured.note(RETRIES, window.retries, *who)
    rate = window.useful_per_attempt
    if rate is not None:
        measured.note(USEFUL_RATE, rate, *who)
    parts = {"fired": window.fired, "started": window.started, "useful": window.useful_after}
    for to, late in parts.items():
        for quantile, value in zip(_QUANTILES, (late.p50, late.p95, late.p99), strict=True):
            if value is not None:
                measured.note(LATENESS, value / _MICROSECONDS, *who, to, quantile)
    # Classes of errors are many; states and reasons are few.
    kinds: Counter[tuple[str, str]] = Counter()
    for kind in window.failures:
        kinds[kind.state, kind.reason or ""] += kind.runs
    for told, count in sorted(kinds.items()):
        measured.note(FAILURES, count, *who, *told)


def _note_group(
    measured: MetricSamples, group: tuple[str, str], members: Sequence[tuple[Signs, VitalsWindow]]
) -> None:
    windows = [window for _, window in members]
    signs = [one for one, _ in members]
    active = [run for one in signs for run in _in(one.runs, RunState.RUNNING)]
    delays = [
        _oldest((run.fired_at for run in _in(one.runs, RunState.QUEUED)), one.now) for one in signs
    ]
    ratios = [one.completion.ratio or 0.0 for one in signs]
    measured.note(MANY_RUNS, sum(one.runs for one in windows), *group)
    measured.note(MANY_ATTEMPTS, sum(one.attempts for one in windows), *group)
    measured.note(MANY_RETRIES, sum(one.retries for one in windows), *group)
    measured.note(MANY_USEFUL, sum(one.useful for one in windows), *group)
    failed = sum(kind.runs for one in windows for kind in one.failures)
    measured.note(MANY_FAILED, failed + sum(one.failures_more for one in windows), *group)
    measured.note(MANY_ACTIVE, len(active), *group)
    measured.note(MANY_QUEUE_DELAY, max(delays, default=0.0), *group)
    overdue = max((_seconds(one.trigger.overdue_us) for one in signs), default=0.0)
    measured.note(MANY_OVERDUE, overdue, *group)
    measured.note(MANY_STALE, sum(one.completion.is_stale for one in signs), *group)
    measured.note(MANY_RATIO, round(max(ratios, default=0.0), 3), *group)


def _in(runs: Iterable[RunVital], state: RunState) -> list[RunVital]:
    return [run for run in runs if run.state is state]


def _oldest(instants: Iterable[int | None], now: int) -> float:
    known = [one for one in instants if one is not None]
    return max(now - min(known, default=now), 0) / _MICROSECONDS


def _seconds(microseconds: int | None) -> float:
    return 0.0 if microseconds is None else microseconds / _MICROSECONDS


SCHEDULES_TOLD_MAX = 100
"""How many active schedules are told one by one, the first by tenant and name."""
RUNS_LOOKED_AT_MAX = 20
"""How many of the newest runs of each are looked at for its last success and error."""
WINDOW_RUNS_MAX = 10
"""How many of them its vitals are drawn from: the dearest part of a scrape."""
QUEUES_TOLD_MAX = MEMBERS_TOLD_MAX = 200


def measure(app: App) -> MetricSamples:
    """Measure the whole store, of all tenants: it is an operator's to see."""
    measured = MetricSamples(STORE_METRICS)
    # Whoever sees nothing would tell that nothing is due and all is well.
    require_all_tenants(app.store, "metrics", "be measured")
    found = app.store.status()
    signs = _read_signs(app)
    stale = tuple(one for seen in signs for one in completion_findings(seen))
    seen = status_view(app.store.name, found)
    status = replace(seen, taskless=_find_taskless(app), stale=stale)
    queues, breakers = app.queues.list(), app.breakers.list()
    _note_timers(measured, status)
    _note_members(measured, status)
    _note_work(measured, status, queues)
    for state, count in sorted(Counter(one.state for one in breakers).items()):
        measured.note(BREAKERS, count, state)
    _note_alerts(measured, app)
    _note_health(measured, judge_health(status, queues, breakers))
    backfills = app.store.load_backfills(LISTED_MAX)
    measured.note(BACKFILLS, len(backfills))
    measured.note(BACKFILL_LEFT, sum(one.total - one.looked_at for one in backfills))
    _note_schedules(measured, signs)
    note_vitals(measured, signs, backfills)
    active = status.schedules.get(ScheduleStatus.ACTIVE, 0)
    measured.note(LEFT_OUT, max(active - len(signs), 0), "schedules")
    measured.note(LEFT_OUT, max(len(queues) - QUEUES_TOLD_MAX, 0), "queues")
    living = sum(one.is_alive for one in status.members)
    measured.note(LEFT_OUT, max(living - MEMBERS_TOLD_MAX, 0), "members")
    return measured


def _find_taskless(app: App) -> tuple[str, ...]:
    paused = ScheduleFilter(tenant=None, statuses=frozenset({ScheduleStatus.PAUSED}))
    found = app.store.list_schedules(paused)
    return tuple(one.name for one in found if (one.reason or "").startswith(TASK_GONE))


def _note_timers(measured: MetricSamples, status: Status) -> None:
    for word in (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED, ScheduleStatus.ENDED):
        measured.note(SCHEDULES, status.schedules.get(word, 0), word)
    measured.note(DELAYED, status.delayed)
    measured.note(OVERDUE, status.overdue)
    measured.note(OLDEST_DUE, _age(status.oldest_due_at, status.now))
    if status.next_due_at is not None:
        measured.note(NEXT_DUE, status.next_due_at.timestamp())
    measured.note(OWED, status.owed)
    measured.note(EARLY, status.early_fires)
    measured.note(LEASES, status.leases_owned, "owned")
    measured.note(LEASES, status.leases_total - status.leases_owned, "free")
    measured.note(TZDATA, 1, status.tzdata)


def _note_members(measured: MetricSamples, status: Status) -> None:
    living = [one for one in status.members if one.is_alive]
    for kind in ("dispatcher", "worker"):
        states = Counter(
            "holding" if one.is_holding else one.standing or "serving"
            for one in living
            if one.kind == kind
        )
        for state in sorted(states.keys() | {"serving"}):
            measured.note(MEMBERS, states[state], kind, state)
    for one in living[:MEMBERS_TOLD_MAX]:
        member = (one.kind, str(one.id))
        measured.note(HEARTBEAT, _age(one.renewed_at, status.now), *member)
        measured.note(SKEW, one.skew.total_seconds(), *member)
    workers = [one for one in living if one.kind == "worker"]
    slots, leaked = sum(one.slots for one in workers), sum(one.leaked for one in workers)
    busy = sum(one.running for one in workers)
    measured.note(SLOTS, busy, "busy")
    measured.note(SLOTS, max(slots - leaked - busy, 0), "free")
    measured.note(SLOTS, leaked, "leaked")


def _note_work(measured: MetricSamples, status: Status, queues: list[Queue]) -> None:
    for state in ("queued", "running", "retrying", "dead", "ambiguous"):
        measured.note(RUNS, getattr(status, state), state)
    for queue in queues[:QUEUES_TOLD_MAX]:
        measured.note(QUEUED, queue.queued, queue.name)
        measured.note(QUEUE_AGE, _age(queue.oldest_at, status.now), queue.name)
        measured.note(QUEUE_PAUSED, int(queue.is_paused), queue.name)


def _note_alerts(measured: MetricSamples, app: App) -> None:
    """Note how many are open; also that none of a kind is, at its usual severity."""
    found = app.store.list_alerts(AlertFilter(states=frozenset({AlertState.OPEN})))
    counts = Counter((str(one.kind), str(one.severity)) for one in found)
    usual = {(str(kind), str(one.severity)) for kind, one in USUAL.items()}
    for of_one in sorted(counts.keys() | usual):
        measured.note(ALERTS, counts[of_one], *of_one)


def _note_health(measured: MetricSamples, health: Health) -> None:
    def note(light: str, findings: tuple[Finding, ...]) -> None:
        for code, count in sorted(Counter(one.code for one in findings).items()):
            measured.note(FINDINGS, count, light, code)

    measured.note(DISPATCH_WELL, int(not health.dispatch))
    measured.note(WORK_WELL, int(not health.work))
    note("dispatch", health.dispatch)
    note("work", health.work)
    note("note", health.notes)


def _read_signs(app: App) -> list[Signs]:
    """Return the first active schedules, with what their triggers do and what comes of them."""
    active = frozenset({ScheduleStatus.ACTIVE})
    found = app.store.list_schedules(
        ScheduleFilter(tenant=None, statuses=active, limit=SCHEDULES_TOLD_MAX)
    )
    reach = Reach(window=WINDOW_RUNS_MAX, ends=RUNS_LOOKED_AT_MAX)
    return read_signs(app.store, found, reach)


def _note_schedules(measured: MetricSamples, found: list[Signs]) -> None:
    """Note what is known of the first active schedules, whatever their runs tell."""
    for signs in found:
        one, last = signs.record, signs.completion.ends
        who = (one.tenant, one.name)
        measured.note(SCHEDULE_FIRES, one.fires, *who)
        measured.note(SCHEDULE_OVERLAPS, one.overlaps, *who)
        instants = {
            SCHEDULE_NEXT: signs.trigger.next_due_at,
            LAST_FIRE: one.last_fired_at,
            LAST_SUCCESS: None if last.success is None else last.success.at,
            LAST_VERIFIED: None if last.verified is None else last.verified.at,
            LAST_ERROR: None if last.error is None else last.error.at,
        }
        for metric, at in instants.items():
            if at is not None:
                measured.note(metric, at / _MICROSECONDS, *who)


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
