"""Fills the wheel: window reads, arrivals feed, sweep for overdue timers.

`Loader` fills the wheel in four ways, each complete on its own terms:
- the window: timers that fall due in the next half minute are read ahead;
- the hand-over: a timer that this dispatcher fires enters its own next instant;
- the arrivals feed: timers that other processes write for a window that is already loaded;
- the sweep: overdue timers that still exist, for whatever reason they were not fired.

A timer that exists has not fired, so taking over a shard requires nothing but loading it.

`Sweep` looks in two places. Every second it reads, for all shards, the timers that fell due since
its last look. Older overdue timers it reads when a shard is newly acquired, and then repeatedly,
one shard at a time. The reason is that fired timers leave dead entries in a database's index while
an old transaction is open. A read from the beginning of time would walk over all of them every
second.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

from duly.engine.dispatcher.timer_wheel import LoadedTimer, Wheel
from duly.errors import StoreUnavailable
from duly.store.ports.dispatch import ArrivalsCursor, LoadedTimers, LoadTimers, Timer
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.store_clock import ClockSync
    from duly.store.ports.dispatch import FireOnTime


QUICK_US = SECOND_US // 4
SLICE_US = 4000
"""A slice of the recent past that takes longer is made smaller: fresh work waits for it."""


class TimerSink(Protocol):
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

    def __init__(self, around: DispatcherContext, sync: ClockSync, taking: TimerSink) -> None:
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


FEED_APART_US = 5000
"""However often somebody rings, the feed is not read more often than this."""


class Loader:
    """The wheel of fresh timers, the backlog of overdue ones, and what fills both."""

    def __init__(self, around: DispatcherContext, sync: ClockSync) -> None:
        self._around = around
        self._sync = sync
        self.wheel = Wheel()
        self.backlog = Wheel()
        self.unplanned: deque[LoadedTimer] = deque()
        """Fresh entries that are still to be planned ahead, in the order they came."""
        self.seen_now = 0
        """The store's clock in its last answer."""
        self._through: dict[int, int] = {}
        """Up to which instant each shard is loaded."""
        self._owned: Collection[int] | None = None
        """What we were last told is ours; None after something of it was dropped."""
        self._cursor: ArrivalsCursor | None = None
        self._is_doubtful = False
        self._is_crowded = False
        """Whether an instant of one shard holds more than is read at once."""
        self._width = 0
        """How many shards are loaded in one go; 0 for all."""
        self._feed_at = 0
        self._fed_at = -FEED_APART_US
        self._sweep = Sweep(around, sync, self)
        self._busy_until = 0

    def begin(self) -> None:
        """Start as a new member: nothing loaded, and the feed read from here on."""
        self.drop(set(self._through))
        self._cursor = self._around.store.start_of_arrivals()

    def own(self, shards: Collection[int]) -> None:
        """Load shards that are new to us, from the beginning of time."""
        if shards is self._owned:
            return
        new = set(shards) - self._through.keys()
        if new and not self._through:
            # Nothing was read while nothing was ours; loading finds all that is there by now.
            self._cursor = self._around.store.start_of_arrivals()
        if new:
            self.reload(new)
        self._owned = shards

    def drop(self, shards: Collection[int]) -> None:
        """Forget everything of shards that are not ours any more."""
        if not shards:
            return
        self._owned = None
        for shard in shards:
            self._through.pop(shard, None)
        self.wheel.drop_shards(shards)
        self.backlog.drop_shards(shards)
        self._sweep.own(self._through)
        self.unplanned = deque(entry for entry in self.unplanned if self.wheel.holds(entry))

    def reload(self, shards: Collection[int]) -> None:
        """Believe nothing about shards and read them anew: the near future first, then the rest."""
        start = self._start_of_window()
        for shard in shards:
            self._through[shard] = start
        self._sweep.own(self._through)
        self._sweep.begin(shards, start)

    def doubt(self) -> None:
        """Begin the feed anew and load the window again: the store may be another server now.

        One that took over may give its transactions numbers that our cursor has passed.
        """
        self._is_doubtful = True

    def wake(self) -> None:
        """Read the feed soon: somebody has written something near."""
        self._feed_at = self._fed_at + FEED_APART_US

    def note_busy(self, monotonic: int) -> None:
        """Look at the feed more often for a while: where something happens, more may."""
        self._busy_until = monotonic + self._around.settings.busy_for_us

    def read(self) -> None:
        """Do what is due of reading: a page of the window, the feed, a page of the sweep."""
        if not self._through:
            return
        if self._is_doubtful:
            self._begin_anew()
        monotonic = self._around.clock.monotonic_us()
        if monotonic >= self._feed_at:
            self._read_feed(monotonic)
        if monotonic >= self._window_at(monotonic):
            self._load_window(monotonic)
        self._sweep.read(monotonic)

    def next_at(self, monotonic: int) -> int | None:
        """Return when to read again; None when nothing is ours."""
        if not self._through:
            return None
        return min(self._feed_at, self._sweep.next_at(monotonic), self._window_at(monotonic))

    def hand_over(self, entry: LoadedTimer, scheduled_for: int, due_at: int) -> None:
        """Take the next instant of what we have just fired, if its window is loaded."""
        shard = entry.shard
        through = self._through.get(shard)
        if through is None or due_at > through:
            return
        if len(self.wheel) + len(self.backlog) >= self._around.settings.entries_max:
            self._through[shard] = min(through, due_at - 1)
            return
        entry.go_on(scheduled_for, due_at)
        self._wheel_for(due_at).insert(entry)

    def hand_over_all(self, entries: Iterable[tuple[LoadedTimer, FireOnTime]]) -> None:
        """Do the same for many that have gone on as nearly all do."""
        through_of, oldest, room = self._through.get, self._oldest_fresh(), self._room()
        wheel, backlog = self.wheel, self.backlog
        for entry, fire in entries:
            shard, due_at = entry.shard, fire.next_due
            through = through_of(shard)
            if through is None or due_at > through:
                continue
            if room <= 0:
                self._through[shard] = min(through, due_at - 1)
                continue
            entry.go_on(fire.next_for, due_at)
            room -= (wheel if due_at >= oldest else backlog).insert(entry)

    def put_back(self, entry: LoadedTimer) -> None:
        """Keep an entry that has not fired; later than its grace it belongs to the backlog."""
        self._wheel_for(entry.due_at).insert(entry)

    def look_for_overdue(self, shard: int) -> None:
        """Look at the past of a shard at the next tick: something in it is not as we believed."""
        self._sweep.doubt(shard)

    def put_late(self, entry: LoadedTimer) -> None:
        """Keep an entry that the store called late, behind fresh work."""
        self.backlog.insert(entry)

    def see(self, now: int) -> None:
        """Remember what the store's clock showed."""
        self.seen_now = now

    def _begin_anew(self) -> None:
        self._cursor = self._around.store.start_of_arrivals()
        start = self._start_of_window()
        for shard, through in self._through.items():
            self._through[shard] = min(start, through)
        self._is_doubtful = False

    def _start_of_window(self) -> int:
        monotonic = self._around.clock.monotonic_us()
        return self._sync.floor_now(monotonic) - self._around.settings.live_grace_us

    def _window_at(self, monotonic: int) -> int:
        settings = self._around.settings
        # A part of a crowd is read again with the rest of it, so not for a few.
        worth = settings.entries_max if self._is_crowded else settings.load_page
        if self._room() < worth // 2:
            return monotonic + settings.feed_idle_us
        behind = min(self._through.values()) - settings.horizon_us // 2
        return self._sync.reached_at(behind, monotonic)

    def _load_window(self, monotonic: int) -> None:
        settings = self._around.settings
        after = min(self._through.values())
        behind = sorted(one for one, through in self._through.items() if through == after)
        shards = tuple(behind[: self._width or len(behind)])
        limit = max(min(settings.load_page, self._room()), 1)
        until = self._sync.floor_now(monotonic) + settings.horizon_us
        # A crowd at one instant is read shard by shard: so much at once would hold up what is due.
        crowd_max = max(self._room(), 1) if len(shards) == 1 else limit
        order = LoadTimers(
            shards=shards, after=after, until=until, limit=limit, crowd_max=crowd_max
        )
        loaded = self.load(order)
        is_part = bool(loaded.timers) and loaded.through < loaded.timers[-1].due_at
        self._is_crowded = is_part and len(shards) == 1
        for timer in loaded.timers:
            # A crowd at one instant is taken as a whole: half of it would have to be read again.
            self.offer(timer, has_room=True)
        for shard in shards:
            self._through[shard] = max(after, loaded.through)
        self._fit_width(len(shards), len(loaded.timers), is_part=is_part)

    def _fit_width(self, width: int, count: int, *, is_part: bool) -> None:
        """Load fewer shards in one go where much falls due, and more where little does."""
        page = self._around.settings.load_page
        if is_part:
            self._width = max(width // 8, 1)
        elif self._width and count < page // 2:
            wider = 2 * self._width
            self._width = wider if wider < len(self._through) else 0

    def _read_feed(self, monotonic: int) -> None:
        settings = self._around.settings
        store, cursor = self._around.store, self._cursor
        assert cursor is not None, "one begins before one reads"
        shards = tuple(sorted(self._through))
        arrivals = self._sync.ask(lambda: store.read_arrivals(cursor, shards))
        self.see(arrivals.now)
        self._cursor = arrivals.cursor
        self._fed_at = monotonic
        if arrivals.timers:
            self.note_busy(monotonic)
        for timer in arrivals.timers:
            self._around.statistics.arrivals += self._offer_near(timer)
        is_busy = monotonic < self._busy_until
        self._feed_at = monotonic + (settings.feed_busy_us if is_busy else settings.feed_idle_us)

    def is_ready_for_more(self) -> bool:
        """Say whether what a sweep found before has been dealt with."""
        return len(self.backlog) < self._around.settings.batch_max

    def first_at(self) -> int | None:
        """Return when the first fresh entry is to be fired; None when there is none."""
        return self.wheel.next_at()

    def load(self, order: LoadTimers) -> LoadedTimers:
        """Read timers, and hear the store's clock."""
        store = self._around.store
        loaded = self._sync.ask(lambda: store.load_timers(order))
        self.see(loaded.now)
        return loaded

    def _offer_near(self, timer: Timer) -> bool:
        """Take a timer if its window is loaded; otherwise loading the window will find it."""
        through = self._through.get(timer.shard)
        return through is not None and timer.due_at <= through and self.offer(timer)

    def offer(self, timer: Timer, *, has_room: bool = False) -> bool:
        """Put a timer into memory; False if it is there, is not ours, or there is no room."""
        through = self._through.get(timer.shard)
        if through is None:
            return False
        if not has_room and self._room() <= 0:
            # Loading begins there again when there is room; what is overdue the sweep finds.
            self._through[timer.shard] = min(through, timer.due_at - 1)
            return False
        entry = LoadedTimer(timer, timer.due_at)
        wheel = self._wheel_for(timer.due_at)
        if not wheel.insert(entry):
            return False
        if timer.kind == "schedule" and wheel is self.wheel:
            self.unplanned.append(entry)
        return True

    def _room(self) -> int:
        return self._around.settings.entries_max - len(self.wheel) - len(self.backlog)

    def _wheel_for(self, due_at: int) -> Wheel:
        return self.wheel if due_at >= self._oldest_fresh() else self.backlog

    def _oldest_fresh(self) -> int:
        return self.seen_now - self._around.settings.live_grace_us
