"""Runs as people and programs see them: aware datetimes, UUIDs, and a readable label.

While a run is being executed, the task's own view of it has a live part, too.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import UUID

from duly.client.parameters import run_label
from duly.client.run_context import (
    AwaitedRun,
    begin_all,
    effect_of,
    once,
    read_lines,
    read_partition,
    read_progress,
    read_state,
    read_stored,
    transaction_of,
)
from duly.domain.enums import Origin, RunState
from duly.domain.ids import RunId
from duly.domain.runs import lineage_root_of
from duly.domain.verification import ItemReport, read_expected, read_items
from duly.errors import Cancelled, UsageError
from duly.timetable.instants import (
    duration_text,
    from_microseconds,
    iso_or_none,
    iso_utc,
    moment_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from duly.client.parameters import Delay
    from duly.client.run_context import LentConnections, TaskTransaction
    from duly.domain.runs import DelayedRecord, Progress, RunRecord
    from duly.domain.tasks import RunContext

P = ParamSpec("P")
T = TypeVar("T")

OPEN_STATES = frozenset(
    {
        RunState.BLOCKED,
        RunState.QUEUED,
        RunState.RUNNING,
        RunState.RETRYING,
        RunState.AMBIGUOUS,
        RunState.DEAD,
    }
)
"""What can still change; a dead run, too, because a person may bring it back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, as it was when it was looked at.

    A task that has a parameter annotated with this type receives its own run there.
    """

    id: UUID
    label: str
    schedule: str | None
    """The name of the schedule it came from, if it came from one."""
    schedule_id: UUID | None
    key: str | None
    scheduled_for: datetime
    window: tuple[datetime | None, datetime] | None
    """Of a schedule's run: (last occurrence that was run, this one]; None before the first."""
    attempt: int
    """0 while no worker has started it."""
    fence: int
    origin: str
    root: UUID
    """The run that a rerun repeats; its own id otherwise."""
    lane: str
    state: str
    reason: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: datetime
    """When it fell due: its nominal time and its jitter."""
    created_at: datetime
    fired_at: datetime | None
    """When it became visible to workers."""
    finished_at: datetime | None
    lateness: timedelta | None
    """How long after it fell due it became visible to workers."""
    charged: int = 0
    """How many of its attempts count against its budget."""
    worker: int | None = None
    """Who holds it, or who finished it."""
    claimed_at: datetime | None = None
    started_at: datetime | None = None
    last_progress: Progress | None = None
    cancel_asked_at: datetime | None = None
    next_at: datetime | None = None
    """While it waits for another attempt: when that falls due."""
    error: str | None = None
    """The last attempt's, once there is one."""
    result: Any = None
    """What the task returned, as JSON values."""
    tz: str | None = field(default=None, repr=False, compare=False)
    """The zone that its label is written in: its schedule's, when the run was made."""
    live: RunContext | None = field(default=None, repr=False, compare=False)
    lending: LentConnections | None = field(default=None, repr=False, compare=False)

    @property
    def is_over(self) -> bool:
        """Whether it has an outcome, or is dead: nobody works on it any more."""
        return self.state == RunState.DEAD or RunState(self.state) not in OPEN_STATES

    @property
    def idempotency_key(self) -> str:
        """What to give to others, so that they recognise a repetition.

        It is the id of the first run of the line, the same for all attempts, and for repairs. What
        a plain rerun does is meant to be done once more: it has its own.
        """
        root = RunId(self.root.bytes)
        return str(UUID(bytes=lineage_root_of(RunId(self.id.bytes), Origin(self.origin), root)))

    @property
    def cancelled(self) -> bool:
        """Whether the task should stop: somebody asked, its time is up, or it is taken away."""
        return self.lent("cancelled").is_cancelled

    @property
    def aio(self) -> AwaitedRun:
        """The live part for async tasks: `await run.aio.checkpoint(…)`."""
        self.lent("aio")
        return AwaitedRun(self)

    def check_cancelled(self) -> None:
        """Raise duly.Cancelled if the task should stop: a good place is between two steps."""
        if self.lent("check_cancelled").is_cancelled:
            raise Cancelled(self.label)

    def progress(self, done: int, total: int | None = None, note: str | None = None) -> None:
        """Say how far the task is; stored soon, without waiting."""
        self.lent("progress").advance(read_progress(done, total, note))

    def checkpoint(self, state: object, partition: str | None = None) -> None:
        """Store a state that a later attempt can go on from; stored when this returns."""
        self.lent("checkpoint").save(read_partition(partition), read_state(state))

    def resume_from(self, partition: str | None = None) -> Any:  # noqa: ANN401 - JSON values
        """Return the last stored state, by whichever attempt; None before the first."""
        return read_stored(self.lent("resume_from").saved(read_partition(partition)))

    def begin_effects(self) -> None:
        """Take a durable permission for all that the attempt does from now on.

        An unsafe task that is lost after this is not tried again: nobody knows what it did.
        """
        begin_all(self.lent("begin_effects"), self.label)

    def effect(self, key: str) -> AbstractContextManager[None]:
        """Do one effect in a block: `with run.effect("charge:42"):`; refused if done or unknown.

        EffectNotDone, raised within, says that it is certain that nothing has happened.
        """
        return effect_of(self.lent("effect"), self.label, key)

    def once(self, key: str, function: Callable[P, T], *args: P.args, **options: P.kwargs) -> T:
        """Call a function once in the life of the run; later its kept result is returned."""
        call = partial(function, *args, **options)
        result: T = once(self.lent("once"), self.label, key, call)
        return result

    def transaction(self, limit: Delay | None = None) -> AbstractContextManager[TaskTransaction]:
        """Write to tables of yours beside Duly's: `with run.transaction() as tx:`.

        When the block ends well its rows and the run's success are committed together; else neither
        is. For tasks with effects="transactional", once in an attempt, and the last thing it does:
        `tx.result(value)` says what the run gives. Short, as `app.transaction`.
        """
        live = self.lent("transaction")
        assert self.lending is not None, "who lends the one lends the other"
        return transaction_of(live, self.lending, limit)

    def expect(self, items: int | Iterable[str]) -> None:
        """Say how much there is to do: a number of items, or their names."""
        self.lent("expect").note_scope(read_expected(items))

    def done(self, *items: str) -> None:
        """Say which items are done; stored soon, and with the end.

        Each is to be done once: an item that is reported twice counts as repeated.
        """
        self.lent("done").note_scope(ItemReport(done=read_items("item", items)))

    def remaining(self, items: Iterable[str]) -> list[str]:
        """Return those of the items that are still to be done, in their order.

        What an earlier attempt or the run that this one repairs has said to be done is left out:
        saying it again would count as having done it twice.
        """
        wanted = tuple(dict.fromkeys(read_items("items", items)))
        done = self.lent("remaining").done_items(wanted)
        return [item for item in wanted if item not in done]

    def log(self, text: str, level: str = "info") -> None:
        """Add to the run's log: debug, info, warning or error; stored soon, without waiting."""
        live = self.lent("log")
        for line in read_lines(text, level):
            live.write(level, line)

    def lent(self, what: str) -> RunContext:
        """Return the live part, if the run is being executed here."""
        if self.live is None:
            remedy = "use it inside the task, on the run that a worker hands to it"
            raise UsageError(what, self.label, "is a run that is not being executed here", remedy)
        return self.live

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        window = None
        if self.window is not None:
            window = [iso_or_none(self.window[0]), iso_utc(self.window[1])]
        late = self.lateness
        return {
            "id": str(self.id),
            "label": self.label,
            "schedule": self.schedule,
            "schedule_id": None if self.schedule_id is None else str(self.schedule_id),
            "key": self.key,
            "scheduled_for": iso_utc(self.scheduled_for),
            "window": window,
            "attempt": self.attempt,
            "fence": self.fence,
            "origin": self.origin,
            "root": str(self.root),
            "lane": self.lane,
            "state": self.state,
            "reason": self.reason,
            "task": self.task,
            "arguments": self.arguments,
            "queue": self.queue,
            "priority": self.priority,
            "due_at": iso_utc(self.due_at),
            "created_at": iso_utc(self.created_at),
            "fired_at": iso_or_none(self.fired_at),
            "finished_at": iso_or_none(self.finished_at),
            "lateness": None if late is None else duration_text(late // timedelta(microseconds=1)),
            "charged": self.charged,
            "worker": self.worker,
            "claimed_at": iso_or_none(self.claimed_at),
            "started_at": iso_or_none(self.started_at),
            "progress": progress_json(self.last_progress),
            "cancel_asked_at": iso_or_none(self.cancel_asked_at),
            "next_at": iso_or_none(self.next_at),
            "error": self.error,
            "result": self.result,
        }


_SHOWN = ("id", "due_at", "is_new", "key", "label")


class EnqueuedRun:
    """The answer to an order: the run that was promised, and whether this call made it.

    Who orders ten thousand at once looks at few of them: what it shows is made when it is asked.
    """

    __slots__ = ("_due_us", "_id", "_name", "_tz", "is_new", "key")

    def __init__(  # noqa: PLR0913 - what was promised, and how people call it
        self,
        run_id: bytes,
        due_us: int,
        *,
        is_new: bool,
        key: str | None,
        name: str,
        tz: str | None = None,
    ) -> None:
        """Take it as the store tells it; the name and the zone are for the label."""
        self._id = run_id
        self._due_us = due_us
        self.is_new = is_new
        self.key = key
        self._name = name
        self._tz = tz

    @property
    def id(self) -> UUID:
        """The run's id."""
        return UUID(bytes=self._id)

    @property
    def due_at(self) -> datetime:
        """When it is due."""
        return from_microseconds(self._due_us)

    @property
    def label(self) -> str:
        """What people call it."""
        return run_label(self._name, self._due_us, self._tz)

    def called(self, name: str, tz: str | None) -> EnqueuedRun:
        """Return it under another name, in a zone's own time."""
        return EnqueuedRun(
            self._id, self._due_us, is_new=self.is_new, key=self.key, name=name, tz=tz
        )

    def __eq__(self, other: object) -> bool:
        """Say whether both are the same answer."""
        return isinstance(other, EnqueuedRun) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        """Hash what tells runs apart."""
        return hash(self._id)

    def __repr__(self) -> str:
        """Write it with all that it shows."""
        told = (f"{name}={getattr(self, name)!r}" for name in _SHOWN)
        return f"EnqueuedRun({', '.join(told)})"

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "due_at": iso_utc(self.due_at),
            "is_new": self.is_new,
            "key": self.key,
            "label": self.label,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class DelayedRun:
    """A delayed run that is still pending: it can be moved, cancelled or replaced."""

    id: UUID
    label: str
    key: str | None
    task: str
    arguments: dict[str, Any]
    queue: str
    priority: int
    due_at: datetime
    moves: int
    """How often it was moved."""
    created_at: datetime

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "label": self.label,
            "key": self.key,
            "task": self.task,
            "arguments": self.arguments,
            "queue": self.queue,
            "priority": self.priority,
            "due_at": iso_utc(self.due_at),
            "moves": self.moves,
            "created_at": iso_utc(self.created_at),
        }


