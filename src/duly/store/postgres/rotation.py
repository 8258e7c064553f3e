"""Rotation: the leaves of the queue and of the feed take turns, and are emptied as a whole.

The queue and the feed have a leaf for each era, and the cluster's row says which era is written to.
Rows that are deleted one by one leave their space behind until every older transaction has ended;
TRUNCATE gives it back at once, whatever else is open in the database.

The era moves on, at most once a minute unless it has to (below), to a leaf whose part of the feed
is empty: rather to one whose part of the queue is empty, too. If the queue fills every leaf as
nobody works on it, the era moves on all the same after a while, for the feed's sake; a leaf with
runs in it is merely not emptied before they are gone.

Writers read the era in their own statement and lock nothing for it. What can come in between:

* A writer has read the old era, and writes to that leaf after the era has moved on. That does no
  harm: readers look at all leaves, and the row keeps the leaf from being emptied.
* He writes while the leaf is about to be emptied. TRUNCATE takes the leaf for itself; whoever has
  written to it and not committed holds a lock on it until then, so no such row can be there once
  we have it. Only then the leaf is looked at for the last time, with fresh eyes. A row that waits
  for us is written when we are done.
* Somebody reads, for as long as a backup takes. We wait for a twentieth of a second, in which those
  who come after us wait, too; then we leave it for the next time.
* We die in the middle. Then nothing has happened.
* Two of us at once: the lease tells who rotates, and its fence stands in this transaction. Who
  comes from the broom has no lease; then the era moves twice, or a leaf that is empty is emptied.

While somebody's transaction is left open a minute is long: at five thousand runs a second three
hundred thousand dead entries would lie before the first living one, and every claim would pass them
all. The broom sees that it sweeps in vain, and has the era move on at once, every few seconds if
need be. TRUNCATE makes every session plan its statements anew, so it is not done without need.

A snapshot that is older than TRUNCATE finds the leaf empty, rather than as it was. For the feed
that is of no consequence, since what goes is older than any reader's cursor. In the queue nothing
goes: the leaf was empty; an old snapshot sees a moment later what has left it since.

At most one leaf of each is emptied in one go: whoever waits for us waits for a moment. What a
caller's own transaction announces after having been open for longer than announcements are kept may
go unread; the sweep finds it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from psycopg import errors

from duly.domain.enums import Lane
from duly.store.ports.dispatch import LeaseKey
from duly.store.ports.maintenance import Prune, Pruned, PruneKind
from duly.store.postgres.leases import lock_fence
from duly.store.postgres.savepoints import savepoint
from duly.store.postgres.session import first, one
from duly.store.rulings import ARRIVALS_KEPT_US
from duly.store.wakeups import SECOND_US

if TYPE_CHECKING:
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.work import Work

ERAS = 4
ERA_MIN_US = 60 * SECOND_US
ERA_PRESSED_US = 2 * SECOND_US
"""As long, at least, when the leaf is full of what can't be swept away."""
ERA_MAX_US = ARRIVALS_KEPT_US // 2
"""After this long the era moves on although no part of the queue is empty."""

WAIT_BRIEFLY = "SET LOCAL lock_timeout = '50ms'"
READ_ERA = "SELECT era, era_since FROM duly.cluster"
MOVE_ON = "UPDATE duly.cluster SET era = $1::int2, era_since = $2::int8"


@dataclass(frozen=True, slots=True)
class Leaf:
    """The statements about the two tables of one era."""

    era: int
    has_runs: str
    """Whether anything is queued there, and whether the table takes up any space."""
    take_queue: str
    empty_queue: str
    has_arrivals: str
    newest_arrival: str
    """By the number of its transaction: a hint that costs nothing."""
    old_arrivals: str
    take_feed: str
    young_arrivals: str
    empty_feed: str
    delete_arrivals: str


def _leaf(era: int) -> Leaf:
    ready, feed = f"duly.ready_{era}", f"duly.arrivals_{era}"
    return Leaf(
        era=era,
        has_runs=f"""
        SELECT EXISTS (SELECT 1 FROM {ready}), pg_relation_size('{ready}') > 0""",  # noqa: S608
        take_queue=f"LOCK TABLE {ready} IN ACCESS EXCLUSIVE MODE",
        empty_queue=f"TRUNCATE {ready}",
        has_arrivals=f"""
        SELECT EXISTS (SELECT 1 FROM {feed}), pg_relation_size('{feed}') > 0""",  # noqa: S608
        newest_arrival=f"SELECT at FROM {feed} ORDER BY arrived DESC LIMIT 1",  # noqa: S608
        # What this does not see bears a transaction's number that is not lower.
        old_arrivals=f"""
        SELECT count(*), max(at), pg_snapshot_xmin(pg_current_snapshot())::text
        FROM {feed}""",  # noqa: S608
        take_feed=f"LOCK TABLE {feed} IN ACCESS EXCLUSIVE MODE",
        young_arrivals=f"""
        SELECT EXISTS (
            SELECT 1 FROM {feed} WHERE arrived >= $1::xid8 AND at >= $2::int8)""",  # noqa: S608
        empty_feed=f"TRUNCATE {feed}",
        # Numbers grow with time: the old ones come first, and the others are not looked at.
        delete_arrivals=f"""
        DELETE FROM {feed} WHERE ctid = ANY(ARRAY(
            SELECT f.ctid FROM (SELECT ctid, at FROM {feed} ORDER BY arrived LIMIT $2::int8) f
            WHERE f.at < $1::int8))""",  # noqa: S608
    )


