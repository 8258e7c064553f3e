"""Recomputes pending instants under newer time-zone rules than the fleet's.

`Retiming` walks over every pending instant in pages, soonest first. By compare-and-set it changes
those that the new rules put elsewhere. Then it records the release, and dispatchers with older
rules stand aside. Until then such a dispatcher may fire timers and advance them by the old rules,
so a second walk follows once all of them have stood aside.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.audit import Actor
from duly.domain.ids import ScheduleId, identity_text
from duly.domain.schedule_changes import decide_retime
from duly.domain.schedules import NextOccurrence
from duly.errors import STORE_AWAY, StoreError
from duly.store.ports.dispatch import LoadTimers
from duly.store.ports.schedules import ChangeSchedule, Stale
from duly.telemetry import TimerRetimed, TzdataRecomputed

if TYPE_CHECKING:
    from duly.domain.fire_planning import ScheduleVersion
    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.dispatcher.fire_planner import Templates
    from duly.engine.dispatcher.leases import Membership
    from duly.engine.store_clock import ClockSync
    from duly.store.ports.dispatch import Timer

END_OF_TIME = 1 << 62
DECISIONS_MAX = 5
_RELEASE = re.compile(r"[0-9]{4}[a-z]+")


def _release(version: str) -> str:
    """Return a release that can be compared with others; one without a name is older than all."""
    return version if _RELEASE.fullmatch(version) else ""


def _is_elsewhere(template: ScheduleVersion, timer: Timer, now: int) -> bool:
    """Say whether our rules put a pending instant elsewhere; a schedule is read only then."""
    if timer.scheduled_for <= now:
        return False
    try:
        return template.next_after(now) != NextOccurrence(timer.scheduled_for, timer.due_at)
    except Exception:  # noqa: BLE001 - deciding about it says what is wrong
        return True


class Retiming:
    """One walk over the pending instants, and what it found."""

    def __init__(
        self,
        around: DispatcherContext,
        sync: ClockSync,
        templates: Templates,
        membership: Membership,
    ) -> None:
        self._around = around
        self._sync = sync
        self._templates = templates
        self._membership = membership
        self._ours = _release(around.node.zones.version)
        self._is_walking = False
        self._again_at: int | None = None
        self._page_at = 0
        self._after: int | None = None
        self._page: deque[Timer] = deque()
        """What was read and is still to be compared: a crowd at one instant may be a large page."""
        self._is_last = False
        self._before = ""
        self._looked_at = 0
        self._moved = 0

    def is_outdated(self) -> bool:
        """Say whether the fleet computes by newer rules than ours."""
        renewal = self._membership.renewal
        return renewal is not None and self._ours < renewal.tzdata

    def next_at(self) -> int | None:
        """Return when the walk goes on; None while there is none."""
        return self._page_at if self._is_walking else self._again_at

    def go_on(self) -> None:
        """Compare a page of pending instants with our rules, if ours are newer."""
        renewal = self._membership.renewal
        ours, monotonic = self._ours, self._around.clock.monotonic_us()
        assert renewal is not None, "one renews first"
        if renewal.tzdata > ours:
            self._is_walking, self._again_at = False, None
            return
        if not self._is_walking:
            is_newer = renewal.tzdata < ours and self._again_at is None
            is_again = self._again_at is not None and monotonic >= self._again_at
            if is_newer or is_again:
                self._begin(renewal.tzdata)
        if self._is_walking and monotonic >= self._page_at:
            self._page_at = monotonic + self._around.settings.retime_every_us
            self._walk()

    def _begin(self, before: str) -> None:
        self._is_walking = True
        self._before = before if before != self._ours else self._before
        self._after, self._page_at, self._is_last = None, 0, False
        self._page.clear()
        self._looked_at = self._moved = 0

    def _walk(self) -> None:
        """Compare so many, reading on when there are no more."""
        if not self._page and not self._is_last:
            self._read()
        count = min(len(self._page), self._around.settings.retime_page)
        chosen = [self._page.popleft() for _ in range(count)]
        try:
            self._compare(chosen)
        except StoreError:
            self._page.extendleft(reversed(chosen))
            raise
        if self._is_last and not self._page:
            self._finish()

    def _read(self) -> None:
        renewal = self._membership.renewal
        assert renewal is not None, "one renews first"
        order = LoadTimers(
            shards=tuple(range(renewal.shards)),
            after=self._after,
            until=END_OF_TIME,
            limit=self._around.settings.retime_page,
        )
        store = self._around.store
        loaded = self._sync.ask(lambda: store.load_timers(order))
        self._page.extend(one for one in loaded.timers if one.kind == "schedule")
        self._after = loaded.through
        self._is_last = loaded.through >= END_OF_TIME

    def _compare(self, timers: list[Timer]) -> None:
        keys = [(ScheduleId(one.ref), one.definition_number) for one in timers]
        templates = self._templates.fetch(keys)
        now = self._sync.floor_now(self._around.clock.monotonic_us())
        for key, timer in zip(keys, timers, strict=True):
            template = templates.get(key)
            if template is not None and _is_elsewhere(template, timer, now):
                self._retime(ScheduleId(timer.ref))
        self._looked_at += len(timers)

    def _retime(self, schedule_id: ScheduleId) -> None:
        try:
            self._change(schedule_id)
        except STORE_AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
            problem = f"it can't be recomputed: {error!r}"
            self._membership.tell_set_aside("schedule", schedule_id, problem)

    def _change(self, schedule_id: ScheduleId) -> None:
        zones, store = self._around.node.zones, self._around.store
        seen = store.get_schedule(schedule_id)
        reason = f"time-zone rules {self._before} -> {zones.version}"
        for _ in range(DECISIONS_MAX):
            if seen is None:
                return
            record, now = seen.record, seen.now
            mine = replace(record, definition=record.definition.under(zones))
            skips = store.list_skips(schedule_id, 1)
            settled_through = skips[0].last_for if skips else None
            change = decide_retime(mine, now, reason, settled_through)
            if change is None:
                return
            order = ChangeSchedule(
                id=record.id,
                expected_version=record.version,
                expected_pending=record.pending,
                change=change,
                actor=Actor("duly", "dispatcher", reason),
            )
            answer = store.change_schedule(order)
            if not isinstance(answer, Stale):
                assert record.pending is not None, "only a pending instant is recomputed"
                self._report(schedule_id, record.name, record.pending, change.pending)
                return
            seen = store.get_schedule(schedule_id)

    def _report(
        self,
        schedule_id: ScheduleId,
        name: str,
        before: NextOccurrence,
        after: NextOccurrence | None,
    ) -> None:
        self._moved += 1
        event = TimerRetimed(
            member=self._membership.number(),
            schedule=name,
            schedule_id=identity_text(schedule_id),
            before=before.scheduled_for,
            after=None if after is None else after.scheduled_for,
        )
        self._around.telemetry.emit(event)

    def _finish(self) -> None:
        event = TzdataRecomputed(
            member=self._membership.number(),
            before=self._before,
            release=self._ours,
            looked_at=self._looked_at,
            moved=self._moved,
        )
        renewal = self._membership.renewal
        assert renewal is not None, "one renews first"
        is_second = self._again_at is not None
        self._note(alone=is_second or len(renewal.dispatchers) <= 1)
        self._is_walking = False
        if self._before or self._moved:
            # The first walk of a new store has nothing to tell, unless something moved.
            self._around.telemetry.emit(event)

    def _note(self, *, alone: bool) -> None:
        """Tell the fleet; those with older rules stand aside within a lease and a renewal."""
        settings = self._around.settings
        self._around.store.note_tzdata(self._ours)
        wait_us = settings.ttl_us + settings.renew_every_us
        monotonic = self._around.clock.monotonic_us()
        self._again_at = None if alone else monotonic + wait_us
        self._membership.renew_soon()
