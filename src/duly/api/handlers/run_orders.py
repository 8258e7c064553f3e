"""Orders about single runs over HTTP: stop, retry, decide what is in doubt, run once more.

An order that finds the run in another state than it needs is a conflict, and nothing was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import order, reference_of
from duly.domain.enums import RunState
from duly.errors import Conflict, UsageError
from duly.interface.runs import (
    EditRun,
    Justified,
    NoTerms,
    ReasonBody,
    ReconcileRun,
    RerunRun,
    ResumeRun,
    RetryRun,
    Run,
)

if TYPE_CHECKING:
    from uuid import UUID

    from duly.api.route import ApiRequest, Route
    from duly.client.runs import OrderedRun


def cancel_run(received: ApiRequest) -> Run:
    """Stop a run: at once where nobody runs it, by asking where somebody does."""
    asked: ReasonBody = received.body
    return Run.from_view(received.app.runs.cancel(_run(received), reason=asked.reason))


def retry_run(received: ApiRequest) -> Run:
    """Try a run again that is dead, waits, or is ambiguous."""
    asked: RetryRun = received.body
    app = received.app
    found = app.runs.get(_run(received))
    if found.state == RunState.AMBIGUOUS:
        again = app.inbox.retry(
            found.id, reason=asked.reason or "", effects=asked.effects, confirm=asked.confirm
        )
        return Run.from_view(again)
    if asked.effects:
        remedy = "look at the run again, and leave the effects out"
        raise UsageError("effects", sorted(asked.effects), "are about a run in doubt", remedy)
    (done,) = app.runs.retry(found.id, reason=asked.reason)
    _require_done(
        done, "can't be retried", "retry what is dead, waits to be retried or is ambiguous"
    )
    return Run.from_view(app.runs.get(found.id))


def discard_run(received: ApiRequest) -> Run:
    """Give up a dead run for good; its record stays."""
    asked: Justified = received.body
    found = received.app.runs.get(_run(received))
    (done,) = received.app.runs.discard(found.id, reason=asked.reason)
    _require_done(done, "can't be discarded", "discard what is dead, and cancel what is not over")
    return Run.from_view(received.app.runs.get(found.id))


def edit_run(received: ApiRequest) -> Run:
    """Give a dead run other arguments, all of them; then retry it."""
    asked: EditRun = received.body
    edited = received.app.runs.edit(_run(received), asked.arguments, reason=asked.reason)
    return Run.from_view(edited)


def resume_run(received: ApiRequest) -> Run:
    """Try an ambiguous run again from its last checkpoint."""
    asked: ResumeRun = received.body
    resumed = received.app.inbox.resume(
        _run(received), reason=asked.reason, effects=asked.effects, confirm=asked.confirm
    )
    return Run.from_view(resumed)


def reconcile_run(received: ApiRequest) -> Run:
    """Record what was found outside about an ambiguous run: it is done, or it is not."""
    asked: ReconcileRun = received.body
    settled = received.app.inbox.reconcile(
        _run(received),
        is_done=asked.is_done,
        reason=asked.reason,
        evidence=asked.evidence,
        effects=asked.effects,
        despite_missing=asked.despite_missing,
    )
    return Run.from_view(settled)


def skip_run(received: ApiRequest) -> Run:
    """Leave an ambiguous run as it is, and record that nobody will do more about it."""
    asked: Justified = received.body
    return Run.from_view(received.app.inbox.skip(_run(received), reason=asked.reason))


def rerun_run(received: ApiRequest) -> Run:
    """Run once more, as another run, what a run was to do."""
    asked: RerunRun = received.body
    made = received.app.inbox.rerun(
        _run(received),
        reason=asked.reason,
        repair=asked.repair,
        effects=asked.effects,
        confirm=asked.confirm,
        id=received.order_id(),
    )
    return Run.from_view(made)


def verify_run(received: ApiRequest) -> Run:
    """Have a run checked by its task's own check; the run that does it is returned."""
    return Run.from_view(received.app.inbox.verify(_run(received), id=received.order_id()))


def _run(received: ApiRequest) -> UUID | str:
    return reference_of(received.path["run"])


def _require_done(ordered: OrderedRun, problem: str, remedy: str) -> None:
    if not ordered.is_done:
        raise Conflict("run", str(ordered.id), f"is {ordered.state}: it {problem}", remedy)


ROUTES: tuple[Route, ...] = (
    order("/runs/{run}", edit_run, EditRun, Run, method="PATCH"),
    order("/runs/{run}/cancel", cancel_run, ReasonBody, Run),
    order("/runs/{run}/discard", discard_run, Justified, Run),
    order("/runs/{run}/reconcile", reconcile_run, ReconcileRun, Run, is_once_only=True),
    order("/runs/{run}/rerun", rerun_run, RerunRun, Run, status=201),
    order("/runs/{run}/resume", resume_run, ResumeRun, Run, is_once_only=True),
    order("/runs/{run}/retry", retry_run, RetryRun, Run, is_once_only=True),
    order("/runs/{run}/skip", skip_run, Justified, Run),
    order("/runs/{run}/verify", verify_run, NoTerms, Run, status=201),
)
