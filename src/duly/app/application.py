"""`duly.App`: tasks, declared schedules, access to a store, and what runs them.

`App` is composed of `Declaring` (what code declares while it is loaded), `Employing` (dispatcher,
worker, `run`), `Guarding` (grants of access, integrity checks) and `CallerParts` (the parts
bound to one caller).

`PermittedTasks` hides commands that this worker may not run. The worker treats such a task as
unknown, so its runs are left to a worker that may run it, as are runs whose code the worker lacks.
"""

from __future__ import annotations

import getpass
import os
import socket
from contextlib import contextmanager
from copy import copy
from dataclasses import replace as replace_parts
from importlib import import_module
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    NamedTuple,
    ParamSpec,
    Self,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from duly.app.stores import (
    LazyStore,
    chosen_url,
    is_same_store,
    opener,
    read_schema,
    require_store,
    safe_url,
)
from duly.app.tracing import client_tracing
from duly.client import enqueue
from duly.client.arguments import Payload, Signature
from duly.client.caller import Awaited, Caller, TracingHolder, joins
from duly.client.declarations import (
    APP_DEFAULT,
    Declarations,
    Reconciliation,
    code_declaration,
    reconcile,
)
from duly.client.enqueue import EnqueueOptions, read_when
from duly.client.parameters import read_actor, read_key, read_name, read_tenant
from duly.client.run_context import LentConnections, SecretSources
from duly.client.tasks import (
    TASK_NAME_LENGTH_MAX,
    AnyTask,
    BoundCall,
    CommandOptions,
    FunctionOptions,
    Task,
    TaskImplementation,
    TaskMaker,
    TaskRegistry,
    Tasks,
    TaskTerms,
    WebhookOptions,
    command_terms,
    declared_call,
    named_call,
    parameters_of,
    webhook_terms,
)
from duly.clock import SystemClock
from duly.config import Settings
from duly.domain.audit import Actor
from duly.domain.enums import TaskKind
from duly.domain.schedules import TENANT_DEFAULT
from duly.domain.tasks import placeholders
from duly.engine.dispatcher.settings import (
    CATCH_UP_VARIABLE,
    RETENTION_VARIABLE,
    DispatcherSettings,
    read_catch_up,
    read_retention,
    split_terms,
)
from duly.entropy import SystemDraws
from duly.errors import UsageError, read_text, require_text
from duly.store.ports.auth import KeepsTenants
from duly.timetable.combinators import zone_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import date
    from pathlib import Path
    from types import TracebackType
    from uuid import UUID

    from duly.app.demo_controls import DemoControls
    from duly.app.services import WorkerOptions
    from duly.client.access import TokenAuthenticator, Tokens
    from duly.client.alerts import Alerts
    from duly.client.audit import Audit, Events
    from duly.client.backfills import Backfills
    from duly.client.export import Exporter
    from duly.client.inbox import Inbox
    from duly.client.limits import Breakers, Limits, Owners, Queue, Queues, Quotas, Workers
    from duly.client.parameters import Delay, Instant
    from duly.client.run_view import DelayedRun, EnqueuedRun, Run
    from duly.client.runs import Attempts, DelayedRuns, Runs
    from duly.client.schedule_orders import Reference
    from duly.client.schedules import Schedules
    from duly.client.selections import ScheduleSelections, Selections
    from duly.client.status import Health, Status
    from duly.client.vitals import Proof, Proving, Vitals
    from duly.clock import Clock
    from duly.domain.alert_channels import ChannelConfig
    from duly.domain.runs import RunRecord
    from duly.engine.dispatcher.dispatcher import Dispatcher
    from duly.engine.executors.executor import Runnable, TaskCatalogue
    from duly.engine.worker import Worker
    from duly.entropy import RandomSource
    from duly.store.ports.dispatch import Wakeups
    from duly.store.ports.maintenance import IntegrityFinding, Migration, Retention, SchemaStatus
    from duly.store.ports.schedules import Transaction
    from duly.store.ports.store import Store
    from duly.telemetry import Telemetry
    from duly.timetable.timetable import Timetable


