"""How an attempt ends and what becomes of its run: conclude(); Snooze, TryAgain, GiveUp.

`conclude` derives one decision from the end of an attempt, the task's policy and the earlier
attempts: the run is over, waits for another attempt, goes back to its queue, is dead, or is
ambiguous.

`is_answered` decides what counts against a destination's breaker: only a failure of the called
side. An attempt that ended for a reason of its own, or made no call, does not count.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, assert_never

from duly.domain.enums import AttemptState, Effects, RunState
from duly.domain.runs import AttemptCounts, Reason, TaskPolicy
from duly.errors import UsageError, require_text
from duly.timetable.instants import duration_microseconds

if TYPE_CHECKING:
    from datetime import timedelta

    from duly.domain.ids import RunId


REASON_LENGTH_MAX = 2_000
AFTER_MIN_US = 1_000_000
"""Who asks for less is given this: "at once", at no cost, would be a circle at full speed."""
AFTER_MAX_US = 366 * 86_400 * 1_000_000


@dataclass(frozen=True, slots=True)
class Snooze:
    """Run me again later; this try costs nothing of my budget."""

    after_us: int


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Try me again, after this wait or my backoff; this try counts."""

    after_us: int | None
    reason: str


@dataclass(frozen=True, slots=True)
class GiveUp:
    """There is no point in trying again: the run has failed."""

    reason: str


def snooze(delay: str | timedelta) -> Snooze:
    """Return this from a task to be run again after a delay, at no cost of its budget.

    A delay below a second is raised to one: what was worked out as zero is no reason to fail.
    """
    return Snooze(_after(delay))


def retry(delay: str | timedelta | None = None, reason: str = "asked for") -> TryAgain:
    """Return this from a task to be tried again: after a delay (1s at least), or by the backoff."""
    require_text("reason", reason, REASON_LENGTH_MAX)
    return TryAgain(None if delay is None else _after(delay), reason)


def give_up(reason: str) -> GiveUp:
    """Return this from a task that can't succeed, however often it is tried."""
    require_text("reason", reason, REASON_LENGTH_MAX)
    return GiveUp(reason)


def _after(delay: str | timedelta) -> int:
    after_us = duration_microseconds(delay, "delay")
    if not 0 <= after_us <= AFTER_MAX_US:
        raise UsageError("delay", delay, "is out of range", "give a duration from 0s to 366d")
    return max(after_us, AFTER_MIN_US)


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The code returned."""

    result: str | None = None
    """What it returned, as JSON text; None when that can't be kept."""


SUCCEEDED = Succeeded()
"""How most attempts end; one copy serves all."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The code raised, or its process ended badly, or the other side said no."""

    error: str
    reason: Reason = Reason.ERROR
    is_retryable: bool = True
    after_us: int | None = None
    """How long the other side, or the task, asked to wait; longer than the backoff or shorter."""
    is_answered: bool = False
    """Whether whom the task calls has done its part: what is wrong lies with the caller."""
    is_undone: bool = False
    """Whether the code, or the other side, says that nothing has taken place: it may be tried again
    even where effects may not be repeated."""


@dataclass(frozen=True, slots=True)
class TimedOut:
    """It took longer than an attempt or the run may, or stopped advancing."""

    reason: Reason
    error: str | None = None


@dataclass(frozen=True, slots=True)
class GaveUp:
    """The task says that there is no point in trying again."""

    reason: Reason
    error: str


@dataclass(frozen=True, slots=True)
class Snoozed:
    """The task asked to be run later; that costs nothing of its budget."""

    after_us: int


@dataclass(frozen=True, slots=True)
class CancelledEnd:
    """Somebody asked for it to stop, and it has, or it was made to."""

    error: str | None = None


@dataclass(frozen=True, slots=True)
class ReturnedToQueue:
    """Its worker can't go on with it: it stops, or does not know the task."""

    reason: Reason
    is_started: bool
    after_us: int = 0
    error: str | None = None
    """What keeps its worker from going on with it, where that is an error."""


