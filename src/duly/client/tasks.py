"""Tasks, their options, calls, catalogue for workers."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial, update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypedDict, TypeVar, overload

from duly.client.arguments import (
    Payload,
    Signature,
    is_short,
    read_parameters,
    stand_in,
    write_arguments,
    write_payload,
)
from duly.client.caller import in_thread
from duly.client.json_values import plain_value
from duly.client.parameters import Delay, read_delay, read_priority, read_queue
from duly.client.run_context import begin_all
from duly.client.run_view import run_view
from duly.domain.enums import Effects, TaskKind
from duly.domain.ids import identity_text
from duly.domain.policies import Retry, read_preset, read_retry
from duly.domain.runs import TaskPolicy
from duly.domain.schedules import PRIORITY_DEFAULT, QUEUE_DEFAULT, Call
from duly.domain.secret_refs import SecretReference
from duly.domain.tasks import (
    NO_LIMITS,
    ProcessPlan,
    TaskLimits,
    read_command_plan,
    read_memory,
    read_task_limits,
    with_parameters,
)
from duly.domain.verification import check_name
from duly.domain.webhooks import read_webhook_plan
from duly.errors import Conflict, NotFound, UsageError, read_text
from duly.timetable.instants import SECOND_US, duration_text

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.client.checking import Checks
    from duly.client.run_context import LentConnections
    from duly.client.run_view import Run
    from duly.domain.outbound_urls import WebAddress
    from duly.domain.runs import RunRecord
    from duly.domain.secret_refs import ReadSecret, Secret
    from duly.domain.tasks import RunContext
    from duly.store.ports.execution import ClaimedRun

    ZoneOf = Callable[[RunRecord], str | None]


_ARGUMENTS_ALONE = (TaskKind.COMMAND, TaskKind.WEBHOOK)


@dataclass(frozen=True, slots=True)
class TaskImplementation:
    """What a run needs to be shown, its secrets to be read, and orders to join its transaction."""

    zone_of: ZoneOf
    """Which zone a run's label is written in."""
    read_secret: ReadSecret
    lending: LentConnections
    """Which transactions are open that orders may join."""


class TaskRegistry:
    """The tasks of one application, for its workers."""

    def __init__(self, tasks: Tasks, backing: TaskImplementation) -> None:
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

    def __init__(self, task: AnyTask, backing: TaskImplementation) -> None:
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

    def prepare(self, claimed: ClaimedRun, live: RunContext) -> Callable[[], Any]:
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
        self, call: Callable[[], Any], claimed: ClaimedRun, live: RunContext
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

    def _secret(self, name: str, reference: SecretReference, live: RunContext) -> Secret:
        secret = self._backing.read_secret(reference, f"{self.name}({name})")
        for shape in secret.shapes():
            live.conceal(shape)
        return secret

    def _run(self, claimed: ClaimedRun, live: RunContext) -> Run:
        record = replace(claimed.record, tries=claimed.tries, claimed_at=claimed.claimed_at)
        shown = run_view(record, self._backing.zone_of(record))
        return replace(shown, live=live, lending=self._backing.lending)


TASK_NAME_LENGTH_MAX = 200
LIMIT_MIN_US = SECOND_US // 1000
_WITH_STORE = (TaskKind.ASYNC, TaskKind.THREAD)
"""What is run where the store is, and can commit with it."""
_OF_FUNCTIONS = (TaskKind.ASYNC, TaskKind.THREAD, TaskKind.PROCESS)
_FOR_ALL = (
    *("queue", "priority", "preset", "retry", "timeout", "run_timeout", "effects"),
    *("running", "running_by", "rate", "destination"),
)
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "task": ("name", *_FOR_ALL, "stall", "kind", "memory"),
    "command": (
        *("env", "cwd", "user", "memory", "output_bytes_max", "has_result", "parameters"),
        *_FOR_ALL,
    ),
    "webhook": ("secret", "headers", "response_bytes_max", "parameters", *_FOR_ALL),
}


