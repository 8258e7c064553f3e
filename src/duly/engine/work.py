"""Work: what a worker, its executors and a task's code know of each other.

The worker is sequential and talks to the store. An executor runs code somewhere else (an event
loop, a thread, a process) and says once how it ended. The code sees its own run, and through it the
few things that it may do while it lasts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.attempts import TaskPolicy
    from duly.domain.concluding import End
    from duly.domain.literals import TaskKind
    from duly.domain.live import Live
    from duly.domain.task_limits import TaskLimits
    from duly.store.execution import ClaimedRun
    from duly.telemetry.tracing import AttemptTrace


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

    def prepare(self, claimed: ClaimedRun, live: Live) -> Callable[[], Any]:
        """Check the arguments again and return what to call; UsageError when they do not fit.

        NoSecret when a secret that they refer to can't be had on this worker. What an async task's
        call returns is to be awaited. Of a command or a webhook it returns the checked arguments by
        name.
        """
        ...


class Catalogue(Protocol):
    """The tasks whose code a worker has."""

    def find(self, name: str) -> Runnable | None:
        """Return a task by its name."""
        ...

    def names(self) -> list[str]:
        """Return all names, sorted."""
        ...


class Work(Protocol):
    """One attempt in an executor's hands."""

    claimed: ClaimedRun
    runnable: Runnable
    trace: AttemptTrace | None
    """Its span; None when nobody has asked for spans."""

    @property
    def live(self) -> Live:
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

    def start(self, work: Work) -> None:
        """Begin; call `work.began()` when the code starts, and `work.ended(…)` in the end.

        Arguments that do not fit end it with `Failed(reason=BAD_ARGUMENTS, is_retryable=False)`, a
        secret that can't be had here with `Failed(reason=NO_SECRET)`, which is tried again.
        """
        ...

    def ask(self, work: Work) -> None:
        """Ask the code to stop: cancel a coroutine, SIGTERM a process; a thread looks by itself."""
        ...

    def insist(self, work: Work) -> bool:
        """Make it stop. True when it is over or will be at once (killed); False when it can't be.

        A thread can't: it keeps its slot until the process ends.
        """
        ...

    def close(self) -> None:
        """Let go of everything; processes that were started are gone when this returns."""
        ...


@runtime_checkable
class CrowdExecutor(Executor, Protocol):
    """An executor that begins many at the price of one: waking a thread takes longer than most."""

    def start_all(self, works: Sequence[Work]) -> None:
        """Begin all of them, in this order; an error says that none of them has begun."""
        ...
