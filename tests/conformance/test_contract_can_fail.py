"""The contract bites: each of these broken stores fails the test that is meant for it.

A defect is named after what it does wrong. A suite that no defect fails proves nothing.
"""

from __future__ import annotations

import inspect
from collections import Counter
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from duly.domain.enums import Lane, RunState, ScheduleStatus
from duly.domain.outcomes import DeadLetter
from duly.domain.schedules import NextOccurrence
from duly.engine.manual_clock import ManualClock
from duly.errors import Outdated
from duly.store.memory import MemoryStore
from duly.store.ports.dispatch import ArrivalsCursor, Fence, Lease, LeaseKey
from duly.store.ports.execution import FinishResult
from duly_conformance import StoreContract
from duly_conformance.kit import dispatcher
from tests.conformance.defects_by_port import DEFECTS_BY_PORT


class NoFence(MemoryStore):
    """Takes whoever writes for the owner."""

    def fire_timers(self, command):
        owners = {row.key: row for row in self.tables.leases.values() if row.owner}
        living = self.join(dispatcher())[0]
        for row in owners.values():
            self.tables.leases[row.key] = replace(row, owner=living)
        leases = tuple(Lease(row.key, row.epoch) for row in owners.values())
        fired = super().fire_timers(replace(command, fence=Fence(living, leases)))
        self.tables.leases.update(owners)
        return fired


class FenceWithoutEpoch(MemoryStore):
    """Compares the owner, and not the epoch."""

    def fire_timers(self, command):
        leases = tuple(
            Lease(lease.key, self.tables.leases[lease.key].epoch) for lease in command.fence.leases
        )
        return super().fire_timers(replace(command, fence=replace(command.fence, leases=leases)))


class FenceWithoutExpiry(MemoryStore):
    """Lets a member write whose time is over, as long as nobody took over."""

    def fire_timers(self, command):
        member = self.tables.members[command.fence.member]
        self.tables.members[member.id] = replace(member, expires_at=1 << 60)
        return super().fire_timers(command)


class ForgetsWhoIsOver(MemoryStore):
    """Refuses who has expired, and forgets it: set back, its clock lets the dead live again."""

    def fire_timers(self, command):
        before = self.tables.members[command.fence.member]
        fired = super().fire_timers(command)
        self.tables.members[before.id] = before
        return fired


class SilentFence(MemoryStore):
    """Refuses, and tells nobody."""

    def fire_timers(self, command):
        fired = super().fire_timers(command)
        _forget_last(self, "lease.refused")
        return fired


class EarlyByOne(MemoryStore):
    """Fires what falls due a microsecond from now: its clock is ahead while it fires."""

    def fire_timers(self, command):
        with _shifted(self, 1):
            return super().fire_timers(command)


class LateByOne(MemoryStore):
    """Takes the end of the grace for late."""

    def fire_timers(self, command):
        schedules = tuple(
            one._replace(late_after=one.late_after and one.late_after - 1)
            for one in command.schedules
        )
        return super().fire_timers(replace(command, schedules=schedules))


class NeverLate(MemoryStore):
    """Fires by a plan that no longer holds."""

    def fire_timers(self, command):
        schedules = tuple(one._replace(late_after=None) for one in command.schedules)
        return super().fire_timers(replace(command, schedules=schedules))


class SecondFire(MemoryStore):
    """Compares neither version nor due: fires whatever is said to be pending."""

    def fire_timers(self, command):
        for one in command.schedules:
            record = self.tables.schedules.get(one.timer.ref)
            if record is not None:
                pending = NextOccurrence(one.timer.scheduled_for, one.timer.due_at)
                self.tables.schedules[record.id] = replace(
                    record, pending=pending, version=one.timer.generation
                )
        return super().fire_timers(command)


class StaleVersion(MemoryStore):
    """Compares the due alone: an edit that keeps it goes unnoticed."""

    def fire_timers(self, command):
        schedules = tuple(
            one._replace(timer=one.timer._replace(generation=record.version))
            if (record := self.tables.schedules.get(one.timer.ref))
            else one
            for one in command.schedules
        )
        return super().fire_timers(replace(command, schedules=schedules))


