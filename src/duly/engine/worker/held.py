"""Held: one attempt in a worker's hands, from its claim to its end.

An executor sees it as its work and speaks from any thread; everything about stopping belongs to the
worker's own thread.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.attempts import Reason, attempt_name
from duly.domain.concluding import (
    SUCCEEDED,
    CancelledEnd,
    Failed,
    GaveUp,
    GivenBack,
    Snoozed,
    Succeeded,
    TimedOut,
)
from duly.domain.durations import duration_text
from duly.domain.identity import identity_text
from duly.domain.literals import Effects
from duly.engine.ends import bounded, fitted
from duly.engine.live_run import Grounds, LiveRun
from duly.engine.run_ids import ids_of
from duly.engine.worker.transacting import transact
from duly.errors import Cancelled
from duly.telemetry import RunLogged

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from duly.domain.concluding import End
    from duly.domain.live import Live, Transacting
    from duly.engine.work import Runnable
    from duly.engine.worker.parts import WorkerParts
    from duly.store.dispatch import MemberId
    from duly.store.execution import ClaimedRun
    from duly.store.protocol import Store

NOBODY_ASKED = "it stopped as if it had been cancelled, though nobody had asked for it"


class Cause(IntEnum):
    """Why an attempt is to stop; a higher one takes the place of a lower."""

    SHUTDOWN = 1
    CANCEL = 2
    LIMIT = 3
    FENCED = 4


class Limit(NamedTuple):
    """When an attempt is to stop by itself, on the monotonic clock, and why."""

    at: int
    reason: Reason
    length_us: int

    def end(self) -> TimedOut:
        """Return how an attempt ends that has reached it."""
        return TimedOut(self.reason, _sentence(self.reason, self.length_us))


class Workshop(NamedTuple):
    """What all attempts of one member share."""

    parts: WorkerParts
    grounds: Grounds
    told: deque[Held]
    """Those of which there is news; to be added to from any thread."""
    ring: Callable[[], None]
    """Says that there is some."""
    monotonic_us: Callable[[], int]
    """Tells the time on the monotonic clock,"""
    store_time: Callable[[int], int]
    """and what the store's clock showed then; here, since every attempt asks for both."""


@dataclass(slots=True)
class Stopping:
    """An attempt that was asked to stop: why, and when we insist."""

    cause: Cause
    insist_at: int
    end: TimedOut | None = None
    """Of one whose time is up: how it ended, unless its code was done before it knew."""
    is_insisted: bool = False


class Held(LiveRun):
    """One attempt: what an executor is given, what its code may do, what the worker knows of it."""

    # As all attempts begin; so many are made that each keeps only what is its own.
    started_at: int | None = None
    """When its code began, by the store's clock."""
    _begun_at: int | None = None
    said: End | None = None
    """How it ended, by its executor's word."""
    is_gone = False
    """Whether nothing of it is left where it ran."""
    stopping: Stopping | None = None
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
    """How it ended, when the store knows that already: by a commit of its own (E4)."""

    def __init__(
        self, workshop: Workshop, claimed: ClaimedRun, runnable: Runnable, handed_at: int
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
    def live(self) -> Live:
        """What its code may do while it lasts."""
        return self

    @property
    def store(self) -> Store:
        """Where its run is."""
        return self._grounds.store

    def transact(self, limit_us: int) -> AbstractContextManager[Transacting]:
        """Lend a transaction whose commit is also the run's success (E4)."""
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
        if parts.hears(RunLogged):
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

    def limit(self) -> Limit | None:
        """Return the first of its limits."""
        policy, claimed = self.runnable.policy, self.claimed
        limits: list[Limit] = []
        if self._begun_at is None:
            within_us = self._workshop.parts.settings.begin_within_us
            limits.append(Limit(self.handed_at + within_us, Reason.NOT_STARTED, within_us))
        else:
            if policy.timeout_us is not None:
                at = self.begun_at + policy.timeout_us
                limits.append(Limit(at, Reason.TIMEOUT, policy.timeout_us))
            if policy.stall_us is not None:
                at = max(self.begun_at, self.advanced_at) + policy.stall_us
                limits.append(Limit(at, Reason.STALLED, policy.stall_us))
        first_at = claimed.tries.begun_at
        if policy.run_timeout_us is not None and first_at is not None:
            used_us = claimed.claimed_at - first_at
            at = self.handed_at + policy.run_timeout_us - used_us
            limits.append(Limit(at, Reason.RUN_TIMEOUT, policy.run_timeout_us))
        return min(limits, default=None)

    def look_at(self, monotonic: int) -> int | None:
        """Return when it may have reached a limit at the earliest, on the monotonic clock."""
        limit, policy = self.limit(), self.runnable.policy
        times = [] if limit is None else [limit.at]
        if self._begun_at is None:  # nobody tells us when it begins: at this moment, perhaps
            lengths = (policy.timeout_us, policy.stall_us)
            times += [monotonic + length for length in lengths if length is not None]
        return min(times, default=None)

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
            case Cause.LIMIT:
                assert stopping.end is not None, "a limit says how it ends"
                return said if is_own_word else self._limited(stopping.end)
            case Cause.CANCEL:
                return CancelledEnd(_error_of(said))
            case Cause.SHUTDOWN:
                started = self.started_at is not None
                return said if is_own_word else GivenBack(Reason.SHUTDOWN, is_started=started)
            case Cause.FENCED:
                return None

    def _limited(self, end: TimedOut) -> End:
        """Return how it ended past a limit; what never began has used none of its own time."""
        if self.started_at is None and end.reason is not Reason.RUN_TIMEOUT:
            return GivenBack(Reason.NOT_STARTED, is_started=False)
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
    """Return an end by time-out together with where its code was when it was stopped."""
    error = _error_of(said)
    return end if error is None else replace(end, error=bounded(f"{end.error}\n{error}"))
