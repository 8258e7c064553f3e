"""The checker of work: holds claims, beats, reports, ends and orders against the ledger of work."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.domain.enums import AttemptState, Lane, RunState
from duly.domain.outcomes import Close, DeadLetter, MarkAmbiguous, Requeue, RetryLater
from duly.domain.runs import Reason, TaskPolicy
from duly.errors import LeaseLost
from duly.store.ports.dispatch import LeaseKey
from duly.store.ports.execution import ClaimRef, FinishResult, LostClaimReason, StopReason
from tests.simulation.ledger import DelayedNote
from tests.simulation.work_ledger import RunNote
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections import Counter

    from duly.domain.ids import RunId
    from duly.domain.outcomes import Conclusion, Next
    from duly.store.ports.dispatch import FireRetry, MemberId
    from duly.store.ports.execution import (
        ClaimedRun,
        ClaimRuns,
        FinishAttempt,
        Heartbeat,
        LostClaimDecision,
        SettleLost,
    )
    from duly.store.ports.operations import OrderRuns
    from tests.simulation.effect_checker import EffectChecker
    from tests.simulation.executing import Observer
    from tests.simulation.gate_ledger import GateLedger
    from tests.simulation.ledger import Ledger
    from tests.simulation.limit_checker import LimitChecker
    from tests.simulation.standing_checker import StandingChecker
    from tests.simulation.world import Executed

MAINTENANCE = LeaseKey(0, Lane.BACKFILL)
TRIED = frozenset((AttemptState.FAILED, AttemptState.TIMED_OUT, AttemptState.LOST))


class WorkChecker:
    """Sees every executed call about runs that are open; one method for each operation."""

    def __init__(self, ledger: Ledger) -> None:
        self.runs: dict[RunId, RunNote] = {}
        self.counts: Counter[str]
        self.observer: Observer
        self.gates: GateLedger | None = None
        self.effects: EffectChecker | None = None
        self.limits: LimitChecker | None = None
        self.standing: StandingChecker | None = None
        self.paused: set[str] = set()
        self._ledger = ledger
        self._policies: dict[str, TaskPolicy] = {}
        self._slots: set[tuple[str, int]] = set()
        self.latest_at = 0
        """The latest time that the store's clock has had,"""
        self._is_set_back = False
        """and whether a retry has got its slot at an earlier one since."""
        self._held: dict[MemberId, dict[RunId, RunNote]] = {}
        self._beaten: dict[MemberId, int] = {}
        """The turn in which a worker sent its last beat that arrived."""
        self._unheard: dict[MemberId, set[RunId]] = {}
        """What a worker got by an order that it had given up before that beat: nobody told it."""

    def policy(self, task: str) -> TaskPolicy:
        """Return what somebody's code has said about a task."""
        return self._policies.get(task, TaskPolicy())

    def is_cancelled(self, run_id: RunId) -> bool:
        """Say whether a run was cancelled after it had been queued."""
        return run_id in self.runs and self.runs[run_id].state is RunState.CANCELLED

    def _note(self, run_id: RunId) -> RunNote:
        return self.runs.setdefault(run_id, RunNote(run_id))

    def order(self, note: RunNote, now: int) -> None:
        """Write down a run that a person has ordered, to be run now."""
        self.runs[note.id] = note
        self._ledger.delayed[note.id] = DelayedNote(note.id, None, now, state="fired")

    def holds_any(self, worker: MemberId) -> bool:
        """Say whether a worker holds a run."""
        return bool(self._held.get(worker))

    def may_claim(self, worker: MemberId, now: int) -> bool:
        """Say whether a worker is alive and in service."""
        is_in_service = self.standing is None or self.standing.is_in_service(worker)
        return is_in_service and self._ledger.is_alive(worker, now)

    def release(self, note: RunNote) -> None:
        """Take a run from whoever holds it."""
        if note.worker is not None:
            self._held[note.worker].pop(note.id, None)
            note.worker = None

    def see_error(self, executed: Executed) -> None:
        """Look at a refusal: the living are not refused."""
        if executed.call.operation == "settle_lost" and isinstance(executed.error, LeaseLost):
            self.counts["settlements refused"] += 1
            fence = executed.call.arguments[0].fence
            if self._ledger.holds(fence, MAINTENANCE, executed.at):
                raise Violation("INV-21: a living owner was refused its settlement")

    # Workers

    def register_policies(self, executed: Executed) -> None:
        """Take over what tasks' code says."""
        self._policies.update(executed.call.arguments[0])

    def claim_runs(self, executed: Executed) -> None:
        """No run is given out twice, early, dead, over, or to the dead (INV-1)."""
        command: ClaimRuns = executed.call.arguments[0]
        claimed = executed.result
        is_alive = self._ledger.is_alive(command.worker, executed.at)
        if is_alive and self.standing is not None:
            is_alive = self.standing.may_claim(command.worker)
            if claimed.is_alive and not is_alive:
                raise Violation("A1: a worker that is out of service may claim")
        if claimed.is_alive != is_alive:
            raise Violation("INV-21: whether a worker is alive was answered wrongly")
        if claimed.runs and not is_alive:
            raise Violation("INV-5: a dead worker claimed a run")
        if len(claimed.runs) > command.limit:
            raise Violation("more runs were claimed than asked for")
        for run in claimed.runs:
            self._claim(executed, command, run)
        if executed.call.turn < self._beaten.get(command.worker, 0):
            self._unheard.setdefault(command.worker, set()).update(
                run.run_id for run in claimed.runs
            )
            self.counts["claims after all"] += len(claimed.runs)
        self.counts["claims"] += len(claimed.runs)

    def _claim(self, executed: Executed, command: ClaimRuns, run: ClaimedRun) -> None:
        record, tries = run.record, run.tries
        note = self._note(record.id)
        note.task, note.queue = record.call.task, record.call.queue
        if self.gates is not None:
            self.gates.claim(note, executed.at)
        if self.limits is not None:
            self.limits.look(executed.at)
        if note.state is not RunState.QUEUED:
            number = {
                RunState.RUNNING: 4,
                RunState.DEAD: 10,
                RunState.RETRYING: 1,
                RunState.AMBIGUOUS: 11,
            }
            raise Violation(
                f"INV-{number.get(note.state, 6)}: a run that is {note.state} was claimed"
            )
        if note.queue in self.paused or note.queue not in (command.queues or (note.queue,)):
            raise Violation(f"INV-12: a run was claimed from the queue {note.queue}")
        if note.task in command.without:
            raise Violation("a run was claimed that its worker had asked to be left out")
        # What was queued when it was due stays queued, should the store's clock go back.
        queued_at = max(executed.at, note.queued_at, record.fired_at or 0)
        if max(record.not_before, note.not_before) > queued_at:
            raise Violation("INV-1: a run was claimed before it was due")
        if tries.fence <= note.fence:
            raise Violation("INV-4: a fence did not grow with the claim")
        if (tries.attempt, tries.charged) != (note.attempt + 1, note.charged):
            raise Violation("INV-7: a claim has another number than comes next")
        if tries.charged >= self.policy(note.task).retry.attempts:
            raise Violation("INV-10: a run was claimed beyond its budget")
        note.claim(command.worker, tries, executed.at)
        # It has waited: should it be given back, it may be claimed whichever way clocks went.
        note.not_before = 0
        self._held.setdefault(command.worker, {})[note.id] = note

    def beat(self, executed: Executed) -> None:
        """The living renew, and hear exactly what is not theirs, or is theirs unknown to them."""
        command: Heartbeat = executed.call.arguments[0]
        beaten, worker = executed.result, executed.call.arguments[0].worker
        member = self._ledger.members.get(worker)
        # One whose lease has run out renews it, while nobody has declared it dead.
        is_alive = member is not None and member.is_alive
        if beaten.is_alive != is_alive:
            number = 21 if is_alive else 4
            raise Violation(f"INV-{number}: whether a worker is alive was answered wrongly")
        if is_alive:
            self._ledger.members[worker].expires_at = executed.at + command.ttl_us
        else:
            self.counts["beats refused"] += 1
            if worker in self._ledger.members:
                self._ledger.members[worker].is_alive = False
        if self.standing is not None:
            self.standing.beaten(worker, beaten)
        expected: set[tuple[ClaimRef, StopReason]] = set()
        for hold in command.holds:
            note = self._note(hold.run_id)
            if not note.is_held(worker, hold.fence):
                expected.add((hold, StopReason.GONE))
            elif note.is_cancel_asked:
                expected.add((hold, StopReason.CANCEL))
        if {(stop.hold, stop.kind) for stop in beaten.stops} != expected:
            raise Violation("INV-5: a worker was told something else to stop than it must")
        own = {ClaimRef(note.id, note.fence) for note in self._held.get(worker, {}).values()}
        strays = own.difference(command.holds) if is_alive else set()
        if set(beaten.strays) != strays:
            raise Violation("INV-2: a worker was not told of what it holds")
        self._beaten[worker] = max(executed.call.turn, self._beaten.get(worker, 0))
        self._unheard.pop(worker, None)
        self.counts["strays"] += len(strays)

    def report(self, executed: Executed) -> None:
        """A report of what is not held changes nothing (INV-5)."""
        worker, reports = executed.call.arguments
        for one, is_ours in zip(reports, executed.result, strict=True):
            is_held = self._note(one.hold.run_id).is_held(worker, one.hold.fence)
            self.counts["stale reports"] += not is_held
            if is_ours != is_held:
                raise Violation("INV-5: a stale report was taken, or a good one refused")

    def save_checkpoint(self, executed: Executed) -> None:
        """A checkpoint of what is not held is not kept (INV-5)."""
        command = executed.call.arguments[0]
        note = self._note(command.hold.run_id)
        is_held = note.is_held(command.worker, command.hold.fence)
        self.counts["stale checkpoints"] += not is_held
        if executed.result != is_held:
            raise Violation("INV-5: a stale checkpoint was taken, or a good one refused")
        if is_held:
            note.checkpoints[command.partition] = command.state

    def leave(self, executed: Executed) -> None:
        """Who leaves in good order leaves nothing behind that it could know of (INV-24)."""
        worker = executed.call.arguments[0]
        if self.standing is not None:
            self.standing.left(worker)
        if self._held.get(worker, {}).keys() - self._unheard.get(worker, set()):
            raise Violation("INV-24: a worker left in good order, and kept what it held")

    # Ends

    def finish_runs(self, executed: Executed) -> None:
        """An end counts once, by whoever holds the run; another word is kept, no more."""
        worker, finishes = executed.call.arguments
        for finish, result in zip(finishes, executed.result.results, strict=True):
            hold, state = finish.hold, finish.conclusion.attempt_state
            note = self._note(hold.run_id)
            if note.is_held(worker, hold.fence):
                if result is not FinishResult.ACCEPTED:
                    raise Violation("INV-2: the end of a run that is held was refused")
                self._check_word(note, finish)
                if self.standing is not None:
                    self.standing.finish(executed, worker, finish)
                if self.limits is not None:
                    self.limits.finish(executed, note, finish)
                self.end_claim(executed, note, finish.conclusion)
                self.follow(executed, note, finish)
                continue
            has_said = note.ended.get(hold.fence) == (worker, state)
            if has_said:
                self.counts["ends told again"] += 1
            else:
                self.counts["completions refused"] += 1
                if note.ended.get(hold.fence, (None,))[0] == worker:
                    note.late.add(hold.fence)
            if (result is FinishResult.ACCEPTED) != has_said:
                raise Violation(f"INV-5: a stale end was answered with {result}")

    def finish_and_claim(self, executed: Executed) -> None:
        """Ends count before what is claimed then."""
        finishes, claim = executed.call.arguments
        finished, claimed = executed.result
        told = replace(executed.call, operation="finish_runs", arguments=(claim.worker, finishes))
        self.finish_runs(replace(executed, call=told, result=finished))
        asked = replace(executed.call, operation="claim_runs", arguments=(claim,))
        self.claim_runs(replace(executed, call=asked, result=claimed))

    def _check_word(self, note: RunNote, finish: FinishAttempt) -> None:
        """Hold an end against what the observer saw."""
        conclusion = finish.conclusion
        seen = self.observer.executions.get((note.id, note.fence))
        if seen is not None and not conclusion.is_started:
            raise Violation("INV-7: what was seen to start is told as if it never had")
        if seen is None and conclusion.attempt_state is AttemptState.SUCCEEDED:
            raise Violation("INV-7: what nobody saw start is told as a success")
        is_success = conclusion.attempt_state is AttemptState.SUCCEEDED
        if is_success and (seen is None or seen.word != "succeeded"):
            raise Violation("INV-2: what did not succeed is told as a success")
        if conclusion.attempt_state is AttemptState.LOST:
            raise Violation("INV-4: a worker calls its own attempt lost")

    def settle_lost(self, executed: Executed) -> None:
        """Only what nobody holds any more is taken, by the owner of maintenance (INV-5)."""
        command: SettleLost = executed.call.arguments[0]
        if not self._ledger.holds(command.fence, MAINTENANCE, executed.at):
            raise Violation("INV-5: a stale owner settled lost claims")
        for loss, is_settled in zip(command.losses, executed.result, strict=True):
            self._settle(executed, loss, is_settled=is_settled)

    def _settle(self, executed: Executed, loss: LostClaimDecision, *, is_settled: bool) -> None:
        command, lost = executed.call.arguments[0], loss.claim
        note = self._note(lost.hold.run_id)
        is_held = note.is_held(lost.worker, lost.hold.fence)
        is_dead = not self._ledger.is_alive(lost.worker, executed.at)
        timeout_us = self.policy(note.task).timeout_us
        is_overdue = (
            timeout_us is not None
            and executed.at >= note.claimed_at + timeout_us + command.overdue_us
        )
        if is_settled and not is_held:
            raise Violation("INV-5: a claim was settled that is not the one that holds")
        if is_settled and not (is_dead or is_overdue):
            raise Violation("INV-21: a worker that has renewed lost what it holds")
        if not is_settled:
            self.counts["settlements too late"] += 1
            if is_held and is_dead:
                raise Violation("INV-21: the claim of a dead worker was not settled")
            return
        if (
            lost.kind is LostClaimReason.WORKER
            and loss.conclusion.attempt_state is not AttemptState.LOST
        ):
            raise Violation("INV-4: a lost claim is told as something else")
        if is_dead and lost.worker in self._ledger.members:
            self._ledger.members[lost.worker].is_alive = False
        self.counts["claims taken over"] += 1
        self.end_claim(executed, note, loss.conclusion)
        self.follow(executed, note, loss)

    def follow(
        self, executed: Executed, note: RunNote, end: FinishAttempt | LostClaimDecision
    ) -> None:
        """The result of a task that has a check is checked, in the same transaction."""
        check = end.follow_up
        is_result = note.state in {RunState.SUCCEEDED, RunState.AMBIGUOUS}
        if (check is not None) != (is_result and self.policy(note.task).is_checked):
            raise Violation(f"E6: a run that is {note.state} is checked, or not, as it should be")
        if check is not None:
            check_note = RunNote(check.id, check.call.task, check.call.queue)
            check_note.queued_at = executed.at
            self.order(check_note, executed.at)
            self.counts["checks"] += 1

    def end_claim(self, executed: Executed, note: RunNote, conclusion: Conclusion) -> None:
        """Let a claim end, and put its run where it belongs."""
        assert note.worker is not None
        self._check_budget(note, conclusion)
        if self.effects is not None:
            self.effects.end(note, conclusion)
        if self.limits is not None:
            self.limits.end(executed, note, conclusion)
        note.ended[note.fence] = (note.worker, conclusion.attempt_state)
        self.release(note)
        note.charged += conclusion.is_charged
        if not conclusion.is_charged:
            note.free.add(note.fence)
        if not conclusion.is_started:
            note.attempt -= 1
        after = conclusion.next
        is_asked, note.is_cancel_asked = note.is_cancel_asked, False
        if is_asked and isinstance(after, RetryLater | Requeue | DeadLetter):
            after = Close(RunState.CANCELLED)
        self._place(executed, note, after)
        if self.gates is not None and not isinstance(after, RetryLater | Requeue | MarkAmbiguous):
            self.gates.give_back(note, executed.at)

    def _place(self, executed: Executed, note: RunNote, after: Next) -> None:
        match after:
            case Close(state=state):
                note.state = state
                if state is RunState.CANCELLED and note.replaced_by is not None:
                    note.state, note.into = RunState.REPLACED, note.replaced_by
                self.counts[f"run: {note.state}"] += 1
            case Requeue():
                note.queue_again(executed.at)
            case DeadLetter():
                note.state = RunState.DEAD
                self.counts["runs dead"] += 1
            case MarkAmbiguous():
                note.state = RunState.AMBIGUOUS
                self.counts["runs in doubt"] += 1
            case RetryLater():
                self._wait(executed, note, after)

    def _check_budget(self, note: RunNote, conclusion: Conclusion) -> None:
        """Whatever is given back is free, all else counts, and the budget holds (INV-10)."""
        state, after = conclusion.attempt_state, conclusion.next
        is_free = state is AttemptState.GIVEN_BACK or conclusion.reason is Reason.UNKNOWN_TASK
        is_free = is_free and not isinstance(after, MarkAmbiguous)
        self.counts["given back"] += state is AttemptState.GIVEN_BACK
        self.counts["given back unbegun"] += conclusion.reason is Reason.NOT_STARTED
        if conclusion.is_charged == is_free:
            raise Violation(f"INV-24: an attempt that was {state} counts, or does not")
        if state not in TRIED or not conclusion.is_charged:
            return
        is_last = note.charged + 1 >= self.policy(note.task).retry.attempts
        if is_last and isinstance(after, RetryLater | Requeue):
            raise Violation("INV-10: a run is tried again beyond its budget")
        if not is_last and isinstance(after, DeadLetter) and after.reason is Reason.BUDGET:
            raise Violation("INV-10: a run is dead before its budget is used up")

    def _wait(self, executed: Executed, note: RunNote, wait: RetryLater) -> None:
        """Note when a run may be tried again: as the code asked, or after its backoff (INV-1)."""
        due_at = executed.at + wait.delay_us
        note.spacing_us = 0
        if wait.spacing_us:
            due_at = self._first_free_slot(note.task, due_at, wait.spacing_us)
            # Slots that had passed are forgotten sooner or later, and now they are to come again.
            self._is_set_back = self._is_set_back or executed.at < self.latest_at
            note.spacing_us = wait.spacing_us if self._is_set_back else 0
        note.state, note.due_at = RunState.RETRYING, due_at
        note.not_before = executed.at + self._least_wait_us(note)
        self.counts["retries"] += 1

    def _first_free_slot(self, task: str, due_at: int, spacing_us: int) -> int:
        """Walk the task's calendar: retries fall due on multiples of the spacing, one on each."""
        slot = -(-due_at // spacing_us)
        while (task, slot) in self._slots:
            slot += 1
        self._slots.add((task, slot))
        return slot * spacing_us

    def _least_wait_us(self, note: RunNote) -> int:
        seen = self.observer.executions.get((note.id, note.fence))
        state = note.ended[note.fence][1]
        if seen is not None and seen.wait_us is not None and state in _BY_WORD:
            return seen.wait_us if _BY_WORD[state] == seen.word else 0
        if state not in TRIED:
            return 0
        return self.policy(note.task).retry.delay_us(note.id, note.charged)

    # Retry timers

    def pending(self, item: FireRetry) -> tuple[int, int] | None:
        """Return the timer that a waiting run has."""
        note, told = self._note(item.timer.ref), item.timer.due_at  # type: ignore[arg-type]
        is_slot = note.spacing_us and told % note.spacing_us == 0 and told >= note.not_before
        due_at = told if is_slot else note.due_at
        return (note.fence, due_at) if note.state is RunState.RETRYING else None

    def fire_retry(self, executed: Executed, item: FireRetry) -> None:
        """Let a waiting run be queued again, not before its code or its backoff allows it."""
        note = self._note(item.timer.ref)  # type: ignore[arg-type]
        if executed.at < note.not_before:
            raise Violation("INV-1: a run was queued again before its wait was over")
        note.queue_again(executed.at)
        self.counts["retries fired"] += 1

    # Orders

    def cancel_run(self, executed: Executed) -> None:
        """What nobody holds is cancelled; what is running is asked."""
        record = executed.result
        note = self._note(record.id)
        delayed = self._ledger.delayed.get(record.id)
        if delayed is not None and delayed.state == "pending":
            self._ledger.close_delayed(record.id, "cancelled")
        if note.state is RunState.RUNNING:
            note.is_cancel_asked = True
            self.counts["cancellations asked"] += 1
        elif note.state in {RunState.BLOCKED, RunState.QUEUED, RunState.RETRYING}:
            note.state = RunState.CANCELLED
            self.counts["runs cancelled"] += 1
            if self.gates is not None:
                self.gates.give_back(note, executed.at)
        elif note.state is not RunState.CANCELLED:
            raise Violation(f"INV-6: a run that is {note.state} was cancelled")
        if record.state is not note.state:
            raise Violation(f"INV-6: a run that is {note.state} is told as {record.state}")

    def retry_runs(self, executed: Executed) -> None:
        """Only the dead and the waiting are queued again, the dead with a fresh budget."""
        command: OrderRuns = executed.call.arguments[0]
        for run_id, ordered in zip(command.ids, executed.result, strict=True):
            note = self._note(run_id)
            is_dead = note.state is RunState.DEAD
            verdict = "goes"
            if is_dead and self.gates is not None:
                verdict = self.gates.come_again(note, executed.at)
            is_retried = (is_dead and verdict != "overlap") or note.state is RunState.RETRYING
            if ordered.is_done != is_retried:
                raise Violation(f"INV-6: a run that is {note.state} was retried, or was not")
            if not ordered.is_done:
                continue
            if is_dead:
                note.charged, note.begun_at = 0, None
                note.retried += 1
                self.counts["dead runs retried"] += 1
            note.not_before = 0
            if verdict == "goes":
                note.queue_again(executed.at)

    def discard_runs(self, executed: Executed) -> None:
        """Only the dead are discarded."""
        command: OrderRuns = executed.call.arguments[0]
        for run_id, ordered in zip(command.ids, executed.result, strict=True):
            note = self._note(run_id)
            if ordered.is_done != (note.state is RunState.DEAD):
                raise Violation(f"INV-6: a run that is {note.state} was discarded, or was not")
            if ordered.is_done:
                note.state = RunState.DISCARDED
                self.counts["runs discarded"] += 1

    def pause_queue(self, executed: Executed) -> None:
        """Nothing is handed out from now on."""
        self.paused.add(executed.call.arguments[0])

    def resume_queue(self, executed: Executed) -> None:
        """All goes on."""
        self.paused.discard(executed.call.arguments[0])


_BY_WORD = {AttemptState.GIVEN_BACK: "snoozed", AttemptState.FAILED: "again"}
