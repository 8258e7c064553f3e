"""Quotas of owners and tenants; owners who have left.

A quota has a scope: `owner:anna` (of one tenant), `owner:*` (each owner separately), `tenant:acme`,
`tenant:*` (each tenant separately), `all`. A quota of a named owner or tenant replaces the one
for each.

An end user is an owner for which a program makes schedules with `owner=`, and not by a declaration.
A declared schedule belongs to the operator of the application, whatever owner it names, and counts
against the tenant only. What an operator makes by hand for an owner counts, but only a quota that
was set bounds the operator's order: the default is for end users.

The functions are pure: they select the quotas that apply to an order, and make the error when one
is reached. The store counts, in the transaction of the order.

Duly keeps no list of owners: an owner is a name on a schedule. An operator marks an owner as gone,
and the mark stands until an operator removes it. It is stored among the quotas, as `gone:anna`,
because an owner who is gone may have no active schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Missed, ScheduleStatus
from duly.domain.schedule_changes import decide_pause
from duly.domain.schedules import TENANT_DEFAULT, tenant_option
from duly.errors import Conflict, OverQuota, UsageError, read_text, shown
from duly.timetable.instants import SECOND_US, from_microseconds, utc_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.schedule_changes import ScheduleChange
    from duly.domain.schedules import ScheduleRecord


OWNED_DEFAULT = 10
"""How many active schedules an end user may have, unless somebody says otherwise."""
MOST_MAX = 100_000
"""What a quota bounds is counted for each order: a larger number would make orders slow."""
WINDOW_US = 60 * SECOND_US
SCOPE_LENGTH_MAX = 250
ALL = "all"
EACH_TENANT = "tenant:*"
EACH_OWNER = "owner:*"
GONE = "gone:"
"""How the scope begins under which an owner is gone; nobody can set a quota of it."""
_SCOPES = 'use "all", "tenant:NAME", "tenant:*" (each), "owner:NAME" or "owner:*" (each)'


_FOR_END_USERS = (
    "The limit is for end users: declared schedules (@app.schedule, duly schedule apply) do not"
    " count, and the default does not bind operators (duly schedule create)"
)


class Counted(StrEnum):
    """What a quota bounds."""

    SCHEDULES = "schedules"
    """Schedules that are active, and those that will be again by themselves."""
    CREATIONS = "creations"
    """Schedules that were made within the last minute."""
    PENDING = "pending"
    """Delayed runs that are pending."""


COUNTED_BY_KIND = {
    "all": (Counted.CREATIONS,),
    "tenant": tuple(Counted),
    "owner": (Counted.SCHEDULES,),
}


class QuotaKey(NamedTuple):
    """Whose quota it is."""

    scope: str
    tenant: str = ""
    """Of an owner's own quota: whose owner; else empty."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """A quota that somebody has set."""

    key: QuotaKey
    counted: Counted
    most: int | None
    """None for no bound, whatever is said about each."""
    version: int
    updated_at: int
    updated_by: str


class Bound(NamedTuple):
    """A quota as it applies to an order."""

    scope: str
    """Whose it is: `owner:anna`, also when it was said about each."""
    counted: Counted
    most: int
    tenant: str | None = None
    """Whose schedules or runs are counted; None for all."""
    owner: str | None = None

    @property
    def name(self) -> str:
        """What those who count against it wait for each other by."""
        return f"{self.counted}:{len(self.tenant or '')}:{self.tenant or ''}:{self.scope}"


def read_scope(value: object, tenant: str) -> QuotaKey:
    """Read a scope; an owner is one of the tenant's."""
    text = read_text("scope", value, SCOPE_LENGTH_MAX)
    kind, _, name = text.partition(":")
    is_known = text == ALL or (kind in ("tenant", "owner") and bool(name.strip()))
    if not is_known or not text.isprintable():
        raise UsageError("scope", text, "is nobody's quota", _SCOPES)
    return QuotaKey(text, tenant if kind == "owner" and name != "*" else "")


