"""Status and health of a store, findings of a schedule.

Each `Finding` is one sentence with its remedy.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from shlex import quote
from typing import TYPE_CHECKING, Any

from duly.client.alert_view import OpenAlerts, count_open
from duly.domain.alert_rules import AlertKind, Severity
from duly.domain.alerts import AlertState
from duly.domain.enums import ScheduleStatus
from duly.domain.explain import out_of_service
from duly.domain.runs import TASK_GONE
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.derived_queries import Reach, read_signs
from duly.store.ports.alerts import AlertFilter
from duly.store.ports.auth import sees_everything
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.queries import ScheduleFilter
from duly.timetable.instants import (
    distance_text,
    duration_text,
    from_microseconds,
    iso_or_none,
    iso_utc,
    moment_or_none,
    units_text,
    utc_text,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.client.caller import Caller
    from duly.client.limits import Breaker, Queue
    from duly.domain.alerts import AlertRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.vitals import Signs
    from duly.store.ports.dispatch import LeaseRecord, Member
    from duly.store.ports.maintenance import SchemaStatus
    from duly.store.ports.queries import OpenCounts, StoreStatus


@dataclass(frozen=True, slots=True)
class Finding:
    """What is wrong, and what to do about it."""

    code: str
    """Stable, for programs and for docs/errors.md."""
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.problem}: {self.remedy}" if self.remedy else self.problem


def trigger_findings(signs: Signs) -> list[Finding]:
    """Say what is wrong with a schedule's trigger."""
    overdue_us = signs.trigger.overdue_us
    if signs.trigger.is_well or overdue_us is None:
        return []
    problem = f"schedule {signs.record.name} is due for {_words(overdue_us)} and has not fired"
    return [Finding("schedule-overdue", problem, "duly doctor")]


def completion_findings(signs: Signs, home: str | None = None) -> list[Finding]:
    """Say what is wrong with the work of a schedule; of another tenant than `home`, whose it is."""
    seen, name, tenant = signs.completion, signs.record.name, signs.record.tenant
    is_elsewhere = home is not None and tenant != home
    if not seen.is_stale or seen.cadence_us is None:
        return []
    kind = "verified" if seen.is_checked else "useful"
    every = f"one is expected every {_words(seen.cadence_us)}"
    if seen.age_us is None:
        within = "" if seen.ends.unknown_through is None else " among the runs that are looked at"
        problem = f"schedule {name} has no {kind} completion on record{within}, and {every}"
    else:
        problem = f"the last {kind} completion of {name} is {_words(seen.age_us)} old, and {every}"
    remedy = f"duly run list --schedule {quote(name)}"
    if is_elsewhere:
        problem = f"in tenant {tenant}, {problem}"
        remedy = f"{remedy} --tenant {quote(tenant)}"
    return [Finding("stale-completion", problem, remedy)]


def _words(microseconds: int) -> str:
    return units_text(microseconds) or "less than 1 s"


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


def schema_findings(schema: SchemaStatus) -> list[Finding]:
    """Say that the store has what this program does not know, if it can be used all the same."""
    if not (schema.unknown and schema.is_usable):
        return []
    problem = f"the store is newer than this program: it has {', '.join(schema.unknown)}"
    return [Finding("newer-store", problem, "upgrade this program")]


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
        resting = {
            one.id: one.standing
            for one in workers
            if one.standing is not None and (not one.queues or queue.name in one.queues)
        }
        why, remedy = "no worker is alive", "start duly worker"
        if resting:
            why, remedy = out_of_service(queue.name, resting)
        elif workers:
            why, remedy = "no worker serves it", f"start duly worker --queue {quote(queue.name)}"
        problems.append(Finding("queue-without-worker", f"{waiting}, and {why}", remedy))
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
    """Write how far a clock is ahead, with +, or behind, with -."""
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


