"""Whether schedules get what they are owed: a run for each occurrence, a completion in its time.

However many there are, a look is at one page of them and at those that alerts are about; the next
look goes on behind it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.alert_kinds import AlertKind
from duly.domain.alerting import AlertKey, Condition, Observation
from duly.domain.instants import HOUR, MINUTE, SECOND_US, from_microseconds
from duly.domain.literals import Overlap, ScheduleStatus
from duly.domain.run_times import RUNS_LOOKED_AT, run_times
from duly.domain.runs import VerdictKind
from duly.domain.time_texts import utc_text
from duly.engine.observers import SUBJECTS_MAX
from duly.errors import UsageError
from duly.store.reading import ScheduleFilter

if TYPE_CHECKING:
    from duly.domain.identity import ScheduleId
    from duly.domain.last_ends import LastEnds
    from duly.domain.run_times import RunSpan
    from duly.domain.schedules import ScheduleRecord
    from duly.engine.observers import Asked
    from duly.store.protocol import Store

PAGE = 100
"""How many schedules are looked at in one go."""
RUNS_MAX = 20
"""How many of the newest runs of each."""
OCCURRENCES_MAX = 20
LOOKED_BACK_US = HOUR * SECOND_US
"""How far back a missing occurrence is looked for."""
UNDER_WAY_US = 2 * MINUTE * SECOND_US
"""What was due for no longer may be about to be recorded."""
STALE_FROM_US = 5 * MINUTE * SECOND_US
"""No completion is stale before, however short the interval."""
RUNS_KNOWN_MIN = 3
KINDS = (AlertKind.MISSING_RUN, AlertKind.STALE_COMPLETION, AlertKind.OVERLAP)
_PREFIX = "schedule "


class ScheduleObserver:
    """Looks at schedules, page by page."""

    def __init__(self, page: int = PAGE) -> None:
        self._page = page
        self._after: tuple[str, str, ScheduleId] | None = None

    def observe(self, asked: Asked) -> Observation:
        """Say what schedules lack, of one page and of those that alerts are about."""
        suspects = _suspects(asked)
        records = {one.id: one for one in suspects.values() if one is not None}
        records |= {one.id: one for one in self._next_page(asked.store)}
        active = [one for one in records.values() if one.status is ScheduleStatus.ACTIVE]
        ids = [one.id for one in active]
        ends = asked.store.list_last_ends(ids, RUNS_MAX) if ids else {}
        spans = asked.store.list_run_times(ids, RUNS_LOOKED_AT) if ids else {}
        conditions: list[Condition | None] = []
        for record in active:
            conditions += [
                _missing(asked.store, record, asked.now),
                _stale(record, ends.get(record.id), asked.now),
                _overlapping(record, spans.get(record.id, []), asked.now),
            ]
        names = {(one.tenant, one.name) for one in records.values()} | suspects.keys()
        return Observation(
            conditions=tuple(one for one in conditions if one is not None),
            keys=frozenset(
                AlertKey(kind, tenant, f"{_PREFIX}{name}")
                for kind in KINDS
                for tenant, name in names
            ),
        )

    def _next_page(self, store: Store) -> list[ScheduleRecord]:
        active = frozenset({ScheduleStatus.ACTIVE})
        command = ScheduleFilter(
            tenant=None,
            statuses=active,
            after=self._after,
            limit=self._page,
        )
        found = store.list_schedules(command)
        is_over = len(found) < self._page
        last = found[-1] if found else None
        self._after = None if is_over or last is None else (last.tenant, last.name, last.id)
        return found


def _suspects(asked: Asked) -> dict[tuple[str, str], ScheduleRecord | None]:
    """Return the schedules that alerts are about, by tenant and name; None for one that is gone."""
    about = [
        (one.tenant, one.subject.removeprefix(_PREFIX))
        for one in asked.alerts
        if one.kind in KINDS and one.subject.startswith(_PREFIX)
    ]
    found: dict[tuple[str, str], ScheduleRecord | None] = {}
    for tenant, name in list(dict.fromkeys(about))[:SUBJECTS_MAX]:
        seen = asked.store.find_schedule(tenant, name)
        found[tenant, name] = None if seen is None else seen.record
    return found


def _missing(store: Store, record: ScheduleRecord, now: int) -> Condition | None:
    """Look for occurrences of the last hour of which nothing is recorded."""
    definition = record.definition
    until = now - max(UNDER_WAY_US, definition.misfire.grace_us) - definition.jitter_us
    since = max(record.updated_at + 1, record.created_at + 1, now - LOOKED_BACK_US)
    expected = _between(record, since, until)
    verdicts = store.judge(record.id, expected) if expected else []
    gone = [one.scheduled_for for one in verdicts if one.kind is VerdictKind.MISSING]
    if not gone:
        return None
    count = "1 occurrence" if len(gone) == 1 else f"{len(gone)} occurrences"
    return _condition(
        record,
        AlertKind.MISSING_RUN,
        float(len(gone)),
        gone[0],
        (
            f"{count} of schedule {record.name} without any record, the first of {_at(gone[0])}",
            f"duly run missing --schedule {record.name}; duly db check",
        ),
        {"missing": [_at(one) for one in gone]},
    )


def _stale(record: ScheduleRecord, ends: LastEnds | None, now: int) -> Condition | None:
    """Count the occurrences since the last useful completion: verified, where any ever was."""
    if ends is None or record.last_for is None:
        return None
    last = ends.verified or ends.success
    known = [record.created_at, record.updated_at]
    known += [last.scheduled_for] if last is not None else []
    known += [ends.unknown_through] if ends.unknown_through is not None else []
    since = max(known)
    done_at = since if last is None else max(since, last.at)
    if now - done_at < STALE_FROM_US:
        return None
    fallen_due = _between(record, since + 1, now - record.definition.jitter_us, is_oldest=True)
    if not fallen_due:
        return None
    said = "never" if last is None else f"last at {_at(last.at)}"
    count = len(fallen_due)
    least = f"{count} or more" if count >= OCCURRENCES_MAX else str(count)
    summary = f"schedule {record.name} has completed {said}; {least} occurrences fell due since"
    return _condition(
        record,
        AlertKind.STALE_COMPLETION,
        float(count),
        done_at,
        (
            summary,
            f"duly schedule show {record.name}; duly run list --schedule {record.name}",
        ),
        {
            "last_success": None if ends.success is None else _at(ends.success.at),
            "last_verified": None if ends.verified is None else _at(ends.verified.at),
            "last_error": None if ends.error is None else ends.error.reason,
        },
    )


def _overlapping(record: ScheduleRecord, spans: list[RunSpan], now: int) -> Condition | None:
    """Warn before runs overlap, where they may not (O2)."""
    if record.definition.overlap is Overlap.ALLOW or not spans:
        return None
    times = run_times(record.definition.timetable, spans, from_microseconds(now), now)
    if times.interval is None or times.warning is None:
        return None
    usual = times.ratio if times.ratio is not None and times.count >= RUNS_KNOWN_MIN else 0.0
    held = 0.0 if times.open_for is None else times.open_for / times.interval
    return _condition(
        record,
        AlertKind.OVERLAP,
        round(max(usual, held), 3),
        now,
        (
            f"schedule {record.name}: {times.warning}",
            f"duly schedule show {record.name}; give it more time, or make its task faster",
        ),
        {**times.to_json(), "overlaps": record.overlaps},
    )


def _between(
    record: ScheduleRecord, since: int, until: int, *, is_oldest: bool = False
) -> list[int]:
    """Return the occurrences of a span, both ends included; of many, the newest or the oldest."""
    timetable, found, cursor = record.definition.timetable, list[int](), since
    try:
        for _ in range(1000):
            at = timetable.first_from(cursor)
            if at is None or at > until or (is_oldest and len(found) >= OCCURRENCES_MAX):
                break
            found.append(at)
            cursor = at + 1
    except UsageError:
        return []  # a rule that can't be worked out is somebody else's finding
    return found[-OCCURRENCES_MAX:]


def _condition(  # noqa: PLR0913, PLR0917 - the parts of a condition
    record: ScheduleRecord,
    kind: AlertKind,
    value: float,
    since: int,
    words: tuple[str, str],
    evidence: dict[str, object],
) -> Condition:
    call = record.definition.call
    return Condition(
        kind=kind,
        tenant=record.tenant,
        subject=f"{_PREFIX}{record.name}",
        value=value,
        since=since,
        summary=words[0],
        remedy=words[1],
        evidence=evidence,
        labels={"schedule": record.name, "task": call.task, "queue": call.queue},
    )


def _at(instant: int) -> str:
    return utc_text(from_microseconds(instant))
