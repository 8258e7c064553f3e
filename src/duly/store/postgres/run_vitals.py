"""What vitals are drawn from, in one statement for all runs that are asked about."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.vitals import ERROR_END_MAX, ERRORS, DefinitionRecord
from duly.store import records
from duly.store.postgres.arrays import Texts, Uuids
from duly.store.postgres.session import uid
from duly.store.run_columns import RUN_VITALS

if TYPE_CHECKING:
    from duly.domain.ids import ScheduleId
    from duly.domain.vitals import RunVital, VitalsFilter
    from duly.store.postgres.work import Look


def _place(table: str, alias: str) -> str:
    """Look into a table by run: a join might be carried out by reading all of it."""
    one = f"SELECT q.* FROM duly.{table} q WHERE q.run_id = r.id OFFSET 0"  # noqa: S608 - ours
    return f"LEFT JOIN LATERAL ({one}) {alias} ON true"


VITALS = f"""
SELECT uuid_send(r.id), uuid_send(r.schedule_id),
    {RUN_VITALS.format("pg_catalog.right", ERROR_END_MAX)}
FROM (
    SELECT n.id FROM pg_catalog.unnest($1::uuid[]) s(id)
    CROSS JOIN LATERAL (
        SELECT k.id FROM duly.runs k WHERE k.schedule_id = s.id
        ORDER BY k.id DESC LIMIT $2::int8) n
    UNION SELECT t.id FROM pg_catalog.unnest($3::uuid[]) t(id)) i
CROSS JOIN LATERAL (SELECT k.* FROM duly.runs k WHERE k.id = i.id OFFSET 0) r
{_place("outcomes", "o")}
{_place("claims", "c")}
{_place("waiting", "w")}
{_place("dead", "x")}
{_place("blocked", "b")}
{_place("ambiguous", "u")}
LEFT JOIN duly.ready y ON y.run_id = r.id AND y.fence > 0
LEFT JOIN LATERAL (SELECT q.* FROM duly.members q WHERE q.id = c.worker OFFSET 0) m ON true
LEFT JOIN LATERAL (
    SELECT q.ended_at FROM duly.attempts q WHERE q.run_id = r.id
    ORDER BY q.fence DESC LIMIT 1) e ON true
LEFT JOIN LATERAL (
    SELECT q.state, q.reason, q.error, q.ended_at FROM duly.attempts q
    WHERE q.run_id = r.id AND q.state = ANY($4::text[])
    ORDER BY q.fence DESC LIMIT 1) a ON true
LEFT JOIN LATERAL (
    SELECT q.finding, q.at FROM duly.verdicts q WHERE q.run_id = r.id
    ORDER BY q.number DESC LIMIT 1) v ON true
ORDER BY r.id DESC"""  # noqa: S608 - parts of ours
DEFINITIONS = """
SELECT number, made_at, definition FROM duly.schedule_definitions
WHERE schedule_id = $1::uuid ORDER BY number DESC LIMIT $2::int8"""


def list_run_vitals(look: Look, command: VitalsFilter) -> list[RunVital]:
    """Return what is known of runs, newest first."""
    asked = (Uuids(command.schedule_ids), command.limit, Uuids(command.run_ids))
    found = look.session.rows(VITALS, (*asked, Texts(sorted(ERRORS))))
    return [records.run_vital(row) for row in found]


def list_definitions(look: Look, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
    """Return the newest versions of a schedule's template."""
    return [
        DefinitionRecord(number, made_at, records.read_definition(text))
        for number, made_at, text in look.session.rows(DEFINITIONS, (uid(schedule_id), limit))
    ]
