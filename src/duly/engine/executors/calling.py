"""Calling: runs a task's function where one stands, from its checked arguments to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.concluding import CancelledEnd, Failed
from duly.domain.effects import Grant
from duly.domain.literals import Effects
from duly.engine.ends import end_of_error, end_of_value, error_text, unprepared
from duly.engine.executors.task_logging import log_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.concluding import End
    from duly.engine.work import Work


def prepared(work: Work) -> Callable[[], Any] | End:
    """Return what to call; or how it ended, if its arguments do not fit or a secret is missing."""
    try:
        return work.runnable.prepare(work.claimed, work.live)
    except BaseException as error:  # noqa: BLE001 - whatever a task's own types raise
        return unprepared(error, work.runnable.policy, work.live)


def permitted(work: Work) -> End | None:
    """Take permission for all that a command or a webhook does, where that may not be repeated.

    It can't ask for itself: all of it is one effect (E2). How it ended, if there is no permission;
    nothing has happened then.
    """
    if work.runnable.policy.effects is not Effects.UNSAFE:
        return None
    match work.live.begin_effect(None).grant:
        case Grant.GRANTED:
            return None
        case Grant.STOPPING:
            return CancelledEnd()
        case Grant.TOO_LATE:
            return Failed("it was not begun: the attempt's time is all but up", is_undone=True)
        case _:
            return Failed("it was not begun: the run was taken from this worker", is_undone=True)


def called(work: Work, finish: Callable[[Any], Any] | None = None) -> End:
    """Run a plain function to its end. Nothing that it raises goes further, not even sys.exit.

    `finish` makes a result of what the call returned, where that is only a beginning.
    """
    if work.trace is None:
        return _called(work, finish)
    with work.trace.current():
        return _called(work, finish)


def _called(work: Work, finish: Callable[[Any], Any] | None) -> End:
    log_for(work)
    call = prepared(work)
    if not callable(call):
        return call
    try:
        work.began()
        value = call() if finish is None else finish(call())
    except BaseException as error:  # noqa: BLE001 - a task's fault is never the executor's
        return end_of_fault(error, work)
    return end_of_value(value, work.live)


def carried_out(carry_out: Callable[[], End]) -> End:
    """Return how it ended, whatever happens on the way: an end never said costs a slot for good."""
    try:
        return carry_out()
    except BaseException as error:  # noqa: BLE001 - also a defect of our own is an end
        return Failed(error_text(error))


def end_of_fault(error: BaseException, work: Work) -> End:
    """Return how it ended by what its code raised, told from its own code on."""
    trace = error.__traceback__
    own = error.with_traceback(trace.tb_next) if trace and trace.tb_next else error
    return end_of_error(own, work.runnable.policy, work.live)
