"""Firing: hands due timers to the store in batches, and draws the conclusions from its answers.

What is sent is a belief: the store compares each timer with what is pending, judges it by its own
clock, and refuses the whole of a shard that is not ours. Fresh timers go first; the backlog gets
what they leave, and a share of its own. After a lost answer nothing is believed: the shards are
read anew, and what is still there has not fired.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, assert_never

from duly.domain.identity import ScheduleId, identity_text, occurrence_run_id
from duly.domain.literals import Lane
from duly.domain.schedules import Pending
from duly.domain.settling import plan_late, plan_on_time
from duly.engine.spans import fire_spans
from duly.errors import STORE_AWAY, StoreError, UsageError
from duly.store.dispatch import (
    Fired,
    FireDelayed,
    FireOnTime,
    FirePlanned,
    FireResult,
    FireRetry,
    FireTimers,
)
from duly.telemetry import BatchFired, LatePlanned, ScheduleEnded, WriteFenced

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.settling import Plan, Template
    from duly.engine.clock_sync import ClockSync
    from duly.engine.loader import Loader
    from duly.engine.membership import Membership
    from duly.engine.ownership import Ownership
    from duly.engine.surroundings import Surroundings
    from duly.engine.templates import TemplateKey, Templates
    from duly.engine.wheel import Entry, Wheel
    from duly.store.dispatch import TimerKind
    from duly.telemetry.tracing import Tracing

PLAN_BATCH_US = 50_000
"""How long planning may hold up one batch; what is not planned by then comes with the next."""
PLAN_BACKLOG_US = 20_000
"""The same for the backlog: fresh work may fall due meanwhile, and waits as long."""
BACKLOG_BATCH_US = 30_000
"""So long a batch of the backlog may take; what falls due meanwhile is late by as much."""
LOOK_EVERY = 8
"""After how many plans the clock is looked at."""
FETCH_MAX = 500
"""How many schedules are read ahead at most while others are due."""
EARLY_RETRY_US = 200
_ORDER: dict[TimerKind, int] = {"schedule": 0, "delayed": 1, "retry": 2}
"""In which order the kinds of timers are sent, and answered."""


class Firing:
    """Fires what is due, one batch at a time."""

    def __init__(  # noqa: PLR0913 - the parts that firing brings together
        self,
        around: Surroundings,
        sync: ClockSync,
        loader: Loader,
        templates: Templates,
        *,
        membership: Membership,
        ownership: Ownership,
    ) -> None:
        self._around = around
        self._sync = sync
        self._loader = loader
        self._templates = templates
        self._membership = membership
        self._ownership = ownership
        self._fired_before = 0
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
        settings, loader = self._around.settings, self._loader
        monotonic = self._around.clock.monotonic_us()
        if monotonic < self._gathering_until:
            return False
        most = self._batch_max
        fresh = self._fire_from(loader.wheel, most)
        is_crowd = fresh >= most
        self._batch_max = min(2 * most, settings.batch_max) if is_crowd else self._first_max
        room = settings.batch_backlog_min if fresh else self._room_for_backlog()
        older = self._fire_backlog(room)
        has_fired = bool(fresh or older)
        if has_fired and not is_crowd and older < room:
            # Where so much is due that a batch can't hold it, nothing more need come together.
            self._gathering_until = monotonic + settings.fires_apart_us
        return has_fired

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

    def plan_ahead(self, *, is_live_due: bool) -> bool:
        """Do what planning takes before it is needed, for a short while; say whether some is left.

        Of what is due now a few wait for it: a definition that is read when its time has come holds
        up all that is due with it.
        """
        loader, settings, clock = self._loader, self._around.settings, self._around.clock
        fired_since = self._around.statistics.fired - self._fired_before
        self._fired_before += fired_since
        unplanned = loader.unplanned
        if not unplanned:
            return False
        slice_ends = clock.monotonic_us() + settings.plan_slice_us
        at_most = settings.plans_per_tick
        if is_live_due:
            # As many as were fired since: who plans fewer than that ahead has to plan them late.
            at_most = max(settings.plans_per_busy_tick, min(fired_since, FETCH_MAX))
        chosen = [*islice(unplanned, at_most)]
        self._fetch(chosen)
        for entry in chosen:
            unplanned.popleft()
            if loader.wheel.holds(entry):
                self._look_ahead(entry)
            if clock.monotonic_us() > slice_ends:
                break
        return bool(unplanned)

    def _look_ahead(self, entry: Entry) -> None:
        """Work out the next occurrence; should it fail, that is said when this one is due."""
        if entry.template is not None:
            with suppress(Exception):
                entry.following = _following(entry.template, entry.scheduled_for)

    def _fire_from(self, wheel: Wheel, limit: int) -> int:
        """Take, plan and send one batch; return how many timers were sent."""
        if not self._membership.may_write():
            return 0
        monotonic = self._around.clock.monotonic_us()
        batch = wheel.take(self._sync.floor_now(monotonic), limit)
        if not batch:
            return 0
        try:
            is_fresh = wheel is self._loader.wheel
            ready = self._planned(batch, PLAN_BATCH_US if is_fresh else PLAN_BACKLOG_US)
        except StoreError:
            for entry in batch:
                self._loader.put_back(entry)
            raise
        if not self._membership.may_write():
            for entry in ready:
                self._loader.put_back(entry)
            return 0
        self._send(ready)
        self._loader.note_busy(monotonic)
        return len(batch)

    def _planned(self, batch: list[Entry], slice_us: int) -> list[Entry]:
        """Return the entries that have their plan; the others are put back or set aside."""
        clock = self._around.clock
        self._fetch(batch)
        ends = clock.monotonic_us() + slice_us
        ready: list[Entry] = []
        is_over = False
        for entry in batch:
            if entry.kind == "delayed":
                entry.fire = FireDelayed(entry.timer)
            elif entry.kind == "retry":
                entry.fire = FireRetry(entry.timer)
            else:
                is_over = is_over or (len(ready) % LOOK_EVERY == 1 and clock.monotonic_us() > ends)
                if is_over:
                    self._loader.put_back(entry)
                    continue
                problem = self._plan(entry)
                if problem is not None:
                    self._set_aside(entry, problem)
                    continue
            ready.append(entry)
        return ready

    def _plan(self, entry: Entry) -> str | None:
        """Work out what firing an entry does; return the problem if that can't be done."""
        template = entry.template
        if template is None:
            return "its definition can't be read"
        due_at, scheduled_for = entry.due_at, entry.scheduled_for
        late_after = due_at + template.definition.misfire.grace_us
        try:
            following = entry.following
            if late_after < self._loader.seen_now:
                pending = Pending(scheduled_for, due_at)
                plan = plan_late(template, pending, self._loader.seen_now)
                entry.fire = FirePlanned(entry.timer, plan, None)
                return None
            if following is None:
                following = _following(template, scheduled_for)
            if following is None:
                plan = plan_on_time(template, Pending(scheduled_for, due_at))
                entry.fire = FirePlanned(entry.timer, plan, late_after)
                return None
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            return f"its timetable can't be computed: {error!r}"
        fire = (
            entry.ref,
            entry.generation,
            due_at,
            scheduled_for,
            entry.shard,
            late_after,
            occurrence_run_id(template.schedule_id, scheduled_for),
            following,
            following + template.offset_us,
            entry.definition_number,
        )
        # As FireOnTime(*fire), without the call in between: it is made for every fire.
        entry.fire = tuple.__new__(FireOnTime, fire)
        return None

    def _fetch(self, entries: list[Entry]) -> None:
        """Give entries of schedules their templates; what can't be read has none."""
        missing = [one for one in entries if one.template is None and one.kind == "schedule"]
        if not missing:
            return
        found = self._templates.fetch(map(_key, missing))
        for entry in missing:
            entry.template = found.get(_key(entry))

    def _send(self, batch: list[Entry]) -> None:
        """Fire a batch; one that fails for a reason of its own is halved to find the culprit."""
        ours = self._ownership.live
        batch = [one for one in batch if one.shard in ours]
        if not batch:
            return
        if len({one.kind for one in batch}) > 1:
            # In the order in which the kinds are answered.
            batch.sort(key=_place)
        before = self._around.clock.monotonic_us()
        try:
            fired = self._around.store.fire_timers(self._command(batch))
        except STORE_AWAY:
            # Whether it happened is not known: look, and never assume.
            self._loader.reload({entry.shard for entry in batch})
            raise
        except Exception as error:  # noqa: BLE001 - one bad row must not stop the others
            if len(batch) == 1:
                self._set_aside(batch[0], f"it can't be fired: {error!r}")
                return
            # A part of it may have fired, and has a next instant that nobody handed over.
            self._loader.reload({entry.shard for entry in batch})
            middle = len(batch) // 2
            self._send(batch[:middle])
            self._send(batch[middle:])
            return
        self._loader.see(fired.now)
        self._conclude(batch, fired, before)

    def _command(self, batch: list[Entry]) -> FireTimers:
        fires: Any = {"schedule": [], "delayed": [], "retry": []}
        for kind, chosen in groupby(batch, attrgetter("kind")):
            fires[kind] = [entry.fire for entry in chosen]
        return FireTimers(
            fence=self._ownership.fence(Lane.LIVE, {entry.shard for entry in batch}),
            schedules=tuple(fires["schedule"]),
            delayed=tuple(fires["delayed"]),
            retries=tuple(fires["retry"]),
        )

    def _conclude(self, batch: list[Entry], fired: Fired, before: int) -> None:
        """Learn from the answer to each timer."""
        assert len(batch) == len(fired.results), "every timer has its answer"
        if self._around.tracing is not None:
            self._trace(self._around.tracing, batch, fired, before)
        late, fenced = 0, 0
        is_early = False
        lateness: list[int] = []
        plain: list[tuple[Entry, FireOnTime]] = []
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

    def _trace(self, tracing: Tracing, batch: list[Entry], fired: Fired, before: int) -> None:
        """Tell the spans of what has fired, before its entries stand for their next instants."""
        clock = self._around.clock
        ended_at, took_us = clock.now_us(), clock.monotonic_us() - before
        results = zip(batch, fired.results, strict=True)
        entries = (entry for entry, result in results if result is FireResult.FIRED)
        spans = fire_spans(entries, fired.now, self._membership.number())
        tracing.tell(spans, ended_at - took_us, ended_at)

    def _go_on(self, entry: Entry, plan: Plan) -> None:
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

    def _after_refusal(self, entry: Entry, result: FireResult, now: int) -> None:
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
        event = BatchFired(
            member=self._membership.number(),
            fired=counted,
            runs=fired.runs_made,
            lateness_max_us=lateness_max,
        )
        self._around.telemetry.emit(event)

    def _set_aside(self, entry: Entry, problem: str) -> None:
        """Leave one alone for a while, and say so; it stays pending."""
        self._around.statistics.set_aside += 1
        entry.fire_at = self._loader.seen_now + self._around.settings.set_aside_us
        entry.fire = None
        self._loader.put_back(entry)
        self._membership.tell_set_aside(entry.kind, entry.ref, problem)


def _key(entry: Entry) -> TemplateKey:
    return ScheduleId(entry.ref), entry.definition_number


def _following(template: Template, scheduled_for: int) -> int | None:
    """Return the nominal time of the next occurrence; None when there is none, or no telling."""
    try:
        return template.definition.timetable.first_from(scheduled_for + 1)
    except UsageError:
        return None


def _place(entry: Entry) -> int:
    return _ORDER[entry.kind]
