"""Reporting: starts, progress and lines of attempts that last, in one statement at a time.

Lines go within a second. Progress is stored in steps that widen with the attempt's age, so that a
day-long run leaves a few hundred. Short attempts never report: all is told when they end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.errors import STORE_AWAY
from duly.store.execution import Report

if TYPE_CHECKING:
    from duly.engine.worker.held import Held
    from duly.engine.worker.holdings import Holdings
    from duly.engine.worker.parts import WorkerParts
    from duly.engine.worker.stopping import Limits
    from duly.store.dispatch import MemberId

NOT_OURS = "the store refused a report"


class Reporting:
    """Sends what running attempts have to say."""

    def __init__(self, parts: WorkerParts, holdings: Holdings, limits: Limits) -> None:
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
        due: list[tuple[Held, Report]] = []
        for held in self._holdings.running:
            is_ours = held.worker == worker and not held.is_fenced
            if is_ours and held.committed is None:
                report = self._report_of(held, monotonic)
                if report is not None:
                    due.append((held, report))
        if due:
            self._send(worker, due)

    def _report_of(self, held: Held, monotonic: int) -> Report | None:
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

    def _send(self, worker: MemberId, due: list[tuple[Held, Report]]) -> None:
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

    def _send_singly(self, worker: MemberId, due: list[tuple[Held, Report]]) -> None:
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

    def _heed(self, due: list[tuple[Held, Report]], answers: list[bool]) -> None:
        for (held, report), is_ours in zip(due, answers, strict=True):
            if is_ours:
                held.note_told(len(report.lines))
                held.is_start_told = held.is_start_told or report.started_at is not None
        lost = [held for (held, _), is_ours in zip(due, answers, strict=True) if not is_ours]
        self._limits.fence_off(lost, NOT_OURS)