@dataclass(frozen=True, slots=True)
class WorkerLost:
    """Its worker is gone."""


End: TypeAlias = (
    Succeeded | Failed | TimedOut | GaveUp | Snoozed | CancelledEnd | ReturnedToQueue | WorkerLost
)


# What is made for each run that returns something is not frozen, which takes three times as long.


@dataclass(slots=True, unsafe_hash=True)
class Close:
    """The run is over, with this outcome."""

    state: RunState
    reason: str | None = None
    result: str | None = None


@dataclass(frozen=True, slots=True)
class RetryLater:
    """The run waits that long, by the store's clock, for its next attempt."""

    delay_us: int
    spacing_us: int = 0
    """Of the task's retry budget: retries of the task lie at least this far apart; 0 for none."""


@dataclass(frozen=True, slots=True)
class Requeue:
    """The run goes back to its queue at once."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """The run goes to the dead letters: a place, from which a person can bring it back."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class MarkAmbiguous:
    """What the run did is unknown. It waits for its task's check or for an operator."""

    reason: Reason


Next: TypeAlias = Close | RetryLater | Requeue | DeadLetter | MarkAmbiguous


@dataclass(slots=True, kw_only=True, unsafe_hash=True)
class Conclusion:
    """What is recorded about an attempt, and where its run goes."""

    attempt_state: AttemptState
    reason: Reason | None
    error: str | None
    is_started: bool
    is_charged: bool
    next: Next


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFacts:
    """What a conclusion is drawn from besides the end: whose attempt, and its numbers."""

    run_id: RunId
    policy: TaskPolicy
    tries: AttemptCounts
    """With this attempt counted in: its own fence and number; `charged` as before it."""
    now: int
    has_begun_effects: bool = False
    """Whether this attempt was permitted to do what can't be taken back."""

    @property
    def is_beyond_return(self) -> bool:
        """Whether what the attempt did may not be done again by itself."""
        return self.has_begun_effects and self.policy.effects is Effects.UNSAFE


def conclude(end: End, attempted: AttemptFacts) -> Conclusion:
    """Decide what becomes of a run after one attempt. Total.

    After an unsafe task's effects have begun only its code can say how it ended: by returning, or
    by asking for something. Whatever else ends the attempt leaves it in doubt, and so does an
    effect of an earlier attempt of which nobody knows.
    """
    concluded = _concluded(end, attempted)
    if concluded.reason is not Reason.EFFECT_UNKNOWN and (
        not attempted.is_beyond_return or _has_spoken(end)
    ):
        return concluded
    reason = concluded.reason or Reason.ERROR
    return replace(concluded, next=MarkAmbiguous(reason), is_charged=True)


def _has_spoken(end: End) -> bool:
    """Say whether the code itself, or whom it called, said what has become of its effects."""
    return isinstance(end, Succeeded | Snoozed | GaveUp) or (
        isinstance(end, Failed) and end.is_undone
    )


def _concluded(  # noqa: C901, PLR0911 - one case for each end
    end: End, attempted: AttemptFacts
) -> Conclusion:
    match end:
        case Succeeded():
            return success(end.result)
        case Snoozed():
            return _free(Reason.SNOOZED, _waiting(attempted, end.after_us), is_started=True)
        case ReturnedToQueue():
            back: Next = RetryLater(end.after_us) if end.after_us else Requeue()
            return _free(end.reason, back, is_started=end.is_started, error=end.error)
        case CancelledEnd():
            close = Close(RunState.CANCELLED, Reason.CANCELLED)
            return _conclusion(AttemptState.CANCELLED, Reason.CANCELLED, end.error, close)
        case GaveUp():
            close = Close(RunState.FAILED, end.reason)
            return _conclusion(AttemptState.FAILED, end.reason, end.error, close)
        case Failed() if not end.is_retryable:
            return _conclusion(AttemptState.FAILED, end.reason, end.error, DeadLetter(end.reason))
        case Failed():
            after = _again(attempted, end.after_us)
            return _conclusion(AttemptState.FAILED, end.reason, end.error, after)
        case TimedOut(reason=Reason.RUN_TIMEOUT):
            died = DeadLetter(Reason.RUN_TIMEOUT)
            return _conclusion(AttemptState.TIMED_OUT, end.reason, end.error, died)
        case TimedOut():
            return _conclusion(
                AttemptState.TIMED_OUT, end.reason, end.error, _again(attempted, None)
            )
        case WorkerLost():
            return _conclusion(AttemptState.LOST, Reason.LOST, None, _again(attempted, None))
        case _:
            assert_never(end)


