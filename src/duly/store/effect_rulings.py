"""Rulings about doubt: what every store decides alike about runs that are in doubt, and reruns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.domain.audit import AuditSubject
from duly.domain.effects import Choice
from duly.domain.enums import Effects, Origin, RunState
from duly.domain.ids import identity_text
from duly.domain.runs import Reason
from duly.errors import Conflict
from duly.store.auditing import run_subject
from duly.store.rulings import refuse_others_id
from duly.store.work_rulings import not_in_doubt, unknown_run
from duly.timetable.instants import from_microseconds, iso_utc

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord, TaskPolicy
    from duly.domain.verification import Scope
    from duly.store.ports.effects import AddVerdict, Rerun, ResolveAmbiguousRun, TaskOrder

OPEN_TO_END = frozenset((RunState.BLOCKED, RunState.QUEUED, RunState.RUNNING, RunState.RETRYING))
REPEATABLE = frozenset(RunState) - OPEN_TO_END
"""States of runs that can be run once more, as another run."""
REPEATING = frozenset((Origin.RERUN, Origin.REPAIR))
LOOK_AGAIN = "look at it again, and decide anew"
EFFECTS_SCHEMA = 4
"""The first schema whose programs know that some effects may not be repeated."""


def unsafe_among(policies: Mapping[str, TaskPolicy]) -> list[str]:
    """Return the tasks whose runs must never come into the hands of an older program."""
    return sorted(name for name, one in policies.items() if one.effects is Effects.UNSAFE)


def restricted_subject(tasks: list[str]) -> AuditSubject:
    """Return what is told when programs of older schemas are refused from now on."""
    return AuditSubject(name="programs", after={"schema_min": EFFECTS_SCHEMA, "because_of": tasks})


def doubt_to_settle(record: RunRecord | None, command: ResolveAmbiguousRun) -> RunRecord:
    """Return the run that an order is about, if it is in the doubt that was looked into."""
    if record is None or record.tenant != command.tenant:
        raise unknown_run(command.id)
    if record.state is not RunState.AMBIGUOUS:
        raise not_in_doubt(command.id, record.state)
    if command.doubt is not None and command.doubt != record.tries.fence:
        remedy = "look at it again: what was found out may be true no longer"
        name = identity_text(command.id)
        raise Conflict("run", name, "was tried again since, and is in doubt anew", remedy)
    if command.choice is Choice.REPAIR:
        name = identity_text(command.id)
        raise Conflict("run", name, "is repaired by another run", "rerun it")
    return record


def closed_as(command: ResolveAmbiguousRun, scope: Scope) -> tuple[RunState, Reason] | None:
    """Return how a decision closes a run; None if the run goes on.

    A run with items missing is closed as done only on purpose, and with a reason of its own.
    """
    if command.choice is Choice.SKIP:
        return RunState.SKIPPED, Reason.ORDERED
    if command.choice is not Choice.RECONCILE:
        return None
    if not command.is_done:
        return RunState.FAILED, Reason.RECONCILED
    if not scope.has_missing:
        return RunState.SUCCEEDED, Reason.RECONCILED
    if not command.is_despite_missing:
        problem = f"has {scope.count_text}: closed as done, the rest stays undone"
        remedy = "retry it, which goes on with the rest; or give despite_missing, with the reason"
        raise Conflict("run", identity_text(command.id), problem, remedy)
    return RunState.SUCCEEDED, Reason.RECONCILED_INCOMPLETE


def settled_subject(
    record: RunRecord, command: ResolveAmbiguousRun, settled: Mapping[str, bool]
) -> AuditSubject:
    """Return what is told of a doubt that was settled, with its effects."""
    return run_subject(
        record.id,
        record.tenant,
        before={"state": str(record.state), "reason": record.state_reason},
        after=_settled_facts(command, settled),
    )


def is_settled_by(command: AddVerdict, record: RunRecord) -> bool:
    """Say whether a verdict is about the doubt in which a run is now.

    What was looked at before the run was tried again says nothing about what that has done.
    """
    return record.state is RunState.AMBIGUOUS and record.tries.fence == command.doubt


def verdict_subject(record: RunRecord, command: AddVerdict) -> AuditSubject:
    """Return what is told of what was found about a run."""
    after = {"finding": str(command.finding), "by": command.by}
    return run_subject(record.id, record.tenant, after=after)


def _settled_facts(command: ResolveAmbiguousRun, settled: Mapping[str, bool]) -> dict[str, Any]:
    facts: dict[str, Any] = {"choice": str(command.choice), "advised": command.advised}
    if command.choice is Choice.RECONCILE:
        facts["done"] = command.is_done
        if command.is_despite_missing:
            facts["despite_missing"] = True
    facts["effects"] = dict(sorted(settled.items()))
    if command.evidence is not None:
        facts["evidence"] = command.evidence
    return facts


def task_subject(task: str, before: TaskOrder, after: TaskOrder) -> AuditSubject:
    """Return what is told of an order about a task."""
    return AuditSubject(name=task, before=_order_facts(before), after=_order_facts(after))


def _order_facts(order: TaskOrder) -> dict[str, Any]:
    return {"suspended": order.is_suspended, "blocked": order.is_blocked}


def run_to_repeat(record: RunRecord | None, command: Rerun, now: int) -> RunRecord:
    """Return the run that is to be run once more, if it may be; one in doubt only as a repair."""
    if record is None or record.tenant != command.tenant:
        raise unknown_run(command.id)
    name = identity_text(record.id)
    if record.state not in REPEATABLE:
        problem = f"is still to end: {record.state}"
        raise Conflict("run", name, problem, "wait for it, or cancel it")
    if record.state is RunState.AMBIGUOUS and not command.is_repair:
        raise Conflict("run", name, "is in doubt", "settle it first, or rerun it as a repair")
    if record.scheduled_for > now:
        # It was called off before its time, and what repeats it would be early.
        due = iso_utc(from_microseconds(record.scheduled_for))
        raise Conflict("run", name, f"was to fall due at {due}", "enqueue another one for then")
    if command.fence not in (None, record.tries.fence):
        raise Conflict("run", name, "has had another attempt since it was seen", LOOK_AGAIN)
    return record


def refuse_open_line(record: RunRecord, other: RunId | None) -> None:
    """Refuse a repair while another run that shares the ledger is open, if there is one."""
    if other is not None:
        problem = f"shares its record of effects with a run that is open: {identity_text(other)}"
        remedy = "wait for that one or cancel it; if it is in doubt, settle it"
        raise Conflict("run", identity_text(record.id), problem, remedy)


def repeated_meanwhile(record: RunRecord) -> Conflict:
    """Return the error for a rerun of what somebody else has run once more since."""
    problem = "has been run once more since it was seen"
    return Conflict("run", identity_text(record.id), problem, LOOK_AGAIN)


def same_rerun(known: RunRecord, command: Rerun) -> RunRecord:
    """Return the run that an order made when it was given before; another tenant's is refused."""
    refuse_others_id(command.new_id, known.tenant, command.tenant)
    return known


def rerun_subject(record: RunRecord, command: Rerun) -> AuditSubject:
    """Return what is told of a run that repeats another."""
    after: dict[str, Any] = {"origin": str(command.origin), "of": record.id.hex()}
    if command.effects:
        after["effects"] = dict(sorted(command.effects.items()))
    return run_subject(command.new_id, record.tenant, after=after)


def reruns_blocked(task: str) -> Conflict:
    """Return the error for a rerun of a task whose reruns are blocked."""
    return Conflict("task", task, "has its reruns blocked", "allow them again, if that is safe")