class QueuedTwice(MemoryStore):
    """Makes the run again that is there already."""

    def fire_timers(self, command):
        before = dict(self.tables.ready)
        for one in command.schedules:
            for run in one.plan.settlement.runs:
                self.tables.runs.pop(run.run_id, None)
                self.tables.ready.pop(run.run_id, None)
        fired = super().fire_timers(command)
        self.tables.ready.update(before)
        return fired


class ForgetsNextInstant(MemoryStore):
    """Fires, and puts the timer to nothing: the schedule never fires again."""

    def fire_timers(self, command):
        schedules = tuple(
            one._replace(plan=one.plan._replace(pending=None, end_reason="forgotten"))
            for one in command.schedules
        )
        return super().fire_timers(replace(command, schedules=schedules))


class SilentSkips(MemoryStore):
    """Drops what a plan skips."""

    def fire_timers(self, command):
        schedules = tuple(
            one._replace(plan=one.plan._replace(settlement=one.plan.settlement._replace(skips=())))
            for one in command.schedules
        )
        return super().fire_timers(replace(command, schedules=schedules))


class FirstResultForAll(MemoryStore):
    """Answers a batch as if all timers had the fate of the first."""

    def fire_timers(self, command):
        fired = super().fire_timers(command)
        return replace(fired, results=fired.results[:1] * len(fired.results))


class EpochReused(MemoryStore):
    """Starts to count again when a lease comes free."""

    def release_leases(self, fence):
        super().release_leases(fence)
        for key, row in self.tables.leases.items():
            if row.owner is None:
                self.tables.leases[key] = replace(row, epoch=0)


class TakesFromTheLiving(MemoryStore):
    """Gives a lease to whoever asks last."""

    def acquire_leases(self, member, wanted):
        for key in wanted:
            row = self.tables.leases[key]
            self.tables.leases[key] = replace(row, owner=None)
        return super().acquire_leases(member, wanted)


class ReleasesWhatIsNotIts(MemoryStore):
    """Frees leases by their key alone."""

    def release_leases(self, fence):
        for lease in fence.leases:
            row = self.tables.leases[lease.key]
            self.tables.leases[lease.key] = replace(row, owner=None)


class MemberReused(MemoryStore):
    """Gives the number of a member that has left to the next."""

    def leave(self, member):
        super().leave(member)
        self.tables.members.pop(member, None)
        self.tables.member_number = max(self.tables.members, default=0)


class RisesFromTheDead(MemoryStore):
    """Renews whoever asks."""

    def renew(self, command):
        row = self.tables.members.get(command.member)
        if row is not None:
            self.tables.members[row.id] = replace(row, is_alive=True, expires_at=1 << 60)
        return super().renew(command)


class LastEditWins(MemoryStore):
    """Applies a change to whatever there is."""

    def change_schedule(self, command):
        record = self.tables.schedules[command.id]
        return super().change_schedule(
            replace(command, expected_version=record.version, expected_pending=record.pending)
        )


class IgnoresPending(MemoryStore):
    """Compares the version and not what is pending: a fire in between goes unnoticed."""

    def change_schedule(self, command):
        record = self.tables.schedules[command.id]
        return super().change_schedule(replace(command, expected_pending=record.pending))


class IgnoresBefore(MemoryStore):
    """Applies a decision after the instant it relied on."""

    def change_schedule(self, command):
        return super().change_schedule(
            replace(command, change=replace(command.change, before=None))
        )


class KeepsOwedOfTheDeleted(MemoryStore):
    """Forgets to give up what is owed."""

    def change_schedule(self, command):
        return super().change_schedule(
            replace(command, change=replace(command.change, drops_owed=False))
        )


class AuditOutside(MemoryStore):
    """Loses the entry of a change."""

    def change_schedule(self, command):
        changed = super().change_schedule(command)
        _forget_last(self, command.change.action)
        return changed