P = ParamSpec("P")
R = TypeVar("R")
AnyTaskType = TypeVar("AnyTaskType", bound=AnyTask)


class Declaring:
    """The part of an application that its code speaks to while it is loaded; nothing is stored."""

    tasks: Tasks
    declarations: Declarations

    @overload
    def task(
        self, function: Callable[Concatenate[Run, P], R], /
    ) -> Task[Concatenate[Run, P], P, R]: ...
    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, P, R]: ...
    @overload
    def task(self, function: None = None, /, **options: Unpack[FunctionOptions]) -> TaskMaker: ...

    def task(self, function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
        """Make a function a task: `@app.task`, or `@app.task(queue=…, retry=…, timeout=…)`.

        Options: name, queue, priority, preset, retry, timeout, run_timeout, stall, effects, kind,
        memory; and what holds for the whole fleet: running, running_by, rate, destination.
        """
        maker = TaskMaker(self.tasks, options)
        return maker if function is None else maker(function)

    def command(
        self, name: str, argv: Sequence[str], **options: Unpack[CommandOptions]
    ) -> Task[..., ..., None]:
        """Declare a task that runs a program, without a shell: ["pg_dump", "{database}"].

        What stands in braces are its parameters: texts, unless `parameters` says otherwise, as a
        map of names to types or as a function with that signature. Workers run commands only when
        they are told to.
        """
        parameters = options.get("parameters")
        if parameters is None:
            terms = command_terms(name, argv, options, None)
            named: Any = dict.fromkeys(placeholders(terms.plan), str)
            return self._declared(terms, named)
        function = parameters_of(name, parameters)
        known = frozenset(Signature(str(name), function).types)
        return self._declared(command_terms(name, argv, options, known), function)

    def webhook(
        self, name: str, url: str, **options: Unpack[WebhookOptions]
    ) -> Task[..., ..., None]:
        """Declare a task that calls an address, signed with `secret`.

        `parameters` says what its calls take, as for commands; they are sent as JSON.
        """
        parameters = options.get("parameters")
        terms = webhook_terms(name, url, options)
        return self._declared(terms, {} if parameters is None else parameters)

    def _declared(self, terms: TaskTerms, parameters: object) -> AnyTask:
        return self.tasks.add(parameters_of(terms.name, parameters), terms)

    def schedule(
        self,
        timetable: Timetable,
        *,
        name: str | None = None,
        **policies: Any,  # noqa: ANN401 - as `create` has them
    ) -> Callable[[AnyTaskType], AnyTaskType]:
        """Declare a schedule of the task below: `@app.schedule(…)` above `@app.task`.

        Policies are those of `app.schedules.create`; `arguments` or `call` gives a task what it
        takes. Nothing is stored before `app.reconcile()`.
        """

        def declare(task: AnyTaskType) -> AnyTaskType:
            call = declared_call(task, policies)
            options = {key: policies[key] for key in policies if key not in ("call", "arguments")}
            said = timetable, options
            chosen = call.task if name is None else name
            self.declarations.add(code_declaration(self.declarations.code, chosen, call, said))
            return task

        return declare

    def declare(self, path: str | Path) -> list[str]:
        """Declare the schedules of a TOML file; return their names.

        Nothing is stored before `app.reconcile()`.
        """
        return self.declarations.add_file(path)


class Employing:
    """A part of `duly.App`."""

    settings: Settings
    tasks: Tasks
    declarations: Declarations
    _caller: Caller
    _clock: Clock
    _store: LazyStore
    _lending: LentConnections

    if TYPE_CHECKING:

        @property
        def store(self) -> Store:
            """The store."""
            ...

    @property
    def retention(self) -> Retention:
        """How long history is kept, as the settings say, and $DULY_RETENTION over them."""
        said = split_terms(os.environ.get(RETENTION_VARIABLE, ""))
        return read_retention((*self.settings.retention, *said))

    @property
    def catch_up_per_second(self) -> int | None:
        """How many missed occurrences are made up for, as the environment or the settings say."""
        said = os.environ.get(CATCH_UP_VARIABLE, "").strip()
        return read_catch_up(said) if said else self.settings.catch_up_per_second

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
        from duly.engine.dispatcher.context import Node
        from duly.engine.dispatcher.dispatcher import Dispatcher
        from duly.store.ports.dispatch import PipelinedFires

        self._caller.require_operator("run a dispatcher")
        if settings is None:
            rate = self.catch_up_per_second
            settings = DispatcherSettings(retention=self.retention, catch_up_per_second=rate)
        node = Node(host=socket.gethostname(), process=os.getpid(), wake_address=wake_address)
        tracing = self._caller.traces.tracing
        store = self.store
        return Dispatcher(
            store,
            self._clock,
            settings,
            telemetry=telemetry,
            node=node,
            begin_fire=store.begin_fire if isinstance(store, PipelinedFires) else None,
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
        from duly.app.services import make_worker

        self._caller.require_operator("run a worker")
        return make_worker(cast("App", self), options, telemetry, wakeups=wakeups)

    def run(  # noqa: PLR0913 - each has a default that is right for most
        self,
        *,
        slots: int | None = None,
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
        from duly.app.services import WorkerOptions, run_app

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

    def catalogue(self) -> TaskRegistry:
        """Return this application's tasks as a worker runs them; this opens no store."""
        return TaskRegistry(
            self.tasks, TaskImplementation(self._zone_of, self.secret_sources().read, self._lending)
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


ROLE_LENGTH_MAX = 63


class Guarding:
    """A part of `duly.App`."""

    _caller: Caller

    if TYPE_CHECKING:

        @property
        def store(self) -> Store:
            """The store."""
            ...

    def grant_access(self, role: str, *, undo: bool = False, dry_run: bool = False) -> list[str]:
        """Give a role of PostgreSQL what `duly server` needs, for one tenant at a time.

        Return the statements. With `undo` its rights are taken back; with `dry_run` nothing is run.
        """
        self._caller.require_operator("grant access")
        require_text("role", role, ROLE_LENGTH_MAX)
        store = self.store
        if not isinstance(store, KeepsTenants):
            problem = f"has no meaning here: {store.name} knows no roles"
            raise UsageError("role", role, problem, "use a store on PostgreSQL")
        return store.grant_access(role, is_undone=undo, is_dry=dry_run)

    def check(self) -> list[IntegrityFinding]:
        """Look for what must never be in the store."""
        self._caller.require_all_tenants("look for what must never be")
        return self.store.check()


class PermittedTasks:
    """A catalogue without the commands that are not allowed here."""

    def __init__(self, catalogue: TaskCatalogue, commands: frozenset[str] | None) -> None:
        """Allow the commands of these tasks; None for all of them."""
        self._catalogue = catalogue
        self._commands = commands

    def find(self, name: str) -> Runnable | None:
        """Return a task by its name, if it may be run here."""
        found = self._catalogue.find(name)
        if found is None or found.kind is not TaskKind.COMMAND or self._commands is None:
            return found
        return found if name in self._commands else None

    def names(self) -> list[str]:
        """Return the names of those that may be run here, sorted."""
        return [name for name in self._catalogue.names() if self.find(name) is not None]

    def left_out(self) -> list[str]:
        """Return the names of those that may not."""
        return [name for name in self._catalogue.names() if self.find(name) is None]


class Part(NamedTuple):
    """A part of an application: its class, and which others it works with beside the caller."""

    module: str
    name: str
    beside: tuple[str, ...] = ()


PARTS = {
    "alerts": Part("duly.client.alerts", "Alerts", ("_try_channel",)),
    "attempts": Part("duly.client.runs", "Attempts"),
    "audit": Part("duly.client.audit", "Audit"),
    "backfills": Part("duly.client.backfills", "Backfills"),
    "breakers": Part("duly.client.limits", "Breakers"),
    "delayed": Part("duly.client.runs", "DelayedRuns"),
    "events": Part("duly.client.audit", "Events"),
    "inbox": Part("duly.client.inbox", "Inbox", ("runs",)),
    "limits": Part("duly.client.limits", "Limits"),
    "owners": Part("duly.client.limits", "Owners"),
    "promises": Part("duly.client.export", "Exporter"),
    "_proving": Part("duly.client.vitals", "Proving", ("runs",)),
    "queues": Part("duly.client.limits", "Queues"),
    "quotas": Part("duly.client.limits", "Quotas"),
    "runs": Part("duly.client.runs", "Runs"),
    "schedule_selections": Part("duly.client.selections", "ScheduleSelections", ("schedules",)),
    "schedules": Part("duly.client.schedules", "Schedules"),
    "selections": Part("duly.client.selections", "Selections", ("runs",)),
    "tokens": Part("duly.client.access", "Tokens"),
    "vitals": Part("duly.client.vitals", "Vitals"),
    "workers": Part("duly.client.limits", "Workers"),
}


class CallerParts:
    """The parts of an application that act for its caller.

    Each is imported when it is first asked for: a command needs two or three of them.
    """

    _caller: Caller
    alerts: Alerts
    attempts: Attempts
    audit: Audit
    backfills: Backfills
    breakers: Breakers
    delayed: DelayedRuns
    events: Events
    inbox: Inbox
    limits: Limits
    owners: Owners
    promises: Exporter
    _proving: Proving
    queues: Queues
    quotas: Quotas
    runs: Runs
    schedule_selections: ScheduleSelections
    schedules: Schedules
    selections: Selections
    tokens: Tokens
    vitals: Vitals
    workers: Workers

    def _bind_caller(self, caller: Caller) -> None:
        """Act for a caller; what is shared with other copies of this application stays."""
        self._caller = caller
        for name in PARTS:
            vars(self).pop(name, None)  # it acted for another one

    if not TYPE_CHECKING:  # else whatever is asked for would be there

        def __getattr__(self, name: str) -> object:
            """Make a part, for this caller."""
            part = PARTS.get(name)
            if part is None:
                raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
            beside = [getattr(self, one) for one in part.beside]
            made = getattr(import_module(part.module), part.name)(self._caller, *beside)
            return vars(self).setdefault(name, made)

    def _try_channel(self, config: ChannelConfig, notice: UUID) -> tuple[bool, str]:
        from duly.app.services import try_channel

        return try_channel(cast("App", self), config, notice)


_API = "api"


class App(CallerParts, Declaring, Employing, Guarding):
    """Tasks, and a store that keeps promises about them. Nothing is opened until it is needed."""

    def __init__(  # noqa: PLR0913 - each has a default that is right for most
        self,
        url: str | None = None,
        *,
        name: str = APP_DEFAULT,
        store: Store | None = None,
        clock: Clock | None = None,
        draws: RandomSource | None = None,
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
        self._lending = LentConnections(self.settings.transaction_limit)
        self._caller = Caller(
            open_store=self._store.get,
            clock=clock,
            draws=draws or SystemDraws(),
            tasks=self.tasks,
            settings=self.settings,
            lending=self._lending,
            tenant=read_tenant(tenant),
            actor=read_actor(f"{name} ({_user()})" if actor is None else actor),
            traces=TracingHolder(client_tracing() if self.settings.traces else None),
        )
        self._act_as(self._caller)

    def _act_as(self, caller: Caller) -> None:
        """Speak as somebody, and have checks of results carried out on their store."""
        self._bind_caller(caller)
        self.tasks.check_for(caller)

    def acting_as(
        self, actor: str, source: str, tenant: str | None = None, *, is_operator: bool = False
    ) -> Self:
        """Return this application, giving its orders under another name and from elsewhere.

        They are about its own tenant's promises, unless it is told another. An operator's orders
        are not bounded by the default quota of end users.
        """
        other = copy(self)
        whose = self.tenant if tenant is None else read_tenant(tenant)
        if whose != self.tenant:
            self._caller.require_operator("speak for another tenant")
        caller = replace_parts(
            self._caller, actor=actor, source=source, tenant=whose, is_operator=is_operator
        )
        App._bind_caller(other, caller)
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
            is_operator=by.is_operator,
            is_confined=is_confined or self._caller.is_confined,
        )
        App._bind_caller(other, caller)
        return other

    @property
    def traces(self) -> TracingHolder:
        """Who is told of spans, here and in all copies of this application."""
        return self._caller.traces

    def doorkeeper(self, source: str = _API) -> TokenAuthenticator:
        """Return whoever says who comes with a token or a session, for a server to ask."""
        from duly.client.access import TokenAuthenticator

        return TokenAuthenticator(self._store.get, self._clock, self._caller.draws, source)

    def rehearsing(self) -> Self:
        """Return this application for a dry run: where it has no store yet, on an empty one."""
        other = copy(self)
        if self._names_store and read_schema(self._url) is not None:
            App._do_without_store(other)
        return other

    def _do_without_store(self) -> None:
        self._store = LazyStore(opener("memory:", self._clock))
        App._bind_caller(self, replace_parts(self._caller, open_store=self._store.get))

    def require_store(self, *, is_file_enough: bool = False) -> None:
        """Refuse to go on if there is no store yet: for whoever looks, and would make none."""
        if self._names_store:
            require_store(self._url, is_file_enough=is_file_enough)

    def is_at(self, url: str) -> bool:
        """Say whether a URL names the store of this application."""
        return is_same_store(self._url, url)

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
            name = read_text("task", task, TASK_NAME_LENGTH_MAX)
            if known is None and self.tasks.find(name) is None:
                known = self.store.list_tasks()
            found.append(named_call(self.tasks, name, arguments, known or []))
        return found

    def prove(self, schedule: Reference, day: date | str) -> Proof:
        """Say of each occurrence on a day whether all that it was to do is done, once."""
        return self._proving.prove(schedule, day)

    @joins
    def reconcile(
        self, *, prune: bool = False, dry_run: bool = False, connection: object | None = None
    ) -> Reconciliation:
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
        terms = EnqueueOptions(
            when=read_when(at, delay, past),
            key=read_key(key),
            queue=queue,
            priority=priority,
            replaces=replace,
            ids=None if id is None else [id],
            connection=connection,
        )
        return enqueue.enqueue(self._caller, [call], terms)[0]

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
        terms = EnqueueOptions(
            when=read_when(at, delay, past),
            queue=queue,
            priority=priority,
            ids=ids,
            connection=connection,
        )
        return enqueue.enqueue(self._caller, calls, terms)

    @joins
    def move(  # noqa: PLR0913 - as above
        self,
        key_or_id: str | UUID,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        past: str | None = None,
        reason: str | None = None,
        connection: object | None = None,
    ) -> DelayedRun:
        """Move a pending delayed run, by its key (a text) or its id (a UUID)."""
        return enqueue.move(self._caller, key_or_id, read_when(at, delay, past), reason)

    @joins
    def cancel(
        self, key_or_id: str | UUID, *, reason: str | None = None, connection: object | None = None
    ) -> Run:
        """Cancel a pending delayed run, by its key (a text) or its id (a UUID)."""
        return enqueue.cancel(self._caller, key_or_id, reason)

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
        from duly.client.status import load_status

        name = self.store.name
        return load_status(self._caller, name, with_stale=with_stale, is_own=own)

    def health(self, found: Status | None = None, queues: Sequence[Queue] | None = None) -> Health:
        """Say in two lights, never merged, whether time is kept and whether work gets done.

        By a whole status and queues that were just read, or by new ones.
        """
        from duly.client.status import judge_health

        status = self.status() if found is None else found
        there = self.queues.list() if queues is None else queues
        return judge_health(status, there, self.breakers.list())

    @contextmanager
    def standing_in(
        self,
        store: Store,
        clock: Clock,
        rest: Callable[[int], None],
        draws: RandomSource | None = None,
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