class RunOptions(TypedDict, total=False):
    """What any task may say about its runs."""

    queue: str
    priority: int
    preset: str
    """Retries for a kind of work, as `app.schedules.create` has presets; what is said wins."""
    retry: Retry | int
    """How many attempts in all, or `duly.Retry(…)`; 5 unless told."""
    timeout: Delay | None
    """Of one attempt: 1h unless told; None for no limit."""
    run_timeout: Delay | None
    """From the first claim to the end, retries and waits included."""
    effects: str
    """What repeating it does: no more than once does ("idempotent"), or nothing ("pure")."""
    running: int
    """How many of its runs go on at a time, in the whole fleet."""
    running_by: Mapping[str, int]
    """How many of them with the same value of a parameter: {"account_id": 1}."""
    rate: str
    """How many begin in a while: "100/m", "5/s burst 20"."""
    destination: str | None
    """Whom it calls: while that one is down, its runs wait. Webhooks call the host of their URL."""


class FunctionOptions(RunOptions, total=False):
    """What a task that is a function may say besides."""

    name: str
    kind: str
    """async, thread or process; unless told, async for coroutine functions, else thread."""
    stall: Delay | None
    """How long an attempt may go on without reporting progress; commands and webhooks can't."""
    memory: str
    """How much memory a process may have, such as "512MB"."""


class CommandOptions(RunOptions, total=False):
    """What a command may say besides."""

    env: Mapping[str, Any]
    cwd: str
    user: str
    memory: str
    output_bytes_max: int
    has_result: bool
    parameters: Mapping[str, Any] | Callable[..., object]


class WebhookOptions(RunOptions, total=False):
    """What a webhook may say besides; its time-out is 30s unless told, and 10m at most."""

    secret: Any
    """What it is signed with: duly.secret("env:NAME"), or two while one replaces the other."""
    headers: Mapping[str, Any]
    response_bytes_max: int
    parameters: Mapping[str, Any] | Callable[..., object]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskTerms:
    """All that is known of a task but its function."""

    name: str
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT
    kind: TaskKind = TaskKind.THREAD
    policy: TaskPolicy = TaskPolicy()  # noqa: RUF009 - an immutable value
    limits: TaskLimits = NO_LIMITS
    plan: Any = None

    def __post_init__(self) -> None:
        """Refuse what could never be: a commit with the store by what runs elsewhere."""
        effects = self.policy.effects
        if effects is Effects.TRANSACTIONAL and self.kind not in _WITH_STORE:
            problem = f"is not possible for a {self.kind}: it can't commit with its run"
            remedy = "use a plain or an async function, or another class"
            raise UsageError("effects", str(effects), problem, remedy)


def function_terms(function: object, options: Mapping[str, Any]) -> TaskTerms:
    """Read the options of a task that is a function."""
    _refuse_unknown("task", options)
    if not callable(function) or isinstance(function, type):
        remedy = "put @app.task above a function"
        raise UsageError("task", function, "is not a function", remedy)
    name = options.get("name")
    kind = _read_kind(function, options.get("kind"))
    memory = read_memory(options.get("memory"))
    if memory is not None and kind is not TaskKind.PROCESS:
        remedy = "add kind='process': only a process of its own has memory of its own"
        raise UsageError("memory", options["memory"], "can't be limited here", remedy)
    return TaskTerms(
        name=read_task_name(getattr(function, "__name__", None) if name is None else name),
        **_shared(options),
        kind=kind,
        plan=ProcessPlan(memory_bytes=memory) if kind is TaskKind.PROCESS else None,
    )


def command_terms(
    name: object, argv: object, options: Mapping[str, Any], parameters: frozenset[str] | None
) -> TaskTerms:
    """Read the options of a command."""
    _refuse_unknown("command", options)
    return TaskTerms(
        name=read_task_name(name),
        **_shared(options),
        kind=TaskKind.COMMAND,
        plan=read_command_plan(argv, options, parameters),
    )


def webhook_terms(name: object, url: object, options: Mapping[str, Any]) -> TaskTerms:
    """Read the options of a webhook."""
    _refuse_unknown("webhook", options)
    plan = read_webhook_plan(url, options)
    return TaskTerms(
        name=read_task_name(name),
        **_shared(options, plan.address),
        kind=TaskKind.WEBHOOK,
        plan=plan,
    )


def read_task_name(name: object) -> str:
    """Read the name by which runs call a task."""
    text = read_text("task", name, TASK_NAME_LENGTH_MAX)
    if not text or not text.isprintable() or text != text.strip() or "@" in text:
        remedy = "give printable characters without '@', such as 'send_reminder'"
        raise UsageError("task", text, "can't be the name of a task", remedy)
    return text


