"""Dispatchers, clocks, queues, destinations, stalled or repeated runs, dead letters."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING

from duly.domain.admission import BreakerState
from duly.domain.alert_rules import AlertKind
from duly.domain.alerts import Condition, DetectorResult, rate_from_json
from duly.domain.explain import out_of_service
from duly.domain.ids import RunId, ScheduleId, identity_text
from duly.domain.schedules import tenant_option
from duly.engine.alerts.schedule_detectors import SUBJECTS_MAX, command_name
from duly.store.ports.alerts import FindTrouble
from duly.store.ports.dispatch import LoadTimers, MemberKind
from duly.timetable.instants import (
    HOUR,
    MINUTE,
    SECOND_US,
    distance_text,
    duration_words,
    from_microseconds,
    utc_text,
)

if TYPE_CHECKING:
    from duly.domain.runs import RunRecord
    from duly.engine.alerts.schedule_detectors import DetectorContext
    from duly.store.ports.alerts import NewlyDead, TroubledRun, UnusualRuns
    from duly.store.ports.dispatch import Member, Timer
    from duly.store.ports.effects import AmbiguousRun
    from duly.store.ports.limits import BreakerRecord
    from duly.store.ports.operations import QueueRecord
    from duly.store.ports.queries import StoreStatus


LATE_FROM_US = 10 * SECOND_US
"""What is due for less is about to fire."""
SKEW_FROM_US = 50_000


class FleetDetector:
    """Looks at dispatchers, and at what they have not fired."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what is late, that nobody fires, and whose clock is off."""
        status = asked.status
        conditions = [_skewed(one) for one in _dispatchers(status) if _is_off(one)]
        late_us = 0 if status.oldest_due_at is None else status.now - status.oldest_due_at
        is_complete = True
        if late_us >= LATE_FROM_US:
            if any(not one.is_holding for one in _dispatchers(status)):
                late, is_complete = _late(asked)
                conditions += late
            else:
                conditions += _unfired(status, late_us)
        # Queues have a detector of their own, which speaks of other subjects.
        kinds = {AlertKind.CLOCK_SKEW, *([AlertKind.LATE_RUN] if is_complete else [])}
        keys = {one.key for one in conditions}
        keys |= {
            one.key
            for one in asked.alerts
            if one.kind is AlertKind.NO_EXECUTIONS and one.subject == "store"
        }
        return DetectorResult(
            conditions=tuple(conditions), kinds=frozenset(kinds), keys=frozenset(keys)
        )


def _dispatchers(status: StoreStatus) -> list[Member]:
    return [one for one in status.members if one.is_alive and one.kind is MemberKind.DISPATCHER]


def _is_off(member: Member) -> bool:
    return abs(member.skew_us) >= SKEW_FROM_US


def _skewed(member: Member) -> Condition:
    milliseconds = member.skew_us / 1000
    holds = ", so that it fires nothing" if member.is_holding else ""
    return Condition(
        kind=AlertKind.CLOCK_SKEW,
        subject=f"dispatcher {member.id}",
        value=abs(member.skew_us) / SECOND_US,
        since=member.renewed_at,
        summary=(
            f"the clock of dispatcher {member.id} on {member.host} is {milliseconds:+.1f} ms off "
            f"the store's{holds}"
        ),
        remedy=f"set the clock of {member.host} right; see duly status",
        evidence={
            "skew_ms": milliseconds,
            "host": member.host,
            "process": member.process,
            "is_holding": member.is_holding,
        },
    )


def _unfired(status: StoreStatus, late_us: int) -> list[Condition]:
    """Say once that nobody fires, and not of each promise that it is late."""
    since = status.now - late_us
    count = "1 timer is" if status.overdue == 1 else f"{status.overdue:,} timers are"
    waits = _waits(since, status.now)
    evidence = {"overdue": status.overdue, "dispatchers": len(_dispatchers(status))}
    who = "every dispatcher is holding" if evidence["dispatchers"] else "no dispatcher is alive"
    return [
        Condition(
            kind=AlertKind.NO_EXECUTIONS,
            subject="store",
            value=late_us / SECOND_US,
            since=since,
            summary=f"{count} due and nobody fires, the oldest for {waits}: {who}",
            remedy="start duly dispatcher, or see why it holds: duly status",
            evidence=evidence,
        ),
        Condition(
            kind=AlertKind.LATE_RUN,
            subject="store",
            value=late_us / SECOND_US,
            since=since,
            summary=f"{count} late, the oldest for {waits}: {who}",
            remedy="start duly dispatcher, or see why it holds: duly status",
            evidence=evidence,
        ),
    ]


