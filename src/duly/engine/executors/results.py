"""Ends: from what a task's code returned or raised to how its attempt ended.

No function here raises, whatever a task's objects do when they are read: every attempt gets an
end.

Secrets are hidden later, at one place through which all ends pass. Errors are shortened only after
that, because half a secret would no longer be recognised.
"""

from __future__ import annotations

import json
from asyncio import CancelledError
from dataclasses import replace
from traceback import TracebackException
from typing import TYPE_CHECKING, Any

from duly.domain.outcomes import (
    AFTER_MAX_US,
    AFTER_MIN_US,
    SUCCEEDED,
    CancelledEnd,
    Failed,
    GaveUp,
    GiveUp,
    ReturnedToQueue,
    Snooze,
    Snoozed,
    Succeeded,
    TimedOut,
    TryAgain,
)
from duly.domain.policies import leaves_of
from duly.domain.runs import ERROR_LENGTH_MAX, LINE_LENGTH_MAX, RESULT_BYTES_MAX, Reason
from duly.errors import Cancelled, EffectDone, EffectNotDone, EffectUnknown, NoSecret, UsageError

if TYPE_CHECKING:
    from duly.domain.outcomes import End
    from duly.domain.runs import TaskPolicy
    from duly.domain.tasks import RunContext

FRAMES_MAX = 60
_SAID_LENGTH_MAX = 500
_SECOND_US = 1_000_000
_LEFT_OUT = "\n… {count:,} characters are left out …\n"
_MARK = "�"
_ANSWERS = (Snooze, TryAgain, GiveUp)
# Made once: json.dumps makes one for each call that wants anything but its own defaults.
_RESULTS = json.JSONEncoder(
    ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
)


def end_of_value(value: object, live: RunContext) -> End:
    """Return how an attempt ended whose code returned a value."""
    if value is None:
        return SUCCEEDED
    # By its type alone: what a proxy says about its class is code of the task's, which may raise.
    if not issubclass(type(value), _ANSWERS):
        return Succeeded(_result_of(value, live))
    match value:
        case Snooze(after_us=after_us):
            return Snoozed(after_us)
        case TryAgain(after_us=after_us, reason=reason):
            return Failed(storable(reason), Reason.ASKED, after_us=after_us, is_undone=True)
        case GiveUp(reason=reason):
            return GaveUp(Reason.GAVE_UP, storable(reason))
        case _:  # it says that it is of another class than it is
            return Succeeded(_result_of(value, live))


def end_of_error(error: BaseException, policy: TaskPolicy, live: RunContext) -> End:
    """Return how an attempt ended whose code raised; whatever that was, it is the task's fault.

    An exception that has an attribute `retry_after`, in seconds, says how long to wait: at least
    one, or a budget would be gone in a moment.
    """
    if issubclass(type(error), (Cancelled, CancelledError)) and live.is_cancelled:
        return CancelledEnd(error_text(error))
    text = error_text(error)
    kinds = [type(leaf) for leaf in leaves_of(error)]
    if any(issubclass(kind, EffectUnknown) for kind in kinds):
        return Failed(text, Reason.EFFECT_UNKNOWN, is_retryable=False)
    if any(issubclass(kind, EffectDone) for kind in kinds):
        # What is done stays done: every attempt would come to it, and end there.
        return Failed(text, Reason.EFFECT_DONE, is_retryable=False)
    is_undone = all(issubclass(kind, EffectNotDone) for kind in kinds)
    if not policy.retry.is_worth(error):
        return Failed(text, Reason.NOT_RETRYABLE, is_retryable=False, is_undone=is_undone)
    after_us = _retry_after_us(error)
    reason = Reason.ERROR if after_us is None else Reason.RETRY_AFTER
    return Failed(text, reason, after_us=after_us, is_undone=is_undone)


def unfit(error: BaseException) -> End:
    """Return how an attempt ended whose arguments do not fit its task: trying again is no use."""
    return Failed(storable(_said(error)), Reason.BAD_ARGUMENTS, is_retryable=False)


def unprepared(error: BaseException, policy: TaskPolicy, live: RunContext) -> End:
    """Return how an attempt ended that could not be prepared.

    A secret that can't be had here may be there on another worker, or in a moment: whatever the
    task says about errors of its own, that is tried again.
    """
    if isinstance(error, NoSecret):
        return Failed(storable(str(error)), Reason.NO_SECRET)
    return unfit(error) if isinstance(error, UsageError) else end_of_error(error, policy, live)


