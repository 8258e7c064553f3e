"""The application in a program's hands: its tasks, its store, and everything it can order."""

from __future__ import annotations

import getpass
from contextlib import contextmanager
from copy import copy
from dataclasses import replace as replace_parts
from typing import TYPE_CHECKING, Any, Self

from duly.app.declaring import Declaring
from duly.app.employing import Employing
from duly.app.guarding import Guarding
from duly.app.speaking import Speaking
from duly.app.stores import LazyStore, chosen_url, opener, read_schema, require_store, safe_url
from duly.app.tracing import client_tracing
from duly.client import ordering
from duly.client.access import Doorkeeper
from duly.client.arguments import Payload
from duly.client.awaited import Awaited
from duly.client.caller import Caller, Traces
from duly.client.checking import Checks
from duly.client.declarations import APP_DEFAULT, Declarations
from duly.client.health import Health, judge_health
from duly.client.lending import Lending
from duly.client.ordering import Terms, read_when
from duly.client.reading import (
    read_actor,
    read_key,
    read_name,
    read_tenant,
)
from duly.client.reconciling import Reconciliation, reconcile
from duly.client.status_view import Status, look_at_status
from duly.client.task_options import TASK_NAME_LENGTH_MAX
from duly.client.tasks import AnyTask, BoundCall, Tasks, named_call
from duly.clock import SystemClock
from duly.config import Settings
from duly.domain.audit import Actor
from duly.domain.schedules import TENANT_DEFAULT
from duly.draws import SystemDraws
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import date
    from types import TracebackType
    from uuid import UUID

    from duly.app.demo_controls import DemoControls
    from duly.client.proving import Proof
    from duly.client.queues import Queue
    from duly.client.reading import Delay, Instant
    from duly.client.run_view import DelayedRun, EnqueuedRun, Run
    from duly.client.schedule_orders import Reference
    from duly.clock import Clock
    from duly.draws import Draws
    from duly.store.planning import Transaction
    from duly.store.protocol import Store
    from duly.store.schema import Migration, SchemaStatus


_API = "api"


