"""Spans of dispatchers and workers: what is told of a fire, of an attempt, and of its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from duly.domain.enums import AttemptState, Lane, Origin, RunState
from duly.domain.ids import identity_text
from duly.domain.outcomes import Close, DeadLetter, MarkAmbiguous, Requeue, RetryLater
from duly.domain.runs import attempt_name
from duly.store.ports.dispatch import FireOnTime, FirePlanned
from duly.telemetry.tracing import SpanFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from duly.domain.fire_planning import PlannedRun, ScheduleVersion
    from duly.domain.outcomes import Conclusion, Next
    from duly.engine.dispatcher.timer_wheel import LoadedTimer
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun, LostClaim

TOLD_BY_NOBODY = frozenset((Origin.BACKFILL, Origin.RERUN, Origin.REPAIR, Origin.VERIFY))
"""Origins of runs that the store makes by itself: who executes one first tells its first span."""
_WRONG = frozenset((AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST))


def fire_spans(entries: Iterable[LoadedTimer], now: int, member: int) -> Iterator[SpanFacts]:
    """Return what is told of timers that have fired: a span for each run."""
    for entry in entries:
        fire, template = entry.fire, entry.template
        about: dict[str, str | int]
        late = {"duly.lateness_us": now - entry.due_at, "duly.dispatcher": member}
        if entry.kind != "schedule":
            # The run was there before: whoever has promised it has told its first span.
            about = {"duly.run.id": identity_text(entry.ref), "duly.timer": entry.kind, **late}
            yield SpanFacts(name="fire", of=entry.ref, kind="producer", attributes=about)
        elif isinstance(fire, FireOnTime):
            about = {"duly.run.id": identity_text(fire.run_id), "duly.lane": Lane.LIVE, **late}
            yield _first(fire.run_id, template, about)
        elif isinstance(fire, FirePlanned):
            yield from made_spans(fire.plan.settlement.runs, template, member)


def made_spans(
    runs: Iterable[PlannedRun], template: ScheduleVersion | None, member: int
) -> Iterator[SpanFacts]:
    """Return what is told of runs that were made late, in catch-up, or for a backfill."""
    for run in runs:
        about = {"duly.run.id": identity_text(run.run_id), "duly.lane": str(run.lane)}
        yield _first(run.run_id, template, {**about, "duly.dispatcher": member})


def _first(
    run_id: bytes, template: ScheduleVersion | None, about: dict[str, str | int]
) -> SpanFacts:
    links: tuple[bytes, ...] = ()
    name = "fire"
    if template is not None:
        call = template.definition.call
        about |= {
            "duly.schedule.id": identity_text(template.schedule_id),
            "duly.task": call.task,
            "duly.queue": call.queue,
        }
        name, links = f"fire {call.task}", (template.schedule_id,)
    return SpanFacts(
        name=name, of=run_id, is_first=True, kind="producer", attributes=about, links=links
    )


def attempt_span(claimed: ClaimedRun, worker: MemberId) -> SpanFacts:
    """Return what is told of an attempt while it goes on."""
    record, tries = claimed.record, claimed.tries
    run = identity_text(claimed.run_id)
    about: dict[str, str | int] = {
        "duly.run.id": run,
        "duly.attempt.id": attempt_name(run, tries.attempt),
        "duly.attempt.number": tries.attempt,
        "duly.fence": claimed.fence,
        "duly.task": claimed.task,
        "duly.queue": claimed.queue,
        "duly.lane": str(record.lane),
        "duly.origin": str(record.origin),
        "duly.tenant": record.tenant,
        "duly.worker": int(worker),
    }
    if record.schedule_id is not None:
        about["duly.schedule.id"] = identity_text(record.schedule_id)
        about["duly.schedule.name"] = record.schedule_name or ""
    name = f"attempt {claimed.task}"
    return SpanFacts(name=name, of=record.id, kind="consumer", attributes=about)


def queued_span(claimed: ClaimedRun) -> SpanFacts | None:
    """Return the first span of a run, if nobody has told it: how long the run was queued."""
    record = claimed.record
    if record.origin not in TOLD_BY_NOBODY or claimed.tries.attempt != 1:
        return None
    about: dict[str, str | int] = {
        "duly.run.id": identity_text(record.id),
        "duly.task": claimed.task,
        "duly.queue": claimed.queue,
        "duly.lane": str(record.lane),
        "duly.origin": str(record.origin),
    }
    links = () if record.root == record.id else (record.root,)
    name = f"fire {claimed.task}"
    return SpanFacts(name=name, of=record.id, is_first=True, attributes=about, links=links)


def lost_span(claim: LostClaim, conclusion: Conclusion) -> SpanFacts:
    """Return what is told of an attempt whose worker can tell no more."""
    run = identity_text(claim.hold.run_id)
    about: dict[str, str | int] = {
        "duly.run.id": run,
        "duly.attempt.id": attempt_name(run, claim.tries.attempt),
        "duly.attempt.number": claim.tries.attempt,
        "duly.fence": claim.hold.fence,
        "duly.task": claim.task,
        "duly.worker": claim.worker,
        "duly.cause": str(claim.kind),
        **end_attributes(conclusion),
    }
    return SpanFacts(name=f"lost {claim.task}", of=claim.hold.run_id, attributes=about)


def end_attributes(conclusion: Conclusion) -> dict[str, str]:
    """Return how an attempt ended, and where its run is now."""
    return {
        "duly.attempt.state": str(conclusion.attempt_state),
        "duly.attempt.reason": str(conclusion.reason or ""),
        "duly.run.then": place_after(conclusion.next),
    }


def error_of(conclusion: Conclusion) -> str | None:
    """Return the error of an attempt that went wrong; None of one that did not."""
    if conclusion.attempt_state not in _WRONG:
        return None
    return conclusion.error or str(conclusion.reason or conclusion.attempt_state)


def place_after(following: Next) -> str:
    """Return where a run is after an attempt: retrying, queued, dead, in doubt, or its outcome."""
    match following:
        case Close(state=state):
            return str(state)
        case RetryLater():
            return str(RunState.RETRYING)
        case Requeue():
            return str(RunState.QUEUED)
        case DeadLetter():
            return str(RunState.DEAD)
        case MarkAmbiguous():
            return str(RunState.AMBIGUOUS)
        case _:
            assert_never(following)
