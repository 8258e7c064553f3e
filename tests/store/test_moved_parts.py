"""Nothing is left behind by oversight: every column of every table is moved, or named here.

Whoever adds one says which: what is promised goes into `duly.store.ports.transfer`, with a value in the contract's test.
"""

from __future__ import annotations

import apsw
import psycopg
import pytest

import duly
from duly.store.ports.transfer import PARTS
from tests.store.sqlite.made_file import made_file

STAYS = frozenset(
    # Of processes, of this very store, or of whoever reads it.
    [
        "members",
        "worker_tasks",
        "quarantined_hosts",
        "leases",
        "arrivals",
        "cluster",
        "migrations",
        "audit",
        "seals",
        "tallies",
        "tally_changes",
        "tokens",
        "sessions",
        "codes",
        "answers",
        "frozen_sets",
        # What is wrong elsewhere is not wrong here; what is, is raised anew.
        "watch",
        "alerts",
        "alert_deliveries",
    ]
)
DERIVED = frozenset(["timers", "gates", "retry_budgets"])
"""Tables that follow from others."""
COLUMNS_DERIVED = {
    "schedule_state": "shard tenant task queue priority overlap gate name arguments load_at"
    " overlap_count before_last",
    "owed": "shard",
    "delayed": "shard",
    "waiting": "shard",
    "ready": "queue tenant era is_gated schedule_name arguments",
    "claims": "is_gated",
    # By a trigger, out of the run.
    "outcomes": "tenant",
    "attempts": "tenant",
    "dead": "tenant",
    "ambiguous": "tenant",
}


def sqlite_columns(tmp_path) -> set[tuple[str, str]]:
    file = apsw.Connection(str(made_file(tmp_path / "duly.db")))
    rows = file.execute(
        "SELECT m.name, c.name FROM sqlite_schema m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name LIKE 'duly_%'"
    ).fetchall()
    file.close()
    return {(str(table).removeprefix("duly_"), str(column)) for table, column in rows}


def postgres_columns(database: str) -> set[tuple[str, str]]:
    with duly.App(database) as app:
        app.migrate()
    with psycopg.connect(database) as connection:
        return set(
            connection.execute(
                "SELECT c.relname::text, a.attname::text FROM pg_attribute a"
                " JOIN pg_class c ON c.oid = a.attrelid"
                " WHERE c.relnamespace = 'duly'::regnamespace AND c.relkind IN ('r', 'p')"
                " AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped"
            ).fetchall()
        )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_column_is_moved_or_known_to_stay(kind, tmp_path, request):
    if kind == "sqlite":
        there = sqlite_columns(tmp_path)
    else:
        there = postgres_columns(request.getfixturevalue("database"))
    moved = {(name, column.name) for name, part in PARTS.items() for column in part.columns}
    derived = {(table, name) for table, names in COLUMNS_DERIVED.items() for name in names.split()}

    left = {one for one in there - moved - derived if one[0] not in STAYS | DERIVED}

    assert set() == left
    renamed = {("schedule_state", "overlaps")} if kind == "postgres" else set()
    assert set() == moved - there - renamed
