"""Members and leases: who is alive, who owns which lane of which shard, and the fence.

The fence is the member's own row. It says which leases the member holds; whoever writes as that
member locks it FOR KEY SHARE in the same transaction, which renewals pass. Whoever takes a lease
away, by declaring the member dead, by releasing or by leaving, locks it FOR UPDATE first: he waits
for what is being written under it, and what is written after him reads the row as he left it.
Rows of members are locked before rows of leases, and several in the order of their ids.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from duly.domain.audit import AuditSubject
from duly.domain.enums import Lane
from duly.store.auditing import SYSTEM
from duly.store.ports.dispatch import Fence, Join, Lease, LeaseKey, MemberId, Renew, Renewal
from duly.store.postgres.arrays import Int4s, Int8s, Texts
from duly.store.postgres.session import first, one
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

LANES = (Lane.LIVE, Lane.CATCH_UP, Lane.BACKFILL)
"""In the order of their numbers in a packed lease."""
LANE_BITS = 4
SHARD_BITS = 16

# As `rulings.is_current` says it, of a row m at the time n.now.
IS_CURRENT = """(m.ended_at IS NULL AND n.now < m.expires_at
        AND m.renewed_at - n.now <= m.expires_at - m.renewed_at)"""

INSERT_MEMBER = """
WITH n AS MATERIALIZED (SELECT duly.now_us() AS now),
made AS (
    INSERT INTO duly.members (kind, host, process, started_at, renewed_at, expires_at, skew_us,
        is_holding, tzdata, wake_address, slots, queues, standing)
    SELECT $1, $2, $3::int8, now, now, now + $4::int8, 0, false, $5, $6, $7::int4, $8::text[],
        CASE WHEN $1::text = 'worker' AND (
            EXISTS (SELECT 1 FROM duly.members m
                WHERE m.host = $2::text AND m.process = $3::int8 AND m.standing = 'quarantined')
            OR EXISTS (SELECT 1 FROM duly.quarantined_hosts h WHERE h.host = $2::text))
            THEN 'quarantined' END
    FROM n
    RETURNING id, started_at),
known AS (
    INSERT INTO duly.worker_tasks (worker, task)
    SELECT made.id, task FROM made CROSS JOIN pg_catalog.unnest($9::text[]) task)
SELECT id, started_at FROM made"""
# A renewal that a crash of the server loses makes us look dead a little earlier, which is safe: so
# nobody waits for the disk. One that comes too late ends the membership, for good.
RENEW = f"""
WITH c AS MATERIALIZED (SELECT set_config('synchronous_commit', 'off', true)),
n AS MATERIALIZED (SELECT duly.now_us() AS now FROM c),
r AS (
    UPDATE duly.members m
    SET renewed_at = CASE WHEN {IS_CURRENT} THEN n.now ELSE m.renewed_at END,
        expires_at = CASE WHEN {IS_CURRENT} THEN n.now + $2::int8 ELSE m.expires_at END,
        ended_at = CASE WHEN {IS_CURRENT} THEN NULL ELSE n.now END,
        skew_us = $3::int8, is_holding = $4::bool
    FROM n WHERE m.id = $1::int8 AND m.ended_at IS NULL
    RETURNING m.ended_at IS NULL AS is_alive, m.held)
SELECT n.now, coalesce((SELECT is_alive FROM r), false), (SELECT held FROM r),
    ARRAY(SELECT m.id FROM duly.members m
        WHERE m.kind = 'dispatcher' AND NOT m.is_holding AND m.id <> $1::int8 AND {IS_CURRENT}),
    s.shards, s.incarnation, s.tzdata, s.program_min
FROM n CROSS JOIN duly.cluster s WHERE s.id = 1"""  # noqa: S608 - a condition of ours

LOCK_MEMBERS = """
SELECT id, renewed_at, expires_at, ended_at FROM duly.members
WHERE id = ANY($1::int8[]) ORDER BY id FOR UPDATE"""
READ_MEMBERS = """
SELECT id, renewed_at, expires_at, ended_at FROM duly.members WHERE id = ANY($1::int8[])"""
LOCK_FENCE = """
SELECT held, renewed_at, expires_at, ended_at FROM duly.members WHERE id = $1::int8 FOR KEY SHARE"""
END_MEMBERS = """
UPDATE duly.members SET ended_at = coalesce(ended_at, $2::int8), held = '{}'
WHERE id = ANY($1::int8[])"""
# Also once nobody asks any more: what has expired stays so, whatever the clock does.
END_EXPIRED = f"""
WITH n AS MATERIALIZED (SELECT duly.now_us() AS now)
UPDATE duly.members m SET ended_at = n.now
FROM n WHERE m.id = $1::int8 AND m.ended_at IS NULL AND NOT {IS_CURRENT}"""  # noqa: S608
READ_LEASES = """
SELECT l.shard, l.lane, l.owner
FROM unnest($1::int4[], $2::text[]) WITH ORDINALITY u(shard, lane, place)
JOIN duly.leases l ON l.shard = u.shard AND l.lane = u.lane ORDER BY u.place"""
TAKE_LEASES = """
WITH free AS MATERIALIZED (
    SELECT l.shard, l.lane
    FROM unnest($1::int4[], $2::text[]) u(shard, lane)
    JOIN duly.leases l ON l.shard = u.shard AND l.lane = u.lane
    WHERE l.owner IS NULL OR l.owner = ANY($3::int8[])
    ORDER BY l.shard, l.lane FOR UPDATE OF l)
