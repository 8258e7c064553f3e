"""Making tasks: of functions, and of what says which parameters a command or a webhook takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, overload

from duly.client.arguments import read_parameters, stand_in
from duly.client.task_options import check_options, function_terms
from duly.client.tasks import BoundCall, Task
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.client.run_view import Run
    from duly.client.tasks import Tasks

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
