"""Executor, Runnable, AttemptWork protocols; calls a task function with checked arguments.

The worker is sequential and talks to the store. An executor runs code elsewhere (an event loop, a
thread, a process) and reports once how it ended. The code reaches its own run, and through it the
few operations that are allowed while the run lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from duly.domain.effects import Grant
from duly.domain.enums import Effects
from duly.domain.outcomes import CancelledEnd, Failed
from duly.engine.executors.results import end_of_error, end_of_value, error_text, unprepared
from duly.engine.executors.task_output import log_for

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.enums import TaskKind
    from duly.domain.outcomes import End
    from duly.domain.runs import TaskPolicy
    from duly.domain.tasks import RunContext, TaskLimits
    from duly.store.ports.execution import ClaimedRun
    from duly.telemetry.tracing import AttemptTrace


def prepared(work: AttemptWork) -> Callable[[], Any] | End:
    """Return what to call; or how it ended, if its arguments do not fit or a secret is missing."""
    try:
        return work.runnable.prepare(work.claimed, work.live)
    except BaseException as error:  # noqa: BLE001 - whatever a task's own types raise
        return unprepared(error, work.runnable.policy, work.live)


def permitted(work: AttemptWork) -> End | None:
    """Take permission for all that a command or a webhook does, where that may not be repeated.

    It can't ask for itself: all of it is one effect. How it ended, if there is no permission;
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


def called(work: AttemptWork, finish: Callable[[Any], Any] | None = None) -> End:
    """Run a plain function to its end. Nothing that it raises goes further, not even sys.exit.

    `finish` makes a result of what the call returned, where that is only a beginning.
    """
    if work.trace is None:
        return _called(work, finish)
    with work.trace.current():
        return _called(work, finish)


def _called(work: AttemptWork, finish: Callable[[Any], Any] | None) -> End:
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


def end_of_fault(error: BaseException, work: AttemptWork) -> End:
    """Return how it ended by what its code raised, told from its own code on."""
    trace = error.__traceback__
    own = error.with_traceback(trace.tb_next) if trace and trace.tb_next else error
    return end_of_error(own, work.runnable.policy, work.live)


class Runnable(Protocol):
    """A task's code, as a worker sees it."""

    @property
    def name(self) -> str:
        """By which runs call it."""
        ...

    @property
    def kind(self) -> TaskKind:
        """How it is run."""
        ...

    @property
    def policy(self) -> TaskPolicy:
        """What its code says about its runs."""
        ...

    @property
    def limits(self) -> TaskLimits:
        """How many of its runs may go on, how often, and whom they call, by its code."""
        ...

    @property
    def plan(self) -> Any:  # noqa: ANN401 - what its own kind of executor reads
        """What an executor of its kind needs besides: an argv, an address; None for functions."""
        ...

    def prepare(self, claimed: ClaimedRun, live: RunContext) -> Callable[[], Any]:
        """Check the arguments again and return what to call; UsageError when they do not fit.

        NoSecret when a secret that they refer to can't be had on this worker. What an async task's
        call returns is to be awaited. Of a command or a webhook it returns the checked arguments by
        name.
        """
        ...


class TaskCatalogue(Protocol):
    """The tasks whose code a worker has."""

    def find(self, name: str) -> Runnable | None:
        """Return a task by its name."""
        ...

    def names(self) -> list[str]:
        """Return all names, sorted."""
        ...


class AttemptWork(Protocol):
    """One attempt in an executor's hands."""

    claimed: ClaimedRun
    runnable: Runnable
    trace: AttemptTrace | None
    """Its span; None when nobody has asked for spans."""

    @property
    def live(self) -> RunContext:
        """What its code may do while it lasts."""
        ...

    def began(self) -> None:
        """Say that the code begins now; from any thread, once.

        Raises Cancelled when it must not: it was asked to stop, or given back, before it began.
        """
        ...

    def ended(self, end: End, *, is_gone: bool = True, is_quiet: bool = False) -> None:
        """Say how it ended; from any thread. The first word counts, later ones are dropped.

        Not `is_gone`: what it ran in is still there, and keeps its slot until that is said, too.
        `is_quiet`: the worker need not hear of it at once, because somebody rings in a moment.
        """
        ...

    def ring(self) -> None:
        """Let the worker hear at once of what has ended."""
        ...


class Executor(Protocol):
    """Runs work of some kinds. None of its methods wait, and none raise for a task's faults."""

    def start(self, work: AttemptWork) -> None:
        """Begin; call `work.began()` when the code starts, and `work.ended(…)` in the end.

        Arguments that do not fit end it with `Failed(reason=BAD_ARGUMENTS, is_retryable=False)`, a
        secret that can't be had here with `Failed(reason=NO_SECRET)`, which is tried again.
        """
        ...

    def ask(self, work: AttemptWork) -> None:
        """Ask the code to stop: cancel a coroutine, SIGTERM a process; a thread looks by itself."""
        ...

    def insist(self, work: AttemptWork) -> bool:
        """Make it stop. True when it is over or will be at once (killed); False when it can't be.

        A thread can't: it keeps its slot until the process ends.
        """
        ...

    def close(self) -> None:
        """Let go of everything; processes that were started are gone when this returns."""
        ...


@runtime_checkable
class BatchExecutor(Executor, Protocol):
    """An executor that begins many at the price of one: waking a thread takes longer than most."""

    def start_all(self, works: Sequence[AttemptWork]) -> None:
        """Begin all of them, in this order; an error says that none of them has begun."""
        ...
