"""Searching in PostgreSQL: it asks about all runs of a page at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store import records
from duly.store.ports.queries import BOUNDS
from duly.store.postgres import rows, trace
from duly.store.postgres.arrays import Uuids
from duly.store.postgres.filtering import PostgresWhere
from duly.store.search_steps import Dialect, Search
from duly.store.walks import STRAY_MS, Marks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.ids import RunId
    from duly.domain.runs import AttemptRecord, RunRecord
    from duly.store.filters import Where
    from duly.store.ports.queries import AttemptFilter, Bounds
    from duly.store.postgres.work import Look
    from duly.store.records import Row

READ_RUNS = f"{rows.RUN} WHERE r.id = ANY($1::uuid[]) ORDER BY r.id DESC"
# As the index says it, or that would not be used.
STRAY = f"""(p.scheduled_for < 0 OR (p.origin NOT IN ('schedule', 'catch-up')
    AND abs(duly.stamp_ms(p.id) - p.scheduled_for / 1000) > {STRAY_MS}))"""


class PostgresSearch(Search):
    """A search in one snapshot of a database."""

    dialect = Dialect(
        prefix="duly.",
        bare="uuid_send({})",
        audit_columns=rows.AUDIT_COLUMNS,
        # A join that has to be carried out by looking up one after the other.
        runs="CROSS JOIN LATERAL (SELECT n.* FROM duly.runs n WHERE n.id = i.id OFFSET 0) r",
        # Of outcomes, those have a tenant that are out of the ordinary.
        marks=Marks(
            outcome="p.tenant IS NOT NULL",
            error="p.error IS NOT NULL",
            stray=STRAY,
            has_tenants=True,
        ),
    )

    def __init__(self, look: Look, bounds: Bounds = BOUNDS) -> None:
        super().__init__(bounds)
        self._look = look

    def _where(self) -> Where:
        return PostgresWhere()

    def _rows(self, sql: str, where: Where) -> list[Row]:
        return self._look.session.rows(sql, where.bound())

    def _read_runs(self, ids: Sequence[RunId]) -> list[RunRecord]:
        found = self._look.session.rows(READ_RUNS, (Uuids(ids),))
        return [records.run_record(row) for row in found]

    def _read_attempts(self, ids: Sequence[RunId], command: AttemptFilter) -> list[AttemptRecord]:
        return trace.read_attempts(self._look, ids, command)
