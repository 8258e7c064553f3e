"""Spans of orders: what a program is told to have promised, in its own trace and in the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from duly.domain.identity import identity_text
from duly.telemetry.tracing import SPANS_AT_ONCE_MAX, SpanFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.identity import RunId
    from duly.domain.runs import RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.backfilling import BackfillRecord
    from duly.store.planning import AddedRun, CreatedSchedule, NewRun
    from duly.telemetry.tracing import Tracing

T = TypeVar("T")
PROMISE, SCHEDULE, ORDER = "promise", "schedule", "order"


def told_order(
    tracing: Tracing | None, give: Callable[[], T], spans_of: Callable[[T], list[SpanFacts]]
) -> T:
    """Give an order about what was promised before; tell of it in its trace and in the caller's."""
    if tracing is None:
        return give()
    with tracing.promising(ORDER) as promising:
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
