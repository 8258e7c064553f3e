"""Pausing: a schedule whose runs can't be done any more rests, and says why (S6).

A worker finds out: nobody knows the task, or whoever is called wants no more of it. What it could
not pause, because the store was away or the schedule kept changing, the next run brings up again.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING

from duly.domain.attempts import RECEIVER_GONE
from duly.domain.audit import Actor
from duly.domain.identity import identity_text
from duly.domain.literals import Missed, ScheduleStatus
from duly.domain.planning import decide_pause
from duly.errors import STORE_AWAY, shown
from duly.store.planning import ChangeSchedule, Stale
from duly.telemetry import SetAside

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.schedules import ScheduleRecord
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.membership import WorkerMembership
    from duly.engine.worker.parts import WorkerParts
    from duly.store.execution import ClaimedRun

    Depends = Callable[[ScheduleRecord], bool]

LOOKS_MAX = 5
"""How often a schedule that changes under our hands is looked at again."""
AT_ONCE_MAX = 20
"""How many schedules are paused between two beats at the most."""


class Pausing:
    """Pauses schedules on behalf of the system."""

    def __init__(
        self, parts: WorkerParts, holdings: Holdings, membership: WorkerMembership
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._membership = membership

    def settle_unwanted(self) -> None:
        """Pause schedules whose receiver wants no more of them; some, and none once we must beat.

        One that was edited since may call somebody else by now, and so may a run whose arguments
        were: then it is left alone.
        """
        unwanted = self._holdings.unwanted
        for schedule_id in tuple(unwanted)[:AT_ONCE_MAX]:
            if self._parts.clock.monotonic_us() >= self._membership.beat_at:
                return
            claimed = unwanted[schedule_id]
            reason = f"{RECEIVER_GONE}: task {shown(claimed.task)} was answered 410 (Gone)"
            self.pause(claimed, reason, partial(_calls_alike, claimed))
            del unwanted[schedule_id]

    def pause(self, claimed: ClaimedRun, reason: str, depends: Depends) -> str | None:
        """Pause the schedule that made a run, if it still makes such; return its name."""
        record = claimed.record
        if record.schedule_id is None:
            return None
        try:
            for _ in range(LOOKS_MAX):
                answer = self._pause_once(claimed, reason, depends)
                if not isinstance(answer, Stale):
                    return answer
        except STORE_AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - one bad schedule must not stop the worker
            event = SetAside(
                member=self._membership.number(),
                what="schedule",
                subject_id=identity_text(record.schedule_id),
                problem=f"it can't be paused: {error!r}",
            )
            self._parts.emit(event)
        return None  # the next run of it comes here again

    def _pause_once(self, claimed: ClaimedRun, reason: str, depends: Depends) -> str | Stale | None:
        schedule_id = claimed.record.schedule_id
        assert schedule_id is not None, "just asked"
        seen = self._parts.store.get_schedule(schedule_id)
        if seen is None or seen.record.status is not ScheduleStatus.ACTIVE:
            return None
        schedule = seen.record
        if schedule.definition.call.task != claimed.task or not depends(schedule):
            return None
        order = ChangeSchedule(
            id=schedule.id,
            expected_version=schedule.version,
            expected_pending=schedule.pending,
            change=decide_pause(schedule, reason=reason, until=None, missed=Missed.SKIP),
            actor=Actor("duly", "worker", reason),
        )
        answer = self._parts.store.change_schedule(order)
        return answer if isinstance(answer, Stale) else schedule.name


def _calls_alike(claimed: ClaimedRun, schedule: ScheduleRecord) -> bool:
    """Say whether a schedule calls with what a run has called with."""
    # By their values: of short ones a database tells the text as it stands in the definition.
    ours, its = json.loads(schedule.definition.call.arguments), json.loads(claimed.arguments)
    return bool(ours == its)