class App(Speaking, Declaring, Employing, Guarding):
    """Tasks, and a store that keeps promises about them. Nothing is opened until it is needed."""

    def __init__(  # noqa: PLR0913 - each has a default that is right for most
        self,
        url: str | None = None,
        *,
        name: str = APP_DEFAULT,
        store: Store | None = None,
        clock: Clock | None = None,
        draws: Draws | None = None,
        tenant: str = TENANT_DEFAULT,
        actor: str | None = None,
        settings: Settings | None = None,
    ) -> None:
        """Take the store's URL ($DULY_URL, else sqlite:///duly.db), or a store; open nothing.

        `name` says which application declares a schedule; `actor` who gives its orders. Closing the
        application closes its store.
        """
        clock = clock or SystemClock()
        self.name = read_name(name)
        self._url = chosen_url(url) if store is None else store.name
        self._store = LazyStore(opener(self._url, clock) if store is None else lambda: store)
        self.url = safe_url(self._url)
        self.settings = read_settings(settings)
        self.declarations = Declarations(name)
        self.tasks = Tasks(Payload.of(self.settings))
        self._clock = clock
        self._names_store = store is None
        self.demo: DemoControls | None = None
        """What pages may do in a demo; None everywhere else."""
        self._lending = Lending(self.settings.transaction_limit)
        self._caller = Caller(
            open_store=self._store.get,
            clock=clock,
            draws=draws or SystemDraws(),
            tasks=self.tasks,
            settings=self.settings,
            lending=self._lending,
            tenant=read_tenant(tenant),
            actor=read_actor(f"{name} ({_user()})" if actor is None else actor),
            traces=Traces(client_tracing() if self.settings.traces else None),
        )
        self._act_as(self._caller)

    def _act_as(self, caller: Caller) -> None:
        """Speak as somebody, and have checks of results carried out on their store."""
        self._speak_as(caller)
        self.tasks.checks = Checks(caller)

    def acting_as(self, actor: str, source: str, tenant: str | None = None) -> Self:
        """Return this application, giving its orders under another name and from elsewhere.

        They are about its own tenant's promises, unless it is told another.
        """
        other = copy(self)
        whose = self.tenant if tenant is None else read_tenant(tenant)
        if whose != self.tenant:
            self._caller.require_operator("speak for another tenant")
        App._speak_as(other, replace_parts(self._caller, actor=actor, source=source, tenant=whose))
        return other

    def within(self, *, tenant: str, actor: str | Actor, is_confined: bool = True) -> Self:
        """Return this application as it is for one tenant, on behalf of whoever asks.

        Every call is that tenant's: of others there is nothing. What concerns all is refused,
        unless `is_confined` is false, which it can't become for one that is confined.
        """
        other = copy(self)
        by = Actor(actor, _API) if isinstance(actor, str) else actor
        caller = replace_parts(
            self._caller,
            tenant=read_tenant(tenant),
            actor=read_actor(by.name),
            source=by.source,
            address=by.address,
            credential=by.credential,
            is_confined=is_confined or self._caller.is_confined,
        )
        App._speak_as(other, caller)
        return other

    @property
    def traces(self) -> Traces:
        """Who is told of spans, here and in all copies of this application."""
        return self._caller.traces

    def doorkeeper(self, source: str = _API) -> Doorkeeper:
        """Return whoever says who comes with a token or a session, for a server to ask."""
        return Doorkeeper(self._store.get, self._clock, self._caller.draws, source)

    def rehearsing(self) -> Self:
        """Return this application for a dry run: where it has no store yet, on an empty one."""
        other = copy(self)
        if self._names_store and read_schema(self._url) is not None:
            App._do_without_store(other)
        return other

    def _do_without_store(self) -> None:
        self._store = LazyStore(opener("memory:", self._clock))
        App._speak_as(self, replace_parts(self._caller, open_store=self._store.get))

    def require_store(self, *, is_file_enough: bool = False) -> None:
        """Refuse to go on if there is no store yet: for whoever looks, and would make none."""
        if self._names_store:
            require_store(self._url, is_file_enough=is_file_enough)

    @property
    def tenant(self) -> str:
        """Whose promises it speaks about."""
        return self._caller.tenant

    @property
    def store(self) -> Store:
        """The store, opened if it was not; a tenant's own, for whoever speaks for one only."""
        return self._caller.store if self._caller.is_confined else self._store.get()

    @property
    def aio(self) -> Any:  # noqa: ANN401 - this very surface, awaited
        """The same surface, awaited: `await app.aio.enqueue(…)`."""
        return Awaited(self)

    def close(self) -> None:
        """Let go of the store; what was promised stays promised."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def call(self, task: str, arguments: Mapping[str, Any] | None = None) -> BoundCall:
        """Return a call of a task by its name, with JSON values, as commands and files have it.

        The task is one of this application, or one that another program has registered.
        """
        return self.calls([(task, {} if arguments is None else arguments)])[0]

    def calls(self, named: Iterable[tuple[str, Mapping[str, Any]]]) -> list[BoundCall]:
        """Return calls of tasks by their names, as `call` does."""
        known: list[str] | None = None
        found: list[BoundCall] = []
        for task, arguments in named:
            require_text("task", task, TASK_NAME_LENGTH_MAX)
            if known is None and self.tasks.find(task) is None:
                known = self.store.list_tasks()
            found.append(named_call(self.tasks, task, arguments, known or []))
        return found

    def prove(self, schedule: Reference, day: date | str) -> Proof:
        """Say of each occurrence on a day whether all that it was to do is done, once (E6)."""
        return self._proving.prove(schedule, day)

    def reconcile(self, *, prune: bool = False, dry_run: bool = False) -> Reconciliation:
        """Make what is stored agree with what is declared, and say what changed.

        What is no longer declared goes on, and is reported; with `prune` it is deleted. With
        `dry_run` nothing is written: the report says what would be done.
        """
        return reconcile(self._caller, self.declarations, prune=prune, dry_run=dry_run)

    def enqueue(  # noqa: PLR0913 - each term of a promise is an argument
        self,
        call: BoundCall | AnyTask,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
        connection: object | None = None,
        past: str | None = None,
        replace: bool = False,
        id: UUID | None = None,  # noqa: A002 - the promised name
    ) -> EnqueuedRun:
        """Promise a run: at once, `at` an instant, or after a `delay`; durable when this returns.

        By its `key` a pending one can be moved, cancelled or, with `replace`, replaced. The same
        `id` given again is the same order. An instant in the past is refused, unless past="run".
        """
        terms = Terms(
            when=read_when(at, delay, past),
            key=read_key(key),
            queue=queue,
            priority=priority,
            replaces=replace,
            ids=None if id is None else [id],
            connection=connection,
        )
        return ordering.enqueue(self._caller, [call], terms)[0]

    def enqueue_many(  # noqa: PLR0913 - as above
        self,
        calls: Iterable[BoundCall | AnyTask],
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        queue: str | None = None,
        priority: int | None = None,
        connection: object | None = None,
        past: str | None = None,
        ids: Sequence[UUID] | None = None,
    ) -> list[EnqueuedRun]:
        """Promise a run of each call, all or none, in one transaction.

        The same `ids`, one for each call, given again are the same order.
        """
        terms = Terms(
            when=read_when(at, delay, past),
            queue=queue,
            priority=priority,
            ids=ids,
            connection=connection,
        )
        return ordering.enqueue(self._caller, calls, terms)

    def move(  # noqa: PLR0913 - as above
        self,
        key_or_id: str | UUID,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        past: str | None = None,
        reason: str | None = None,
    ) -> DelayedRun:
        """Move a pending delayed run, by its key (a text) or its id (a UUID)."""
        return ordering.move(self._caller, key_or_id, read_when(at, delay, past), reason)

    def cancel(self, key_or_id: str | UUID, *, reason: str | None = None) -> Run:
        """Cancel a pending delayed run, by its key (a text) or its id (a UUID)."""
        return ordering.cancel(self._caller, key_or_id, reason)

    def transaction(self, limit: Delay | None = None) -> AbstractContextManager[Transaction]:
        """Lend a connection for your own tables: with `connection=` both commit, or neither.

        It is short (one second unless told): a store may have one writer only.
        """
        self._caller.require_operator("use the store's own tables")
        return self._lending.lend(self.store, limit)

    def status(self, *, with_stale: bool = True, own: bool = False) -> Status:
        """Return the state of the store on one screen: of all tenants, to who may see that.

        `own` narrows it to this application's tenant. Which schedules have no recent completion, or
        no code any more, is most of what it costs; who needs the counts alone does without.
        """
        name = self.store.name
        return look_at_status(self._caller, name, with_stale=with_stale, is_own=own)

    def health(self, found: Status | None = None, queues: Sequence[Queue] | None = None) -> Health:
        """Say in two lights, never merged, whether time is kept and whether work gets done (V4).

        By a whole status and queues that were just read, or by new ones.
        """
        status = self.status() if found is None else found
        there = self.queues.list() if queues is None else queues
        return judge_health(status, there, self.breakers.list())

    @contextmanager
    def standing_in(
        self, store: Store, clock: Clock, rest: Callable[[int], None], draws: Draws | None = None
    ) -> Iterator[None]:
        """Have another store and clock stand in for this application's own: for tests.

        What waits calls `rest` with microseconds; ids are made of `draws`, if there are some.
        Afterwards all is as it was.
        """
        caller, own_clock = self._caller, self._clock
        drawn = draws or caller.draws
        with self._store.replaced(store):
            self._clock = clock
            self._act_as(replace_parts(caller, clock=clock, rest=rest, draws=drawn))
            try:
                yield
            finally:
                self._clock = own_clock
                self._act_as(caller)

    def migrate(self, *, phase: str | None = None) -> list[Migration]:
        """Bring the store's schema up to date; return what was applied."""
        self._caller.require_operator("migrate the store")
        return self.store.migrate(phase=phase)

    def schema_status(self) -> SchemaStatus:
        """Say which migrations the store has and lacks; this makes no store."""
        found = read_schema(self._url) if self._names_store else None
        return self.store.schema_status() if found is None else found


def read_settings(settings: object) -> Settings:
    """Read an application's settings, or take the defaults."""
    if settings is None:
        return Settings()
    if not isinstance(settings, Settings):
        raise UsageError("settings", settings, "are not settings", "give duly.Settings(…)")
    return settings


def _user() -> str:
    """Return who runs this program, as far as the system says."""
    try:
        return getpass.getuser()
    except (ImportError, KeyError, OSError):
        return "unknown"
