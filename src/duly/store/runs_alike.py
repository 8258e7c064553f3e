"""Runs that are ordered together and differ in their ids and arguments only.

So a program orders many at once. What is the same for all is said once, and whoever wants to see
one of them by itself has it made: nearly nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, overload

from duly.domain.enums import Origin
from duly.domain.schedules import Call
from duly.store.ports.schedules import AddedRun, NewRun
from duly.store.rulings import LIBRARY

if TYPE_CHECKING:
    from duly.domain.enums import Lane
    from duly.domain.ids import RunId
    from duly.store.ports.schedules import AddRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class UniformRuns(Sequence[NewRun]):
    """Runs that are wanted later, under ids that were drawn for them, without keys."""

    tenant: str
    task: str
    queue: str
    priority: int
    origin: Origin
    lane: Lane
    due_at: int | None
    delay_us: int | None
    """One of the two says when they are wanted."""
    is_late_ok: bool
    ids: list[RunId]
    arguments: list[str]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> NewRun: ...
    @overload
    def __getitem__(self, at: slice) -> list[NewRun]: ...

    def __getitem__(self, at: int | slice) -> NewRun | list[NewRun]:
        """Return one of them, or some, as they would have been ordered one by one."""
        if isinstance(at, slice):
            return [self[one] for one in range(len(self))[at]]
        return NewRun(
            id=self.ids[at],
            tenant=self.tenant,
            call=Call(
                task=self.task,
                arguments=self.arguments[at],
                queue=self.queue,
                priority=self.priority,
            ),
            origin=self.origin,
            lane=self.lane,
            due_at=self.due_at,
            delay_us=self.delay_us,
            is_late_ok=self.is_late_ok,
            is_drawn=True,
        )

    def due(self, now: int) -> int:
        """Return when they are due, asked at that instant."""
        if self.delay_us is not None:
            return now + self.delay_us
        assert self.due_at is not None, "they are wanted later"
        return self.due_at

    def added(self, due_at: int) -> list[AddedRun]:
        """Return what has become of them: all were made."""
        return [AddedRun(run_id, due_at, True) for run_id in self.ids]  # noqa: FBT003 - of many


def alike_later(command: AddRuns) -> UniformRuns | None:
    """Return the runs of a program's order if they are alike, for later; else None."""
    runs = command.runs
    if command.actor.source != LIBRARY or not runs:
        return None
    if isinstance(runs, UniformRuns):
        return runs
    first = runs[0]
    is_later = first.due_at is not None or first.delay_us is not None
    if not is_later or first.origin is Origin.MANUAL:
        return None
    told = _told(first)
    if not all(_told(new) == told and _is_in_nobodys_way(new) for new in runs):
        return None
    return UniformRuns(
        tenant=first.tenant,
        task=first.call.task,
        queue=first.call.queue,
        priority=first.call.priority,
        origin=first.origin,
        lane=first.lane,
        due_at=first.due_at,
        delay_us=first.delay_us,
        is_late_ok=first.is_late_ok,
        ids=[new.id for new in runs],
        arguments=[new.call.arguments for new in runs],
    )


def _told(new: NewRun) -> tuple[object, ...]:
    """Return what is said of each, and has to be the same."""
    call, when = new.call, (new.due_at, new.delay_us, new.is_late_ok)
    return new.tenant, call.task, call.queue, call.priority, new.origin, new.lane, when


def _is_in_nobodys_way(new: NewRun) -> bool:
    return new.is_drawn and new.key is None and new.schedule_id is None
