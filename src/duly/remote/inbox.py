"""Runs of which nobody knows what they did, and tasks about which something is ordered."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from duly.interface.inbox import Check, Effect, InboxItem, InboxQuery, Scope
from duly.interface.runs import (
    Justified,
    ReasonBody,
    ReconcileRun,
    RerunRun,
    ResumeRun,
    RetryRun,
    Run,
)
from duly.interface.shapes import Page
from duly.interface.tasks import Task
from duly.remote.operation import look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.remote.transport import Transport

Reference = UUID | str
Effects = list[Effect]
Checks = list[Check]
Line = list[Run]
Tasks = list[Task]
ONE, TASK = "/runs/{run}", "/tasks/{task}"
LIST = look("list_inbox", "/inbox", Page[InboxItem])
GET_ONE = look("get_inbox_item", "/inbox/{run}", InboxItem)
EFFECTS = look("list_effects", f"{ONE}/effects", Page[Effect])
CHECKS = look("list_checks", f"{ONE}/checks", Page[Check])
SCOPE = look("get_scope", f"{ONE}/scope", Scope)
LINEAGE = look("list_lineage", f"{ONE}/lineage", Page[Run])
VERIFY = order("verify_run", f"{ONE}/verify", Run)
RETRY = order("retry_run", f"{ONE}/retry", Run)
RESUME = order("resume_run", f"{ONE}/resume", Run)
RECONCILE = order("reconcile_run", f"{ONE}/reconcile", Run)
SKIP = order("skip_run", f"{ONE}/skip", Run)
RERUN = order("rerun_run", f"{ONE}/rerun", Run)
LIST_TASKS = look("list_tasks", "/tasks", Page[Task])
GET_TASK = look("get_task", TASK, Task)
SUSPEND_RETRIES = order("suspend_retries", f"{TASK}/suspend-retries", Task)
ALLOW_RETRIES = order("allow_retries", f"{TASK}/allow-retries", Task)
BLOCK_RERUNS = order("block_reruns", f"{TASK}/block-reruns", Task)
ALLOW_RERUNS = order("allow_reruns", f"{TASK}/allow-reruns", Task)


class Inbox:
    """What a server has in doubt, and what can be done about it."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self, *, limit: int = 100) -> list[InboxItem]:
        """Return runs that are in doubt, oldest first, each with what is safest."""
        return self._asking.items(LIST, query=said(InboxQuery, limit=limit))

    def get(self, run: Reference) -> InboxItem:
        """Return one that is in doubt, all that is known of it, and what each choice risks."""
        return self._asking.ask(GET_ONE, run)

    def effects(self, run: Reference) -> Effects:
        """Return the ledger of a run."""
        return self._asking.items(EFFECTS, run)

    def checks(self, run: Reference) -> Checks:
        """Return what was found about the result of a run."""
        return self._asking.items(CHECKS, run)

    def scope(self, run: Reference) -> Scope:
        """Return how much a run was to do, and what of it is done."""
        return self._asking.ask(SCOPE, run)

    def line(self, run: Reference) -> Line:
        """Return a run, those that repeat it, and the one that it repeats."""
        return self._asking.items(LINEAGE, run)

    def verify(self, run: Reference) -> Run:
        """Have a run checked by its task's own check; return the run that does it."""
        return self._asking.ask(VERIFY, run)

    def retry(
        self,
        run: Reference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
    ) -> Run:
        """Try it again from the beginning; `effects` says which unknown ones are done."""
        body = said(RetryRun, reason=reason, effects=effects, confirm=confirm)
        return self._asking.ask(RETRY, run, body=body)

    def resume(
        self,
        run: Reference,
        *,
        reason: str,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
    ) -> Run:
        """Try it again from its last checkpoint."""
        body = said(ResumeRun, reason=reason, effects=effects, confirm=confirm)
        return self._asking.ask(RESUME, run, body=body)

    def reconcile(  # noqa: PLR0913 - each part of what was found
        self,
        run: Reference,
        *,
        is_done: bool,
        reason: str,
        evidence: object = None,
        effects: Mapping[str, bool] | None = None,
        despite_missing: bool = False,
    ) -> Run:
        """Record what was found outside: it is done, or it is not."""
        found = {"is_done": is_done, "evidence": evidence, "effects": effects}
        body = said(ReconcileRun, reason=reason, despite_missing=despite_missing or None, **found)
        return self._asking.ask(RECONCILE, run, body=body)

    def skip(self, run: Reference, *, reason: str) -> Run:
        """Leave it as it is, and record that nobody will do more about it."""
        return self._asking.ask(SKIP, run, body=said(Justified, reason=reason))

    def rerun(  # noqa: PLR0913 - each choice is an argument
        self,
        run: Reference,
        *,
        reason: str,
        repair: bool = False,
        effects: Mapping[str, bool] | None = None,
        confirm: UUID | str | None = None,
    ) -> Run:
        """Run once more, as another run, what a run was to do."""
        body = said(RerunRun, reason=reason, repair=repair, effects=effects, confirm=confirm)
        return self._asking.ask(RERUN, run, body=body)

    def tasks(self) -> Tasks:
        """Return the tasks that programs have told of, with what is ordered about each."""
        return self._asking.items(LIST_TASKS)

    def orders(self, task: str) -> Task:
        """Return what is ordered about a task."""
        return self._asking.ask(GET_TASK, task)

    def suspend_retries(self, task: str, *, reason: str) -> Task:
        """Try nothing of a task again by itself."""
        return self._asking.ask(SUSPEND_RETRIES, task, body=said(Justified, reason=reason))

    def allow_retries(self, task: str, *, reason: str | None = None) -> Task:
        """Try a task again by itself, as its policy says."""
        return self._asking.ask(ALLOW_RETRIES, task, body=said(ReasonBody, reason=reason))

    def block_reruns(self, task: str, *, reason: str) -> Task:
        """Let nobody run once more what a task has done."""
        return self._asking.ask(BLOCK_RERUNS, task, body=said(Justified, reason=reason))

    def allow_reruns(self, task: str, *, reason: str | None = None) -> Task:
        """Let runs of a task be run once more."""
        return self._asking.ask(ALLOW_RERUNS, task, body=said(ReasonBody, reason=reason))