def _late(asked: DetectorContext) -> tuple[list[Condition], bool]:
    """Return what is late though somebody fires, and whether that is all of it."""
    status = asked.status
    command = LoadTimers(
        shards=tuple(range(status.shards)),
        after=None,
        until=status.now - LATE_FROM_US,
        limit=SUBJECTS_MAX,
        is_whole=False,
    )
    timers = asked.store.load_timers(command).timers
    found = [_late_one(asked, timer) for timer in timers[:SUBJECTS_MAX]]
    late = [one for one in found if one is not None]
    return late, len(timers) < SUBJECTS_MAX


def _late_one(asked: DetectorContext, timer: Timer) -> Condition | None:
    store, now = asked.store, asked.now
    labels: dict[str, str] = {}
    if timer.kind == "schedule":
        seen = store.get_schedule(ScheduleId(timer.ref))
        if seen is None or seen.record.pending is None:
            return None
        tenant, subject = seen.record.tenant, f"schedule {seen.record.name}"
        call = seen.record.definition.call
        labels["schedule"] = seen.record.name
        remedy = f"duly schedule show {command_name(seen.record)}; duly status"
    else:
        run_id = RunId(timer.ref)
        found = store.get_delayed(run_id) or store.get_run(run_id)
        if found is None:
            return None
        tenant, call = found.tenant, found.call
        subject = f"run {identity_text(run_id)}"
        remedy = f"duly run show {identity_text(run_id)}{tenant_option(tenant)}; duly status"
    labels |= {"task": call.task, "queue": call.queue}
    due = utc_text(from_microseconds(timer.due_at))
    return Condition(
        kind=AlertKind.LATE_RUN,
        tenant=tenant,
        subject=subject,
        value=(now - timer.due_at) / SECOND_US,
        since=timer.due_at,
        summary=f"{subject} is late: it was due at {due}, {_waits(timer.due_at, now)} ago",
        remedy=remedy,
        evidence={"due_at": due, "kind": timer.kind, "overdue": asked.status.overdue},
        labels=labels,
    )


def _waits(since: int, now: int) -> str:
    return distance_text(from_microseconds(since), from_microseconds(now))


DIED_US = 15 * MINUTE * SECOND_US
EARLY_US = HOUR * SECOND_US
"""An early fire is told of for so long after the last one."""
MADE_US = MINUTE * SECOND_US
NOTE = "creations"


class QueueDetector:
    """Looks at queues: how much waits, for how long, and whether anything is begun."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what waits; of a queue that somebody has paused nothing is."""
        waiting = [
            one
            for one in asked.store.list_queues()
            if one.queued and one.paused_at is None and one.oldest_at is not None
        ]
        waiting.sort(key=lambda one: one.oldest_at or 0)
        conditions: list[Condition] = []
        for queue in waiting[:SUBJECTS_MAX]:
            conditions += [_aged(queue, asked.now), _deep(queue, asked.now)]
            if not queue.running:
                conditions.append(_unbegun(queue, asked.status))
        is_complete = len(waiting) <= SUBJECTS_MAX
        kinds = (AlertKind.QUEUE_AGE, AlertKind.QUEUE_DEPTH) if is_complete else ()
        of_queues = [one for one in asked.alerts if one.subject.startswith("queue ")]
        keys = {one.key for one in of_queues if one.kind is AlertKind.NO_EXECUTIONS}
        return DetectorResult(
            conditions=tuple(conditions),
            kinds=frozenset(kinds),
            keys=frozenset({*(keys if is_complete else ()), *(one.key for one in conditions)}),
        )


class DestinationDetector:
    """Looks at breakers."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say which destinations are left alone."""
        found = asked.store.list_breakers()
        opened = [one for one in found if one.breaker.state is not BreakerState.CLOSED]
        conditions = tuple(_left_alone(one, asked.now) for one in opened[:SUBJECTS_MAX])
        is_complete = len(opened) <= SUBJECTS_MAX
        kinds = frozenset({AlertKind.BREAKER_OPEN}) if is_complete else frozenset[AlertKind]()
        return DetectorResult(conditions=conditions, kinds=kinds)


class AmbiguousRunDetector:
    """Looks at runs of which nobody knows what they did."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say which runs wait for a person."""
        found = asked.store.list_doubts(None, SUBJECTS_MAX + 1) if asked.status.ambiguous else []
        conditions = tuple(_doubtful(one, asked.now) for one in found[:SUBJECTS_MAX])
        is_complete = len(found) <= SUBJECTS_MAX
        kinds = frozenset({AlertKind.AMBIGUOUS_RUN}) if is_complete else frozenset[AlertKind]()
        return DetectorResult(conditions=conditions, kinds=kinds)


