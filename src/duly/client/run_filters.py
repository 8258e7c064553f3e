"""What a list of runs is narrowed by, read and checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.client.reading import (
    read_choice,
    read_choices,
    read_instant,
    read_looked_for,
    read_number,
)
from duly.domain.identity import RunId, read_identity
from duly.domain.literals import Lane, Origin, RunState
from duly.errors import UsageError
from duly.store.reading import RunFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly.domain.identity import ScheduleId


def read_run_filter(
    tenant: str, schedule_id: ScheduleId | None, terms: Mapping[str, Any]
) -> RunFilter:
    """Read the terms of `app.runs.list`, but for the schedule; one that is None says nothing."""
    parts: dict[str, Any] = {}
    for name, value in terms.items():
        if name not in _READ:
            remedy = f"use one of {', '.join(TERMS)}"
            raise UsageError("filter", name, "is not what runs are looked for by", remedy)
        if value is not None:
            field, read = _READ[name]
            parts[field] = read(name, value)
    return RunFilter(tenant=tenant, schedule_id=schedule_id, **parts)


_READ: dict[str, tuple[str, Callable[[str, Any], Any]]] = {
    "key": ("key", read_looked_for),
    "task": ("task", read_looked_for),
    "queue": ("queue", read_looked_for),
    "state": ("states", lambda name, value: read_choices(name, value, RunState)),
    "reason": ("reason", read_looked_for),
    "error": ("error", read_looked_for),
    "origin": ("origins", lambda name, value: read_choices(name, value, Origin)),
    "lane": ("lane", lambda name, value: read_choice(name, value, Lane)),
    "root": ("root", lambda name, value: RunId(read_identity(value, name))),
    "worker": ("worker", read_number),
    "since": ("since", read_instant),
    "until": ("until", read_instant),
}
"""By the name of a term: the field of the filter, and how it is read."""
TERMS = ("schedule", *_READ)
"""What runs are looked for by: by the library, over HTTP, by commands and in the console."""
