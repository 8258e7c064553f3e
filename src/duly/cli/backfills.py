"""`duly backfill`: shows which runs of a span are missing, has them made, and steers that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.confirm import (
    UNSAID,
    confirm,
    counted,
    print_undo,
    require_confirmation,
    undo_command,
)
from duly.cli.context import Target, open_app
from duly.cli.output import (
    TIMED_OUT,
    PollTimer,
    print_empty_or_json,
    print_facts,
    print_json,
    print_line,
    print_table,
    ticker,
)
from duly.cli.references import find_schedule
from duly.cli.schedule_text import note_missing_dispatcher, zone
from duly.cli.times import read_moment, relative_text, zoned_text
from duly.client.backfill_view import Backfill, BackfillPlan
from duly.client.backfills import CONCURRENCY_DEFAULT, PER_MINUTE_DEFAULT
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.errors import UsageError
from duly.timetable.instants import utc_text

TARGET = Target()
SLOTS_SHOWN = 20
DECLINED = 1
"""The exit code when somebody says no, as of other orders that ask."""
Which = Annotated[str, Parameter(help="Its id, or a beginning that only it has.")]
Why = Annotated[str | None, Parameter(help="Why; it is recorded.")]

app = App(name="backfill", help="Plan runs that are missing, and have them made.")


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class SpanOptions:
    """Of which occurrences runs are made."""

    since: Annotated[str, Parameter(name=["--since", "--from"], allow_leading_hyphen=True)]
    """Where the span begins: '2026-04-01', '2026-04-01 02:00' in the schedule's zone, ISO,
    -7d."""
    until: Annotated[str, Parameter(name=["--until", "--to"], allow_leading_hyphen=True)]
    """Where it ends, not included: the same, or now; it can't lie in the future."""
    classes: tuple[str, ...] | None = None
    """What is made: missing and failed unless given; also succeeded (with --mode redo), ambiguous,
    unknown."""
    mode: Literal["fill", "redo"] = "fill"
    """fill makes what is missing or failed; redo makes what is chosen once more."""


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class PaceOptions:
    """How fast a backfill goes."""

    order: Literal["oldest-first", "newest-first"] = "oldest-first"
    """Which end of the span comes first."""
    per_minute: int = PER_MINUTE_DEFAULT
    """How many runs are made in a minute at the most."""
    concurrency: int = CONCURRENCY_DEFAULT
    """How many of them may be open at a time."""


PACE = PaceOptions()


@app.command
def plan(name: str, /, *, span: SpanOptions, target: Target = TARGET) -> None:
    """Show the exact occurrences of a span and what is known about each; nothing is made.

    Parameters
    ----------
    name
        The schedule's name or id.
    """
    with open_app(target, makes_store=False) as application:
        schedule = find_schedule(application, name)
        found = application.backfills.plan(schedule.id, **_span(schedule, span))
        if target.json:
            print_json(found.to_json())
            return
        _print_plan(schedule, found)
        if found.runs:
            print_line(("to have them made: ", "dim"), _create_text(schedule.name, span))


@app.command
def create(  # noqa: PLR0913 - each group of options is an argument
    name: str,
    /,
    *,
    span: SpanOptions,
    pace: PaceOptions = PACE,
    reason: str | None = None,
    yes: bool = False,
    target: Target = TARGET,
) -> int:
    """Have the runs of a span made, at a rate and so many at a time; shows the plan first.

    Parameters
    ----------
    name
        The schedule's name or id.
    reason
        Why; it is recorded.
    yes
        Do not ask.
    """
    with open_app(target, makes_store=False) as application:
        schedule = find_schedule(application, name)
        of = _span(schedule, span)
        found = application.backfills.plan(schedule.id, **of)
        if found.slots and not found.runs:
            _print_nothing(schedule, found, target)
            return 0
        if not yes:
            require_confirmation(found.runs, "duly backfill plan")
            _print_plan(schedule, found)
            if not confirm("Make", found.runs):
                print_line("Nothing was made.")
                return DECLINED
        made = application.backfills.create(
            schedule.id,
            **of,
            order=pace.order,
            per_minute=pace.per_minute,
            concurrency=pace.concurrency,
            runs=found.runs,
            reason=reason,
        )
        _tell_made(application, made, found.runs, target)
        return 0


@app.command(name="list")
def list_backfills(name: str | None = None, /, *, target: Target = TARGET) -> None:
    """List backfills, newest first.

    Parameters
    ----------
    name
        Only those of this schedule.
    """
    with open_app(target, makes_store=False) as application:
        of = None if name is None else find_schedule(application, name).id
        found = application.backfills.list(of)
        if print_empty_or_json(found, "There is no backfill.", as_json=target.json):
            return
        headings = ("id", "schedule", "status", "looked at", "made", "open", "pace", "made by")
        print_table(headings, [_row(one) for one in found])


