"""What an application employs: a dispatcher and workers, and its tasks as these have them."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, cast

from duly.client.catalogue import Backing, Catalogue
from duly.client.secrets import SecretSources
from duly.domain.timetable.combined import zone_of
from duly.engine.retention import RETENTION_VARIABLE, read_retention, split_terms
from duly.engine.settings import DispatcherSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.app.application import App
    from duly.app.stores import LazyStore
    from duly.app.worker_options import WorkerOptions
    from duly.client.caller import Caller
    from duly.client.declarations import Declarations
    from duly.client.lending import Lending
    from duly.client.reading import Delay
    from duly.client.tasks import Tasks
    from duly.clock import Clock
    from duly.config import Settings
    from duly.domain.runs import RunRecord
    from duly.engine.dispatcher import Dispatcher
    from duly.engine.worker import Worker
    from duly.store.dispatch import Retention, Wakeups
    from duly.store.protocol import Store
    from duly.telemetry import Telemetry


class Employing:
    """A part of `duly.App`."""

    settings: Settings
    tasks: Tasks
    declarations: Declarations
    _caller: Caller
    _clock: Clock
    _store: LazyStore
    _lending: Lending

    if TYPE_CHECKING:

        @property
        def store(self) -> Store:
            """The store."""
            ...

    @property
    def retention(self) -> Retention:
        """How long history is kept, as the settings say, and $DULY_RETENTION over them (D6)."""
        said = split_terms(os.environ.get(RETENTION_VARIABLE, ""))
        return read_retention((*self.settings.retention, *said))

    def dispatcher(
        self,
        settings: DispatcherSettings | None = None,
        telemetry: Telemetry | None = None,
        *,
        wake_address: str = "",
    ) -> Dispatcher:
        """Return a dispatcher on this application's store, not yet started.

        An `engine.loop.Loop` runs it; `duly dispatcher` does just that.
        """
        from duly.engine.dispatcher import Dispatcher
        from duly.engine.surroundings import Node
        from duly.store.dispatch import FiresAhead

        self._caller.require_operator("run a dispatcher")
        if settings is None:
            settings = DispatcherSettings(retention=self.retention)
        node = Node(host=socket.gethostname(), process=os.getpid(), wake_address=wake_address)
        tracing = self._caller.traces.tracing
        store = self.store
        return Dispatcher(
            store,
            self._clock,
            settings,
            telemetry=telemetry,
            node=node,
            begin_fire=store.begin_fire if isinstance(store, FiresAhead) else None,
            tracing=tracing,
        )

    def worker(
        self,
        options: WorkerOptions | None = None,
        telemetry: Telemetry | None = None,
        *,
        wakeups: Wakeups | None = None,
    ) -> Worker:
        """Return a worker of this application's tasks, not yet started.

        An `engine.loop.Loop` runs it; `duly worker` does just that.
        """
        from duly.app.running import make_worker

        self._caller.require_operator("run a worker")
        return make_worker(cast("App", self), options, telemetry, wakeups=wakeups)

    def run(  # noqa: PLR0913 - each has a default that is right for most
        self,
        *,
        slots: int = 10,
        queues: Sequence[str] | None = None,
        processes: int = 1,
        grace: Delay = "30s",
        allow_commands: bool | Sequence[str] | None = None,
        allow_addresses: Sequence[str] = (),
    ) -> int:
        """Run a dispatcher, supervised workers and the console until Ctrl-C; return its status.

        What is declared is reconciled first. `queues` are names, or such as "reports=2"; commands
        are run only if allowed: all of them, or those of the tasks named.
        """
        from duly.app.running import run_app
        from duly.app.worker_options import WorkerOptions

        self._caller.require_operator("run a dispatcher and workers")
        options = WorkerOptions(
            slots=slots,
            queues=queues,
            processes=processes,
            grace=grace,
            allow_commands=allow_commands,
            allow_addresses=allow_addresses,
        )
        return run_app(cast("App", self), options)

    def catalogue(self) -> Catalogue:
        """Return this application's tasks as a worker runs them; this opens no store."""
        return Catalogue(
            self.tasks, Backing(self._zone_of, self.secret_sources().read, self._lending)
        )

    def secret_sources(self) -> SecretSources:
        """Say from where the secrets of arguments may be read, by this application's settings."""
        settings = self.settings
        return SecretSources(settings.secret_environment, settings.secret_directories)

    def _zone_of(self, record: RunRecord) -> str | None:
        """Return the zone that a run's label is written in, as far as it can be known here.

        A process that executes a task has no store; it knows what its own code declares.
        """
        store, of, number = self._store.opened(), record.schedule_id, record.definition_number
        if of is None or number is None:
            return None
        if store is None:
            declared = self.declarations.by_name().get(record.schedule_name or "")
            return None if declared is None else zone_of(declared.timetable)
        found = store.get_definition(of, number)
        return None if found is None else zone_of(found.timetable)
