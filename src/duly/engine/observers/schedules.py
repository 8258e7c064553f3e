"""Whether schedules get done what they are there for, in time, and not in each other's way.

However many there are, a look is at some pages of them and at those that alerts are about; the next
look goes on behind them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertKey, Condition, Observation
from duly.domain.instants import MINUTE, SECOND_US, from_microseconds
from duly.domain.literals import Overlap, ScheduleStatus
from duly.domain.run_times import RUNS_LOOKED_AT, run_times
from duly.domain.schedules import jitter_offset_us
from duly.domain.vitals import BEHIND_MAX, count_behind
from duly.engine.observers.about_schedules import (
    PAGE,
    SCHEDULES_MAX,
    SUBJECT,
    Round,
    command_name,
    find_suspects,
    instant_text,
    schedule_condition,
    told_one_by_one,
)
from duly.store.signs import Reach, read_signs

if TYPE_CHECKING:
    from duly.domain.run_times import RunSpan
    from duly.domain.schedules import ScheduleRecord
    from duly.domain.signs import Signs
    from duly.engine.observers import Asked

REACH = Reach(window=1, ends=20)
"""How many of the newest runs of each are looked at."""
STALE_FROM_US = 5 * MINUTE * SECOND_US
"""No completion is stale before, however short the interval."""
RUNS_KNOWN_MIN = 3
KINDS = (AlertKind.STALE_COMPLETION, AlertKind.OVERLAP)


class ScheduleObserver:
    """Looks at schedules, page by page."""

    def __init__(self, page: int = PAGE, most: int = SCHEDULES_MAX) -> None:
        self._page = page
        self._most = most
        self._round = Round(ScheduleStatus.ACTIVE)

    @property
    def is_round_over(self) -> bool:
        """Whether all were looked at."""
        return self._round.is_over

    def observe(self, asked: Asked) -> Observation:
        """Say what schedules lack, of some pages and of those that alerts are about."""
        suspects = find_suspects(asked, KINDS)
        records = {one.id: one for one in suspects.values() if one is not None}
        conditions = _conditions(asked, list(records.values()))
        looked = 0
        while looked < self._most:
            page = self._round.next_page(asked.store, min(self._page, self._most - looked))
            conditions += _conditions(asked, [one for one in page if one.id not in records])
            records |= {one.id: one for one in page}
            looked += len(page)
            if self._round.is_over or asked.is_time_up():
                break
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        return Observation(
            conditions=tuple(told_one_by_one(asked, conditions)),
            keys=frozenset(
                AlertKey(kind, tenant, f"{SUBJECT}{name}")
                for kind in KINDS
                for tenant, name in names
            ),
        )


def _conditions(asked: Asked, records: list[ScheduleRecord]) -> list[Condition]:
    """Return what is so of some schedules: by as many questions, however many they are."""
    active = [one for one in records if one.status is ScheduleStatus.ACTIVE]
    if not active:
        return []
    spans = asked.store.list_run_times([one.id for one in active], RUNS_LOOKED_AT)
    found: list[Condition | None] = []
    for one in read_signs(asked.store, active, REACH):
        of_one = spans.get(one.record.id, [])
        found += [_stale(one), _overlapping(one.record, of_one, asked.now)]
    return [one for one in found if one is not None]


def _stale(signs: Signs) -> Condition | None:
    """Count the occurrences since the last useful completion: verified, where its task has a check.

    As vitals have it; but what retention has removed is unknown, and nobody is told of it.
    """
    record, seen, now = signs.record, signs.completion, signs.now
    if record.last_for is None:
        return None
    useful, ends = seen.useful, seen.ends
    floor = max(record.created_at, record.updated_at, ends.unknown_through or 0)
    done_at = floor if useful is None else max(floor, useful.at)
    count, is_all = seen.behind, seen.behind < BEHIND_MAX
    if useful is None and ends.unknown_through is not None:
        offset_us = jitter_offset_us(record.id, record.definition.jitter_us)
        count, is_all = count_behind(record.definition.timetable, floor, now - offset_us), False
    if now - done_at < STALE_FROM_US or not count:
        return None
    name = command_name(record)
    least = f"{count:,}" if is_all else f"{count:,} or more"
    return schedule_condition(
        record,
        AlertKind.STALE_COMPLETION,
        float(count),
        done_at,
        (
            f"{_last_words(signs)}; {least} occurrences fell due since",
            f"duly schedule show {name}; duly run list --schedule {name}",
        ),
        {
            "useful_by": "verified" if seen.is_checked else "succeeded",
            "last_success": None if ends.success is None else instant_text(ends.success.at),
            "last_verified": None if ends.verified is None else instant_text(ends.verified.at),
            "last_error": None if ends.error is None else ends.error.reason,
            "cadence_seconds": None if seen.cadence_us is None else seen.cadence_us / SECOND_US,
        },
    )


def _last_words(signs: Signs) -> str:
    name, useful = signs.record.name, signs.completion.useful
    if useful is not None:
        return f"schedule {name} has last completed at {instant_text(useful.at)}"
    if signs.completion.ends.unknown_through is not None:
        return f"no completion of schedule {name} is on record"
    return f"schedule {name} has never completed"


def _overlapping(record: ScheduleRecord, spans: list[RunSpan], now: int) -> Condition | None:
    """Warn before runs overlap, where they may not (O2)."""
    if record.definition.overlap is Overlap.ALLOW or not spans:
        return None
    times = run_times(record.definition.timetable, spans, from_microseconds(now), now)
    if times.interval is None or times.warning is None:
        return None
    usual = times.ratio if times.ratio is not None and times.count >= RUNS_KNOWN_MIN else 0.0
    held = 0.0 if times.open_for is None else times.open_for / times.interval
    name = command_name(record)
    return schedule_condition(
        record,
        AlertKind.OVERLAP,
        round(max(usual, held), 3),
        now,
        (
            f"schedule {record.name}: {times.warning}",
            f"duly schedule show {name}; give it more time, or make its task faster",
        ),
        {**times.to_json(), "overlaps": record.overlaps},
    )
