"""Many at once: a fixed number of statements, however many are asked about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.effects import seen_by
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.verification import Scope
from duly.domain.vitals import DefinitionRecord
from duly.store import records
from duly.store.ports.queries import EFFECTS_MAX, Evidence, Findings
from duly.store.postgres import rows, scopes, trace
from duly.store.postgres.arrays import Int8s, Uuids
from duly.store.postgres.effects import EFFECT, LEDGER
from duly.store.postgres.reading import recorded
from duly.store.postgres.searching import READ_RUNS
from duly.store.rulings import unrecorded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.effects import EffectRecord
    from duly.domain.runs import OccurrenceStatus, RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.ports.effects import VerdictRecord
    from duly.store.ports.queries import OccurrenceStatuses
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session

BY_IDS = f"{rows.SCHEDULE} WHERE s.id = ANY($1::uuid[])"
JUDGE_MANY = """
SELECT r.is_made, r.state, r.into_run, k.last_for, k.reason, uuid_send(k.into_run), o.last_for
FROM unnest($1::uuid[], $2::int8[], $3::uuid[])
    WITH ORDINALITY u(schedule_id, instant, run_id, place)
LEFT JOIN LATERAL (
    SELECT true AS is_made, e.state, uuid_send(e.into_run) AS into_run
    FROM duly.runs r LEFT JOIN duly.outcomes e ON e.run_id = r.id
    WHERE r.id = u.run_id) r ON true
LEFT JOIN LATERAL (
    SELECT last_for, reason, into_run FROM duly.skips
    WHERE schedule_id = u.schedule_id AND first_for <= u.instant
    ORDER BY first_for DESC LIMIT 1) k ON true
LEFT JOIN LATERAL (
    SELECT last_for FROM duly.owed
    WHERE schedule_id = u.schedule_id AND first_for <= u.instant
    ORDER BY first_for DESC LIMIT 1) o ON true
