"""Health in two lights that are never merged: whether time is kept, and whether work gets done.

Each finding is one sentence with what to do about it (V4).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any

from duly.client.judging import Finding
from duly.domain.alert_kinds import Severity
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.time_texts import distance_text, utc_text

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.client.breakers import Breaker
    from duly.client.queues import Queue
    from duly.client.status_view import MemberStatus, Status

LATE = timedelta(seconds=60)
"""The grace of most schedules: what is overdue for longer is late by anybody's measure."""
_NAMES_SHOWN_MAX = 5
_STALE_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What is wrong with dispatch and with work, and what is worth knowing beside."""

    dispatch: tuple[Finding, ...]
    work: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    alerts: tuple[Finding, ...] = ()
    """Of those that page: they are of either light, and stay until they are over."""

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All that is wrong."""
        return self.dispatch + self.work + self.alerts

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "is_well": not self.findings,
            "findings": _sentences(self.findings),
            "dispatch": {"is_well": not self.dispatch, "findings": _sentences(self.dispatch)},
            "work": {"is_well": not self.work, "findings": _sentences(self.work)},
            "notes": _sentences(self.notes),
        }


def judge_health(
    found: Status, queues: Sequence[Queue], breakers: Sequence[Breaker] = ()
) -> Health:
    """Say what is wrong, one sentence each."""
    return Health(
        dispatch=tuple(dispatch_findings(found)),
        work=tuple(work_findings(found, queues)),
        notes=(*_notes(found, queues), *_down(breakers), *_open_alerts(found, is_paging=False)),
        alerts=tuple(_open_alerts(found, is_paging=True)),
    )


def dispatch_findings(found: Status) -> list[Finding]:
    """Say what keeps timers from firing on time."""
    problems: list[Finding] = []
    if found.early_fires:
        problem = f"{found.early_fires} runs were fired early, which must never be"
        problems.append(Finding("early-fires", problem, "duly db check"))
    dispatchers = living(found, "dispatcher")
    firing = [one for one in dispatchers if not one.is_holding]
    waits = "" if found.oldest_due_at is None else distance_text(found.oldest_due_at, found.now)
    if not firing and found.overdue:
        problem = f"{_timers(found.overdue)} due and nobody fires; the oldest for {waits}"
        problems.append(Finding("no-dispatcher", problem, "start duly dispatcher"))
    elif not firing and found.next_due_at is not None:
        problem = f"nobody will fire what is due at {utc_text(found.next_due_at)}"
        problems.append(Finding("no-dispatcher", problem, "start duly dispatcher"))
    elif found.oldest_due_at is not None and found.now - found.oldest_due_at > LATE:
        problem = (
            f"{_timers(found.overdue)} due, the oldest for {waits}, although a dispatcher runs"
        )
        problems.append(Finding("overdue-timers", problem, "see what it says"))
    problems += [_holding(one, found) for one in dispatchers if one.is_holding]
    return problems


def work_findings(found: Status, queues: Sequence[Queue]) -> list[Finding]:
    """Say which work nobody will do."""
    problems: list[Finding] = []
    workers = living(found, "worker")
    for queue in queues:
        if not queue.queued or queue.is_paused or _serving(workers, queue.name):
            continue
        waiting = f"{_runs(queue.queued)} in queue {queue.name}, {_age(queue, found.now)}"
        if workers:
            remedy = f"start duly worker --queue {quote(queue.name)}"
            problems.append(
                Finding("queue-without-worker", f"{waiting}, and no worker serves it", remedy)
            )
        else:
            problem = f"{waiting}, and no worker is alive"
            problems.append(Finding("queue-without-worker", problem, "start duly worker"))
    if found.running and not living(found, "dispatcher") and not workers:
        runs = "1 run is" if found.running == 1 else f"{found.running:,} runs are"
        problem = f"{runs} held by workers that are gone, and nobody takes them back"
        problems.append(
            Finding("work-held-by-nobody", problem, "start duly dispatcher and duly worker")
        )
    if found.ambiguous:
        some = "1 run is" if found.ambiguous == 1 else f"{found.ambiguous:,} runs are"
        whom = "it" if found.ambiguous == 1 else "them"
        problem = f"{some} in doubt until a person decides what became of {whom}"
        problems.append(Finding("ambiguous-runs", problem, _inboxes(found)))
    problems += found.stale[:_STALE_SHOWN_MAX]
    if len(found.stale) > _STALE_SHOWN_MAX:
        more = f"{len(found.stale) - _STALE_SHOWN_MAX:,} more schedules have no recent completion"
        problems.append(Finding("stale-completion", more, "duly vitals"))
    if found.taskless:
        problem = f"{_named(found.taskless)} paused, because no worker has the code of the task"
        remedy = "start a worker that has it, then duly schedule resume"
        problems.append(Finding("task-without-code", problem, remedy))
    return problems


