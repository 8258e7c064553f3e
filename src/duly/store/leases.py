"""Members of the fleet, the lanes of shards that they lease, and the places they wait at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, NewType, Protocol

if TYPE_CHECKING:
    from duly.domain.literals import Lane

MemberId = NewType("MemberId", int)
"""Never reused: a process that is declared dead comes back under a new one."""

MEMBER_TTL_US = 5 * 1_000_000


class MemberKind(StrEnum):
    """What a process does for the fleet."""

    DISPATCHER = "dispatcher"
    WORKER = "worker"


class Standing(StrEnum):
    """Why a worker claims nothing, though it is alive (A1)."""

    DRAINING = "draining"
    QUARANTINED = "quarantined"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Become a member of the fleet."""

    kind: MemberKind
    host: str
    process: int
    ttl_us: int = MEMBER_TTL_US
    tzdata: str = ""
    wake_address: str = ""
    """Where it can be woken, from `Wakeups.address`; empty if nowhere."""
    slots: int = 0
    """Of a worker: how many runs it has room for."""
    queues: tuple[str, ...] = ()
    """Of a worker: those it serves; empty for all."""
    tasks: tuple[str, ...] = ()
    """Of a worker: those whose code it has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A process of the fleet, as the store knows it."""

    id: MemberId
    kind: MemberKind
    host: str
    process: int
    is_alive: bool
    started_at: int
    renewed_at: int
    expires_at: int
    skew_us: int
    is_holding: bool
    """Whether it has stopped firing because its clock disagrees (F7)."""
    tzdata: str
    slots: int = 0
    leaked: int = 0
    """Slots that a thread has taken with it."""
    running: int = 0
    """How many runs it holds; told by `status` alone."""
    queues: tuple[str, ...] = ()
    standing: Standing | None = None
    """Of a worker that people have taken out of service; None for any other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """Stay a member; say what one's own clock showed against the store's."""

    member: MemberId
    ttl_us: int = MEMBER_TTL_US
    skew_us: int = 0
    is_holding: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Renewal:
    """The store's answer: whether one still is a member, the time, and who else is."""

    is_alive: bool
    now: int
    dispatchers: tuple[MemberId, ...]
    """Living dispatchers that are not holding, oneself included, in order."""
    shards: int
    incarnation: int
    """Grows when an operator restores a backup; everybody must join anew."""
    tzdata: str
    """The newest release of time-zone rules that pending instants were computed under."""
    leases: tuple[Lease, ...]
    """What is ours by the store, in order: an order that we took for lost may have arrived."""


class LeaseKey(NamedTuple):
    """What is leased: one lane of one shard."""

    shard: int
    lane: Lane


class Lease(NamedTuple):
    """Ownership of a lane of a shard, with the fence that every write under it carries."""

    key: LeaseKey
    epoch: int


@dataclass(frozen=True, slots=True)
class LeaseRecord:
    """A lease as the store knows it."""

    key: LeaseKey
    epoch: int
    owner: MemberId | None
    acquired_at: int | None


@dataclass(frozen=True, slots=True)
class Fence:
    """Who writes, and under which leases."""

    member: MemberId
    leases: tuple[Lease, ...]


class Wakeups(Protocol):
    """A place to wait at: until a time-out, or until somebody has written something near.

    A hint alone: nothing is lost when a wake-up is.
    """

    address: str

    def wait(self, timeout_us: int) -> bool:
        """Wait at most that long; True when woken. Never raises, never waits longer."""
        ...

    def wake(self) -> None:
        """Wake whoever waits here, from any thread or signal handler."""
        ...

    def nudge(self) -> None:
        """End the wait, though nothing was written; from any thread or signal handler."""
        ...

    def close(self) -> None:
        """Let go of it."""
        ...
