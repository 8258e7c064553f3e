"""The ledger: what the store was told and has answered, kept apart from the store.

It is written from commands and answers alone, so at the end it can be laid beside the store's own
tables: whatever was acknowledged must be there, and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from duly.domain.enums import ScheduleStatus
from tests.simulation.oracle import Template, occurrences
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.fire_planning import Settlement, Skip
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.schedules import CatchUpRange, NextOccurrence
    from duly.store.ports.dispatch import Fence, LeaseKey, MemberId
    from duly.store.ports.schedules import ChangeSchedule, CreateSchedule


@dataclass(slots=True)
class Segment:
    """A stretch of nominal time that belongs to one definition: `after` excluded, `until` not."""

    number: int
    after: int
    until: int | None = None
    settled: int = 0
    """The last of its occurrences that has a verdict."""


@dataclass(eq=False, slots=True)
class ScheduleNote:
    """One schedule as the ledger knows it."""

    id: ScheduleId
    name: str
    status: ScheduleStatus
    pending: NextOccurrence | None
    templates: dict[int, Template]
    segments: list[Segment]
    version: int = 1
    number: int = 1
    owners: dict[int, Segment] = field(default_factory=dict)
    """Which segment a definition's occurrences belong to."""
    held_for: int | None = None
    last_run_for: int | None = None
    runs: dict[int, int] = field(default_factory=dict)
    """Occurrence and the definition it was run under."""
    skips: list[Skip] = field(default_factory=list)
    owed: dict[int, CatchUpRange] = field(default_factory=dict)
    verdicts: dict[int, str] = field(default_factory=dict)

    @property
    def template(self) -> Template:
        """Return the definition in force."""
        return self.templates[self.number]

    def change(
        self,
        command: ChangeSchedule,
        decided_at: int,
        verdicts: Mapping[int, str] = MappingProxyType({}),
    ) -> None:
        """Take over what an order makes of the schedule."""
        change, old = command.change, self.template
        self.version += 1
        if change.drops_owed:
            for owed in self.owed.values():
                for occurrence in self._span(owed.definition_number, owed.first_for, owed.last_for):
                    self.verdicts[occurrence] = "deleted"
            self.owed.clear()
        if change.definition is not None:
            self.number = self.version
            self.templates[self.version] = Template(self.id, self.version, change.definition)
            self.owners[self.version] = self._switch(old, decided_at)
        self.settle(old, change.settlement, verdicts)
        self.status, self.pending, self.held_for = change.status, change.pending, change.held_for

    def _switch(self, old: Template, decided_at: int) -> Segment:
        """Let the new definition begin where the old one ends, if they differ in times."""
        new, segment = self.template, self.segments[-1]
        same = new.definition.timetable.to_json() == old.definition.timetable.to_json()
        if same and self.status is not ScheduleStatus.ENDED:
            return segment
        cut = max(decided_at, self.last_run_for or decided_at)
        # Skipping an occurrence to come was said of the old times; new times are a new promise.
        for occurrence in [one for one, said in self.verdicts.items() if said == "skipped"]:
            if occurrence > cut:
                del self.verdicts[occurrence]
        # What was settled beyond that before a clock went back stays the old definition's.
        segment.until = max([cut, *(one for one in self.verdicts if one <= segment.settled)])
        following = Segment(self.version, cut)
        self.segments.append(following)
        return following

    def settle(
        self,
        template: Template,
        settlement: Settlement,
        verdicts: Mapping[int, str] = MappingProxyType({}),
    ) -> set[int]:
        """Give each occurrence of a settlement its one verdict (INV-2, INV-3); return them.

        The verdicts on its runs, where another than to be run is possible.
        """
        settled = [run.scheduled_for for run in settlement.runs]
        for run in settlement.runs:
            verdict = verdicts.get(run.scheduled_for, "run")
            self._judge(template.number, run.scheduled_for, verdict)
            if verdict != "run":
                continue
            self.runs[run.scheduled_for] = template.number
            self.last_run_for = max(run.scheduled_for, self.last_run_for or run.scheduled_for)
        for skip in settlement.skips:
            self.skips.append(skip)
            for occurrence in self._span(template.number, skip.first_for, skip.last_for):
                self._judge(template.number, occurrence, str(skip.reason))
                settled.append(occurrence)
        if settlement.owed is not None:
            settled += self._owe(settlement.owed)
        return set(settled)

    def _owe(self, owed: CatchUpRange) -> list[int]:
        span = self._span(owed.definition_number, owed.first_for, owed.last_for)
        for occurrence in span:
            self._judge(owed.definition_number, occurrence, "owed")
        self.owed[owed.first_for] = owed
        return span

    def forget_owed(self, owed: CatchUpRange) -> set[int]:
        """Take a range back, because what follows settles it; return what it held."""
        if self.owed.pop(owed.first_for, None) != owed:
            raise Violation(f"INV-2: {self.name} drained what it did not owe")
        span = self._span(owed.definition_number, owed.first_for, owed.last_for)
        for occurrence in span:
            del self.verdicts[occurrence]
        return set(span)

    def _span(self, number: int, first: int, last: int) -> list[int]:
        found = list(occurrences(self.templates[number].definition, first, last))
        if not found or found[0] != first or found[-1] != last:
            text = f"INV-16: {self.name} names {first}..{last}, which its rule does not"
            raise Violation(text)
        return found

    def _judge(self, number: int, occurrence: int, verdict: str) -> None:
        if occurrence in self.verdicts:
            before = self.verdicts[occurrence]
            text = f"INV-3: occurrence {occurrence} of {self.name} was {before}, now also {verdict}"
            raise Violation(text)
        self.verdicts[occurrence] = verdict
        owner = self.owners[number]
        owner.settled = max(owner.settled, occurrence)


