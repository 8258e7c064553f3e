"""The ledger of gates: who has gone ahead, who waits, and what must become of who comes (INV-8).

It follows SPEC O1 word by word and shares nothing with the shipped decisions. Of a gate that came
free it does not say when the first that waits is let go, only that nobody else may be: that is
looked up in the store, after every call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from duly.domain.enums import Lane, Overlap, RunState, SkipReason
from duly.domain.ids import occurrence_run_id
from tests.simulation.work_ledger import RunNote
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable

    from duly.domain.fire_planning import PlannedRun
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Definition
    from duly.store.ports.schedules import NewRun
    from tests.simulation.ledger import ScheduleNote
    from tests.simulation.oracle import Template

BEHIND = {Lane.LIVE: 0, Lane.CATCH_UP: 100, Lane.BACKFILL: 200}
GOING = frozenset((RunState.QUEUED, RunState.RUNNING, RunState.RETRYING, RunState.AMBIGUOUS))
"""What has gone ahead and is not over; who is in doubt keeps what it holds."""
OPEN = GOING | {RunState.BLOCKED}
WITHOUT_WORKER = frozenset((RunState.QUEUED, RunState.RETRYING))


@dataclass(eq=False, slots=True)
class Line:
    """A gate: who holds it, and who waits, each with its place."""

    holder: RunNote | None = None
    waiting: list[tuple[int, int, RunNote]] = field(default_factory=list)
    free_since: int = 0


class GateLedger:
    """All gates of a world, and the last run of each schedule that went ahead."""

    def __init__(self, runs: dict[RunId, RunNote], store: Any, counts: Counter[str]) -> None:
        self.store = store
        self.counts = counts
        self._runs = runs
        self._lines: dict[str, Line] = {}
        self._last: dict[ScheduleId, RunNote] = {}
        self._numbers = 0
        self._touched: set[RunNote] = set()
        """Whom this call has put somewhere: to be compared with the store."""
        self._passed_over: list[tuple[ScheduleId, int, str]] = []
        """Occurrences that this call must have recorded as skipped, and why."""

    # Coming

    def settle(
        self, schedule: ScheduleNote, template: Template, planned: Iterable[PlannedRun], now: int
    ) -> dict[int, str]:
        """Let the runs of a settlement come one after the other; return what each became."""
        verdicts: dict[int, str] = {}
        for run in planned:
            if run.run_id in self._runs:
                # Somebody has filled it in before: it is not made again.
                verdicts[run.scheduled_for] = "backfilled"
                continue
            note = self._note(run.run_id, schedule.id, template.definition, run.lane)
            verdict = self._arrive(note, template.definition.overlap, now)
            verdicts[run.scheduled_for] = "run"
            if verdict == "goes":
                self._last[schedule.id] = note
            elif verdict != "waits":
                verdicts[run.scheduled_for] = verdict
                self._forget(note)
                self._passed_over.append((schedule.id, run.scheduled_for, verdict))
        return verdicts

    def come_by_hand(self, new: NewRun, schedule: ScheduleNote, now: int) -> None:
        """Let a run come that a person asks for: by the policy, or by the one he names."""
        definition = schedule.template.definition
        note = self._note(new.id, schedule.id, definition, new.lane)
        note.priority = new.call.priority + BEHIND[new.lane]
        verdict = self._arrive(note, new.overlap or definition.overlap, now)
        if verdict not in {"goes", "waits"}:
            raise Violation(f"INV-8: a run by hand was made that is to be refused: {verdict}")
        if verdict == "goes":
            self._go_ahead(note)
        assert new.definition_number is not None
        note.definition = schedule.templates[new.definition_number].definition
        self.counts["overrides"] += new.overlap is not None

    def come_again(self, note: RunNote, now: int) -> str:
        """Let a dead run come that a person brings back: it waits, and takes nobody's place."""
        if note.definition is None:
            note.queue_again(now)
            return "goes"
        verdict = self._arrive(note, _patient(note.definition.overlap), now)
        if verdict == "goes":
            self._go_ahead(note)
        return verdict

    def come_in_backfill(
        self, run_id: RunId, schedule: ScheduleNote, definition: Definition, now: int
    ) -> RunNote:
        """Let a run of a backfill come: only to the gate of a business key."""
        note = self._note(run_id, schedule.id, definition, Lane.BACKFILL)
        is_serial = definition.overlap is Overlap.SERIALIZE
        self._arrive(note, Overlap.QUEUE_ALL if is_serial else Overlap.ALLOW, now)
        return note

    def _note(
        self, run_id: RunId, schedule_id: ScheduleId, definition: Definition, lane: Lane
    ) -> RunNote:
        note = self._runs[run_id] = RunNote(run_id)
        note.task, note.queue = definition.call.task, definition.call.queue
        note.schedule_id, note.definition = schedule_id, definition
        note.priority = definition.call.priority + BEHIND[lane]
        return note

    def _forget(self, note: RunNote) -> None:
        del self._runs[note.id]
        self._touched.discard(note)

    def _arrive(self, note: RunNote, policy: Overlap, now: int) -> str:
        """Say what becomes of one that comes, and put everybody where they belong."""
        self._touched.add(note)
        before = self._before(note)
        if policy is Overlap.ALLOW:
            return self._go(note, None, now)
        if policy is Overlap.SKIP:
            return "overlap" if self._is_owed(note) else self._go(note, None, now)
        assert note.definition is not None
        assert note.schedule_id is not None
        gate = _gate(note.definition, note.schedule_id)
        line = self._line(gate)
        holder = line.holder or before
        if holder is not None and holder.gate is None:
            # It went when there was no gate, and holds this one from now on.
            line.holder, holder.gate = holder, gate
        if holder is None and not line.waiting:
            return self._go(note, gate, now)
        self.counts[f"overlap: {policy}"] += 1
        match policy:
            case Overlap.QUEUE_ONE if line.waiting:
                return "overflow"
            case Overlap.COALESCE:
                self._close_waiting(line, RunState.COALESCED, note)
            case Overlap.REPLACE:
                self._close_waiting(line, RunState.REPLACED, note)
                if holder is not None and self._stop(holder, note, now):
                    holder = None
        if holder is None and not line.waiting:
            return self._go(note, gate, now)
        self._stand(note, line, gate, is_held=holder is not None)
        return "waits"

    def _stand(self, note: RunNote, line: Line, gate: str, *, is_held: bool) -> None:
        note.state, note.gate = RunState.BLOCKED, gate
        if not is_held:
            # The first is in the way of the newcomer, and as urgent from now on.
            priority, number, first = line.waiting[0]
            line.waiting[0] = (min(priority, note.priority), number, first)
        self._numbers += 1
        line.waiting.append((note.priority, self._numbers, note))
        line.waiting.sort(key=lambda place: place[:2])

    def _before(self, note: RunNote) -> RunNote | None:
        """Return the run of the same schedule that went ahead last, if it is still open."""
        last = None if note.schedule_id is None else self._last.get(note.schedule_id)
        return None if last is None or last is note or last.state not in GOING else last

    def _is_owed(self, note: RunNote) -> bool:
        """Say whether that run is still to end, even if it was brought back and waits again."""
        assert note.schedule_id is not None
        last = self._last.get(note.schedule_id)
        return last is not None and last is not note and last.state in OPEN

    def _go(self, note: RunNote, gate: str | None, now: int) -> str:
        note.queue_again(now)
        note.gate = gate
        if gate is not None:
            self._line(gate).holder = note
        return "goes"

    def _go_ahead(self, note: RunNote) -> None:
        """Note who has gone ahead, unless it goes beside one that is open."""
        if note.schedule_id is not None and self._before(note) is None:
            self._last[note.schedule_id] = note

    def _close_waiting(self, line: Line, state: RunState, into: RunNote) -> None:
        for _, _, one in line.waiting:
            one.state, one.into, one.gate = state, into.id, None
            self._touched.add(one)
            self.counts[f"waiting closed: {state}"] += 1
        line.waiting.clear()

    def _stop(self, holder: RunNote, into: RunNote, now: int) -> bool:
        """Let the open one make way: at once, or when its worker has stopped it."""
        if holder.state is RunState.AMBIGUOUS:
            return False  # nobody has it, and nobody knows what it did: it stays
        self._touched.add(holder)
        holder.replaced_by = into.id
        if holder.state not in WITHOUT_WORKER:
            holder.is_cancel_asked = True
            self.counts["asked to make way"] += 1
            return False
        holder.state, holder.into = RunState.REPLACED, into.id
        self.give_back(holder, now)
        self.counts["made way at once"] += 1
        return True

    def is_free(self, schedule: ScheduleNote, template: Template) -> bool:
        """Say whether a run that came now would find nobody."""
        definition = template.definition
        if definition.overlap is Overlap.ALLOW:
            return True
        last = self._last.get(schedule.id)
        if last is not None and last.state in OPEN:
            return False
        if definition.overlap is Overlap.SKIP:
            return True
        line = self._line(_gate(definition, schedule.id))
        return line.holder is None and not line.waiting

    # Going

    def claim(self, note: RunNote, now: int) -> None:
        """Only who has gone ahead is handed out, and nobody beside him."""
        if note.state is RunState.BLOCKED and not self._let_go(note, now):
            raise Violation("INV-8: a run was claimed that waits for another")
        if note.gate is not None and self._line(note.gate).holder is not note:
            raise Violation("INV-8: a run was claimed beside the one that holds its gate")

    def give_back(self, note: RunNote, now: int) -> None:
        """A run is over, or dead, or was cancelled while it waited."""
        gate, note.gate = note.gate, None
        if self._before(note) is None:
            self._make_way(note, now)
        if gate is None:
            return
        line = self._line(gate)
        if line.holder is note:
            line.holder, line.free_since = None, now
        line.waiting = [place for place in line.waiting if place[2] is not note]

    def _make_way(self, note: RunNote, now: int) -> None:
        """Note that nobody of its schedule is in the way at other gates from now on.

        A schedule that was given another gate has runs at both.
        """
        for line in self._lines.values():
            first = line.waiting[0][2] if line.waiting else None
            if first is not None and first.schedule_id == note.schedule_id is not None:
                line.free_since = now

    def _let_go(self, note: RunNote, now: int) -> bool:
        """Let the first of a line go, if it is this one and nobody is in its way."""
        assert note.gate is not None
        line = self._line(note.gate)
        if line.holder is not None or line.waiting[0][2] is not note or self._before(note):
            return False
        line.waiting.pop(0)
        line.holder = note
        note.queue_again(now)
        if note.schedule_id is not None:
            self._last[note.schedule_id] = note
        self.counts["let go"] += 1
        return True

    def _line(self, gate: str) -> Line:
        return self._lines.setdefault(gate, Line())

    # Looking

    def look(self, now: int) -> None:
        """After a call: see who was let go, and compare all whom it has touched."""
        for line in self._lines.values():
            if line.holder is None and line.waiting:
                first = line.waiting[0][2]
                if self.store.get_run(first.id).state is not RunState.BLOCKED:
                    self._see_let_go(first, now)
        touched, self._touched = self._touched, set()
        for note in touched:
            self._compare(note)
        passed_over, self._passed_over = self._passed_over, []
        for schedule_id, occurrence, reason in passed_over:
            self._compare_skip(schedule_id, occurrence, reason)

    def _see_let_go(self, first: RunNote, now: int) -> None:
        if not self._let_go(first, now):
            raise Violation("INV-8: a run was let go beside another of its schedule")

    def _compare(self, note: RunNote) -> None:
        record = self.store.get_run(note.id)
        if record is None:
            raise Violation(f"INV-8: a run that is to be {note.state} is not there")
        if record.state is not note.state:
            raise Violation(f"INV-8: a run that is to be {note.state} is {record.state}")
        if record.into != note.into:
            raise Violation(f"INV-8: a run that is {note.state} does not say who stands for it")

    def _compare_skip(self, schedule_id: ScheduleId, occurrence: int, reason: str) -> None:
        run_id = occurrence_run_id(schedule_id, occurrence)
        if self.store.get_run(run_id) is not None:
            raise Violation(f"INV-8: a run was made that is to be skipped: {reason}")
        (verdict,) = self.store.judge(schedule_id, [occurrence])
        if verdict.reason == SkipReason.SKIPPED:
            return  # a person had skipped it, and new times have promised it anew
        if verdict.reason != reason:
            raise Violation(f"INV-8: {occurrence} is to be skipped as {reason}, is {verdict}")
        if verdict.run_id is None:
            raise Violation("INV-8: an occurrence was skipped, and nobody is said to be in the way")
        self.counts[f"skipped: {reason}"] += 1

    def reckon(self, now: int, patience_us: int) -> None:
        """When all is quiet nobody waits at a gate that is free (INV-26)."""
        for line in self._lines.values():
            if line.holder is not None or not line.waiting:
                continue
            is_free = self._before(line.waiting[0][2]) is None
            if is_free and line.free_since < now - patience_us:
                raise Violation("INV-26: a run waits at a gate that nobody holds")


def _gate(definition: Definition, schedule_id: ScheduleId) -> str:
    if definition.overlap is Overlap.SERIALIZE:
        return f"key {definition.serialize_by}"
    return f"schedule {schedule_id.hex()}"


def _patient(policy: Overlap) -> Overlap:
    """Return the policy by which one comes that takes nobody's place."""
    return policy if policy in {Overlap.ALLOW, Overlap.SKIP} else Overlap.QUEUE_ALL
