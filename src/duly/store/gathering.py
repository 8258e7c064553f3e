"""Gathering what a transaction settles: runs, skips and what stays owed, as rows to be written.

Shared by firing, draining and orders that settle something, on every database. Runs are gathered
and written in one go, because a batch of a thousand is the usual case.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from duly.domain.enums import Lane, Overlap
from duly.domain.policies import GateEntryOutcome, gate_of
from duly.domain.runs import AttemptCounts
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.gates import IncomingRun

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duly.domain.fire_planning import PlannedRun, Settlement
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.gates import GateDecision, Gates
    from duly.store.ports.schedules import NewRun
    from duly.store.records import Row

_UNTRIED = AttemptCounts()
LANE_OFFSETS = {Lane.LIVE: 0, Lane.CATCH_UP: 100, Lane.BACKFILL: 200}
"""Added to the priority in the queue, so that one order expresses lanes and priorities."""


def share_of(tenant: str) -> str:
    """Return the name under which a tenant's runs stand in the queue: nothing, for the default."""
    return "" if tenant == TENANT_DEFAULT else tenant


@dataclass(slots=True)
class ScheduleState:
    """What of a schedule's row a settlement builds on, and leaves changed."""

    schedule_id: ScheduleId
    tenant: str
    shard: int
    number: int
    """Of the definition that the runs refer to, and below what it says is run."""
    task: str
    queue: str
    priority: int
    last_for: int | None
    last_run: RunId | None
    last_fired_at: int | None
    fires: int
    overlap: Overlap = Overlap.ALLOW
    gate: str | None = None
    """Through which its runs go, one at a time."""
    active_run: RunId | None = None
    """The last that went ahead."""
    overlaps: int = 0

    def under(self, number: int, definition: Definition) -> None:
        """Settle under another definition than the one in force."""
        call = definition.call
        self.number, self.task = number, call.task
        self.queue, self.priority = call.queue, call.priority
        self.overlap, self.gate = definition.overlap, self._gate(definition)

    def _gate(self, definition: Definition) -> str | None:
        by = definition.serialize_by
        return gate_of(definition.overlap, self.tenant, self.schedule_id, by)

    def comer(self, run_id: RunId) -> IncomingRun:
        """Return a run of the schedule as one that comes to its gate."""
        return IncomingRun(run_id, self.overlap, self.gate, self.active_run)


def ground_from(state: Sequence[Any]) -> ScheduleState:
    """Return what settling builds on, from the columns of a schedule's state in their order."""
    ground = ScheduleState(*state)
    ground.overlap = Overlap(ground.overlap)
    return ground


def ground_of(record: ScheduleRecord) -> ScheduleState:
    """Return what settling builds on, under the definition in force."""
    call = record.definition.call
    ground = ScheduleState(
        schedule_id=record.id,
        tenant=record.tenant,
        shard=record.shard,
        number=record.definition_number,
        task=call.task,
        queue=call.queue,
        priority=call.priority,
        last_for=record.last_for,
        last_run=record.last_run,
        last_fired_at=record.last_fired_at,
        fires=record.fires,
        active_run=record.active_run,
        overlaps=record.overlaps,
    )
    ground.under(record.definition_number, record.definition)
    return ground


@dataclass(frozen=True, slots=True)
class RunBefore:
    """A question: which occurrence of the schedule was the last to be run before this one."""

    place: int
    schedule_id: ScheduleId
    run_id: RunId
    scheduled_for: int


