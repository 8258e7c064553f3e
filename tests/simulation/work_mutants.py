"""Deliberate defects of claims, ends, retries and stops, each of which the simulation must notice.

As with the other mutants: where several layers stand against one danger, a mutant says which other
layer it takes away.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from unittest import mock

from duly.domain import outcomes
from duly.domain.enums import AttemptState, RunState
from duly.domain.outcomes import Close, Requeue, RetryLater
from duly.engine.dispatcher import reaper
from duly.engine.worker import active_attempts
from duly.engine.worker import attempt as worker_held
from duly.engine.worker.active_attempts import ActiveAttempts
from duly.engine.worker.worker import Worker
from duly.store.memory import ending, execution, firing, operating, reaping
from duly.store.memory.tables import Outcome
from duly.store.ports.dispatch import FireResult
from duly.store.ports.execution import ClaimedRun, FinishResult, LostClaimReason
from tests.simulation.mutants import patched
from tests.simulation.recipe import MINUTE
from tests.simulation.simulation import Mutant

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world import World

ORIGINAL_HELD = execution.held
ORIGINAL_FINISH = execution._finish  # noqa: SLF001 - a mutant is made inside
ORIGINAL_END = ending.end_claim
ORIGINAL_BEAT = execution.beat
ORIGINAL_CLAIM = execution._claim  # noqa: SLF001 - as above
ORIGINAL_JUDGE = firing._judge  # noqa: SLF001 - as above
ORIGINAL_LATE = execution._keep_late_word  # noqa: SLF001 - as above
ORIGINAL_CANCEL = operating.cancel_run
ORIGINAL_CONCLUDE = outcomes.conclude
ORIGINAL_LOSS = reaping._loss_of  # noqa: SLF001 - as above
ORIGINAL_RETRY = operating._retry  # noqa: SLF001 - as above


# Fences of claims


def _held_at_any_fence(journal, worker, hold):
    claim = journal.tables.claims.get(hold.run_id)
    return claim if claim is not None and claim.worker == worker else None


def _held_by_anybody(journal, worker, hold):
    claim = journal.tables.claims.get(hold.run_id)
    return claim if claim is not None and claim.tries.fence == hold.fence else None


def _held_by_whoever_asks(journal, worker, hold):
    return journal.tables.claims.get(hold.run_id)


@contextmanager
def _fence_reused(_: World) -> Iterator[None]:
    """A claim keeps the fence of the one before it, and nobody compares workers."""

    def claim(journal, run_id, worker):
        claimed = ORIGINAL_CLAIM(journal, run_id, worker)
        fence = max(1, claimed.tries.fence - 1)
        tries = claimed.tries._replace(fence=fence)
        row = journal.tables.claims[run_id]
        journal.put(journal.tables.claims, run_id, replace(row, tries=tries))
        return ClaimedRun.of(claimed.record, tries, claimed.claimed_at)

    with mock.patch.object(execution, "_claim", claim):
        yield


def _checkpoint_of_anybody(journal, command):
    key = (command.hold.run_id, command.partition)
    journal.put(journal.tables.checkpoints, key, command.state)
    return True


def _report_of_anybody(journal, worker, reports):
    return [True for _ in reports]


# The dead and the living


def _claim_by_the_dead(journal, command):
    with mock.patch.object(execution, "may_claim", return_value=True):
        return ORIGINAL_CLAIM_RUNS(journal, command)


ORIGINAL_CLAIM_RUNS = execution.claim_runs


def _beat_whoever_asks(journal, command):
    row = journal.tables.members.get(command.worker)
    if row is not None:
        expires_at = max(row.expires_at, journal.now + 1)
        revived = replace(row, is_alive=True, expires_at=expires_at)
        journal.put(journal.tables.members, command.worker, revived)
    return ORIGINAL_BEAT(journal, command)


def _lost_by_age(journal, claim, overdue_us):
    if journal.now - claim.claimed_at > 5_000_000:
        return LostClaimReason.WORKER
    return ORIGINAL_LOSS(journal, claim, overdue_us)


@contextmanager
def _no_second_look(_: World) -> Iterator[None]:
    """Finds claims a little before their worker's lease ends, and does not look again."""

    def soon(journal, claim, overdue_us):
        member = journal.tables.members.get(claim.worker)
        if member is not None and member.expires_at < journal.now + 2_500_000:
            return LostClaimReason.WORKER
        return ORIGINAL_LOSS(journal, claim, overdue_us)

    with mock.patch.object(reaping, "_loss_of", soon):
        yield


