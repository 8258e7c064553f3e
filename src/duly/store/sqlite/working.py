"""The SQLite store's part for workers and operators: each operation one short transaction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duly.domain.limits import LimitSource
from duly.store.owners import mark_back, mark_gone
from duly.store.ports.limits import Admitted
from duly.store.sqlite import (
    backfilling,
    claiming,
    doubts,
    effects,
    finishing,
    limiting,
    operating,
    reaping,
    scopes,
    telling,
)
from duly.store.sqlite.admission import SqliteAdmission
from duly.store.sqlite.backfilling import SqliteBackfills
from duly.store.sqlite.quotas import SqliteSetting, list_active_of, list_gone, list_quotas
from duly.store.work_rulings import lost_lease

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from duly.domain.audit import Actor
    from duly.domain.backfill import Slot
    from duly.domain.effects import EffectRecord
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.domain.limits import Limit, LimitRecord, Limits
    from duly.domain.quotas import DepartedOwner, Quota, QuotaKey
    from duly.domain.runs import RunRecord, TaskPolicy
    from duly.domain.verification import Scope
    from duly.store.ports import execution as port
    from duly.store.ports.backfill import (
        BackfillOccurrenceRecord,
        BackfillRecord,
        ChangeBackfill,
        CreateBackfill,
        StepBackfill,
        Stepped,
    )
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.effects import (
        AddVerdict,
        AmbiguousRun,
        BeginEffect,
        EffectGrant,
        EndEffect,
        OrderTask,
        Rerun,
        ResolveAmbiguousRun,
        TaskOrder,
        VerdictRecord,
    )
    from duly.store.ports.limits import BreakerRecord, PlaceRecord, Request, SetLimit
    from duly.store.ports.operations import (
        CancelRun,
        EditRun,
        MarkOwner,
        Ordered,
        OrderRuns,
        QueueRecord,
        SetQuotas,
    )
    from duly.store.sqlite.work import Look, Work


class Working(ABC):
    """What workers do with runs, and people order about them."""

    name: str

    @abstractmethod
    def _write(self) -> AbstractContextManager[Work]:
        """Open a short transaction: it commits, or nothing of it happens."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Look]:
        """Open a snapshot; it waits for nobody."""

    # Execution

    def register_policies(self, policies: Mapping[str, TaskPolicy]) -> None:
        """Remember what tasks' code says about their runs."""
        if policies:
            with self._write() as work:
                claiming.register_policies(work, policies)

    def claim_runs(self, command: port.ClaimRuns) -> port.Claimed:
        """Take queued runs for a worker that is alive."""
        with self._write() as work:
            found = claiming.claim_runs(work, command)
        return claiming.read_claimed(work.now, command.worker, found)

    def beat(self, command: port.Heartbeat) -> port.HeartbeatResult:
        """Renew a worker that nobody has declared dead; say what must stop."""
        with self._write() as work:
            return claiming.beat(work, command)

    def report(self, worker: MemberId, reports: Sequence[port.Report]) -> list[bool]:
        """Write what attempts have done that are still ours."""
        with self._write() as work:
            return telling.report(work, worker, reports)

    def save_checkpoint(self, command: port.SaveCheckpoint) -> bool:
        """Remember a state of a run that is ours."""
        with self._write() as work:
            return telling.save_checkpoint(work, command)

    def finish_runs(
        self, worker: MemberId, finishes: Sequence[port.FinishAttempt]
    ) -> port.Finished:
        """End attempts, and put their runs where it was decided."""
        ends = finishing.Ends(finishes)
        with self._write() as work:
            return finishing.finish_runs(work, worker, ends)

    def finish_and_claim(
        self, finishes: Sequence[port.FinishAttempt], claim: port.ClaimRuns
    ) -> tuple[port.Finished, port.Claimed]:
        """End attempts, and take queued runs: who waits for the lock does so once."""
        ends = finishing.Ends(finishes)
        with self._write() as work:
            finished = finishing.finish_runs(work, claim.worker, ends)
            found = claiming.claim_runs(work, claim)
        return finished, claiming.read_claimed(work.now, claim.worker, found)

    def find_lost(self, limit: int, overdue_us: int) -> port.LostClaims:
        """Read claims of the dead, and those that are long overdue."""
        with self._read() as look:
            return reaping.find_lost(look, limit, overdue_us)

    def settle_lost(self, command: port.SettleLost) -> list[bool]:
        """Take claims from workers that are gone."""
        with self._write() as work:
            settled = reaping.settle_lost(work, command)
        if settled is None:
            raise lost_lease(self.name)
        return settled

    def is_served(self, task: str, queue: str) -> bool:
        """Say whether any living worker knows a task and serves the queue."""
        with self._read() as look:
            return claiming.is_served(look, task, queue)

    def get_checkpoints(self, run_id: RunId) -> dict[str, str]:
        """Return a run's last states by partition."""
        with self._read() as look:
            return telling.get_checkpoints(look, run_id)

    # Effects and doubt

    def begin_effect(self, command: BeginEffect) -> EffectGrant:
        """Permit an effect."""
        with self._write() as work:
            return effects.begin_effect(work, command)

    def end_effect(self, command: EndEffect) -> bool:
        """Write an effect down as done, or as not begun."""
        with self._write() as work:
            return effects.end_effect(work, command)

    def list_effects(self, run_id: RunId, limit: int) -> list[EffectRecord]:
        """Return the ledger of a run's line."""
        with self._read() as look:
            return effects.list_effects(look, run_id, limit)

    def list_doubts(self, tenant: str | None, limit: int) -> list[AmbiguousRun]:
        """Return runs that are in doubt."""
        with self._read() as look:
            return doubts.list_doubts(look, tenant, limit)

    def settle_doubt(self, command: ResolveAmbiguousRun) -> RunRecord:
        """Carry out what a person decided about a run in doubt."""
        with self._write() as work:
            return doubts.settle_doubt(work, command)

    def rerun_run(self, command: Rerun) -> RunRecord:
        """Queue another run with a run's call."""
        with self._write() as work:
            return doubts.rerun_run(work, command)

    def order_task(self, command: OrderTask) -> TaskOrder:
        """Suspend a task's retries, or block its reruns."""
        with self._write() as work:
            return doubts.order_task(work, command)

    def task_orders(self) -> Mapping[str, TaskOrder]:
        """Return the tasks with an order in force."""
        with self._read() as look:
            return doubts.task_orders(look)

    def add_verdict(self, command: AddVerdict) -> VerdictRecord:
        """Record what was found about a run."""
        with self._write() as work:
            return doubts.add_verdict(work, command)

    def list_verdicts(self, run_id: RunId) -> list[VerdictRecord]:
        """Return what was found about a run."""
        with self._read() as look:
            return doubts.list_verdicts(look, run_id)

    def get_scope(self, run_id: RunId) -> Scope:
        """Return what is known of a run's scope."""
        with self._read() as look:
            return scopes.get_scope(look, run_id)

    def list_done(self, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
        """Return those of some items that are done."""
        with self._read() as look:
            return scopes.list_done(look, run_id, items)

    # Limits

    def admit(self, worker: MemberId, requests: Sequence[Request]) -> Admitted:
        """Decide about claims that fall under limits."""
        with self._write() as work:
            return Admitted(work.now, SqliteAdmission(work).admit(worker, requests))

    def declare_limits(self, limits: Mapping[str, Limit | None], actor: Actor) -> None:
        """Remember what code says about limits, if it is new."""
        known = self.list_limits().said(LimitSource.CODE)
        new = {scope: limit for scope, limit in limits.items() if limit != known.get(scope)}
        if new:
            with self._write() as work:
                limiting.declare_limits(work, new, actor)

    def set_limit(self, command: SetLimit) -> LimitRecord:
        """Limit something by a person's order."""
        with self._write() as work:
            return limiting.set_limit(work, command)

    def remove_limit(self, scope: str, actor: Actor) -> bool:
        """Take a person's limit away."""
        with self._write() as work:
            return limiting.remove_limit(work, scope, actor)

    def list_limits(self) -> Limits:
        """Return all limits."""
        with self._read() as look:
            return limiting.list_limits(look)

    def list_places(self) -> list[PlaceRecord]:
        """Return limits at which something is going on."""
        with self._read() as look:
            return limiting.list_places(look)

    def list_breakers(self) -> list[BreakerRecord]:
        """Return what is known of destinations."""
        with self._read() as look:
            return limiting.list_breakers(look)

    def reset_breaker(self, destination: str, actor: Actor) -> BreakerRecord:
        """Take a destination for well."""
        with self._write() as work:
            return limiting.reset_breaker(work, destination, actor)

    # Backfills

    def create_backfill(self, command: CreateBackfill) -> BackfillRecord:
        """Write a backfill down."""
        with self._write() as work:
            return SqliteBackfills(work).create(command)

    def change_backfill(self, command: ChangeBackfill) -> BackfillRecord:
        """Apply an order about a backfill."""
        with self._write() as work:
            return SqliteBackfills(work).change(command)

    def step_backfill(self, command: StepBackfill) -> Stepped:
        """Do a part of a backfill."""
        with self._write() as work:
            return SqliteBackfills(work).step(command)

    def get_backfill(self, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        with self._read() as look:
            return backfilling.get_backfill(look, tenant, backfill_id)

    def list_backfills(
        self, tenant: str, schedule_id: ScheduleId | None, limit: int
    ) -> list[BackfillRecord]:
        """Return backfills, newest first."""
        with self._read() as look:
            return backfilling.list_backfills(look, tenant, schedule_id, limit)

    def load_backfills(self, limit: int) -> list[BackfillRecord]:
        """Return active backfills, oldest first."""
        with self._read() as look:
            return backfilling.load_backfills(look, limit)

    def list_slots(
        self, backfill_id: BackfillId, after: int | None, limit: int
    ) -> list[BackfillOccurrenceRecord]:
        """Return what was done about occurrences."""
        with self._read() as look:
            return backfilling.list_slots(look, backfill_id, after, limit)

    def classify_slots(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        with self._read() as look:
            return backfilling.classify_slots(look, schedule_id, instants)

    # Quotas

    def set_quotas(self, command: SetQuotas) -> list[Quota]:
        """Set quotas of a scope."""
        with self._write() as work:
            return SqliteSetting(work).set(command)

    def remove_quotas(self, key: QuotaKey, actor: Actor) -> None:
        """Take back what was set for a scope."""
        with self._write() as work:
            SqliteSetting(work).take_back(key, actor)

    def list_quotas(self) -> list[Quota]:
        """Return what was set, by scope."""
        with self._read() as look:
            return list_quotas(look)

    # Owners

    def mark_gone(self, command: MarkOwner) -> DepartedOwner:
        """Remember that an owner is gone."""
        with self._write() as work:
            return mark_gone(SqliteSetting(work), command)

    def mark_back(self, command: MarkOwner) -> DepartedOwner:
        """Forget that an owner is gone."""
        with self._write() as work:
            return mark_back(SqliteSetting(work), command)

    def list_gone(self, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
        """Return who is gone, by name."""
        with self._read() as look:
            return list_gone(look, tenant, after, limit)

    def list_active_of(self, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
        """Return an owner's schedules that fire or will again by themselves."""
        with self._read() as look:
            return list_active_of(look, tenant, owner, limit)

    # Operating

    def cancel_run(self, command: CancelRun) -> RunRecord:
        """Cancel a run that nobody holds; ask for it where somebody does."""
        with self._write() as work:
            return operating.cancel_run(work, command)

    def retry_runs(self, command: OrderRuns) -> list[Ordered]:
        """Queue dead and waiting runs again."""
        with self._write() as work:
            return operating.retry_runs(work, command)

    def discard_runs(self, command: OrderRuns) -> list[Ordered]:
        """Close dead runs."""
        with self._write() as work:
            return operating.discard_runs(work, command)

    def edit_run(self, command: EditRun) -> RunRecord:
        """Replace the arguments of a dead run."""
        with self._write() as work:
            return operating.edit_run(work, command)

    def pause_queue(self, name: str, actor: Actor) -> None:
        """Hand out nothing from a queue."""
        with self._write() as work:
            operating.pause_queue(work, name, actor)

    def resume_queue(self, name: str, actor: Actor) -> None:
        """Hand out again, and wake workers."""
        with self._write() as work:
            operating.resume_queue(work, name, actor)

    def list_queues(self) -> list[QueueRecord]:
        """Return queues that hold something or are paused, by name."""
        with self._read() as look:
            return operating.list_queues(look)
