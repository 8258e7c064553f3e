"""What must always hold of the file, looked for by `check`: damage, invariants, migrations."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw

from duly.domain.identity import identity_text
from duly.store.migrating import changed_migrations, compare
from duly.store.schema import Finding
from duly.store.sqlite.schema import read_applied, read_status

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.store.schema import Migration
    from duly.store.sqlite.work import Look

SHOWN_MAX = 20
DAMAGED = "stop every program that uses it and restore a backup"
DEFECT = "this is a defect: keep the file and report it"

# What is wrong, how it is told, and the statement that finds it: one column names the culprit.
INVARIANTS: tuple[tuple[str, str, str], ...] = (
    (
        "timer",
        "schedule {} is active and has nothing pending, or has something and is not",
        """SELECT s.id FROM duly_schedules s JOIN duly_schedule_state t ON t.schedule_id = s.id
        WHERE (s.status = 'active') <> (t.next_due IS NOT NULL)""",
    ),
    (
        "schedule",
        "schedule {} lacks its state or its definition",
        """SELECT s.id FROM duly_schedules s
        LEFT JOIN duly_schedule_state t ON t.schedule_id = s.id
        LEFT JOIN duly_schedule_definitions d
            ON d.schedule_id = s.id AND d.number = t.definition_number
        WHERE d.schedule_id IS NULL""",
    ),
    (
        "schedule",
        "state, definition or debt of {}, which is no schedule",
        """SELECT schedule_id FROM (SELECT schedule_id FROM duly_schedule_state
            UNION SELECT schedule_id FROM duly_schedule_definitions
            UNION SELECT schedule_id FROM duly_owed)
        WHERE schedule_id NOT IN (SELECT id FROM duly_schedules)""",
    ),
    (
        "timer",
        "delayed run {} has no timer",
        """SELECT d.id FROM duly_delayed d LEFT JOIN duly_timers t
            ON t.shard = d.shard AND t.due_at = d.due_at AND t.ref = d.id
            AND t.generation = d.generation
        WHERE t.ref IS NULL""",
    ),
    (
        "timer",
        "a timer stands for {}, which is not pending at that time",
        """SELECT t.ref FROM duly_timers t LEFT JOIN duly_delayed d
            ON d.id = t.ref AND d.due_at = t.due_at AND d.generation = t.generation
        WHERE d.id IS NULL""",
    ),
    (
        "place",
        "run {} is in no place",
        """SELECT id FROM duly_runs WHERE id NOT IN
            (SELECT run_id FROM duly_ready UNION ALL SELECT run_id FROM duly_outcomes)""",
    ),
    (
        "place",
        "run {} is in two places",
        "SELECT run_id FROM duly_ready INTERSECT SELECT run_id FROM duly_outcomes",
    ),
    (
        "place",
        "the queue or the history holds {}, which is no run",
        """SELECT run_id FROM (SELECT run_id FROM duly_ready UNION SELECT run_id FROM duly_outcomes)
        WHERE run_id NOT IN (SELECT id FROM duly_runs)""",
    ),
    (
        "place",
        "{} is pending and a run at once",
        "SELECT id FROM duly_delayed INTERSECT SELECT id FROM duly_runs",
    ),
    (
        "early",
        "run {} fired before it was due",
        "SELECT id FROM duly_runs WHERE fired_at < not_before OR not_before < scheduled_for",
    ),
    (
        "lease",
        "a lease is owned by member {}, which does not exist",
        """SELECT DISTINCT owner FROM duly_leases
        WHERE owner IS NOT NULL AND owner NOT IN (SELECT id FROM duly_members)""",
    ),
    (
        "tally",
        "the tally of {} is wrong",
        """SELECT t.name FROM duly_tallies t WHERE t.count <>
            CASE t.name WHEN 'delayed' THEN (SELECT count(*) FROM duly_delayed)
            ELSE (SELECT count(*) FROM duly_schedules s WHERE s.status = t.name) END""",
    ),
)


def check(look: Look, known: Sequence[Migration], name: str) -> list[Finding]:
    """Return everything that is not as it must be."""
    found: list[Finding] = []
    try:
        found += _damage(look)
        found += _migrations(look, known, name)
        if read_status(look.connection, known, name).is_usable:
            found += _invariants(look)
    except (apsw.CorruptError, apsw.NotADBError) as error:
        found.append(Finding("damage", str(error), DAMAGED))
    return found


def _damage(look: Look) -> Iterator[Finding]:
    for (line,) in look.connection.execute(f"PRAGMA quick_check({SHOWN_MAX})"):
        if line != "ok":
            yield Finding("damage", line, DAMAGED)


def _migrations(look: Look, known: Sequence[Migration], name: str) -> Iterator[Finding]:
    has = read_applied(look.connection)
    yield from changed_migrations(known, has)
    status = compare(known, has, name)
    if status.problem is not None:
        yield Finding("schema", f"the file {status.problem}", "run `duly db migrate`, or upgrade")


def _invariants(look: Look) -> Iterator[Finding]:
    for what, detail, statement in INVARIANTS:
        for (culprit,) in look.connection.execute(f"{statement} LIMIT {SHOWN_MAX}"):
            named = identity_text(culprit) if isinstance(culprit, bytes) else str(culprit)
            yield Finding(what, detail.format(named), DEFECT)
