"""What must always hold of a store, as statements that find what does not.

Tables are called by their names on SQLite; `soundness` of each database says what they are there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.ids import identity_text
from duly.store.migrating import changed_migrations, compare
from duly.store.ports.maintenance import IntegrityFinding

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.migrating import Applied
    from duly.store.ports.maintenance import Migration

SHOWN_MAX = 20
DEFECT = "this is a defect: keep the store as it is and report it"


@dataclass(frozen=True, slots=True)
class Invariant:
    """What is wrong, how it is told, and the statement that finds it."""

    what: str
    detail: str
    statement: str
    """Its one column names the culprit."""

    def finding(self, culprit: object) -> IntegrityFinding:
        """Return what is told of a culprit."""
        named = identity_text(culprit) if isinstance(culprit, bytes) else str(culprit)
        return IntegrityFinding(self.what, self.detail.format(named), DEFECT)


INVARIANTS = (
    Invariant(
        "timer",
        "schedule {} is active and has nothing pending, or has something and is not",
        """SELECT s.id FROM duly_schedules s JOIN duly_schedule_state t ON t.schedule_id = s.id
        WHERE (s.status = 'active') <> (t.next_due IS NOT NULL)""",
    ),
    Invariant(
        "schedule",
        "schedule {} lacks its state or its definition",
        """SELECT s.id FROM duly_schedules s
        LEFT JOIN duly_schedule_state t ON t.schedule_id = s.id
        LEFT JOIN duly_schedule_definitions d
            ON d.schedule_id = s.id AND d.number = t.definition_number
        WHERE d.schedule_id IS NULL""",
    ),
    Invariant(
        "schedule",
        "state, definition or debt of {}, which is no schedule",
        """SELECT schedule_id FROM duly_schedule_state
        UNION SELECT schedule_id FROM duly_schedule_definitions
        UNION SELECT schedule_id FROM duly_owed
        EXCEPT SELECT id FROM duly_schedules""",
    ),
    Invariant(
        "place",
        "run {} is in no place",
        """SELECT id FROM duly_runs
        EXCEPT SELECT run_id FROM duly_ready EXCEPT SELECT run_id FROM duly_outcomes
        EXCEPT SELECT run_id FROM duly_claims EXCEPT SELECT run_id FROM duly_waiting
        EXCEPT SELECT run_id FROM duly_dead EXCEPT SELECT run_id FROM duly_blocked
        EXCEPT SELECT run_id FROM duly_ambiguous""",
    ),
    Invariant(
        "place",
        "run {} is in two places",
        """SELECT run_id FROM (
            SELECT run_id FROM duly_ready UNION ALL SELECT run_id FROM duly_outcomes
            UNION ALL SELECT run_id FROM duly_claims UNION ALL SELECT run_id FROM duly_waiting
            UNION ALL SELECT run_id FROM duly_dead UNION ALL SELECT run_id FROM duly_blocked
            UNION ALL SELECT run_id FROM duly_ambiguous) p
        GROUP BY run_id HAVING count(*) > 1""",
    ),
    Invariant(
        "place",
        "a place holds {}, which is no run",
        """SELECT run_id FROM duly_ready UNION SELECT run_id FROM duly_outcomes
        UNION SELECT run_id FROM duly_claims UNION SELECT run_id FROM duly_waiting
        UNION SELECT run_id FROM duly_dead UNION SELECT run_id FROM duly_blocked
        UNION SELECT run_id FROM duly_ambiguous
        EXCEPT SELECT id FROM duly_runs""",
    ),
    Invariant(
        "gate",
        "run {} holds a gate, and is over, waits, or is not there",
        """SELECT h.run_id FROM duly_held_gates h
        WHERE EXISTS (SELECT 1 FROM duly_outcomes o WHERE o.run_id = h.run_id)
            OR EXISTS (SELECT 1 FROM duly_dead x WHERE x.run_id = h.run_id)
            OR EXISTS (SELECT 1 FROM duly_blocked b
                WHERE b.run_id = h.run_id AND substr(b.gate, 1, 4) <> 'cap:')
            OR NOT EXISTS (SELECT 1 FROM duly_runs r WHERE r.id = h.run_id)""",
    ),
    Invariant(
        "attempt",
        "an attempt or what one has told is of {}, which is no run",
        """SELECT run_id FROM duly_attempts UNION SELECT run_id FROM duly_progress
        UNION SELECT run_id FROM duly_lines UNION SELECT run_id FROM duly_checkpoints
        EXCEPT SELECT id FROM duly_runs""",
    ),
    Invariant(
        "attempt",
        "run {} has an attempt that comes after what its place knows of",
        """SELECT a.run_id FROM duly_attempts a JOIN duly_claims c ON c.run_id = a.run_id
        WHERE a.fence >= c.fence
        UNION
        SELECT a.run_id FROM duly_attempts a JOIN duly_waiting w ON w.run_id = a.run_id
        WHERE a.fence > w.fence
        UNION
        SELECT a.run_id FROM duly_attempts a JOIN duly_dead d ON d.run_id = a.run_id
        WHERE a.fence > d.fence
        UNION
        SELECT a.run_id FROM duly_attempts a JOIN duly_ambiguous u ON u.run_id = a.run_id
        WHERE a.fence > u.fence
        UNION
        SELECT a.run_id FROM duly_attempts a JOIN duly_outcomes o ON o.run_id = a.run_id
        WHERE a.fence > o.fence OR (a.fence = o.fence AND o.worker IS NOT NULL)""",
    ),
    Invariant(
        "attempt",
        "run {} has two attempts of one number, or a number is missing among those it started",
        """SELECT run_id FROM duly_attempts WHERE number IS NOT NULL GROUP BY run_id
        HAVING count(*) <> count(DISTINCT number) OR min(number) <> 1
            OR max(number) <> count(*)""",
    ),
    Invariant(
        "place",
        "{} is pending and a run at once",
        "SELECT id FROM duly_delayed INTERSECT SELECT id FROM duly_runs",
    ),
    Invariant(
        "early",
        "run {} fired before it was due",
        "SELECT id FROM duly_runs WHERE fired_at < not_before OR not_before < scheduled_for",
    ),
    Invariant(
        "lease",
        "a lease is owned by member {}, which does not exist",
        """SELECT owner FROM duly_leases WHERE owner IS NOT NULL
        EXCEPT SELECT id FROM duly_members""",
    ),
)


LIMITS = (
    Invariant(
        "limit",
        "run {} holds a place at a limit, and runs no attempt",
        """SELECT h.run_id FROM duly_held_places h
        WHERE NOT EXISTS (SELECT 1 FROM duly_claims c
                WHERE c.run_id = h.run_id AND h.fence IN (0, c.fence))
            AND NOT (h.fence = 0 AND EXISTS (SELECT 1 FROM duly_ready y
                WHERE y.run_id = h.run_id AND y.is_gated))""",
    ),
    Invariant(
        "limit",
        "a turn at a rate is of {}, which is no run",
        "SELECT run_id FROM duly_turns EXCEPT SELECT id FROM duly_runs",
    ),
)
"""About limits."""


EFFECTS = (
    Invariant(
        "effect",
        "effects or a scope are of {}, and no run of that line is there",
        """SELECT root FROM duly_effects UNION SELECT root FROM duly_scopes
        UNION SELECT root FROM duly_scope_items
        EXCEPT SELECT id FROM duly_runs
        EXCEPT SELECT root FROM duly_runs WHERE origin IN ('repair', 'backfill')""",
    ),
    Invariant(
        "effect",
        "run {} intends an effect, and its attempt is over or was never permitted any",
        """SELECT e.run_id FROM duly_effects e
        WHERE e.state = 'intended' AND NOT EXISTS (SELECT 1 FROM duly_claims c
            WHERE c.run_id = e.run_id AND c.fence = e.fence AND c.effects_at IS NOT NULL)""",
    ),
    Invariant(
        "verdict",
        "a verdict is about {}, which is no run",
        "SELECT run_id FROM duly_verdicts EXCEPT SELECT id FROM duly_runs",
    ),
)
"""About effects, scope and verdicts."""


def migration_findings(
    known: Sequence[Migration], has: Applied, name: str
) -> Iterator[IntegrityFinding]:
    """Find what is wrong with the migrations of a store."""
    yield from changed_migrations(known, has)
    status = compare(known, has, name)
    if status.problem is not None:
        yield IntegrityFinding(
            "schema", f"the store {status.problem}", "run `duly db migrate`, or upgrade"
        )