class DrainsWithoutFence(MemoryStore):
    """Drains under anybody's lease."""

    def drain_owed(self, command):
        key = LeaseKey(command.shard, Lane.CATCH_UP)
        row = self.tables.leases[key]
        member = self.join(dispatcher())[0]
        self.tables.leases[key] = replace(row, owner=member)
        result = super().drain_owed(replace(command, fence=Fence(member, (Lease(key, row.epoch),))))
        self.tables.leases[key] = row
        return result


class DrainsWhilePaused(MemoryStore):
    """Goes on catching up for a schedule that rests."""

    def drain_owed(self, command):
        record = self.tables.schedules[command.owed.schedule_id]
        self.tables.schedules[record.id] = replace(record, status=ScheduleStatus.ACTIVE)
        result = super().drain_owed(command)
        after = self.tables.schedules[record.id]
        self.tables.schedules[record.id] = replace(after, status=record.status)
        return result


class DrainsTwice(MemoryStore):
    """Takes a range for drained only when it is empty: it stays where it began."""

    def drain_owed(self, command):
        settlement = command.settlement._replace(owed=command.owed)
        return super().drain_owed(replace(command, settlement=settlement))


class PrunesPending(MemoryStore):
    """Takes what is old for what is over."""

    def prune(self, command):
        pruned = super().prune(command)
        self.tables.delayed.clear()
        self.tables.keys.clear()
        return pruned


class PrunesOpenRuns(MemoryStore):
    """Removes runs that nobody has finished."""

    def prune(self, command):
        pruned = super().prune(command)
        self.tables.runs.clear()
        self.tables.ready.clear()
        return pruned


class PrunesAudit(MemoryStore):
    """Removes the trail with the rest."""

    def prune(self, command):
        pruned = super().prune(command)
        self.tables.audit.clear()
        return pruned


class PrunesWithoutRemembering(MemoryStore):
    """Forgets how far it has removed."""

    def prune(self, command):
        pruned = super().prune(command)
        for record in list(self.tables.schedules.values()):
            self.tables.schedules[record.id] = replace(record, pruned_through=None)
        return pruned


class HighWaterMark(MemoryStore):
    """Reads arrivals from the highest number seen, and so misses a late commit."""

    def start_of_arrivals(self):
        return _without_open(super().start_of_arrivals())

    def read_arrivals(self, cursor, shards):
        told = super().read_arrivals(cursor, shards)
        return replace(told, cursor=_without_open(told.cursor))


class SilentEdits(MemoryStore):
    """Announces what is new, and not what was changed."""

    def change_schedule(self, command):
        numbers = set(self.tables.arrivals)
        changed = super().change_schedule(command)
        for number in set(self.tables.arrivals) - numbers:
            del self.tables.arrivals[number]
        return changed


class CutsAnInstant(MemoryStore):
    """Ends a page in the middle of an instant, and says that it is whole."""

    def load_timers(self, command):
        loaded = super().load_timers(replace(command, limit=1 << 60))
        timers = loaded.timers[: command.limit]
        through = timers[-1].due_at if len(timers) < len(loaded.timers) else loaded.through
        return replace(loaded, timers=timers, through=through)


class KeysAcrossTenants(MemoryStore):
    """Finds a delayed run by its id, whoever it belongs to."""

    def cancel_delayed(self, command):
        pending = self.tables.delayed.get(command.id)
        tenant = command.tenant if pending is None else pending.tenant
        return super().cancel_delayed(replace(command, tenant=tenant))


class HalfABatch(MemoryStore):
    """Makes runs one by one: the first stay when the last is refused."""

    def add_runs(self, command):
        return [
            one
            for run in command.runs
            for one in super(HalfABatch, self).add_runs(replace(command, runs=(run,)))
        ]


class ReplacesWithoutTrace(MemoryStore):
    """Replaces a pending run and leaves no record of it."""

    def add_runs(self, command):
        added = super().add_runs(command)
        for run_id, outcome in list(self.tables.outcomes.items()):
            if outcome.state is RunState.REPLACED:
                del self.tables.outcomes[run_id]
                del self.tables.runs[run_id]
        return added


