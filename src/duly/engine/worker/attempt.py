"""One attempt from claim to end: state, time limits, asking it to stop, transactional success.

`RunningAttempt` is what an executor receives as its work, and it may be called from any thread.
Only the worker's own thread stops attempts. Code that cannot be stopped is settled all the same:
its run continues by its policy, and its slot is lost until the code ends by itself.

`transact` writes the end of the run as the last statement of the transaction that it lends, under
the claim's fence. An error before that, or a refusal, rolls back all of it; then the attempt ends
like any other that raised. If the answer to the commit is lost, the store knows how the attempt
ended, and accepts no other end.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Effects, TaskKind
from duly.domain.ids import identity_text
from duly.domain.outcomes import (
    SUCCEEDED,
    CancelledEnd,
    Failed,
    GaveUp,
    ReturnedToQueue,
    Snoozed,
    Succeeded,
    TimedOut,
    is_answered,
    success,
)
from duly.domain.runs import Reason, attempt_name
from duly.domain.tasks import TransactionalRun
from duly.domain.verification import check_of
from duly.engine.executors.results import bounded, fitted
from duly.engine.executors.task_output import ids_of
from duly.engine.worker.run_context import RunContextDeps, WorkerRunContext
from duly.errors import Cancelled, LeaseLost, UsageError
from duly.store.ports.execution import FinishAttempt
from duly.telemetry import CompletionFenced, RunLogged
from duly.timetable.instants import duration_text

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager

    from duly.domain.outcomes import End
    from duly.domain.tasks import RunContext
    from duly.engine.executors.executor import Runnable
    from duly.engine.worker.active_attempts import ActiveAttempts
    from duly.engine.worker.context import WorkerContext
    from duly.engine.worker.membership import WorkerMembership
    from duly.engine.worker.slots import SlotPool
    from duly.store.ports import Store
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun


@contextmanager
def transact(held: RunningAttempt, limit_us: int) -> Iterator[TransactionalRun]:
    """Lend a transaction; when its block ends well the run succeeds with it, or nothing does."""
    _require_possible(held)
    finish: FinishAttempt | None = None
    held.is_transacting = True
    try:
        with held.store.transaction(limit_us) as transaction:
            lent = TransactionalRun(transaction)
            yield lent
            end = _end_of(held, lent)
            finish = _finish_of(held, end)
            held.store.finish_within(transaction, held.worker, finish)
        held.committed = end
    except BaseException as error:
        if finish is not None:
            held.put_back(finish.progress, finish.lines, finish.scope)
        if isinstance(error, LeaseLost):
            held.stop(is_fenced=True)
        raise
    finally:
        held.is_transacting = False


def _end_of(held: RunningAttempt, lent: TransactionalRun) -> Succeeded:
    end = held.storable_end(Succeeded(lent.result))
    assert isinstance(end, Succeeded), "leaving out secrets makes nothing else of it"
    return end


def _finish_of(held: RunningAttempt, end: Succeeded) -> FinishAttempt:
    claimed = held.claimed
    return FinishAttempt(
        claimed.hold,
        held.started_at,
        success(end.result),
        held.take_progress(),
        held.take_lines(),
        held.lines_before,
        is_answered(end) if held.is_calling else None,
        scope=held.take_scope(),
        follow_up=check_of(claimed.record, claimed.fence) if held.is_checked else None,
    )


def _require_possible(held: RunningAttempt) -> None:
    name, effects = held.runnable.name, held.effects
    if effects is not Effects.TRANSACTIONAL:
        remedy = 'declare its task with effects="transactional"'
        raise UsageError("transaction", name, f"is a task that is {effects}", remedy)
    if held.committed is not None:
        remedy = "write all of it in one transaction: its commit ends the run"
        raise UsageError("transaction", name, "has ended its run with another one", remedy)
    if held.is_transacting:
        remedy = "use the one that is open, or leave it first"
        raise UsageError("transaction", name, "has one open already", remedy)
    if held.is_cancelled:
        raise Cancelled(held.run_id)


NOBODY_ASKED = "it stopped as if it had been cancelled, though nobody had asked for it"


class StopCause(IntEnum):
    """Why an attempt is to stop; a higher one takes the place of a lower."""

    SHUTDOWN = 1
    CANCEL = 2
    LIMIT = 3
    FENCED = 4


class TimeLimit(NamedTuple):
    """When an attempt is to stop by itself, on the monotonic clock, and why."""

    at: int
    reason: Reason
    length_us: int

    def end(self) -> TimedOut:
        """Return how an attempt ends that has reached it."""
        return TimedOut(self.reason, _sentence(self.reason, self.length_us))


class MembershipContext(NamedTuple):
    """What all attempts of one member share."""

    parts: WorkerContext
    grounds: RunContextDeps
    told: deque[RunningAttempt]
    """Those of which there is news; to be added to from any thread."""
    ring: Callable[[], None]
    """Says that there is some."""
    monotonic_us: Callable[[], int]
    """Tells the time on the monotonic clock,"""
    store_time: Callable[[int], int]
    """and what the store's clock showed then; here, since every attempt asks for both."""