ORDER BY u.place"""
MANY_DEFINITIONS = """
SELECT uuid_send(u.id), d.number, d.made_at, d.definition
FROM pg_catalog.unnest($1::uuid[]) u(id)
CROSS JOIN LATERAL (
    SELECT n.number, n.made_at, n.definition FROM duly.schedule_definitions n
    WHERE n.schedule_id = u.id ORDER BY n.number DESC LIMIT $2::int8) d"""
NEWEST = """
SELECT uuid_send(n.id) FROM pg_catalog.unnest($1::uuid[]) s(id)
CROSS JOIN LATERAL (
    SELECT k.id FROM duly.runs k WHERE k.schedule_id = s.id
    ORDER BY k.id DESC LIMIT $2::int8) n"""
MANY_EFFECTS = f"""
SELECT uuid_send(u.id), e.* FROM pg_catalog.unnest($1::uuid[]) u(id)
CROSS JOIN LATERAL (
    SELECT {EFFECT}, c.fence FROM duly.effects e
    LEFT JOIN LATERAL (
        SELECT c.fence FROM duly.claims c WHERE c.run_id = e.run_id OFFSET 0) c ON true
    WHERE e.root = (SELECT {LEDGER} FROM duly.runs r WHERE r.id = u.id)
    ORDER BY e.state = 'done', e.begun_at, e.key LIMIT $2::int8) e"""  # noqa: S608 - columns of ours
MANY_VERDICTS = """
SELECT uuid_send(run_id), number, at, finding, evidence, "by", doubt FROM duly.verdicts
WHERE run_id = ANY($1::uuid[]) ORDER BY run_id, number"""
WITH_CHECKPOINT = """
SELECT DISTINCT uuid_send(run_id) FROM duly.checkpoints WHERE run_id = ANY($1::uuid[])"""


class PostgresSurveys:
    """What anybody may look at, many at once."""

    _connections: Connections

    def judge_many(self, asked: Sequence[OccurrenceStatuses]) -> list[list[OccurrenceStatus]]:
        """Say what is known about occurrences of schedules."""
        pairs = [(one.schedule_id, instant) for one in asked for instant in one.instants]
        ids = [occurrence_run_id(*pair) for pair in pairs]
        of = [one for one, _ in pairs]
        with self._connections.read() as look:
            known = _schedules(look.session, sorted(set(of)))
            values = Uuids(of), Int8s([instant for _, instant in pairs]), Uuids(ids)
            found = look.session.rows(JUDGE_MANY, values)
        judged = iter(
            recorded(instant, run_id, row) or unrecorded(known.get(one), instant)
            for (one, instant), run_id, row in zip(pairs, ids, found, strict=True)
        )
        return [[next(judged) for _ in one.instants] for one in asked]

    def get_schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
        """Return those schedules that there are."""
        with self._connections.read() as look:
            return _schedules(look.session, ids)

    def get_runs(self, run_ids: Sequence[RunId]) -> dict[RunId, RunRecord]:
        """Return those runs that there are."""
        with self._connections.read() as look:
            rows = look.session.rows(READ_RUNS, (Uuids(run_ids),))
        return {one.id: one for one in map(records.run_record, rows)}

    def list_many_definitions(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[DefinitionRecord]]:
        """Return the newest versions of templates."""
        found: dict[ScheduleId, list[DefinitionRecord]] = {}
        with self._connections.read() as look:
            for one, number, made_at, text in look.session.rows(
                MANY_DEFINITIONS, (Uuids(ids), limit)
            ):
                record = DefinitionRecord(number, made_at, records.read_definition(text))
                found.setdefault(ScheduleId(one), []).append(record)
        for listed in found.values():
            listed.sort(key=lambda one: one.number, reverse=True)
        return found

    def list_newest_runs(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunRecord]]:
        """Return the newest runs of schedules."""
        found: dict[ScheduleId, list[RunRecord]] = {}
        with self._connections.read() as look:
            runs = [one for (one,) in look.session.rows(NEWEST, (Uuids(ids), limit))]
            for row in look.session.rows(READ_RUNS, (Uuids(runs),)):
                record = records.run_record(row)
                assert record.schedule_id is not None, "they were found by it"
                found.setdefault(record.schedule_id, []).append(record)
        return found

    def read_evidence(self, run_ids: Sequence[RunId]) -> dict[RunId, Evidence]:
        """Return what is on record about runs."""
        with self._connections.read() as look:
            session, ids = look.session, (Uuids(run_ids),)
            last = trace.last_attempts(look, run_ids)
            effects = _effects(session, run_ids)
            verdicts = _verdicts(session, run_ids)
            kept = {one for (one,) in session.rows(WITH_CHECKPOINT, ids)}
        return {
            one: Evidence(
                attempt=last.get(one),
                effects=tuple(effects.get(one, ())),
                verdicts=tuple(verdicts.get(one, ())),
                has_checkpoint=one in kept,
            )
            for one in run_ids
        }

    def read_findings(self, run_ids: Sequence[RunId]) -> dict[RunId, Findings]:
        """Return what runs brought about."""
        with self._connections.read() as look:
            verdicts = _verdicts(look.session, run_ids)
            known = scopes.get_scopes(look.session, run_ids)
        return {
            one: Findings(tuple(verdicts.get(one, ())), known.get(one, Scope())) for one in run_ids
        }


def _verdicts(session: Session, run_ids: Sequence[RunId]) -> dict[RunId, list[VerdictRecord]]:
    found: dict[RunId, list[VerdictRecord]] = {}
    for row in session.rows(MANY_VERDICTS, (Uuids(run_ids),)):
        found.setdefault(RunId(row[0]), []).append(records.verdict_record(row))
    return found


def _schedules(session: Session, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
    found = (records.schedule_record(row) for row in session.rows(BY_IDS, (Uuids(ids),)))
    return {one.id: one for one in found}


def _effects(session: Session, run_ids: Sequence[RunId]) -> dict[RunId, list[EffectRecord]]:
    found: dict[RunId, list[EffectRecord]] = {}
    for of, *row, fence in session.rows(MANY_EFFECTS, (Uuids(run_ids), EFFECTS_MAX)):
        record = records.effect_record(tuple(row))
        attempt = None if fence is None else (record.run_id, fence)
        seen = replace(record, state=seen_by(record, attempt))
        found.setdefault(RunId(of), []).append(seen)
    for listed in found.values():
        listed.sort(key=lambda one: (one.begun_at, one.key))
    return found
