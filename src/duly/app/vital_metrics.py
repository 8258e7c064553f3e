"""Numbers of single schedules, and of tasks and tenants by those schedules (V1, V2)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from duly.app import vital_names as named
from duly.domain.literals import RunState
from duly.domain.vitals import look_at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.identity import ScheduleId
    from duly.domain.run_vitals import RunVital
    from duly.domain.signs import Signs
    from duly.domain.vitals import Window
    from duly.store.backfilling import BackfillRecord
    from duly.telemetry.exposition import Measured

_MICROSECONDS = 1e6
_QUANTILES = ("0.5", "0.95", "0.99")


def note_vitals(
    measured: Measured, found: Sequence[Signs], backfills: Sequence[BackfillRecord]
) -> None:
    """Note what is known of each schedule, and of tasks and tenants by them."""
    left: Counter[ScheduleId] = Counter()
    for one in backfills:
        left[one.schedule_id] += one.total - one.looked_at
    groups: dict[tuple[str, str], list[tuple[Signs, Window]]] = {}
    for signs in found:
        record = signs.record
        window = _window(signs)
        who = (record.tenant, record.name)
        _note_lights(measured, who, signs)
        _note_work(measured, who, signs)
        _note_window(measured, who, window)
        measured.note(named.BACKFILL_LEFT, left[record.id], *who)
        for group in (("task", record.definition.call.task), ("tenant", record.tenant)):
            groups.setdefault(group, []).append((signs, window))
    for group, members in sorted(groups.items()):
        _note_group(measured, group, members)


def _window(signs: Signs) -> Window:
    def is_checked(_: str) -> bool:
        return signs.completion.is_checked

    return look_at(signs.runs, is_checked, signs.now)


def _note_lights(measured: Measured, who: tuple[str, str], signs: Signs) -> None:
    trigger, completion = signs.trigger, signs.completion
    measured.note(named.WELL, int(trigger.is_well), *who, "trigger")
    measured.note(named.WELL, int(not completion.is_stale), *who, "work")
    measured.note(named.OVERDUE, _seconds(trigger.overdue_us), *who)
    instants = {
        named.LAST_ATTEMPT: completion.finished_at,
        named.LAST_USEFUL: None if completion.useful is None else completion.useful.at,
        named.CADENCE: completion.cadence_us,
    }
    for metric, at in instants.items():
        if at is not None:
            measured.note(metric, at / _MICROSECONDS, *who)
    measured.note(named.BEHIND, completion.behind, *who)


def _note_work(measured: Measured, who: tuple[str, str], signs: Signs) -> None:
    active = _in(signs.runs, RunState.RUNNING)
    queued = _in(signs.runs, RunState.QUEUED)
    now = signs.now
    measured.note(named.ACTIVE, len(active), *who)
    measured.note(named.ACTIVE_AGE, _oldest((one.claimed_at for one in active), now), *who)
    measured.note(named.HEARTBEAT_AGE, _oldest((one.heartbeat_at for one in active), now), *who)
    measured.note(named.PROGRESS_AGE, _oldest((one.progress_at for one in active), now), *who)
    measured.note(named.QUEUED, len(queued), *who)
    measured.note(named.QUEUE_DELAY, _oldest((one.fired_at for one in queued), now), *who)


def _note_window(measured: Measured, who: tuple[str, str], window: Window) -> None:
    measured.note(named.RETRIES, window.retries, *who)
    rate = window.useful_per_attempt
    if rate is not None:
        measured.note(named.USEFUL_RATE, rate, *who)
    parts = {"fired": window.fired, "started": window.started, "useful": window.useful_after}
    for to, late in parts.items():
        for quantile, value in zip(_QUANTILES, (late.p50, late.p95, late.p99), strict=True):
            if value is not None:
                measured.note(named.LATENESS, value / _MICROSECONDS, *who, to, quantile)
    # Classes of errors are many; states and reasons are few.
    kinds: Counter[tuple[str, str]] = Counter()
    for kind in window.failures:
        kinds[kind.state, kind.reason or ""] += kind.runs
    for told, count in sorted(kinds.items()):
        measured.note(named.FAILURES, count, *who, *told)


def _note_group(
    measured: Measured, group: tuple[str, str], members: Sequence[tuple[Signs, Window]]
) -> None:
    windows = [window for _, window in members]
    signs = [one for one, _ in members]
    active = [run for one in signs for run in _in(one.runs, RunState.RUNNING)]
    delays = [
        _oldest((run.fired_at for run in _in(one.runs, RunState.QUEUED)), one.now) for one in signs
    ]
    ratios = [one.completion.ratio or 0.0 for one in signs]
    measured.note(named.MANY_RUNS, sum(one.runs for one in windows), *group)
    measured.note(named.MANY_ATTEMPTS, sum(one.attempts for one in windows), *group)
    measured.note(named.MANY_RETRIES, sum(one.retries for one in windows), *group)
    measured.note(named.MANY_USEFUL, sum(one.useful for one in windows), *group)
    failed = sum(kind.runs for one in windows for kind in one.failures)
    measured.note(named.MANY_FAILED, failed + sum(one.failures_more for one in windows), *group)
    measured.note(named.MANY_ACTIVE, len(active), *group)
    measured.note(named.MANY_QUEUE_DELAY, max(delays, default=0.0), *group)
    overdue = max((_seconds(one.trigger.overdue_us) for one in signs), default=0.0)
    measured.note(named.MANY_OVERDUE, overdue, *group)
    measured.note(named.MANY_STALE, sum(one.completion.is_stale for one in signs), *group)
    measured.note(named.MANY_RATIO, round(max(ratios, default=0.0), 3), *group)


def _in(runs: Iterable[RunVital], state: RunState) -> list[RunVital]:
    return [run for run in runs if run.state is state]


def _oldest(instants: Iterable[int | None], now: int) -> float:
    known = [one for one in instants if one is not None]
    return max(now - min(known, default=now), 0) / _MICROSECONDS


def _seconds(microseconds: int | None) -> float:
    return 0.0 if microseconds is None else microseconds / _MICROSECONDS