@dataclass(eq=False, slots=True)
class DelayedNote:
    """A run that somebody ordered, as the ledger knows it."""

    id: RunId
    key: str | None
    due_at: int
    generation: int = 1
    state: str = "pending"
    """Then: fired, cancelled, replaced."""
    asked_at: int | None = None
    """When it was asked for, of what is to run at once."""


@dataclass(eq=False, slots=True)
class MemberNote:
    """A member as the ledger knows it."""

    expires_at: int
    is_alive: bool = True
    is_dispatcher: bool = True


@dataclass(eq=False, slots=True)
class LeaseNote:
    """A lease as the ledger knows it."""

    owner: MemberId | None = None
    epoch: int = 0


class Ledger:
    """Everything that was acknowledged."""

    def __init__(self) -> None:
        self.schedules: dict[ScheduleId, ScheduleNote] = {}
        self.delayed: dict[RunId, DelayedNote] = {}
        self.keys: dict[str, RunId] = {}
        self.members: dict[MemberId, MemberNote] = {}
        self.leases: dict[LeaseKey, LeaseNote] = {}

    def create(self, command: CreateSchedule) -> None:
        """Note a new schedule."""
        template = Template(command.id, 1, command.definition)
        note = ScheduleNote(
            command.id,
            command.name,
            ScheduleStatus.ACTIVE,
            command.pending,
            {1: template},
            [Segment(1, command.pending.scheduled_for - 1)],
        )
        note.owners[1] = note.segments[0]
        self.schedules[command.id] = note

    def is_alive(self, member: MemberId | None, now: int) -> bool:
        """Say whether a membership holds at a store's time."""
        note = None if member is None else self.members.get(member)
        return note is not None and note.is_alive and note.expires_at > now

    def lease(self, key: LeaseKey) -> LeaseNote:
        """Return what is known about a lease."""
        return self.leases.setdefault(key, LeaseNote())

    def holds(self, fence: Fence, key: LeaseKey, now: int) -> bool:
        """Say whether a fence holds for a lane of a shard: alive, owner, and at that epoch."""
        if not self.is_alive(fence.member, now):
            return False
        note = self.lease(key)
        epochs = [lease.epoch for lease in fence.leases if lease.key == key]
        return note.owner == fence.member and epochs == [note.epoch]

    def close_delayed(self, run_id: RunId, state: str) -> None:
        """Note what became of a delayed run."""
        note = self.delayed[run_id]
        if note.state != "pending":
            raise Violation(f"INV-3: a delayed run that was {note.state} is now {state}")
        note.state = state
        if note.key is not None:
            self.keys.pop(note.key, None)