class TroubleDetector:
    """Looks for stalled attempts, runs tried often, new dead letters, early fires, many orders."""

    def observe(self, asked: DetectorContext) -> DetectorResult:
        """Say what is out of the ordinary."""
        found = asked.store.find_trouble(
            FindTrouble(died_us=DIED_US, early_us=EARLY_US, made_us=MADE_US, limit=SUBJECTS_MAX + 1)
        )
        sorts = {
            AlertKind.STALLED_RUN: [_stalled(one, found.now) for one in found.stalled],
            AlertKind.SEVERAL_ATTEMPTS: [_tried(one) for one in found.tried],
            AlertKind.DEAD_LETTERS: [_dead(one, found.now) for one in found.dead],
            AlertKind.EARLY_FIRE: [_early(found)] if found.early else [],
            AlertKind.CREATION_RATE: _many(asked, found),
        }
        complete = [kind for kind, each in sorts.items() if len(each) <= SUBJECTS_MAX]
        return DetectorResult(
            conditions=tuple(one for each in sorts.values() for one in each[:SUBJECTS_MAX]),
            kinds=frozenset(complete),
        )


def _aged(queue: QueueRecord, now: int) -> Condition:
    since = now if queue.oldest_at is None else queue.oldest_at
    return Condition(
        kind=AlertKind.QUEUE_AGE,
        subject=f"queue {queue.name}",
        value=max(now - since, 0) / SECOND_US,
        since=since,
        summary=f"{_runs(queue.queued)} in queue {queue.name}, the first for {_ago(since, now)}",
        remedy="duly queue list; start another duly worker, or find what is slow",
        evidence={"queued": queue.queued, "running": queue.running, "oldest_at": _at(since)},
        labels={"queue": queue.name},
    )


def _deep(queue: QueueRecord, now: int) -> Condition:
    since = now if queue.oldest_at is None else queue.oldest_at
    return Condition(
        kind=AlertKind.QUEUE_DEPTH,
        subject=f"queue {queue.name}",
        value=float(queue.queued),
        since=since,
        summary=f"{_runs(queue.queued)} in queue {queue.name}, {queue.running:,} are running",
        remedy="duly queue list; start another duly worker",
        evidence={"queued": queue.queued, "running": queue.running, "oldest_at": _at(since)},
        labels={"queue": queue.name},
    )


def _unbegun(queue: QueueRecord, status: StoreStatus) -> Condition:
    """Say that nothing of a queue is begun, and who could."""
    since, now = queue.oldest_at or status.now, status.now
    workers = [one for one in status.members if one.kind is MemberKind.WORKER and one.is_alive]
    own = [one for one in workers if not one.queues or queue.name in one.queues]
    serving = [one for one in own if one.standing is None]
    if own and not serving:
        resting = {int(one.id): str(one.standing) for one in own}
        why, remedy = out_of_service(queue.name, resting)
        why = f"and {why}"
    elif serving:
        why, remedy = "although workers serve it", "see what workers say: duly worker list"
    elif workers:
        why, remedy = "and no worker serves it", f"start duly worker --queue {quote(queue.name)}"
    else:
        why, remedy = "and no worker is alive", "start duly worker"
    return Condition(
        kind=AlertKind.NO_EXECUTIONS,
        subject=f"queue {queue.name}",
        value=max(now - since, 0) / SECOND_US,
        since=since,
        summary=(
            f"nothing of queue {queue.name} is being run, {why}: {_runs(queue.queued)}, "
            f"the first for {_ago(since, now)}"
        ),
        remedy=remedy,
        evidence={"queued": queue.queued, "workers": len(workers), "serving": len(serving)},
        labels={"queue": queue.name},
    )


def _left_alone(record: BreakerRecord, now: int) -> Condition:
    breaker = record.breaker
    since = record.updated_at if breaker.opened_at is None else breaker.opened_at
    again = None if breaker.retry_at is None else _at(breaker.retry_at)
    return Condition(
        kind=AlertKind.BREAKER_OPEN,
        subject=f"destination {record.destination}",
        value=max(now - since, 0) / SECOND_US,
        since=since,
        summary=f"{record.destination} is down, and left alone since {_at(since)}",
        remedy=f"duly breaker show {quote(record.destination)}",
        evidence={
            "state": str(breaker.state),
            "retry_at": again,
            "failed": breaker.failed,
            "running": record.running,
            "waiting": record.waiting,
        },
    )


