"""A transaction in progress: its connection, its one `now`, and what every operation may write.

Whatever `now` a transaction has read after it got the lock, all of its rows carry that one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.store.auditing import entry_row
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.schedules import NEAR_US
from duly.store.sqlite.rows import one
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    import apsw

    from duly.clock import Clock
    from duly.domain.audit import Actor, AuditSubject
    from duly.store.ports.dispatch import TimerKind

LONG_WAIT_US = SECOND_US // 2
HEARTBEAT_US = 3 * SECOND_US // 2
"""Who could not write for a while could not renew either: after a long wait for the lock, nobody is
judged expired before everybody had the time of a heartbeat to come back."""

READ_CLUSTER = "SELECT shards, judge_after, program_min FROM duly_cluster"
POSTPONE_JUDGING = "UPDATE duly_cluster SET judge_after = ?"
INSERT_ARRIVAL = "INSERT INTO duly_arrivals (shard, kind, ref, at) VALUES (?, ?, ?, ?)"
RUN_ARRIVAL = "delayed"
"""How the feed calls runs, pending ones and those that wait for another attempt: none is both."""
COUNT_ON = "UPDATE duly_tallies SET count = count + ? WHERE name = ?"
INSERT_AUDIT = """
INSERT INTO duly_audit (at, actor, source, reason, action, tenant, subject, subject_id, before,
    after, address, credential)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
LIST_WAKE_ADDRESSES = """
SELECT wake_address FROM duly_members
WHERE ended_at IS NULL AND expires_at > ? AND wake_address <> '' AND kind = ?"""


@dataclass(frozen=True, slots=True)
class Look:
    """A snapshot to read from."""

    connection: apsw.Connection
    now: int


@dataclass(slots=True)
class Work:
    """A transaction that holds the write lock."""

    connection: apsw.Connection
    clock: Clock
    now: int
    shards: int
    judge_after: int
    program_min: int
    began_at: int
    """By the monotonic clock."""
    has_arrivals: bool = False
    """Whether dispatchers have something to hear."""
    has_orders: bool = False
    """Whether workers have: a run to claim, or one to stop."""
    freed: list[str] = field(default_factory=list)
    """Gates that were given back, for whoever lets the next through."""
    wakes: list[str] = field(default_factory=list)
    """Whom to wake once it is committed."""

    def announce(self, kind: TimerKind, ref: bytes, due_at: int, shard: int) -> None:
        """Put a timer on the arrivals feed, if it falls due soon."""
        if due_at - self.now <= NEAR_US:
            told = "schedule" if kind == "schedule" else RUN_ARRIVAL
            self.connection.execute(INSERT_ARRIVAL, (shard, told, ref, self.now))
            self.has_arrivals = True

    def count_on(self, name: str, by: int) -> None:
        """Keep a tally."""
        if by:
            self.connection.execute(COUNT_ON, (by, name))

    def record(self, actor: Actor, action: str, subject: AuditSubject) -> None:
        """Write an audit entry."""
        bindings = entry_row(self.now, actor, action, subject)
        self.connection.execute(INSERT_AUDIT, bindings)


def begin_work(
    connection: apsw.Connection, clock: Clock, waited_us: int, *, has_failed: bool
) -> Work:
    """Read the time under the lock, and what every operation needs to know of the store."""
    now = clock.now_us()
    shards, judge_after, program_min = one(connection, READ_CLUSTER)
    judged_from = counted(judge_after, now)
    work = Work(connection, clock, now, shards, judged_from, program_min, clock.monotonic_us())
    if waited_us > LONG_WAIT_US or has_failed:
        postpone_judging(work, now)
    return work


def end_work(work: Work) -> None:
    """Do what belongs right before the commit."""
    if work.clock.monotonic_us() - work.began_at > LONG_WAIT_US:
        # It was us who kept the others waiting.
        postpone_judging(work, work.clock.now_us())
    if work.has_arrivals:
        _wake(work, MemberKind.DISPATCHER)
    if work.has_orders:
        _wake(work, MemberKind.WORKER)


def _wake(work: Work, kind: MemberKind) -> None:
    found = work.connection.execute(LIST_WAKE_ADDRESSES, (work.now, kind))
    work.wakes += [address for (address,) in found]


def counted(judge_after: int, now: int) -> int:
    """Return from when on expiry is judged: never later than a heartbeat from now.

    What lies further ahead was written by a clock that ran ahead, and does not count.
    """
    return judge_after if judge_after <= now + HEARTBEAT_US else 0


def postpone_judging(work: Work, now: int) -> None:
    """Give everybody the time of one heartbeat before anybody's expiry is judged."""
    work.judge_after = now + HEARTBEAT_US
    work.connection.execute(POSTPONE_JUDGING, (work.judge_after,))
