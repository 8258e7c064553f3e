"""Enqueue, enqueue_many, move, cancel of delayed runs; their spans."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from duly.client.parameters import (
    Delay,
    Instant,
    check_reachable,
    read_delay,
    read_instant,
    read_key,
)
from duly.client.run_view import DelayedRun, EnqueuedRun, Run, delayed_view, run_view
from duly.client.tasks import AnyTask, BoundCall, read_call
from duly.domain.enums import Lane, Origin
from duly.domain.ids import RunId, drawn_run_ids, identity_text, is_occurrence_id, read_identity
from duly.errors import UsageError
from duly.store.ports.schedules import AddRuns, CancelDelayed, MoveDelayed, NewRun
from duly.store.runs_alike import UniformRuns
from duly.telemetry.tracing import SPANS_AT_ONCE_MAX, SpanFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from duly.client.caller import Caller
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import Call, ScheduleRecord
    from duly.store.ports.backfill import BackfillRecord
    from duly.store.ports.schedules import AddedRun, CreatedSchedule
    from duly.telemetry.tracing import Tracing


T = TypeVar("T")
PROMISE, SCHEDULE, ORDER = "promise", "schedule", "order"


def with_order_span(
    tracing: Tracing | None, give: Callable[[], T], spans_of: Callable[[T], list[SpanFacts]]
) -> T:
    """Give an order about what was promised before; tell of it in its trace and in the caller's."""
    if tracing is None:
        return give()
    with tracing.order_span(ORDER) as promising:
        done = give()
        promising.tell(spans_of(done), 0)
        return done


def promise_spans(runs: Sequence[NewRun], added: Sequence[AddedRun]) -> list[SpanFacts]:
    """Return the first spans of runs that an order has made; of an order given again, none."""
    pairs = zip(runs[:SPANS_AT_ONCE_MAX], added[:SPANS_AT_ONCE_MAX], strict=True)
    return [
        SpanFacts(
            name=f"promise {run.call.task}",
            of=one.id,
            is_first=True,
            kind="producer",
            attributes={
                "duly.run.id": identity_text(one.id),
                "duly.task": run.call.task,
                "duly.queue": run.call.queue,
                "duly.lane": str(run.lane),
                "duly.origin": str(run.origin),
                "duly.tenant": run.tenant,
                **_schedule_of(run),
            },
            links=() if run.schedule_id is None else (run.schedule_id,),
        )
        for run, one in pairs
        if one.is_new
    ]


def schedule_spans(created: CreatedSchedule) -> list[SpanFacts]:
    """Return the first span of a schedule, to which every fire of it leads back."""
    record = created.record
    if not created.is_new:
        return []
    name = f"schedule {record.definition.call.task}"
    return [SpanFacts(name=name, of=record.id, is_first=True, attributes=_about(record))]


def order_spans(record: ScheduleRecord, action: str | None) -> list[SpanFacts]:
    """Return what is told of a changed schedule, in its own trace; None changed nothing."""
    if action is None:
        return []
    return [SpanFacts(name=action, of=record.id, attributes=_about(record))]


def backfill_spans(record: BackfillRecord, name: str) -> list[SpanFacts]:
    """Return what is told of a backfill, in the trace of its schedule."""
    about = {
        "duly.backfill.id": identity_text(record.id),
        "duly.schedule.id": identity_text(record.schedule_id),
        "duly.tenant": record.tenant,
    }
    return [SpanFacts(name=name, of=record.schedule_id, attributes=about)]


def rerun_spans(made: RunRecord, of: RunId) -> list[SpanFacts]:
    """Return what is told of a run that is done once more; it leads to the new one."""
    about = {
        "duly.run.id": identity_text(of),
        "duly.rerun.id": identity_text(made.id),
        "duly.task": made.call.task,
        "duly.tenant": made.tenant,
    }
    return [SpanFacts(name="run.rerun", of=of, attributes=about, links=(made.id,))]


def _about(record: ScheduleRecord) -> dict[str, str]:
    return {
        "duly.schedule.id": identity_text(record.id),
        "duly.schedule.name": record.name,
        "duly.task": record.definition.call.task,
        "duly.tenant": record.tenant,
    }


def _schedule_of(run: NewRun) -> dict[str, str]:
    if run.schedule_id is None:
        return {}
    return {"duly.schedule.id": identity_text(run.schedule_id)}


RUN_IN_PAST = "run"


