"""What must always hold of the database, looked for by `check`: invariants and migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.invariants import INVARIANTS, SHOWN_MAX, Invariant, migration_findings
from duly.store.migrating import compare
from duly.store.postgres.schema import read_applied

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.postgres.work import Look
    from duly.store.schema import Finding, Migration

OURS = (
    *INVARIANTS,
    Invariant(
        "timer",
        "schedule {} has a pending instant that nobody would find in time",
        """SELECT schedule_id FROM duly_schedule_state
        WHERE (load_at IS NULL) <> (next_due IS NULL)
            OR NOT next_due - load_at BETWEEN 0 AND 10000000""",
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
            ELSE (SELECT count(*) FROM duly_schedules s WHERE s.status = t.name) END""",
    ),
)


def check(look: Look, known: Sequence[Migration], name: str) -> list[Finding]:
    """Return everything that is not as it must be."""
    has = read_applied(look.session)
    found = list(migration_findings(known, has, name))
    if has.rows and compare(known, has, name).is_usable:
        found += _invariants(look)
    return found


def _invariants(look: Look) -> Iterator[Finding]:
    for invariant in OURS:
        # Our tables are in a schema of their own.
        statement = invariant.statement.replace("duly_", "duly.")
        for (culprit,) in look.session.rows(f"{statement} LIMIT {SHOWN_MAX}"):
            yield invariant.finding(culprit)
