"""Gates: how every store lets runs go on, wait or be passed over, one at a time through each.

What it takes to look something up or to write it is each store's own. Who decides about a gate
holds it meanwhile, so that two never decide about the same state of it. The end of a run only gives
its gate back; who waits there is let go in a second step, by whoever ended the run or, if that one
has died, by the next that looks: nobody is let go by a look that was taken too early.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Overlap, RunState, SkipReason
from duly.domain.ids import identity_text
from duly.domain.limits import LimitReason, capped_place, why_text
from duly.domain.policies import GATELESS, Gate, GateEntryOutcome, enter, gate_of, may_go_on
from duly.errors import Conflict

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import AttemptCounts
    from duly.domain.schedules import Definition, ScheduleRecord
    from duly.store.ports.schedules import NewRun

NOBODY = b""
"""What is written of a schedule of which no run has gone ahead: nothing would be the last made."""
OPENED_MAX = 1_000
"""How many whoever has made room lets go at once; the rest is let go by who tends the store."""
OVERLAP = "overlap"
"""Why a run that waited was closed: another stands for it."""


def blocked_reason(gate: str) -> str:
    """Return why a run waits at a gate: for an earlier one, or for a place at a limit."""
    place = capped_place(gate)
    return OVERLAP if place is None else why_text(LimitReason.CAP, place)


class IncomingRun(NamedTuple):
    """A run of a schedule that comes to its gate, before it is written."""

    run_id: RunId
    policy: Overlap
    gate: str | None
    """Through which it goes; None where nobody ever waits."""
    last_let_go: RunId | None
    """The schedule's run that went ahead before, if there was one."""


def comer_of(record: ScheduleRecord, definition: Definition, run_id: RunId) -> IncomingRun:
    """Return a run of a schedule as one that comes, under a definition of it."""
    policy = definition.overlap
    gate = gate_of(policy, record.tenant, record.id, definition.serialize_by)
    return IncomingRun(run_id, policy, gate, record.active_run)


def comer_by_hand(record: ScheduleRecord, new: NewRun) -> IncomingRun:
    """Return a run that a person asks of a schedule: under its policy, or the one he names."""
    definition = record.definition
    if new.overlap is not None:
        definition = replace(definition, overlap=new.overlap)
    return comer_of(record, definition, new.id)


def comer_again(record: ScheduleRecord, definition: Definition, run_id: RunId) -> IncomingRun:
    """Return a dead run that a person brings back: it waits, and takes nobody's place."""
    comer = comer_of(record, definition, run_id)
    return comer if comer.gate is None else comer._replace(policy=Overlap.QUEUE_ALL)


class GateDecision(NamedTuple):
    """What is decided about one that comes."""

    coming: GateEntryOutcome
    gate: str | None = None
    """The gate that it takes or waits at."""
    reason: SkipReason | None = None
    in_the_way: RunId | None = None
    """Because of whom it waits or is skipped."""
    stands_for: tuple[RunId, ...] = ()
    """Whose places it has taken: its window begins where the first of theirs does."""


FREE = GateDecision(GateEntryOutcome.GOES)


