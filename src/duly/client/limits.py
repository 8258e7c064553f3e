"""Limits, quotas, breakers, queues, workers, owners.

A limit that a person sets overrides the limit that a task declares in code, until it is removed.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from duly.client.caller import joins
from duly.client.parameters import (
    ONE_BY_ONE_MAX,
    read_looked_for,
    read_owner,
    read_queue,
    read_tenant,
    require_reason,
)
from duly.client.parameters import read_limit as read_page_limit
from duly.client.schedule_orders import ScheduleOrder, apply_order
from duly.client.status import member_status, read_status
from duly.domain.limits import place_text, read_limit, read_scope, tenant_of
from duly.domain.quotas import (
    EACH_OWNER,
    OWNED_DEFAULT,
    Counted,
    decide_gone,
    gone_reason,
    read_most,
)
from duly.domain.quotas import read_scope as read_quota_scope
from duly.domain.tasks import read_destination
from duly.errors import Conflict, NotFound, UsageError
from duly.store.ports.dispatch import MemberId, MemberKind, WorkerStatus
from duly.store.ports.limits import SetLimit
from duly.store.ports.operations import MarkOwner, OrderWorker, SetQuotas
from duly.store.ports.queries import PAGE_MAX, OwnQueue
from duly.timetable.instants import from_microseconds, iso_or_none, iso_utc, moment_or_none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.client.status import MemberStatus
    from duly.domain.ids import ScheduleId
    from duly.domain.limits import LimitRecord
    from duly.domain.quotas import DepartedOwner, QuotaKey
    from duly.domain.quotas import Quota as Record
    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports import Store
    from duly.store.ports.limits import BreakerRecord, PlaceRecord
    from duly.store.ports.operations import QueueRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """What somebody has said about a task, a tenant or a destination, or of each of them."""

    name: str
    """Of what: task:send, tenant:acme, destination:stripe, tenant:*."""
    running: int | None
    """How many of its runs go on at a time."""
    rate: str | None
    """How many begin in a while."""
    running_by: Mapping[str, int] = field(default_factory=dict)
    """How many with the same value of a parameter."""
    source: str
    """person or code; a person's word counts before that of a task's code."""
    set_by: str
    set_at: datetime
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "running": self.running,
            "rate": self.rate,
            "running_by": dict(self.running_by),
            "source": self.source,
            "set_by": self.set_by,
            "set_at": iso_utc(self.set_at),
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """How much of a limit is taken at this moment."""

    name: str
    """As the limit's; where it is counted by a parameter, with the value."""
    held: int
    """How many of its runs go on."""
    waiting: int
    """How many stand in line for a place."""
    next_at: datetime | None
    """Of a rate: when the next that comes may begin; None if at once."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "held": self.held,
            "waiting": self.waiting,
            "next_at": iso_or_none(self.next_at),
        }


# A class that has a method `list` can't name the type below it.
ListedLimits = list[Limit]
ListedPlaces = list[Place]


class Limits:
    """The limits of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedLimits:
        """Return what people have set and what code declares, by name; of tenants, one's own."""
        found = self._caller.store.list_limits().records
        if self._caller.is_confined:
            seen = None, self._caller.tenant
            found = tuple(one for one in found if tenant_of(one.scope) in seen)
        return [_view(one) for one in found]

    def places(self) -> ListedPlaces:
        """Return where runs go on or wait under a limit now, by name.

        A tenant's caller is shown its own: at any other, others' runs are counted.
        """
        found = self._caller.store.list_places()
        if self._caller.is_confined:
            found = [one for one in found if tenant_of(one.place) == self._caller.tenant]
        return [_place_view(one) for one in found]

    @joins
    def set(  # noqa: PLR0913 - each part of a limit is an argument
        self,
        name: str,
        *,
        running: int | None = None,
        rate: str | None = None,
        running_by: Mapping[str, int] | None = None,
        reason: str | None = None,
        connection: object | None = None,
    ) -> Limit:
        """Limit a task, a tenant or a destination: `set("tenant:acme", running=20, rate="50/s")`.

        With `*` for the name, each of them by itself. It takes the place of what was set before,
        counts before what a task's code declares, and is heeded by all workers within a beat.
        """
        self._caller.require_operator("set limits")
        scope = read_scope(name)
        limit = read_limit(running, rate, running_by)
        if limit.is_empty:
            remedy = "give running, rate or running_by; to lift a limit, remove it"
            raise UsageError("limit", name, "would limit nothing", remedy)
        if limit.running_by and not scope.startswith("task:"):
            remedy = "limit a task by its parameters: 'task:send'"
            raise UsageError("running_by", name, "has no parameters", remedy)
        order = SetLimit(scope=scope, limit=limit, actor=self._caller.ordering(reason))
        return _view(self._caller.store.set_limit(order))

    @joins
    def remove(
        self, name: str, *, reason: str | None = None, connection: object | None = None
    ) -> bool:
        """Lift what somebody has set; what code declares holds again. False if there was none."""
        self._caller.require_operator("lift limits")
        return self._caller.store.remove_limit(read_scope(name), self._caller.ordering(reason))


