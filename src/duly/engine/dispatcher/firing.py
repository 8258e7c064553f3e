"""Sends due timers to the store in batches and acts on its answers.

`Firing` sends what it believes to be due. The store compares each timer with what is pending,
judges it by its own clock, and refuses all timers of a shard that this dispatcher does not own.

Fresh timers go first. The backlog gets the room that they leave, and a share of its own.

After a lost answer `Firing` trusts nothing in memory: the shards are read anew, and a timer that
still exists has not fired.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple, assert_never

from duly.domain.enums import Lane
from duly.domain.ids import identity_text
from duly.engine.spans import fire_spans
from duly.errors import STORE_AWAY, StoreError
from duly.store.ports.dispatch import Fired, FireOnTime, FirePlanned, FireResult, FireTimers
from duly.telemetry import LatePlanned, ScheduleEnded, TimersFired, WriteFenced

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.domain.fire_planning import Plan
    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.dispatcher.fire_planner import FirePlanner
    from duly.engine.dispatcher.leases import Membership, Ownership
    from duly.engine.dispatcher.timer_loader import Loader
    from duly.engine.dispatcher.timer_wheel import LoadedTimer, Wheel
    from duly.engine.store_clock import ClockSync
    from duly.store.ports.dispatch import TimerKind
    from duly.telemetry.tracing import Tracing

PLAN_BATCH_US = 50_000
"""How long planning may hold up one batch; what is not planned by then comes with the next."""
PLAN_BACKLOG_US = 20_000
"""The same for the backlog: fresh work may fall due meanwhile, and waits as long."""
BACKLOG_BATCH_US = 30_000
"""So long a batch of the backlog may take; what falls due meanwhile is late by as much."""
EARLY_RETRY_US = 200
_ORDER: dict[TimerKind, int] = {"schedule": 0, "delayed": 1, "retry": 2}
"""In which order the kinds of timers are sent, and answered."""


class _UnderWay(NamedTuple):
    """A batch that is being fired, or about to be."""

    batch: list[LoadedTimer]
    answer: Callable[[], Fired] | None = None
    """Waits for it."""
    before: int = 0
    """When it was begun, on the monotonic clock."""


class Firing:
    """Fires what is due, one batch at a time."""

    def __init__(  # noqa: PLR0913 - the parts that firing brings together
        self,
        around: DispatcherContext,
        sync: ClockSync,
        loader: Loader,
        plans: FirePlanner,
        *,
        membership: Membership,
        ownership: Ownership,
    ) -> None:
        self._around = around
        self._sync = sync
        self._loader = loader
        self._membership = membership
        self._ownership = ownership
        self._plans = plans
        self._backlog_us = 0
        """How long it takes to fire one of the backlog; 0 until some were."""
        settings = around.settings
        self._first_max = min(settings.batch_first, settings.batch_max)
        self._batch_max = self._first_max
        """How many fresh timers the next batch may hold: twice as many as the last, if that was
        full. Whoever executes them has something to do by then, while the next are fired."""
        self._gathering_until = 0
        """Until then what falls due is left to come together, on the monotonic clock."""
        self.owed_noticed: Callable[[], None] = lambda: None
        """Told when a fire has made something owed."""

    def fire(self) -> bool:
        """Fire a batch of fresh timers and one of the backlog; say whether any was sent."""
        settings = self._around.settings
        monotonic = self._around.clock.monotonic_us()
        if monotonic < self._gathering_until:
            return False
        fresh, is_crowd = self._fire_fresh()
        room = settings.batch_backlog_min if fresh else self._room_for_backlog()
        older = self._fire_backlog(room)
        has_fired = bool(fresh or older)
        if has_fired and not is_crowd and older < room:
            # Where so much is due that a batch can't hold it, nothing more need come together.
            self._gathering_until = monotonic + settings.fires_apart_us
        return has_fired

    def _fire_fresh(self) -> tuple[int, bool]:
        """Fire a batch of fresh timers; return how many, and whether there are more.

        Of a crowd the next batch is on its way while what has become of the last is heard, if the
        store can do that; none is when this returns.
        """
        settings, clock = self._around.settings, self._around.clock
        ends = clock.monotonic_us() + settings.fire_slice_us
        under_way: _UnderWay | None = None
        count = 0
        for rounds in reversed(range(settings.fires_ahead_max + 1)):
            most = self._batch_max
            with self._giving_up_on(under_way):
                taken, ready = self._take(self._loader.wheel, most)
                is_crowd = taken >= most
                # The backlog has its share of each batch; other duties have theirs after a while.
                may_follow = rounds > 0 and is_crowd and clock.monotonic_us() < ends
                is_alone = self._loader.backlog.next_at() is None
                following = self._begin(ready) if may_follow and is_alone else None
            self._batch_max = min(2 * most, settings.batch_max) if is_crowd else self._first_max
            count += taken
            if under_way is not None:
                with self._giving_up_on(following or _UnderWay(ready)):
                    self._hear(under_way)
            if following is None:
                self._send_if_allowed(ready)
                return count, is_crowd
            under_way = following
        raise AssertionError("nothing follows the last")

    def _begin(self, batch: list[LoadedTimer]) -> _UnderWay | None:
        """Begin to fire a batch of a crowd; None if it has to be sent."""
        begin_fire = self._around.begin_fire
        batch = self._ours(batch)
        if begin_fire is None or not batch:
            return None
        before = self._around.clock.monotonic_us()
        try:
            with self._giving_up_on(_UnderWay(batch)):
                answer = begin_fire(self._command(batch))
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - one bad row must not stop the others: sending tells which
            return None
        return None if answer is None else _UnderWay(batch, answer, before)

    def _hear(self, last: _UnderWay) -> None:
        """Conclude a batch that is under way."""
        assert last.answer is not None, "it was begun"
        try:
            with self._giving_up_on(last):
                fired = last.answer()
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - one bad row must not stop the others
            self._send_if_allowed(last.batch)
            return
        self._loader.see(fired.now)
        self._conclude(last.batch, fired, last.before)

    @contextmanager
    def _giving_up_on(self, given_up: _UnderWay | None) -> Iterator[None]:
        """Look anew, if anything fails, for what nobody will hear of: it may have fired or not."""
        try:
            yield
        except Exception:
            if given_up is not None:
                self._loader.reload({entry.shard for entry in given_up.batch})
            raise

    def _send_if_allowed(self, batch: list[LoadedTimer]) -> None:
        """Send a batch, if our lease has not come too close to its end meanwhile."""
        if self._membership.may_write():
            self._send(batch)
            return
        for entry in batch:
            self._loader.put_back(entry)

    def _room_for_backlog(self) -> int:
        """Return how much of the backlog is fired at once: what is fresh may fall due meanwhile."""
        settings = self._around.settings
        fits = BACKLOG_BATCH_US // self._backlog_us if self._backlog_us else 0
        return max(settings.batch_backlog_min, min(fits, settings.batch_max))

    def _fire_backlog(self, room: int) -> int:
        """Fire a batch of the backlog, and note how long each of it takes."""
        clock = self._around.clock
        began_at = clock.monotonic_us()
        older = self._fire_from(self._loader.backlog, room)
        if older:
            each_us = max((clock.monotonic_us() - began_at) // older, 1)
            known = self._backlog_us or each_us
            self._backlog_us = max((3 * known + each_us) // 4, 1)
        return older

    def next_at(self, monotonic: int) -> int | None:
        """Return when to fire next, on the monotonic clock: what is first is surely due then."""
        times = [
            at
            for at in (self._loader.wheel.next_at(), self._loader.backlog.next_at())
            if at is not None
        ]
        if not times:
            return None
        return max(self._sync.reached_at(min(times), monotonic), self._gathering_until)

    def _fire_from(self, wheel: Wheel, limit: int) -> int:
        """Take, plan and send one batch; return how many timers were sent."""
        taken, ready = self._take(wheel, limit)
        self._send(ready)
        return taken

    def _take(self, wheel: Wheel, limit: int) -> tuple[int, list[LoadedTimer]]:
        """Take a batch, and plan it; return how many were taken, and those to be sent."""
        if not self._membership.may_write():
            return 0, []
        monotonic = self._around.clock.monotonic_us()
        batch = wheel.take(self._sync.floor_now(monotonic), limit)
        if not batch:
            return 0, []
        try:
            is_fresh = wheel is self._loader.wheel
            ready = self._plans.made_for(batch, PLAN_BATCH_US if is_fresh else PLAN_BACKLOG_US)
        except StoreError:
            for entry in batch:
                self._loader.put_back(entry)
            raise
        if not self._membership.may_write():
            for entry in ready:
                self._loader.put_back(entry)
            return 0, []
        self._loader.note_busy(monotonic)
        return len(batch), ready

    def _send(self, batch: list[LoadedTimer]) -> None:
        """Fire a batch; one that fails for a reason of its own is halved to find the culprit."""
        batch = self._ours(batch)
        if not batch:
            return
        before = self._around.clock.monotonic_us()
        try:
            fired = self._around.store.fire_timers(self._command(batch))
        except STORE_AWAY:
            # Whether it happened is not known: look, and never assume.
            self._loader.reload({entry.shard for entry in batch})
            raise
        except Exception as error:  # noqa: BLE001 - one bad row must not stop the others
            if len(batch) == 1:
                self._plans.set_aside(batch[0], f"it can't be fired: {error!r}")
                return
            # A part of it may have fired, and has a next instant that nobody handed over.
            self._loader.reload({entry.shard for entry in batch})
            middle = len(batch) // 2
            self._send(batch[:middle])
            self._send(batch[middle:])
            return
        self._loader.see(fired.now)
        self._conclude(batch, fired, before)

    def _ours(self, batch: list[LoadedTimer]) -> list[LoadedTimer]:
        """Return those whose shards are ours, in the order in which the kinds are answered."""
        ours = self._ownership.live
        batch = [one for one in batch if one.shard in ours]
        if len({one.kind for one in batch}) > 1:
            batch.sort(key=_place)
        return batch

    def _command(self, batch: list[LoadedTimer]) -> FireTimers:
        fires: Any = {"schedule": [], "delayed": [], "retry": []}
        for kind, chosen in groupby(batch, attrgetter("kind")):
            fires[kind] = [entry.fire for entry in chosen]
        return FireTimers(
            fence=self._ownership.fence(Lane.LIVE, {entry.shard for entry in batch}),
            schedules=tuple(fires["schedule"]),
            delayed=tuple(fires["delayed"]),
            retries=tuple(fires["retry"]),
        )

    def _conclude(self, batch: list[LoadedTimer], fired: Fired, before: int) -> None:
        """Learn from the answer to each timer."""
        assert len(batch) == len(fired.results), "every timer has its answer"
        if self._around.tracing is not None:
            self._trace(self._around.tracing, batch, fired, before)
        late, fenced = 0, 0
        is_early = False
        lateness: list[int] = []
        plain: list[tuple[LoadedTimer, FireOnTime]] = []
        now = fired.now
        counted = fired.results.count(FireResult.FIRED)
        for entry, result in zip(batch, fired.results, strict=True):
            if result is not FireResult.FIRED:
                is_early |= result is FireResult.EARLY
                fenced += result is FireResult.FENCED
                self._after_refusal(entry, result, now)
                continue
            fire = entry.fire
            if isinstance(fire, FirePlanned):
                late += fire.late_after is None
                self._go_on(entry, fire.plan)
                if fire.late_after is None:
                    # What was settled by its misfire policy had no due moment to be measured by.
                    continue
            elif isinstance(fire, FireOnTime):
                plain.append((entry, fire))
            lateness.append(now - entry.due_at)
        # Their next instants go straight into the wheel.
        self._loader.hand_over_all(plain)
        if is_early or self._sync.is_contradicted(before, fired.now):
            # Else not: a fire takes its time, and would take the place of what tells us more.
            self._sync.hear(before, fired.now)
        self._around.statistics.note_lateness(lateness)
        self._report(fired, counted, max(lateness, default=0))
        member = self._membership.number()
        if late:
            self._around.statistics.late_planned += late
            self._around.telemetry.emit(LatePlanned(member=member, count=late))
        if fenced:
            self._around.statistics.fenced += fenced
            self._around.telemetry.emit(WriteFenced(member=member, count=fenced))
        self._ownership.lose(fired.lost)

    def _trace(self, tracing: Tracing, batch: list[LoadedTimer], fired: Fired, before: int) -> None:
        """Tell the spans of what has fired, before its entries stand for their next instants."""
        clock = self._around.clock
        ended_at, took_us = clock.now_us(), clock.monotonic_us() - before
        results = zip(batch, fired.results, strict=True)
        entries = (entry for entry, result in results if result is FireResult.FIRED)
        spans = fire_spans(entries, fired.now, self._membership.number())
        tracing.tell(spans, ended_at - took_us, ended_at)

    def _go_on(self, entry: LoadedTimer, plan: Plan) -> None:
        """Put the next instant into the wheel, or say that there is none."""
        settlement, following, end_reason = plan
        if settlement.owed is not None:
            self.owed_noticed()
        if following is not None:
            self._loader.hand_over(entry, *following)
            return
        ended = ScheduleEnded(
            member=self._membership.number(),
            schedule_id=identity_text(entry.ref),
            reason=end_reason or "",
        )
        self._around.telemetry.emit(ended)

    def _after_refusal(self, entry: LoadedTimer, result: FireResult, now: int) -> None:
        statistics, settings = self._around.statistics, self._around.settings
        match result:
            case FireResult.EARLY:
                statistics.early_answers += 1
                entry.fire_at = max(entry.due_at, now + EARLY_RETRY_US)
                entry.fire = None
                self._loader.put_back(entry)
            case FireResult.LATE:
                entry.fire = None
                self._loader.put_late(entry)
            case FireResult.BUSY:
                statistics.busy += 1
                entry.fire_at = now + settings.busy_retry_us
                self._loader.put_back(entry)
            case FireResult.GONE:
                statistics.gone += 1
                if entry.kind == "schedule":
                    # An order of ours that we gave up on may have fired it: its next instant is
                    # announced to nobody, and may be overdue already.
                    self._loader.look_for_overdue(entry.shard)
            case FireResult.FENCED | FireResult.FIRED:
                pass  # counted by the caller; its shard is dropped with the lease
            case _:
                assert_never(result)

    def _report(self, fired: Fired, counted: int, lateness_max: int) -> None:
        statistics = self._around.statistics
        statistics.batches += 1
        statistics.fired += counted
        statistics.runs += fired.runs_made
        event = TimersFired(
            member=self._membership.number(),
            fired=counted,
            runs=fired.runs_made,
            lateness_max_us=lateness_max,
        )
        self._around.telemetry.emit(event)


def _place(entry: LoadedTimer) -> int:
    return _ORDER[entry.kind]
