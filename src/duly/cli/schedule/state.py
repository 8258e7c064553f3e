"""`duly schedule pause`, `resume`, `trigger`, `skip`, `delete`, `restore`: stop and start it."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from duly.app import App
from duly.cli.frozen_orders import SET, SetOptions
from duly.cli.moments import read_moment
from duly.cli.output import print_json, print_line
from duly.cli.references import find_schedule
from duly.cli.schedule.chosen import ANY, Asked, ScheduleOptions, order_chosen
from duly.cli.schedule.policies import OverlapChoice
from duly.cli.schedule.telling import (
    local_text,
    next_sentence,
    note_missing_dispatcher,
    print_pending,
    print_result,
    undo,
    zone,
)
from duly.cli.target import Target, is_server, opened
from duly.cli.times import zoned_text
from duly.cli.undoing import UNSAID, print_undo, undo_text
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.domain.durations import duration_words
from duly.domain.instants import iso_utc
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
_GOES_ON = "Its timetable goes on as before."
MissedChoice = Literal["skip", "misfire"]
Names = Annotated[str, Parameter(help="The schedule's name or id; or several.")]


def pause(  # noqa: PLR0913 - each option of the command is an argument
    *names: Names,
    reason: str,
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    missed: MissedChoice = "skip",
    which: ScheduleOptions = ANY,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Stop schedules: no new runs are made, runs that exist go on, nothing is lost.

    Name one or several, or choose them: --owner anna, --prefix mail-.

    Parameters
    ----------
    reason
        Why; it is shown wherever the schedule is, and recorded.
    until
        When it resumes by itself: an ISO time (in the schedule's zone; of several, UTC), tomorrow,
        +2h.
    missed
        With --until: what becomes of occurrences in the pause: skip, or misfire for its policy.
    """
    if missed != "skip" and until is None:
        remedy = "give --until too, or say it when you resume: duly schedule resume --missed"
        raise UsageError("missed", missed, "says nothing about a pause without end", remedy)
    options = () if until is None else ("--until", until, "--missed", missed)
    asked = Asked(
        names=names, which=which, chosen=chosen, reason=reason, target=target, options=options
    )
    with opened(target, makes_store=False) as app:
        if asked.is_one:
            found = find_schedule(app, names[0])
            moment = _moment(until, zone(found.timetable))
            _tell_paused(
                app.schedules.pause(found.id, reason=reason, until=moment, missed=missed), target
            )
            return 0
        end = _moment(until, "UTC")
        _require_coming(app, until, end)
        terms: dict[str, Any] = {"reason": reason, "until": end, "missed": missed}
        return order_chosen(
            app,
            "pause",
            asked,
            lambda which, count: app.schedule_selections.pause(which, confirm=count, **terms),
        )


def _moment(text: str | None, tz: str) -> datetime | None:
    return None if text is None else read_moment(text, tz, SystemClock(), "until")


def _require_coming(app: App, text: str | None, end: datetime | None) -> None:
    """Refuse an end that has passed before anybody is asked about many."""
    if end is None:
        return
    now = app.status().now
    if end <= now:
        raise UsageError(
            "until", text, "lies in the past", f"give an instant after {utc_text(now)}"
        )


def _tell_paused(paused: Schedule, target: Target) -> None:
    taking_back = undo("resume", paused.name)
    if target.json:
        print_result(paused, undo=taking_back)
        return
    end = "until somebody resumes it"
    if paused.resume_at is not None:
        until = zoned_text(paused.resume_at, zone(paused.timetable))
        end = f"until {until}; then it resumes by itself"
    print_line(f"Paused {paused.name} {end}. No new runs are made; those that exist go on.")
    print_undo(taking_back)


def resume(  # noqa: PLR0913 - as above
    *names: Names,
    missed: MissedChoice = "skip",
    reason: str | None = None,
    which: ScheduleOptions = ANY,
    chosen: SetOptions = SET,
    target: Target = TARGET,
) -> int:
    """Let paused schedules go on.

    Name one or several, or choose them: --owner anna, --prefix mail-.

    Parameters
    ----------
    missed
        What becomes of occurrences in the pause: skip, or misfire for its policy.
    reason
        Why; about several it is needed.
    """
    options = () if missed == "skip" else ("--missed", missed)
    asked = Asked(
        names=names, which=which, chosen=chosen, reason=reason, target=target, options=options
    )
    with opened(target, makes_store=False) as app:
        if asked.is_one:
            found = find_schedule(app, names[0])
            _tell_resumed(
                app, found, app.schedules.resume(found.id, missed=missed, reason=reason), target
            )
            return 0
        return order_chosen(
            app,
            "resume",
            asked,
            lambda which, count: app.schedule_selections.resume(
                which, confirm=count, missed=missed, reason=reason or ""
            ),
        )


