"""A transaction in progress: its session, its `now`, and what every operation may write."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.store.auditing import entry_row
from duly.store.ports.schedules import NEAR_US
from duly.store.postgres.arrays import Int4s, Uuids
from duly.store.postgres.session import as_values, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.audit import Actor, AuditSubject
    from duly.store.ports.dispatch import TimerKind
    from duly.store.postgres.session import Session

READ_NOW = "SELECT duly.now_us()"
INSERT_ARRIVALS = """
INSERT INTO duly.arrivals (at, ref, shard, era, is_schedule)
SELECT $1::int8, u.ref, u.shard, (SELECT era FROM duly.cluster WHERE id = 1), $2::bool
FROM unnest($3::uuid[], $4::int4[]) u(ref, shard)"""
COUNT_ON = "INSERT INTO duly.tally_changes (name, change) VALUES ($1, $2::int8)"
INSERT_AUDIT = """
INSERT INTO duly.audit (at, actor, source, reason, action, tenant, subject, subject_id, before,
    after, address, credential)
VALUES ($1::int8, $2, $3, $4, $5, $6, $7, $8::uuid, $9, $10, $11, $12)"""


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot to read from."""

    session: Session
    now: int


@dataclass(slots=True)
class Work:
    """A transaction that may write."""

    session: Session
    now: int
    """The store's clock: when the transaction began, or when it last got what it waited for."""
    shards: int
    is_callers: bool = False
    """Whether the caller commits it, at whatever time."""
    has_arrivals: bool = False
    """Whether dispatchers are to be woken once it is committed."""
    has_orders: bool = False
    """Whether workers are: there is a run to claim, or one to stop."""
    freed: list[str] = field(default_factory=list)
    """Gates that were given back, for whoever lets the next through."""

    def look_at_the_clock(self) -> int:
        """Read the time anew, after what was waited for is ours: it may have taken a while."""
        self.now = int(one(self.session, READ_NOW)[0])
        return self.now

    def announce(self, kind: TimerKind, ref: bytes, due_at: int, shard: int) -> None:
        """Put a timer on the arrivals feed, if it falls due soon."""
        self.announce_all(kind, [(ref, due_at, shard)])

    def announce_all(self, kind: TimerKind, timers: Sequence[tuple[bytes, int, int]]) -> None:
        """Put those of some timers on the feed (ref, due, shard) that fall due soon.

        The feed tells schedules from runs; a run is pending or waits for another attempt, not both.
        In a transaction of the caller's any of them may: nobody knows when it commits.
        """
        last = self.now + NEAR_US
        near = [(ref, shard) for ref, due_at, shard in timers if self.is_callers or due_at <= last]
        if near:
            refs, shards = zip(*near, strict=True)
            values = (self.now, kind == "schedule", Uuids(refs), Int4s(shards))
            self.session.run(INSERT_ARRIVALS, values)
            self.has_arrivals = True

    def count_on(self, name: str, by: int) -> None:
        """Keep a tally."""
        if by:
            self.session.run(COUNT_ON, (name, by))

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        values = as_values(entry_row(self.now, actor, action, subject))
        self.session.run(INSERT_AUDIT, values)
