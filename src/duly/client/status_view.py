"""The state of a store on one screen, with aware datetimes."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from duly.client.alert_view import OpenAlerts, count_open
from duly.client.judging import completion_findings
from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertState
from duly.domain.attempts import TASK_GONE
from duly.domain.durations import duration_text
from duly.domain.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none
from duly.domain.literals import ScheduleStatus
from duly.store.alerting import AlertFilter
from duly.store.dispatch import MemberKind
from duly.store.reading import ScheduleFilter
from duly.store.signs import Reach, read_signs
from duly.store.tenancy import sees_everything

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.client.caller import Caller
    from duly.client.judging import Finding
    from duly.domain.alerting import AlertRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.dispatch import LeaseRecord, Member
    from duly.store.reading import OpenCounts, StoreStatus

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
    """Whether it has stopped firing because its clock disagrees with the store's (F7)."""
    started_at: datetime
    renewed_at: datetime
    expires_at: datetime
    skew: timedelta
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
    """Zero for ever (F1)."""
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
    """Schedules that are paused because no worker knows their task any more (S6)."""
    stale: tuple[Finding, ...] = ()
    """Active schedules whose last useful completion is old, of those that were asked (V4)."""
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


def look_at_status(
    caller: Caller, store: str, *, with_stale: bool = True, is_own: bool = False
) -> Status:
    """Return the state of a store on one screen, as the caller may see it: all in one scope.

    That is one tenant's for who sees no more, or asks for its own; else everybody's.
    """
    status = caller.store.status()
    scope = caller.tenant if is_own or tells_of_one(caller) else None
    if scope is not None:
        status = narrowed(caller, status)
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
    return narrowed(caller, status) if tells_of_one(caller) else status


def narrowed(caller: Caller, status: StoreStatus) -> StoreStatus:
    """Return what of a store's state is the caller's tenant's, and what all share."""
    members = unplaced(status.members) if caller.is_confined else status.members
    own = caller.store.count_tenant(caller.tenant)
    return replace(
        status,
        schedules=own.schedules,
        delayed=own.delayed,
        queued=sum(one.queued for one in own.queues.values()),
        owed=own.owed,
        overdue=own.overdue,
        oldest_due_at=own.oldest_due_at,
        next_due_at=own.next_due_at,
        members=tuple(replace(one, running=own.held.get(one.id, 0)) for one in members),
        queues={name: one.queued for name, one in own.queues.items() if one.queued},
        running=sum(own.held.values()),
        retrying=own.retrying,
        dead=own.dead,
        ambiguous=own.ambiguous,
    )


def tells_of_one(caller: Caller) -> bool:
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
