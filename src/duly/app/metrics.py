"""The state of a store as metrics: whether time is kept and whether work gets done, apart (V2, V4).

They are read when somebody asks, by what `duly status` reads and a page of schedules: no run pays
for it, and what one scrape costs has a bound, however much the store holds.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.app import metric_names as named
from duly.app.vital_metrics import note_vitals
from duly.client.health import judge_health
from duly.client.judging import completion_findings
from duly.client.status_view import status_view
from duly.domain.alert_kinds import USUAL
from duly.domain.alerting import AlertState
from duly.domain.attempts import TASK_GONE
from duly.domain.literals import ScheduleStatus
from duly.errors import Forbidden
from duly.store.alerting import AlertFilter
from duly.store.backfilling import LISTED_MAX
from duly.store.reading import ScheduleFilter
from duly.store.signs import Reach, read_signs
from duly.store.tenancy import sees_everything
from duly.telemetry.exposition import Measured

if TYPE_CHECKING:
    from datetime import datetime

    from duly.app.application import App
    from duly.client.health import Health
    from duly.client.judging import Finding
    from duly.client.queues import Queue
    from duly.client.status_view import Status
    from duly.domain.signs import Signs

SCHEDULES_TOLD_MAX = 100
"""How many active schedules are told one by one, the first by tenant and name."""
RUNS_LOOKED_AT_MAX = 20
"""How many of the newest runs of each are looked at for its last success and error."""
WINDOW_RUNS_MAX = 10
"""How many of them its vitals are drawn from: the dearest part of a scrape."""
QUEUES_TOLD_MAX = MEMBERS_TOLD_MAX = 200
_MICROSECONDS = 1e6


def measure(app: App) -> Measured:
    """Measure the whole store, of all tenants: it is an operator's to see."""
    measured = Measured(named.STORE_METRICS)
    found = app.store.status()
    if not sees_everything(app.store):
        # Whoever sees nothing would tell that nothing is due and all is well.
        problem = "the server's role of the database sees one tenant at a time"
        raise Forbidden("metrics", problem, "ask a server that connects as dispatchers do")
    signs = _read_signs(app)
    stale = tuple(one for seen in signs for one in completion_findings(seen))
    seen = status_view(app.store.name, found)
    status = replace(seen, taskless=_find_taskless(app), stale=stale)
    queues, breakers = app.queues.list(), app.breakers.list()
    _note_timers(measured, status)
    _note_members(measured, status)
    _note_work(measured, status, queues)
    for state, count in sorted(Counter(one.state for one in breakers).items()):
        measured.note(named.BREAKERS, count, state)
    _note_alerts(measured, app)
    _note_health(measured, judge_health(status, queues, breakers))
    backfills = app.store.load_backfills(LISTED_MAX)
    measured.note(named.BACKFILLS, len(backfills))
    measured.note(named.BACKFILL_LEFT, sum(one.total - one.looked_at for one in backfills))
    _note_schedules(measured, signs)
    note_vitals(measured, signs, backfills)
    active = status.schedules.get(ScheduleStatus.ACTIVE, 0)
    measured.note(named.LEFT_OUT, max(active - len(signs), 0), "schedules")
    measured.note(named.LEFT_OUT, max(len(queues) - QUEUES_TOLD_MAX, 0), "queues")
    living = sum(one.is_alive for one in status.members)
    measured.note(named.LEFT_OUT, max(living - MEMBERS_TOLD_MAX, 0), "members")
    return measured


def _find_taskless(app: App) -> tuple[str, ...]:
    paused = ScheduleFilter(tenant=None, statuses=frozenset({ScheduleStatus.PAUSED}))
    found = app.store.list_schedules(paused)
    return tuple(one.name for one in found if (one.reason or "").startswith(TASK_GONE))