class Gates(ABC):
    """The gates of a store within one transaction."""

    def __init__(self) -> None:
        self.gone: set[RunId] = set()
        """Who has gone ahead in this transaction, and may not be written yet."""

    @abstractmethod
    def exists(self, run_id: RunId) -> bool:
        """Say whether there is such a run, whatever has become of it."""

    @abstractmethod
    def is_stored_open(self, run_id: RunId) -> bool:
        """Say whether a run is still to end: neither closed nor dead, and not forgotten."""

    @abstractmethod
    def lock(self, gate: str) -> None:
        """Let nobody else decide about a gate until the end of the transaction."""

    @abstractmethod
    def holder(self, gate: str) -> RunId | None:
        """Return the open run that has gone ahead through a gate."""

    @abstractmethod
    def waiting(self, gate: str) -> list[RunId]:
        """Return who waits at a gate, the first to go first."""

    @abstractmethod
    def waits(self, run_id: RunId) -> bool:
        """Say whether a run waits for another one, and has not gone ahead."""

    @abstractmethod
    def holds(self, run_id: RunId) -> bool:
        """Say whether a run holds any gate."""

    @abstractmethod
    def last_let_go(self, run_id: RunId) -> RunId | None:
        """Return the run of the same schedule that went ahead last."""

    @abstractmethod
    def take(self, gate: str, run_id: RunId) -> None:
        """Note that a run has gone ahead."""

    @abstractmethod
    def let_go(self, gate: str, run_id: RunId) -> None:
        """Queue one that has waited, and note that it has gone ahead."""

    @abstractmethod
    def close_waiting(self, run_id: RunId, state: RunState, into: RunId) -> None:
        """Close one that waits, because another stands for it."""

    @abstractmethod
    def stop(self, run_id: RunId, into: RunId) -> bool:
        """Close an open run as replaced, or ask its worker to stop; True if it is closed now."""

    @abstractmethod
    def stand(
        self, run_id: RunId, arrival: GateDecision, priority: int, tries: AttemptCounts
    ) -> None:
        """Let a run wait; the one in its way gets its priority, if that is more urgent."""

    def is_open(self, run_id: RunId) -> bool:
        """Say whether a run is still to end."""
        return run_id in self.gone or self.is_stored_open(run_id)

    def has_gone(self, run_id: RunId) -> bool:
        """Say whether a run has gone ahead and is still to end.

        One that has gone before may wait again: dead, and brought back by a person.
        """
        return self.is_open(run_id) and not self.waits(run_id)

    def arrive(self, comer: IncomingRun) -> GateDecision:
        """Decide about a run that comes; whoever asks writes it, as it was decided."""
        if comer.policy is Overlap.ALLOW:
            return FREE
        gate = comer.gate
        if gate is None:
            return self._skip_or_go(comer)
        self.lock(gate)
        holder, waiting = self.holder(gate) or self._went_elsewhere(comer), self.waiting(gate)
        entry = enter(comer.policy, Gate(holder is not None, len(waiting)))
        stands_for: list[RunId] = []
        if entry.closes_waiting is not None:
            for one in waiting:
                self.close_waiting(one, entry.closes_waiting, comer.run_id)
            stands_for, waiting = waiting, []
        if entry.stops_holder and holder is not None:
            stands_for = [holder, *stands_for]
            if self.stop(holder, comer.run_id):
                self.gone.discard(holder)
                holder = None
        coming, in_the_way = (
            entry.coming,
            holder if holder is not None else next(iter(waiting), None),
        )
        if coming is GateEntryOutcome.WAITS and in_the_way is None:
            # Whoever was in the way is not any more: it need not wait to be let go.
            coming = GateEntryOutcome.GOES
        return GateDecision(coming, gate, entry.reason, in_the_way, tuple(stands_for))

    def is_free(self, comer: IncomingRun) -> bool:
        """Say whether a run that came now would find nobody; nothing is changed by asking."""
        if comer.policy is Overlap.ALLOW:
            return True
        last = comer.last_let_go
        if last is not None and last != comer.run_id and self.is_open(last):
            return False
        if comer.gate is None:
            return True
        self.lock(comer.gate)
        return self.holder(comer.gate) is None and not self.waiting(comer.gate)

    def open(self, gate: str) -> bool:
        """Let the first that waits at a gate go, if it may; say whether one did."""
        self.lock(gate)
        waiting = self.waiting(gate)
        if not may_go_on(Gate(self.holder(gate) is not None, len(waiting))):
            return False
        before = self.last_let_go(waiting[0])
        if before is not None and self.has_gone(before):
            return False  # it went when the schedule had no gate, and is in the way all the same
        self.let_go(gate, waiting[0])
        return True

    def _went_elsewhere(self, comer: IncomingRun) -> RunId | None:
        """Return the schedule's last run if it is open and went ahead without this gate.

        The policy has been changed since; who comes now still finds it in the way. If it had no
        gate it holds this one from now on; if it had another, whoever tends the store sees when it
        is over.
        """
        last = comer.last_let_go
        if last is None or last == comer.run_id or not self.has_gone(last):
            return None
        assert comer.gate is not None, "who comes to a gate has one"
        if not self.holds(last):
            self.take(comer.gate, last)
        return last

    def _skip_or_go(self, comer: IncomingRun) -> GateDecision:
        """Decide where nobody waits: by the schedule's last run alone, which nobody need note."""
        assert comer.policy in GATELESS, "the others have a gate"
        last = comer.last_let_go
        if last is None or last == comer.run_id or not self.is_open(last):
            return FREE
        return GateDecision(GateEntryOutcome.SKIPPED, None, SkipReason.OVERLAP, last)


def closed_state(state: RunState, replaced_by: RunId | None) -> tuple[RunState, RunId | None]:
    """Return how a run is closed that was to make place for another: replaced, if it did stop."""
    if replaced_by is None or state is not RunState.CANCELLED:
        return state, None
    return RunState.REPLACED, replaced_by


def in_the_way(schedule: str, arrival: GateDecision) -> Conflict:
    """Return the error for a run that a person asks for, and that may neither go nor wait."""
    assert arrival.in_the_way is not None, "somebody is in the way"
    run = identity_text(arrival.in_the_way)
    if arrival.reason is SkipReason.OVERFLOW:
        problem, remedy = "has as many waiting as may wait", "wait until they have gone"
    else:
        problem, remedy = f"has a run that is still open: {run}", "wait for it, or cancel it"
    return Conflict("schedule", schedule, problem, f"{remedy}; or override with overlap='allow'")