LEAVES = tuple(_leaf(era) for era in range(ERAS))


def prune_arrivals(work: Work, limit: int) -> int:
    """Delete what is old in the leaf that is written to: the era has stayed for very long."""
    (era, _) = one(work.session, READ_ERA)
    young_from = work.now - ARRIVALS_KEPT_US
    return work.session.run(LEAVES[era].delete_arrivals, (young_from, limit))


def rotate(connections: Connections, command: Prune, pruned: Pruned) -> Pruned:
    """Empty what can be emptied and let the era move on; add what went to what was pruned."""
    with connections.write(for_dispatch=True) as work:
        held, _ = lock_fence(work, command.fence)
        if LeaseKey(0, Lane.BACKFILL) not in held:
            return pruned  # as is on record already
        work.session.run(WAIT_BRIEFLY)
        era, era_since = one(work.session, READ_ERA)
        others = [LEAVES[(era + step) % ERAS] for step in range(1, ERAS)]
        for leaf in others:
            if _empty_queue(work, leaf):
                break
        removed = 0
        for leaf in others:
            removed = _empty_feed(work, leaf)
            if removed:
                break
        _move_on(work, others, (LEAVES[era], era_since))
    counts = {**pruned.counts, PruneKind.ARRIVALS: pruned.counts[PruneKind.ARRIVALS] + removed}
    return replace(pruned, counts=counts)


def relieve(connections: Connections) -> None:
    """Let the era move on before its time: what lies about in its leaf can't be swept away."""
    with connections.write() as work:
        work.session.run(WAIT_BRIEFLY)
        era, since = one(work.session, READ_ERA)
        others = [LEAVES[(era + step) % ERAS] for step in range(1, ERAS)]
        for leaf in others:
            _empty_queue(work, leaf)
        if not 0 <= work.now - since < ERA_PRESSED_US:
            _go_to(
                work, [leaf for leaf in others if _is_free(work, leaf) and _is_quiet(work, leaf)]
            )


def _empty_queue(work: Work, leaf: Leaf) -> bool:
    """Give back the space of a leaf of the queue from which all runs have gone."""
    has_runs, has_space = one(work.session, leaf.has_runs)
    if has_runs or not has_space:
        return False
    try:
        with savepoint(work.session, "duly_leaf"):
            work.session.run(leaf.take_queue)
            if one(work.session, leaf.has_runs)[0]:
                return False
            work.session.run(leaf.empty_queue)
    except errors.LockNotAvailable:
        return False
    return True


def _empty_feed(work: Work, leaf: Leaf) -> int:
    """Empty a leaf of the feed in which nothing is young; return how many rows it had."""
    young_from = work.now - ARRIVALS_KEPT_US
    hint = first(work.session, leaf.newest_arrival)
    if hint is None or hint[0] >= young_from:
        return 0
    count, newest, unseen_from = one(work.session, leaf.old_arrivals)
    if newest is None or newest >= young_from:
        return 0
    try:
        with savepoint(work.session, "duly_leaf"):
            work.session.run(leaf.take_feed)
            if one(work.session, leaf.young_arrivals, (unseen_from, young_from))[0]:
                return 0
            work.session.run(leaf.empty_feed)
    except errors.LockNotAvailable:
        return 0
    return int(count)


def _move_on(work: Work, others: list[Leaf], present: tuple[Leaf, int]) -> None:
    """Let the era move on, if it has lasted and there is somewhere to go."""
    leaf, since = present
    lasted_us = work.now - since
    # A clock that was put back must not keep the era for ever.
    if 0 <= lasted_us < ERA_MIN_US or not _is_used(work, leaf):
        return
    free = [other for other in others if _is_free(work, other)]
    quiet = [other for other in free if _is_quiet(work, other)]
    is_long = not 0 <= lasted_us < ERA_MAX_US
    _go_to(work, quiet or (free if is_long else []))


def _go_to(work: Work, leaves: list[Leaf]) -> None:
    """Have the first of some leaves written to, if there is one."""
    if leaves:
        with suppress(errors.LockNotAvailable), savepoint(work.session, "duly_era"):
            work.session.run(MOVE_ON, (leaves[0].era, work.now))


def _is_free(work: Work, leaf: Leaf) -> bool:
    """Whether nothing is announced there."""
    return not one(work.session, leaf.has_arrivals)[0]


def _is_quiet(work: Work, leaf: Leaf) -> bool:
    """Whether nothing is queued there."""
    return not one(work.session, leaf.has_runs)[0]


def _is_used(work: Work, leaf: Leaf) -> bool:
    has_queue_space = one(work.session, leaf.has_runs)[1]
    return bool(has_queue_space or one(work.session, leaf.has_arrivals)[1])
