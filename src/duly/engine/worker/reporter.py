"""Batches of starts, progress, lines and ends; handles the store's answers.

`EndReporter` sends an end again if the store did not answer: the same end of the same claim is
accepted once. A claim whose end the store refuses no longer belongs to this worker; the store
keeps the refused end on record.

`ProgressReporter` sends lines within a second. It stores progress in steps that widen with the
attempt's age, so a day-long run leaves a few hundred. A short attempt sends no reports: its
progress and lines go with its end.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from operator import is_
from typing import TYPE_CHECKING

from duly.domain.enums import AttemptState, RunState
from duly.domain.ids import identity_text
from duly.domain.outcomes import DONE, Close, DeadLetter, MarkAmbiguous
from duly.domain.runs import Reason
from duly.engine.executors.task_output import ids_of
from duly.engine.spans import place_after
from duly.errors import STORE_AWAY
from duly.store.ports.execution import FinishResult, Report
from duly.telemetry import (
    AttemptEnded,
    AttemptFailed,
    AttemptGivenBack,
    CompletionRefused,
    ItemSkipped,
    RunAmbiguous,
    RunCancelled,
    RunDead,
    RunFailed,
    RunSucceeded,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.domain.outcomes import Conclusion, Next
    from duly.engine.worker.active_attempts import ActiveAttempts, UnsentEnd
    from duly.engine.worker.attempt import RunningAttempt, TimeLimits
    from duly.engine.worker.context import WorkerContext
    from duly.engine.worker.exchange import Order, StoreReply
    from duly.engine.worker.membership import WorkerMembership
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import Claimed, ClaimedRun, ClaimRuns, Finished
    from duly.telemetry import RunEvent

    Ask = Callable[[ClaimRuns], Claimed]


ACCEPTED = FinishResult.ACCEPTED
ERROR_SHOWN_MAX = 200
NOT_STORED = "what it said can't be stored: "


class EndReporter:
    """Sends ends, and tells about them."""

    def __init__(
        self, parts: WorkerContext, holdings: ActiveAttempts, membership: WorkerMembership
    ) -> None:
        self._parts = parts
        self._holdings = holdings
        self._membership = membership
        self._reply: StoreReply
        """To the batch that is under way."""

    def next_at(self) -> int | None:
        """Return when an end can be sent, on the monotonic clock; None when there is none."""
        return min((one.not_before for one in self._holdings.endings), default=None)

    def send(self) -> None:
        """Send every end that waits; what is not answered stays."""
        for batch in self._batches():
            self._send(batch)

    @contextmanager
    def under_way(self, worker: MemberId) -> Iterator[Ask]:
        """Send ends that wait while more is claimed; give what is to be asked for that.

        They go in the same call, or meanwhile, and what is too much for one batch goes with the
        next: nobody stands still for it. At the end we hear what was answered.
        """
        batches = self._batches()
        ask = self._parts.store.claim_runs
        if batches and self._is_together(batches[0], worker):
            ask = partial(self._send_with, batches[0])
        elif batches:
            self._send_meanwhile(batches[0])
        try:
            yield ask
        except Exception:
            self._hear_last()
            raise
        self._hear_last()

    def go_on(self) -> None:
        """Send what has ended since, while still more is claimed, if the last is answered.

        Nobody waits for that: what has ended meanwhile comes along the next time.
        """
        if self._holdings.under_way and not self._reply.is_there():
            return
        self._hear_last()
        batches = self._batches()
        if batches:
            self._send_meanwhile(batches[0])

    def _is_together(self, batch: list[UnsentEnd], worker: MemberId) -> bool:
        """Say whether a batch is to be sent in one call with the claim of a member of ours."""
        is_small = len(batch) <= self._parts.settings.together_max
        return batch[0].worker == worker and (is_small or self._parts.courier.is_direct)

    def _send_with(self, batch: list[UnsentEnd], claim: ClaimRuns) -> Claimed:
        store = self._parts.store
        try:
            finished, claimed = store.finish_and_claim(batch, claim)
        except STORE_AWAY:
            raise
        except Exception:  # noqa: BLE001 - one bad end must not stop the others, nor the claim
            self._send(batch)
            return store.claim_runs(claim)
        self._heed(batch, finished)
        return claimed

    def _send_meanwhile(self, batch: list[UnsentEnd]) -> None:
        self._leave_out(batch)
        self._holdings.under_way = batch
        self._reply = self._parts.courier.send(self._order(batch))

    def _hear_last(self) -> None:
        """Hear what was answered to what was sent meanwhile, if anything was."""
        holdings, batch = self._holdings, self._holdings.under_way
        if batch:
            holdings.endings, holdings.under_way = [*batch, *holdings.endings], []
            self._hear(batch, self._reply)

    def _batches(self) -> list[list[UnsentEnd]]:
        """Return what is to be sent, each batch of one member."""
        if not self._holdings.endings:
            return []
        monotonic, most = self._parts.clock.monotonic_us(), self._parts.settings.finish_max
        by_worker: dict[MemberId, list[UnsentEnd]] = {}
        for one in self._holdings.endings:
            if one.not_before <= monotonic:
                by_worker.setdefault(one.worker, []).append(one)
        return [
            waiting[first : first + most]
            for waiting in by_worker.values()
            for first in range(0, len(waiting), most)
        ]

    def _order(self, batch: list[UnsentEnd]) -> Order:
        return partial(self._parts.store.finish_runs, batch[0].worker, batch)

    def _send(self, batch: list[UnsentEnd]) -> None:
        self._hear(batch, self._order(batch))

    def _hear(self, batch: list[UnsentEnd], answer: Order) -> None:
        """Heed the answer to a batch; one that fails for a reason of its own is sent alone."""
        try:
            finished = answer()
        except STORE_AWAY:
            raise
        except Exception as error:  # noqa: BLE001 - one bad end must not stop the others
            if len(batch) == 1:
                self._strip(batch[0], error)
                return
            for one in batch:
                self._send([one])
            return
        self._heed(batch, finished)

    def _heed(self, batch: list[UnsentEnd], finished: Finished) -> None:
        """Let go of ends that the store knows, and tell about them."""
        self._parts.statistics.batches += 1
        self._leave_out(batch)
        told = list(zip(batch, finished.results, strict=True))
        if not self._parts.is_listening(RunSucceeded):
            # Most are done and no more: looked at here, without a call for each.
            others = [
                (ending, result)
                for ending, result in told
                if ending.conclusion is not DONE or result is not ACCEPTED or ending.claimed is None
            ]
            others = [one for one in others if not _is_success(*one)]
            self._parts.statistics.succeeded += len(told) - len(others)
            told = others
        for ending, result in told:
            self._tell(ending, result, finished.now)

    def _leave_out(self, batch: list[UnsentEnd]) -> None:
        endings = self._holdings.endings
        count = len(batch)
        if all(map(is_, batch, endings)):
            # Nearly always: who ended first is told first.
            self._holdings.endings = endings[count:]
            return
        sent = {id(one) for one in batch}
        self._holdings.endings = [one for one in endings if id(one) not in sent]

    def _strip(self, ending: UnsentEnd, error: Exception) -> None:
        """Leave out what the store may choke on; if that does not help, try again later."""
        monotonic = self._parts.clock.monotonic_us()
        if ending.is_bare:
            ending.not_before = monotonic + self._parts.settings.set_aside_us
            event = ItemSkipped(
                member=self._membership.number(),
                what="run",
                subject_id=identity_text(ending.hold.run_id),
                problem=f"its end can't be stored: {error!r}",
            )
            self._parts.emit(event)
            return
        conclusion = ending.conclusion
        following = conclusion.next
        if isinstance(following, Close):
            following = replace(following, result=None)
        bare = replace(conclusion, error=f"{NOT_STORED}{type(error).__name__}", next=following)
        ending.conclusion, ending.progress, ending.lines = bare, None, ()
        ending.is_bare = True
        self._send([ending])

    def _tell(self, ending: UnsentEnd, result: FinishResult, now: int) -> None:
        """Count an end, and tell about it whoever listens."""
        is_refused = result is FinishResult.REFUSED
        if is_refused:
            self._parts.statistics.refused += 1
        claimed, conclusion = ending.claimed, ending.conclusion
        if claimed is None:
            return
        kind: type[RunEvent] = CompletionRefused
        if not is_refused:
            self._note_unwanted(claimed, conclusion)
            kind = self._count(conclusion.attempt_state, conclusion.next)
        is_grave = not is_refused and isinstance(conclusion.next, DeadLetter | MarkAmbiguous)
        if is_grave or self._parts.is_listening(kind):
            self._emit(kind, ending, claimed, now)

    def _emit(self, kind: type[RunEvent], ending: UnsentEnd, claimed: ClaimedRun, now: int) -> None:
        conclusion, member, ids = ending.conclusion, int(ending.worker), ids_of(claimed)
        state = str(conclusion.attempt_state)
        if not issubclass(kind, AttemptEnded):
            self._parts.emit(CompletionRefused(member=member, state=state, **ids))
            return
        started = ending.started_at
        ended = kind(
            member=member,
            number=claimed.tries.attempt,
            state=state,
            reason=str(conclusion.reason or ""),
            then=place_after(conclusion.next),
            took_us=0 if started is None else max(0, now - started),
            error=_shown(conclusion.error),
            **ids,
        )
        self._parts.emit(ended)
        if isinstance(conclusion.next, DeadLetter):
            reason = str(conclusion.next.reason)
            self._parts.emit(RunDead(member=member, reason=reason, **ids))
        elif isinstance(conclusion.next, MarkAmbiguous):
            reason = str(conclusion.next.reason)
            self._parts.emit(RunAmbiguous(member=member, reason=reason, **ids))

    def _note_unwanted(self, claimed: ClaimedRun, conclusion: Conclusion) -> None:
        """Remember which schedule is to rest, once the store knows how its run ended."""
        if conclusion.reason is not Reason.GONE:  # first: a record is made by asking for it
            return
        schedule_id = claimed.record.schedule_id
        if schedule_id is not None:
            self._holdings.unwanted[schedule_id] = claimed

    def _count(self, state: AttemptState, following: Next) -> type[AttemptEnded]:
        statistics = self._parts.statistics
        match state:
            case AttemptState.SUCCEEDED:
                statistics.succeeded += 1
                return RunSucceeded
            case AttemptState.CANCELLED:
                statistics.cancelled += 1
                return RunCancelled
            case AttemptState.GIVEN_BACK:
                statistics.given_back += 1
                return AttemptGivenBack
            case _:
                statistics.failed += 1
                is_over = isinstance(following, Close) and following.state is RunState.FAILED
                return RunFailed if is_over else AttemptFailed


def _is_success(ending: UnsentEnd, result: FinishResult) -> bool:
    """Say whether a run of ours has succeeded, and the store knows it now."""
    is_success = ending.conclusion.attempt_state is AttemptState.SUCCEEDED
    return is_success and result is ACCEPTED and ending.claimed is not None


def _shown(error: str | None) -> str:
    lines = (error or "").strip().splitlines()
    return lines[-1][:ERROR_SHOWN_MAX] if lines else ""


NOT_OURS = "the store refused a report"


class ProgressReporter:
    """Sends what running attempts have to say."""

    def __init__(self, parts: WorkerContext, holdings: ActiveAttempts, limits: TimeLimits) -> None:
        self._parts = parts
        self._holdings = holdings
        self._limits = limits
        self._at = 0

    def next_at(self) -> int | None:
        """Return when to look again, on the monotonic clock; None while nothing runs."""
        return self._at if self._holdings.running else None

    def send(self, worker: MemberId, monotonic: int) -> None:
        """Send what is due to be told; an attempt that is not ours any more is fenced off."""
        if monotonic < self._at:
            return
        self._at = monotonic + self._parts.settings.report_every_us
        due: list[tuple[RunningAttempt, Report]] = []
        for held in self._holdings.running:
            is_ours = held.worker == worker and not held.is_fenced
            if is_ours and held.committed is None:
                report = self._report_of(held, monotonic)
                if report is not None:
                    due.append((held, report))
        if due:
            self._send(worker, due)

    def _report_of(self, held: RunningAttempt, monotonic: int) -> Report | None:
        age_us = monotonic - held.begun_at
        settings = self._parts.settings
        if age_us < settings.report_every_us:
            return None
        step_us = max(settings.report_every_us, age_us // settings.report_share)
        told_at = held.handed_at if held.progress_told_at is None else held.progress_told_at
        is_due = monotonic - told_at >= min(step_us, settings.report_max_us)
        started_at = None if held.is_start_told else held.started_at
        has_progress = is_due and held.has_progress
        has_more = held.has_lines or held.has_scope
        if started_at is None and not has_progress and not has_more:
            return None
        progress = held.take_progress() if has_progress else None
        if progress is not None:
            held.progress_told_at = monotonic
        return Report(
            hold=held.hold,
            started_at=started_at,
            progress=progress,
            lines=held.take_lines(),
            lines_before=held.lines_before,
            scope=held.take_scope(),
        )

    def _send(self, worker: MemberId, due: list[tuple[RunningAttempt, Report]]) -> None:
        try:
            answers = self._parts.store.report(worker, [report for _, report in due])
        except STORE_AWAY:
            for held, report in due:
                held.put_back(report.progress, report.lines, report.scope)
            raise
        except Exception:  # noqa: BLE001 - one bad report must not stop the others
            if len(due) > 1:
                self._send_singly(worker, due)
            return  # what can't be stored is let go: the attempt itself is not at fault
        self._heed(due, answers)

    def _send_singly(self, worker: MemberId, due: list[tuple[RunningAttempt, Report]]) -> None:
        """Send one after the other; those that the store is not there for any more are kept."""
        waiting = list(due)
        while waiting:
            one = waiting.pop(0)
            try:
                self._send(worker, [one])
            except STORE_AWAY:
                for held, report in waiting:
                    held.put_back(report.progress, report.lines, report.scope)
                raise

    def _heed(self, due: list[tuple[RunningAttempt, Report]], answers: list[bool]) -> None:
        for (held, report), is_ours in zip(due, answers, strict=True):
            if is_ours:
                held.note_told(len(report.lines))
                held.is_start_told = held.is_start_told or report.started_at is not None
        lost = [held for (held, _), is_ours in zip(due, answers, strict=True) if not is_ours]
        self._limits.fence_off(lost, NOT_OURS)
