"""The memory store's part for workers and operators: each operation alone, through the journal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from duly.store.auditing import SYSTEM
from duly.store.effect_rulings import EFFECTS_SCHEMA, restricted_subject, unsafe_among
from duly.store.memory import (
    attempts,
    backfilling,
    doubts,
    effects,
    execution,
    limiting,
    operating,
    reaping,
    scopes,
)
from duly.store.memory.admission import MemoryAdmission
from duly.store.memory.backfilling import MemoryBackfills
from duly.store.memory.quotas import MemorySetting, list_active_of, list_gone, list_quotas
from duly.store.owners import mark_back, mark_gone
from duly.store.ports.limits import Admitted
from duly.store.ports.queries import PAGE_MAX
from duly.store.work_rulings import lost_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.audit import Actor
    from duly.domain.backfill import Slot
    from duly.domain.effects import EffectRecord
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.domain.limits import Limit, LimitRecord, Limits
    from duly.domain.quotas import DepartedOwner, Quota, QuotaKey
    from duly.domain.runs import AttemptRecord, LineRecord, ProgressRecord, RunRecord, TaskPolicy
    from duly.domain.verification import Scope
    from duly.store.memory.tables import Journal, Tables
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

T = TypeVar("T")


class Working(ABC):
    """What workers do with runs, and people order about them."""

    name: str
    tables: Tables

    @abstractmethod
    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables."""

    # Execution

    def register_policies(self, policies: Mapping[str, TaskPolicy]) -> None:
        """Remember what tasks' code says about their runs."""

        def register(journal: Journal) -> None:
            unsafe = unsafe_among(policies)
            if unsafe and self.tables.cluster["program_min"] < EFFECTS_SCHEMA:
                journal.put(self.tables.cluster, "program_min", EFFECTS_SCHEMA)
                journal.record_about(SYSTEM, "store.restricted", restricted_subject(unsafe))
            for name, policy in policies.items():
                journal.put(self.tables.tasks, name, journal.now)
                journal.put(self.tables.policies, name, policy)

        self._write(register)

    def claim_runs(self, command: port.ClaimRuns) -> port.Claimed:
        """Take queued runs."""
        return self._write(lambda journal: execution.claim_runs(journal, command))

    def beat(self, command: port.Heartbeat) -> port.HeartbeatResult:
        """Renew a worker; say what must stop."""
        return self._write(lambda journal: execution.beat(journal, command))

    def report(self, worker: MemberId, reports: Sequence[port.Report]) -> list[bool]:
        """Write what attempts have done."""
        return self._write(lambda journal: execution.report(journal, worker, reports))

    def save_checkpoint(self, command: port.SaveCheckpoint) -> bool:
        """Remember a state of a run."""
        return self._write(lambda journal: execution.save_checkpoint(journal, command))

    def finish_runs(
        self, worker: MemberId, finishes: Sequence[port.FinishAttempt]
    ) -> port.Finished:
        """End attempts."""
        return self._write(lambda journal: execution.finish_runs(journal, worker, finishes))

    def finish_and_claim(
        self, finishes: Sequence[port.FinishAttempt], claim: port.ClaimRuns
    ) -> tuple[port.Finished, port.Claimed]:
        """End attempts, and take queued runs."""
        return self._write(
            lambda journal: (
                execution.finish_runs(journal, claim.worker, finishes),
                execution.claim_runs(journal, claim),
            )
        )

    def find_lost(self, limit: int, overdue_us: int) -> port.LostClaims:
        """Read claims that somebody else must settle."""
        return self._read(lambda journal: reaping.find_lost(journal, limit, overdue_us))

    def settle_lost(self, command: port.SettleLost) -> list[bool]:
        """Take claims from workers that are gone."""
        settled = self._write(lambda journal: reaping.settle_lost(journal, command))
        if settled is None:
            raise lost_lease(self.name)
        return settled

    def is_served(self, task: str, queue: str) -> bool:
        """Say whether any living worker knows a task and serves the queue."""
        return self._read(lambda journal: execution.is_served(journal, task, queue))

    def get_checkpoints(self, run_id: RunId) -> dict[str, str]:
        """Return a run's last states by partition."""
        return self._read(lambda journal: execution.get_checkpoints(journal, run_id))

    # Effects and doubt

    def begin_effect(self, command: BeginEffect) -> EffectGrant:
        """Permit an effect."""
        return self._write(lambda journal: effects.begin_effect(journal, command))

    def end_effect(self, command: EndEffect) -> bool:
        """Write an effect down as done, or as not begun."""
        return self._write(lambda journal: effects.end_effect(journal, command))

    def list_effects(self, run_id: RunId, limit: int) -> list[EffectRecord]:
        """Return the ledger of a run's line."""
        return self._read(lambda journal: effects.list_effects(journal, run_id, limit))

    def list_doubts(self, tenant: str | None, limit: int) -> list[AmbiguousRun]:
        """Return runs that are in doubt."""
        return self._read(lambda journal: doubts.list_doubts(journal, tenant, limit))

    def settle_doubt(self, command: ResolveAmbiguousRun) -> RunRecord:
        """Carry out what a person decided about a run in doubt."""
        return self._write(lambda journal: doubts.settle_doubt(journal, command))

    def rerun_run(self, command: Rerun) -> RunRecord:
        """Queue another run with a run's call."""
        return self._write(lambda journal: doubts.rerun_run(journal, command))

    def order_task(self, command: OrderTask) -> TaskOrder:
        """Suspend a task's retries, or block its reruns."""
        return self._write(lambda journal: doubts.order_task(journal, command))

    def task_orders(self) -> Mapping[str, TaskOrder]:
        """Return the tasks with an order in force."""
        return self._read(lambda journal: dict(journal.tables.task_orders))

    def add_verdict(self, command: AddVerdict) -> VerdictRecord:
        """Record what was found about a run."""
        return self._write(lambda journal: doubts.add_verdict(journal, command))

    def get_scope(self, run_id: RunId) -> Scope:
        """Return what is known of a run's scope."""
        return self._read(lambda journal: scopes.get_scope(journal, run_id))

    def list_done(self, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
        """Return those of some items that are done."""
        return self._read(lambda journal: scopes.list_done(journal, run_id, items))

    def list_verdicts(self, run_id: RunId) -> list[VerdictRecord]:
        """Return what was found about a run."""
        return self._read(lambda journal: doubts.list_verdicts(journal, run_id))

    # Operating

    def cancel_run(self, command: CancelRun) -> RunRecord:
        """Cancel a run, or ask for it."""
        return self._write(lambda journal: operating.cancel_run(journal, command))

    def retry_runs(self, command: OrderRuns) -> list[Ordered]:
        """Queue dead and waiting runs again."""
        return self._write(lambda journal: operating.retry_runs(journal, command))

    def discard_runs(self, command: OrderRuns) -> list[Ordered]:
        """Close dead runs."""
        return self._write(lambda journal: operating.discard_runs(journal, command))

    def edit_run(self, command: EditRun) -> RunRecord:
        """Replace the arguments of a dead run."""
        return self._write(lambda journal: operating.edit_run(journal, command))

    def pause_queue(self, name: str, actor: Actor) -> None:
        """Hand out nothing from a queue."""
        self._write(lambda journal: operating.pause_queue(journal, name, actor))

    def resume_queue(self, name: str, actor: Actor) -> None:
        """Hand out again."""
        self._write(lambda journal: operating.resume_queue(journal, name, actor))

    def list_queues(self) -> list[QueueRecord]:
        """Return queues that hold something or are paused, by name."""
        return self._read(operating.list_queues)

    # Quotas

    def set_quotas(self, command: SetQuotas) -> list[Quota]:
        """Set quotas of a scope."""
        return self._write(lambda journal: MemorySetting(journal).set(command))

    def remove_quotas(self, key: QuotaKey, actor: Actor) -> None:
        """Take back what was set for a scope."""
        self._write(lambda journal: MemorySetting(journal).take_back(key, actor))

    def list_quotas(self) -> list[Quota]:
        """Return what was set, by scope."""
        return self._read(list_quotas)

    # Owners

    def mark_gone(self, command: MarkOwner) -> DepartedOwner:
        """Remember that an owner is gone."""
        return self._write(lambda journal: mark_gone(MemorySetting(journal), command))

    def mark_back(self, command: MarkOwner) -> DepartedOwner:
        """Forget that an owner is gone."""
        return self._write(lambda journal: mark_back(MemorySetting(journal), command))

    def list_gone(self, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
        """Return who is gone, by name."""
        return self._read(lambda journal: list_gone(journal, tenant, after, limit))

    def list_active_of(self, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
        """Return an owner's schedules that fire or will again by themselves."""
        return self._read(lambda journal: list_active_of(journal, tenant, owner, limit))

    # Limits

    def admit(self, worker: MemberId, requests: Sequence[Request]) -> Admitted:
        """Decide about claims that fall under limits."""
        return self._write(
            lambda journal: Admitted(journal.now, MemoryAdmission(journal).admit(worker, requests))
        )

    def declare_limits(self, limits: Mapping[str, Limit | None], actor: Actor) -> None:
        """Remember what code says about limits."""
        self._write(lambda journal: limiting.declare_limits(journal, limits, actor))

    def set_limit(self, command: SetLimit) -> LimitRecord:
        """Limit something by a person's order."""
        return self._write(lambda journal: limiting.set_limit(journal, command))

    def remove_limit(self, scope: str, actor: Actor) -> bool:
        """Take a person's limit away."""
        return self._write(lambda journal: limiting.remove_limit(journal, scope, actor))

    def list_limits(self) -> Limits:
        """Return all limits."""
        return self._read(limiting.list_limits)

    def list_places(self) -> list[PlaceRecord]:
        """Return limits at which something is going on."""
        return self._read(limiting.list_places)

    def list_breakers(self) -> list[BreakerRecord]:
        """Return what is known of destinations."""
        return self._read(limiting.list_breakers)

    def reset_breaker(self, destination: str, actor: Actor) -> BreakerRecord:
        """Take a destination for well."""
        return self._write(lambda journal: limiting.reset_breaker(journal, destination, actor))

    # Backfills

    def create_backfill(self, command: CreateBackfill) -> BackfillRecord:
        """Write a backfill down."""
        return self._write(lambda journal: MemoryBackfills(journal).create(command))

    def get_backfill(self, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        return self._read(lambda journal: backfilling.get_backfill(journal, tenant, backfill_id))

    def list_backfills(
        self, tenant: str, schedule_id: ScheduleId | None, limit: int
    ) -> list[BackfillRecord]:
        """Return backfills, newest first."""
        return self._read(
            lambda journal: backfilling.list_backfills(journal, tenant, schedule_id, limit)
        )

    def list_slots(
        self, backfill_id: BackfillId, after: int | None, limit: int
    ) -> list[BackfillOccurrenceRecord]:
        """Return what was done about occurrences."""
        return self._read(
            lambda journal: backfilling.list_slots(journal, backfill_id, after, limit)
        )

    def classify_slots(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        return self._read(
            lambda journal: backfilling.classify_slots(journal, schedule_id, instants)
        )

    def change_backfill(self, command: ChangeBackfill) -> BackfillRecord:
        """Apply an order about a backfill."""
        return self._write(lambda journal: MemoryBackfills(journal).change(command))

    def load_backfills(self, limit: int) -> list[BackfillRecord]:
        """Return active backfills."""
        return self._read(lambda journal: backfilling.load_backfills(journal, limit))

    def step_backfill(self, command: StepBackfill) -> Stepped:
        """Do a part of a backfill."""
        return self._write(lambda journal: MemoryBackfills(journal).step(command))

    # Reading

    def list_attempts(self, run_id: RunId, limit: int = PAGE_MAX) -> list[AttemptRecord]:
        """Return the last claims of a run by their fence."""
        return self._read(lambda journal: attempts.list_attempts(journal, run_id, limit))

    def list_progress(self, run_id: RunId, limit: int) -> list[ProgressRecord]:
        """Return the steps of a run's progress, oldest first."""
        return self._read(lambda _: list(self.tables.progress.get(run_id, ())[:limit]))

    def list_lines(self, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
        """Return lines that a run's attempts wrote, in order."""

        def read(_: Journal) -> list[LineRecord]:
            known = self.tables.lines.get(run_id, ())
            return [line for line in known if line.number > after][:limit]

        return self._read(read)