def _tell_resumed(app: App, before: Schedule, resumed: Schedule, target: Target) -> None:
    end = () if before.resume_at is None else ("--until", iso_utc(before.resume_at))
    taking_back = undo("pause", resumed.name, "--reason", before.reason or UNSAID, *end)
    _tell_back(app, resumed, ("Resumed", taking_back), target)


def _tell_back(app: App, schedule: Schedule, told: tuple[str, str], target: Target) -> None:
    """Tell of a schedule that fires again: what was done, when it is next, how to undo that."""
    done, undoing = told
    if target.json:
        print_result(schedule, undo=undoing)
        return
    print_line(f"{done} {schedule.name}. {next_sentence(schedule, app.status().now)}")
    print_pending(app, schedule)
    print_undo(undoing)
    note_missing_dispatcher(app)


def trigger(  # noqa: PLR0913 - each option is an argument
    name: str,
    /,
    *,
    key: str | None = None,
    overlap: OverlapChoice | None = None,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Run a schedule now, beside its timetable: its next run stays where it is.

    Parameters
    ----------
    name
        The schedule's name or id.
    key
        A business key for the run.
    overlap
        Another overlap policy for this one run, on record: allow runs it beside an open one.
    reason
        Why.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name)
        run = app.schedules.trigger(found.id, reason=reason, key=key, overlap=overlap)
        taking_back = undo_text("run", "cancel", str(run.id), "--reason", UNSAID)
        if target.json:
            print_json({**run.to_json(), "schedule": found.name, "undo": taking_back})
            return
        after = "It stays paused." if found.status == "paused" else _GOES_ON
        print_line(f"Queued a run of {found.name}: {run.id}. {after}")
        print_undo(taking_back)


def skip(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Leave out the next occurrence of a schedule, on record.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name)
        after = app.schedules.skip_next(found.id, reason=reason)
        instead = undo("trigger", after.name, "--reason", "it was skipped by mistake")
        taking_back = f"none; one that stands for now is made by {instead}"
        if target.json:
            skipped = None if found.next_for is None else utc_text(found.next_for)
            print_result(after, skipped_for=skipped, undo=taking_back)
            return
        print_line(f"Skipped {after.name} of {local_text(found, found.next_for)}.")
        print_line(next_sentence(after, app.status().now))
        print_undo(taking_back)


def delete(name: str, /, *, reason: str, yes: bool = False, target: Target = TARGET) -> int | None:
    """Delete a schedule: it stops at once, and can be restored for a while.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why; it is recorded.
    yes
        Do not ask.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name)
        if not yes and not _is_agreed(app, found):
            print_line("Nothing was changed.")
            return 1
        deleted = app.schedules.delete(found.id, reason=reason)
        taking_back = undo("restore", deleted.name)
        if target.json:
            print_result(deleted, undo=taking_back)
            return None
        print_line(f"Deleted {deleted.name}. It can be restored{_kept(app)}.")
        print_undo(taking_back)
        return None


def restore(name: str, /, *, reason: str | None = None, target: Target = TARGET) -> None:
    """Bring back a deleted schedule; what fell due in between is recorded as skipped.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why.
    """
    with opened(target, makes_store=False) as app:
        found = find_schedule(app, name)
        restored = app.schedules.restore(found.id, reason=reason)
        taking_back = undo("delete", restored.name, "--reason", found.reason or UNSAID, "--yes")
        _tell_back(app, restored, ("Restored", taking_back), target)


def _is_agreed(app: App, schedule: Schedule) -> bool:
    """Ask the person at the terminal; a script must say --yes."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        remedy = "give --yes where nobody can be asked"
        raise UsageError("yes", schedule.name, "is not deleted without a yes", remedy)
    next_run = f", next run {local_text(schedule, schedule.next_due)}" if schedule.next_due else ""
    print_line(f"{schedule.describe()}{next_run}")
    print_line(f"It stops at once and gives up what it owes; it can be restored{_kept(app)}.")
    try:
        return input(f"Delete {schedule.name}? [y/N] ").strip().lower() in ("y", "yes")
    except (EOFError, KeyboardInterrupt):
        return False


def _kept(app: App) -> str:
    """Say for how long; a server does not tell how long its dispatchers keep what is deleted."""
    kept_us = None if is_server(app) else app.retention.deleted_schedules_us
    return "" if kept_us is None else f" for {duration_words(kept_us)}"