def _view(record: LimitRecord) -> Limit:
    limit = record.limit
    return Limit(
        name=record.scope,
        running=limit.running,
        rate=None if limit.rate is None else limit.rate.text,
        running_by=dict(limit.running_by),
        source=str(record.source),
        set_by=record.by,
        set_at=from_microseconds(record.at),
        reason=record.reason,
    )


def _place_view(record: PlaceRecord) -> Place:
    return Place(
        name=place_text(record.place),
        held=record.held,
        waiting=record.waiting,
        next_at=moment_or_none(record.next_at),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """What is known of a destination."""

    destination: str
    state: str
    """closed, open or half-open."""
    succeeded: int
    """How many attempts went well in the present window, or in the one that opened it,"""
    failed: int
    """and how many failed for a reason of its own; while open, failed probes among them."""
    running: int
    """How many attempts are at it now; while half-open, probes among them."""
    waiting: int
    """How many runs were put off because of it, and wait to be tried; 0 while it is closed."""
    opened_at: datetime | None
    """Since when it is left alone."""
    retry_at: datetime | None
    """While open: when it is tried again."""
    updated_at: datetime

    @property
    def is_closed(self) -> bool:
        """Whether attempts are made as they fall due."""
        return self.state == "closed"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "destination": self.destination,
            "state": self.state,
            "succeeded": self.succeeded,
            "failed": self.failed,
            "running": self.running,
            "waiting": self.waiting,
            "opened_at": iso_or_none(self.opened_at),
            "retry_at": iso_or_none(self.retry_at),
            "updated_at": iso_utc(self.updated_at),
        }


# A class that has a method `list` can't name the type below it.
ListedBreakers = list[Breaker]


class Breakers:
    """The breakers of a store, one for each destination that was ever called."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedBreakers:
        """Return all, by destination."""
        return [_breaker_view(one) for one in self._caller.store.list_breakers()]

    def get(self, destination: str) -> Breaker:
        """Return one; NotFound if nobody was ever called by that name."""
        name = _read(destination)
        for one in self.list():
            if one.destination == name:
                return one
        raise NotFound("destination", name, "list them with app.breakers.list()")

    @joins
    def reset(
        self, destination: str, *, reason: str | None = None, connection: object | None = None
    ) -> Breaker:
        """Close one: whatever waits for it goes on at its time, and it is counted anew."""
        self._caller.require_operator("reset breakers")
        name = _read(destination)
        return _breaker_view(self._caller.store.reset_breaker(name, self._caller.ordering(reason)))


def _read(destination: object) -> str:
    name = read_destination(destination)
    if name is None:
        raise UsageError("destination", None, "is missing", "give its name, such as 'stripe'")
    return name


def _breaker_view(record: BreakerRecord) -> Breaker:
    breaker = record.breaker
    opened_at, retry_at = breaker.opened_at, breaker.retry_at
    return Breaker(
        destination=record.destination,
        state=str(breaker.state),
        succeeded=breaker.succeeded,
        failed=breaker.failed,
        running=record.running,
        waiting=record.waiting,
        opened_at=moment_or_none(opened_at),
        retry_at=moment_or_none(retry_at),
        updated_at=from_microseconds(record.updated_at),
    )


PAGE_DEFAULT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneOwner:
    """An owner who is gone, and how far their schedules are paused."""

    owner: str
    tenant: str
    gone_at: datetime
    """When it was said first."""
    said_by: str
    paused: int = 0
    """How many schedules the order has paused that this answers."""
    active: int = 0
    """How many fire all the same, or will again by themselves: give the order again."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "owner": self.owner,
            "tenant": self.tenant,
            "gone_at": iso_utc(self.gone_at),
            "said_by": self.said_by,
            "paused": self.paused,
            "active": self.active,
        }


# A class that has a method `list` can't name the type below it.
ListedOwners = list[GoneOwner]


class OwnerPage(NamedTuple):
    """A part of those who are gone, and after whom the next part begins."""

    items: ListedOwners
    after: str | None