def _note_timers(measured: Measured, status: Status) -> None:
    for word in (ScheduleStatus.ACTIVE, ScheduleStatus.PAUSED, ScheduleStatus.ENDED):
        measured.note(named.SCHEDULES, status.schedules.get(word, 0), word)
    measured.note(named.DELAYED, status.delayed)
    measured.note(named.OVERDUE, status.overdue)
    measured.note(named.OLDEST_DUE, _age(status.oldest_due_at, status.now))
    if status.next_due_at is not None:
        measured.note(named.NEXT_DUE, status.next_due_at.timestamp())
    measured.note(named.OWED, status.owed)
    measured.note(named.EARLY, status.early_fires)
    measured.note(named.LEASES, status.leases_owned, "owned")
    measured.note(named.LEASES, status.leases_total - status.leases_owned, "free")
    measured.note(named.TZDATA, 1, status.tzdata)


def _note_members(measured: Measured, status: Status) -> None:
    living = [one for one in status.members if one.is_alive]
    for kind in ("dispatcher", "worker"):
        states = Counter(
            "holding" if one.is_holding else one.standing or "serving"
            for one in living
            if one.kind == kind
        )
        for state in sorted(states.keys() | {"serving"}):
            measured.note(named.MEMBERS, states[state], kind, state)
    for one in living[:MEMBERS_TOLD_MAX]:
        member = (one.kind, str(one.id))
        measured.note(named.HEARTBEAT, _age(one.renewed_at, status.now), *member)
        measured.note(named.SKEW, one.skew.total_seconds(), *member)
    workers = [one for one in living if one.kind == "worker"]
    slots, leaked = sum(one.slots for one in workers), sum(one.leaked for one in workers)
    busy = sum(one.running for one in workers)
    measured.note(named.SLOTS, busy, "busy")
    measured.note(named.SLOTS, max(slots - leaked - busy, 0), "free")
    measured.note(named.SLOTS, leaked, "leaked")


def _note_work(measured: Measured, status: Status, queues: list[Queue]) -> None:
    for state in ("queued", "running", "retrying", "dead", "ambiguous"):
        measured.note(named.RUNS, getattr(status, state), state)
    for queue in queues[:QUEUES_TOLD_MAX]:
        measured.note(named.QUEUED, queue.queued, queue.name)
        measured.note(named.QUEUE_AGE, _age(queue.oldest_at, status.now), queue.name)
        measured.note(named.QUEUE_PAUSED, int(queue.is_paused), queue.name)


def _note_alerts(measured: Measured, app: App) -> None:
    """Note how many are open; also that none of a kind is, at its usual severity."""
    found = app.store.list_alerts(AlertFilter(states=frozenset({AlertState.OPEN})))
    counts = Counter((str(one.kind), str(one.severity)) for one in found)
    usual = {(str(kind), str(one.severity)) for kind, one in USUAL.items()}
    for of_one in sorted(counts.keys() | usual):
        measured.note(named.ALERTS, counts[of_one], *of_one)


def _note_health(measured: Measured, health: Health) -> None:
    def note(light: str, findings: tuple[Finding, ...]) -> None:
        for code, count in sorted(Counter(one.code for one in findings).items()):
            measured.note(named.FINDINGS, count, light, code)

    measured.note(named.DISPATCH_WELL, int(not health.dispatch))
    measured.note(named.WORK_WELL, int(not health.work))
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


def _note_schedules(measured: Measured, found: list[Signs]) -> None:
    """Note what is known of the first active schedules, whatever their runs tell."""
    for signs in found:
        one, last = signs.record, signs.completion.ends
        who = (one.tenant, one.name)
        measured.note(named.SCHEDULE_FIRES, one.fires, *who)
        measured.note(named.SCHEDULE_OVERLAPS, one.overlaps, *who)
        instants = {
            named.SCHEDULE_NEXT: signs.trigger.next_due_at,
            named.LAST_FIRE: one.last_fired_at,
            named.LAST_SUCCESS: None if last.success is None else last.success.at,
            named.LAST_VERIFIED: None if last.verified is None else last.verified.at,
            named.LAST_ERROR: None if last.error is None else last.error.at,
        }
        for metric, at in instants.items():
            if at is not None:
                measured.note(metric, at / _MICROSECONDS, *who)


def _age(since: datetime | None, now: datetime) -> float:
    return 0.0 if since is None else max((now - since).total_seconds(), 0.0)
