"""Admission: asks the store after a claim whether limited runs may begin.

`WorkerAdmission` knows from memory which runs are limited: by the declarations in the tasks' code,
and by the table of limits, which it reads again when a heartbeat reports a change. A run without
limits costs no extra call.

The store decides by its own table. It lets a run begin, postpones it to an instant, or queues it
for a place. A run that does not begin is no longer the worker's by then, at no cost to the run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.admission import AdmissionRoute
from duly.domain.audit import Actor
from duly.domain.ids import identity_text
from duly.domain.limits import LimitKind, scope_of
from duly.domain.tasks import values_of
from duly.errors import STORE_AWAY
from duly.store.ports.limits import Request
from duly.telemetry import ItemSkipped

if TYPE_CHECKING:
    from duly.domain.limits import Limit, Limits
    from duly.engine.executors.executor import Runnable
    from duly.engine.worker.active_attempts import ActiveAttempts
    from duly.engine.worker.context import WorkerContext
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun

DECLARED = Actor("duly", "worker", "its code says so")
_TENANT = scope_of(LimitKind.TENANT, "")


class WorkerAdmission:
    """Knows who has to be asked for, and asks."""

    def __init__(self, parts: WorkerContext, holdings: ActiveAttempts) -> None:
        self._parts = parts
        self._holdings = holdings
        self._table: Limits | None = None
        """As we last read it; None until then."""
        self._has_tenants = False
        """Whether any tenant is limited, so that every run's has to be looked at."""

    def begin(self) -> None:
        """Know nothing: we are a new member, and limits may have changed since we were one."""
        self._table = None

    def learn(self, version: int | None = None) -> None:
        """Read the table of limits, if we have none or it is not of that version.

        The first time, the store hears what our tasks' code says; what another release has said of
        a task that we know, too, is replaced by that.
        """
        if self._table is None:
            self._parts.store.declare_limits(self._declared(), DECLARED)
        if self._table is None or version not in (None, self._table.version):
            self._table = table = self._parts.store.list_limits()
            self._has_tenants = any(one.scope.startswith(_TENANT) for one in table.records)

    def _declared(self) -> dict[str, Limit | None]:
        known = (self._parts.runnable(name) for name in self._parts.catalogue.names())
        limits = {_scope(one.name): one.limits.limit for one in known if one is not None}
        return {scope: None if one.is_empty else one for scope, one in limits.items()}

    def concerns(self, runnable: Runnable) -> bool:
        """Say whether runs of a task may be limited."""
        return self._has_tenants or self._is_limited_task(runnable)

    def is_limited(self, claimed: ClaimedRun, runnable: Runnable) -> bool:
        """Say whether a run of a task that this concerns has to be asked for."""
        assert self._table is not None, "nothing is claimed before it is read"
        if self._is_limited_task(runnable):
            return True
        return self._table.is_limited(claimed.task, claimed.record.tenant)

    def ask(self, worker: MemberId) -> list[ClaimedRun]:
        """Ask for all that wait to be admitted; return those that may begin.

        If the store does not answer they stay, to be asked for again: it knows whom it has let
        begin. What can't be asked for by itself is given back, for later.
        """
        waiting, most = self._holdings.unadmitted, self._parts.settings.finish_max
        begin: list[ClaimedRun] = []
        while waiting:
            batch = waiting[:most]
            try:
                begin += self._ask(worker, batch)
            except STORE_AWAY:
                if not begin:
                    raise
                return begin  # the next look finds out whether it is still away
            except Exception as error:  # noqa: BLE001 - one bad run must not stop the others
                most = 1
                if len(batch) == 1:
                    self._set_aside(worker, batch[0], error)
            else:
                del waiting[: len(batch)]
        return begin

    def _ask(self, worker: MemberId, batch: list[ClaimedRun]) -> list[ClaimedRun]:
        before = self._parts.clock.monotonic_us()
        answer = self._parts.store.admit(worker, [self._request(one) for one in batch])
        self._parts.time.hear(before, answer.now)
        verdicts = zip(batch, answer.verdicts, strict=True)
        begin = [claimed for claimed, verdict in verdicts if verdict.way is AdmissionRoute.GOES]
        self._parts.statistics.put_off += len(batch) - len(begin)
        return begin

    def _request(self, claimed: ClaimedRun) -> Request:
        runnable = self._parts.runnable(claimed.task)
        assert runnable is not None, "only runs of tasks that we know are asked for"
        assert self._table is not None, "nothing is claimed before it is read"
        task, limits = claimed.task, runnable.limits
        counted = [name for name, _ in self._table.of(_scope(task)).running_by]
        return Request(
            hold=claimed.hold,
            tenant=claimed.record.tenant,
            task=task,
            destination=limits.destination,
            keys=values_of(limits, claimed.arguments, counted) if counted else (),
        )

    def _is_limited_task(self, runnable: Runnable) -> bool:
        assert self._table is not None, "nothing is claimed before it is read"
        is_calling = runnable.limits.destination is not None
        return is_calling or not self._table.of(_scope(runnable.name)).is_empty

    def _set_aside(self, worker: MemberId, claimed: ClaimedRun, error: Exception) -> None:
        self._holdings.unadmitted.remove(claimed)
        after_us = self._parts.settings.set_aside_us
        self._holdings.give_back(worker, claimed.hold, after_us)
        event = ItemSkipped(
            member=int(worker),
            what="run",
            subject_id=identity_text(claimed.run_id),
            problem=f"whether it may begin can't be said: {error!r}",
        )
        self._parts.emit(event)


def _scope(task: str) -> str:
    return scope_of(LimitKind.TASK, task)