@dataclass(slots=True)
class StopRequest:
    """An attempt that was asked to stop: why, and when we insist."""

    cause: StopCause
    insist_at: int
    end: TimedOut | None = None
    """Of one whose time is up: how it ended, unless its code was done before it knew."""
    is_insisted: bool = False


class RunningAttempt(WorkerRunContext):
    """One attempt: what an executor is given, what its code may do, what the worker knows of it."""

    # As all attempts begin; so many are made that each keeps only what is its own.
    started_at: int | None = None
    """When its code began, by the store's clock."""
    _begun_at: int | None = None
    said: End | None = None
    """How it ended, by its executor's word."""
    is_gone = False
    """Whether nothing of it is left where it ran."""
    stopping: StopRequest | None = None
    _is_settled = False
    is_start_told = False
    is_checked = False
    """Whether its task can check its result."""
    is_calling = False
    """Whether it calls a destination, whose breaker is to hear how that went."""
    progress_told_at: int | None = None
    is_transacting = False
    """Whether its code has a transaction open that would end it."""
    committed: Succeeded | None = None
    """How it ended, when the store knows that already: by a commit of its own."""

    def __init__(
        self, workshop: MembershipContext, claimed: ClaimedRun, runnable: Runnable, handed_at: int
    ) -> None:
        super().__init__(claimed, workshop.grounds)
        self._workshop = workshop
        self.runnable = runnable
        policy = runnable.policy
        if policy.effects is not Effects.IDEMPOTENT:
            self.effects = policy.effects
        if policy.is_checked:
            self.is_checked = True
        self.handed_at = handed_at
        """When it was given to its executor, on the monotonic clock."""

    @property
    def live(self) -> RunContext:
        """What its code may do while it lasts."""
        return self

    @property
    def store(self) -> Store:
        """Where its run is."""
        return self._grounds.store

    def transact(self, limit_us: int) -> AbstractContextManager[TransactionalRun]:
        """Lend a transaction whose commit is also the run's success."""
        return transact(self, limit_us)

    @property
    def worker(self) -> MemberId:
        """The member of ours that has claimed it."""
        return self._grounds.worker

    @property
    def run_id(self) -> str:
        """The run's id, as people see it."""
        return identity_text(self.claimed.run_id)

    @property
    def attempt_id(self) -> str:
        """Its name: the run's id, and which try."""
        return attempt_name(self.run_id, self.claimed.tries.attempt)

    @property
    def is_simply_done(self) -> bool:
        """Whether it has succeeded and is gone, with nothing else to be said about it; as most."""
        is_done = self.said is SUCCEEDED and self.is_gone and self.stopping is None
        has_more = self._is_unsent or self._lines or self._is_in_doubt or self.is_calling
        return is_done and not has_more and self._scope is None and not self.is_checked

    @property
    def begun_at(self) -> int:
        """When its code began on the monotonic clock, or else when it was handed over."""
        return self.handed_at if self._begun_at is None else self._begun_at

    def began(self) -> None:
        """Say that the code begins now; from any thread, once.

        Raises Cancelled when it must not: it was asked to stop, or given back, before it began.
        """
        with self._lock:
            if self._begun_at is None:
                if self._is_settled or self._is_cancelled:
                    raise Cancelled(self.run_id)
                workshop, claimed_at = self._workshop, self.claimed.claimed_at
                self._begun_at = monotonic = workshop.monotonic_us()
                started_at = workshop.store_time(monotonic)
                # Our estimate of the store's clock may be a little behind what it has told.
                self.started_at = started_at if started_at > claimed_at else claimed_at  # noqa: FURB136 - a call would take longer, in every run
        if self.trace is not None:
            self.trace.began()

    def ended(self, end: End, *, is_gone: bool = True, is_quiet: bool = False) -> None:
        """Say how it ended; from any thread. The first word counts, later ones are dropped.

        Not `is_gone`: what it ran in is still there, and keeps its slot until that is said, too.
        `is_quiet`: the worker need not hear of it at once, because somebody rings in a moment.
        """
        with self._lock:
            has_news = is_gone > self.is_gone
            if self.said is None:
                has_news = True
                self.said = end if end is SUCCEEDED else self.storable_end(end)
            if is_gone:
                self.is_gone = True
        if has_news:
            self._workshop.told.append(self)
            if not is_quiet:
                self._workshop.ring()

    def tell_line(self, level: str, text: str) -> None:
        """Tell whoever listens that a line was written; from any thread."""
        parts = self._workshop.parts
        if parts.is_listening(RunLogged):
            ids = ids_of(self.claimed)
            member = int(self.worker)
            parts.emit(RunLogged(member=member, line_level=level, text=text, **ids))

    def ring(self) -> None:
        """Let the worker hear at once of what has ended."""
        self._workshop.ring()

    def storable_end(self, end: End) -> End:
        """Return an end without secrets, that every store can hold."""
        try:
            return fitted(self.hide_in_end(end))
        except Exception as error:  # noqa: BLE001 - an end never told would cost the slot for good
            return Failed(f"how it ended can't be told: {type(error).__name__}")

    def limit(self) -> TimeLimit | None:
        """Return the first of its limits."""
        policy, claimed = self.runnable.policy, self.claimed
        limits: list[TimeLimit] = []
        if self._begun_at is None:
            settings = self._workshop.parts.settings
            within_us = settings.unbegun_us if self.begins_here else settings.begin_within_us
            limits.append(TimeLimit(self.handed_at + within_us, Reason.NOT_STARTED, within_us))
        else:
            if policy.timeout_us is not None:
                at = self.begun_at + policy.timeout_us
                limits.append(TimeLimit(at, Reason.TIMEOUT, policy.timeout_us))
            if policy.stall_us is not None:
                at = max(self.begun_at, self.advanced_at) + policy.stall_us
                limits.append(TimeLimit(at, Reason.STALLED, policy.stall_us))
        first_at = claimed.tries.begun_at
        if policy.run_timeout_us is not None and first_at is not None:
            used_us = claimed.claimed_at - first_at
            at = self.handed_at + policy.run_timeout_us - used_us
            limits.append(TimeLimit(at, Reason.RUN_TIMEOUT, policy.run_timeout_us))
        return min(limits, default=None)

    def look_at(self, monotonic: int) -> int | None:
        """Return when it may have reached a limit at the earliest, on the monotonic clock."""
        limit, policy = self.limit(), self.runnable.policy
        times = [] if limit is None else [limit.at]
        if self._begun_at is None:  # nobody tells us when it begins: at this moment, perhaps
            lengths = (policy.timeout_us, policy.stall_us)
            times += [monotonic + length for length in lengths if length is not None]
        return min(times, default=None)

    @property
    def has_begun(self) -> bool:
        """Whether its code has begun, or ended without that."""
        return self._begun_at is not None or self.said is not None

    @property
    def begins_here(self) -> bool:
        """Whether no process has to start for it."""
        return self.runnable.kind in (TaskKind.ASYNC, TaskKind.THREAD)

    def withdraw(self) -> bool:
        """Keep its code from beginning; False if it has begun, or ended without that."""
        with self._lock:
            if not self.has_begun:
                self._is_settled = True
            return self._is_settled

    def settle(self) -> End | None:
        """Decide how it ended; code that has not begun by now never will."""
        if self.said is None:
            with self._lock:
                self._is_settled = True
        return self.settled()

    def settled(self) -> End | None:
        """Return how it ended, given why it was asked to stop; None when that is not ours to say.

        Code that has seen that it should stop and then returns has stopped: it is not done. Code
        that has not seen it and says that it is done, is: a time-out limits how long we wait, and
        is no reason to repeat what was done meanwhile.
        """
        said, stopping = self.said, self.stopping
        if self.committed is not None:  # whatever its code did, or was told, after that
            said, stopping = self.committed, None
        if stopping is None:
            return Failed(NOBODY_ASKED) if isinstance(said, CancelledEnd) else said
        is_done = isinstance(said, (Succeeded, GaveUp, Snoozed))
        is_own_word = is_done and not self.has_seen_stop
        match stopping.cause:
            case _ if is_own_word and not isinstance(said, Snoozed):
                return said
            case StopCause.LIMIT:
                assert stopping.end is not None, "a limit says how it ends"
                return said if is_own_word else self._limited(stopping.end)
            case StopCause.CANCEL:
                return CancelledEnd(_error_of(said))
            case StopCause.SHUTDOWN:
                started = self.started_at is not None
                return said if is_own_word else ReturnedToQueue(Reason.SHUTDOWN, is_started=started)
            case StopCause.FENCED:
                return None

    def _limited(self, end: TimedOut) -> End:
        """Return how it ended past a limit; what never began has used none of its own time."""
        if self.started_at is None and end.reason is not Reason.RUN_TIMEOUT:
            return ReturnedToQueue(Reason.NOT_STARTED, is_started=False)
        return _with_trace(end, self.said)