def read_policy(options: Mapping[str, Any]) -> TaskPolicy:
    """Read what a task says about its runs: how often, how long, how safe to repeat."""
    policy = TaskPolicy()
    timeout_us = policy.timeout_us
    if "timeout" in options:
        timeout_us = _read_limit("timeout", options["timeout"])
    retry, effects, preset = (options.get(name) for name in ("retry", "effects", "preset"))
    usual = None if preset is None else read_preset(preset)
    usual_retry = policy.retry if usual is None else usual.retry
    usual_effects = policy.effects if usual is None else usual.effects
    return TaskPolicy(
        retry=usual_retry if retry is None else read_retry(retry),
        timeout_us=timeout_us,
        run_timeout_us=_read_limit("run_timeout", options.get("run_timeout")),
        stall_us=_read_limit("stall", options.get("stall")),
        effects=usual_effects if effects is None else _read_effects(effects),
    )


def _shared(options: Mapping[str, Any], address: WebAddress | None = None) -> dict[str, Any]:
    queue, priority = options.get("queue"), options.get("priority")
    return {
        "queue": QUEUE_DEFAULT if queue is None else read_queue(queue),
        "priority": PRIORITY_DEFAULT if priority is None else read_priority(priority),
        "policy": read_policy(options),
        "limits": read_task_limits(options, address),
    }


def check_options(what: str, options: Mapping[str, Any]) -> None:
    """Refuse options that no task of that sort has, and values that none could have."""
    _refuse_unknown(what, options)
    _shared(options)


def _refuse_unknown(what: str, options: Mapping[str, Any]) -> None:
    unknown = [option for option in options if option not in _OPTIONS[what]]
    if unknown:
        remedy = f"use {', '.join(_OPTIONS[what])}"
        problem = f"is not an option of a {what}"
        raise UsageError(unknown[0], options[unknown[0]], problem, remedy)


def _read_kind(function: Callable[..., Any], value: object) -> TaskKind:
    is_async = inspect.iscoroutinefunction(function)
    if value is None:
        return TaskKind.ASYNC if is_async else TaskKind.THREAD
    if value not in _OF_FUNCTIONS:
        remedy = f"use one of {', '.join(_OF_FUNCTIONS)}; see app.command() and app.webhook()"
        raise UsageError("kind", value, "is not a kind of function", remedy)
    kind = TaskKind(str(value))
    if kind is TaskKind.ASYNC and not is_async:
        remedy = "write `async def`, or leave `kind` out"
        raise UsageError("kind", value, "needs a coroutine function", remedy)
    if kind is TaskKind.THREAD and is_async:
        remedy = "leave `kind` out: a coroutine function runs on the event loop"
        raise UsageError("kind", value, "is not for a coroutine function", remedy)
    return kind


def _read_limit(field: str, value: object) -> int | None:
    if value is None:
        return None
    length = read_delay(field, value)
    if length < LIMIT_MIN_US:
        remedy = f"give at least {duration_text(LIMIT_MIN_US)}, or None for no limit"
        raise UsageError(field, value, "leaves no time", remedy)
    return length


def _read_effects(value: object) -> Effects:
    if not isinstance(value, str) or value not in list(Effects):
        remedy = f"use one of {', '.join(Effects)}"
        raise UsageError("effects", value, "is not a class of effects", remedy)
    return Effects(value)


_NAMES_SHOWN_MAX = 10

