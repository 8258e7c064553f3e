"""What every part of a worker works with: the store, the clock, the tasks, who runs them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from duly.engine.executors.task_output import output_redactor
from duly.telemetry import has_listener

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.clock import Clock
    from duly.domain.enums import TaskKind
    from duly.engine.dispatcher.context import Node
    from duly.engine.executors.executor import Executor, Runnable, TaskCatalogue
    from duly.engine.executors.task_output import Redactor
    from duly.engine.store_clock import StoreTime
    from duly.engine.worker.exchange import BeginClaim, StoreSender
    from duly.engine.worker.settings import WorkerSettings
    from duly.entropy import RandomSource
    from duly.store.ports import Store
    from duly.telemetry import Event, Telemetry
    from duly.telemetry.tracing import Tracing


@dataclass(slots=True)
class WorkerStatistics:
    """What a worker has done since it was made."""

    claimed: int = 0
    succeeded: int = 0
    failed: int = 0
    """Attempts that failed or took too long."""
    cancelled: int = 0
    given_back: int = 0
    put_off: int = 0
    """Claims whose runs may not begin yet: they wait for a turn, a place or a destination."""
    refused: int = 0
    """Ends that the store did not accept."""
    batches: int = 0
    """How many statements ended attempts."""
    store_losses: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerContext:
    """What is given to each part, and nothing hidden beside it."""

    store: Store
    clock: Clock
    settings: WorkerSettings
    telemetry: Telemetry
    node: Node
    catalogue: TaskCatalogue
    executors: Mapping[TaskKind, Executor]
    draws: RandomSource
    ring: Callable[[], None]
    """Wakes our loop; from any thread."""
    time: StoreTime
    courier: StoreSender
    begin_claim: BeginClaim | None
    """Orders a claim whose answer is waited for later; None where that is of no use."""
    tracing: Tracing | None = None
    """Who is told of spans; None when nobody has asked for them."""
    statistics: WorkerStatistics = field(default_factory=WorkerStatistics)
    secrets: Redactor = field(default_factory=output_redactor)
    """What attempts have read: it must not be in the output of this process."""

    def runnable(self, task: str) -> Runnable | None:
        """Return a task that we can run: we have its code, and an executor of its kind."""
        found = self.catalogue.find(task)
        return found if found is not None and found.kind in self.executors else None

    def kinds(self) -> set[TaskKind]:
        """Return the kinds of the tasks that we can run."""
        known = (self.runnable(name) for name in self.catalogue.names())
        return {one.kind for one in known if one is not None}

    def executor(self, runnable: Runnable) -> Executor:
        """Return who runs a task."""
        return self.executors[runnable.kind]

    def is_listening(self, kind: type[Event]) -> bool:
        """Say whether anybody listens to events of a kind."""
        return has_listener(self.telemetry, kind)

    def emit(self, event: Event) -> None:
        """Tell about an event."""
        self.telemetry.emit(event)