def _sentence(reason: Reason, length_us: int) -> str:
    length = duration_text(length_us)
    match reason:
        case Reason.STALLED:
            return f"it has not advanced for {length}"
        case Reason.RUN_TIMEOUT:
            return f"the run, its retries included, took longer than {length}"
        case _:
            return f"it took longer than {length}"


def _error_of(said: End | None) -> str | None:
    return said.error if isinstance(said, (Failed, CancelledEnd, TimedOut)) else None


def _with_trace(end: TimedOut, said: End | None) -> TimedOut:
    """Return an end by time-out together with where its code was when it was stopped.

    The last line of an error says what went wrong.
    """
    error = _error_of(said)
    return end if error is None else replace(end, error=bounded(f"{error}\n{end.error}"))


FAR = 1 << 62


class TimeLimits:
    """Looks after the limits of what runs, and ends what must end."""

    def __init__(
        self, parts: WorkerContext, holdings: ActiveAttempts, membership: WorkerMembership
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._membership = membership
        self.next_at = FAR
        """Nothing is to be done before this, on the monotonic clock."""

    def watch(self, held: RunningAttempt, monotonic: int) -> None:
        """Look at an attempt when it may have reached a limit at the earliest."""
        look_at = held.look_at(monotonic)
        if look_at is not None:
            self.next_at = min(self.next_at, look_at)

    def enforce(self, monotonic: int) -> None:
        """End what has reached a limit, and insist where asking did not help."""
        if monotonic < self.next_at:
            return
        self.next_at = FAR
        withdrawn: dict[SlotPool, int] = {}
        for held in tuple(self._holdings.running):
            if held.stopping is None:
                limit = held.limit()
                if limit is None:
                    continue
                if monotonic < limit.at:
                    self.watch(held, monotonic)
                    continue
                is_waiting = limit.reason is Reason.NOT_STARTED and held.begins_here
                if is_waiting and not held.withdraw():
                    self.watch(held, monotonic)  # it has begun just now
                    continue
                self.stop(held, StopCause.LIMIT, limit.end())
                if is_waiting:
                    # At once: what blocks its event loop may go on for long.
                    pool = self._holdings.slots.of(held.runnable.kind)
                    withdrawn.setdefault(pool, self._holdings.unbegun(pool))
                    self._holdings.settle(held)
                    continue
            self._press(held, monotonic)
        for pool, unbegun in withdrawn.items():
            pool.shrink(unbegun, monotonic)

    def stop(self, held: RunningAttempt, cause: StopCause, end: TimedOut | None = None) -> None:
        """Ask an attempt to stop; a weightier cause takes the place of an earlier one."""
        stopping = held.stopping
        held.stop(is_fenced=cause is StopCause.FENCED)
        if stopping is not None:
            if cause > stopping.cause:
                stopping.cause, stopping.end = cause, end
            return
        monotonic = self._parts.clock.monotonic_us()
        insist_at = monotonic + self._parts.settings.cancel_grace_us
        held.stopping = StopRequest(cause, insist_at, end)
        self.next_at = min(self.next_at, insist_at)
        with suppress(Exception):  # an executor's defect must not keep us from insisting
            self._parts.executor(held.runnable).ask(held)

    def fence_off(self, helds: Iterable[RunningAttempt], reason: str) -> None:
        """Stop what is no longer ours."""
        count = 0
        for held in helds:
            if held.committed is not None:  # its claim is gone because it has ended it itself
                continue
            count += 1
            self.stop(held, StopCause.FENCED)
        if count:
            member = self._membership.number()
            self._parts.emit(CompletionFenced(member=member, count=count, reason=reason))

    def insist(self, held: RunningAttempt) -> bool:
        """Make an attempt stop; False when that can't be done."""
        try:
            return self._parts.executor(held.runnable).insist(held)
        except Exception:  # noqa: BLE001 - an executor's defect must not keep a slot busy for ever
            return False

    def _press(self, held: RunningAttempt, monotonic: int) -> None:
        stopping = held.stopping
        assert stopping is not None, "only what was asked to stop is pressed"
        if monotonic >= stopping.insist_at:
            if stopping.is_insisted or not self.insist(held):
                self._holdings.leak(held, self._membership.number())
                return
            # It will be over at once, and says so itself; should it not, we go on without it.
            stopping.is_insisted = True
            stopping.insist_at = monotonic + max(self._parts.settings.cancel_grace_us, 1)
        self.next_at = min(self.next_at, stopping.insist_at)
