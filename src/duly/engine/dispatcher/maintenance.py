"""Ends pauses, settles the claims of dead workers, prunes history, seals the audit trail.

The dispatcher that holds the maintenance lease does all of this. Ending a pause is a
compare-and-set like every change of a schedule. Settling, pruning and sealing are fenced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.audit import Actor
from duly.domain.enums import Lane, Missed, ScheduleStatus
from duly.domain.ids import ScheduleId, identity_text
from duly.domain.schedule_changes import decide_resume
from duly.engine.dispatcher.leases import MAINTENANCE
from duly.engine.dispatcher.reaper import Reaper
from duly.errors import STORE_AWAY, LeaseLost
from duly.store.ports.audit import SealAudit
from duly.store.ports.maintenance import Prune
from duly.store.ports.schedules import ChangeSchedule, Stale
from duly.telemetry import HistoryPruned, ScheduleResumed

if TYPE_CHECKING:
    from duly.engine.dispatcher.context import DispatcherContext
    from duly.engine.dispatcher.leases import Membership, Ownership

PAUSE_OVER = "the time it was paused until has come"


class Maintenance:
    """What one dispatcher does for all."""

    def __init__(
        self, around: DispatcherContext, membership: Membership, ownership: Ownership
    ) -> None:
        self._around = around
        self._membership = membership
        self._ownership = ownership
        self._reaper = Reaper(around, membership, ownership)
        self._resume_at = 0
        self._gates_at = 0
        self._prune_at: int | None = None
        self._seal_at: int | None = None

    def doubt(self, lost_us: int | None = None) -> None:
        """Give workers time to renew: we have just joined, or the store was away for a while."""
        self._reaper.wait(lost_us)

    def tend(self, *, is_live_due: bool = False) -> None:
        """Do what is due of it, if the maintenance lease is ours; what can wait for live work does.

        What dead workers held and schedules whose pause is over do not wait: when there is most to
        do they matter most, and a look at them is bounded.
        """
        if not self._ownership.owns(MAINTENANCE) or not self._membership.may_write():
            return
        monotonic = self._around.clock.monotonic_us()
        settings = self._around.settings
        self._reaper.reap(monotonic)
        if monotonic >= self._resume_at:
            self._resume_at = monotonic + settings.resume_every_us
            self._resume()
        if monotonic >= self._gates_at:
            # Whoever ended a run has opened its gate, unless it died in between.
            self._gates_at = monotonic + settings.gates_every_us
            self._around.store.open_gates(settings.gates_max)
        if is_live_due or not self._ownership.owns(MAINTENANCE):
            return  # the store may have told us meanwhile that it is not ours any more
        if self._prune_at is None or self._seal_at is None:
            # Not at once: a fleet that has just come up has better things to do.
            self._prune_at = monotonic + settings.prune_every_us
            self._seal_at = monotonic + settings.seal_every_us
            return
        if monotonic >= self._prune_at:
            self._prune_at = monotonic + settings.prune_every_us
            self._prune(monotonic)
        if monotonic >= self._seal_at and self._ownership.owns(MAINTENANCE):
            self._seal_at = monotonic + settings.seal_every_us
            self._seal(monotonic)

    def next_at(self) -> int | None:
        """Return when something is to be done; None while somebody else does it."""
        if not self._ownership.owns(MAINTENANCE):
            return None
        times = (self._reaper.next_at, self._resume_at, self._gates_at)
        later = (self._prune_at, self._seal_at)
        return min(*times, *(one for one in later if one is not None))

    def _resume(self) -> None:
        for schedule_id in self._around.store.due_resumes(self._around.settings.resumes_max):
            try:
                self._resume_one(schedule_id)
            except STORE_AWAY:
                raise
            except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the others
                problem = f"it can't be resumed: {error!r}"
                self._membership.tell_set_aside("schedule", schedule_id, problem)

    def _resume_one(self, schedule_id: ScheduleId) -> None:
        seen = self._around.store.get_schedule(schedule_id)
        if seen is None or seen.record.status is not ScheduleStatus.PAUSED:
            return
        record = seen.record
        if record.resume_at is None or record.resume_at > seen.now:
            return
        # As of the moment that the pause ends, however late we are: what falls due at that moment
        # or after it was not paused, and is late at most.
        paused_through = record.resume_at - 1
        missed = record.resume_missed or Missed.SKIP
        order = ChangeSchedule(
            id=record.id,
            expected_version=record.version,
            expected_pending=record.pending,
            change=decide_resume(record, paused_through, missed, PAUSE_OVER),
            actor=Actor("duly", "dispatcher", PAUSE_OVER),
        )
        if isinstance(self._around.store.change_schedule(order), Stale):
            return  # somebody was quicker; if it is still to be done, the next look finds it
        event = ScheduleResumed(
            member=self._membership.number(),
            schedule=record.name,
            schedule_id=identity_text(record.id),
        )
        self._around.telemetry.emit(event)

    def _prune(self, monotonic: int) -> None:
        settings = self._around.settings
        order = Prune(
            fence=self._ownership.fence(Lane.BACKFILL, [MAINTENANCE.shard]),
            retention=settings.retention,
            limit=settings.prune_limit,
        )
        try:
            pruned = self._around.store.prune(order)
        except LeaseLost:
            self._ownership.lose([MAINTENANCE])
            return
        if pruned.has_more:
            self._prune_at = monotonic + settings.prune_more_us
        rows = sum(pruned.counts.values())
        if rows:
            self._around.telemetry.emit(HistoryPruned(member=self._membership.number(), rows=rows))

    def _seal(self, monotonic: int) -> None:
        settings = self._around.settings
        fence = self._ownership.fence(Lane.BACKFILL, [MAINTENANCE.shard])
        try:
            seal = self._around.store.seal_audit(SealAudit(fence=fence, limit=settings.seal_limit))
        except LeaseLost:
            self._ownership.lose([MAINTENANCE])
            return
        if seal is not None and len(seal.entries) == settings.seal_limit:
            self._seal_at = monotonic + settings.seal_more_us
