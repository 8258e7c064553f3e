"""The ports of execution and operating: opens what each order needs, and hands the order on."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.store.effect_rulings import unsafe_among
from duly.store.owners import mark_back, mark_gone
from duly.store.postgres import (
    admission,
    backfilling,
    beating,
    destinations,
    doubts,
    effects,
    finishing,
    handed,
    limiting,
    lost,
    ordering,
    schema,
    scopes,
)
from duly.store.postgres.arrays import OptionalInt8s, Texts
from duly.store.postgres.circles import beyond_circles
from duly.store.postgres.quotas import PostgresSetting, list_active_of, list_gone, list_quotas
from duly.store.work_rulings import lost_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly.domain.audit import Actor
    from duly.domain.backfill import Slot
    from duly.domain.effects import EffectRecord
    from duly.domain.ids import BackfillId, RunId, ScheduleId
    from duly.domain.limits import Limit, LimitRecord, Limits
    from duly.domain.quotas import DepartedOwner, Quota, QuotaKey
    from duly.domain.runs import RunRecord, TaskPolicy
    from duly.domain.verification import Scope
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
    from duly.store.ports.execution import (
        Claimed,
        ClaimRuns,
        FinishAttempt,
        Finished,
        Heartbeat,
        HeartbeatResult,
        LostClaims,
        Report,
        SaveCheckpoint,
        SettleLost,
    )
    from duly.store.ports.limits import Admitted, BreakerRecord, PlaceRecord, Request, SetLimit
    from duly.store.ports.operations import (
        CancelRun,
        EditRun,
        MarkOwner,
        Ordered,
        OrderRuns,
        QueueRecord,
        SetQuotas,
    )
    from duly.store.postgres.connection import Connections

# Programs say the same at every start: what has not changed is not written.
REGISTER_POLICIES = """
INSERT INTO duly.tasks (name, policy, timeout_us)
SELECT * FROM unnest($1::text[], $2::text[], $3::int8[])
ON CONFLICT (name) DO UPDATE SET policy = excluded.policy, timeout_us = excluded.timeout_us
WHERE tasks.policy IS DISTINCT FROM excluded.policy"""
STRAYS_SHARE = 20
"""Looking for strays takes at most one part in so many of the time: a transaction that is left open
elsewhere keeps every claim that there was, and they are all looked at."""


class PostgresWorking:
    """What workers do, what is done about lost ones, and what people order about runs."""

    name: str
    _connections: Connections
    _strays_due_at: int | None = None
    """By the monotonic clock."""

    # Execution

    def register_policies(self, policies: Mapping[str, TaskPolicy]) -> None:
        """Remember what tasks' code says about their runs."""
        if not policies:
            return
        unsafe = unsafe_among(policies)
        if unsafe:
            with self._connections.write() as work:
                schema.refuse_older(work, unsafe)
        names = sorted(policies)
        texts = [json.dumps(policies[name].to_json(), sort_keys=True) for name in names]
        limits = [policies[name].timeout_us for name in names]
        with self._connections.statement() as session:
            session.run(REGISTER_POLICIES, (Texts(names), Texts(texts), OptionalInt8s(limits)))

    def claim_runs(self, command: ClaimRuns) -> Claimed:
        """Take queued runs, by priority and rank."""
        return self.begin_claim(command)()

    def begin_claim(self, command: ClaimRuns) -> Callable[[], Claimed]:
        """Begin to take queued runs; return what waits for them, which has to be called once.

        Until then the connection is taken; whoever has begun may do something else meanwhile.
        """
        with ExitStack() as stack:
            session = stack.enter_context(self._connections.statement(for_dispatch=True))
            answer = handed.begin(session, command, self._connections.aim, self._connections.offers)
            held = stack.pop_all()

        def heard() -> Claimed:
            with held:
                claimed = answer()
            self._connections.broom.note(len(claimed.runs))
            return claimed

        return heard

    def beat(self, command: Heartbeat) -> HeartbeatResult:
        """Renew a worker that nobody has declared dead; say what of its holds must stop."""
        beaten = self._beat(command)
        self._connections.plans_ahead.refresh()
        return beaten

    def _beat(self, command: Heartbeat) -> HeartbeatResult:
        with self._connections.statement(for_dispatch=True) as session:
            beaten, program_min = beating.beat(session, command)
            self._connections.refuse_newer(session, program_min)
            if not beaten.is_alive:
                return beaten
            clock = self._connections.clock
            began_at = clock.monotonic_us()
            if self._strays_due_at is not None and began_at < self._strays_due_at:
                return beaten
            strays = beating.find_strays(session, command)
            ended_at = clock.monotonic_us()
            self._strays_due_at = ended_at + STRAYS_SHARE * (ended_at - began_at)
            return replace(beaten, strays=strays)

    def report(self, worker: MemberId, reports: Sequence[Report]) -> list[bool]:
        """Write what attempts have done that are still ours."""
        if not reports:
            return []
        with self._connections.write(for_dispatch=True) as work:
            return beating.report(work, worker, reports)

    def save_checkpoint(self, command: SaveCheckpoint) -> bool:
        """Remember a state of a run that is ours."""
        # By threads of tasks, however many: they never hold up a heartbeat.
        with self._connections.statement() as session:
            return beating.save_checkpoint(session, command)

    def get_checkpoints(self, run_id: RunId) -> dict[str, str]:
        """Return a run's last states by partition."""
        with self._connections.statement() as session:
            return beating.get_checkpoints(session, run_id)

    def finish_runs(self, worker: MemberId, finishes: Sequence[FinishAttempt]) -> Finished:
        """End attempts, and put their runs where it was decided."""
        return finishing.finish_runs(self._connections, worker, finishes)

    def finish_and_claim(
        self, finishes: Sequence[FinishAttempt], claim: ClaimRuns
    ) -> tuple[Finished, Claimed]:
        """End attempts, and take queued runs."""
        if self._connections.offers.is_any():
            return self.finish_runs(claim.worker, finishes), self.claim_runs(claim)
        finished, claimed = finishing.finish_and_claim(self._connections, finishes, claim)
        self._connections.broom.note(len(claimed.runs))
        return finished, claimed

    def find_lost(self, limit: int, overdue_us: int) -> LostClaims:
        """Read claims of dead workers, and those long overdue."""
        with self._connections.statement(for_dispatch=True) as session:
            return lost.find_lost(session, limit, overdue_us)

    def settle_lost(self, command: SettleLost) -> list[bool]:
        """Take claims from their workers, under the maintenance lease."""
        with self._connections.write(for_dispatch=True) as work:
            settled = lost.settle_lost(work, command)
        if settled is None:
            raise lost_lease(self.name)
        return settled

    def is_served(self, task: str, queue: str) -> bool:
        """Say whether any living worker knows a task and serves the queue."""
        with self._connections.statement(for_dispatch=True) as session:
            return lost.is_served(session, task, queue)

    # Effects and doubt

    def begin_effect(self, command: BeginEffect) -> EffectGrant:
        """Permit an effect."""
        # By threads of tasks, as with checkpoints.
        return effects.begin_effect(self._connections, command)

    def end_effect(self, command: EndEffect) -> bool:
        """Write an effect down as done, or as not begun."""
        return effects.end_effect(self._connections, command)

    def list_effects(self, run_id: RunId, limit: int) -> list[EffectRecord]:
        """Return the ledger of a run's line."""
        with self._connections.statement() as session:
            return effects.list_effects(session, run_id, limit)

    def list_doubts(self, tenant: str | None, limit: int) -> list[AmbiguousRun]:
        """Return runs that are in doubt, oldest first."""
        with self._connections.read() as look:
            return doubts.list_doubts(look.session, tenant, limit)

    def settle_doubt(self, command: ResolveAmbiguousRun) -> RunRecord:
        """Carry out what a person decided about a run in doubt."""
        with self._connections.write() as work:
            return doubts.settle_doubt(work, command)

    def rerun_run(self, command: Rerun) -> RunRecord:
        """Queue another run with a run's call."""
        with self._connections.write() as work:
            return doubts.rerun_run(work, command)

    def order_task(self, command: OrderTask) -> TaskOrder:
        """Suspend a task's retries, or block its reruns."""
        with self._connections.write() as work:
            return doubts.order_task(work, command)

    def task_orders(self) -> Mapping[str, TaskOrder]:
        """Return the tasks with an order in force."""
        with self._connections.statement() as session:
            return doubts.task_orders(session)

    def add_verdict(self, command: AddVerdict) -> VerdictRecord:
        """Record what was found about a run."""
        with self._connections.write() as work:
            return doubts.add_verdict(work, command)

    def list_verdicts(self, run_id: RunId) -> list[VerdictRecord]:
        """Return what was found about a run, oldest first."""
        with self._connections.statement() as session:
            return doubts.list_verdicts(session, run_id)

    def get_scope(self, run_id: RunId) -> Scope:
        """Return what is known of a run's scope."""
        with self._connections.read() as look:
            return scopes.get_scope(look.session, run_id)

    def list_done(self, run_id: RunId, items: Sequence[str]) -> frozenset[str]:
        """Return those of some items that are done."""
        with self._connections.read() as look:
            return scopes.list_done(look.session, run_id, items)

    # Quotas

    def set_quotas(self, command: SetQuotas) -> list[Quota]:
        """Set quotas of a scope."""
        with self._connections.write() as work:
            return PostgresSetting(work).set(command)

    def remove_quotas(self, key: QuotaKey, actor: Actor) -> None:
        """Take back what was set for a scope."""
        with self._connections.write() as work:
            PostgresSetting(work).take_back(key, actor)

    def list_quotas(self) -> list[Quota]:
        """Return what was set, by scope."""
        with self._connections.statement() as session:
            return list_quotas(session)

    # Owners

    def mark_gone(self, command: MarkOwner) -> DepartedOwner:
        """Remember that an owner is gone."""
        with self._connections.write() as work:
            return mark_gone(PostgresSetting(work), command)

    def mark_back(self, command: MarkOwner) -> DepartedOwner:
        """Forget that an owner is gone."""
        with self._connections.write() as work:
            return mark_back(PostgresSetting(work), command)

    def list_gone(self, tenant: str, after: str, limit: int) -> list[DepartedOwner]:
        """Return who is gone, by name."""
        with self._connections.read() as look:
            return list_gone(look.session, tenant, after, limit)

    def list_active_of(self, tenant: str, owner: str, limit: int) -> list[ScheduleId]:
        """Return an owner's schedules that fire or will again by themselves."""
        with self._connections.read() as look:
            return list_active_of(look.session, tenant, owner, limit)

    # Operating

    def cancel_run(self, command: CancelRun) -> RunRecord:
        """Cancel a run, or ask its worker to stop it."""

        def cancel() -> RunRecord:
            with self._connections.write() as work:
                return ordering.cancel_run(work, command)

        return beyond_circles(cancel)

    def retry_runs(self, command: OrderRuns) -> list[Ordered]:
        """Queue dead and waiting runs again."""
        with self._connections.write() as work:
            return ordering.retry_runs(work, command)

    def discard_runs(self, command: OrderRuns) -> list[Ordered]:
        """Close dead runs."""
        with self._connections.write() as work:
            return ordering.discard_runs(work, command)

    def edit_run(self, command: EditRun) -> RunRecord:
        """Replace the arguments of a dead run."""
        with self._connections.write() as work:
            return ordering.edit_run(work, command)

    def pause_queue(self, name: str, actor: Actor) -> None:
        """Hand out nothing from a queue."""
        with self._connections.write() as work:
            ordering.pause_queue(work, name, actor)

    def resume_queue(self, name: str, actor: Actor) -> None:
        """Hand out again."""
        with self._connections.write() as work:
            ordering.resume_queue(work, name, actor)

    def list_queues(self) -> list[QueueRecord]:
        """Return queues that hold something or are paused, by name."""
        with self._connections.read() as look:
            return ordering.list_queues(look.session, is_held=self._connections.keeps_tenants)

    # Limits

    def admit(self, worker: MemberId, requests: Sequence[Request]) -> Admitted:
        """Decide about claims that fall under limits."""
        with self._connections.write(for_dispatch=True) as work:
            return admission.admit(work, worker, requests)

    def declare_limits(self, limits: Mapping[str, Limit | None], actor: Actor) -> None:
        """Remember what code says about limits."""
        if limits:
            with self._connections.write() as work:
                limiting.declare_limits(work, limits, actor)

    def set_limit(self, command: SetLimit) -> LimitRecord:
        """Limit something by a person's order."""
        with self._connections.write() as work:
            return limiting.set_limit(work, command)

    def remove_limit(self, scope: str, actor: Actor) -> bool:
        """Take a person's limit away."""
        with self._connections.write() as work:
            return limiting.remove_limit(work, scope, actor)

    def list_limits(self) -> Limits:
        """Return all limits."""
        with self._connections.read(for_dispatch=True) as look:
            return limiting.list_limits(look.session)

    def list_places(self) -> list[PlaceRecord]:
        """Return limits at which something is going on."""
        with self._connections.read() as look:
            return limiting.list_places(look, is_held=self._connections.keeps_tenants)

    def list_breakers(self) -> list[BreakerRecord]:
        """Return what is known of destinations."""
        with self._connections.read() as look:
            return destinations.list_breakers(look)

    def reset_breaker(self, destination: str, actor: Actor) -> BreakerRecord:
        """Take a destination for well."""
        with self._connections.write() as work:
            return destinations.reset_breaker(work, destination, actor)

    # Backfills

    def create_backfill(self, command: CreateBackfill) -> BackfillRecord:
        """Write a backfill down."""
        with self._connections.write() as work:
            return backfilling.create_backfill(work, command)

    def change_backfill(self, command: ChangeBackfill) -> BackfillRecord:
        """Apply an order about a backfill."""
        with self._connections.write() as work:
            return backfilling.change_backfill(work, command)

    def step_backfill(self, command: StepBackfill) -> Stepped:
        """Do a part of a backfill."""
        with self._connections.write(for_dispatch=True) as work:
            return backfilling.step_backfill(work, command)

    def get_backfill(self, tenant: str, backfill_id: BackfillId) -> BackfillRecord | None:
        """Return a backfill."""
        with self._connections.read() as look:
            return backfilling.get_backfill(look, tenant, backfill_id)

    def list_backfills(
        self, tenant: str, schedule_id: ScheduleId | None, limit: int
    ) -> list[BackfillRecord]:
        """Return backfills, newest first."""
        with self._connections.read() as look:
            return backfilling.list_backfills(look, tenant, schedule_id, limit)

    def load_backfills(self, limit: int) -> list[BackfillRecord]:
        """Return active backfills, oldest first."""
        with self._connections.read(for_dispatch=True) as look:
            return backfilling.load_backfills(look, limit)

    def list_slots(
        self, backfill_id: BackfillId, after: int | None, limit: int
    ) -> list[BackfillOccurrenceRecord]:
        """Return what was done about occurrences, by their time."""
        with self._connections.read() as look:
            return backfilling.list_slots(look, backfill_id, after, limit)

    def classify_slots(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[Slot]:
        """Say what is known about occurrences."""
        with self._connections.read() as look:
            return backfilling.classify_slots(look, schedule_id, instants)
