"""A run's live part: what a task may say and ask while it is being executed, read and checked."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

from duly.client.awaited import in_thread
from duly.client.effects import AwaitedEffect, once_awaited
from duly.client.json_values import plain_value
from duly.client.transacting import AwaitedTaskTransaction
from duly.domain.attempts import (
    CHECKPOINT_BYTES_MAX,
    PARTITION_LENGTH_MAX,
    Progress,
)
from duly.domain.schedules import canonical_json
from duly.errors import UsageError, require_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from duly.client.reading import Delay
    from duly.client.run_view import Run

NOTE_LENGTH_MAX = 500
DEPTH_MAX = 32
COUNT_MAX = (1 << 63) - 1
LEVELS = ("debug", "info", "warning", "error")


class AwaitedRun:
    """The live part for async tasks: what waits for the store is awaited."""

    def __init__(self, run: Run) -> None:
        self._run = run

    async def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Say how far the task is."""
        self._run.progress(done, total, note)

    async def log(self, text: str, level: str = "info") -> None:
        """Add a line to the run's log."""
        self._run.log(text, level)

    async def checkpoint(self, state: object, partition: str | None = None) -> None:
        """Store a state that a later attempt can go on from; stored when this returns."""
        await in_thread(self._run.checkpoint, state, partition)

    async def begin_effects(self) -> None:
        """Take a durable permission for all that the attempt does from now on."""
        await in_thread(self._run.begin_effects)

    def effect(self, key: str) -> AwaitedEffect:
        """Do one effect in a block: `async with run.aio.effect("charge:42"):`."""
        return AwaitedEffect(self._run.lent("effect"), self._run.label, key)

    def transaction(self, limit: Delay | None = None) -> AwaitedTaskTransaction:
        """Write to tables of yours: `async with run.aio.transaction() as tx:`; see `Run`."""
        return AwaitedTaskTransaction(self._run.transaction, limit)

    async def once(self, key: str, function: Callable[..., Any], *args: Any, **options: Any) -> Any:  # noqa: ANN401 - whatever it gives
        """Call a function, async or not, once in the life of the run; later return its result."""
        call = partial(function, *args, **options)
        return await once_awaited(self._run.lent("once"), self._run.label, key, call)

    async def remaining(self, items: Iterable[str]) -> list[str]:
        """Return those of the items that are still to be done, in their order."""
        left: list[str] = await in_thread(self._run.remaining, items)
        return left

    async def resume_from(self, partition: str | None = None) -> Any:  # noqa: ANN401 - JSON values
        """Return the last stored state, by whichever attempt; None before the first."""
        return await in_thread(self._run.resume_from, partition)


def read_progress(done: object, total: object, note: object) -> Progress:
    """Read how far a task says it is."""
    counted = _count("done", done)
    if note is not None:
        require_text("note", note, NOTE_LENGTH_MAX)
        assert isinstance(note, str), "just checked"
        note = _printable(note)
    return Progress(counted, None if total is None else _count("total", total), note)


def read_state(state: object) -> str:
    """Write a checkpoint's state as JSON text of bounded size."""
    try:
        text = canonical_json(plain_value("state", state, DEPTH_MAX))
    except (ValueError, RecursionError) as error:
        if isinstance(error, UsageError):
            raise
        remedy = "give smaller numbers"
        raise UsageError("state", state, f"can't be written as JSON ({error})", remedy) from error
    size = len(text.encode())
    if size > CHECKPOINT_BYTES_MAX:
        problem = f"takes {size:,} bytes, and {CHECKPOINT_BYTES_MAX:,} is the most"
        remedy = "keep the work where it is, and a reference to it here"
        raise UsageError("state", type(state).__name__, problem, remedy)
    return text


def read_stored(text: str | None) -> Any:  # noqa: ANN401 - JSON values
    """Return a stored state as JSON values."""
    return None if text is None else json.loads(text)


def read_partition(value: object) -> str:
    """Read which part of a run a checkpoint is about; empty for the whole."""
    if value is None:
        return ""
    require_text("partition", value, PARTITION_LENGTH_MAX)
    assert isinstance(value, str), "just checked"
    if not value or not value.isprintable():
        remedy = "give printable characters, or leave it out for the run as a whole"
        raise UsageError("partition", value, "can't name a part", remedy)
    return value


def read_lines(text: object, level: object) -> list[str]:
    """Read what a task logs, as lines that can be stored; whoever stores them cuts long ones."""
    if level not in LEVELS:
        raise UsageError("level", level, "is not a level", f"use one of {', '.join(LEVELS)}")
    if not isinstance(text, str):
        raise UsageError("text", text, "is not a text", "give a str")
    return [_printable(line) for line in text.splitlines()]


def _count(field: str, value: object) -> int:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= COUNT_MAX
    if not is_count:
        raise UsageError(field, value, "is not a count", "give a whole number from 0 on")
    assert isinstance(value, int), "just checked"
    return value


def _printable(text: str) -> str:
    """Return a text that every store can hold: whole characters, and no NUL."""
    return text.encode(errors="replace").decode().replace("\x00", "\N{REPLACEMENT CHARACTER}")
