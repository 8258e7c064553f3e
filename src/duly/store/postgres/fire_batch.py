"""A batch of timers while it is fired: what was ordered, and what has become of each so far."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from duly.domain.enums import Lane
from duly.store.ports.dispatch import Fired, FireOnTime, FireResult
from duly.store.postgres import leases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.ports.dispatch import FireSchedule, FireTimers, LeaseKey, Timer


class Batch:
    """One order to fire, while it is carried out: what became of each timer so far."""

    def __init__(self, command: FireTimers) -> None:
        self.command = command
        self.results: list[FireResult | None] = [None] * _count(command)
        self.now = 0
        self.runs_made = 0
        self.runs_taken = 0
        """Of them those that whoever has fired them has claimed."""
        self.has_queued = False
        """Whether workers have something to claim."""
        self.lost: dict[LeaseKey, None] = {}
        self._seconds: frozenset[int] = frozenset()
        """The places of timers that were told before in the same batch: those are gone."""
        self.is_distinct = len(_refs(command)) == len(self.results)
        """Whether there is one timer of each run and schedule, which is nearly always."""
        if not self.is_distinct:
            told = [(timer.ref, timer.generation, timer.due_at) for timer in self.timers]
            first = {one: place for place, one in reversed([*enumerate(told)])}
            self._seconds = frozenset(range(len(told))).difference(first.values())

    @cached_property
    def shards(self) -> frozenset[int]:
        """Those whose timers may be fired under the fence, if it holds."""
        leases = self.command.fence.leases
        return frozenset([lease.key.shard for lease in leases if lease.key.lane is Lane.LIVE])

    @cached_property
    def timers(self) -> list[Timer]:
        """The timers of all, in order; seldom looked at."""
        command = self.command
        fires = [*command.schedules, *command.delayed, *command.retries]
        return [fire.timer for fire in fires]

    def is_all_fired(self) -> bool:
        """Say whether nothing is left to be looked at."""
        return self.results.count(FireResult.FIRED) == len(self.results)

    def open_schedules(self) -> list[tuple[int, FireSchedule]]:
        """Return the schedules that have no result yet, with their places."""
        results, seconds = self.results, self._seconds
        return [
            (place, fire)
            for place, fire in enumerate(self.command.schedules)
            if results[place] is None and place not in seconds
        ]

    def open_delayed(self) -> list[tuple[int, Timer]]:
        """Return the timers of delayed runs that have no result yet, with their places."""
        timers = [fire.timer for fire in self.command.delayed]
        return self._open(timers, len(self.command.schedules))

    def open_retries(self) -> list[tuple[int, Timer]]:
        """Return the retries that have no result yet, with their places."""
        before = len(self.command.schedules) + len(self.command.delayed)
        return self._open([fire.timer for fire in self.command.retries], before)

    def _open(self, timers: Sequence[Timer], before: int) -> list[tuple[int, Timer]]:
        return [
            (place, timer)
            for place, timer in enumerate(timers, before)
            if self.results[place] is None and place not in self._seconds
        ]

    def hear(self, now: int, have: Sequence[int] | None) -> None:
        """Learn from an answer what time it is and which leases are ours; the rest is fenced."""
        held, lost = leases.divided(self.command.fence, have or ())
        self.lost.update(dict.fromkeys(lost))
        self.now = now
        shards = {key.shard for key in held if key.lane is Lane.LIVE}
        for place, timer in enumerate(self.timers):
            if timer.shard not in shards and self.results[place] is None:
                self.results[place] = FireResult.FENCED

    def hear_of_others(self, now: int, fired: Sequence[tuple[int, Timer]]) -> None:
        """Learn what somebody else has fired of it, and need not be told of."""
        self.now = now
        self.runs_made += len(fired)
        self.runs_taken += len(fired)
        for place, _ in fired:
            self.results[place] = FireResult.FIRED

    def judge(self, place: int, late_after: int | None) -> None:
        """Settle what the clock alone has settled of a timer that is still there."""
        if self.timers[place].due_at > self.now:
            self.results[place] = FireResult.EARLY
        elif late_after is not None and self.now > late_after:
            self.results[place] = FireResult.LATE

    def fired(self) -> Fired:
        """Return the answer."""
        results = tuple([one or FireResult.GONE for one in self.results])
        return Fired(self.now, results, self.runs_made, tuple(self.lost))


def _count(command: FireTimers) -> int:
    return len(command.schedules) + len(command.delayed) + len(command.retries)


def _refs(command: FireTimers) -> set[bytes]:
    refs = {
        fire.ref if isinstance(fire, FireOnTime) else fire.timer.ref for fire in command.schedules
    }
    refs.update([fire.timer.ref for fire in command.delayed])
    refs.update([fire.timer.ref for fire in command.retries])
    return refs
