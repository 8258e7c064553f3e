"""The ledger: every occurrence that was or is expected, and what became of it (UX 16).

Which ones there are, and that none is missing without a word, the library says; the runs say how
far each has come.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from duly import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime
    from uuid import UUID

    from duly import App, Run, Schedule
    from duly.api.views import Occurrence

ROWS_BACK, ROWS_AHEAD = 30, 5
HALVINGS_MAX = 24
RUNS_MAX = 200
PENDING_STATES = frozenset({"expected", "due"})
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One expected occurrence."""

    at: datetime
    label: str
    state: str
    """A state of `states.py`."""
    why: str | None
    run: str | None
    into: bool
    """Whether the run is another one, which stands for this one."""
    origin: str | None
    lateness: timedelta | None
    took: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A part of the occurrences, newest first."""

    rows: tuple[LedgerRow, ...]
    start: datetime
    end: datetime
    has_earlier: bool


@dataclass(frozen=True, slots=True)
class Ledgered:
    """Whose ledger it is, and its newest runs, which are known already."""

    app: App
    schedule: Schedule
    newest: Sequence[Run]


def read_ledger(of: Ledgered, now: datetime, until: datetime | None) -> Ledger:
    """Return a window of occurrences that ends at `until`, or a few after now."""
    app, schedule = of.app, of.schedule
    end = until or _steps(schedule, now, ROWS_AHEAD)
    start = _steps(schedule, min(end, now), -ROWS_BACK)
    found, start = _occurrences(app, schedule, start, end)
    states = _runs(of, start, end)
    verified = _verified(app, schedule, states)
    rows = tuple(ledger_row(one, states, verified, now) for one in reversed(found))
    if schedule.status == "paused":
        rows = _held(rows, of)
    has_earlier = start > schedule.created_at
    return Ledger(rows=rows, start=start, end=end, has_earlier=has_earlier)


def _held(rows: tuple[LedgerRow, ...], of: Ledgered) -> tuple[LedgerRow, ...]:
    """Say of what falls into a pause that it is held: it does not run by itself (S3)."""
    owed = [one.last_for for one in of.app.schedules.owed(of.schedule.id)]
    end = of.schedule.resume_at

    def is_held(row: LedgerRow) -> bool:
        is_within = end is None or row.at < end
        return row.state in PENDING_STATES and is_within and all(row.at > one for one in owed)

    return tuple(replace(row, state="slot-held") if is_held(row) else row for row in rows)


def _steps(schedule: Schedule, at: datetime, steps: int) -> datetime:
    """Walk so many occurrences on or back, by the rule in force."""
    rule = schedule.timetable
    for _ in range(abs(steps)):
        try:
            found = rule.next(at) if steps > 0 else rule.previous(at)
        except UsageError:
            return at
        if found is None:
            break
        at = found
    return at + SECOND if steps > 0 else at


def _occurrences(
    app: App, schedule: Schedule, start: datetime, end: datetime
) -> tuple[list[Occurrence], datetime]:
    """Return the occurrences of a span; a rule that was denser before an edit shortens it."""
    start = min(start, end - SECOND)
    for _ in range(HALVINGS_MAX):
        try:
            found = app.schedules.occurrences(schedule.id, start, end)
        except UsageError:
            start += (end - start) / 2
            continue
        kept = found[-(ROWS_BACK + ROWS_AHEAD + 5) :]
        return kept, kept[0].scheduled_for if len(kept) < len(found) else start
    return [], start


def _runs(of: Ledgered, start: datetime, end: datetime) -> dict[UUID, Run]:
    if of.newest and min(one.scheduled_for for one in of.newest) < start:
        found = [one for one in of.newest if start <= one.scheduled_for <= end]
    else:
        found = of.app.runs.list(
            schedule=of.schedule.id, since=start, until=end + MICROSECOND, limit=RUNS_MAX
        )
    return {one.id: one for one in found}


def _verified(app: App, schedule: Schedule, runs: dict[UUID, Run]) -> dict[UUID, str]:
    """Return the verdicts of those that succeeded, where their task is one that is checked."""
    task = app.tasks.find(schedule.task)
    if task is None or not task.policy.is_checked:
        return {}
    found = {}
    for run in list(runs.values())[: ROWS_BACK + ROWS_AHEAD]:
        if run.state == "succeeded":
            checks = app.inbox.checks(run.id)
            if checks:
                found[run.id] = str(checks[-1].verdict)
    return found


def ledger_row(
    one: Occurrence, runs: dict[UUID, Run], verified: dict[UUID, str], now: datetime
) -> LedgerRow:
    """Show one occurrence with the run that it became, or that stands for it."""
    run = None if one.run is None else runs.get(one.run)
    is_own = one.verdict == "run"
    took = None
    if is_own and run is not None and run.started_at and run.finished_at:
        took = run.finished_at - run.started_at
    return LedgerRow(
        at=one.scheduled_for,
        label=one.label,
        state=_state(one, run, verified, now),
        why=one.reason or (run.reason if is_own and run is not None else None),
        run=None if one.run is None else str(one.run),
        into=one.run is not None and not is_own,
        origin=run.origin if is_own and run is not None else None,
        lateness=run.lateness if is_own and run is not None else None,
        took=took,
    )


def _state(one: Occurrence, run: Run | None, verified: dict[UUID, str], now: datetime) -> str:
    """Name where an occurrence stands; what is not over is never told as failed (42)."""
    match one.verdict:
        case "pending":
            return "expected" if one.scheduled_for > now else "due"
        case "skipped":
            return "coalesced" if one.reason == "coalesced" else "skipped"
        case "run" if run is not None:
            return _run_state(run, verified)
        case "run":
            return "materialised"
        case other:
            return other


def _run_state(run: Run, verified: dict[UUID, str]) -> str:
    if run.state in {"blocked", "queued"}:
        return "materialised" if run.fired_at is None else "dispatched"
    if run.state == "running" and run.started_at is None:
        return "claimed"
    if run.state == "succeeded":
        return verified.get(run.id, "succeeded")
    return "failed" if run.state == "dead" else run.state