def _settled_by_anybody(journal, fence, lane):
    return {lease.key.shard for lease in fence.leases if lease.key.lane == lane}, []


def _never_lost(*_: object) -> None:
    return None


# Ends


def _finish_again(journal, worker, finish):
    """Takes the same worker's second word, whatever it says."""
    outcome = journal.tables.outcomes.get(finish.hold.run_id)
    is_closed = outcome is not None and outcome.claim is not None
    if is_closed and execution.held(journal, worker, finish.hold) is None:
        return FinishResult.ACCEPTED
    return ORIGINAL_FINISH(journal, worker, finish)


def _late_word_counts(journal, worker, finish):
    """Lets a word that came too late replace the outcome."""
    ORIGINAL_LATE(journal, worker, finish)
    outcome = journal.tables.outcomes.get(finish.hold.run_id)
    following = finish.conclusion.next
    if outcome is not None and isinstance(following, Close) and outcome.state != following.state:
        written = replace(outcome, state=following.state, reason=following.reason)
        journal.put(journal.tables.outcomes, finish.hold.run_id, written)


def _forget_late_word(journal, worker, finish):
    return None


def _end_without_wait(journal, run_id, claim, conclusion, **told):
    if isinstance(conclusion.next, RetryLater):
        conclusion = replace(conclusion, next=RetryLater(conclusion.next.delay_us // 4))
    return ORIGINAL_END(journal, run_id, claim, conclusion, **told)


def _number_of_the_lost_reused(journal, run_id, claim, conclusion, **told):
    if conclusion.attempt_state is AttemptState.LOST:
        conclusion = replace(conclusion, is_started=False)
    return ORIGINAL_END(journal, run_id, claim, conclusion, **told)


def _number_counts_down(journal, run_id, claim, conclusion, **told):
    ORIGINAL_END(journal, run_id, claim, conclusion, **told)
    ready = journal.tables.ready.get(run_id)
    if ready is not None and ready.tries.attempt > 0:
        tries = ready.tries._replace(attempt=ready.tries.attempt - 1)
        journal.put(journal.tables.ready, run_id, replace(ready, tries=tries))


def _cancel_anyway(journal, command):
    outcome = journal.tables.outcomes.get(command.id)
    if outcome is not None and outcome.state is RunState.SUCCEEDED:
        written = replace(outcome, state=RunState.CANCELLED)
        journal.put(journal.tables.outcomes, command.id, written)
    return ORIGINAL_CANCEL(journal, command)


def _cancel_by_force(journal, command):
    """Closes a running one at once, while its worker goes on."""
    claim = journal.tables.claims.get(command.id)
    if claim is not None:
        journal.remove(journal.tables.claims, command.id)
        outcome = Outcome(RunState.CANCELLED, None, journal.now, claim.tries)
        journal.insert(journal.tables.outcomes, command.id, outcome)
    return ORIGINAL_CANCEL(journal, command)


def _retry_anything(journal, command, run_id):
    """Queues again what waits for its worker's word, too."""
    claim = journal.tables.claims.get(run_id)
    if claim is not None:
        journal.remove(journal.tables.claims, run_id)
        journal.queue(run_id, journal.now, claim.tries)
    return ORIGINAL_RETRY(journal, command, run_id)


def _retry_without_comparing(journal, timer, held):
    """Fires whatever waits, whichever timer it is asked for by; and claims keep their timers."""
    if timer.kind != "retry" or timer.shard not in held:
        return ORIGINAL_JUDGE(journal, timer, held)
    return None if timer.ref in journal.tables.waiting else FireResult.GONE


@contextmanager
def _dead_are_claimed(_: World) -> Iterator[None]:
    """Hands out what is dead, when nothing else is there."""

    def claim_runs(journal, command):
        tables = journal.tables
        for run_id, dead in list(tables.dead.items()):
            if journal.now - dead.at > 1_000_000:
                journal.remove(tables.dead, run_id)
                journal.queue(run_id, journal.now, dead.tries)
        return ORIGINAL_CLAIM_RUNS(journal, command)

    with mock.patch.object(execution, "claim_runs", claim_runs):
        yield


# Decisions


def _concluding(change: Any) -> Any:
    """Let workers and the reaper come to another conclusion."""

    @contextmanager
    def patch(_: World) -> Iterator[None]:
        def conclude(end, attempted):
            return change(ORIGINAL_CONCLUDE(end, attempted), attempted)

        with (
            mock.patch.object(active_attempts, "conclude", conclude),
            mock.patch.object(reaper, "conclude", conclude),
        ):
            yield

    return patch


def _charge_given_back(conclusion, _):
    return replace(conclusion, is_charged=True)


def _retry_at_once(conclusion, _):
    is_waiting = isinstance(conclusion.next, RetryLater)
    return replace(conclusion, next=RetryLater(0)) if is_waiting else conclusion


def _one_more_try(conclusion, attempted):
    is_dead = not isinstance(conclusion.next, Close | RetryLater | Requeue)
    return replace(conclusion, next=RetryLater(1000)) if is_dead else conclusion


def _lost_are_free(conclusion, _):
    is_lost = conclusion.attempt_state is AttemptState.LOST
    return replace(conclusion, is_charged=False) if is_lost else conclusion


# Workers


def _stop_and_forget(self):
    """Leaves the fleet without a word about what it holds."""
    self._holdings.running.clear()
    self._holdings.endings.clear()
    ORIGINAL_STOP(self)


ORIGINAL_STOP = Worker.stop


def _beat_between_claims(self):
    """Names what it holds while it does not know yet what the next claim brings."""
    self._heed(self._membership.beat(self._holdings))
    return ORIGINAL_GOES_ON(self)


ORIGINAL_GOES_ON = Worker._goes_on  # noqa: SLF001 - as above


def _free_for_those_ahead(self):
    """Counts on a slot for whatever waits for one."""
    return {pool: free + len(pool.ahead) for pool, free in ORIGINAL_FREE(self).items()}


ORIGINAL_FREE = ActiveAttempts.free


def _held_but_for_those_ahead(self, worker):
    ahead = {one.claimed.hold for one in self.slots.ahead()}
    return (hold for hold in ORIGINAL_HOLDS(self, worker) if hold not in ahead)


ORIGINAL_HOLDS = ActiveAttempts._holds  # noqa: SLF001 - as above


def _kept_while_others_run(self):
    """Lets what was claimed ahead wait for a minute."""
    until = ORIGINAL_UNTIL(self)
    return None if until is None else until + MINUTE


ORIGINAL_UNTIL = ActiveAttempts.ahead_until


def _no_strays(journal, command):
    return replace(ORIGINAL_BEAT(journal, command), strays=())


def _told_as_success(self):
    end = ORIGINAL_SETTLED(self)
    return outcomes.Succeeded() if isinstance(end, outcomes.Failed) else end


ORIGINAL_SETTLED = worker_held.RunningAttempt.settled


def _everywhere(new: Any) -> Any:
    """Replace how a claim is compared wherever it is."""

    @contextmanager
    def patch(_: World) -> Iterator[None]:
        with (
            mock.patch.object(execution, "held", new),
            mock.patch.object(reaping, "held", new),
        ):
            yield

    return patch


def _ending(new: Any) -> Any:
    @contextmanager
    def patch(_: World) -> Iterator[None]:
        with (
            mock.patch.object(execution, "end_claim", new),
            mock.patch.object(reaping, "end_claim", new),
        ):
            yield

    return patch


WORK_MUTANTS = (
    Mutant(
        "ends without a fence", shows_in=29, patch=patched(execution, "held", _held_at_any_fence)
    ),
    Mutant("ends by any worker", patch=patched(execution, "held", _held_by_anybody)),
    Mutant("ends by whoever asks", patch=_everywhere(_held_by_whoever_asks)),
    Mutant("a fence is used again", patch=_fence_reused),
    Mutant(
        "checkpoints without a fence",
        patch=patched(execution, "save_checkpoint", _checkpoint_of_anybody),
    ),
    Mutant(
        "reports without a fence",
        shows_in=59,
        patch=patched(execution, "report", _report_of_anybody),
    ),
    Mutant("the dead claim", patch=patched(execution, "claim_runs", _claim_by_the_dead)),
    Mutant("the dead beat", patch=patched(execution, "beat", _beat_whoever_asks)),
    Mutant("reaped by age", patch=patched(reaping, "_loss_of", _lost_by_age)),
    Mutant("found too soon, reaped without another look", patch=_no_second_look),
    Mutant(
        "reaped by anybody", shows_in=34, patch=patched(reaping, "held_shards", _settled_by_anybody)
    ),
    Mutant("never reaped", shows_in=4, patch=patched(reaping, "_loss_of", _never_lost)),
    Mutant(
        "a second word is accepted", shows_in=14, patch=patched(execution, "_finish", _finish_again)
    ),
    Mutant(
        "a late word overwrites the outcome",
        shows_in=29,
        patch=patched(execution, "_keep_late_word", _late_word_counts),
    ),
    Mutant(
        "a late word is forgotten",
        shows_in=2,
        patch=patched(execution, "_keep_late_word", _forget_late_word),
    ),
    Mutant("a retry waits less than it should", patch=_ending(_end_without_wait)),
    Mutant("a retry does not wait", patch=_concluding(_retry_at_once)),
    Mutant("the number of a lost attempt is reused", patch=_ending(_number_of_the_lost_reused)),
    Mutant("numbers count down", patch=_ending(_number_counts_down)),
    Mutant("what is given back is charged", patch=_concluding(_charge_given_back)),
    Mutant("lost attempts are free", patch=_concluding(_lost_are_free)),
    Mutant("one try beyond the budget", patch=_concluding(_one_more_try)),
    Mutant("the dead are claimed again", patch=_dead_are_claimed),
    Mutant(
        "a retry's old timer counts",
        shows_in=76,
        patch=patched(firing, "_judge", _retry_without_comparing),
    ),
    Mutant(
        "a stop gives nothing back", shows_in=14, patch=patched(Worker, "stop", _stop_and_forget)
    ),
    Mutant(
        "a beat is said while a claim is under way",
        patch=patched(Worker, "_goes_on", _beat_between_claims),
    ),
    Mutant(
        "what was claimed ahead needs no slot",
        patch=patched(ActiveAttempts, "free", _free_for_those_ahead),
    ),
    Mutant(
        "a beat leaves out what was claimed ahead",
        patch=patched(ActiveAttempts, "_holds", _held_but_for_those_ahead),
    ),
    Mutant(
        "what was claimed ahead is kept from others",
        shows_in=12,
        patch=patched(ActiveAttempts, "ahead_until", _kept_while_others_run),
    ),
    Mutant("strays are not told", shows_in=7, patch=patched(execution, "beat", _no_strays)),
    Mutant(
        "a failure is told as a success",
        patch=patched(worker_held.RunningAttempt, "settled", _told_as_success),
    ),
    Mutant(
        "a cancellation overwrites an outcome",
        shows_in=12,
        patch=patched(operating, "cancel_run", _cancel_anyway),
    ),
    Mutant(
        "a cancellation takes a run by force",
        patch=patched(operating, "cancel_run", _cancel_by_force),
    ),
    Mutant(
        "a retry takes a run from its worker",
        shows_in=14,
        patch=patched(operating, "_retry", _retry_anything),
    ),
)