class MovesWithoutGeneration(MemoryStore):
    """Moves a run under the generation it had."""

    def move_delayed(self, command):
        moved = replace(super().move_delayed(command), generation=1)
        self.tables.delayed[moved.id] = moved
        return moved


class EndlessTransaction(MemoryStore):
    """Lends a transaction without limit."""

    @contextmanager
    def transaction(self, limit_us):
        with super().transaction(1 << 60) as lent:
            yield lent


class CommitsWhatFailed(MemoryStore):
    """Writes at once what belongs to a transaction."""

    def joined(self, _within):
        return self


class ClaimsForTheDead(MemoryStore):
    """Hands out runs without looking who asks."""

    def claim_runs(self, command):
        member = self.tables.members.get(command.worker)
        if member is not None:
            self.tables.members[member.id] = replace(member, is_alive=True, expires_at=1 << 60)
        claimed = super().claim_runs(command)
        if member is not None:
            self.tables.members[member.id] = member
        return claimed


class FirstInFirstOut(MemoryStore):
    """Hands out by age alone."""

    def claim_runs(self, command):
        rows = dict(self.tables.runs)
        for run_id, row in rows.items():
            if row.call is not None:
                self.tables.runs[run_id] = replace(row, call=replace(row.call, priority=4))
        claimed = super().claim_runs(command)
        self.tables.runs.update(rows)
        return claimed


class HandsOutWhilePaused(MemoryStore):
    """Forgets that a queue is paused."""

    def claim_runs(self, command):
        paused = dict(self.tables.paused_queues)
        self.tables.paused_queues.clear()
        claimed = super().claim_runs(command)
        self.tables.paused_queues.update(paused)
        return claimed


class UnstartedCounts(MemoryStore):
    """Uses an attempt number up for what was never started."""

    def finish_runs(self, worker, finishes):
        started = [
            replace(one, conclusion=replace(one.conclusion, is_started=True)) for one in finishes
        ]
        return super().finish_runs(worker, started)


class TakesAnyWord(MemoryStore):
    """Lets whoever comes finish a run, under whatever fence."""

    def finish_runs(self, worker, finishes):
        given = []
        for one in finishes:
            claim = self.tables.claims.get(one.hold.run_id)
            if claim is not None:
                worker = claim.worker
                one = replace(one, hold=one.hold._replace(fence=claim.tries.fence))  # noqa: PLW2901
            given.append(one)
        return super().finish_runs(worker, given)


class ForgetsWhatItSaid(MemoryStore):
    """Refuses the completion whose answer was lost."""

    def finish_runs(self, worker, finishes):
        held = {(run_id, row.tries.fence) for run_id, row in self.tables.claims.items()}
        finished = super().finish_runs(worker, finishes)
        results = tuple(
            result if (one.hold.run_id, one.hold.fence) in held else FinishResult.REFUSED
            for one, result in zip(finishes, finished.results, strict=True)
        )
        return replace(finished, results=results)


class SilentRefusal(MemoryStore):
    """Refuses a lost owner, and keeps no record of it."""

    def finish_runs(self, worker, finishes):
        attempts = dict(self.tables.attempts)
        finished = super().finish_runs(worker, finishes)
        if FinishResult.REFUSED in finished.results:
            self.tables.attempts.update(attempts)
            _forget_last(self, "attempt.refused")
        return finished


class ForgetsToCancel(MemoryStore):
    """Tries a run again that somebody has cancelled."""

    def finish_runs(self, worker, finishes):
        for run_id, claim in list(self.tables.claims.items()):
            self.tables.claims[run_id] = replace(claim, cancel_asked_at=None)
        return super().finish_runs(worker, finishes)


class RetriesEarly(MemoryStore):
    """Fires a retry a microsecond before it is due."""

    def fire_timers(self, command):
        with _shifted(self, 1 if command.retries else 0):
            return super().fire_timers(command)


