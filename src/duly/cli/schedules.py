"""Commands that read schedules: schedule list, show, history, occurrences, diff."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Any

from cyclopts import Parameter

from duly.app import App
from duly.cli.audit import changes, flat_facts, print_entries
from duly.cli.context import Target, open_app
from duly.cli.output import print_facts, print_json, print_line, print_table
from duly.cli.references import AsOf, find_schedule, read_as_of
from duly.cli.schedule_orders import misfire_words, overlap_words
from duly.cli.schedule_text import (
    local_text,
    print_pending,
    print_result,
    print_warning,
    undo,
    zone,
)
from duly.cli.times import lateness_text, read_moment, relative_text, share_text, zoned_text
from duly.client.last_ends import BadEnding, Ending, Endings
from duly.client.run_view import Run
from duly.client.schedule_history import HistoryEntry, OwedRange, SkippedRange, entry_as_of
from duly.client.schedule_view import MICROSECOND, Schedule
from duly.clock import SystemClock
from duly.domain.policies import PRESETS, Misfire
from duly.domain.schedules import OVERLAP_DEFAULT, PRIORITY_DEFAULT, QUEUE_DEFAULT
from duly.errors import NotFound
from duly.timetable.instants import duration_words, iso_utc, utc_text
from duly.timetable.timetable import Timetable

PAGES_MAX = 20
PAGE = 200
_MICROSECOND = timedelta(microseconds=1)


def show_then(app: App, schedule: Schedule, at: datetime, target: Target) -> None:
    """Show how a schedule was: what the trail says that the last order before made of it."""
    entry = find_entry(app, schedule, at)
    assert entry.after is not None, "it says how it was afterwards"
    if target.json:
        since = {"since": iso_utc(entry.at), "entry": entry.number, "by": entry.actor}
        print_json({"as_of": iso_utc(at), "id": str(schedule.id), **since, **entry.after})
        return
    print_line((str(entry.after["name"]), "bold"), f"  as of {utc_text(at)}")
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{utc_text(entry.at)}, {entry.action} by {entry.actor}{why} (#{entry.number})"
    facts = [(name, _text(value)) for name, value in flat_facts(entry.after).items()]
    print_facts([("so since", by), *facts, ("id", str(schedule.id))])


def find_entry(app: App, schedule: Schedule, at: datetime) -> HistoryEntry:
    """Return the entry of the trail that says how a schedule was; NotFound before there was one."""
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = app.audit.page(
            subject_id=str(schedule.id),
            until=at + _MICROSECOND,
            all_tenants=False,
            limit=PAGE,
            cursor=cursor,
        )
        found = entry_as_of(page.items, at)
        if found is not None:
            return found
        cursor = page.next_cursor
        if cursor is None:
            break
    if schedule.created_at > at:
        remedy = f"it was made at {utc_text(schedule.created_at)}"
    else:
        remedy = "the trail does not reach back so far"
    raise NotFound("schedule", f"{schedule.name} as of {utc_text(at)}", remedy)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


TARGET = Target()


def diff(
    name: str,
    /,
    *,
    entry: int | None = None,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = 1,
    target: Target = TARGET,
) -> None:
    """Show what was changed about a schedule, field by field; the last change unless told.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    entry
        The number of the change, as duly schedule history --json has it.
    number
        How many of the last changes to show.
    """
    with open_app(target, makes_store=False, needs_store=True) as app:
        found = find_schedule(app, name, by_beginning=True)
        history = app.schedules.history(found.id)
        made = [one for one in history if changes(one.before, one.after)]
        chosen = [one for one in made if one.number == entry] if entry else made[:number]
        if entry is not None and not chosen:
            remedy = f"{undo('history', found.name)} --json has the numbers"
            raise NotFound("entry", entry, remedy)
        if target.json:
            print_json([_json(one) for one in chosen])
            return
        for one in chosen:
            _print(one)
        if not chosen:
            print_line(f"{found.name} is as it was made.")


def _json(entry: HistoryEntry) -> dict[str, Any]:
    found = changes(entry.before, entry.after)
    listed = [{"field": key, "before": old, "after": new} for key, old, new in found]
    return {**entry.to_json(), "changes": listed}


def _print(entry: HistoryEntry) -> None:
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{entry.actor} ({entry.source})"
    print_line((f"#{entry.number} {entry.action}", "bold"), f" {utc_text(entry.at)} by {by}{why}")
    for key, old, new in changes(entry.before, entry.after):
        print_line(("- ", "red"), f"{key}: {old}")
        print_line(("+ ", "green"), f"{key}: {new}")


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
    # What went before is no longer kept: nobody can say that there was none.
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


HISTORY_DEFAULT = 50


def list_schedules(  # noqa: PLR0913 - each filter is an argument
    *,
    status: str | None = None,
    task: str | None = None,
    owner: str | None = None,
    prefix: str | None = None,
    all_: Annotated[bool, Parameter(name="--all")] = False,
    target: Target = TARGET,
) -> None:
    """List schedules in order of name.

    Parameters
    ----------
    status
        Only those that are active, paused, ended or deleted.
    task
        Only those that run this task.
    owner
        Only those that belong to this owner.
    prefix
        Only those whose name begins like this.
    all_
        Deleted ones too.
    """
    with open_app(target, makes_store=False) as app:
        found = app.schedules.list(
            status=status,
            task=task,
            owner=owner,
            name_prefix=prefix,
            include_deleted=all_,
            with_run_times=True,
            with_last_ends=True,
        )
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line("No schedule found. duly schedule create --help says how to make one.")
            return
        now = app.status().now
        rows = [
            (
                one.name,
                one.status,
                local_text(one, one.next_due),
                relative_text(now, one.next_due) if one.next_due else _why(one),
                one.timetable.describe(),
                one.task,
                _share(one),
                f"{one.overlaps:,}",
                *last_ends_cells(one, now),
            )
            for one in found
        ]
        headings = (
            "name",
            "status",
            "next run",
            "distance",
            "when",
            "task",
            "run/interval",
            "overlaps",
        )
        print_table((*headings, *LAST_ENDS_HEADINGS), rows)
        for one in found:
            print_warning(one)


def history(
    name: str,
    /,
    *,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = HISTORY_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show who did what to a schedule, when, why and from where; newest first.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    number
        How many entries to show at the most.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name, by_beginning=True)
        entries = app.schedules.history(found.id, limit=number)
        if target.json:
            print_json([entry.to_json() for entry in entries])
        else:
            print_entries(entries, has_subject=False)


def occurrences(
    name: str,
    /,
    *,
    start: Annotated[str, Parameter(name="--from", allow_leading_hyphen=True)] = "-1d",
    end: Annotated[str, Parameter(name="--to", allow_leading_hyphen=True)] = "now",
    target: Target = TARGET,
) -> None:
    """Show what became of each expected occurrence, and why it was not run.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    start
        From when on: an ISO time (in the schedule's zone), today, -2h; a day ago unless given.
    end
        Until when: an ISO time, now, tomorrow, +1h.
    """
    with open_app(target, makes_store=False) as app:
        found = find_schedule(app, name, by_beginning=True)
        tz = zone(found.timetable)
        span = [read_moment(text, tz, SystemClock(), word) for text, word in _span(start, end)]
        judged = app.schedules.occurrences(found.id, span[0], span[1])
        if target.json:
            print_json([one.to_json() for one in judged])
            return
        if not judged:
            print_line(
                f"{found.name} had no occurrence from {zoned_text(span[0], tz)}"
                f" to {zoned_text(span[1], tz)}."
            )
            return
        rows = [
            (
                zoned_text(one.scheduled_for, tz),
                utc_text(one.scheduled_for),
                one.verdict,
                one.reason or "-",
                "-" if one.run is None else str(one.run),
            )
            for one in judged
        ]
        print_table((f"expected ({tz})", "UTC", "verdict", "why", "run"), rows)


def _span(start: str, end: str) -> list[tuple[str, str]]:
    return [(start, "from"), (end, "to")]


def _share(schedule: Schedule) -> str:
    """Say which part of the time between two occurrences a run takes."""
    times = schedule.run_times
    return "-" if times is None or times.ratio is None else share_text(times.ratio)


def _why(schedule: Schedule) -> str:
    """Say why there is no next run."""
    return schedule.reason or "-"


SKIPS_SHOWN = 3


def show(name: str, /, *, as_of: AsOf = None, target: Target = TARGET) -> None:
    """Show all about a schedule: its rule and policies, what comes next, what went before.

    Parameters
    ----------
    name
        The schedule's name or id, or a beginning that only it has.
    """
    with open_app(target, makes_store=False) as app:
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
    """Say how long runs take, beside how long they may."""
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
