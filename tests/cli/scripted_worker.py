"""Plays a worker on a command's store, so that runs have attempts without one being started."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import UUID

from duly.domain.effects import Grant
from duly.domain.enums import Effects
from duly.domain.outcomes import Failed, Succeeded
from duly.domain.runs import LogLine, Progress, Reason, TaskPolicy
from duly.store.ports.effects import BeginEffect, EndEffect
from duly.store.ports.execution import FinishResult, Report
from duly_conformance import kit, steps

if TYPE_CHECKING:
    from duly.domain.outcomes import End
    from duly.store.ports.dispatch import MemberId
    from duly.store.ports.execution import ClaimedRun
    from duly.store.sqlite import SqliteStore

HOUR_US = 3_600 * 1_000_000
TASK = "send_reminder"
UNSAFE = TaskPolicy(effects=Effects.UNSAFE)
ERROR = 'Traceback (most recent call last):\n  File "tasks.py"\nValueError: no such class'


class PlayedWorker:
    """A worker that does what a test says, and never expires while one runs."""

    def __init__(self, store: SqliteStore, **parts: object) -> None:
        self.store = store
        self.member: MemberId = steps.join_worker(
            store, **{"ttl_us": HOUR_US, "tasks": (TASK,), **parts}
        )

    def queue(
        self, name: str = "a", task: str = TASK, queue: str = "mail", tenant: str = "default"
    ) -> UUID:
        """Queue a run."""
        parts = {"queue": queue, "arguments": '{"class_id":7}', "tenant": tenant}
        run = steps.queue(self.store, name, task=task, **parts)
        return UUID(bytes=run)

    def take(self) -> ClaimedRun:
        """Claim the one run there is."""
        return steps.take_one(self.store, self.member)

    def advance(self, claimed: ClaimedRun, *texts: str, done: int | None = None) -> None:
        """Report progress, and lines."""
        now = self.store.now()
        report = Report(
            hold=claimed.hold,
            started_at=claimed.claimed_at,
            progress=None if done is None else Progress(done, 40, "third file"),
            lines=tuple(LogLine(now, "info", text) for text in texts),
        )
        assert [True] == self.store.report(self.member, [report])

    def succeed(self, claimed: ClaimedRun, result: str = '{"sent": 1}') -> None:
        """End an attempt well."""
        self._end(claimed, Succeeded(result))

    def bury(self, claimed: ClaimedRun, error: str = ERROR) -> None:
        """End an attempt so that its run is dead."""
        died = Failed(error, Reason.NOT_RETRYABLE, is_retryable=False)
        self._end(claimed, died)

    def bury_all(self) -> None:
        """Claim all that is queued, and let it die."""
        died = Failed(ERROR, Reason.NOT_RETRYABLE, is_retryable=False)
        taken = steps.take(self.store, self.member, 1000)
        self.store.finish_runs(self.member, [kit.finish(one, died) for one in taken])

    def put_off(self, claimed: ClaimedRun) -> None:
        """End an attempt so that its run waits an hour for the next."""
        self._end(claimed, Failed(ERROR, after_us=HOUR_US))

    def fail_to_answer(self, claimed: ClaimedRun) -> None:
        """End an attempt because whom it calls does not answer."""
        finish = replace(kit.finish(claimed, Failed(ERROR)), is_answered=False)
        assert (FinishResult.ACCEPTED,) == self.store.finish_runs(self.member, [finish]).results

    def _end(self, claimed: ClaimedRun, end: End) -> None:
        finished = self.store.finish_runs(self.member, [kit.finish(claimed, end)])
        assert (FinishResult.ACCEPTED,) == finished.results

    def dead(self, name: str = "a", **parts: str) -> UUID:
        """Return a run that is dead."""
        run = self.queue(name, **parts)
        self.bury(self.take())
        return run

    def begin(self, claimed: ClaimedRun, key: str | None, *, is_done: bool = False) -> None:
        """Take permission for an effect, and do it if told so."""
        order = BeginEffect(worker=self.member, hold=claimed.hold, effects=Effects.UNSAFE, key=key)
        assert self.store.begin_effect(order).grant is Grant.GRANTED
        if is_done:
            assert key is not None, "only one with a key can be done"
            done = EndEffect(worker=self.member, hold=claimed.hold, key=key, result='{"id": 7}')
            assert self.store.end_effect(done)

    def doubt(self, name: str = "a", done: tuple[str, ...] = (), open_: str | None = None) -> UUID:
        """Return a run whose attempt ended unheard: some effects are done, and one is unknown.

        Without any key all that it does is one effect.
        """
        run = self.queue(name)
        claimed = self.take()
        for key in done:
            self.begin(claimed, key, is_done=True)
        if open_ is not None or not done:
            self.begin(claimed, open_)
        self.leave_in_doubt(claimed)
        return run

    def leave_in_doubt(self, claimed: ClaimedRun) -> None:
        """End an attempt that has begun its effects without a word about them."""
        unheard = Failed("ConnectionResetError: no answer")
        finish = kit.finish(claimed, unheard, policy=UNSAFE, has_begun_effects=True)
        assert (FinishResult.ACCEPTED,) == self.store.finish_runs(self.member, [finish]).results
