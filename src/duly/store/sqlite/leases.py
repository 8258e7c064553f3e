"""Members and leases: who is alive, who owns which lane of which shard, and the fence.

A membership ends by expiry on the store's clock, by leaving, or by being declared dead; once it has
been found ended it stays so, whatever the clock does. A clock that ran ahead and was put right
leaves memberships that seem to last for long: those are over too. Nobody is judged before
`judge_after`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject
from duly.domain.enums import Lane
from duly.store.auditing import SYSTEM
from duly.store.ports.dispatch import Fence, Join, Lease, LeaseKey, MemberId, Renew, Renewal
from duly.store.rulings import is_current
from duly.store.sqlite.rows import IS_ALIVE, one

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.records import Row
    from duly.store.sqlite.work import Work

INSERT_MEMBER = """
INSERT INTO duly_members (kind, host, process, started_at, renewed_at, expires_at, skew_us,
    is_holding, tzdata, wake_address, slots, queues, standing)
SELECT ?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7, ?8, ?9, ?10,
    CASE WHEN ?1 = 'worker' AND (
        EXISTS (SELECT 1 FROM duly_members
            WHERE host = ?2 AND process = ?3 AND standing = 'quarantined')
        OR EXISTS (SELECT 1 FROM duly_quarantined_hosts WHERE host = ?2)) THEN 'quarantined' END