def fitted(end: End) -> End:
    """Return an end that every store can hold, whoever has told it; secrets are left out before."""
    if isinstance(end, Succeeded):
        return _fitted_success(end)
    match end:
        case Failed():
            error, after_us = bounded(storable(end.error)), end.after_us
            waits = None if after_us is None else fitted_wait(after_us)
            return replace(end, error=error, after_us=waits)
        case Snoozed():
            return Snoozed(fitted_wait(end.after_us))
        case GaveUp():
            return replace(end, error=bounded(storable(end.error)))
        case (
            TimedOut(error=str(error))
            | CancelledEnd(error=str(error))
            | ReturnedToQueue(error=str(error))
        ):
            return replace(end, error=bounded(storable(error)))
        case _:
            return end


def _is_plain(text: str) -> bool:
    """Say at a glance whether every store can hold a text as it is, as most are."""
    return text.isascii() and "\x00" not in text


def _fitted_success(end: Succeeded) -> Succeeded:
    result = end.result
    if result is None or (len(result) <= RESULT_BYTES_MAX and _is_plain(result)):
        return end
    is_fit = len(result.encode("utf-8", "replace")) <= RESULT_BYTES_MAX
    return Succeeded(storable(result) if is_fit else None)


def fitted_wait(after_us: int) -> int:
    """Return how long a run waits that is asked to: not at once, and not for ever."""
    return max(AFTER_MIN_US, min(after_us, AFTER_MAX_US))


def error_text(error: BaseException) -> str:
    """Return an exception as text: the end of its traceback, its class and what it says."""
    try:
        told = TracebackException.from_exception(error, limit=-FRAMES_MAX)
        text = "".join(told.format())
    except BaseException:  # noqa: BLE001 - an exception's own code may do anything
        text = _said(error)
    return storable(text.rstrip("\n"))


def bounded(text: str) -> str:
    """Shorten an error's text in its middle: where it began and how it ended tell most."""
    if len(text) <= ERROR_LENGTH_MAX:
        return text
    note = _LEFT_OUT.format(count=len(text) - ERROR_LENGTH_MAX)
    kept = ERROR_LENGTH_MAX - len(note)
    head = kept // 4
    return text[:head] + note + text[head - kept :]


def bounded_line(text: str) -> str:
    """Shorten a line of a run's log at its end."""
    return text if len(text) <= LINE_LENGTH_MAX else f"{text[: LINE_LENGTH_MAX - 1]}…"


def storable(text: str) -> str:
    """Return a text that every store can hold: no NUL, no halves of characters."""
    if _is_plain(text):
        return text
    whole = text.replace("\x00", _MARK)
    try:
        whole.encode()
    except UnicodeEncodeError:
        return whole.encode("utf-8", "replace").decode()
    return whole


def _result_of(value: object, live: RunContext) -> str | None:
    """Return a value as JSON text within its bound; else say in the log that it is not kept."""
    if value is None:
        return None
    try:
        text = _canonical(value)
        size = len(text) if text.isascii() else len(text.encode())
    except BaseException as error:  # noqa: BLE001 - as above, and JSON's own refusals
        said = live.hide(_said(error))[:_SAID_LENGTH_MAX]
        live.write("warning", f"the result is not kept: it is not JSON ({said})")
        return None
    if size > RESULT_BYTES_MAX:
        problem = f"it has {size:,} bytes, and at most {RESULT_BYTES_MAX:,} are kept"
        live.write("warning", f"the result is not kept: {problem}")
        return None
    return text


def _canonical(value: Any) -> str:  # noqa: ANN401 - whatever a task returns
    # A whole number is written alike, and the encoder makes half of itself anew for each.
    return str(value) if type(value) is int else storable(_RESULTS.encode(value))


def _retry_after_us(error: BaseException) -> int | None:
    """Return how long an exception asks to wait; of a group, the longest that one of it asks."""
    asked = [_asked_us(one) for one in (error, *leaves_of(error))]
    return max((after_us for after_us in asked if after_us is not None), default=None)


def _asked_us(error: BaseException) -> int | None:
    try:
        seconds = getattr(error, "retry_after", None)
        total = getattr(seconds, "total_seconds", None)
        after_us = round(float(total() if callable(total) else seconds) * _SECOND_US)  # type: ignore[arg-type]
    except BaseException:  # noqa: BLE001 - whatever is there is not a number of seconds
        return None
    return fitted_wait(after_us) if after_us >= 0 else None


def _said(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except BaseException:  # noqa: BLE001 - as above
        return name
