"""What an application's code declares: tasks, commands, webhooks, and schedules of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, Unpack, overload

from duly.client.arguments import Signature
from duly.client.declarations import Declarations, code_declaration
from duly.client.making import TaskMaker, declared_call, parameters_of
from duly.client.task_options import (
    CommandOptions,
    FunctionOptions,
    TaskTerms,
    WebhookOptions,
    command_terms,
    webhook_terms,
)
from duly.client.tasks import AnyTask, Task, Tasks
from duly.domain.plans import placeholders

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from duly.client.run_view import Run
    from duly.domain.timetable.timetable import Timetable

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