class ForgetsTheBudget(MemoryStore):
    """Lets all retries of a task come at once."""

    def finish_runs(self, worker, finishes):
        self.tables.retry_slots.clear()
        return super().finish_runs(worker, finishes)


class ReapsTheLiving(MemoryStore):
    """Believes whoever has found a claim lost, without looking again."""

    def settle_lost(self, command):
        for loss in command.losses:
            row = self.tables.members[loss.claim.worker]
            self.tables.members[row.id] = replace(row, is_alive=False)
        return super().settle_lost(command)


class ReaperWithoutFence(MemoryStore):
    """Lets anybody settle."""

    def settle_lost(self, command):
        owner = self.join(dispatcher())[0]
        key = LeaseKey(0, Lane.BACKFILL)
        row = self.tables.leases[key]
        self.tables.leases[key] = replace(row, owner=owner)
        fence = Fence(owner, (Lease(key, row.epoch),))
        settled = super().settle_lost(replace(command, fence=fence))
        self.tables.leases[key] = row
        return settled


class KeepsTheDebt(MemoryStore):
    """Queues a dead run again, with a budget that is spent."""

    def retry_runs(self, command):
        tries = {run_id: row.tries for run_id, row in self.tables.dead.items()}
        ordered = super().retry_runs(command)
        for run_id, spent in tries.items():
            if run_id in self.tables.ready:
                row = self.tables.ready[run_id]
                self.tables.ready[run_id] = replace(row, tries=spent)
        return ordered


class LooseCheckpoints(MemoryStore):
    """Takes a state from whoever brings one."""

    def save_checkpoint(self, command):
        self.tables.checkpoints[command.hold.run_id, command.partition] = command.state
        return True


class NoStrays(MemoryStore):
    """Never speaks of claims whose answer was lost."""

    def beat(self, command):
        return replace(super().beat(command), strays=())


class PrunesHolders(MemoryStore):
    """Forgets a dead worker that still holds a run."""

    def prune(self, command):
        claims = dict(self.tables.claims)
        self.tables.claims.clear()
        pruned = super().prune(command)
        self.tables.claims.update(claims)
        return pruned


class HandsOutWhatIsLacking(MemoryStore):
    """Gives a worker runs whose code it has not."""

    def claim_runs(self, command):
        return super().claim_runs(replace(command, without=frozenset()))


class ServesEverywhere(MemoryStore):
    """Takes whoever knows a task for one who serves every queue."""

    def is_served(self, task, queue):
        return any(super(ServesEverywhere, self).is_served(task, one) for one in ("mail", queue))


class EndsTheExpired(MemoryStore):
    """Takes a worker for dead that nobody has declared dead."""

    def beat(self, command):
        member = self.tables.members.get(command.worker)
        if member is not None and member.expires_at <= self.now():
            self.tables.members[member.id] = replace(member, is_alive=False)
        return super().beat(command)


class BuriesTheCancelled(MemoryStore):
    """Puts a run among the dead letters that somebody has cancelled."""

    def finish_runs(self, worker, finishes):
        for one in finishes:
            claim = self.tables.claims.get(one.hold.run_id)
            if claim is not None and isinstance(one.conclusion.next, DeadLetter):
                self.tables.claims[one.hold.run_id] = replace(claim, cancel_asked_at=None)
        return super().finish_runs(worker, finishes)


class TellsTwice(MemoryStore):
    """Stores lines once more whose answer was lost."""

    def report(self, worker, reports):
        return super().report(worker, [replace(one, lines_before=None) for one in reports])


class ForgetsWorkers(MemoryStore):
    """Knows nothing of a worker that is a member no more."""

    def prune(self, command):
        pruned = super().prune(command)
        self.tables.workers.clear()
        return pruned


