"""The state of a store on one screen, with aware datetimes."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from duly.domain.durations import duration_text
from duly.domain.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from duly.store.dispatch import LeaseRecord, Member
    from duly.store.reading import StoreStatus


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
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What is promised, what is due, what waits for a worker, and who keeps time."""

    store: str
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

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "store": self.store,
            "now": iso_utc(self.now),
            "schedules": self.schedules,
            "delayed": self.delayed,
            "queued": self.queued,
            "owed": self.owed,
            "overdue": self.overdue,
            "oldest_due_at": None if self.oldest_due_at is None else iso_utc(self.oldest_due_at),
            "next_due_at": None if self.next_due_at is None else iso_utc(self.next_due_at),
            "early_fires": self.early_fires,
            "members": [member.to_json() for member in self.members],
            "leases_owned": self.leases_owned,
            "leases_total": self.leases_total,
            "shards": self.shards,
            "tzdata": self.tzdata,
            "incarnation": self.incarnation,
            "queues": self.queues,
        }


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
        oldest_due_at=_moment(status.oldest_due_at),
        next_due_at=_moment(status.next_due_at),
        early_fires=status.early_fires,
        members=tuple(_member(member, owned) for member in status.members),
        leases_owned=len(owned),
        leases_total=len(status.leases),
        shards=status.shards,
        tzdata=status.tzdata,
        incarnation=status.incarnation,
        queues=dict(sorted(status.queues.items())),
    )


def _member(member: Member, owned: list[LeaseRecord]) -> MemberStatus:
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
    )


def _moment(instant: int | None) -> datetime | None:
    return None if instant is None else from_microseconds(instant)
