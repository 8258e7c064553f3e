"""Whether time is kept: what is due and has not fired, who fires, and by which clock (F7)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import Condition, Observation
from duly.domain.identity import RunId, ScheduleId, identity_text
from duly.domain.instants import SECOND_US, from_microseconds
from duly.domain.schedules import tenant_option
from duly.domain.time_texts import distance_text, utc_text
from duly.engine.observers import SUBJECTS_MAX
from duly.engine.observers.about_schedules import command_name
from duly.store.dispatch import LoadTimers, MemberKind

if TYPE_CHECKING:
    from duly.engine.observers import Asked
    from duly.store.dispatch import Member, Timer
    from duly.store.reading import StoreStatus

LATE_FROM_US = 10 * SECOND_US
"""What is due for less is about to fire."""
SKEW_FROM_US = 50_000


class FleetObserver:
    """Looks at dispatchers, and at what they have not fired."""

    def observe(self, asked: Asked) -> Observation:
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
        # Queues have an observer of their own, which speaks of other subjects.
        kinds = {AlertKind.CLOCK_SKEW, *([AlertKind.LATE_RUN] if is_complete else [])}
        keys = {one.key for one in conditions}
        keys |= {
            one.key
            for one in asked.alerts
            if one.kind is AlertKind.NO_EXECUTIONS and one.subject == "store"
        }
        return Observation(
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


def _late(asked: Asked) -> tuple[list[Condition], bool]:
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


def _late_one(asked: Asked, timer: Timer) -> Condition | None:
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