DEFECTS = [
    *DEFECTS_BY_PORT,
    (NoFence, "test_an_owner_that_was_taken_over_is_fenced"),
    (FenceWithoutEpoch, "test_another_epoch_is_fenced[-1]"),
    (FenceWithoutExpiry, "test_an_expired_owner_is_fenced_though_nobody_took_over"),
    (ForgetsWhoIsOver, "test_an_owner_that_was_found_expired_stays_so[fire]"),
    (SilentFence, "test_a_refused_owner_is_on_record"),
    (EarlyByOne, "test_a_microsecond_before_is_early_and_changes_nothing"),
    (LateByOne, "test_a_timer_fires_as_planned_up_to_the_end_of_its_grace"),
    (NeverLate, "test_past_its_grace_it_is_late_and_changes_nothing"),
    (SecondFire, "test_a_second_fire_finds_it_gone"),
    (StaleVersion, "test_a_change_that_keeps_the_due_still_voids_the_old_timer"),
    (QueuedTwice, "test_a_run_that_exists_is_not_queued_again"),
    (ForgetsNextInstant, "test_firing_puts_the_timer_to_the_next_instant"),
    (SilentSkips, "test_every_occurrence_of_an_outage_has_one_verdict"),
    (FirstResultForAll, "test_each_timer_has_its_own_result_in_the_order_given"),
    (EpochReused, "test_epochs_only_grow[release]"),
    (TakesFromTheLiving, "test_the_living_keep_what_they_own"),
    (ReleasesWhatIsNotIts, "test_only_what_is_still_ours_is_released"),
    (MemberReused, "test_an_id_is_never_used_again"),
    (RisesFromTheDead, "test_whoever_is_declared_dead_stays_dead"),
    (LastEditWins, "test_a_change_of_an_older_version_is_stale_and_changes_nothing"),
    (IgnoresPending, "test_a_change_decided_before_a_fire_is_stale"),
    (IgnoresBefore, "test_a_change_holds_until_the_instant_before"),
    (KeepsOwedOfTheDeleted, "test_deleting_turns_what_is_owed_into_skips"),
    (AuditOutside, "test_a_change_is_audited_with_before_and_after"),
    (DrainsWithoutFence, "test_a_stale_owner_drains_nothing"),
    (DrainsWhilePaused, "test_a_schedule_that_rests_drains_nothing[paused]"),
    (DrainsTwice, "test_draining_makes_runs_and_leaves_the_rest"),
    (PrunesPending, "test_pending_promises_are_never_removed"),
    (PrunesOpenRuns, "test_a_run_that_is_open_is_never_removed"),
    (PrunesAudit, "test_the_audit_trail_is_never_removed"),
    (PrunesWithoutRemembering, "test_a_pruned_occurrence_is_unknown_and_not_missing"),
    (HighWaterMark, "test_a_commit_that_comes_late_is_not_missed"),
    (SilentEdits, "test_an_edit_that_brings_a_timer_near_is_announced"),
    (CutsAnInstant, "test_a_limit_cuts_only_between_instants"),
    (KeysAcrossTenants, "test_what_belongs_to_another_tenant_is_not_found"),
    (HalfABatch, "test_runs_are_made_all_or_none"),
    (ReplacesWithoutTrace, "test_replacing_ends_the_old_one_on_record"),
    (MovesWithoutGeneration, "test_a_delayed_run_that_was_changed_is_gone[moved back]"),
    (EndlessTransaction, "test_a_commit_after_the_limit_fails_and_undoes_all"),
    (CommitsWhatFailed, "test_nothing_is_done_when_the_caller_fails"),
    (ClaimsForTheDead, "test_who_is_not_alive_gets_nothing[expired]"),
    (FirstInFirstOut, "test_more_urgent_runs_come_first"),
    (HandsOutWhilePaused, "test_a_paused_queue_hands_out_nothing_until_it_is_resumed"),
    (UnstartedCounts, "test_fences_grow_with_every_claim_and_attempts_with_every_start"),
    (TakesAnyWord, "test_a_lost_owner_changes_nothing_and_its_word_is_kept"),
    (ForgetsWhatItSaid, "test_finishing_twice_is_accepted_while_another_holds_the_run"),
    (SilentRefusal, "test_a_lost_owner_changes_nothing_and_its_word_is_kept"),
    (ForgetsToCancel, "test_a_run_that_was_to_be_cancelled_is_not_tried_again[snoozed]"),
    (RetriesEarly, "test_a_retry_never_comes_early"),
    (ForgetsTheBudget, "test_retries_of_a_task_lie_apart"),
    (ReapsTheLiving, "test_a_worker_that_has_renewed_keeps_what_it_holds"),
    (ReaperWithoutFence, "test_who_never_was_an_owner_settles_nothing"),
    (KeepsTheDebt, "test_a_dead_run_is_queued_again_with_a_fresh_budget"),
    (LooseCheckpoints, "test_a_checkpoint_of_somebody_else_is_refused"),
    (NoStrays, "test_what_a_worker_holds_and_does_not_name_is_a_stray"),
    (PrunesHolders, "test_a_dead_worker_that_still_holds_a_run_is_kept"),
    (HandsOutWhatIsLacking, "test_runs_that_a_worker_is_to_do_without_take_no_place[None]"),
    (ServesEverywhere, "test_a_task_is_served_in_the_queues_of_those_who_know_it"),
    (EndsTheExpired, "test_a_worker_whose_lease_ran_out_renews_it"),
    (BuriesTheCancelled, "test_a_run_that_was_to_be_cancelled_is_not_tried_again[fatal]"),
    (ForgetsTheBudget, "test_retries_that_are_sent_to_one_instant_are_spread"),
    (TellsTwice, "test_lines_whose_answer_was_lost_are_not_told_twice"),
    (ForgetsWorkers, "test_who_made_an_attempt_and_breathed_when_stays_readable"),
]