def _doubtful(doubt: AmbiguousRun, now: int) -> Condition:
    run = doubt.run
    identity = identity_text(run.id)
    return Condition(
        kind=AlertKind.AMBIGUOUS_RUN,
        tenant=run.tenant,
        subject=f"run {identity}",
        value=1,
        since=doubt.since,
        summary=(
            f"nobody knows what run {identity} of task {run.call.task} has done; it has "
            f"waited for a person for {_ago(doubt.since, now)}"
        ),
        remedy=f"duly inbox {identity}{tenant_option(run.tenant)}",
        evidence={"reason": doubt.reason, "attempt": run.tries.attempt, **_of_schedule(run)},
        labels={"task": run.call.task, "queue": run.call.queue, **_of_schedule(run)},
    )


def _stalled(run: TroubledRun, now: int) -> Condition:
    identity = identity_text(run.id)
    limit = duration_words(run.stall_us)
    return Condition(
        kind=AlertKind.STALLED_RUN,
        tenant=run.tenant,
        subject=f"run {identity}",
        value=(now - run.since - run.stall_us) / SECOND_US,
        since=run.since,
        summary=(
            f"run {identity} of task {run.task} has not advanced for {_ago(run.since, now)}; its "
            f"limit is {limit}"
        ),
        remedy=f"duly run show {identity}{tenant_option(run.tenant)}",
        evidence={"attempt": run.attempt, "worker": run.worker, "advanced_at": _at(run.since)},
        labels=_labels(run),
    )


def _tried(run: TroubledRun) -> Condition:
    identity = identity_text(run.id)
    return Condition(
        kind=AlertKind.SEVERAL_ATTEMPTS,
        tenant=run.tenant,
        subject=f"run {identity}",
        value=float(run.attempt),
        since=run.since,
        summary=f"run {identity} of task {run.task} is at its attempt {run.attempt}",
        remedy=f"duly run attempts {identity}{tenant_option(run.tenant)}",
        evidence={"attempts": run.attempt, "worker": run.worker, "begun_at": _at(run.since)},
        labels=_labels(run),
    )


def _dead(found: NewlyDead, now: int) -> Condition:
    count = "1 run" if found.died == 1 else f"{found.died:,} runs"
    return Condition(
        kind=AlertKind.DEAD_LETTERS,
        tenant=found.tenant,
        subject=f"task {found.task}",
        value=float(found.died),
        since=found.first_at,
        summary=f"{count} of task {found.task} died, since {_ago(found.first_at, now)}",
        remedy=f"duly run list --state dead --task {quote(found.task)}"
        f"{tenant_option(found.tenant)}",
        evidence={"died": found.died, "last_run": identity_text(found.last)},
        labels={"task": found.task},
    )


def _early(found: UnusualRuns) -> Condition:
    run = None if found.early_run is None else identity_text(found.early_run)
    count = "1 run was" if found.early == 1 else f"{found.early:,} runs were"
    return Condition(
        kind=AlertKind.EARLY_FIRE,
        subject="store",
        value=float(found.early),
        since=found.now,
        summary=f"{count} fired early within the last hour, which must never be: {run}",
        remedy="duly db check",
        evidence={"early": found.early, "run": run},
    )


def _many(asked: DetectorContext, found: UnusualRuns) -> list[Condition]:
    """Say that unusually many promises were made, and learn what is usual."""
    rate = rate_from_json(asked.notes.get(NOTE))
    asked.notes[NOTE] = list(rate.after(found.made))
    times = rate.times(found.made)
    if times < 1:
        return []
    return [
        Condition(
            kind=AlertKind.CREATION_RATE,
            subject="store",
            value=times,
            since=found.now - MADE_US,
            summary=(
                f"{found.made:,} schedules and runs were asked for within a minute; "
                f"{rate.usual:,.1f} are usual"
            ),
            remedy="see who asks: duly audit; bound it: duly quota set",
            evidence={"made": found.made, "usual": rate.usual},
        )
    ]


def _labels(run: TroubledRun) -> dict[str, str]:
    named = {} if run.schedule is None else {"schedule": run.schedule}
    return {"task": run.task, "queue": run.queue, **named}


def _of_schedule(run: RunRecord) -> dict[str, str]:
    return {} if run.schedule_name is None else {"schedule": run.schedule_name}


def _runs(count: int) -> str:
    return "1 run waits" if count == 1 else f"{count:,} runs wait"


def _ago(since: int, now: int) -> str:
    return distance_text(from_microseconds(min(since, now)), from_microseconds(now))


def _at(instant: int) -> str:
    return utc_text(from_microseconds(instant))