class SettlementBatch(ABC):
    """What is gathered in one transaction, to be written together."""

    ID, TENANT, SCHEDULE, NUMBER, KEY, TASK, ARGUMENTS, QUEUE = range(8)
    PRIORITY, ORIGIN, LANE, FOR, NOT_BEFORE, WINDOW, CREATED, FIRED = range(8, 16)
    COLUMNS: ClassVar = 16
    """How a run's row is ordered."""

    def __init__(self, now: int) -> None:
        self._now = now
        self._runs: list[Row] = []
        self._grounds: list[ScheduleState] = []
        """The ground of each run."""
        self._unsure: list[RunBefore] = []
        self._skips: dict[tuple[bytes, int], Row] = {}
        self._owed: dict[tuple[bytes, int], Row] = {}
        self._arrivals: dict[bytes, GateDecision] = {}
        """What was decided about runs that have come to a gate."""
        self._made = 0

    @abstractmethod
    def ran_before(self, questions: Sequence[RunBefore]) -> list[int | None]:
        """Say which occurrence the store knows as the last that was run before each."""

    @abstractmethod
    def gates(self) -> Gates:
        """Return the gates of the store, within the transaction."""

    @abstractmethod
    def write_runs(self, rows: list[Row], arrivals: Mapping[bytes, GateDecision]) -> set[bytes]:
        """Insert runs and queue those that are new and do not wait at a gate; return their ids."""

    @abstractmethod
    def write_ranges(self, skips: list[Row], owed: list[Row]) -> None:
        """Insert skips and what is owed; of ranges that begin alike the longer one holds."""

    def add(self, ground: ScheduleState, settlement: Settlement) -> None:
        """Take a settlement up."""
        now, last_for = self._now, ground.last_for
        for run in settlement.runs:
            if ground.overlap is not Overlap.ALLOW and not self._arrive(ground, run):
                continue
            window_from = last_for
            if last_for is not None and last_for >= run.scheduled_for:
                self._ask(ground, run)
            else:
                last_for = run.scheduled_for
            self._grounds.append(ground)
            self._runs.append(settled_row(ground, run, window_from, now))
        for skip in settlement.skips:
            ends = (ground.schedule_id, skip.first_for, skip.last_for)
            _longer(self._skips, (*ends, skip.count, skip.reason, skip.into, now))
        if settlement.owed is not None:
            owed = settlement.owed
            ends = (owed.schedule_id, owed.first_for, owed.last_for)
            _longer(self._owed, (*ends, owed.definition_number, ground.shard, now))

    def is_free(self, ground: ScheduleState, settlement: Settlement) -> bool:
        """Say whether the runs of a settlement would find nobody in their way."""
        if ground.overlap is Overlap.ALLOW:
            return True
        gates = self.gates()
        new = [run.run_id for run in settlement.runs if not gates.exists(run.run_id)]
        return all(gates.is_free(ground.comer(run_id)) for run_id in new)

    def write(self) -> int:
        """Write everything; return how many runs were made, and note them on their grounds."""
        self._write_runs()
        self.write_ranges(list(self._skips.values()), list(self._owed.values()))
        return self._made

    def _write_runs(self) -> None:
        """Write the runs that were gathered so far."""
        if self._unsure:
            self._find_windows()
        made = self.write_runs(self._runs, self._arrivals) if self._runs else set[bytes]()
        for ground, row in zip(self._grounds, self._runs, strict=True):
            if row[self.ID] not in made:
                continue
            ground.fires += 1
            ground.last_fired_at = self._now
            if ground.overlap is Overlap.ALLOW:
                # Who comes to a gate has been noted there; should the policy change, this counts.
                ground.active_run = row[self.ID]
            if ground.last_for is None or ground.last_for < row[self.FOR]:
                ground.last_for, ground.last_run = row[self.FOR], row[self.ID]
        self._made += len(made)
        self._runs, self._grounds, self._unsure, self._arrivals = [], [], [], {}

    def _arrive(self, ground: ScheduleState, run: PlannedRun) -> bool:
        """Let a run come to its gate; False if it is not made, because it is there or skipped."""
        gates = self.gates()
        if gates.exists(run.run_id):
            return False
        if ground.overlap is Overlap.REPLACE and self._runs:
            # The one that it replaces may be among them, and has to be there to make way.
            self._write_runs()
        arrival = gates.arrive(ground.comer(run.run_id))
        ground.overlaps += arrival.coming is not GateEntryOutcome.GOES
        if arrival.coming is GateEntryOutcome.SKIPPED:
            at = run.scheduled_for
            row = (ground.schedule_id, at, at, 1, arrival.reason, arrival.in_the_way, self._now)
            _longer(self._skips, row)
            return False
        self._arrivals[run.run_id] = arrival
        if arrival.coming is GateEntryOutcome.GOES:
            ground.active_run = run.run_id
            gates.gone.add(run.run_id)
            if arrival.gate is not None:
                gates.take(arrival.gate, run.run_id)
        else:
            priority = ground.priority + LANE_OFFSETS[run.lane]
            gates.stand(run.run_id, arrival, priority, _UNTRIED)
        return True

    def _ask(self, ground: ScheduleState, run: PlannedRun) -> None:
        place = len(self._runs)
        self._unsure.append(RunBefore(place, ground.schedule_id, run.run_id, run.scheduled_for))

    def _find_windows(self) -> None:
        """Fill in the windows of runs that come before others: asked of the store all at once."""
        gathered: dict[bytes, list[int]] = defaultdict(list)
        for row in self._runs:
            gathered[row[self.SCHEDULE]].append(row[self.FOR])
        for instants in gathered.values():
            instants.sort()
        for question, stored in zip(self._unsure, self.ran_before(self._unsure), strict=True):
            # What this transaction has gathered is not in the table yet.
            instants = gathered[question.schedule_id]
            before = bisect_left(instants, question.scheduled_for)
            found = [instants[before - 1]] if before else []
            if stored is not None:
                found.append(stored)
            row = self._runs[question.place]
            window = (max(found, default=None),)
            self._runs[question.place] = row[: self.WINDOW] + window + row[self.WINDOW + 1 :]


def settled_row(ground: ScheduleState, run: PlannedRun, window_from: int | None, now: int) -> Row:
    """Return the row of a run that an occurrence becomes."""
    return (
        run.run_id,
        ground.tenant,
        ground.schedule_id,
        ground.number,
        None,
        ground.task,
        None,
        ground.queue,
        ground.priority,
        run.origin,
        run.lane,
        run.scheduled_for,
        run.not_before,
        window_from,
        now,
        now,
    )


def ordered_row(new: NewRun, instant: int, now: int) -> Row:
    """Return the row of a run that somebody asked for at once."""
    call = new.call
    return (
        new.id,
        new.tenant,
        new.schedule_id,
        new.definition_number,
        new.key,
        call.task,
        call.arguments,
        call.queue,
        call.priority,
        new.origin,
        new.lane,
        instant,
        instant,
        None,
        now,
        now,
    )


def _longer(ranges: dict[tuple[bytes, int], Row], row: Row) -> None:
    """Keep a range; of two that begin alike, the longer one."""
    known = ranges.get(row[:2])
    if known is None or known[2] < row[2]:
        ranges[row[:2]] = row
