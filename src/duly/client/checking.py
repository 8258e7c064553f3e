"""Checks in a program's hands: a task's own look at what its runs have brought about."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from duly.client.json_values import plain_value
from duly.client.run_view import Run  # noqa: TC001 - read when the check is made a task
from duly.client.runs import Runs
from duly.domain.enums import Lane, Origin, RunState
from duly.domain.ids import RunId
from duly.domain.schedules import canonical_json
from duly.domain.verification import check_name, check_of, read_verdict
from duly.errors import Conflict
from duly.store.effect_rulings import OPEN_TO_END
from duly.store.ports.effects import AddVerdict
from duly.store.ports.schedules import AddRuns, NewRun

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from duly.client.caller import Caller
    from duly.client.runs import RunReference

_DEPTH_MAX = 16


def checking_function(
    checks: Callable[[], Checks | None], check: Callable[[Run], object]
) -> Callable[[Run, str], str]:
    """Return a check as a function that can be a task: it is told which run to look at."""

    def verify(run: Run, of: str) -> str:
        carried = checks()
        assert carried is not None, "an application has them"
        return carried.carry_out(check, of, run)

    return verify


class Checks:
    """Asks for checks and carries them out, and records what they find."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self._runs = Runs(caller)

    def carry_out(self, check: Callable[[Run], object], of: str, by: Run) -> str:
        """Let a check look at a run, and record what it finds; return that.

        A program runs checks of every tenant's runs. It may look at those of the tenant whose run
        the check is: what it is given to look at are arguments, which anybody can enqueue.
        """
        looked_at = Runs(self._for(by)).get(UUID(of))
        verdict = read_verdict(check(looked_at))
        evidence = verdict.evidence
        text = None
        if evidence is not None:
            text = canonical_json(plain_value("evidence", evidence, _DEPTH_MAX))
        found = AddVerdict(
            run_id=RunId(looked_at.id.bytes),
            finding=verdict.finding,
            evidence=text,
            by=str(by.id),
            doubt=looked_at.fence if looked_at.state == RunState.AMBIGUOUS else None,
        )
        return str(self._caller.store.add_verdict(found).finding)

    def _for(self, by: Run) -> Caller:
        """Return who looks on behalf of a check: the tenant of its run."""
        record = self._caller.store.get_run(RunId(by.id.bytes))
        assert record is not None, "it is going on"
        return replace(self._caller, tenant=record.tenant)

    def has_check(self, task: str) -> bool:
        """Say whether a task has a check, by this program or by what others have told of."""
        return task in self.checked({task})

    def checked(self, tasks: Collection[str]) -> frozenset[str]:
        """Return those of some tasks that have a check."""
        if not tasks:
            return frozenset()
        told = set(self._caller.store.list_tasks())
        return frozenset(one for one in tasks if self._is_ours(one) or check_name(one) in told)

    def _is_ours(self, task: str) -> bool:
        known = self._caller.tasks.find(task)
        return known is not None and known.policy.is_checked

    def ask(self, run: RunReference, given: RunId | None = None) -> UUID:
        """Have a run checked once more, by its task's own check; return the run that does it.

        Also one from before its task had a check, or by a program that does not have the code.
        """
        found = self._runs.get(run)
        if not self.has_check(found.task):
            remedy = f"give it one: @{found.task}.verify above a function, and start a worker"
            raise Conflict("task", found.task, "has no check", remedy)
        if found.state in OPEN_TO_END:
            problem = f"is still to end: {found.state}"
            raise Conflict("run", str(found.id), problem, "wait until there is a result to check")
        store = self._caller.store
        record = store.get_run(RunId(found.id.bytes))
        assert record is not None, "it was there just now"
        checking = check_of(record, store.now())
        new = NewRun(
            id=given or checking.id,
            tenant=checking.tenant,
            call=checking.call,
            origin=Origin.VERIFY,
            lane=Lane.LIVE,
            due_at=None,
            root=checking.root,
        )
        store.add_runs(AddRuns(runs=(new,), actor=self._caller.ordering()))
        return UUID(bytes=new.id)