@app.command
def show(
    backfill: Which,
    /,
    *,
    wait: bool = False,
    timeout: str | None = None,
    target: Target = TARGET,
) -> int:
    """Show a backfill: how far it is, how fast it goes, and who wanted it.

    Parameters
    ----------
    wait
        Show it when it is over: done or cancelled, and none of its runs open.
    timeout
        With --wait: after so long, as 10m, show it as it is then; the exit code is 124.
    """
    if timeout is not None and not wait:
        raise UsageError("timeout", timeout, "says nothing without --wait", "give --wait, too")
    with open_app(target, makes_store=False) as application:
        found = application.backfills.get(_find(application, backfill).id)
        if wait:
            found = _awaited(application, found, timeout)
        status = TIMED_OUT if wait and not _is_over(found) else 0
        if target.json:
            print_json(found.to_json())
            return status
        print_line((f"Backfill of {found.schedule}", "bold"), f"  {found.status}")
        print_facts(_facts(application, found))
        return status


def _awaited(application: Application, found: Backfill, timeout: str | None) -> Backfill:
    """Look at it until it is over; a terminal is told how far it is."""
    patience = PollTimer(timeout)
    with ticker() as line:
        while not _is_over(found):
            looked = f"{found.looked_at:,} of {found.total:,} occurrences looked at"
            line.tell(f"{found.status}: {looked}, {found.made:,} made, {found.open:,} open")
            if not patience.wait():
                break
            found = application.backfills.get(found.id)
    return found


def _is_over(found: Backfill) -> bool:
    return found.status in ("done", "cancelled") and not found.open


@app.command
def pause(backfill: Which, /, *, reason: Why = None, target: Target = TARGET) -> None:
    """Make no more runs until it is resumed; those that were made go on."""
    with open_app(target, makes_store=False) as application:
        found = _find(application, backfill)
        changed = application.backfills.pause(found.id, reason=reason)
        _print_changed(changed, "Paused", ("resume", str(found.id)), target)


@app.command
def resume(backfill: Which, /, *, reason: Why = None, target: Target = TARGET) -> None:
    """Go on where it stands."""
    with open_app(target, makes_store=False) as application:
        found = _find(application, backfill)
        changed = application.backfills.resume(found.id, reason=reason)
        _print_changed(changed, "Resumed", ("pause", str(found.id)), target)


@app.command
def throttle(  # noqa: PLR0913 - each option is an argument
    backfill: Which,
    /,
    *,
    per_minute: int | None = None,
    concurrency: int | None = None,
    reason: Why = None,
    target: Target = TARGET,
) -> None:
    """Let it go faster or slower from now on.

    Parameters
    ----------
    per_minute
        How many runs are made in a minute at the most.
    concurrency
        How many of them may be open at a time.
    """
    with open_app(target, makes_store=False) as application:
        before = _find(application, backfill)
        changed = application.backfills.throttle(
            before.id, per_minute=per_minute, concurrency=concurrency, reason=reason
        )
        back = ("--per-minute", before.per_minute, "--concurrency", before.concurrency)
        words = ("throttle", str(before.id), *(str(one) for one in back))
        _print_changed(changed, "Throttled", words, target)


@app.command
def cancel(backfill: Which, /, *, reason: Why = None, target: Target = TARGET) -> None:
    """Make no more runs, for good; those that were made go on."""
    with open_app(target, makes_store=False) as application:
        changed = application.backfills.cancel(_find(application, backfill).id, reason=reason)
        back = ("resume-from", str(changed.id), "--reason", UNSAID)
        _print_changed(changed, "Cancelled", back, target)


@app.command(name="resume-from")
def resume_from(  # noqa: PLR0913 - each option is an argument
    backfill: Which,
    /,
    *,
    reason: str,
    per_minute: int | None = None,
    concurrency: int | None = None,
    dry_run: bool = False,
    yes: bool = False,
    target: Target = TARGET,
) -> int:
    """Have another backfill do what one that was cancelled has left undone; shows the plan first.

    Parameters
    ----------
    reason
        Why; it is recorded.
    per_minute
        How many runs are made in a minute at the most; as many as that one, unless given.
    concurrency
        How many of them may be open at a time; as that one, unless given.
    dry_run
        Show what is left, and make nothing.
    yes
        Do not ask.
    """
    with open_app(target, makes_store=False) as application:
        old = _find(application, backfill)
        rest = application.backfills.plan_rest(old.id)
        schedule = find_schedule(application, rest.schedule)
        if dry_run or not rest.runs:
            _tell_rest(schedule, rest, target)
            return 0
        if not yes:
            require_confirmation(rest.runs)
            _print_plan(schedule, rest)
            if not confirm("Make", rest.runs):
                print_line("Nothing was made.")
                return DECLINED
        made = application.backfills.resume_from(
            old.id,
            reason=reason,
            runs=rest.runs,
            per_minute=per_minute,
            concurrency=concurrency,
        )
        _tell_made(application, made, rest.runs, target)
        return 0


def _tell_rest(schedule: Schedule, rest: BackfillPlan, target: Target) -> None:
    if target.json:
        print_json(rest.to_json())
        return
    _print_plan(schedule, rest)
    print_line("Nothing was made.")