@pytest.mark.parametrize(
    ("broken", "named"), DEFECTS, ids=[broken.__name__ for broken, _ in DEFECTS]
)
def test_a_broken_store_fails_the_test_that_is_meant_for_it(broken, named):
    """And the sound store passes that same test."""
    _run(MemoryStore, named)

    with pytest.raises((AssertionError, ValueError, Outdated, pytest.fail.Exception)) as caught:
        _run(broken, named)

    # The test has noticed, and not the store that it was wrongly written.
    assert "memory" not in Path(caught.traceback[-1].path).parts


def test_no_test_of_the_contract_hides_another():
    """Two parts that use one name would lose a test without a word."""
    names = [
        name for part in StoreContract.__bases__ for name in vars(part) if name.startswith("test_")
    ]

    assert [] == [name for name, count in Counter(names).items() if count > 1]
    assert len(names) >= 200


def _run(store_class: type[MemoryStore], named: str) -> None:
    """Run one test of the contract on a new store; a case of it stands in brackets."""
    name, _, case = named.rstrip("]").partition("[")
    function = getattr(StoreContract, name)
    clock = ManualClock()
    given = {"store": store_class(clock), "clock": clock} | _case(function, case)
    wanted = inspect.signature(function).parameters
    function(StoreContract(), **{key: given[key] for key in wanted if key != "self"})


def _case(function: object, case: str) -> dict[str, object]:
    for mark in getattr(function, "pytestmark", ()):
        for value in mark.args[1]:
            if str(value) == case:
                return {mark.args[0]: value}
    assert not case, f"there is no case {case}"
    return {}


def _without_open(cursor: ArrivalsCursor) -> ArrivalsCursor:
    return ArrivalsCursor(cursor.partition(";")[0] + ";")


def _forget_last(store: MemoryStore, action: str) -> None:
    """Remove the newest audit entry, if it is of that action."""
    audit = store.tables.audit
    if audit and audit[max(audit)].action == action:
        del audit[max(audit)]


@contextmanager
def _shifted(store: MemoryStore, distance_us: int):
    """Let a store's clock be ahead for a while."""
    clock = store._clock  # noqa: SLF001 - the defect is in the store's own clock
    assert isinstance(clock, ManualClock)
    now = clock.now_us()
    clock.set(now + distance_us)
    yield
    clock.set(now)