def read_most(key: QuotaKey, counted: Counted, value: object) -> int | None:
    """Read how many are the most: a number, or "none" for no bound."""
    kind = key.scope.partition(":")[0]
    allowed = COUNTED_BY_KIND[kind]
    if counted not in allowed:
        remedy = f"{kind} has quotas of {', '.join(allowed)}"
        raise UsageError(str(counted), value, f"is not bounded by {key.scope}", remedy)
    if value == "none":
        return None
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if not is_number or not 0 <= value <= MOST_MAX:  # type: ignore[operator]
        remedy = f'give 0 to {MOST_MAX:,}, or "none" for no bound'
        raise UsageError(str(counted), value, "is out of range", remedy)
    return value  # type: ignore[return-value]


def does_count(record: ScheduleRecord) -> bool:
    """Say whether a schedule counts as active: it fires, or will again by itself."""
    is_coming_back = record.status is ScheduleStatus.PAUSED and record.resume_at is not None
    return record.status is ScheduleStatus.ACTIVE or is_coming_back


def gone_key(tenant: str, owner: str) -> QuotaKey:
    """Return where it stands that an owner is gone."""
    return QuotaKey(f"{GONE}{owner}", tenant)


def keys_of_schedule(tenant: str, owner: str | None) -> list[QuotaKey]:
    """Return whose quotas may bound a schedule, and where it stands that its owner is gone."""
    keys = [QuotaKey(ALL), QuotaKey(EACH_TENANT), QuotaKey(f"tenant:{tenant}")]
    if owner is not None:
        keys += [QuotaKey(EACH_OWNER), QuotaKey(f"owner:{owner}", tenant), gone_key(tenant, owner)]
    return keys


def keys_of_pending(tenant: str) -> list[QuotaKey]:
    """Return whose quotas may bound delayed runs."""
    return [QuotaKey(EACH_TENANT), QuotaKey(f"tenant:{tenant}")]


def may_be_bound(old: ScheduleRecord | None, new: ScheduleRecord) -> bool:
    """Say whether there is one schedule more of somebody's: before anything is read or counted."""
    if not does_count(new):
        return False
    return old is None or not does_count(old) or _end_user(old) != _end_user(new)


def is_taken_on(old: ScheduleRecord | None, new: ScheduleRecord) -> bool:
    """Say whether an owner gets one active schedule more, declared or not."""
    if new.owner is None or not does_count(new):
        return False
    return old is None or not does_count(old) or old.owner != new.owner


def bounds_on_schedule(
    old: ScheduleRecord | None,
    new: ScheduleRecord,
    quotas: Iterable[Quota],
    *,
    is_operator: bool = False,
) -> list[Bound]:
    """Return what bounds an order that has made one schedule more, in the order of waiting.

    An operator's order is bounded by what was set, and not by the default for end users.
    """
    said = {(one.key, one.counted): one.most for one in quotas}
    tenant, owner = new.tenant, _end_user(new)
    whole = QuotaKey(f"tenant:{tenant}")
    found: list[Bound | None] = []
    if old is None:
        found.append(_bound(said, [QuotaKey(ALL)], Counted.CREATIONS))
        keys = [whole, QuotaKey(EACH_TENANT)]
        found.append(_bound(said, keys, Counted.CREATIONS, tenant))
    if old is None or not does_count(old):
        keys = [whole, QuotaKey(EACH_TENANT)]
        found.append(_bound(said, keys, Counted.SCHEDULES, tenant))
    if owner is not None:
        keys = [QuotaKey(f"owner:{owner}", tenant), QuotaKey(EACH_OWNER)]
        if not is_operator:
            said.setdefault((keys[-1], Counted.SCHEDULES), OWNED_DEFAULT)
        bound = _bound(said, keys, Counted.SCHEDULES, tenant)
        found.append(None if bound is None else bound._replace(owner=owner))
    return [one for one in found if one is not None]


def bound_on_pending(tenant: str, quotas: Iterable[Quota]) -> Bound | None:
    """Return what bounds an order that has made delayed runs pending."""
    said = {(one.key, one.counted): one.most for one in quotas}
    keys = [QuotaKey(f"tenant:{tenant}"), QuotaKey(EACH_TENANT)]
    return _bound(said, keys, Counted.PENDING, tenant)


