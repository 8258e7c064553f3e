"""Holdings: what a worker has in its hands, and what waits to be told to the store."""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.domain.outcomes import (
    DONE,
    SUCCEEDED,
    AttemptFacts,
    ReturnedToQueue,
    Succeeded,
    asked_wait_us,
    conclude,
    is_answered,
    is_to_be_checked,
    success,
)
from duly.domain.runs import AttemptCounts, Reason, TaskPolicy
from duly.domain.verification import check_of
from duly.engine.executors.task_output import ids_of
from duly.engine.spans import end_attributes, error_of
from duly.engine.worker.attempt import MembershipContext, RunningAttempt
from duly.engine.worker.run_context import RunContextDeps
from duly.engine.worker.slots import WorkerSlots
from duly.store.ports.execution import FinishAttempt
from duly.telemetry import SlotLeaked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.ids import ScheduleId
    from duly.domain.outcomes import Conclusion, End
    from duly.engine.executors.executor import Runnable
    from duly.engine.worker.context import WorkerContext
    from duly.engine.worker.slots import SlotPool
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun, ClaimRef
    from duly.telemetry.tracing import AttemptTrace

FENCED_OFF = "the run was taken from this worker; what became of it others tell"


@dataclass(slots=True, eq=False)
class UnsentEnd(FinishAttempt):
    """An attempt that is over here, and of which the store does not know it yet."""

    worker: MemberId = field(kw_only=True)
    claimed: ClaimedRun | None = None
    """None for a claim whose answer was lost: nothing but its hold is known."""
    not_before: int = 0
    """Not to be sent before this, on the monotonic clock."""
    is_bare: bool = False
    """Whether all that could keep the store from taking it has been left out."""


