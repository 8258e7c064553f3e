"""Spans of orders: what a program is told to have promised, in its own trace and in the run's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.identity import identity_text
from duly.telemetry.tracing import SPANS_AT_ONCE_MAX, SpanFacts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.store.planning import AddedRun, CreatedSchedule, NewRun

PROMISE, SCHEDULE = "promise", "schedule"


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
    about = {
        "duly.schedule.id": identity_text(record.id),
        "duly.schedule.name": record.name,
        "duly.task": record.definition.call.task,
        "duly.tenant": record.tenant,
    }
    name = f"schedule {record.definition.call.task}"
    return [SpanFacts(name=name, of=record.id, is_first=True, attributes=about)]


def _schedule_of(run: NewRun) -> dict[str, str]:
    if run.schedule_id is None:
        return {}
    return {"duly.schedule.id": identity_text(run.schedule_id)}