Called = ParamSpec("Called")
Bound = ParamSpec("Bound")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundCall:
    """A task with its arguments, checked: what can be enqueued or put on a schedule."""

    task: str
    payload: str
    """The arguments by name, as canonical JSON."""
    queue: str = QUEUE_DEFAULT
    priority: int = PRIORITY_DEFAULT

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments by name, as JSON values."""
        stored: dict[str, Any] = json.loads(self.payload)
        return stored


class Task(Generic[Called, Bound, Result]):
    """A function that can be run by its name; called directly, it is the function it was.

    `Called` is what a direct call takes, `Bound` what `bind` takes: the same, but for the run.
    """

    __name__: str
    __wrapped__: Callable[..., Any]

    def __init__(self, function: Callable[Called, Result], terms: TaskTerms, tasks: Tasks) -> None:
        """Wrap a function; `terms` bring its name, its queue and all that is said of its runs."""
        self._tasks = tasks
        self.name = terms.name
        self.queue = terms.queue
        self.priority = terms.priority
        self.terms = terms
        self.signature = Signature(terms.name, function)
        self.limits = terms.limits
        """How many of its runs may go on, how often, and whom they call."""
        if terms.limits.limit.running_by:
            taken = self.signature.types, self.signature.defaults()
            self.limits = with_parameters(terms.limits, terms.name, *taken)
        self._function = function
        self._payload = tasks.payload
        update_wrapper(self, function)

    def __call__(self, *args: Called.args, **kwargs: Called.kwargs) -> Result:
        """Call the function here and now; nothing is promised."""
        return self._function(*args, **kwargs)

    @property
    def kind(self) -> TaskKind:
        """How its code is run."""
        return self.terms.kind

    @property
    def policy(self) -> TaskPolicy:
        """What it says about its runs: how often, how long, how safe to repeat."""
        return self.terms.policy

    @property
    def is_async(self) -> bool:
        """Whether calling it gives something to await."""
        return inspect.iscoroutinefunction(self._function)

    def verify(self, function: Callable[[Run], object]) -> Callable[[Run], object]:
        """Put `@task.verify` above a function that looks at what a run has brought about.

        It is given the run and returns a duly.Verdict, or whether all is in place. It is run after
        each success, on demand, and to settle a run of which nobody knows what it did. As with
        tasks, a worker knows those that were there when it was started.
        """
        if self.policy.is_checked:
            remedy = "let one function look at all of it"
            raise Conflict("verify", self.name, "has a check already", remedy)
        self._tasks.add_check(self, function)
        policy = replace(self.terms.policy, is_checked=True)
        self.terms = replace(self.terms, policy=policy)
        return function

    def bind(self, *args: Bound.args, **kwargs: Bound.kwargs) -> BoundCall:
        """Return a call with these arguments; refuse what the signature or a type does not take."""
        text = None if kwargs else self.signature.simple_text(args)
        if text is None or not is_short(text, self._payload):
            arguments = self.signature.bind(args, kwargs)
            text = write_arguments(self.signature, arguments, self._payload)
        return self._call(text)

    def bind_json(self, arguments: Mapping[str, Any]) -> BoundCall:
        """Return a call with arguments given as JSON values, as a command or a file has them."""
        bound = self.signature.bind((), arguments)
        return self._call(write_arguments(self.signature, bound, self._payload, is_json=True))

    def _call(self, payload: str) -> BoundCall:
        return BoundCall(task=self.name, payload=payload, queue=self.queue, priority=self.priority)

    def __repr__(self) -> str:
        return f"<task {self.name}>"


AnyTask = Task[..., ..., Any]


class Tasks:
    """The tasks of one application, by name."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self._caller: Caller | None = None
        self._checks: Checks | None = None
        self._by_name: dict[str, AnyTask] = {}

    def add(self, function: Callable[..., Any], terms: TaskTerms) -> AnyTask:
        """Make a task of a function; a name belongs to one task only."""
        if terms.name in self._by_name:
            remedy = "give one of them another name: @app.task(name=…)"
            raise Conflict("task", terms.name, "exists already in this application", remedy)
        task: AnyTask = Task(function, terms, self)
        self._by_name[task.name] = task
        return task

    @property
    def checks(self) -> Checks | None:
        """What carries checks out; None without an application, which has the store."""
        if self._checks is None and self._caller is not None:
            from duly.client.checking import Checks

            self._checks = Checks(self._caller)
        return self._checks

    def check_for(self, caller: Caller) -> None:
        """Have checks look for runs in the store of a caller."""
        self._caller, self._checks = caller, None

    def add_check(self, task: AnyTask, function: Callable[[Run], object]) -> None:
        """Make a task of a check, which its runs are given to by their ids."""
        from duly.client.checking import checking_function

        if not callable(function):
            remedy = "put it above a function that takes a run"
            raise UsageError("verify", function, "is not a function", remedy)

        # Where it may be run, and for how long, is as its task says; looking repeats nothing.
        terms = replace(
            task.terms,
            name=check_name(task.name),
            kind=TaskKind.THREAD,
            policy=replace(task.policy, effects=Effects.PURE, is_checked=False, stall_us=None),
            plan=None,
        )
        self.add(checking_function(lambda: self.checks, function), terms)

    def find(self, name: str) -> AnyTask | None:
        """Return a task of this application."""
        return self._by_name.get(name)

    def names(self) -> list[str]:
        """Return the names of all tasks, sorted."""
        return sorted(self._by_name)

    def policies(self) -> dict[str, TaskPolicy]:
        """Return what each task says about its runs, by name."""
        return {name: self._by_name[name].policy for name in self.names()}


