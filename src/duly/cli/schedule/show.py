"""`duly schedule show`: all about one schedule, every effective policy included."""

from __future__ import annotations

import json
from datetime import datetime

from duly.app import App
from duly.cli.as_of import AsOf, read_as_of
from duly.cli.output import print_facts, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.as_of import show_then
from duly.cli.schedule.last_ends import last_ends_facts
from duly.cli.schedule.policies import misfire_words, overlap_words
from duly.cli.schedule.telling import (
    local_text,
    print_pending,
    print_result,
    print_warning,
    zone,
)
from duly.cli.target import Target, opened
from duly.cli.times import lateness_text, relative_text, share_text, zoned_text
from duly.client.history import OwedRange, SkippedRange
from duly.client.run_view import Run
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.domain.durations import duration_words
from duly.domain.misfire import Misfire
from duly.domain.presets import PRESETS
from duly.domain.schedules import OVERLAP_DEFAULT, PRIORITY_DEFAULT, QUEUE_DEFAULT
from duly.domain.time_texts import utc_text
from duly.domain.timetable.timetable import Timetable

TARGET = Target()
SKIPS_SHOWN = 3


def show(name: str, /, *, as_of: AsOf = None, target: Target = TARGET) -> None:
    """Show all about a schedule: its rule and policies, what comes next, what went before.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name, by_beginning=True)
        if as_of is not None:
            show_then(app, found, read_as_of(app, as_of, zone(found.timetable)), target)
            return
        owed = app.schedules.owed(found.id)
        skips = app.schedules.skips(found.id, limit=SKIPS_SHOWN)
        last = next(iter(app.runs.list(schedule=found.id, limit=1)), None)
        if target.json:
            print_result(
                found,
                owed=[one.to_json() for one in owed],
                skips=[one.to_json() for one in skips],
                newest_run=None if last is None else last.to_json(),
            )
            return
        print_line((found.name, "bold"), f"  {found.timetable.describe()}")
        print_facts(_facts(app, found))
        print_pending(app, found)
        print_facts(_past(found, last, owed, skips))
        print_facts(last_ends_facts(found, app.status().now))
        print_warning(found)


def _facts(app: App, schedule: Schedule) -> list[tuple[str, str]]:
    now = app.status().now
    return [
        ("status", _status(schedule, now)),
        ("task", f"{schedule.task}({_arguments(schedule)})"),
        ("zone and clocks", _clock_policies(schedule.timetable)),
        ("preset", _preset(schedule)),
        ("if missed", _misfire(schedule)),
        ("if it overlaps", _overlap(schedule)),
        ("jitter", _jitter(schedule)),
        ("queue", schedule.queue + _default(schedule.queue == QUEUE_DEFAULT)),
        (
            "priority",
            f"{schedule.priority} of 0 to 9{_default(schedule.priority == PRIORITY_DEFAULT)}",
        ),
        ("owner", schedule.owner or "-"),
        ("declared by", schedule.declared_by or "nobody; made by hand"),
        ("id", str(schedule.id)),
        ("version", _version(schedule)),
        ("created", utc_text(schedule.created_at)),
    ]


def _past(
    schedule: Schedule,
    last: Run | None,
    owed: list[OwedRange],
    skips: list[SkippedRange],
) -> list[tuple[str, str]]:
    tz = zone(schedule.timetable)
    facts = [("runs so far", f"{schedule.fires:,}"), ("newest run", _last(last, tz))]
    facts += [("run time", _run_time(schedule)), ("overlaps", _overlaps(schedule))]
    facts += [("owed", _range(one.first_for, one.last_for, tz)) for one in owed]
    if not owed:
        facts.append(("owed", "nothing"))
    facts += [
        ("skipped", f"{_range(one.first_for, one.last_for, tz)}, {one.reason}") for one in skips
    ]
    return facts


def _overlaps(schedule: Schedule) -> str:
    if not schedule.overlaps:
        return "none so far"
    return f"{schedule.overlaps:,} occurrences found an earlier run open"


def _run_time(schedule: Schedule) -> str:
    """Say how long runs take, beside how long they may (O2)."""
    times = schedule.run_times
    if times is None or times.usual is None:
        return "no run is over yet"
    runs = "the last run" if times.count == 1 else f"nine of ten of the last {times.count} runs"
    text = f"{runs} took up to {lateness_text(times.usual)} from fire to end"
    if times.interval is None or times.ratio is None:
        return text
    return f"{text}, {share_text(times.ratio)} of the {lateness_text(times.interval)} to the next"


def _status(schedule: Schedule, now: datetime) -> str:
    text = schedule.status
    if schedule.reason and schedule.status != "active":
        text += f": {schedule.reason}"
    if schedule.resume_at is not None:
        when = local_text(schedule, schedule.resume_at)
        text += f"; resumes by itself {when}, {relative_text(now, schedule.resume_at)}"
    if schedule.next_after_pause is not None:
        text += f". Next after the pause: {local_text(schedule, schedule.next_after_pause)}"
    return text


def _arguments(schedule: Schedule) -> str:
    parts = (
        f"{key}={json.dumps(value, ensure_ascii=False)}"
        for key, value in schedule.arguments.items()
    )
    return ", ".join(parts)


def _clock_policies(timetable: Timetable) -> str:
    stored = timetable.to_json()
    if "gap" not in stored:
        return zone(timetable)
    gap, fold = stored["gap"], stored["fold"]
    gap_words = f"gap={gap}{_default(gap == 'next')}"
    return f"{zone(timetable)}, {gap_words}, fold={fold}{_default(fold == 'first')}"


def _preset(schedule: Schedule) -> str:
    if schedule.preset is None:
        return "none"
    preset = PRESETS.get(schedule.preset)
    return schedule.preset if preset is None else f"{schedule.preset}: {preset.words}"


def _misfire(schedule: Schedule) -> str:
    preset = PRESETS.get(schedule.preset or "")
    usual = Misfire() if preset is None else preset.misfire
    return misfire_words(schedule.misfire) + _mark(schedule, schedule.misfire == usual)


def _overlap(schedule: Schedule) -> str:
    words = overlap_words(schedule.overlap, schedule.serialize_by)
    preset = PRESETS.get(schedule.preset or "")
    usual = str(OVERLAP_DEFAULT if preset is None else preset.overlap)
    return f"{schedule.overlap}: {words}{_mark(schedule, schedule.overlap == usual)}"


def _jitter(schedule: Schedule) -> str:
    if not schedule.jitter:
        return "none (default)"
    spread = duration_words(schedule.jitter // MICROSECOND)
    if schedule.next_for is None or schedule.next_due is None:
        return f"within {spread}"
    own = lateness_text(schedule.next_due - schedule.next_for)
    return f"within {spread}; this schedule's share is {own}"


def _version(schedule: Schedule) -> str:
    return f"{schedule.version}, by {schedule.updated_by} at {utc_text(schedule.updated_at)}"


def _last(last: Run | None, tz: str) -> str:
    if last is None:
        return "none yet"
    late = f", {lateness_text(last.lateness)} after due" if last.lateness is not None else ""
    return f"{zoned_text(last.scheduled_for, tz)}, {last.state}{late}, {last.origin}, {last.id}"


def _range(first_for: datetime, last_for: datetime, tz: str) -> str:
    first = zoned_text(first_for, tz)
    return first if first_for == last_for else f"{first} to {zoned_text(last_for, tz)}"


def _mark(schedule: Schedule, is_usual: object) -> str:
    """Say where a policy comes from that nobody has named."""
    if schedule.preset is None:
        return _default(is_usual)
    return " (preset)" if is_usual else ""


def _default(is_default: object) -> str:
    return " (default)" if is_default else ""