def is_to_be_checked(conclusion: Conclusion) -> bool:
    """Say whether the result of a run is there to be checked: it has succeeded, or is in doubt."""
    after = conclusion.next
    is_success = isinstance(after, Close) and after.state is RunState.SUCCEEDED
    return is_success or isinstance(after, MarkAmbiguous)


def success(result: str | None) -> Conclusion:
    """Return what becomes of a run that has succeeded, whatever was tried before."""
    if result is None:
        return DONE
    close = Close(RunState.SUCCEEDED, result=result)
    return _conclusion(AttemptState.SUCCEEDED, None, None, close)


def not_begun(reason: Reason) -> Conclusion:
    """Return what becomes of a run whose claim is given back before it began."""
    return _free(reason, Requeue(), is_started=False)


def _again(attempted: AttemptFacts, after_us: int | None) -> Next:
    """Try again if the budget and the run's own time allow it."""
    charged = attempted.tries.charged + 1
    retry = attempted.policy.retry
    if charged >= retry.attempts:
        return DeadLetter(Reason.BUDGET)
    delay_us = retry.delay_us(attempted.run_id, charged) if after_us is None else after_us
    return _waiting(attempted, delay_us, retry.spacing_us)


def _waiting(attempted: AttemptFacts, delay_us: int, spacing_us: int = 0) -> Next:
    limit_us, begun_at = attempted.policy.run_timeout_us, attempted.tries.begun_at
    if limit_us is None or begun_at is None or attempted.now + delay_us < begun_at + limit_us:
        return RetryLater(delay_us, spacing_us)
    return DeadLetter(Reason.RUN_TIMEOUT)


def _conclusion(
    state: AttemptState, reason: Reason | None, error: str | None, after: Next
) -> Conclusion:
    return Conclusion(
        attempt_state=state,
        reason=reason,
        error=error,
        is_started=True,
        is_charged=True,
        next=after,
    )


def _free(reason: Reason, after: Next, *, is_started: bool, error: str | None = None) -> Conclusion:
    return Conclusion(
        attempt_state=AttemptState.GIVEN_BACK,
        reason=reason,
        error=error,
        is_started=is_started,
        is_charged=False,
        next=after,
    )


DONE = _conclusion(AttemptState.SUCCEEDED, None, None, Close(RunState.SUCCEEDED))
"""What becomes of most runs; one copy serves all."""


_OWN = frozenset(
    {
        *(Reason.ASKED, Reason.BAD_ARGUMENTS, Reason.KILLED, Reason.NO_SECRET, Reason.NOT_ALLOWED),
        *(Reason.NOT_RETRYABLE, Reason.REFUSED_ADDRESS, Reason.UNKNOWN_TASK),
    }
)
"""Reasons that have nothing to do with whom the task calls."""


def asked_wait_us(end: End) -> int | None:
    """Return how long a destination that failed asked to wait; None if it did not ask."""
    return end.after_us if isinstance(end, Failed) and is_answered(end) is False else None


def is_answered(end: End) -> bool | None:
    """Say whether a destination did its part; None when the end does not tell."""
    match end:
        case Succeeded() | Failed(is_answered=True) | GaveUp(reason=Reason.GONE):
            return True
        case Failed(is_retryable=True) if end.reason not in _OWN:
            return False
        case TimedOut(reason=Reason.TIMEOUT | Reason.STALLED):
            return False
        case _:
            return None