WHERE true RETURNING id"""
INSERT_WORKER_TASK = """
INSERT INTO duly_worker_tasks (task, worker) VALUES (?, ?) ON CONFLICT DO NOTHING"""
READ_MEMBERSHIP = """
SELECT renewed_at, expires_at, standing FROM duly_members WHERE id = ? AND ended_at IS NULL"""
RENEW_MEMBER = """
UPDATE duly_members SET renewed_at = ?, expires_at = ?, skew_us = ?, is_holding = ? WHERE id = ?"""
END_MEMBER = "UPDATE duly_members SET ended_at = ? WHERE id = ? AND ended_at IS NULL"
READ_FLEET = "SELECT incarnation, tzdata FROM duly_cluster"
LIST_DISPATCHERS = f"""
SELECT id FROM duly_members
WHERE kind = 'dispatcher' AND is_holding = 0 AND {IS_ALIVE}
ORDER BY id"""  # noqa: S608 - a condition of ours
LIST_OWNED = "SELECT shard, lane, epoch FROM duly_leases WHERE owner = ? ORDER BY shard, lane"
FREE_ALL = "UPDATE duly_leases SET owner = NULL WHERE owner = ?"
READ_LEASE = "SELECT epoch, owner FROM duly_leases WHERE shard = ? AND lane = ?"
# The write lock is held from before the owner was looked at, so nobody takes it in between.
TAKE_LEASE = """
UPDATE duly_leases SET owner = ?, epoch = epoch + 1, acquired_at = ?
WHERE shard = ? AND lane = ? RETURNING epoch"""
FREE_LEASE = """
UPDATE duly_leases SET owner = NULL WHERE shard = ? AND lane = ? AND epoch = ? AND owner = ?"""
NOTE_TZDATA = "UPDATE duly_cluster SET tzdata = ?1 WHERE tzdata <= ?1 RETURNING 1"


def join(work: Work, command: Join) -> MemberId:
    """Register a member under an id that was never used."""
    row = (
        command.kind,
        command.host,
        command.process,
        work.now,
        work.now,
        work.now + command.ttl_us,
        command.tzdata,
        command.wake_address,
        command.slots,
        json.dumps(command.queues),
    )
    member = MemberId(one(work.connection, INSERT_MEMBER, row)[0])
    work.connection.executemany(INSERT_WORKER_TASK, [(task, member) for task in command.tasks])
    return member


def is_alive(work: Work, member: MemberId) -> bool:
    """Say whether a membership holds; one that has expired is over from then on."""
    if seems_alive(work, member):
        return True
    work.connection.execute(END_MEMBER, (work.now, member))
    return False


def may_claim(work: Work, member: MemberId) -> bool:
    """Say whether a worker may take runs: its membership holds, and nobody has ordered other."""
    row = _membership(work, member)
    return row is not None and row[2] is None and _holds(work, row)


def seems_alive(work: Work, member: MemberId) -> bool:
    """Say whether a membership holds; one that has expired may still be renewed."""
    row = _membership(work, member)
    return row is not None and _holds(work, row)


def _membership(work: Work, member: MemberId) -> Row | None:
    return work.connection.execute(READ_MEMBERSHIP, (member,)).fetchone()


def _holds(work: Work, row: Row) -> bool:
    renewed_at, expires_at, _ = row
    return work.now < work.judge_after or is_current(renewed_at, expires_at, work.now)


def renew(work: Work, command: Renew) -> Renewal:
    """Extend a membership that still holds, and say who else is there."""
    connection, now = work.connection, work.now
    alive = is_alive(work, command.member)
    if alive:
        until = now + command.ttl_us
        row = (now, until, command.skew_us, int(command.is_holding), command.member)
        connection.execute(RENEW_MEMBER, row)
    found = connection.execute(LIST_DISPATCHERS, (now, work.judge_after))
    dispatchers = tuple(MemberId(member) for (member,) in found)
    incarnation, tzdata = one(connection, READ_FLEET)
    owned = connection.execute(LIST_OWNED, (command.member,)) if alive else ()
    return Renewal(
        is_alive=alive,
        now=now,
        dispatchers=dispatchers,
        shards=work.shards,
        incarnation=incarnation,
        tzdata=tzdata,
        leases=tuple(Lease(LeaseKey(shard, Lane(lane)), epoch) for shard, lane, epoch in owned),
    )


def leave(work: Work, member: MemberId) -> None:
    """End a membership and free its leases."""
    work.connection.execute(END_MEMBER, (work.now, member))
    work.connection.execute(FREE_ALL, (member,))


def acquire_leases(work: Work, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
    """Take what nobody alive owns; each under a higher epoch."""
    if not is_alive(work, member):
        return []
    taken: list[Lease] = []
    dead: dict[MemberId, list[str]] = {}
    for key in wanted:
        row = work.connection.execute(READ_LEASE, (key.shard, key.lane)).fetchone()
        if row is None:
            continue
        owner = row[1]
        if owner is not None:
            if is_alive(work, owner):
                continue
            dead.setdefault(owner, []).append(_text(key))
        bindings = (member, work.now, key.shard, key.lane)
        (epoch,) = one(work.connection, TAKE_LEASE, bindings)
        taken.append(Lease(key, epoch))
    for owner, leases in dead.items():
        after = {"taken_over_by": member, "leases": leases}
        work.record(
            SYSTEM, "member.declared-dead", AuditSubject(name=f"member {owner}", after=after)
        )
    return taken


def release_leases(work: Work, fence: Fence) -> None:
    """Free leases that are still ours at the epoch we know."""
    leases = [
        (lease.key.shard, lease.key.lane, lease.epoch, fence.member) for lease in fence.leases
    ]
    work.connection.executemany(FREE_LEASE, leases)


def held_shards(work: Work, fence: Fence, lane: Lane) -> tuple[set[int], list[LeaseKey]]:
    """Return the shards whose lane is ours, and the leases of the fence that are lost."""
    owned: set[Row] = set()
    if is_alive(work, fence.member):
        owned.update(work.connection.execute(LIST_OWNED, (fence.member,)))
    held: set[int] = set()
    lost: list[LeaseKey] = []
    for key, epoch in fence.leases:
        if (key.shard, key.lane, epoch) not in owned:
            lost.append(key)
        elif key.lane == lane:
            held.add(key.shard)
    if lost:
        after = {"leases": [_text(key) for key in lost]}
        subject = AuditSubject(name=f"member {fence.member}", after=after)
        work.record(SYSTEM, "lease.refused", subject)
    return held, lost


def note_tzdata(work: Work, release: str) -> bool:
    """Remember the newest release; names of releases sort by age."""
    return bool(work.connection.execute(NOTE_TZDATA, (release,)).fetchall())


def _text(key: LeaseKey) -> str:
    return f"{key.shard}/{key.lane}"