def _tell_made(application: Application, made: Backfill, runs: int, target: Target) -> None:
    """Tell of a backfill that has begun, and how it is looked at and taken back."""
    taking_back = undo_command("backfill", "cancel", str(made.id), "--reason", UNSAID)
    if target.json:
        print_json({**made.to_json(), "undo": taking_back})
        return
    after = "" if made.resumes is None else f", going on from {made.resumes}"
    are = f"{counted(runs, 'run')} {'is' if runs == 1 else 'are'} to be made"
    print_line(f"Backfill {made.id} of {made.schedule}{after}: {are}, {_pace(made)}.")
    print_line(("to look at it: ", "dim"), undo_command("backfill", "show", str(made.id)))
    print_undo(taking_back)
    note_missing_dispatcher(application)


def _find(application: Application, text: str) -> Backfill:
    """Return the backfill of an id, or of a beginning that only one has."""
    listed = application.backfills.list()
    found = [one for one in listed if text and str(one.id).startswith(text.lower())]
    if len(found) == 1:
        return found[0]
    if found:
        problem = f"is the beginning of {len(found):,} ids"
        raise UsageError("backfill", text, problem, "give more of it: see duly backfill list")
    return application.backfills.get(text)


def _create_text(name: str, span: SpanOptions) -> str:
    words = ["backfill", "create", name, "--since", span.since, "--until", span.until]
    if span.mode != "fill":
        words += ["--mode", span.mode]
    for one in span.classes or ():
        words += ["--classes", one]
    return undo_command(*words)


def _print_nothing(schedule: Schedule, found: BackfillPlan, target: Target) -> None:
    """Say that there is nothing to be made: no backfill is written down for that."""
    if target.json:
        print_json(found.to_json())
        return
    _print_plan(schedule, found)
    print_line(
        "Nothing was made: none of these is chosen. --classes chooses others, and --mode redo makes"
        " what is there once more."
    )


def _span(schedule: Schedule, span: SpanOptions) -> dict[str, Any]:
    tz, clock = zone(schedule.timetable), SystemClock()
    return {
        "since": read_moment(span.since, tz, clock, "since"),
        "until": read_moment(span.until, tz, clock, "until"),
        "classes": span.classes,
        "mode": span.mode,
    }


def _print_plan(schedule: Schedule, found: BackfillPlan) -> None:
    tz = zone(schedule.timetable)
    said = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.counts.items()))
    slots = counted(len(found.slots), "occurrence")
    print_line((schedule.name, "bold"), f"  {slots}: {said or 'none'}.")
    rows = [
        (zoned_text(slot.scheduled_for, tz), slot.kind, slot.reason or "", _fate(slot.is_chosen))
        for slot in found.slots[:SLOTS_SHOWN]
    ]
    if rows:
        print_table(("occurrence", "is", "because", "then"), rows)
    if len(found.slots) > SLOTS_SHOWN:
        print_line(f"… and {len(found.slots) - SLOTS_SHOWN:,} more; --json shows all.")
    print_line(f"{found.runs:,} would be made.")


def _fate(is_chosen: bool) -> str:  # noqa: FBT001 - read from a record
    return "made" if is_chosen else "left as it is"


def _pace(one: Backfill) -> str:
    return f"{one.per_minute:,} a minute, {one.concurrency:,} at a time"


def _row(one: Backfill) -> tuple[str, ...]:
    looked_at = f"{one.looked_at:,} of {one.total:,}"
    numbers = (looked_at, f"{one.made:,}", f"{one.open:,}")
    return (str(one.id), one.schedule, one.status, *numbers, _pace(one), one.created_by)


def _facts(application: Application, one: Backfill) -> list[tuple[str, str]]:
    now = application.status().now
    made = f"{one.created_by}, {utc_text(one.created_at)}, {relative_text(now, one.created_at)}"
    return [
        ("span", f"{utc_text(one.since)} to {utc_text(one.until)}, {one.order}"),
        ("makes", f"{', '.join(one.classes)} ({one.mode})"),
        ("pace", _pace(one)),
        ("looked at", f"{one.looked_at:,} of {one.total:,} occurrences"),
        ("made", f"{counted(one.made, 'run')}, {one.open:,} of them open"),
        ("goes on from", "-" if one.resumes is None else str(one.resumes)),
        ("why", one.reason or "-"),
        ("made by", made),
        ("id", f"{one.id}, version {one.version}"),
    ]


def _print_changed(
    changed: Backfill, verb: str, back: tuple[str, ...] | None, target: Target
) -> None:
    taking_back = None if back is None else undo_command("backfill", *back)
    if target.json:
        print_json({**changed.to_json(), "undo": taking_back})
        return
    print_line(
        f"{verb} the backfill of {changed.schedule}: {counted(changed.made, 'run')} made,"
        f" {changed.looked_at:,} of {changed.total:,} occurrences looked at, {_pace(changed)}."
    )
    if taking_back is not None:
        print_undo(taking_back)