STALE_LOOKED_AT_MAX = 100
"""So many active schedules are asked for their last useful completion, by name,"""
SUSPECTS_MAX = 100
"""and so many more that open alerts are about: alerts go round over all of them."""
RUNS_LOOKED_AT_MAX = 20
"""And so many of the newest runs of each."""
_FOR_STALENESS = Reach(window=0, ends=RUNS_LOOKED_AT_MAX, has_errors=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStatus:
    """A process of the fleet."""

    id: int
    kind: str
    host: str
    process: int
    is_alive: bool
    is_holding: bool
    """Whether it has stopped firing because its clock disagrees with the store's."""
    started_at: datetime
    renewed_at: datetime
    expires_at: datetime
    skew: timedelta
    """How far its clock is ahead of the store's; negative if behind."""
    tzdata: str
    leases: int
    """How many lanes of shards it owns."""
    slots: int = 0
    """Of a worker: how many runs it can execute at a time."""
    leaked: int = 0
    """Slots that a thread has taken with it."""
    running: int = 0
    queues: tuple[str, ...] = ()
    """Which a worker serves; none named: all."""
    standing: str | None = None
    """`draining` or `quarantined`, if people have taken a worker out of service."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": self.id,
            "kind": self.kind,
            "host": self.host,
            "process": self.process,
            "is_alive": self.is_alive,
            "is_holding": self.is_holding,
            "started_at": iso_utc(self.started_at),
            "renewed_at": iso_utc(self.renewed_at),
            "expires_at": iso_utc(self.expires_at),
            "skew": duration_text(self.skew // timedelta(microseconds=1)),
            "tzdata": self.tzdata,
            "leases": self.leases,
            "slots": self.slots,
            "leaked": self.leaked,
            "running": self.running,
            "queues": list(self.queues),
            "standing": self.standing,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is promised, what is due, what waits for a worker, and who keeps time."""

    store: str
    tenant: str | None = None
    """Whose promises and runs are counted; None for everybody's."""
    now: datetime
    schedules: dict[str, int]
    """How many, by status."""
    delayed: int
    queued: int
    owed: int
    overdue: int
    """Timers that are due and have not fired."""
    oldest_due_at: datetime | None
    next_due_at: datetime | None
    early_fires: int
    """Zero for ever."""
    members: tuple[MemberStatus, ...]
    leases_owned: int
    leases_total: int
    shards: int
    tzdata: str
    incarnation: int
    queues: dict[str, int]
    running: int = 0
    retrying: int = 0
    dead: int = 0
    ambiguous: int = 0
    """Runs in doubt: `duly inbox` lists them."""
    paused_queues: tuple[str, ...] = ()
    taskless: tuple[str, ...] = ()
    """Schedules that are paused because no worker knows their task any more."""
    stale: tuple[Finding, ...] = ()
    """Active schedules whose last useful completion is old, of those that were asked."""
    judged: int = 0
    """How many were asked: the first hundred by name, and those that open alerts are about."""
    alerts: tuple[OpenAlerts, ...] = ()
    """How many alerts are open, by severity and kind."""
    tenants: dict[str, dict[str, int]] = field(default_factory=dict)
    """Open runs by tenant and state, for who sees all: of each state the first thousand."""

    @property
    def workers(self) -> tuple[MemberStatus, ...]:
        """The members that execute runs."""
        return tuple(one for one in self.members if one.kind == MemberKind.WORKER)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "store": self.store,
            "tenant": self.tenant,
            "now": iso_utc(self.now),
            "schedules": self.schedules,
            "delayed": self.delayed,
            "queued": self.queued,
            "owed": self.owed,
            "overdue": self.overdue,
            "oldest_due_at": iso_or_none(self.oldest_due_at),
            "next_due_at": iso_or_none(self.next_due_at),
            "early_fires": self.early_fires,
            "members": [member.to_json() for member in self.members],
            "leases_owned": self.leases_owned,
            "leases_total": self.leases_total,
            "shards": self.shards,
            "tzdata": self.tzdata,
            "incarnation": self.incarnation,
            "queues": self.queues,
            "running": self.running,
            "retrying": self.retrying,
            "dead": self.dead,
            "ambiguous": self.ambiguous,
            "paused_queues": list(self.paused_queues),
            "taskless": list(self.taskless),
            "stale": [str(one) for one in self.stale],
            "judged": self.judged,
            "alerts": [one.to_json() for one in self.alerts],
            "tenants": self.tenants,
        }


def load_status(
    caller: Caller, store: str, *, with_stale: bool = True, is_own: bool = False
) -> Status:
    """Return the state of a store on one screen, as the caller may see it: all in one scope.

    That is one tenant's for who sees no more, or asks for its own; else everybody's.
    """
    status = caller.store.status()
    scope = caller.tenant if is_own or is_single_tenant(caller) else None
    if scope is not None:
        status = narrowed(caller, status)
    if caller.is_confined:
        store = store.partition(":")[0]  # where it is, is the operator's business
    seen = replace(status_view(store, status), tenant=scope)
    if not with_stale:
        return seen
    tenants = caller.store.count_tenants() if scope is None else {}
    opened = AlertFilter(tenant=scope, states=frozenset({AlertState.OPEN}))
    alerts = caller.store.list_alerts(opened)
    judged = _find_judged(caller, scope, alerts)
    return replace(
        seen,
        taskless=find_taskless(caller, scope),
        stale=find_stale(caller, judged),
        judged=len(judged),
        alerts=count_open(alerts),
        tenants=_by_state(tenants),
    )


def _find_judged(
    caller: Caller, scope: str | None, alerts: Sequence[AlertRecord]
) -> list[ScheduleRecord]:
    """Return the active schedules that are asked: the first by name, and whom alerts suspect."""
    active = frozenset({ScheduleStatus.ACTIVE})
    found = caller.store.list_schedules(
        ScheduleFilter(tenant=scope, statuses=active, limit=STALE_LOOKED_AT_MAX)
    )
    if len(found) < STALE_LOOKED_AT_MAX:
        return found
    known = {(one.tenant, one.name) for one in found}
    stale = (one for one in alerts if one.kind is AlertKind.STALE_COMPLETION)
    named = dict.fromkeys((one.tenant, one.labels.get("schedule", "")) for one in stale)
    others = sorted([one for one in named if one not in known][:SUSPECTS_MAX])
    for tenant, of_tenant in groupby(others, key=itemgetter(0)):
        names = frozenset(name for _, name in of_tenant)
        found += caller.store.list_schedules(
            ScheduleFilter(tenant=tenant, statuses=active, names=names)
        )
    return found