class ActiveAttempts:
    """Attempts that run, slots that are lost, and ends that are to be sent."""

    def __init__(self, parts: WorkerContext) -> None:
        self._parts = parts
        self.slots = WorkerSlots(parts.settings)
        """How many more may run, and what was claimed ahead of that."""
        self._told: deque[RunningAttempt] = deque()
        self._workshop: MembershipContext | None = None
        self._has_rung = False
        """Whether our loop was rung for what was told since it last collected."""
        self.quiet_until = 0
        """Our loop need not be rung before this, on the monotonic clock: it looks by itself."""
        self.running: dict[RunningAttempt, None] = {}
        """In the order of their claims."""
        self.leaked: dict[RunningAttempt, None] = {}
        """Settled, but their code goes on and keeps its slot."""
        self.lingering: dict[RunningAttempt, None] = {}
        """Settled by their own word, and about to be gone; they keep their slots until then."""
        self.endings: list[UnsentEnd] = []
        self.under_way: list[UnsentEnd] = []
        """Those that are being told to the store."""
        self.unknown: list[ClaimedRun] = []
        """Claimed, and of tasks that we do not know."""
        self.unadmitted: list[ClaimedRun] = []
        """Claimed and limited: whether they may begin now, the store has not said yet."""
        self.unwanted: dict[ScheduleId, ClaimedRun] = {}
        """Runs over of which the receiver wants no more, by the schedules that are to rest."""

    def free(self) -> dict[SlotPool, int]:
        """Return how many slots are free; what may not begin takes room until it is settled."""
        waiting = Counter(self._pool_of(one) for one in self.unadmitted)
        unknown = len(self.unknown)
        return {
            pool: pool.slots - pool.taken - waiting[pool] - unknown for pool in self.slots.pools
        }

    def _pool_of(self, claimed: ClaimedRun) -> SlotPool:
        runnable = self._parts.runnable(claimed.task)
        assert runnable is not None, "only what we know waits to be admitted"
        return self.slots.of(runnable.kind)

    @property
    def is_empty(self) -> bool:
        """Whether nothing runs, nothing tidies up, and nothing is to be told."""
        told = self.endings or self.under_way
        waiting = self.unknown or self.unadmitted or any(pool.ahead for pool in self.slots.pools)
        return not (self.running or self.lingering or told or waiting)

    def has_news(self) -> bool:
        """Say whether an executor has told something that was not collected yet."""
        return bool(self._told)

    def holds(self, worker: MemberId) -> tuple[ClaimRef, ...]:
        """Return all claims that a member of ours has, so far as we know."""
        return tuple(self._holds(worker))

    def _holds(self, worker: MemberId) -> Iterator[ClaimRef]:
        for held in self.running:
            if held.worker == worker:
                yield held.hold
        for ending in (*self.under_way, *self.endings):
            if ending.worker == worker:
                yield ending.hold
        for claimed in (*self.unknown, *self.unadmitted):
            yield claimed.hold
        for waiting in self.slots.ahead():
            yield waiting.claimed.hold

    def endings_due(self, monotonic: int) -> bool:
        """Say whether an end is to be sent before anything new is taken."""
        return any(one.not_before <= monotonic for one in self.endings)

    def give_back(self, worker: MemberId, hold: ClaimRef, after_us: int = 0) -> None:
        """Give back a claim that was never started, such as one that we had not heard of."""
        end = ReturnedToQueue(Reason.NOT_STARTED, is_started=False, after_us=after_us)
        attempted = AttemptFacts(
            run_id=hold.run_id,
            policy=TaskPolicy(),
            tries=AttemptCounts(fence=hold.fence),
            now=self._parts.time.now(),
        )
        self.endings.append(UnsentEnd(hold, None, conclude(end, attempted), worker=worker))

    def give_back_unknown(self, worker: MemberId) -> None:
        """Give back what we have claimed and do not know, without another look."""
        while self.unknown:
            self.give_back(worker, self.unknown.pop().hold)

    def give_back_unadmitted(self, worker: MemberId) -> None:
        """Give back what we have claimed and may not have been let begin."""
        while self.unadmitted:
            self.give_back(worker, self.unadmitted.pop().hold)

    def unbegun(self, pool: SlotPool) -> int:
        """Return how many runs that we hold have not begun."""
        handed = (held for held in self.running if not held.has_begun)
        return len(pool.ahead) + sum(self.slots.of(one.runnable.kind) is pool for one in handed)

    def take_ahead(self, worker: MemberId) -> list[ClaimedRun]:
        """Return those that were claimed ahead and have a slot now, the oldest first.

        What has waited for too long is given back before that: after a pause of our process it may
        be another worker's.
        """
        until, monotonic = self.ahead_until(), self._parts.clock.monotonic_us()
        if until is None:
            return []
        if monotonic >= until:
            self.give_back_ahead(worker, monotonic - self._parts.settings.unbegun_us)
        taken: list[ClaimedRun] = []
        for pool, free in self.free().items():
            count = min(free, len(pool.ahead))
            taken += [pool.ahead.popleft().claimed for _ in range(count)]
        return taken

    def ahead_until(self) -> int | None:
        """Return until when the oldest that was claimed ahead may wait; None if there is none."""
        oldest = min((pool.ahead[0].since for pool in self.slots.pools if pool.ahead), default=None)
        return None if oldest is None else oldest + self._parts.settings.unbegun_us

    def give_back_ahead(self, worker: MemberId, since: int | None = None) -> None:
        """Give back what was claimed ahead: all of it, or what has waited since then."""
        for pool in self.slots.pools:
            if pool.ahead and since is not None and pool.ahead[0].since <= since:
                pool.shrink(self.unbegun(pool), self._parts.clock.monotonic_us())
            while pool.ahead and (since is None or pool.ahead[0].since <= since):
                self.give_back(worker, pool.ahead.popleft().claimed.hold)

    def stop_ahead(self, worker: MemberId, hold: ClaimRef, *, is_ours: bool) -> None:
        """Let go of one that was claimed ahead: the store closes it, or has given it to another."""
        for pool in self.slots.pools:
            found = next((one for one in pool.ahead if one.claimed.hold == hold), None)
            if found is not None:
                pool.ahead.remove(found)
                if is_ours:
                    self.give_back(worker, hold)

    def forget_ahead(self) -> None:
        """Let go of what was claimed ahead: it is not ours any more."""
        for pool in self.slots.pools:
            pool.ahead.clear()

    def by_queue(self) -> Counter[str]:
        """Return how many slots runs of each queue have, or wait for."""
        queues = Counter(held.claimed.queue for held in (*self.running, *self.lingering))
        queues.update(one.claimed.queue for one in self.slots.ahead())
        return queues

    def workshop(self, worker: MemberId) -> MembershipContext:
        """Return what all attempts of a member of ours share."""
        shared = self._workshop
        if shared is None or shared.grounds.worker != worker:
            self._workshop = shared = self._new_workshop(worker)
        return shared

    def _new_workshop(self, worker: MemberId) -> MembershipContext:
        parts = self._parts
        grounds = RunContextDeps(
            worker=worker,
            store=parts.store,
            clock=parts.clock,
            store_now=parts.time.now,
            secrets=parts.secrets,
        )
        clock, time = parts.clock.monotonic_us, parts.time.at
        return MembershipContext(parts, grounds, self._told, self._ring, clock, time)

    def collect(self) -> None:
        """Take what executors have told since the last time."""
        self._has_rung = False  # before the first is taken: whoever tells later rings again
        told, running, release = self._told, self.running, self.slots.release
        while told:
            held = told.popleft()
            if held.is_simply_done and held in running:
                del running[held]
                release(held.runnable.kind)
                if held.trace is not None:
                    _end_trace(held.trace, DONE)
                claimed = held.claimed
                done = UnsentEnd(
                    claimed.hold, held.started_at, DONE, claimed=claimed, worker=held.worker
                )
                self.endings.append(done)
            elif held in running:
                self.settle(held, keeps_slot=not held.is_gone)
                if not held.is_gone:
                    self.lingering[held] = None
            elif held.is_gone and (held in self.lingering or held in self.leaked):
                self.lingering.pop(held, None)
                self.leaked.pop(held, None)  # it ended after all: its slot is back
                release(held.runnable.kind)

    def settle(self, held: RunningAttempt, *, keeps_slot: bool = False) -> None:
        """End an attempt here, and free its slot; what is to be said about it waits to be sent."""
        del self.running[held]
        if not keeps_slot:
            self.slots.release(held.runnable.kind)
        end = held.settle()
        ending = None if end is None else self._ending(held, end)
        if ending is not None:
            self.endings.append(ending)
        if held.trace is not None:
            _end_trace(held.trace, None if ending is None else ending.conclusion)

    def leak(self, held: RunningAttempt, member: int) -> None:
        """Settle an attempt whose code can't be stopped; its slot is lost until the code ends."""
        self.settle(held, keeps_slot=True)
        self.leaked[held] = None
        event = SlotLeaked(
            member=member,
            **ids_of(held.claimed),
            leaked=len(self.leaked),
        )
        self._parts.emit(event)

    def conclude(
        self, claimed: ClaimedRun, runnable: Runnable, end: End, *, has_begun_effects: bool = False
    ) -> Conclusion:
        """Decide what becomes of a claimed run."""
        if isinstance(end, Succeeded):
            return success(end.result)
        attempted = AttemptFacts(
            run_id=claimed.run_id,
            policy=runnable.policy,
            tries=claimed.tries,
            now=self._parts.time.now(),
            has_begun_effects=has_begun_effects,
        )
        return conclude(end, attempted)

    def _ending(self, held: RunningAttempt, end: End) -> UnsentEnd:
        claimed = held.claimed
        conclusion = DONE if end is SUCCEEDED else self._concluded(held, end)
        ending = UnsentEnd(
            claimed.hold,
            held.started_at,
            conclusion,
            held.take_progress() if held.has_progress else None,
            held.take_lines() if held.has_lines else (),
            held.lines_before,
            claimed=claimed,
            worker=held.worker,
        )
        if held.is_calling:
            ending.is_answered, ending.wait_us = is_answered(end), asked_wait_us(end)
        if held.has_scope:
            ending.scope = held.take_scope()
        if held.is_checked and is_to_be_checked(conclusion):
            ending.follow_up = check_of(claimed.record, claimed.fence)
        return ending

    def _concluded(self, held: RunningAttempt, end: End) -> Conclusion:
        return self.conclude(
            held.claimed, held.runnable, end, has_begun_effects=held.has_begun_effects
        )

    def _ring(self) -> None:
        # Once for all that is told before it is collected: ringing takes longer than telling.
        if not self._has_rung and self._parts.clock.monotonic_us() >= self.quiet_until:
            self._has_rung = True
            self._parts.ring()


def _end_trace(trace: AttemptTrace, conclusion: Conclusion | None) -> None:
    """End an attempt's span; without a conclusion where the run is no longer ours."""
    if conclusion is None:
        trace.end({"duly.attempt.state": "fenced-off"}, FENCED_OFF)
    else:
        trace.end(end_attributes(conclusion), error_of(conclusion))
