"""What a task's code says about how many of its runs may go on, how often, and whom they call.

All of it holds for the whole fleet. It is looked at after a claim and before the code begins; a
task that says nothing is never asked (R8, B2, B4).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.domain.limits import NO_LIMIT, Limit, read_limit
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from duly.domain.web_addresses import WebAddress

DESTINATION_LENGTH_MAX = 280


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskLimits:
    """What one task is limited by."""

    limit: Limit = NO_LIMIT
    destination: str | None = None
    """Whom its code calls: while that one is down, its runs wait."""
    defaults: tuple[tuple[str, str], ...] = ()
    """Of the parameters that it is limited by: what they are if nobody gives them, as text."""


NO_LIMITS = TaskLimits()


def read_task_limits(options: Mapping[str, Any], address: WebAddress | None = None) -> TaskLimits:
    """Read what a task's options say; who calls an address has that for its destination."""
    destination = None if address is None else address.place
    if "destination" in options:
        destination = read_destination(options["destination"])
    parts = (options.get(name) for name in ("running", "rate", "running_by"))
    return TaskLimits(limit=read_limit(*parts), destination=destination)


def read_destination(value: object) -> str | None:
    """Read the name of whom a task calls; None for nobody."""
    if value is None:
        return None
    require_text("destination", value, DESTINATION_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value or not value.isprintable() or " " in value or value == "*":
        remedy = "give printable characters without spaces, such as 'stripe' or 'api.example.com'"
        raise UsageError("destination", value, "can't be the name of a destination", remedy)
    return value


def with_parameters(
    limits: TaskLimits, task: str, parameters: Iterable[str], defaults: Mapping[str, Any]
) -> TaskLimits:
    """Return limits that know what parameters are by default; refuse what the task does not take.

    `parameters` are all that it takes, `defaults` what those are that need not be given.
    """
    known = list(parameters)
    for parameter, _ in limits.limit.running_by:
        if parameter not in known:
            remedy = f"name one of its parameters; {task} takes {', '.join(known) or 'nothing'}"
            raise UsageError("running_by", parameter, "is not a parameter of the task", remedy)
    texts = ((name, _value_text(defaults.get(name))) for name, _ in limits.limit.running_by)
    return replace(limits, defaults=tuple(texts))


def values_of(
    limits: TaskLimits, arguments: str, parameters: Iterable[str]
) -> tuple[tuple[str, str], ...]:
    """Return what a run's arguments (as JSON text) are by some parameters, each as text."""
    given, defaults = json.loads(arguments), dict(limits.defaults)
    return tuple(
        (name, _value_text(given[name]) if name in given else defaults.get(name, "null"))
        for name in parameters
    )


def _value_text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    # A default may be anything; that it is none of the given ones is all that matters here.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str)
