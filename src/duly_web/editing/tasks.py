"""The tasks that can be put on a schedule, and what each takes, as far as that is known here."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from duly import App

TASKS_MAX = 500
KINDS = {"integer": "whole number", "number": "number", "boolean": "yes or no", "string": "text"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameter:
    """One argument of a task."""

    name: str
    kind: str
    """`string`, `integer`, `number`, `boolean`, or `json` for anything else."""
    words: str
    is_required: bool
    default: str | None
    """As JSON."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offered:
    """A task to choose."""

    name: str
    is_known_here: bool
    """Whether its code is in this program: of others, the name is all that is known."""
    parameters: tuple[Parameter, ...] = ()
    queue: str | None = None
    effects: str | None = None

    @property
    def takes(self) -> str:
        """Return the parameters as JSON, for the script that makes fields of them."""
        return msgspec.json.encode(self.parameters if self.is_known_here else None).decode()


def offered_tasks(app: App) -> tuple[Offered, ...]:
    """Return the tasks of this program and those that others have told of, by name."""
    names = {one.task for one in app.inbox.tasks()} | set(app.tasks.names())
    listed = sorted(name for name in names if not name.endswith(":verify"))[:TASKS_MAX]
    return tuple(offered_task(app, name) for name in listed)


def offered_task(app: App, name: str) -> Offered:
    """Show one task."""
    task = app.tasks.find(name)
    if task is None:
        return Offered(name=name, is_known_here=False)
    signature = task.signature
    required, defaults = set(signature.required), signature.defaults()
    parameters = tuple(
        _parameter(one, kind, one in required, defaults.get(one))
        for one, kind in signature.types.items()
    )
    return Offered(
        name=name,
        is_known_here=True,
        parameters=parameters,
        queue=task.queue,
        effects=str(task.policy.effects),
    )


def _parameter(name: str, kind: Any, is_required: bool, default: object) -> Parameter:  # noqa: ANN401, FBT001 - a type, and what is known of it
    shape = _shape(kind)
    return Parameter(
        name=name,
        kind=shape,
        words=KINDS.get(shape, "JSON"),
        is_required=is_required,
        default=None if is_required else json.dumps(msgspec.to_builtins(default), default=str),
    )


def _shape(kind: Any) -> str:  # noqa: ANN401 - as above
    try:
        found = msgspec.json.schema(kind).get("type")
    except (TypeError, ValueError, NotImplementedError):
        return "json"
    return str(found) if found in KINDS else "json"