def read_call(call: object, queue: str | None = None, priority: int | None = None) -> Call:
    """Read what is to be run: a bound call, or a task that needs no arguments."""
    if isinstance(call, Task):
        call = call.bind()
    if not isinstance(call, BoundCall):
        remedy = "give task.bind(…), or a task that needs no arguments"
        raise UsageError("call", call, "is not a call of a task", remedy)
    return Call(
        task=call.task,
        arguments=call.payload,
        queue=call.queue if queue is None else read_queue(queue),
        priority=call.priority if priority is None else read_priority(priority),
    )


def named_call(tasks: Tasks, name: str, arguments: object, known: list[str]) -> BoundCall:
    """Return a call of a task by its name, as a command line or a file gives it.

    Of a task that only other programs know, its name is all that can be checked.
    """
    name = read_text("task", name, TASK_NAME_LENGTH_MAX)
    if not isinstance(arguments, Mapping):
        remedy = 'give a map of names to values, such as {"class_id": 42}'
        raise UsageError("arguments", arguments, "is not a map", remedy)
    task = tasks.find(name)
    if task is not None:
        return task.bind_json(arguments)
    if name not in known:
        names = ", ".join(sorted({*tasks.names(), *known})[:_NAMES_SHOWN_MAX])
        remedy = f"known are: {names}" if names else "no program has registered a task yet"
        raise NotFound("task", name, remedy)
    plain = plain_value("arguments", dict(arguments), tasks.payload.depth_max)
    return BoundCall(task=name, payload=write_payload(name, plain, tasks.payload))


P = ParamSpec("P")
R = TypeVar("R")


class TaskMaker:
    """What `@app.task(…)` with options gives: it makes a task of the function below it."""

    def __init__(self, tasks: Tasks, options: Mapping[str, Any]) -> None:
        check_options("task", options)
        self._tasks = tasks
        self._options = options

    @overload
    def __call__(
        self, function: Callable[Concatenate[Run, P], R], /
    ) -> Task[Concatenate[Run, P], P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, P, R]: ...

    def __call__(self, function: Callable[..., Any], /) -> Any:
        """Make the task."""
        return self._tasks.add(function, function_terms(function, self._options))


def parameters_of(name: str, parameters: object) -> Callable[..., Any]:
    """Return what says which parameters a task takes: a function, or a map of names to types."""
    if callable(parameters) and not isinstance(parameters, type):
        return parameters
    return stand_in(name, read_parameters(parameters))


def declared_call(task: object, policies: Mapping[str, Any]) -> BoundCall:
    """Return what a declaration runs: the task below it, with the arguments it is given."""
    if not isinstance(task, Task):
        remedy = "put @app.schedule(…) above @app.task"
        raise UsageError("schedule", task, "is not a task", remedy)
    call, arguments = policies.get("call"), policies.get("arguments")
    if call is not None and arguments is not None:
        raise UsageError("arguments", arguments, "contradicts `call`", "give one of the two")
    if call is None:
        return task.bind(**_read_arguments(arguments))
    if not isinstance(call, BoundCall) or call.task != task.name:
        remedy = f"give {task.name}.bind(…)"
        raise UsageError("call", call, "is not a call of the task below", remedy)
    return call


def _read_arguments(arguments: object) -> dict[str, Any]:
    """Read the arguments of a declaration, if it gives any."""
    given = {} if arguments is None else arguments
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        remedy = 'give a map of names to values, such as {"class_id": 42}'
        raise UsageError("arguments", arguments, "is not a map of names to values", remedy)
    return dict(given)
