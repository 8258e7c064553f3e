"""The worker's service: composes membership, limits, finishing, reporting and claiming.

`Worker` is sequential: a tick does a bounded amount of work and returns when to wake it, on the
monotonic clock. Code runs in executors, which report through a queue and wake the worker. A claim
that the worker believes to hold may be lost, so the store compares worker and fence in every
write.

What happens when
- a worker dies: its lease expires, and the reaper of a dispatcher settles its claims;
- it was only paused: its heartbeat or claim is refused; all its attempts are fenced off and asked
  to stop, what they still report is refused and kept as evidence, and the worker joins under a
  fresh id;
- an answer is lost: ends are sent again, and a claim whose answer was lost is reported as a stray
  by the next heartbeat, and is given back;
- the store is away: code continues and ends are kept, for however long; past its own count of the
  lease the worker claims nothing before a heartbeat is answered, and a worker that was not
  declared dead continues;
- code does not stop: the worker asks, then insists; if the code still runs, its slot counts as
  leaked, and with too many of them the worker drains and ends, to be replaced.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from duly.engine.dispatcher.context import Node
from duly.engine.store_clock import StoreTime
from duly.engine.worker.active_attempts import ActiveAttempts
from duly.engine.worker.admission import WorkerAdmission
from duly.engine.worker.attempt import StopCause, TimeLimits
from duly.engine.worker.claimer import CallBudget, ClaimCallbacks, Claimer
from duly.engine.worker.context import WorkerContext
from duly.engine.worker.exchange import DirectCourier
from duly.engine.worker.membership import Draining, StoreBackoff, WorkerMembership
from duly.engine.worker.reporter import EndReporter, ProgressReporter
from duly.engine.worker.settings import WorkerSettings
from duly.engine.worker.unknown_tasks import MissingTasks, Pausing
from duly.entropy import SystemDraws
from duly.errors import STORE_AWAY, LeaseLost, StoreUnavailable
from duly.store.ports.dispatch import WorkerStatus
from duly.store.ports.execution import StopReason
from duly.telemetry import NullTelemetry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.clock import Clock
    from duly.domain.enums import TaskKind
    from duly.engine.executors.executor import Executor, TaskCatalogue
    from duly.engine.executors.task_output import Redactor
    from duly.engine.worker.context import WorkerStatistics
    from duly.engine.worker.exchange import BeginClaim, StoreSender
    from duly.engine.worker.reporter import Ask
    from duly.entropy import RandomSource
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId, Wakeups
    from duly.store.ports.execution import HeartbeatResult
    from duly.telemetry import Telemetry
    from duly.telemetry.tracing import Tracing

LEASE_OVER = "its lease has run out, and others have declared it dead"
TAKEN = "the store says that somebody else has settled them"


class Worker:
    """Claims queued runs, has them executed, and finishes them."""

    def __init__(  # noqa: PLR0913, PLR0917 - what it works with, each replaceable
        self,
        store: Store,
        clock: Clock,
        catalogue: TaskCatalogue,
        executors: Mapping[TaskKind, Executor],
        settings: WorkerSettings | None = None,
        *,
        telemetry: Telemetry | None = None,
        node: Node | None = None,
        wakeups: Wakeups | None = None,
        draws: RandomSource | None = None,
        courier: StoreSender | None = None,
        begin_claim: BeginClaim | None = None,
        tracing: Tracing | None = None,
    ) -> None:
        self._parts = parts = WorkerContext(
            store=store,
            clock=clock,
            settings=settings or WorkerSettings(),
            telemetry=telemetry or NullTelemetry(),
            node=node or Node(),
            catalogue=catalogue,
            executors=executors,
            draws=draws or SystemDraws(),
            ring=_nothing if wakeups is None else wakeups.nudge,
            time=StoreTime(clock),
            courier=courier or DirectCourier(),
            begin_claim=begin_claim,
            tracing=tracing,
        )
        self._membership = membership = WorkerMembership(parts)
        self._holdings = holdings = ActiveAttempts(parts)
        self._limits = limits = TimeLimits(parts, holdings, membership)
        self._finishing = EndReporter(parts, holdings, membership)
        self._reporting = ProgressReporter(parts, holdings, limits)
        self._pausing = pausing = Pausing(parts, holdings, membership)
        self._missing = missing = MissingTasks(parts, holdings, membership, pausing)
        self._admission = WorkerAdmission(parts, holdings)
        self._claiming = Claimer(parts, holdings, limits, missing, self._admission)
        self._draining = Draining(parts, holdings, limits)
        self._outage = StoreBackoff(parts)
        self._pace = CallBudget(parts.settings.talk_every_us)
        self.on_over: Callable[[], None] = _nothing
        """Told once, when the worker has ended by itself: drained, stopped or worn out."""
        self._is_stop_asked = False
        self._is_over = False
        self._is_rung = False
        """Whether somebody has rung, and it was no executor of ours."""

    @property
    def member(self) -> MemberId | None:
        """Our id in the fleet; None while we have none."""
        return self._membership.id

    @property
    def secrets(self) -> Redactor:
        """What attempts have read, and the output of this process must not show."""
        return self._parts.secrets

    @property
    def is_over(self) -> bool:
        """Whether it has ended: nothing is held, and nothing will be taken."""
        return self._is_over

    @property
    def is_draining(self) -> bool:
        """Whether it takes no more runs, and will end when it is done with those it has."""
        return self._draining.until is not None

    @property
    def needs_recycling(self) -> bool:
        """Whether it ends because it has lost too many slots: another should take its place."""
        return self._draining.is_worn

    @property
    def is_dismissed(self) -> bool:
        """Whether it ends because people have ordered it: nobody should take its place."""
        return self._draining.is_ordered and not self._draining.is_asked

    @property
    def running(self) -> int:
        """How many attempts are being executed."""
        return len(self._holdings.running)

    @property
    def leaked(self) -> int:
        """How many slots are lost to code that can't be stopped."""
        return len(self._holdings.leaked)

    @property
    def statistics(self) -> WorkerStatistics:
        """What was done so far."""
        return self._parts.statistics

    def wake(self) -> None:
        """Look for runs at the next tick, and soon for cancellations; somebody has rung."""
        self._claiming.wake()
        self._is_rung = self._is_rung or not self._holdings.has_news()

    def drain(self) -> None:
        """Take no more runs, and end when those at hand are done or the grace is over.

        Only says so, and rings; safe in a signal handler.
        """
        self._draining.is_asked = True
        self._parts.ring()

    def stop_now(self) -> None:
        """End at once, and give back what is held. Only says so; safe in a signal handler."""
        self._is_stop_asked = True
        self._parts.ring()

    def tick(self) -> int:
        """Do a bounded amount of work; return when to be called next, on the monotonic clock."""
        monotonic = self._parts.clock.monotonic_us()
        if self._is_stop_asked:
            self.stop()
        if self._is_over:
            return monotonic + self._parts.settings.beat_every_us
        if self._claiming.is_limited and self._holdings.has_news():
            self._claiming.wake()
        self._holdings.collect()
        self._limits.enforce(monotonic)
        self._draining.note(self._membership.number(), monotonic)
        self._see_to_ahead()
        if monotonic >= self._outage.retry_at:
            self._talk()
        if self._is_drained(self._parts.clock.monotonic_us()):
            self.stop()
        return self._wake_at(self._parts.clock.monotonic_us())

    def _see_to_ahead(self) -> None:
        """Begin what was claimed ahead; give it back if we are to take no more."""
        worker = self._membership.id
        if worker is not None and (self.is_draining or self._claiming.is_barred):
            self._holdings.give_back_ahead(worker)
        elif worker is not None:
            self._claiming.begin_ahead(worker)

    def _is_drained(self, monotonic: int) -> bool:
        """Say whether there is nothing left to do, and nothing that we might not know of.

        What is still to be told waits for a store that is away, until both our grace and our lease
        are over.
        """
        holdings, until = self._holdings, self._draining.until
        if until is None or holdings.running or holdings.has_news():
            return False
        is_in_vain = self._outage.is_on and self._membership.is_over(monotonic)
        if is_in_vain and monotonic >= until:
            return True
        return holdings.is_empty and not self._membership.is_in_doubt

    def stop(self) -> None:
        """End at once: what runs is made to stop and given back, and we leave the fleet."""
        if self._is_over:
            return
        self._is_over = True
        holdings = self._holdings
        holdings.collect()
        for held in tuple(holdings.running):
            self._limits.stop(held, StopCause.SHUTDOWN)
            self._limits.insist(held)
        for executor in {id(one): one for one in self._parts.executors.values()}.values():
            with suppress(Exception):  # whatever one can't let go of must not keep the others
                executor.close()
        holdings.collect()
        for held in tuple(holdings.running):
            holdings.settle(held)
        if self._membership.id is not None:
            holdings.give_back_unknown(self._membership.id)
            holdings.give_back_unadmitted(self._membership.id)
            holdings.give_back_ahead(self._membership.id)
        # If the store can't be told, or can't tell us what is ours, our lease runs out by itself,
        # and others settle the rest.
        with suppress(*STORE_AWAY):
            if self._membership.id is not None:
                # An order to claim that we gave up may have been carried out since: the beat tells.
                self._heed(self._membership.beat(holdings))
        with suppress(*STORE_AWAY):
            self._finishing.send()
            self._pausing.settle_unwanted()
            if not self._membership.is_in_doubt:
                self._membership.leave()
        self._parts.courier.close()
        self.on_over()

    def _talk(self) -> None:
        """Talk to the store, and note whether it answers."""
        try:
            self._exchange()
        except StoreUnavailable as error:
            self._outage.begin(self._membership.number(), error)
        except LeaseLost:
            self._membership.beat_now()
        else:
            if self._outage.end(self._membership.number()):
                self._claiming.wake()

    def _exchange(self) -> None:
        """Do what is due of talking to the store: beat, report, finish, claim."""
        if not self._take_part():
            return
        worker = self._membership.id
        monotonic = self._parts.clock.monotonic_us()
        if worker is not None:
            self._reporting.send(worker, monotonic)
            self._settle_missing(worker)
            self._pausing.settle_unwanted()
        is_wanted = self._may_claim(monotonic)
        if is_wanted and monotonic >= self._pace.claim_at:
            self._move(worker, monotonic)
            return
        is_fit = monotonic >= self._pace.end_at or self.is_draining or worker is None
        if is_fit and self._holdings.endings_due(monotonic):
            self._move(None, monotonic)
        if worker is not None and not is_wanted:
            self._note_ring(0)
        if worker is not None:
            self._settle_unadmitted(worker)  # the last: no end waits for it

    def _may_claim(self, monotonic: int) -> bool:
        is_late = self._membership.is_over(monotonic)
        return not self.is_draining and not is_late and self._claiming.is_due(monotonic)

    def _move(self, worker: MemberId | None, monotonic: int) -> None:
        """Send ends, and take more runs for a member of ours, if one is given."""
        claimed, ends = self._parts.statistics.claimed, len(self._holdings.endings)
        if worker is None:
            self._finishing.send()
        else:
            with self._finishing.under_way(worker) as ask:
                self._claim(worker, monotonic, ask)
            # After our ends are told: what they held may be what these need.
            self._claiming.admit(worker)
        got = self._parts.statistics.claimed - claimed
        is_claim = worker is not None
        is_more = is_claim and self._claiming.is_more
        self._pace.note(monotonic, ends + got, is_more=is_more, is_claim=is_claim)

    def _claim(self, worker: MemberId, monotonic: int, ask: Ask) -> None:
        """Take more runs."""
        got = self._parts.statistics.claimed
        try:
            is_member = self._claiming.claim(worker, monotonic, ask, self._meanwhile)
        except StoreUnavailable:
            # It may have given us runs that we do not know of: the next beat tells.
            self._membership.beat_now()
            raise
        if not is_member:
            # Our lease is over by the store's clock; whether others know it the next beat tells.
            self._membership.beat_now()
            return
        self._note_ring(self._parts.statistics.claimed - got)
        self._settle_missing(worker)

    @property
    def _meanwhile(self) -> ClaimCallbacks:
        return ClaimCallbacks(self._may_follow, self._goes_on)

    def _may_follow(self) -> bool:
        """Say whether a claim may follow another: nothing else is due, and nobody wants us to stop.

        Asked when an answer has come: meanwhile a signal may have, too.
        """
        if self._is_stop_asked or self._draining.is_asked:
            return False
        due = (self._limits.next_at, self._membership.beat_at, self._reporting.next_at())
        return self._parts.clock.monotonic_us() < min(at for at in due if at is not None)

    def _goes_on(self) -> None:
        """Tell of what has ended while a claim is on its way."""
        self._holdings.collect()
        if self._membership.id is not None:
            self._claiming.begin_ahead(self._membership.id)
        self._finishing.go_on()

    def _settle_unadmitted(self, worker: MemberId) -> None:
        """Ask again about limited runs of which the store could not say whether they may begin."""
        if self.is_draining:
            self._holdings.give_back_unadmitted(worker)
        else:
            self._claiming.admit(worker)

    def _settle_missing(self, worker: MemberId) -> None:
        """Settle what we do not know; when there is more to leave to others, look behind it."""
        if self._missing.settle(worker):
            self._claiming.wake()

    def _note_ring(self, got: int) -> None:
        """Ask soon about orders to us, if we were woken and nothing new explains it."""
        may_be_told = self._holdings.running or self._claiming.is_barred
        if self._is_rung and not got and may_be_told:
            self._membership.beat_soon()
        self._is_rung = False

    def _take_part(self) -> bool:
        """Join or beat when it is time; False when we must begin anew."""
        membership = self._membership
        if membership.id is None:
            if not self.is_draining:
                membership.join()
                self._holdings.slots.serve(self._parts.kinds())
                self._admission.begin()
                self._admission.learn()
            return True
        self._admission.learn()
        if self._parts.clock.monotonic_us() < membership.beat_at:
            return True
        beaten = membership.beat(self._holdings)
        if not beaten.is_alive:
            self._lose_membership(LEASE_OVER)
            return False
        self._heed(beaten)
        self._stand(beaten.standing)
        self._admission.learn(beaten.limits_version)
        return True

    def _stand(self, standing: WorkerStatus | None) -> None:
        """Take no more runs while people have taken us out of service."""
        was_barred = self._claiming.is_barred
        self._claiming.is_barred = standing is WorkerStatus.QUARANTINED
        self._draining.is_ordered = standing is WorkerStatus.DRAINING
        if was_barred and not self._claiming.is_barred:
            self._claiming.wake()
        self._draining.note(self._membership.number(), self._parts.clock.monotonic_us())

    def _heed(self, beaten: HeartbeatResult) -> None:
        """Stop what must stop, and give back what we never knew that we have."""
        running = {held.hold: held for held in self._holdings.running} if beaten.stops else {}
        gone = []
        assert self._membership.id is not None, "only a member hears of strays"
        for stop in beaten.stops:
            held, is_ours = running.get(stop.hold), stop.kind is StopReason.CANCEL
            if held is None:
                self._holdings.stop_ahead(self._membership.id, stop.hold, is_ours=is_ours)
                continue
            if is_ours:
                self._limits.stop(held, StopCause.CANCEL)
            elif held.stopping is None or held.stopping.cause is not StopCause.FENCED:
                gone.append(held)
        self._limits.fence_off(gone, TAKEN)
        for hold in beaten.strays:
            self._holdings.give_back(self._membership.id, hold)

    def _lose_membership(self, reason: str) -> None:
        """Fence off everything: others may have begun it anew."""
        self._limits.fence_off(tuple(self._holdings.running), reason)
        self._holdings.unknown.clear()
        self._holdings.unadmitted.clear()
        self._holdings.forget_ahead()
        self._membership.lose(reason)

    def _wake_at(self, monotonic: int) -> int:
        """Return the first instant at which any part has something to do."""
        asking = self._moving_at(monotonic)  # which says, first of all, when we want to be rung
        if self._holdings.has_news() or self._is_stop_asked or self._is_over:
            return monotonic
        drain_at = self._draining.next_at()
        times = [self._limits.next_at]
        times += [at for at in (drain_at, self._holdings.ahead_until()) if at is not None]
        if self._membership.id is not None:
            asking += [self._reporting.next_at(), self._membership.beat_at]
            holdings = self._holdings
            is_owing = holdings.unknown or holdings.unadmitted or holdings.unwanted
            asking += [monotonic] if is_owing else []
        elif not self.is_draining:
            asking.append(monotonic)
        times += [max(at, self._outage.retry_at) for at in asking if at is not None]
        return max(monotonic, min(times))

    def _moving_at(self, monotonic: int) -> list[int | None]:
        """Return when ends are to be told, and when runs are to be taken.

        Until ends are fit to be told, what has ended need not wake us: we look by then.
        """
        holdings, claiming, pace = self._holdings, self._claiming, self._pace
        end_at, claim_at = self._finishing.next_at(), claiming.next_at()
        if self.is_draining or self._membership.id is None:
            holdings.quiet_until = 0
            return [end_at]
        has_room = claim_at is not None and not claiming.is_more and not claiming.is_limited
        is_quiet = has_room and bool(holdings.running) and monotonic < pace.end_at
        is_quiet = is_quiet and holdings.ahead_until() is None  # what waits for a slot
        holdings.quiet_until = pace.end_at if is_quiet else 0
        if is_quiet or end_at is not None:
            end_at = max(end_at or 0, pace.end_at)
        return [end_at, None if claim_at is None else max(claim_at, pace.claim_at)]


def _nothing() -> None:
    """Do nothing."""
