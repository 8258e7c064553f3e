"""The reckoning: when all is quiet, lay the ledger beside the store, and the rule beside both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from duly.domain.enums import Origin, Overlap, RunState, ScheduleStatus
from duly.store.ports.queries import RunFilter
from duly.timetable.instants import from_microseconds
from duly.timetable.timetable import Zoned
from tests.simulation.oracle import occurrences
from tests.simulation.users import TENANT
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from tests.simulation.ledger import DelayedNote, Ledger, ScheduleNote
    from tests.simulation.work_ledger import RunNote
    from tests.simulation.world import World

PATIENCE_US = 5_000_000
"""After the quiet minute nothing may be overdue for longer than this (INV-26)."""
PAGE = 1000
STILL = frozenset((ScheduleStatus.PAUSED, ScheduleStatus.DELETED))
OCCURRENCE_ORIGINS = frozenset((Origin.SCHEDULE, Origin.CATCH_UP))
MADE_BY_RULE = OCCURRENCE_ORIGINS | {Origin.BACKFILL}
MADE = frozenset(("run", "owed", "backfilled"))
"""Verdicts under which an occurrence is not recorded as skipped."""


def reckon(ledger: Ledger, worked: Mapping[RunId, RunNote], world: World) -> list[RunRecord]:
    """Compare everything that was promised with everything that is there; return all runs."""
    store, counts = world.store, world.counts
    now = store.now()
    runs = all_runs(store)
    by_schedule: dict[object, list[RunRecord]] = {}
    for run in runs:
        if run.origin in OCCURRENCE_ORIGINS:
            by_schedule.setdefault(run.schedule_id, []).append(run)
    for note in ledger.schedules.values():
        _reckon_schedule(note, store, by_schedule.pop(note.id, []), now)
        counts["fold fires"] += fold_fires(note)
    if by_schedule:
        raise Violation("INV-7: there are runs of schedules that nobody made")
    for delayed in ledger.delayed.values():
        _reckon_delayed(delayed, worked, store, now)
    ordered = {run.id for run in runs if run.origin not in MADE_BY_RULE}
    expected = {one.id for one in ledger.delayed.values() if one.state != "pending"}
    if ordered != expected:
        raise Violation("INV-17: the store holds other ordered runs than were asked for")
    _reckon_places(runs, store)
    return runs


def all_runs(store: Any) -> list[RunRecord]:
    """Return every run that the store holds."""
    found: list[RunRecord] = []
    before = None
    while True:
        page = store.list_runs(RunFilter(tenant=TENANT, before_id=before, limit=PAGE))
        found += page
        if len(page) < PAGE:
            return found
        before = page[-1].id


def _reckon_places(runs: list[RunRecord], store: Any) -> None:
    status = store.status()
    if status.early_fires or any(
        run.fired_at is not None and run.fired_at < run.not_before for run in runs
    ):
        raise Violation("INV-1: the store holds a run that was early")
    queued = sum(run.state is RunState.QUEUED for run in runs)
    if status.queued != queued:
        raise Violation(f"INV-3: {queued} runs are queued, and the queue holds {status.queued}")
    findings = store.check()
    if findings:
        raise Violation(f"the store's own check found {findings[0]}")


def _reckon_schedule(note: ScheduleNote, store: Any, runs: list[RunRecord], now: int) -> None:
    seen = store.get_schedule(note.id)
    if seen is None:
        raise Violation(f"INV-2: {note.name} was acknowledged and is not there")
    record = seen.record
    known = (note.status, note.version, note.pending, note.number)
    if known != (record.status, record.version, record.pending, record.definition_number):
        raise Violation(f"INV-14: {note.name} is otherwise than its orders say")
    there = {run.scheduled_for: run.definition_number for run in runs}
    if len(there) != len(runs):
        raise Violation(f"INV-3: {note.name} has two runs for one occurrence")
    if there != note.runs:
        odd = sorted(there.items() ^ note.runs.items())
        raise Violation(f"INV-2: {note.name} has other runs than were made: {odd[:4]}")
    skips = sorted((one.first_for, one.last_for) for one in store.list_skips(note.id, 100_000))
    _reckon_skips(note, skips)
    if sorted(note.owed) != [owed.first_for for owed in store.list_owed(note.id)]:
        raise Violation(f"INV-2: {note.name} owes something else than was noted")
    _reckon_rule(note, record.held_for, now)
    _reckon_liveness(note, now)


def _reckon_skips(note: ScheduleNote, skips: list[tuple[int, int]]) -> None:
    there = {
        occurrence
        for first, last in skips
        for occurrence, verdict in note.verdicts.items()
        if first <= occurrence <= last and verdict not in MADE
    }
    noted = {one for one, verdict in note.verdicts.items() if verdict not in MADE}
    if there != noted:
        raise Violation(f"INV-2: {note.name} has other skips than were recorded")


def _reckon_rule(note: ScheduleNote, held_for: int | None, now: int) -> None:
    """Walk the rule: before the pending occurrence each has a verdict, from it on none has."""
    upto = note.pending.scheduled_for if note.pending else held_for
    expected: set[int] = set()
    last = max(note.verdicts, default=now)
    for segment in note.segments:
        end = last if segment.until is None else segment.until
        if upto is not None and segment.until is None:
            end = upto - 1
        definition = note.templates[segment.number].definition
        expected.update(occurrences(definition, segment.after + 1, end))
        if segment.until is None and upto is None and definition.timetable.first_from(last + 1):
            raise Violation(f"INV-2: {note.name} has ended, and its rule goes on")
    if upto is not None and upto in note.verdicts:
        raise Violation(f"INV-3: {note.name} is pending for what is {note.verdicts[upto]}")
    holes, odd = expected - note.verdicts.keys(), note.verdicts.keys() - expected
    if holes:
        raise Violation(f"INV-2: {note.name} has holes: {sorted(holes)[:4]}")
    if odd:
        raise Violation(f"INV-16: {note.name} has verdicts beside its rule: {sorted(odd)[:4]}")


def _reckon_liveness(note: ScheduleNote, now: int) -> None:
    if note.status in STILL:
        return
    for owed in note.owed.values():
        if note.templates[owed.definition_number].definition.overlap is not Overlap.ALLOW:
            continue  # one after the other: a long range may take longer than the quiet
        if note.templates[owed.definition_number].due(owed.last_for) < now - PATIENCE_US:
            raise Violation(f"INV-26: {note.name} still owes {owed.last_for} after the quiet")
    if note.pending is not None and note.pending.due_at < now - PATIENCE_US:
        late = (now - note.pending.due_at) / 1_000_000
        raise Violation(f"INV-26: {note.name} is overdue for {late:.1f} s after the quiet")


def _reckon_delayed(
    note: DelayedNote, worked: Mapping[RunId, RunNote], store: Any, now: int
) -> None:
    if note.state == "pending":
        record = store.get_delayed(note.id)
        if record is None or (record.due_at, record.generation) != (note.due_at, note.generation):
            raise Violation("INV-2: a delayed run is not there as it was promised")
        if note.due_at < now - PATIENCE_US:
            raise Violation("INV-26: a delayed run is overdue after the quiet")
        return
    run = store.get_run(note.id)
    if run is None:
        raise Violation(f"INV-2: a delayed run that was {note.state} is not there")
    if run.not_before not in {note.due_at, note.asked_at}:
        raise Violation("INV-14: a delayed run fell due at another moment than it was moved to")
    state = {"fired": "queued"}.get(note.state, note.state)
    # What workers and operators made of it since is reckoned with them.
    if note.id not in worked and run.state != state:
        raise Violation(f"INV-6: a delayed run that was {note.state} is {run.state}")


def fold_fires(note: ScheduleNote) -> int:
    """Count runs at wall times that a clock has shown, or will show, twice."""
    found = 0
    for occurrence, number in note.runs.items():
        timetable = note.templates[number].definition.timetable
        if isinstance(timetable, Zoned):
            local = from_microseconds(occurrence).astimezone(ZoneInfo(timetable.tz))
            found += local.replace(fold=0).utcoffset() != local.replace(fold=1).utcoffset()
    return found