def living(found: Status, kind: str) -> list[MemberStatus]:
    """Return the members of a kind that are alive."""
    return [one for one in found.members if one.is_alive and one.kind == kind]


def skew_text(skew: timedelta) -> str:
    """Write how far a clock is off."""
    return f"{skew.total_seconds() * 1000:+.1f} ms"


def _notes(found: Status, queues: Sequence[Queue]) -> list[Finding]:
    """Say what somebody did on purpose, or should look at some time: nothing that is broken."""
    notes: list[Finding] = []
    for queue in queues:
        if queue.is_paused:
            why = f": {queue.reason}" if queue.reason else ""
            by = f" by {queue.paused_by}" if queue.paused_by else ""
            text = f"queue {queue.name} is paused{by}{why}; {_runs(queue.queued)} in it"
            notes.append(Finding("queue-paused", text, ""))
        elif queue.oldest_at is not None and found.now - queue.oldest_at > LATE:
            text = f"{_runs(queue.queued)} in queue {queue.name}, {_age(queue, found.now)}"
            notes.append(Finding("queue-waits-long", text, ""))
    if found.dead:
        dead = "1 dead run is" if found.dead == 1 else f"{found.dead:,} dead runs are"
        remedy = "duly run list --state dead"
        notes.append(Finding("dead-letters", f"{dead} to be looked at", remedy))
    notes += [
        Finding(
            "slots-lost",
            f"worker {one.id} has lost {one.leaked} of {one.slots} slots to threads",
            "",
        )
        for one in living(found, "worker")
        if one.leaked
    ]
    return notes


def _down(breakers: Sequence[Breaker]) -> list[Finding]:
    """Say who is left alone, for a reason that is not ours."""
    down = [one.destination for one in breakers if not one.is_closed]
    if not down:
        return []
    shown = ", ".join(down[:_NAMES_SHOWN_MAX])
    more = f" and {len(down) - _NAMES_SHOWN_MAX:,} more" if len(down) > _NAMES_SHOWN_MAX else ""
    text = f"runs wait for {shown}{more} to be up again"
    return [Finding("destination-down", text, "duly breaker list")]


def _open_alerts(found: Status, *, is_paging: bool) -> list[Finding]:
    """Say how many alerts are open, of those that somebody must look at now or of the others."""
    counts: dict[str, int] = {}
    for one in found.alerts:
        told = one.count - one.silenced
        count = told if is_paging else one.count - (told if one.severity == Severity.PAGE else 0)
        if count and (not is_paging or one.severity == Severity.PAGE):
            counts[one.kind] = counts.get(one.kind, 0) + count
    if not counts:
        return []
    total = sum(counts.values())
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(counts.items()))
    some = "1 alert is open" if total == 1 else f"{total:,} alerts are open"
    page = ", and must be looked at now" if is_paging else ""
    return [Finding("alerts-open", f"{some}{page} ({kinds})", "duly alert list")]


def _sentences(findings: Sequence[Finding]) -> list[str]:
    return [str(one) for one in findings]


def _serving(workers: Sequence[MemberStatus], queue: str) -> bool:
    serving = [one for one in workers if one.standing is None]
    return any(not one.queues or queue in one.queues for one in serving)


def _holding(member: MemberStatus, found: Status) -> Finding:
    name = f"dispatcher {member.id} on {member.host} is holding and fires nothing"
    if member.tzdata < found.tzdata:
        problem = f"{name}: it has tzdata {member.tzdata}, the fleet {found.tzdata}"
        return Finding("old-time-zones", problem, "update it there")
    problem = f"{name}: its clock is {skew_text(member.skew)} off the store's"
    return Finding("clock-skew", problem, "set it right")


def _age(queue: Queue, now: datetime) -> str:
    if queue.oldest_at is None:
        return "since just now"
    return f"the oldest for {distance_text(queue.oldest_at, now)}"


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:_NAMES_SHOWN_MAX])
    if len(names) == 1:
        return f"schedule {shown} is"
    more = f" and {len(names) - _NAMES_SHOWN_MAX:,} more" if len(names) > _NAMES_SHOWN_MAX else ""
    return f"schedules {shown}{more} are"


def _inboxes(found: Status) -> str:
    """Say in whose inboxes it is, if anybody is told of others' than their own."""
    tenants = [one for one, counts in found.tenants.items() if counts.get("ambiguous")]
    if not tenants or tenants == [TENANT_DEFAULT]:
        return "duly inbox"
    shown = ", ".join(f"duly inbox --tenant {quote(one)}" for one in tenants[:_NAMES_SHOWN_MAX])
    left = len(tenants) - _NAMES_SHOWN_MAX
    return f"{shown} and {left:,} more tenants" if left > 0 else shown


def _runs(number: int) -> str:
    return "1 run waits" if number == 1 else f"{number:,} runs wait"


def _timers(number: int) -> str:
    return "1 timer is" if number == 1 else f"{number:,} timers are"
