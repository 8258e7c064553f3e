"""The sweep: finds whatever is overdue and still there, whoever forgot it.

It looks in two places. What fell due since it last looked it reads every second, for all shards.
What was due before that it reads when a shard is new to us, and then again and again, a shard at a
time: what has been fired leaves traces in a database's index for as long as somebody keeps an old
transaction open, and whoever began at the beginning of time every second would walk over them all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from duly.domain.instants import SECOND_US
from duly.errors import StoreUnavailable
from duly.store.dispatch import LoadedTimers, LoadTimers, Timer

if TYPE_CHECKING:
    from collections.abc import Collection

    from duly.engine.clock_sync import ClockSync
    from duly.engine.surroundings import Surroundings

QUICK_US = SECOND_US // 4
SLICE_US = 4000
"""A slice of the recent past that takes longer is made smaller: fresh work waits for it."""


class Taking(Protocol):
    """Who reads timers, and takes them in."""

    def load(self, order: LoadTimers) -> LoadedTimers:
        """Read timers."""
        ...

    def offer(self, timer: Timer) -> bool:
        """Put a timer into memory; False if it is there, is not ours, or there is no room."""
        ...

    def is_ready_for_more(self) -> bool:
        """Say whether what was found before has been dealt with."""
        ...

    def first_at(self) -> int | None:
        """Return when the first of what is known is to be fired; None when nothing is."""
        ...


class Sweep:
    """What is overdue: of late, and since any time."""

    def __init__(self, around: Surroundings, sync: ClockSync, taking: Taking) -> None:
        self._around = around
        self._sync = sync
        self._taking = taking
        self._shards: tuple[int, ...] = ()
        self._through = 0
        """All that fell due by then is looked for as past."""
        self._recent_at = 0
        self._has_more_recent = False
        self._round: tuple[int, ...] = ()
        """Shards that are still to be looked at before all have been seen up to `_round_until`."""
        self._round_until = 0
        self._is_next_slice = False
        """Whether the next slice of a round is to be looked at, whatever was found so far."""
        self._slice: tuple[int, ...] = ()
        """The shards of a round that are being looked at,"""
        self._slice_after = 0
        """and from when on."""
        self._slice_width = 0
        """How many shards are looked at in one go; 0 for all."""
        self._past_at = 0
        self._has_more_past = False
        self._unchecked: set[int] = set()
        """Shards whose past we have not seen."""
        self._checking: tuple[int, ...] = ()
        self._check_after: int | None = None
        self._last = -1
        """The shard whose past was read last."""
        self._width = 0
        """How many shards' past is read at once; 0 for all."""

    def own(self, shards: Collection[int]) -> None:
        """Look at these shards, and at no others."""
        self._shards = tuple(sorted(shards))
        self._unchecked &= set(shards)
        self._round, self._is_next_slice = (), False
        self._leave_group()

    def begin(self, shards: Collection[int], through: int) -> None:
        """Believe nothing about the past of shards; what falls due later the window reads."""
        monotonic = self._around.clock.monotonic_us()
        self._unchecked |= set(shards)
        self._through = min(self._through, through) if self._through else through
        self._recent_at = self._past_at = monotonic
        self._round, self._is_next_slice = (), False
        self._leave_group()

    def doubt(self, shard: int) -> None:
        """Look at the past of a shard soon."""
        if shard in self._shards:
            self._unchecked.add(shard)
            self._past_at = self._around.clock.monotonic_us()
            self._leave_group()

    def read(self, monotonic: int) -> None:
        """Do what is due of both."""
        if not self._shards:
            return
        is_ready = self._taking.is_ready_for_more()
        is_more = self._is_next_slice or (self._has_more_recent and is_ready)
        if is_more or monotonic >= self._recent_at:
            self.read_recent(monotonic)
        if monotonic >= self._past_at or (self._has_more_past and is_ready):
            self.read_past(monotonic)

    def next_at(self, monotonic: int) -> int:
        """Return when to read again."""
        has_more = self._has_more_recent or self._has_more_past
        if self._is_next_slice or (has_more and self._taking.is_ready_for_more()):
            return monotonic
        return min(self._recent_at, self._past_at)

    def read_recent(self, monotonic: int) -> None:
        """Read a page of what fell due since the last look, of as many shards as are soon read.

        Whatever is due meanwhile waits for it: so a large store is looked at slice by slice.
        """
        settings = self._around.settings
        if not self._round:
            self._recent_at = monotonic + settings.sweep_every_us
            self._has_more_recent = False
            until = self._sync.floor_now(monotonic) - settings.sweep_behind_us
            first_at = self._taking.first_at()
            if first_at is not None:
                # While we are behind, most of what is overdue is what we know and have not fired.
                until = min(until, max(first_at - 1, until - settings.sweep_waits_us))
            if until <= self._through:
                return
            self._round, self._round_until = self._shards, until
            self._slice = ()
        if not self._slice:
            self._slice = self._round[: self._slice_width or len(self._round)]
            self._slice_after = self._through
        # Said before it is asked: what fails is not asked again at once.
        self._recent_at = monotonic + settings.sweep_every_us
        self._is_next_slice = False
        loaded, found = self._take(self._slice, self._slice_after, self._round_until)
        self._fit_slice(len(self._slice), self._around.clock.monotonic_us() - monotonic)
        if loaded.through < self._round_until:
            self._has_more_recent = found > 0
            self._slice_after = max(self._slice_after, loaded.through)
            return
        self._round, self._slice = self._round[len(self._slice) :], ()
        self._has_more_recent = False
        self._is_next_slice = bool(self._round)
        if not self._round:
            self._through = max(self._through, self._round_until)

    def _fit_slice(self, width: int, took_us: int) -> None:
        """Look at fewer shards in one go when it takes long, and at more when it does not."""
        if took_us > SLICE_US:
            self._slice_width = max(width // 2, 1)
        elif self._slice_width and took_us < SLICE_US // 4:
            wider = 2 * self._slice_width
            self._slice_width = wider if wider < len(self._shards) else 0

    def read_past(self, monotonic: int) -> None:
        """Read a page of what was due before that: of shards that are new, or of the next one."""
        settings = self._around.settings
        group = self._checking or self._next_group()
        is_new = not self._unchecked.isdisjoint(group)
        every_us = settings.sweep_all_every_us // max(len(self._shards), 1)
        self._past_at = monotonic + (settings.sweep_every_us if is_new else every_us)
        self._checking = group
        try:
            loaded, found = self._take(group, self._check_after, self._through)
        except StoreUnavailable:
            # Perhaps it was too much to walk over at once.
            self._width = max(len(group) // 2, 1)
            self._leave_group()
            raise
        is_cut = loaded.through < self._through
        self._has_more_past = is_cut and found > 0
        if is_cut:
            self._check_after = loaded.through
            return
        self._end_group(monotonic, group)

    def _end_group(self, monotonic: int, group: tuple[int, ...]) -> None:
        self._unchecked.difference_update(group)
        self._leave_group()
        took_us = self._around.clock.monotonic_us() - monotonic
        if self._unchecked:
            self._has_more_past = True
            if took_us < QUICK_US:
                self._width *= 2
        else:
            self._width = 0
            rest_us = self._around.settings.sweep_all_rest * took_us
            self._past_at = max(self._past_at, monotonic + rest_us)
        self._last = group[-1]

    def _next_group(self) -> tuple[int, ...]:
        new = sorted(self._unchecked)
        if new:
            return tuple(new[: self._width or len(new)])
        return (next((one for one in self._shards if one > self._last), self._shards[0]),)

    def _leave_group(self) -> None:
        self._checking, self._check_after = (), None

    def _take(
        self, shards: tuple[int, ...], after: int | None, until: int
    ) -> tuple[LoadedTimers, int]:
        """Read a page; return it, and how many of it were not known."""
        limit = self._around.settings.sweep_page
        order = LoadTimers(shards=shards, after=after, until=until, limit=limit, is_whole=False)
        loaded = self._taking.load(order)
        found = sum(self._taking.offer(timer) for timer in loaded.timers)
        self._around.statistics.swept += found
        return loaded, found