def over_quota(bound: Bound, there: int, *, asked: int = 1, wait_us: int = WINDOW_US) -> OverQuota:
    """Return the error for an order over a quota: which, how many there are, and what to do."""
    problem = {
        Counted.SCHEDULES: f"has {there:,} active schedules, and {bound.most:,} is the most",
        Counted.CREATIONS: f"saw {there:,} schedules made within a minute, and {bound.most:,} is"
        " the most",
        Counted.PENDING: f"has {there:,} delayed runs pending and asks for {asked:,} more, and"
        f" {bound.most:,} is the most",
    }[bound.counted]
    first = {
        Counted.SCHEDULES: "pause or delete one",
        Counted.CREATIONS: f"try again in {-(-wait_us // SECOND_US)} s",
        Counted.PENDING: "wait until some have run, or cancel some",
    }[bound.counted]
    is_elsewhere = bound.owner is not None and bound.tenant != TENANT_DEFAULT
    who = f"{bound.scope} of tenant {bound.tenant}" if is_elsewhere else bound.scope
    of = "" if bound.owner is None else tenant_option(bound.tenant or TENANT_DEFAULT)
    remedy = f"{first}, or raise it: duly quota set {quote(bound.scope)}{of} --{bound.counted} N"
    if bound.owner is not None:
        remedy += f". {_FOR_END_USERS}"
    return OverQuota(who, problem, remedy, bound.most, there)


def free_again_us(bound: Bound, made_at: Sequence[int], now: int) -> int:
    """Return how long it takes until one more may be made, by when the last ones were."""
    if bound.most == 0 or len(made_at) < bound.most:
        return WINDOW_US
    # Once so many of them have gone out of the window that one more fits in.
    return max(sorted(made_at)[-bound.most] + WINDOW_US - now, 1)


def _end_user(record: ScheduleRecord) -> str | None:
    """Return whose quota a schedule counts against, beside the tenant's."""
    return record.owner if record.declared_by is None else None


def _bound(
    said: dict[tuple[QuotaKey, Counted], int | None],
    keys: Sequence[QuotaKey],
    counted: Counted,
    tenant: str | None = None,
) -> Bound | None:
    """Return what the first of them says that says anything."""
    for key in keys:
        if (key, counted) in said:
            most = said[key, counted]
            return None if most is None else Bound(keys[0].scope, counted, most, tenant)
    return None


OWNER_GONE = "its owner is gone"
"""How the reason begins why a schedule is paused whose owner is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DepartedOwner:
    """An owner who is gone."""

    owner: str
    tenant: str
    gone_at: int
    """When it was said first."""
    said_by: str
    active: int = 0
    """How many of their schedules fire all the same, or will again by themselves."""


def gone_record(stored: Quota, active: int = 0) -> DepartedOwner:
    """Return who is gone, from where it stands."""
    return DepartedOwner(
        owner=stored.key.scope.removeprefix(GONE),
        tenant=stored.key.tenant,
        gone_at=stored.updated_at,
        said_by=stored.updated_by,
        active=active,
    )


def gone_reason(owner: str, why: str) -> str:
    """Write why a schedule is paused whose owner is gone."""
    return f"{OWNER_GONE}: {shown(owner)} ({why})"


def decide_gone(record: ScheduleRecord, owner: str, reason: str) -> ScheduleChange | None:
    """Pause what is an owner's and fires, or will again by itself; None for what is not, or rests.

    A pause until a date becomes one without end: else it would fire for nobody.
    """
    if record.owner != owner or not does_count(record):
        return None
    return decide_pause(record, reason=reason, until=None, missed=Missed.SKIP)


def refuse_gone(record: ScheduleRecord, stored: Iterable[Quota]) -> None:
    """Refuse a schedule that would be active for an owner who is gone."""
    if record.owner is None:
        return
    key = gone_key(record.tenant, record.owner)
    said = next((one for one in stored if one.key == key), None)
    if said is None:
        return
    when = utc_text(from_microseconds(said.updated_at))
    problem = f"is gone, as {said.updated_by} has said at {when}; nothing fires for them"
    back = f"duly owner back {quote(record.owner)}{tenant_option(record.tenant)}"
    remedy = f"name another owner, or say that they are back: {back}"
    raise Conflict("owner", record.owner, problem, remedy)
