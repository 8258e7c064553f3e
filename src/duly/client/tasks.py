"""Tasks: functions with a name, and calls of them that are checked before they are promised."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from duly.client.arguments import (
    Payload,
    Signature,
    is_short,
    write_arguments,
    write_payload,
)
from duly.client.json_values import plain_value
from duly.client.reading import read_priority, read_queue
from duly.client.task_options import TASK_NAME_LENGTH_MAX, TaskTerms
from duly.domain.checking import check_name
from duly.domain.literals import Effects, TaskKind
from duly.domain.schedules import PRIORITY_DEFAULT, QUEUE_DEFAULT, Call
from duly.domain.task_limits import with_parameters
from duly.errors import Conflict, NotFound, UsageError, require_text

if TYPE_CHECKING:
    from duly.client.checking import Checks
    from duly.client.run_view import Run
    from duly.domain.attempts import TaskPolicy

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
        """Put `@task.verify` above a function that looks at what a run has brought about (E6).

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
        self.checks: Checks | None = None
        """Set by the application, which has the store."""
        self._by_name: dict[str, AnyTask] = {}

    def add(self, function: Callable[..., Any], terms: TaskTerms) -> AnyTask:
        """Make a task of a function; a name belongs to one task only."""
        if terms.name in self._by_name:
            remedy = "give one of them another name: @app.task(name=…)"
            raise Conflict("task", terms.name, "exists already in this application", remedy)
        task: AnyTask = Task(function, terms, self)
        self._by_name[task.name] = task
        return task

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
    require_text("task", name, TASK_NAME_LENGTH_MAX)
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