class Owners:
    """The owners of a tenant's schedules."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @joins
    def gone(self, owner: str, *, reason: str, connection: object | None = None) -> GoneOwner:
        """Say that an owner is gone: what fires for them is paused, and nothing new is made.

        Each schedule is paused by itself, a thousand by one order. Given again, the order goes on
        with what is left: until `active` is 0, or after a process died in the middle.
        """
        name = _read_name(owner)
        require_reason(reason)
        store, tenant = self._caller.store, self._caller.tenant
        marked = store.mark_gone(self._command(name, reason))
        found = store.list_active_of(tenant, name, ONE_BY_ONE_MAX)
        paused = sum(self._pause(one, name, reason) for one in found)
        left = store.list_active_of(tenant, name, PAGE_MAX)
        return _owner_view(marked, paused=paused, active=len(left))

    @joins
    def back(
        self, owner: str, *, reason: str | None = None, connection: object | None = None
    ) -> GoneOwner:
        """Say that an owner is back: schedules can be made and resumed for them again.

        What was paused stays paused until somebody resumes it. Return what was on record.
        """
        name = _read_name(owner)
        store, tenant = self._caller.store, self._caller.tenant
        was = store.mark_back(self._command(name, reason))
        return _owner_view(was, active=len(store.list_active_of(tenant, name, PAGE_MAX)))

    def list(self, *, limit: int = PAGE_DEFAULT, after: str | None = None) -> ListedOwners:
        """Return who is gone, by name; `after` goes on behind a name."""
        return self.page(limit=limit, after=after).items

    def page(self, *, limit: int = PAGE_DEFAULT, after: str | None = None) -> OwnerPage:
        """Return a part of those who are gone, and after whom the next part begins."""
        most = read_page_limit(limit, PAGE_MAX)
        last = read_looked_for("after", after) or ""
        found = self._caller.store.list_gone(self._caller.tenant, last, most)
        views = [_owner_view(one, active=one.active) for one in found]
        return OwnerPage(views, views[-1].owner if len(views) == most else None)

    def _command(self, owner: str, reason: str | None) -> MarkOwner:
        actor = self._caller.ordering(reason)
        return MarkOwner(owner=owner, tenant=self._caller.tenant, actor=actor)

    def _pause(self, schedule: ScheduleId, owner: str, reason: str) -> bool:
        """Pause one, if it is still theirs and active; say whether it was."""
        seen = self._caller.store.get_schedule(schedule, self._caller.tenant)
        if seen is None:
            return False
        why = gone_reason(owner, reason)
        is_paused = False

        def decide(record: ScheduleRecord, _now: int) -> ScheduleChange | None:
            nonlocal is_paused
            change = decide_gone(record, owner, why)
            is_paused = change is not None
            return change

        try:
            apply_order(self._caller, seen, decide, ScheduleOrder(reason=reason))
        except (Conflict, NotFound):
            return False  # it kept changing, and is told among what is left; or it is no more
        return is_paused


def _read_name(owner: object) -> str:
    name = read_owner(owner)
    if name is None:
        raise UsageError("owner", owner, "is missing", "name the owner, as schedules do")
    return name


def _owner_view(record: DepartedOwner, *, paused: int = 0, active: int = 0) -> GoneOwner:
    return GoneOwner(
        owner=record.owner,
        tenant=record.tenant,
        gone_at=from_microseconds(record.gone_at),
        said_by=record.said_by,
        paused=paused,
        active=active,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """A queue on one line."""

    name: str
    queued: int
    running: int
    oldest_at: datetime | None
    """When the one that waits longest was queued."""
    paused_at: datetime | None
    paused_by: str | None
    reason: str | None

    @property
    def is_paused(self) -> bool:
        """Whether nothing is handed out from it."""
        return self.paused_at is not None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "queued": self.queued,
            "running": self.running,
            "oldest_at": iso_or_none(self.oldest_at),
            "paused_at": iso_or_none(self.paused_at),
            "paused_by": self.paused_by,
            "reason": self.reason,
        }


# A class that has a method `list` can't name the type below it.
ListedQueues = list[Queue]


class Queues:
    """The queues of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedQueues:
        """Return queues that hold something or are paused, by name.

        To a tenant's caller they hold what is its own.
        """
        found = self._caller.store.list_queues()
        if self._caller.is_confined:
            found = _own(found, self._caller.store.count_tenant(self._caller.tenant).queues)
        return [_queue_view(one) for one in found]

    def get(self, name: str) -> Queue:
        """Return a queue by its name; one that nobody has used holds nothing."""
        return self._get(read_queue(name))

    @joins
    def pause(
        self, name: str, *, reason: str | None = None, connection: object | None = None
    ) -> Queue:
        """Hand out nothing from a queue, until it is resumed; what runs goes on."""
        self._caller.require_operator("pause queues")
        queue = read_queue(name)
        self._caller.store.pause_queue(queue, self._caller.ordering(reason))
        return self._get(queue)

    @joins
    def resume(
        self, name: str, *, reason: str | None = None, connection: object | None = None
    ) -> Queue:
        """Hand out again; no error if it is not paused."""
        self._caller.require_operator("resume queues")
        queue = read_queue(name)
        self._caller.store.resume_queue(queue, self._caller.ordering(reason))
        return self._get(queue)

    def _get(self, name: str) -> Queue:
        for queue in self.list():
            if queue.name == name:
                return queue
        return Queue(
            name=name,
            queued=0,
            running=0,
            oldest_at=None,
            paused_at=None,
            paused_by=None,
            reason=None,
        )


