"""Missing tasks: runs whose code we do not have are put off, and dead when nobody has it (S6).

Another worker may know the task, or will after a deployment, so a run is given back at first, for
longer each time. When no living worker has known it for a while, the run goes to the dead letters
and its schedule is paused, with the reason: it is not silently dropped, nor does it fail for ever.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.attempts import TASK_GONE, Reason, TaskPolicy
from duly.domain.audit import Actor
from duly.domain.concluding import Attempted, Failed, GivenBack, conclude
from duly.domain.identity import identity_text
from duly.domain.literals import Missed, ScheduleStatus
from duly.domain.planning import decide_pause
from duly.engine.worker.holdings import Ending
from duly.errors import shown
from duly.store.execution import Finish
from duly.store.planning import ChangeSchedule, Stale
from duly.telemetry import TaskMissing

if TYPE_CHECKING:
    from duly.domain.concluding import Conclusion, End
    from duly.domain.identity import ScheduleId
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.parts import WorkerParts
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun

LOOKS_MAX = 5
"""How often a schedule that changes under our hands is looked at again."""
_DOUBLINGS_MAX = 20


class MissingTasks:
    """Settles claims of tasks that we do not know."""

    def __init__(self, parts: WorkerParts, holdings: Holdings) -> None:
        self._parts = parts
        self._holdings = holdings

    def settle(self, worker: MemberId) -> None:
        """Give back or bury what we have claimed and do not know; what fails stays to be done."""
        unknown = self._holdings.unknown
        while unknown:
            ending = Ending(worker, self._finish(unknown[-1], worker), unknown[-1])
            unknown.pop()
            self._holdings.endings.append(ending)

    def _finish(self, claimed: ClaimedRun, worker: MemberId) -> Finish:
        # How often it was put off is in its numbers: a claim without a start leaves the attempt's.
        before = claimed.tries.fence - claimed.tries.attempt
        task = claimed.record.call.task
        if self._is_long(claimed, before) and not self._parts.store.is_served(task):
            schedule = self._pause_schedule(claimed)
            event = TaskMissing(
                member=int(worker),
                task=task,
                run_id=identity_text(claimed.record.id),
                schedule=schedule or "",
            )
            self._parts.emit(event)
            failed = Failed(_reason(task), Reason.UNKNOWN_TASK, is_retryable=False)
            return _unstarted(claimed, self._conclude(claimed, failed))
        back = GivenBack(Reason.UNKNOWN_TASK, is_started=False, after_us=self._after_us(before))
        return _unstarted(claimed, self._conclude(claimed, back))

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
        attempted = Attempted(
            run_id=claimed.record.id,
            policy=TaskPolicy(),
            tries=claimed.tries,
            now=self._parts.time.now(),
        )
        return conclude(end, attempted)

    def _pause_schedule(self, claimed: ClaimedRun) -> str | None:
        """Pause the schedule that makes such runs, if it still does; return its name."""
        record = claimed.record
        if record.schedule_id is None:
            return None
        for _ in range(LOOKS_MAX):
            answer = self._pause_once(record.schedule_id, record.call.task)
            if not isinstance(answer, Stale):
                return answer
        return None  # the next run of it comes here again

    def _pause_once(self, schedule_id: ScheduleId, task: str) -> str | Stale | None:
        seen = self._parts.store.get_schedule(schedule_id)
        if seen is None or seen.record.status is not ScheduleStatus.ACTIVE:
            return None
        schedule = seen.record
        if schedule.definition.call.task != task:
            return None
        reason = _reason(task)
        order = ChangeSchedule(
            id=schedule.id,
            expected_version=schedule.version,
            expected_pending=schedule.pending,
            change=decide_pause(schedule, reason=reason, until=None, missed=Missed.SKIP),
            actor=Actor("duly", "worker", reason),
        )
        answer = self._parts.store.change_schedule(order)
        return answer if isinstance(answer, Stale) else schedule.name


def _reason(task: str) -> str:
    return f"{TASK_GONE}: {shown(task)}"


def _unstarted(claimed: ClaimedRun, conclusion: Conclusion) -> Finish:
    """Return the end of a claim whose code never began: it costs nothing, and has no number."""
    free = replace(conclusion, is_started=False, is_charged=False)
    return Finish(hold=claimed.hold, started_at=None, conclusion=free)