def run_view(record: RunRecord, tz: str | None) -> Run:
    """Show a run; `tz` is the zone of its schedule, which its label is written in."""
    name = record.schedule_name or record.key or record.call.task
    window = None
    if record.schedule_id is not None and record.origin is not Origin.MANUAL:
        since = moment_or_none(record.window_from)
        window = (since, from_microseconds(record.scheduled_for))
    late_us = None if record.fired_at is None else record.fired_at - record.not_before
    return Run(
        id=UUID(bytes=record.id),
        label=run_label(name, record.scheduled_for, tz),
        tz=tz,
        schedule=record.schedule_name,
        schedule_id=None if record.schedule_id is None else UUID(bytes=record.schedule_id),
        key=record.key,
        scheduled_for=from_microseconds(record.scheduled_for),
        window=window,
        attempt=record.tries.attempt,
        fence=record.tries.fence,
        origin=str(record.origin),
        root=UUID(bytes=record.root),
        lane=str(record.lane),
        state=str(record.state),
        reason=None if record.state_reason is None else str(record.state_reason),
        task=record.call.task,
        arguments=json.loads(record.call.arguments),
        queue=record.call.queue,
        priority=record.call.priority,
        due_at=from_microseconds(record.not_before),
        created_at=from_microseconds(record.created_at),
        fired_at=moment_or_none(record.fired_at),
        finished_at=moment_or_none(record.finished_at),
        lateness=None if late_us is None else timedelta(microseconds=late_us),
        charged=record.tries.charged,
        worker=record.worker,
        claimed_at=moment_or_none(record.claimed_at),
        started_at=moment_or_none(record.started_at),
        last_progress=record.progress,
        cancel_asked_at=moment_or_none(record.cancel_asked_at),
        next_at=moment_or_none(record.next_at),
        error=record.error,
        result=None if record.result is None else json.loads(record.result),
    )


def delayed_view(record: DelayedRecord) -> DelayedRun:
    """Show a delayed run that is pending."""
    return DelayedRun(
        id=UUID(bytes=record.id),
        label=run_label(record.key or record.call.task, record.due_at, None),
        key=record.key,
        task=record.call.task,
        arguments=json.loads(record.call.arguments),
        queue=record.call.queue,
        priority=record.call.priority,
        due_at=from_microseconds(record.due_at),
        moves=record.generation - 1,
        created_at=from_microseconds(record.created_at),
    )


def progress_json(progress: Progress | None) -> dict[str, Any] | None:
    """Return progress as JSON values."""
    if progress is None:
        return None
    return {"done": progress.done, "total": progress.total, "note": progress.note}
