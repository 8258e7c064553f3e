"""What vitals are drawn from: runs one by one, and the versions of a schedule's template."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.domain.vitals import ERROR_END_MAX, DefinitionRecord
from duly.store import records
from duly.store.run_columns import RUN_VITALS

if TYPE_CHECKING:
    from duly.domain.ids import ScheduleId
    from duly.domain.vitals import RunVital, VitalsFilter
    from duly.store.sqlite.work import Look

NEWEST = "SELECT id FROM duly_runs WHERE schedule_id = ? ORDER BY id DESC LIMIT ?"
# A run that is over is in no other place: nothing is looked for there.
_OPEN = "CASE WHEN o.run_id IS NULL THEN r.id END"
# The states are those of `last_ends.ERRORS`.
VITALS = f"""
SELECT r.id, r.schedule_id, {RUN_VITALS.format("substr", -ERROR_END_MAX)}
FROM json_each(?) i
CROSS JOIN duly_runs r ON r.id = unhex(i.value)
LEFT JOIN duly_outcomes o ON o.run_id = r.id
LEFT JOIN duly_claims c ON c.run_id = {_OPEN}
LEFT JOIN duly_waiting w ON w.run_id = {_OPEN}
LEFT JOIN duly_dead x ON x.run_id = {_OPEN}
LEFT JOIN duly_blocked b ON b.run_id = {_OPEN}
LEFT JOIN duly_ambiguous u ON u.run_id = {_OPEN}
LEFT JOIN duly_ready y ON y.run_id = {_OPEN} AND y.fence > 0
LEFT JOIN duly_members m ON m.id = c.worker
LEFT JOIN duly_attempts e ON e.run_id = CASE WHEN o.worker IS NULL THEN r.id END AND e.fence =
    (SELECT max(f.fence) FROM duly_attempts f WHERE f.run_id = r.id)
LEFT JOIN duly_attempts a ON a.run_id = r.id AND a.fence =
    (SELECT max(f.fence) FROM duly_attempts f
    WHERE f.run_id = r.id AND f.state IN ('failed', 'timed-out', 'lost'))
LEFT JOIN duly_verdicts v ON v.run_id = r.id AND v.number =
    (SELECT max(q.number) FROM duly_verdicts q WHERE q.run_id = r.id)
ORDER BY i.key"""  # noqa: S608 - columns of ours
DEFINITIONS = """
SELECT number, made_at, definition FROM duly_schedule_definitions
WHERE schedule_id = ? ORDER BY number DESC LIMIT ?"""


def list_run_vitals(look: Look, command: VitalsFilter) -> list[RunVital]:
    """Return what is known of runs, newest first."""
    ids = set(command.run_ids)
    for one in command.schedule_ids:
        ids.update(run_id for (run_id,) in look.connection.execute(NEWEST, (one, command.limit)))
    asked = json.dumps([run_id.hex() for run_id in sorted(ids, reverse=True)])
    return [records.run_vital(row) for row in look.connection.execute(VITALS, (asked,))]


def list_definitions(look: Look, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
    """Return the newest versions of a schedule's template."""
    return [
        DefinitionRecord(number, made_at, records.read_definition(text))
        for number, made_at, text in look.connection.execute(DEFINITIONS, (schedule_id, limit))
    ]