UPDATE duly.leases l SET owner = $4::int8, epoch = l.epoch + 1, acquired_at = $5::int8
FROM free WHERE l.shard = free.shard AND l.lane = free.lane
RETURNING l.shard, l.lane, l.epoch"""
ADD_HELD = (
    "UPDATE duly.members SET held = pg_catalog.array_cat(held, $2::int8[]) WHERE id = $1::int8"
)
DROP_HELD = """
UPDATE duly.members SET held = ARRAY(SELECT h FROM pg_catalog.unnest(held) h WHERE h <> ALL
    ($2::int8[]))
WHERE id = $1::int8"""
FREE_LEASES = """
WITH ours AS MATERIALIZED (
    SELECT l.shard, l.lane
    FROM unnest($1::int4[], $2::text[], $3::int8[]) u(shard, lane, epoch)
    JOIN duly.leases l ON l.shard = u.shard AND l.lane = u.lane AND l.epoch = u.epoch
    WHERE l.owner = $4::int8 ORDER BY l.shard, l.lane FOR UPDATE OF l)
UPDATE duly.leases l SET owner = NULL
FROM ours WHERE l.shard = ours.shard AND l.lane = ours.lane"""
FREE_ALL = """
WITH ours AS MATERIALIZED (
    SELECT shard, lane FROM duly.leases WHERE owner = $1::int8 ORDER BY shard, lane FOR UPDATE)
UPDATE duly.leases l SET owner = NULL
FROM ours WHERE l.shard = ours.shard AND l.lane = ours.lane"""
NOTE_TZDATA = """
UPDATE duly.cluster SET tzdata = $1 WHERE id = 1 AND tzdata COLLATE "C" <= $1 RETURNING 1"""


@lru_cache(maxsize=8192)
def packed(lease: Lease) -> int:
    """Return a lease as one number: what is leased, and the epoch."""
    key = lease.key
    return lease.epoch << (SHARD_BITS + LANE_BITS) | key.shard << LANE_BITS | LANES.index(key.lane)


def unpacked(number: int) -> Lease:
    """Return the lease that a number stands for."""
    lane = LANES[number & ((1 << LANE_BITS) - 1)]
    shard = number >> LANE_BITS & ((1 << SHARD_BITS) - 1)
    return Lease(LeaseKey(shard, lane), number >> (SHARD_BITS + LANE_BITS))


def join(session: Session, command: Join) -> tuple[MemberId, int]:
    """Register a member under an id that was never used."""
    values = (
        command.kind,
        command.host,
        command.process,
        command.ttl_us,
        command.tzdata,
        command.wake_address,
        command.slots,
        Texts(command.queues),
        Texts(sorted(set(command.tasks))),
    )
    member, now = one(session, INSERT_MEMBER, values)
    return MemberId(member), now


def renew(session: Session, command: Renew) -> tuple[Renewal, int]:
    """Extend a membership that still holds, and say who else is there; and the schema's age."""
    values = (command.member, command.ttl_us, command.skew_us, command.is_holding)
    now, alive, held, others, shards, incarnation, tzdata, program_min = one(session, RENEW, values)
    dispatchers = [MemberId(member) for member in others]
    if alive and not command.is_holding:
        dispatchers.append(command.member)
    renewal = Renewal(
        is_alive=alive,
        now=now,
        dispatchers=tuple(sorted(dispatchers)),
        shards=shards,
        incarnation=incarnation,
        tzdata=tzdata,
        leases=_in_order(held if alive else ()),
    )
    return renewal, program_min


def leave(work: Work, member: MemberId) -> None:
    """End a membership and free its leases."""
    work.session.rows(LOCK_MEMBERS, (Int8s([member]),))
    work.session.run(END_MEMBERS, (Int8s([member]), work.look_at_the_clock()))
    work.session.run(FREE_ALL, (member,))


