"""The catalogue: an application's tasks as a worker runs them, arguments read into their types."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.client.awaited import in_thread
from duly.client.effects import begin_all
from duly.client.run_view import run_view
from duly.domain.identity import identity_text
from duly.domain.literals import Effects, TaskKind
from duly.domain.secrets import SecretReference

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.client.lending import Lending
    from duly.client.run_view import Run
    from duly.client.tasks import AnyTask, Tasks
    from duly.domain.attempts import TaskPolicy
    from duly.domain.live import Live
    from duly.domain.runs import RunRecord
    from duly.domain.secrets import ReadSecret, Secret
    from duly.domain.task_limits import TaskLimits
    from duly.store.execution import ClaimedRun

    ZoneOf = Callable[[RunRecord], str | None]

_ARGUMENTS_ALONE = (TaskKind.COMMAND, TaskKind.WEBHOOK)


@dataclass(frozen=True, slots=True)
class Backing:
    """What a run needs to be shown, its secrets to be read, and orders to join its transaction."""

    zone_of: ZoneOf
    """Which zone a run's label is written in."""
    read_secret: ReadSecret
    lending: Lending
    """Which transactions are open that orders may join."""


class Catalogue:
    """The tasks of one application, for its workers."""

    def __init__(self, tasks: Tasks, backing: Backing) -> None:
        self._tasks = tasks
        self._backing = backing
        self._found: dict[str, RunnableTask] = {}

    def find(self, name: str) -> RunnableTask | None:
        """Return a task by its name."""
        found = self._found.get(name)
        if found is None:
            task = self._tasks.find(name)
            if task is not None:
                self._found[name] = found = RunnableTask(task, self._backing)
        return found

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return self._tasks.names()


class RunnableTask:
    """A task's code, as a worker sees it."""

    def __init__(self, task: AnyTask, backing: Backing) -> None:
        self._task = task
        self._function = task.__wrapped__
        self._backing = backing
        # Looked at for every run, and never changed.
        self.name: str = task.name
        self.kind: TaskKind = task.kind
        self.policy: TaskPolicy = task.policy
        self.limits: TaskLimits = task.limits
        self.plan: Any = task.terms.plan
        self._takes_arguments_alone = task.kind in _ARGUMENTS_ALONE
        is_unsafe = self.policy.effects is Effects.UNSAFE
        self._is_one_effect = is_unsafe and not task.signature.run_names
        """Whether all of it is one effect: it may not be repeated, and can't ask for itself."""
        self._is_plain = False
        """Whether it is known that its code takes what is stored and nothing else."""

    def prepare(self, claimed: ClaimedRun, live: Live) -> Callable[[], Any]:
        """Check the arguments again and return what to call; UsageError when they do not fit.

        Of a command or a webhook, calling it gives the checked arguments by name, as JSON values.
        """
        signature, stored = self._task.signature, claimed.arguments
        arguments = signature.read(stored)
        if self._is_plain or self._is_found_plain():
            return partial(self._function, **arguments) if arguments else self._function
        if self._takes_arguments_alone:
            given = signature.defaults() | signature.read_json(stored)
            return lambda: given
        for name, value in arguments.items():
            if isinstance(value, SecretReference):
                arguments[name] = self._secret(name, value, live)
        names = signature.run_names
        if names:
            run = self._run(claimed, live)
            arguments |= dict.fromkeys(names, run)
        call = partial(self._task, **arguments) if arguments else self._task
        return self._as_one_effect(call, claimed, live) if self._is_one_effect else call

    def _is_found_plain(self) -> bool:
        """Look whether it is plain; what was found to be so stays so."""
        is_other = self._takes_arguments_alone or self._is_one_effect
        self._is_plain = self._task.signature.is_plain and not is_other
        return self._is_plain

    def _as_one_effect(
        self, call: Callable[[], Any], claimed: ClaimedRun, live: Live
    ) -> Callable[[], Any]:
        """Return a call that takes permission first, for code that has no run to ask it of."""
        label = identity_text(claimed.run_id)

        def permitted() -> Any:  # noqa: ANN401 - whatever the task returns
            begin_all(live, label)
            return call()

        async def permitted_awaited() -> Any:  # noqa: ANN401 - as above
            await in_thread(begin_all, live, label)
            return await call()

        return permitted_awaited if self.kind is TaskKind.ASYNC else permitted

    def _secret(self, name: str, reference: SecretReference, live: Live) -> Secret:
        secret = self._backing.read_secret(reference, f"{self.name}({name})")
        for shape in secret.shapes():
            live.conceal(shape)
        return secret

    def _run(self, claimed: ClaimedRun, live: Live) -> Run:
        record = replace(claimed.record, tries=claimed.tries, claimed_at=claimed.claimed_at)
        shown = run_view(record, self._backing.zone_of(record))
        return replace(shown, live=live, lending=self._backing.lending)
