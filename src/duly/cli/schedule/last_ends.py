"""How the newest runs of a schedule ended, in words: success, check and error apart (V1, V4)."""

from __future__ import annotations

from datetime import datetime

from duly.cli.schedule.telling import local_text
from duly.cli.times import relative_text
from duly.client.last_ends import BadEnding, Ending, Endings
from duly.client.schedule_view import Schedule
from duly.domain.time_texts import utc_text

LAST_ENDS_HEADINGS = ("last success", "last verified", "last error")
NONE_ON_RECORD = "none on record"
ERROR_SHOWN_MAX = 200


def last_ends_facts(schedule: Schedule, now: datetime) -> list[tuple[str, str]]:
    """Say how the newest runs of a schedule ended, one fact each."""
    ends = schedule.last_ends
    if ends is None:
        return []
    success, verified, error = LAST_ENDS_HEADINGS
    return [
        (success, _ending(schedule, ends.success, now)),
        (verified, _ending(schedule, ends.verified, now)),
        (error, _error(schedule, ends.error, now)),
    ]


def last_ends_cells(schedule: Schedule, now: datetime) -> tuple[str, ...]:
    """Say the same in a row of a table."""
    ends = schedule.last_ends
    if ends is None:
        return ("-",) * len(LAST_ENDS_HEADINGS)
    return tuple(_cell(ends, one, now) for one in (ends.success, ends.verified, ends.error))


def _cell(ends: Endings, ending: Ending | None, now: datetime) -> str:
    if ending is not None:
        return relative_text(now, ending.at)
    # What went before is no longer kept: nobody can say that there was none (D6).
    return "-" if ends.unknown_through is None else "unknown"


def _ending(schedule: Schedule, ending: Ending | None, now: datetime) -> str:
    if ending is None:
        return _none(schedule)
    when = f"{utc_text(ending.at)}, {relative_text(now, ending.at)}"
    return f"{when}, of {local_text(schedule, ending.scheduled_for)}, {ending.run}"


def _error(schedule: Schedule, error: BadEnding | None, now: datetime) -> str:
    text = _ending(schedule, error, now)
    if error is None:
        return text
    lines = (error.error or "").strip().splitlines()
    said = f": {lines[-1][:ERROR_SHOWN_MAX]}" if lines else ""
    return f"{text}, {error.reason or 'failed'}{said}"


def _none(schedule: Schedule) -> str:
    through = None if schedule.last_ends is None else schedule.last_ends.unknown_through
    if through is None:
        return NONE_ON_RECORD
    when = local_text(schedule, through)
    return f"{NONE_ON_RECORD}; unknown for what fell due up to {when}"
