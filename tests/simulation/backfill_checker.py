"""The checker of backfills: nothing twice, nothing left out, under the lease, at the rate."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice, takewhile
from typing import TYPE_CHECKING

from duly.domain.backfill import BackfillMode, BackfillOccurrenceKind, BackfillOrder, BackfillStatus
from duly.domain.enums import RunState, ScheduleStatus
from duly.domain.ids import occurrence_run_id, ordered_run_id
from duly.store.ports.dispatch import FireResult
from tests.simulation.oracle import occurrences
from tests.simulation.recipe import MINUTE, SECOND
from tests.simulation.users import TENANT
from tests.simulation.work_checker import MAINTENANCE
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.store.ports.backfill import CreateBackfill, StepBackfill, Stepped
    from duly.store.ports.dispatch import MemberId
    from tests.simulation.gate_ledger import GateLedger
    from tests.simulation.ledger import Ledger, ScheduleNote
    from tests.simulation.oracle import Template
    from tests.simulation.work_checker import WorkChecker
    from tests.simulation.work_ledger import RunNote
    from tests.simulation.world import Executed

SLOTS_MAX = 100_000
OVER = frozenset((BackfillStatus.DONE, BackfillStatus.CANCELLED))
NOT_OVER = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))
STANDS_STILL_US = 15 * SECOND
"""So long after its last step, and what a run costs at its rate, an active one must have gone on."""


@dataclass(eq=False, slots=True)
class BackfillNote:
    """One backfill as it was ordered, and how far it has come."""

    order: CreateBackfill
    schedule: ScheduleNote
    template: Template
    status: BackfillStatus
    version: int
    cursor: int | None
    per_minute: int
    concurrency: int
    fastest: int
    """The most that anybody ever allowed it in a minute."""
    looked_at: int = 0
    runs: list[RunNote] = field(default_factory=list)
    moved_at: int = 0
    """When it went on, or was last kept from that by a run of its own."""
    made_by: dict[MemberId, list[int]] = field(default_factory=dict)
    """By who did the step: when a run was made."""

    @property
    def open(self) -> int:
        """Return how many of its runs are not over; who is in doubt may have more to come."""
        return sum(run.state in NOT_OVER or run.state is RunState.AMBIGUOUS for run in self.runs)


class BackfillChecker:
    """Sees every executed call about backfills; one method for each operation."""

    def __init__(self, ledger: Ledger, work: WorkChecker, gates: GateLedger) -> None:
        self._ledger = ledger
        self._work = work
        self._gates = gates
        self._counts = gates.counts
        self._notes: dict[BackfillId, BackfillNote] = {}
        self._again: dict[tuple[ScheduleId, int], list[RunNote]] = {}
        """Runs that repeat an occurrence."""

    def create_backfill(self, executed: Executed) -> None:
        """An order that is asked again is the same one (INV-17)."""
        order: CreateBackfill = executed.call.arguments[0]
        if order.id in self._notes:
            self._counts["backfills asked again"] += 1
            return
        schedule = self._ledger.schedules[order.schedule_id]
        self._notes[order.id] = BackfillNote(
            order=order,
            schedule=schedule,
            template=schedule.templates[order.definition_number],
            status=BackfillStatus.ACTIVE,
            version=1,
            cursor=order.cursor,
            per_minute=order.per_minute,
            concurrency=order.concurrency,
            fastest=order.per_minute,
            moved_at=executed.at,
        )
        self._counts["backfills"] += 1

    def change_backfill(self, executed: Executed) -> None:
        """An order counts once, about what it was given for, and never about one that is over."""
        command = executed.call.arguments[0]
        note = self._notes[command.id]
        if note.status in OVER:
            raise Violation(f"INV-6: a backfill that is {note.status} was changed")
        if command.expected_version != note.version:
            raise Violation("INV-14: an order about a backfill was applied to what had moved on")
        note.version += 1
        note.status, note.moved_at = command.status, executed.at
        note.per_minute, note.concurrency = command.per_minute, command.concurrency
        note.fastest = max(note.fastest, note.per_minute)
        self._counts[f"backfill: {note.status}"] += 1

    def step_backfill(self, executed: Executed) -> None:
        """A step is done by whoever tends the store, where the backfill stands (INV-5)."""
        command: StepBackfill = executed.call.arguments[0]
        stepped: Stepped = executed.result
        note = self._notes[command.id]
        holds = self._ledger.holds(command.fence, MAINTENANCE, executed.at)
        if stepped.result is FireResult.FIRED:
            if not holds:
                raise Violation("INV-5: a stale owner went on with a backfill")
            self._go_on(executed, note)
            return
        self._counts["backfill steps refused"] += 1
        if stepped.result is FireResult.FENCED and holds:
            raise Violation("INV-21: a living owner was refused a step of a backfill")
        is_busy = note.open >= note.concurrency
        if stepped.result is FireResult.BUSY and is_busy:
            # It was tried, and had to wait for one of its own: from now on, if that ends.
            note.moved_at = executed.at
        if stepped.result is FireResult.BUSY and not is_busy and command.runs_max > 0:
            raise Violation("INV-26: a backfill was held up with nothing of it open")
        is_gone = note.schedule.status is ScheduleStatus.DELETED
        is_there = note.status is BackfillStatus.ACTIVE and note.cursor == command.expected_cursor
        if holds and is_there and is_gone:
            note.status, note.version = BackfillStatus.CANCELLED, note.version + 1
            self._counts["backfills called off"] += 1

    def _go_on(self, executed: Executed, note: BackfillNote) -> None:
        command: StepBackfill = executed.call.arguments[0]
        stepped: Stepped = executed.result
        assert stepped.record is not None
        if note.status is not BackfillStatus.ACTIVE:
            raise Violation(f"INV-12: a backfill went on that is {note.status}")
        if note.cursor != command.expected_cursor:
            raise Violation("INV-3: a backfill went on from where it does not stand")
        if note.schedule.status is ScheduleStatus.DELETED:
            raise Violation("INV-13: a backfill of a deleted schedule went on")
        looked_at = self._looked_at(note, command, stepped.record.cursor)
        made = self._fill(executed, note, looked_at)
        if made != stepped.made or made > command.runs_max or note.open > note.concurrency:
            raise Violation(f"INV-22: a step made {made} runs, more than it may or says")
        note.looked_at += len(looked_at)
        note.cursor, note.moved_at = stepped.record.cursor, executed.at
        if note.cursor is None:
            note.status = BackfillStatus.DONE
            self._counts["backfills done"] += 1
        self._check_rate(executed, note, made)

    def _looked_at(
        self, note: BackfillNote, command: StepBackfill, cursor: int | None
    ) -> list[int]:
        """Return what a step went over, which is what the rule names, and nothing else."""
        order, definition = note.order, note.template.definition
        assert note.cursor is not None
        if order.order is BackfillOrder.OLDEST:
            span = occurrences(definition, note.cursor, order.until - 1)
        else:
            span = reversed(list(occurrences(definition, order.since, note.cursor)))
        expected = list(islice(span, len(command.slots) + 1))
        planned = [slot.scheduled_for for slot in command.slots]
        if planned != expected[: len(planned)]:
            raise Violation("INV-16: a step of a backfill names what its rule does not")
        if cursor is None and len(expected) > len(planned):
            raise Violation("INV-2: a backfill is done before the end of its span")
        if cursor is not None and cursor not in expected:
            raise Violation("INV-2: a backfill goes on elsewhere than behind what it looked at")
        return list(takewhile(lambda one: one != cursor, expected))

    def _fill(self, executed: Executed, note: BackfillNote, looked_at: list[int]) -> int:
        """Hold what was made of each occurrence against what is known of it."""
        slots = self._gates.store.list_slots(note.order.id, None, SLOTS_MAX)
        done = {slot.scheduled_for: slot.run_id for slot in slots}
        made = 0
        for occurrence in looked_at:
            if occurrence not in done:
                raise Violation("INV-2: nothing is noted of what a backfill went over")
            expected, actual = self._expected(note, occurrence), done[occurrence]
            if actual != expected:
                number = 3 if expected is None else 2
                kind = self._kind(note, occurrence)
                raise Violation(f"INV-{number}: a backfill made {actual!r} of what is {kind}")
            if actual is None:
                self._counts["not filled"] += 1
                continue
            made += 1
            self._make(executed, note, occurrence, actual)
        return made

    def _make(self, executed: Executed, note: BackfillNote, occurrence: int, run_id: RunId) -> None:
        schedule = note.schedule
        is_first = run_id == occurrence_run_id(schedule.id, occurrence)
        definition = note.template.definition
        run = self._gates.come_in_backfill(run_id, schedule, definition, executed.at)
        note.runs.append(run)
        if not is_first and note.order.mode is BackfillMode.FILL:
            run.first = occurrence_run_id(schedule.id, occurrence)
        if not is_first:
            self._again.setdefault((schedule.id, occurrence), []).append(run)
        self._counts["filled" if is_first else "filled again"] += 1
        if note.template.due(occurrence) > executed.at:
            raise Violation("INV-1: a backfill made a run before it was due")

    def _expected(self, note: BackfillNote, occurrence: int) -> RunId | None:
        """Return the run that must be made of an occurrence; None if none may be."""
        order, schedule_id = note.order, note.schedule.id
        kind = self._kind(note, occurrence)
        if kind is BackfillOccurrenceKind.IN_FLIGHT or kind not in order.classes:
            return None
        if not self._runs_of(schedule_id, occurrence):
            return occurrence_run_id(schedule_id, occurrence)
        if order.mode is BackfillMode.FILL and kind is BackfillOccurrenceKind.SUCCEEDED:
            return None
        again = ordered_run_id("redo", occurrence, order.id, schedule_id)
        return None if again in self._work.runs else again

    def _kind(self, note: BackfillNote, occurrence: int) -> BackfillOccurrenceKind:
        states = {run.state for run in self._runs_of(note.schedule.id, occurrence)}
        if RunState.SUCCEEDED in states:
            return BackfillOccurrenceKind.SUCCEEDED
        if states & NOT_OVER:
            return BackfillOccurrenceKind.IN_FLIGHT
        if RunState.AMBIGUOUS in states:
            return BackfillOccurrenceKind.AMBIGUOUS
        if states - {RunState.COALESCED, RunState.REPLACED, RunState.SKIPPED}:
            return BackfillOccurrenceKind.FAILED
        if states:
            return BackfillOccurrenceKind.MISSING
        schedule = note.schedule
        verdict = schedule.verdicts.get(occurrence)
        coming = schedule.pending.scheduled_for if schedule.pending else schedule.held_for
        is_coming = verdict is None and coming is not None and occurrence >= coming
        # Of a range that is owed its ends are known: what another rule names in between waits, too.
        is_owed = any(one.first_for <= occurrence <= one.last_for for one in schedule.owed.values())
        return (
            BackfillOccurrenceKind.IN_FLIGHT
            if is_owed or is_coming
            else BackfillOccurrenceKind.MISSING
        )

    def _runs_of(self, schedule_id: ScheduleId, occurrence: int) -> list[RunNote]:
        first = self._work.runs.get(occurrence_run_id(schedule_id, occurrence))
        again = self._again.get((schedule_id, occurrence), [])
        return again if first is None else [first, *again]

    def _check_rate(self, executed: Executed, note: BackfillNote, made: int) -> None:
        """Nobody makes more than the rate allows, beside a second's worth that was saved up."""
        member = executed.call.arguments[0].fence.member
        times = note.made_by.setdefault(member, [executed.at])
        times += [executed.at] * made
        passed_us = max(0, max(times) - min(times))
        saved = max(1, note.fastest // 60)
        allowed = note.fastest * passed_us // MINUTE + 2 * saved + 1
        if len(times) - 1 > allowed:
            raise Violation(f"INV-22: a backfill made {len(times) - 1} runs, {allowed} are allowed")

    def reckon(self, now: int) -> None:
        """When all is quiet each backfill is where its steps have brought it, and goes on."""
        for note in self._notes.values():
            record = self._gates.store.get_backfill(TENANT, note.order.id)
            if record is None:
                raise Violation("INV-2: a backfill was acknowledged and is not there")
            known = (note.status, note.version, note.cursor, note.looked_at, len(note.runs))
            there = (record.status, record.version, record.cursor, record.looked_at, record.made)
            if known != there:
                raise Violation(f"INV-14: a backfill is {there}, by its steps {known}")
            if note.status is not BackfillStatus.ACTIVE or note.open >= note.concurrency:
                continue
            if note.moved_at < now - STANDS_STILL_US - MINUTE // note.per_minute:
                raise Violation("INV-26: a backfill stands still after the quiet")
