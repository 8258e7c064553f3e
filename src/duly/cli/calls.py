"""Calls of tasks as people type them: a known task, arguments as JSON or as key=value."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import print_line
from duly.client.arguments import read_json_text
from duly.client.tasks import BoundCall
from duly.errors import UsageError

_NAMES_SHOWN_MAX = 5


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentOptions:
    """What a task is called with."""

    arguments: str | None = None
    """All arguments as one JSON map, such as '{"class_id": 42}'."""
    argument: Annotated[
        tuple[str, ...], Parameter(name=["--argument", "-a"], show_default=False)
    ] = ()
    """One argument as key=value; the value is JSON (-a class_id=42), else text (-a city=Berlin)."""

    @property
    def is_given(self) -> bool:
        """Whether any is."""
        return self.arguments is not None or bool(self.argument)


def read_call(app: App, task: str, options: ArgumentOptions) -> BoundCall:
    """Read a call of a task that the application, or a program before it, has made known."""
    arguments = read_arguments(options)
    if app.tasks.find(task) is None and task not in (known := app.store.list_tasks()):
        raise _unknown_task(task, sorted({*app.tasks.names(), *known}))
    try:
        return app.call(task, arguments)
    except UsageError as error:
        raise _as_text(app, task, (arguments, options), error) from error


def _as_text(
    app: App,
    task: str,
    given: tuple[Mapping[str, Any], ArgumentOptions],
    error: UsageError,
) -> UsageError:
    """Show how to give what is JSON by its looks as text, where the task takes text."""
    arguments, options = given
    for key, _, text in (one.partition("=") for one in options.argument):
        if error.field != f"{task}({key})" or isinstance(arguments[key], str):
            continue
        try:
            app.call(task, {**arguments, key: text})
        except UsageError as other:
            if other.field == error.field:
                break
        quoted = shlex.quote(json.dumps(text, ensure_ascii=False))
        remedy = f"give it as text: -a {key}={quoted}"
        return UsageError(error.field, error.value, error.problem, remedy)
    return error


def note_unchecked(app: App, task: str) -> None:
    """Say that nobody has looked at the arguments, if no application here knows the task."""
    if app.tasks.find(task) is None:
        print_line(("note: ", "bold yellow"), "the arguments are not checked without --app")


def read_arguments(options: ArgumentOptions) -> Mapping[str, Any]:
    """Read arguments; each may be given once."""
    found: dict[str, Any] = {}
    if options.arguments is not None:
        whole = read_json_text("arguments", options.arguments)
        if not isinstance(whole, dict):
            remedy = "give a map of names to values, such as '{\"class_id\": 42}'"
            raise UsageError("arguments", options.arguments, "is not a JSON map", remedy)
        found |= whole
    for text in options.argument:
        key, separator, value = text.partition("=")
        if not (key and separator):
            raise UsageError("argument", text, "is not key=value", "give -a class_id=42")
        if key in found:
            raise UsageError("argument", text, "is given twice", "give each argument once")
        found[key] = _value(value)
    return found


def _value(text: str) -> Any:  # noqa: ANN401 - JSON values
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _unknown_task(task: str, names: list[str]) -> UsageError:
    close = get_close_matches(task, names, n=_NAMES_SHOWN_MAX, cutoff=0.5)
    own = "name the program that has it with --app module:attribute"
    if close:
        remedy = f"did you mean {' or '.join(close)}? Or {own}"
    elif names:
        more = ", …" if len(names) > _NAMES_SHOWN_MAX else ""
        remedy = f"known are {', '.join(names[:_NAMES_SHOWN_MAX])}{more}; or {own}"
    else:
        remedy = f"{own}; no program has made a task known here yet"
    return UsageError("task", task, "is not a task that is known here", remedy)