def acquire_leases(work: Work, member: MemberId, wanted: Sequence[LeaseKey]) -> list[Lease]:
    """Take what nobody alive owns; each under a higher epoch."""
    session = work.session
    keys = (Int4s([key.shard for key in wanted]), Texts([key.lane for key in wanted]))
    owners: dict[int, list[str]] = {}
    for shard, lane, owner in session.rows(READ_LEASES, keys):
        if owner is not None:
            owners.setdefault(owner, []).append(f"{shard}/{lane}")
    # Those who seem alive are not locked: they would be held up for nothing.
    current = _current(work, session.rows(READ_MEMBERS, (Int8s([*owners]),)))
    suspects = [owner for owner in owners if owner not in current]
    found = session.rows(LOCK_MEMBERS, (Int8s(sorted({*suspects, member})),))
    work.look_at_the_clock()
    current = _current(work, found)
    if member not in current:
        _end_if_found_expired(work, member, found)
        return []
    dead = [owner for owner in suspects if owner not in current]
    taken = _take(work, member, keys, dead)
    freed = {f"{lease.key.shard}/{lease.key.lane}" for lease in taken}
    for owner in dead:
        leases = [text for text in owners[owner] if text in freed]
        after = {"taken_over_by": member, "leases": leases}
        if leases:
            subject = AuditSubject(name=f"member {owner}", after=after)
            work.record(SYSTEM, "member.declared-dead", subject)
    # In the order they were asked for.
    by_key = {lease.key: lease for lease in taken}
    return [by_key[key] for key in wanted if key in by_key]


def release_leases(work: Work, fence: Fence) -> None:
    """Free leases that are still ours at the epoch we know."""
    work.session.rows(LOCK_MEMBERS, (Int8s([fence.member]),))
    work.session.run(DROP_HELD, (fence.member, Int8s([packed(one) for one in fence.leases])))
    values = (
        Int4s([lease.key.shard for lease in fence.leases]),
        Texts([lease.key.lane for lease in fence.leases]),
        Int8s([lease.epoch for lease in fence.leases]),
        fence.member,
    )
    work.session.run(FREE_LEASES, values)


def held_shards(work: Work, fence: Fence, lane: Lane) -> tuple[set[int], list[LeaseKey]]:
    """Return the shards whose lane is ours, and the leases of the fence that are lost.

    From here to the end of the transaction they stay ours.
    """
    held, lost = lock_fence(work, fence)
    if lost:
        record_refused(work, fence, lost)
    return {key.shard for key in held if key.lane is lane}, lost


def lock_fence(work: Work, fence: Fence) -> tuple[list[LeaseKey], list[LeaseKey]]:
    """Hold on to the member's row; return which leases of the fence are ours, and which are not."""
    row = first(work.session, LOCK_FENCE, (fence.member,))
    now = work.look_at_the_clock()
    numbers: frozenset[int] = frozenset()
    if row is not None and row[3] is None:
        if is_current(row[1], row[2], now):
            numbers = frozenset(row[0])
        else:
            work.session.run(END_EXPIRED, (fence.member,))
    return divided(fence, numbers)


def divided(fence: Fence, numbers: Iterable[int]) -> tuple[list[LeaseKey], list[LeaseKey]]:
    """Divide the leases of a fence into those that are held and those that are lost."""
    have = frozenset(numbers)
    held = [lease.key for lease in fence.leases if packed(lease) in have]
    lost = [lease.key for lease in fence.leases if packed(lease) not in have]
    return held, lost


def record_refused(work: Work, fence: Fence, lost: Sequence[LeaseKey]) -> None:
    """Put on record that somebody wrote who was no longer the owner."""
    after = {"leases": [f"{key.shard}/{key.lane}" for key in lost]}
    work.record(SYSTEM, "lease.refused", AuditSubject(name=f"member {fence.member}", after=after))


def note_tzdata(session: Session, release: str) -> bool:
    """Remember the newest release; names of releases sort by age."""
    return bool(session.rows(NOTE_TZDATA, (release,)))


def _take(
    work: Work, member: MemberId, keys: tuple[Int4s, Texts], dead: Sequence[int]
) -> list[Lease]:
    if dead:
        work.session.run(END_MEMBERS, (Int8s(dead), work.now))
    rows = work.session.rows(TAKE_LEASES, (*keys, Int8s(dead), member, work.now))
    taken = [Lease(LeaseKey(shard, Lane(lane)), epoch) for shard, lane, epoch in rows]
    if taken:
        work.session.run(ADD_HELD, (member, Int8s([packed(lease) for lease in taken])))
    return taken


def _current(work: Work, rows: Iterable[tuple[int, int, int, int | None]]) -> set[int]:
    return {
        member
        for member, renewed_at, expires_at, ended_at in rows
        if ended_at is None and is_current(renewed_at, expires_at, work.now)
    }


def _end_if_found_expired(
    work: Work, member: MemberId, rows: Iterable[tuple[int, int, int, int | None]]
) -> None:
    if any(row[0] == member for row in rows):
        work.session.run(END_EXPIRED, (member,))


def _in_order(held: Iterable[int]) -> tuple[Lease, ...]:
    # As text, because that is the order in which lanes are listed everywhere.
    leases = [unpacked(number) for number in held]
    return tuple(sorted(leases, key=lambda lease: (lease.key.shard, str(lease.key.lane))))
