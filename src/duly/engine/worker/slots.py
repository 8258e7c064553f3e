"""Slots: how many runs execute at once, and how many are claimed ahead of free slots.

By default async tasks have many slots of their own, and all other kinds share a few. A worker that
was told how many runs it may execute has one pool for all kinds.

A claim cannot choose kinds, and it takes time. So a worker claims more runs than it has free slots:
as many as have ended within the last moment, since as many will end in the next. Those runs wait in
`SlotPool.ahead`. What has not begun soon is given back, and the pool's window shrinks: it claims
fewer until runs begin in time again. While a pool is full, its tasks are left to other workers.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import TaskKind

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from duly.engine.worker.settings import WorkerSettings
    from duly.store.ports.execution import ClaimedRun

SHRINK = 4
"""A window shrinks to one part in so many whenever runs are given back."""
SHARE_MIN = 1 / 256
"""Less of what is claimed is expected of no kind that the worker has tasks of."""
SAMPLES = 8
"""How often the ends of the last moment are counted."""


class AheadRun(NamedTuple):
    """A claimed run that waits for a slot."""

    claimed: ClaimedRun
    since: int
    """When it was claimed, on the monotonic clock."""


@dataclass(slots=True, eq=False)
class SlotPool:
    """The slots of some kinds of tasks."""

    slots: int
    ahead_max: int
    lately_us: int
    recovery_us: int
    taken: int = 0
    """Slots of attempts that run, linger or are leaked."""
    ended: int = 0
    """How many slots were given back so far."""
    ahead: deque[AheadRun] = field(default_factory=deque)
    share: float = 1.0
    """Which part of the claimed runs was for this pool lately."""
    window: int = field(init=False)
    """How many may be held that have not begun, however many slots are free."""
    _window_at: int = 0
    _ends: deque[tuple[int, int]] = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Begin with a window that limits nothing."""
        self.window = self.slots + self.ahead_max

    def capacity(self, free: int, monotonic: int, unbegun: Callable[[SlotPool], int]) -> int:
        """Return how many more runs can begin soon."""
        soon = min(self._ended_lately(monotonic), self.ahead_max)
        capacity = max(free, 0) + soon - len(self.ahead)
        if self.window >= self.slots + self.ahead_max:
            return capacity
        if monotonic - self._window_at > self.recovery_us:
            self.window *= 2
            self._window_at = monotonic
        return min(capacity, self.window - unbegun(self))

    def shrink(self, unbegun: int, monotonic: int) -> None:
        """Hold fewer from now on: of so many that had not begun, some had waited for too long."""
        self.window = max(1, min(self.window, unbegun) // SHRINK)
        self._window_at = monotonic

    def _ended_lately(self, monotonic: int) -> int:
        ends = self._ends
        while ends and ends[0][0] < monotonic - self.lately_us:
            ends.popleft()
        if not ends or ends[-1][0] <= monotonic - self.lately_us // SAMPLES:
            ends.append((monotonic, self.ended))
        return self.ended - ends[0][1]


class ClaimRoom(NamedTuple):
    """How many runs to claim, and of which kinds of tasks none."""

    limit: int
    full: frozenset[TaskKind]


class WorkerSlots:
    """All pools of a worker."""

    def __init__(self, settings: WorkerSettings) -> None:
        def pool(slots: int) -> SlotPool:
            limits = (settings.claim_max, settings.ended_lately_us, settings.unbegun_us)
            return SlotPool(slots, *limits)

        if settings.slots is not None:
            self._by_kind = dict.fromkeys(TaskKind, pool(settings.slots))
        else:
            self._by_kind = dict.fromkeys(TaskKind, pool(settings.other_slots))
            self._by_kind[TaskKind.ASYNC] = pool(settings.async_slots)
        self.pools = tuple(dict.fromkeys(self._by_kind.values()))
        self._served = self.pools
        """Those of kinds that the worker has tasks of."""

    def serve(self, kinds: Collection[TaskKind]) -> None:
        """Count on runs of these kinds."""
        served = dict.fromkeys(self._by_kind[kind] for kind in kinds)
        self._served = tuple(served) or self.pools

    def of(self, kind: TaskKind) -> SlotPool:
        """Return the pool of a kind."""
        return self._by_kind[kind]

    def release(self, kind: TaskKind) -> None:
        """Give a slot back."""
        pool = self._by_kind[kind]
        pool.taken -= 1
        pool.ended += 1

    def ahead(self) -> Iterator[AheadRun]:
        """Return what was claimed ahead and has not begun."""
        for pool in self.pools:
            yield from pool.ahead

    def room(
        self, free: Mapping[SlotPool, int], monotonic: int, unbegun: Callable[[SlotPool], int]
    ) -> ClaimRoom:
        """Return how many to claim, given the free slots and what has not begun of each pool."""
        served = {pool: pool.capacity(free[pool], monotonic, unbegun) for pool in self._served}
        full = {pool for pool, capacity in served.items() if capacity <= 0}
        if len(full) == len(served):
            return ClaimRoom(0, frozenset())
        if full or len(served) == 1:
            limit = max(served.values())
            passed = frozenset(kind for kind, pool in self._by_kind.items() if pool in full)
            return ClaimRoom(limit, passed)
        shared = (capacity / max(pool.share, SHARE_MIN) for pool, capacity in served.items())
        return ClaimRoom(max(1, int(min(shared))), frozenset())

    def note_claim(self, kinds: Iterable[TaskKind]) -> None:
        """Learn from a claim of every kind for which pools there are runs."""
        if len(self._served) == 1:
            return
        counts = Counter(self._by_kind[kind] for kind in kinds)
        total = counts.total()
        if total:
            for pool in self._served:
                pool.share = (pool.share + counts[pool] / total) / 2
