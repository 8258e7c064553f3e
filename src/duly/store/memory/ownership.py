"""Members and leases on the memory store: who is alive, and who owns which lane of which shard.

Whoever is found expired by what it orders, or by who would have its leases, is over for good.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject
from duly.store.auditing import SYSTEM
from duly.store.ports.dispatch import (
    Fence,
    Join,
    Lease,
    LeaseKey,
    LeaseRecord,
    Member,
    MemberId,
    MemberKind,
    Renew,
    Renewal,
    WorkerStatus,
)
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.enums import Lane
    from duly.store.memory.tables import Journal


def join(journal: Journal, command: Join) -> MemberId:
    """Register a member under a number that was never used."""
    tables, now = journal.tables, journal.now
    tables.member_number += 1
    member = MemberId(tables.member_number)
    row = Member(
        id=member,
        kind=command.kind,
        host=command.host,
        process=command.process,
        is_alive=True,
        started_at=now,
        renewed_at=now,
        expires_at=now + command.ttl_us,
        skew_us=0,
        is_holding=False,
        tzdata=command.tzdata,
        slots=command.slots,
        queues=command.queues,
        standing=_standing(journal, command),
    )
    journal.insert(tables.members, member, row)
    journal.put(tables.member_tasks, member, frozenset(command.tasks))
    journal.put(tables.wake_addresses, member, command.wake_address)
    return member


def _standing(journal: Journal, command: Join) -> WorkerStatus | None:
    """Return the standing of a process that joins: a quarantine stays with it, or with its host."""
    tables, own = journal.tables, (command.host, command.process)
    is_kept = any(
        member.standing is WorkerStatus.QUARANTINED and (member.host, member.process) == own
        for member in tables.members.values()
    )
    is_worker = command.kind is MemberKind.WORKER
    is_meant = is_worker and (is_kept or command.host in tables.quarantined_hosts)
    return WorkerStatus.QUARANTINED if is_meant else None


def may_claim(journal: Journal, member: MemberId) -> bool:
    """Say whether a worker may take runs: its membership holds, and nobody has ordered other."""
    return seems_alive(journal, member) and journal.tables.members[member].standing is None


def seems_alive(journal: Journal, member: MemberId | None) -> bool:
    """Say whether a membership holds, by the store's clock; one that has expired may be renewed."""
    row = None if member is None else journal.tables.members.get(member)
    if row is None or not row.is_alive:
        return False
    return is_current(row.renewed_at, row.expires_at, journal.now)


def is_alive(journal: Journal, member: MemberId | None) -> bool:
    """Say whether a membership holds; one that has expired is over from then on."""
    if seems_alive(journal, member):
        return True
    if member is not None:
        _end(journal, member)
    return False


def _end(journal: Journal, member: MemberId) -> None:
    row = journal.tables.members.get(member)
    if row is not None and row.is_alive:
        journal.put(journal.tables.members, member, replace(row, is_alive=False))


def renew(journal: Journal, command: Renew) -> Renewal:
    """Extend a membership that still holds."""
    tables, now = journal.tables, journal.now
    alive = is_alive(journal, command.member)
    if alive:
        row = replace(
            tables.members[command.member],
            renewed_at=now,
            expires_at=now + command.ttl_us,
            skew_us=command.skew_us,
            is_holding=command.is_holding,
        )
        journal.put(tables.members, command.member, row)
    dispatchers = tuple(
        row.id
        for row in tables.members.values()
        if row.kind is MemberKind.DISPATCHER and not row.is_holding and seems_alive(journal, row.id)
    )
    return Renewal(
        is_alive=alive,
        now=now,
        dispatchers=dispatchers,
        shards=tables.shards,
        incarnation=tables.cluster["incarnation"],
        tzdata=tables.cluster["tzdata"],
        leases=tuple(
            Lease(key, row.epoch)
            for key, row in sorted(tables.leases.items())
            if alive and row.owner == command.member
        ),
    )


def leave(journal: Journal, member: MemberId) -> None:
    """End a membership and free its leases."""
    tables = journal.tables
    _end(journal, member)
    for lease in [row for row in tables.leases.values() if row.owner == member]:
        journal.put(tables.leases, lease.key, replace(lease, owner=None))


def acquire_leases(journal: Journal, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
    """Take what nobody alive owns; each under a higher epoch."""
    if not is_alive(journal, member):
        return []
    taken: list[Lease] = []
    dead: dict[MemberId, list[str]] = {}
    for key in wanted:
        row = journal.tables.leases.get(key)
        if row is None or is_alive(journal, row.owner):
            continue
        if row.owner is not None:
            dead.setdefault(row.owner, []).append(f"{key.shard}/{key.lane}")
        epoch = row.epoch + 1
        journal.put(journal.tables.leases, key, LeaseRecord(key, epoch, member, journal.now))
        taken.append(Lease(key, epoch))
    for owner, lanes in dead.items():
        after = {"taken_over_by": member, "leases": lanes}
        subject = AuditSubject(name=f"member {owner}", after=after)
        journal.record_about(SYSTEM, "member.declared-dead", subject)
    return taken


def release_leases(journal: Journal, fence: Fence) -> None:
    """Free leases that are still ours at the epoch we know."""
    for lease in fence.leases:
        row = journal.tables.leases.get(lease.key)
        if row is not None and (row.owner, row.epoch) == (fence.member, lease.epoch):
            journal.put(journal.tables.leases, lease.key, replace(row, owner=None))


def held_shards(journal: Journal, fence: Fence, lane: Lane) -> tuple[set[int], list[LeaseKey]]:
    """Return the shards whose lane is ours, and the leases of the fence that are lost."""
    alive = is_alive(journal, fence.member)
    held: set[int] = set()
    lost: list[LeaseKey] = []
    for lease in fence.leases:
        row = journal.tables.leases.get(lease.key)
        is_ours = row is not None and (row.owner, row.epoch) == (fence.member, lease.epoch)
        if not (alive and is_ours):
            lost.append(lease.key)
        elif lease.key.lane == lane:
            held.add(lease.key.shard)
    if lost:
        after = {"leases": [f"{key.shard}/{key.lane}" for key in lost]}
        subject = AuditSubject(name=f"member {fence.member}", after=after)
        journal.record_about(SYSTEM, "lease.refused", subject)
    return held, lost
