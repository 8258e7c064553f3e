"""What must always hold of the database, looked for by `check`: invariants and migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.invariants import (
    EFFECTS,
    INVARIANTS,
    LIMITS,
    SHOWN_MAX,
    Invariant,
    migration_findings,
)
from duly.store.migrating import compare
from duly.store.ports.maintenance import IntegrityFinding
from duly.store.postgres.rows import LAG_US
from duly.store.postgres.schema import read_applied
from duly.store.postgres.session import one

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.ports.maintenance import Migration
    from duly.store.postgres.work import Look

READ_DURABILITY = "SELECT current_setting('synchronous_commit')"
OURS = (
    *INVARIANTS,
    *LIMITS,
    *EFFECTS,
    Invariant(
        "timer",
        "schedule {} has a pending instant that nobody would find in time",
        f"""SELECT schedule_id FROM duly_schedule_state
        WHERE (load_at IS NULL) <> (next_due IS NULL) OR (next_for IS NULL) <> (next_due IS NULL)
            OR next_for > next_due OR NOT next_due - load_at BETWEEN 0 AND {LAG_US}""",  # noqa: S608 - a number of ours
    ),
    Invariant(
        "lease",
        "member {} holds other leases than it is said to own",
        # Packed as `leases.packed` does it.
        """SELECT m.id FROM duly_members m WHERE m.ended_at IS NULL AND
            (SELECT coalesce(pg_catalog.array_agg(o.packed ORDER BY o.packed), '{}') FROM (
                SELECT l.epoch << 20 | (l.shard << 4)::int8 | CASE l.lane
                    WHEN 'live' THEN 0 WHEN 'catch-up' THEN 1 ELSE 2 END AS packed
                FROM duly_leases l WHERE l.owner = m.id) o)
            <> (SELECT coalesce(pg_catalog.array_agg(h ORDER BY h), '{}')
                FROM pg_catalog.unnest(m.held) h)""",
    ),
    Invariant(
        "place",
        "run {} is in the queue twice",
        "SELECT run_id FROM duly_ready GROUP BY run_id HAVING count(*) > 1",
    ),
    Invariant(
        "tally",
        "the tally of {} is wrong",
        """SELECT t.name FROM duly_tallies t WHERE
            t.count + (SELECT coalesce(sum(c.change), 0) FROM duly_tally_changes c
                WHERE c.name = t.name) <>
            CASE t.name WHEN 'delayed' THEN (SELECT count(*) FROM duly_delayed)
            WHEN 'seals' THEN (SELECT coalesce(max(number), 0) FROM duly_seals)
            ELSE (SELECT count(*) FROM duly_schedules s WHERE s.status = t.name) END""",
    ),
)


def check(look: Look, known: Sequence[Migration], name: str) -> list[IntegrityFinding]:
    """Return everything that is not as it must be."""
    has = read_applied(look.session)
    found = [*migration_findings(known, has, name), *_durability(look)]
    if has.rows and compare(known, has, name).is_usable:
        found += _invariants(look)
    return found


def _durability(look: Look) -> Iterator[IntegrityFinding]:
    """Find a server that answers before its log is on disk, and that we could not tell otherwise.

    On a connection of our own we have; a pooler's is not ours to change.
    """
    if one(look.session, READ_DURABILITY)[0] == "off":
        detail = "synchronous_commit is off: what was acknowledged may be lost when the server dies"
        remedy = "turn it on for this role or database, or name the server and not the pooler"
        yield IntegrityFinding("durability", detail, remedy)


def _invariants(look: Look) -> Iterator[IntegrityFinding]:
    for invariant in OURS:
        # Our tables are in a schema of their own.
        statement = invariant.statement.replace("duly_", "duly.")
        for (culprit,) in look.session.rows(f"{statement} LIMIT {SHOWN_MAX}"):
            yield invariant.finding(culprit)