def _own(found: Sequence[QueueRecord], own: Mapping[str, OwnQueue]) -> list[QueueRecord]:
    """Return queues as one tenant sees them: what it has there, and whether they are paused."""
    nothing = OwnQueue(0, None, 0)
    return [
        replace(one, queued=mine.queued, oldest_at=mine.oldest_at, running=mine.running)
        for one in found
        for mine in [own.get(one.name, nothing)]
        if one.paused_at is not None or mine != nothing
    ]


def _queue_view(record: QueueRecord) -> Queue:
    return Queue(
        name=record.name,
        queued=record.queued,
        running=record.running,
        oldest_at=moment_or_none(record.oldest_at),
        paused_at=moment_or_none(record.paused_at),
        paused_by=record.paused_by,
        reason=record.reason,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota on one line."""

    scope: str
    """Whose: `owner:anna`, `owner:*` (each by itself), `tenant:acme`, `tenant:*`, `all`."""
    tenant: str | None
    """Of an owner's own quota: whose owner."""
    counted: str
    """What it bounds: schedules (active), creations (of schedules in a minute), pending (runs)."""
    most: int | None
    """None for no bound."""
    version: int
    """Grows with every change; 0 for the one that holds unless somebody says otherwise."""
    updated_at: datetime | None
    updated_by: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.version == 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "scope": self.scope,
            "tenant": self.tenant,
            "counted": self.counted,
            "most": self.most,
            "version": self.version,
            "is_default": self.is_default,
            "updated_at": iso_or_none(self.updated_at),
            "updated_by": self.updated_by,
        }


# A class that has a method `list` can't name the type below it.
ListedQuotas = list[Quota]
_DEFAULT = Quota(
    scope=EACH_OWNER,
    tenant=None,
    counted=str(Counted.SCHEDULES),
    most=OWNED_DEFAULT,
    version=0,
    updated_at=None,
    updated_by=None,
)