@dataclass(frozen=True, slots=True)
class DueTime:
    """When a run is wanted: at an instant, after a delay by the store's clock, or at once."""

    due_at: int | None
    delay_us: int | None
    is_late_ok: bool

    @property
    def is_now(self) -> bool:
        """Whether it is wanted at once."""
        return self.due_at is None and self.delay_us is None


def read_when(at: Instant | None, delay: Delay | None, past: str | None) -> DueTime:
    """Read when a run is wanted; one way of saying it at a time."""
    if past not in (None, RUN_IN_PAST):
        remedy = "give past='run' to run at once what lies in the past, or leave it out"
        raise UsageError("past", past, "is not a choice", remedy)
    if at is not None and delay is not None:
        raise UsageError("delay", delay, "contradicts `at`", "give one of the two")
    return DueTime(
        due_at=None if at is None else read_instant("at", at),
        delay_us=None if delay is None else read_delay("delay", delay),
        is_late_ok=past == RUN_IN_PAST,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class EnqueueOptions:
    """On which terms runs are ordered: all but the call itself."""

    when: DueTime
    key: str | None = None
    queue: str | None = None
    priority: int | None = None
    replaces: bool = False
    ids: Sequence[UUID] | None = None
    """Of each run, if the caller brings them."""
    connection: object | None = None


def enqueue(
    caller: Caller, calls: Iterable[BoundCall | AnyTask], terms: EnqueueOptions
) -> list[EnqueuedRun]:
    """Make a run of each call in one transaction; more than it can hold is refused."""
    most = caller.settings.runs_per_order_max
    try:
        taken = list(islice(calls, most + 1))
    except TypeError as error:
        remedy = "give a list of calls, such as [task.bind(1), task.bind(2)]"
        raise UsageError("calls", calls, "are not calls of tasks", remedy) from error
    if len(taken) > most:
        problem = "are more calls than one transaction takes"
        raise UsageError("calls", f"{most:,} and more", problem, f"split them: {most:,} at a time")
    _check_delay(caller, terms.when)
    runs = _runs_alike(caller, taken, terms) or _new_runs(caller, taken, terms)
    return add_runs(caller, runs, terms.connection)


def add_runs(
    caller: Caller,
    runs: Sequence[NewRun],
    connection: object | None = None,
    reason: str | None = None,
) -> list[EnqueuedRun]:
    """Make runs, all or none, and say what was promised."""
    if not runs:
        return []
    order = AddRuns(runs=runs, actor=caller.ordering(reason))
    with caller.joining(connection):
        if caller.tracing is None:
            added = caller.store.add_runs(order)
        else:
            with caller.tracing.order_span(PROMISE) as promising:
                added = caller.store.add_runs(order)
                promising.tell(promise_spans(runs, added), len(added))
    if isinstance(runs, UniformRuns):
        task = runs.task
        return [
            EnqueuedRun(run_id, due_at, is_new=is_new, key=None, name=task)
            for run_id, due_at, is_new in added
        ]
    return [
        EnqueuedRun(
            one.id, one.due_at, is_new=one.is_new, key=run.key, name=run.key or run.call.task
        )
        for run, one in zip(runs, added, strict=True)
    ]


def _runs_alike(
    caller: Caller, calls: Sequence[BoundCall | AnyTask], terms: EnqueueOptions
) -> UniformRuns | None:
    """Return the orders as one, if they are for later and nothing but arguments tells them apart.

    None if it is not so, or if anything else is said of them: a key, an id.
    """
    when = terms.when
    first = calls[0] if calls else None
    if not isinstance(first, BoundCall) or when.is_now or terms.key is not None or terms.ids:
        return None
    told = first.task, first.queue, first.priority
    arguments: list[str] = []
    for call in calls:
        if type(call) is not BoundCall or (call.task, call.queue, call.priority) != told:
            return None
        arguments.append(call.payload)
    asked = read_call(first, terms.queue, terms.priority)
    return UniformRuns(
        tenant=caller.tenant,
        task=asked.task,
        queue=asked.queue,
        priority=asked.priority,
        origin=Origin.DELAY,
        lane=Lane.LIVE,
        due_at=when.due_at,
        delay_us=when.delay_us,
        is_late_ok=when.is_late_ok,
        ids=_order_ids(caller, terms, len(calls)),
        arguments=arguments,
    )


def _new_runs(
    caller: Caller, calls: Sequence[BoundCall | AnyTask], terms: EnqueueOptions
) -> list[NewRun]:
    """Return the orders; what is the same for all is worked out once, and so is a call.

    An id that was drawn for an order says what was asked for; who brings an id or a key may ask for
    something else under it, and the fingerprint tells.
    """
    when, tenant = terms.when, caller.tenant
    origin = Origin.NOW if when.is_now else Origin.DELAY
    is_drawn = terms.ids is None
    ids = _order_ids(caller, terms, len(calls))
    has_fingerprint = terms.key is not None or not is_drawn
    last: object = None
    call: Call | None = None
    fingerprint = ""
    runs: list[NewRun] = []
    for given, run_id in zip(calls, ids, strict=True):
        if call is None or given is not last:
            last, call = given, read_call(given, terms.queue, terms.priority)
            fingerprint = _fingerprint(call, when) if has_fingerprint else ""
        runs.append(
            NewRun(
                id=run_id,
                tenant=tenant,
                call=call,
                origin=origin,
                lane=Lane.LIVE,
                due_at=when.due_at,
                delay_us=when.delay_us,
                is_late_ok=when.is_late_ok,
                key=terms.key,
                replaces=terms.replaces,
                fingerprint=fingerprint,
                is_drawn=is_drawn,
            )
        )
    return runs


def move(caller: Caller, key_or_id: str | UUID, when: DueTime, reason: str | None) -> DelayedRun:
    """Move a pending delayed run to another instant."""
    if when.is_now:
        remedy = "give `at` or `delay`"
        raise UsageError("at", None, "says no instant to move to", remedy)
    _check_delay(caller, when)
    key, run_id = read_reference(key_or_id)
    command = MoveDelayed(
        tenant=caller.tenant,
        key=key,
        id=run_id,
        due_at=when.due_at,
        delay_us=when.delay_us,
        is_late_ok=when.is_late_ok,
        actor=caller.ordering(reason),
    )
    return delayed_view(caller.store.move_delayed(command))


def cancel(caller: Caller, key_or_id: str | UUID, reason: str | None) -> Run:
    """Cancel a pending delayed run; what is left is its record, with the reason."""
    key, run_id = read_reference(key_or_id)
    actor = caller.ordering(reason)
    command = CancelDelayed(tenant=caller.tenant, key=key, id=run_id, actor=actor)
    return run_view(caller.store.cancel_delayed(command), None)


def _check_delay(caller: Caller, when: DueTime) -> None:
    if when.delay_us is not None:
        check_reachable("delay", when.delay_us, caller.clock.now_us())


def _fingerprint(call: Call, when: DueTime) -> str:
    """Hash what is asked for, so that the same request made again is recognised."""
    parts = (call.task, call.arguments, call.queue, call.priority, when.due_at, when.delay_us)
    return blake2b(repr(parts).encode(), digest_size=16).hexdigest()


def _order_ids(caller: Caller, terms: EnqueueOptions, count: int) -> list[RunId]:
    """Return an id for each run of an order."""
    if terms.ids is not None:
        return _read_order_ids(terms.ids, count)
    at = terms.when.due_at
    if at is None:
        at = caller.clock.now_us() + (terms.when.delay_us or 0)
    ids: list[RunId] = []
    while len(ids) < count:
        ids = drawn_run_ids(at, caller.draws.draw(2 + 8 * count))
    return ids


def _read_order_ids(given: Sequence[UUID], count: int) -> list[RunId]:
    ids = [read_order_id(one) for one in given]
    if len(ids) != count or len(set(ids)) != count:
        remedy = "give a UUID for each call, no two the same"
        raise UsageError("ids", f"{len(set(ids)):,} ids", f"are not {count:,}", remedy)
    return ids


def read_order_id(given: object) -> RunId:
    """Read the id that a caller brings for a run that is ordered."""
    if not isinstance(given, UUID | str | bytes):
        raise UsageError("id", given, "is not an id", "give a UUID of version 4 or 7")
    identity = read_identity(given, "id")
    if is_occurrence_id(identity):
        problem = "is of the kind that belongs to the occurrences of schedules"
        raise UsageError("id", given, problem, "give a UUID of version 4 or 7")
    return RunId(identity)


def read_reference(key_or_id: object) -> tuple[str | None, RunId | None]:
    """Tell a key (a text) from an id (a UUID)."""
    if isinstance(key_or_id, UUID):
        return None, RunId(key_or_id.bytes)
    if key_or_id is None:
        remedy = "give the key (a text) or the id (a UUID) of a delayed run"
        raise UsageError("key", key_or_id, "names no delayed run", remedy)
    return read_key(key_or_id), None