def find_stale(caller: Caller, judged: Sequence[ScheduleRecord]) -> tuple[Finding, ...]:
    """Say of which of these schedules the last useful completion is old."""
    signs = read_signs(caller.store, judged, _FOR_STALENESS)
    return tuple(finding for one in signs for finding in completion_findings(one, caller.tenant))


def find_taskless(caller: Caller, scope: str | None) -> tuple[str, ...]:
    """Return the names of schedules that are paused because their task is gone."""
    paused = frozenset({ScheduleStatus.PAUSED})
    # One page is enough: who has a thousand of them has read it by then.
    found = caller.store.list_schedules(ScheduleFilter(tenant=scope, statuses=paused))
    return tuple(
        one.name if one.tenant == caller.tenant else f"{one.name} of tenant {one.tenant}"
        for one in found
        if (one.reason or "").startswith(TASK_GONE)
    )


def read_status(caller: Caller) -> StoreStatus:
    """Read the state of the store; to who sees one tenant alone, what of it is that tenant's."""
    status = caller.store.status()
    return narrowed(caller, status) if is_single_tenant(caller) else status


def narrowed(caller: Caller, status: StoreStatus) -> StoreStatus:
    """Return what of a store's state is the caller's tenant's, and what all share."""
    own = caller.store.count_tenant(caller.tenant)
    members = unplaced(status.members) if caller.is_confined else status.members
    if caller.is_confined or sees_everything(caller.store):
        members = tuple(replace(one, running=own.held.get(one.id, 0)) for one in members)
    # Else an operator looks through one tenant's rows: how busy a worker is, concerns all.
    return replace(
        status,
        schedules=own.schedules,
        delayed=own.delayed,
        queued=sum(one.queued for one in own.queues.values()),
        owed=own.owed,
        overdue=own.overdue,
        oldest_due_at=own.oldest_due_at,
        next_due_at=own.next_due_at,
        members=members,
        queues={name: one.queued for name, one in own.queues.items() if one.queued},
        running=sum(own.held.values()),
        retrying=own.retrying,
        dead=own.dead,
        ambiguous=own.ambiguous,
    )


def is_single_tenant(caller: Caller) -> bool:
    """Say whether what the caller is told is one tenant's; known once the store was asked.

    Because it is confined, or because its database shows it no more: of everybody it would be told
    that nothing is due, and all is well.
    """
    return caller.is_confined or not sees_everything(caller.store)


def unplaced(members: Sequence[Member]) -> tuple[Member, ...]:
    """Return members without where they run: that is the operator's business."""
    return tuple(replace(one, host="", process=0) for one in members)


def status_view(store: str, status: StoreStatus) -> Status:
    """Show the state of a store."""
    owned = [lease for lease in status.leases if lease.owner is not None]
    return Status(
        store=store,
        now=from_microseconds(status.now),
        schedules={str(word): count for word, count in sorted(status.schedules.items())},
        delayed=status.delayed,
        queued=status.queued,
        owed=status.owed,
        overdue=status.overdue,
        oldest_due_at=moment_or_none(status.oldest_due_at),
        next_due_at=moment_or_none(status.next_due_at),
        early_fires=status.early_fires,
        members=tuple(member_status(member, owned) for member in status.members),
        leases_owned=len(owned),
        leases_total=len(status.leases),
        shards=status.shards,
        tzdata=status.tzdata,
        incarnation=status.incarnation,
        queues=dict(sorted(status.queues.items())),
        running=status.running,
        retrying=status.retrying,
        dead=status.dead,
        ambiguous=status.ambiguous,
        paused_queues=tuple(sorted(status.paused_queues)),
    )


def member_status(member: Member, owned: Sequence[LeaseRecord] = ()) -> MemberStatus:
    """Return a member as people see it, with how many of these leases are its own."""
    return MemberStatus(
        id=member.id,
        kind=str(member.kind),
        host=member.host,
        process=member.process,
        is_alive=member.is_alive,
        is_holding=member.is_holding,
        started_at=from_microseconds(member.started_at),
        renewed_at=from_microseconds(member.renewed_at),
        expires_at=from_microseconds(member.expires_at),
        skew=timedelta(microseconds=member.skew_us),
        tzdata=member.tzdata,
        leases=sum(lease.owner == member.id for lease in owned),
        slots=member.slots,
        leaked=member.leaked,
        running=member.running,
        queues=member.queues,
        standing=None if member.standing is None else str(member.standing),
    )


def _by_state(tenants: Mapping[str, OpenCounts]) -> dict[str, dict[str, int]]:
    return {
        tenant: {state: count for state, count in counts._asdict().items() if count}
        for tenant, counts in tenants.items()
    }