class Quotas:
    """The quotas of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @joins
    def set(  # noqa: PLR0913 - each quota is an argument
        self,
        scope: str,
        *,
        tenant: str | None = None,
        schedules: int | str | None = None,
        creations: int | str | None = None,
        pending: int | str | None = None,
        reason: str | None = None,
        connection: object | None = None,
    ) -> ListedQuotas:
        """Set quotas of a scope; what is not given stays. "none" lifts one. Return the scope's.

        `schedules` bounds active schedules, `creations` how many are made in a minute, `pending`
        delayed runs. An owner is one of the `tenant`, this application's unless told. What there is
        already stays.
        """
        self._caller.require_operator("set quotas")
        key = self._key(scope, tenant)
        given = {
            Counted.SCHEDULES: schedules,
            Counted.CREATIONS: creations,
            Counted.PENDING: pending,
        }
        most = {
            counted: read_most(key, counted, value)
            for counted, value in given.items()
            if value is not None
        }
        if not most:
            remedy = f"give one of {', '.join(Counted)}"
            raise UsageError("quota", scope, "is asked to change nothing", remedy)
        command = SetQuotas(key=key, most=most, actor=self._caller.ordering(reason))
        return [_quota_view(one) for one in self._store_of(key).set_quotas(command)]

    @joins
    def remove(
        self,
        scope: str,
        *,
        tenant: str | None = None,
        reason: str | None = None,
        connection: object | None = None,
    ) -> None:
        """Take back all that was set for a scope: what is said about each holds again."""
        self._caller.require_operator("take quotas back")
        key = self._key(scope, tenant)
        self._store_of(key).remove_quotas(key, self._caller.ordering(reason))

    def list(self) -> ListedQuotas:
        """Return every quota by scope, and the one that holds for each owner unless it is set.

        To a tenant's caller, those that bind it.
        """
        stored = self._caller.store.list_quotas()
        found = [_quota_view(one) for one in stored if self._concerns(one.key)]
        if any(one.scope == EACH_OWNER for one in found):
            return found
        return sorted([*found, _DEFAULT], key=lambda one: (one.scope, one.tenant or ""))

    def _concerns(self, key: QuotaKey) -> bool:
        """Say whether a quota is one that the caller may see."""
        whose = key.tenant or tenant_of(key.scope)
        return not self._caller.is_confined or whose in {None, self._caller.tenant}

    def _store_of(self, key: QuotaKey) -> Store:
        return self._caller.store_of(key.tenant or self._caller.tenant)

    def _key(self, scope: str, tenant: str | None) -> QuotaKey:
        key = read_quota_scope(
            scope, self._caller.tenant if tenant is None else read_tenant(tenant)
        )
        if tenant is not None and not key.tenant:
            remedy = "leave it out, or name an owner: owner:NAME"
            raise UsageError("tenant", tenant, f"says nothing about {key.scope}", remedy)
        return key


def _quota_view(record: Record) -> Quota:
    return Quota(
        scope=record.key.scope,
        tenant=record.key.tenant or None,
        counted=str(record.counted),
        most=record.most,
        version=record.version,
        updated_at=from_microseconds(record.updated_at),
        updated_by=record.updated_by,
    )


ID_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantinedHost:
    """A host of which no worker claims anything."""

    host: str
    since: datetime
    by: str
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "host": self.host,
            "since": iso_utc(self.since),
            "by": self.by,
            "reason": self.reason,
        }


# A class that has a method `list` can't name the type below it.
ListedWorkers = list["MemberStatus"]
ListedHosts = list[QuarantinedHost]


class Workers:
    """The workers of a fleet."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def list(self) -> ListedWorkers:
        """Return workers that are alive, by id."""
        members = read_status(self._caller).members
        return [member_status(one) for one in members if one.kind is MemberKind.WORKER]

    def quarantined_hosts(self) -> ListedHosts:
        """Return hosts of which no worker claims anything, by name."""
        self._caller.require_operator("look at hosts")
        return [
            QuarantinedHost(
                host=one.host, since=from_microseconds(one.since), by=one.by, reason=one.reason
            )
            for one in self._caller.store.list_quarantined_hosts()
        ]

    @joins
    def drain(
        self, worker: int, *, reason: str | None = None, connection: object | None = None
    ) -> MemberStatus:
        """Let a worker claim nothing more, and end when what it holds is done.

        Its supervisor does not replace it. What runs may take its time; a signal to the process
        sets the grace.
        """
        return self._order(self._ordered(worker, WorkerStatus.DRAINING, reason))

    @joins
    def quarantine(  # noqa: PLR0913 - each choice is an argument
        self,
        worker: int,
        *,
        fence: bool = False,
        host: bool = False,
        reason: str | None = None,
        connection: object | None = None,
    ) -> MemberStatus:
        """Let a worker claim nothing more until it is released; it stays, to be looked at.

        What it holds it finishes; with `fence` it is taken from it, as from one that has died. With
        `host` it holds for all workers of its host, and for those that are started there.
        """
        order = self._ordered(worker, WorkerStatus.QUARANTINED, reason)
        return self._order(replace(order, is_fenced=fence, is_whole_host=host))

    @joins
    def release(
        self,
        worker: int,
        *,
        host: bool = False,
        reason: str | None = None,
        connection: object | None = None,
    ) -> MemberStatus:
        """Let a worker claim again, or with `host` all of its host."""
        order = self._ordered(worker, None, reason)
        return self._order(replace(order, is_whole_host=host))

    def _order(self, order: OrderWorker) -> MemberStatus:
        done = self._caller.store.order_worker(order)
        seen = [one for one in self.list() if one.id == done.id]  # with how much it holds
        return seen[0] if seen else member_status(done)

    def _ordered(
        self, worker: int, standing: WorkerStatus | None, reason: str | None
    ) -> OrderWorker:
        self._caller.require_operator("take workers out of service")
        if type(worker) is not int or not 0 < worker <= ID_MAX:
            remedy = "give the number of a worker: duly worker list"
            raise UsageError("worker", worker, "is not the id of a worker", remedy)
        actor = self._caller.ordering(reason)
        return OrderWorker(worker=MemberId(worker), standing=standing, actor=actor)
