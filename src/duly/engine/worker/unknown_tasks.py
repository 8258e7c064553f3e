"""Runs whose task has no code here; pausing schedules that cannot be run.

`MissingTasks` returns such a run at once if another living worker serves the task in that queue.
For a while this worker's claims pass over that task, so that during a deployment workers without
the new code do not block it.

If no living worker serves the task, one may after a deployment: the run is postponed, longer each
time. When no living worker has known the task for a while, the run goes to the dead letters and
its schedule is paused with the reason. So the schedule is not silently dropped, and does not fail
for ever.

`Pausing` pauses a schedule when its task is unknown, or when the receiver of its calls wants no
more of them. If the pause fails because the store is away or the schedule keeps changing, the next
run triggers it again.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.audit import Actor
from duly.domain.enums import Missed, ScheduleStatus
from duly.domain.ids import identity_text
from duly.domain.outcomes import AttemptFacts, Failed, ReturnedToQueue, conclude
from duly.domain.runs import RECEIVER_GONE, TASK_GONE, Reason, TaskPolicy
from duly.domain.schedule_changes import decide_pause
from duly.engine.executors.task_output import ids_of
from duly.engine.worker.active_attempts import UnsentEnd
from duly.errors import STORE_AWAY, StoreUnavailable, shown
from duly.store.ports.schedules import ChangeSchedule, Stale
from duly.telemetry import ItemSkipped, TaskMissing
from duly.timetable.instants import SECOND_US

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.outcomes import Conclusion, End
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.worker.active_attempts import ActiveAttempts
    from duly.engine.worker.context import WorkerContext
    from duly.engine.worker.membership import WorkerMembership
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun

    Depends = Callable[[ScheduleRecord], bool]


FRESH_US = 1 * SECOND_US
"""How old an answer may be by which a run is buried."""
_DOUBLINGS_MAX = 20


class TaskQueue(NamedTuple):
    """Where a task is to be run."""

    task: str
    queue: str


class ServedElsewhere(NamedTuple):
    """What the store said about a place, and when, on the monotonic clock."""

    is_served: bool
    at: int


class MissingTasks:
    """Settles claims of tasks that we do not know, and knows which to leave to others."""

    def __init__(
        self,
        parts: WorkerContext,
        holdings: ActiveAttempts,
        membership: WorkerMembership,
        pausing: Pausing,
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._membership = membership
        self._pausing = pausing
        self._answers: dict[TaskQueue, ServedElsewhere] = {}
        self._served_at: dict[TaskQueue, int] = {}
        """When we last heard that somebody serves a place, on the monotonic clock."""
        self._looks = 0
        """How often the store was asked in this tick."""

    def served_elsewhere(self) -> frozenset[str]:
        """Return the tasks that others serve wherever we have met them lately."""
        self._forget()
        if not self._answers:
            return frozenset()
        unserved = {place.task for place, answer in self._answers.items() if not answer.is_served}
        return frozenset(place.task for place in self._answers) - unserved

    def settle(self, worker: MemberId) -> bool:
        """Give back or bury what we have claimed and do not know; what fails stays to be done.

        A bounded part of it, and nothing once a beat is due: what we run hangs on that. Return
        whether there are more tasks than before that we leave to others.
        """
        unknown = self._holdings.unknown
        if not unknown:
            return False
        self._looks = 0
        before = self.served_elsewhere()
        while unknown and self._may_look():
            self._holdings.endings.append(self._ending(unknown[-1], worker))
            unknown.pop()
        return not self.served_elsewhere() <= before

    def _may_look(self) -> bool:
        is_beat_due = self._parts.clock.monotonic_us() >= self._membership.beat_at
        return self._looks < self._parts.settings.unknown_looks_max and not is_beat_due

    def _ending(self, claimed: ClaimedRun, worker: MemberId) -> UnsentEnd:
        place = TaskQueue(claimed.task, claimed.queue)
        # How often it was put off is in its numbers: a claim without a start leaves the attempt's.
        before = claimed.tries.fence - claimed.tries.attempt
        is_served = self._is_served(place)
        if not is_served and place not in self._served_at and self._is_long(claimed, before):
            is_served = self._is_served(place, within_us=FRESH_US)
            if not is_served:
                # Somebody may hold its schedule for long: then it is put off once more.
                with suppress(StoreUnavailable):
                    return self._bury(claimed, worker)
        after_us = self._after_us(before)
        if is_served and place.task in self.served_elsewhere():
            after_us = 0
        elif place in self._served_at:
            # Who served it is about to be back, or serves it in another of our queues.
            after_us = self._after_us(0)
        back = ReturnedToQueue(Reason.UNKNOWN_TASK, is_started=False, after_us=after_us)
        return _unstarted(worker, claimed, self._conclude(claimed, back))

    def _bury(self, claimed: ClaimedRun, worker: MemberId) -> UnsentEnd:
        task = claimed.task
        self._looks += claimed.record.schedule_id is not None
        schedule = self._pausing.pause(claimed, _reason(task), lambda _: True)
        ids = {**ids_of(claimed), "schedule": schedule or ""}
        event = TaskMissing(member=int(worker), **ids)
        self._parts.emit(event)
        failed = Failed(_reason(task), Reason.UNKNOWN_TASK, is_retryable=False)
        return _unstarted(worker, claimed, self._conclude(claimed, failed))

    def _is_served(self, place: TaskQueue, within_us: int | None = None) -> bool:
        """Say whether others serve a place, by an answer that is not older than that.

        A yes is good for longer than a no: whoever has the code may have come since.
        """
        settings, monotonic = self._parts.settings, self._parts.clock.monotonic_us()
        known = self._answers.get(place)
        if known is not None:
            kept_us = settings.unknown_kept_us if known.is_served else settings.unknown_after_us
            if monotonic - known.at <= (kept_us if within_us is None else within_us):
                return known.is_served
        self._looks += 1
        is_served = self._parts.store.is_served(place.task, place.queue)
        self._answers[place] = ServedElsewhere(is_served, monotonic)
        if is_served:
            self._served_at[place] = monotonic
        return is_served

    def _forget(self) -> None:
        """Forget what was heard too long ago: the fleet changes."""
        settings, monotonic = self._parts.settings, self._parts.clock.monotonic_us()
        for place, answer in tuple(self._answers.items()):
            if monotonic - answer.at > settings.unknown_kept_us:
                del self._answers[place]
        for place, at in tuple(self._served_at.items()):
            # It may have been served for as long as we did not ask.
            if monotonic - at > settings.unknown_kept_us + settings.unknown_grace_us:
                del self._served_at[place]

    def _is_long(self, claimed: ClaimedRun, before: int) -> bool:
        """Say whether a run has been put off for longer than the grace, by time and by count."""
        grace_us = self._parts.settings.unknown_grace_us
        first_at = claimed.tries.begun_at
        put_off_us = sum(self._after_us(one) for one in range(min(before, _DOUBLINGS_MAX)))
        waited_us = 0 if first_at is None else claimed.claimed_at - first_at
        return min(waited_us, put_off_us) >= grace_us

    def _after_us(self, before: int) -> int:
        settings = self._parts.settings
        doubled = settings.unknown_after_us << min(before, _DOUBLINGS_MAX)
        return min(doubled, settings.unknown_after_max_us)

    def _conclude(self, claimed: ClaimedRun, end: End) -> Conclusion:
        attempted = AttemptFacts(
            run_id=claimed.run_id,
            policy=TaskPolicy(),
            tries=claimed.tries,
            now=self._parts.time.now(),
        )
        return conclude(end, attempted)


def _reason(task: str) -> str:
    return f"{TASK_GONE}: {shown(task)}"


def _unstarted(worker: MemberId, claimed: ClaimedRun, conclusion: Conclusion) -> UnsentEnd:
    """Return the end of a claim whose code never began: it costs nothing, and has no number."""
    free = replace(conclusion, is_started=False, is_charged=False)
    return UnsentEnd(claimed.hold, None, free, worker=worker, claimed=claimed)


LOOKS_MAX = 5
"""How often a schedule that changes under our hands is looked at again."""
AT_ONCE_MAX = 20
"""How many schedules are paused between two beats at the most."""


class Pausing:
    """Pauses schedules on behalf of the system."""

    def __init__(
        self, parts: WorkerContext, holdings: ActiveAttempts, membership: WorkerMembership
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
            event = ItemSkipped(
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
