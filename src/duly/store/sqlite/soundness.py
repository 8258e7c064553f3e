"""What must always hold of the file, looked for by `check`: damage, invariants, migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from duly.store.invariants import (
    EFFECTS,
    INVARIANTS,
    LIMITS,
    SHOWN_MAX,
    Invariant,
    migration_findings,
)
from duly.store.ports.maintenance import IntegrityFinding
from duly.store.sqlite.schema import read_applied, read_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.ports.maintenance import Migration
    from duly.store.sqlite.work import Look

DAMAGED = "stop every program that uses it and restore a backup"

OURS = (
    *INVARIANTS,
    *LIMITS,
    *EFFECTS,
    Invariant(
        "timer",
        "delayed run {} has no timer",
        """SELECT d.id FROM duly_delayed d LEFT JOIN duly_timers t
            ON t.shard = d.shard AND t.due_at = d.due_at AND t.ref = d.id
            AND t.generation = d.generation
        WHERE t.ref IS NULL""",
    ),
    Invariant(
        "timer",
        "a timer stands for {}, which is not pending at that time",
        """SELECT t.ref FROM duly_timers t LEFT JOIN duly_delayed d
            ON d.id = t.ref AND d.due_at = t.due_at AND d.generation = t.generation
        WHERE d.id IS NULL""",
    ),
    Invariant(
        "tally",
        "the tally of {} is wrong",
        """SELECT t.name FROM duly_tallies t WHERE t.count <>
            CASE t.name WHEN 'delayed' THEN (SELECT count(*) FROM duly_delayed)
            WHEN 'retrying' THEN (SELECT count(*) FROM duly_waiting)
            WHEN 'dead' THEN (SELECT count(*) FROM duly_dead)
            WHEN 'seals' THEN (SELECT coalesce(max(number), 0) FROM duly_seals)
            ELSE (SELECT count(*) FROM duly_schedules s WHERE s.status = t.name) END""",
    ),
)


def check(look: Look, known: Sequence[Migration], name: str) -> list[IntegrityFinding]:
    """Return everything that is not as it must be."""
    found: list[IntegrityFinding] = []
    try:
        found += _damage(look)
        found += migration_findings(known, read_applied(look.connection), name)
        if read_status(look.connection, known, name).is_usable:
            found += _invariants(look)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        found.append(IntegrityFinding("damage", str(error), DAMAGED))
    return found


def _damage(look: Look) -> Iterator[IntegrityFinding]:
    for (line,) in look.connection.execute(f"PRAGMA quick_check({SHOWN_MAX})"):
        if line != "ok":
            yield IntegrityFinding("damage", line, DAMAGED)


def _invariants(look: Look) -> Iterator[IntegrityFinding]:
    for invariant in OURS:
        found = look.connection.execute(f"{invariant.statement} LIMIT {SHOWN_MAX}")
        yield from (invariant.finding(culprit) for (culprit,) in found)
