"""Searching in a file: it asks about one run after the other, as asking costs next to nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.ports.queries import PAGE_MAX, Bounds, attempt_matches
from duly.store.search_steps import Dialect, Search
from duly.store.sqlite.attempts import list_attempts
from duly.store.sqlite.delayed import read_run
from duly.store.sqlite.filtering import SqliteWhere
from duly.store.sqlite.rows import AUDIT_COLUMNS
from duly.store.walks import STRAY_MS, Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.runs import AttemptRecord, RunRecord
    from duly.store.filters import Where
    from duly.store.ports.queries import AttemptFilter
    from duly.store.records import Row
    from duly.store.sqlite.work import Look

# Each as the index says it, to the letter, or that would not be used.
STRAY = f"""(p.scheduled_for < 0 OR (p.origin NOT IN ('schedule', 'catch-up')
    AND hex(substr(p.id, 1, 6)) NOT BETWEEN format('%012X', p.scheduled_for / 1000 - {STRAY_MS})
        AND format('%012X', p.scheduled_for / 1000 + {STRAY_MS})))"""
NOTED = "(p.state <> 'succeeded' OR p.reason IS NOT NULL)"
FAILED = "p.error IS NOT NULL"


BOUNDS = Bounds(looked_at=1_000, texts=250)
"""Less than elsewhere: a row that is not in memory has to be read by whoever asks."""


class SqliteSearch(Search):
    """A search in one snapshot of a file."""

    dialect = Dialect(
        prefix="duly_",
        bare="{}",
        audit_columns=AUDIT_COLUMNS,
        # Not any join: this one keeps its order.
        runs="CROSS JOIN duly_runs r ON r.id = i.id",
        marks=Marks(outcome=NOTED, error=FAILED, stray=STRAY, has_tenants=False),
    )

    def __init__(self, look: Look, bounds: Bounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._look = look

    def _where(self) -> Where:
        return SqliteWhere()

    def _rows(self, sql: str, where: Where) -> list[Row]:
        return self._look.connection.execute(sql, where.bound()).fetchall()

    def _read_runs(self, ids: Sequence[RunId]) -> list[RunRecord]:
        found = (read_run(self._look.connection, one) for one in ids)
        return [one for one in found if one is not None]

    def _read_attempts(self, ids: Sequence[RunId], command: AttemptFilter) -> list[AttemptRecord]:
        found: list[AttemptRecord] = []
        for run_id in ids:
            attempts = list_attempts(self._look, run_id, PAGE_MAX)
            found += [one for one in attempts if attempt_matches(one, command)]
            if len(found) > command.limit:
                break
        return found
