"""Commands that read runs: run list, show, logs, attempts, missing, why, wait."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import Annotated, Any, NamedTuple
from uuid import UUID

from cyclopts import Parameter

from duly.app import App
from duly.cli.context import Target, open_app
from duly.cli.inbox import inbox
from duly.cli.output import (
    PollTimer,
    json_line,
    neutral,
    print_aside,
    print_block,
    print_facts,
    print_json,
    print_line,
    print_table,
)
from duly.cli.references import (
    AsOf,
    RunName,
    find_promise,
    find_run,
    find_schedule,
    print_elsewhere,
    read_as_of,
)
from duly.cli.run_details import print_attempts, print_story, state_text, story_json
from duly.cli.times import exact_text, lateness_text, read_local_moment
from duly.client.attempt_view import Line
from duly.client.paging import Page
from duly.client.run_view import Run
from duly.client.schedule_history import LookedFrom, MissingRun, run_state_as_of
from duly.errors import UsageError
from duly.timetable.instants import iso_utc, utc_text

TARGET = Target()


def attempts(run: RunName, /, *, target: Target = TARGET) -> None:
    """Show each attempt of a run: by whom, under which fence, how it ended, with its error."""
    with open_app(target, makes_store=False) as app:
        found = find_run(app, run)
        tried = app.runs.attempts(found.id)
        if target.json:
            print_json([one.to_json() for one in tried])
            return
        if not tried:
            print_line(f"{found.label} was not tried yet. Ask why: duly run why {found.id}")
            return
        print_attempts(tried, app.status().now)
        for one in tried:
            if one.error:
                print_line((f"error of fence {one.fence}", "dim"))
                print_block(one.error)


def ambiguous(*, limit: int = 50, target: Target = TARGET) -> int:
    """List runs of which nobody knows what they did, with what is safest: as duly inbox does.

    Parameters
    ----------
    limit
        At most so many.
    """
    return inbox(limit=limit, target=target)


PAGE = 1000
LEVEL_WIDTH = 7


def logs(
    run: RunName,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"])] = False,
    target: Target = TARGET,
) -> None:
    """Show what a run's attempts have written; with --json, one document on each line.

    Parameters
    ----------
    follow
        Go on until the run is over.
    """
    with open_app(target, makes_store=False) as app:
        found = find_run(app, run)
        last = _print_from(app, found.id, 0, as_json=target.json)
        if follow:
            _follow(app, found.id, last, as_json=target.json)
        elif not last and not target.json:
            print_line("Its attempts have written nothing.")


def _follow(app: App, run: UUID, last: int, *, as_json: bool) -> None:
    patience = PollTimer(None)
    while True:
        # Asked before the lines are read: what was written until then is among them.
        is_over = app.runs.get(run).is_over
        after = _print_from(app, run, last, as_json=as_json)
        if after != last:
            patience.renew()
        last = after
        if is_over:
            return
        patience.wait()


def _print_from(app: App, run: UUID, last: int, *, as_json: bool) -> int:
    """Print lines after a number, page by page; return the last one's."""
    while page := app.runs.lines(run, after=last, limit=PAGE):
        for line in page:
            sys.stdout.write(json_line(line.to_json()) if as_json else _text(line))
        sys.stdout.flush()
        last = page[-1].number
    return last


def _text(line: Line) -> str:
    level = line.level.ljust(LEVEL_WIDTH)
    return f"{exact_text(line.at)} #{line.fence} {neutral(level)} {neutral(line.text)}\n"


MISSING = 1
"""The exit code when something is missing."""


def missing(
    *,
    since: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1d",
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    schedule: str | None = None,
    target: Target = TARGET,
) -> int:
    """Show occurrences that timetables ask for and that have no run: lost, owed, or held.

    What was skipped by a policy, or on purpose, has its reason and is not missing: duly schedule
    occurrences shows it. What retention has removed is unknown, and not missing either. The exit
    code is 1 when something is missing.

    Parameters
    ----------
    since
        From when on: an ISO time, today, -2h; a day ago unless given.
    until
        Up to when; now unless given. What was missing then and was made since is no longer missing.
    schedule
        Only of this schedule, by its name or id.
    """
    with open_app(target, makes_store=False) as app:
        now = app.status().now
        start = read_local_moment(since, "since", as_json=target.json)
        if start >= now:
            raise UsageError("since", since, "lies in the future", "give a moment that has been")
        end = None
        if until is not None:
            end = read_local_moment(until, "until", as_json=target.json)
        named = None if schedule is None else find_schedule(app, schedule, by_beginning=True).id
        found, cut = _look_for_missing(app, (start, end), named)
    for one in cut:
        text = f"{one.schedule} fires often: it was looked at since {utc_text(one.since)} only"
        print_aside("note", text, as_json=target.json)
    if target.json:
        print_json([one.to_json() for one in found])
    else:
        _print(found, start)
    return MISSING if any(one.is_missing for one in found) else 0


def _look_for_missing(
    app: App, span: tuple[datetime, datetime | None], schedule: object
) -> tuple[list[MissingRun], list[LookedFrom]]:
    """Look at all schedules, or at one, a few at a time."""
    page = app.runs.missing(*span, schedule=schedule)  # type: ignore[arg-type] # an id or None
    found, cut = [*page.items], [*page.cut]
    while page.after is not None:
        page = app.runs.missing(*span, after=page.after)
        found += page.items
        cut += page.cut
    return found, cut


def _print(found: list[MissingRun], start: datetime) -> None:
    if not found:
        print_line(f"Nothing is missing since {utc_text(start)}.")
        return
    rows = [
        (one.label, utc_text(one.scheduled_for), one.verdict, one.cause or "-", one.says)
        for one in found
    ]
    print_table(("expected", "UTC", "verdict", "cause", "what is known"), rows)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class RunFilterOptions:
    """Which runs; those that fit all that is said."""

    schedule: str | None = None
    """Only those of this schedule, by its name or id."""
    key: str | None = None
    """Only those with this key."""
    task: str | None = None
    """Only those of this task."""
    queue: str | None = None
    """Only those in this queue."""
    cause: str | None = None
    """Only those with this reason code, such as budget, timeout or lost."""
    error: str | None = None
    """Only those whose last error holds this text; upper and lower case differ."""
    origin: str | None = None
    """Only those that came about so: schedule, delay, now, manual, rerun, repair and the like."""
    lane: str | None = None
    """Only those of this lane: live, catch-up or backfill."""
    root: str | None = None
    """Only this run and those that repeat it, by its id."""
    worker: int | None = None
    """Only those that this worker holds or has closed, by its number."""
    since: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Only those scheduled for this moment or later: an ISO time, today, -2h."""
    until: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """Only those scheduled before this moment."""

    @property
    def is_given(self) -> bool:
        """Whether anything is said."""
        return any(getattr(self, one.name) is not None for one in fields(self))

    def located(self, *, as_json: bool) -> RunFilterOptions:
        """Return the same with instants in place of wall times, which are this machine's."""
        texts = {"since": self.since, "until": self.until}
        instants: dict[str, Any] = {
            field: read_local_moment(text, field, as_json=as_json).isoformat()
            for field, text in texts.items()
            if text is not None
        }
        return replace(self, **instants)

    def terms(self, app: App) -> dict[str, Any]:
        """Return what a list of runs is narrowed by; `located` must come first."""
        schedule = None
        if self.schedule is not None:
            schedule = find_schedule(app, self.schedule, by_beginning=True).id
        return {
            "schedule": schedule,
            "key": self.key,
            "task": self.task,
            "queue": self.queue,
            "reason": self.cause,
            "error": self.error,
            "origin": self.origin,
            "lane": self.lane,
            "root": self.root,
            "worker": self.worker,
            "since": self.since,
            "until": self.until,
        }


def select_runs(
    app: App, options: RunFilterOptions, states: Sequence[str], limit: int
) -> list[Run]:
    """Return the runs that fit, newest first; of every state if none is named."""
    return app.runs.list(state=list(states) or None, limit=limit, **options.terms(app))


def page_of_runs(
    app: App, options: RunFilterOptions, states: Sequence[str], page: tuple[int, str | None]
) -> Page[Run]:
    """Return a page of them: so many at the most, from a cursor on."""
    limit, cursor = page
    terms = options.terms(app)
    return app.runs.page(state=list(states) or None, limit=limit, cursor=cursor, **terms)


LOOKED_AT_MAX = 1_000
"""So many runs are looked at: of each that was open, its attempts."""
OF_NOW = ("cause", "error", "worker", "until")
"""What says how a run is now, and nothing about then."""
_MICROSECOND = timedelta(microseconds=1)


class PastRun(NamedTuple):
    """A run, and the state in which it was."""

    run: Run
    state: str

    def to_json(self, at: datetime) -> dict[str, Any]:
        """Return what is true of then."""
        run = self.run
        return {
            "as_of": iso_utc(at),
            "id": str(run.id),
            "label": run.label,
            "state": self.state,
            "task": run.task,
            "queue": run.queue,
            "origin": run.origin,
            "scheduled_for": iso_utc(run.scheduled_for),
            "due_at": iso_utc(run.due_at),
        }


def find_runs_then(
    app: App, options: RunFilterOptions, wanted: tuple[int, Sequence[str]], at: datetime
) -> tuple[list[PastRun], bool]:
    """Return so many runs that there were, newest first, and whether that is all there may be."""
    number, states = wanted
    for name in OF_NOW:
        if getattr(options, name) is not None:
            problem = "says how runs are now" if name != "until" else "contradicts --as-of"
            raise UsageError(name, getattr(options, name), problem, "leave it out with --as-of")
    found: list[PastRun] = []
    cursor, looked_at = None, 0
    while len(found) < number and looked_at < LOOKED_AT_MAX:
        # None was made before its time, so that later ones were not there.
        terms = options.terms(app) | {"until": at + _MICROSECOND}
        page = app.runs.page(limit=number, cursor=cursor, **terms)
        looked_at += max(1, len(page.items))
        for run in page.items:
            is_over = run.finished_at is not None and run.finished_at <= at
            attempts = [] if is_over else app.runs.attempts(run.id)
            state = run_state_as_of(run, attempts, at)
            if state is not None and (not states or state in states):
                found.append(PastRun(run, state))
        cursor = page.next_cursor
        if cursor is None:
            break
    return found[:number], cursor is None or len(found) >= number


def print_runs_then(
    found: Sequence[PastRun], at: datetime, target: Target, *, is_all: bool
) -> None:
    """Print them, and what can't be known."""
    if not is_all:
        print_aside(
            "note", f"{LOOKED_AT_MAX:,} runs were looked at: narrow it", as_json=target.json
        )
    if target.json:
        print_json([one.to_json(at) for one in found])
        return
    print_line(f"As of {utc_text(at)}; runs whose record was removed since are not told.")
    if found:
        headings = ("id", "state then", "run", "queue", "due (UTC)")
        print_table(headings, [_row_as_of(one) for one in found])
    else:
        print_line("No run found.")


def _row_as_of(one: PastRun) -> tuple[str, ...]:
    run = one.run
    return str(run.id), one.state, run.label, run.queue, utc_text(run.due_at)


WHICH = RunFilterOptions()
NUMBER_DEFAULT = 20
FIRST = "first"
"""The cursor of a first page."""


def list_runs(  # noqa: PLR0913 - each group of options is an argument
    *,
    which: RunFilterOptions = WHICH,
    state: tuple[str, ...] = (),
    reason: str | None = None,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = NUMBER_DEFAULT,
    cursor: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    as_of: AsOf = None,
    target: Target = TARGET,
) -> None:
    """List runs, newest first.

    With --as-of a run that was open and that nobody ran is told as waiting: where, is not kept.

    Parameters
    ----------
    state
        Only those in this state, such as running or dead; may be given several times.
    reason
        The same as --cause.
    number
        How many to show at the most.
    cursor
        One page of a longer list: first, or what the page before says comes next. A page may have
        fewer than asked, and even none, while there is more: each is found at a bounded price.
    """
    if reason is not None and which.cause not in (None, reason):
        raise UsageError("reason", reason, "contradicts --cause", "give one of the two")
    options = which if reason is None else replace(which, cause=reason)
    options = options.located(as_json=target.json)
    if as_of is not None and cursor is not None:
        raise UsageError("cursor", cursor, "contradicts --as-of", "give --limit instead")
    with open_app(target, makes_store=False) as app:
        if as_of is not None:
            at = read_as_of(app, as_of, as_json=target.json)
            then, is_all = find_runs_then(app, options, (number, state), at)
            print_runs_then(then, at, target, is_all=is_all)
            return
        if cursor is not None:
            position = None if cursor == FIRST else cursor
            page = page_of_runs(app, options, state, (number, position))
            _print_page(page, app.status().now, target)
            return
        found = select_runs(app, options, state, number)
        if target.json:
            print_json([one.to_json() for one in found])
            return
        if not found:
            print_line(
                "No run found. What is not yet due is in duly schedule list and duly delayed list."
            )
            print_elsewhere(app, state)
            return
        print_runs(found, app.status().now)


def _print_page(page: Page[Run], now: datetime, target: Target) -> None:
    if target.json:
        print_json(page.to_json())
        return
    if page.items:
        print_runs(page.items, now)
    if page.next_cursor is None:
        print_line("No more.")
    else:
        print_line(f"Go on with the same options and --cursor {page.next_cursor}")


def show(run: str, /, *, target: Target = TARGET) -> None:
    """Show all about a run: where it came from, when each step was, and each attempt.

    Parameters
    ----------
    run
        Its id, the beginning of it, its key, or its label, as in nightly-report@2026-04-03T02:00Z.
    """
    with open_app(target, makes_store=False) as app:
        found = find_run(app, run)
        if target.json:
            print_json(story_json(app, found))
        else:
            print_story(app, found)


def print_runs(runs: list[Run], now: datetime) -> None:
    """Print a table of runs; the id comes first, so that a narrow terminal does not cut it."""
    headings = ("id", "state", "run", "attempt", "after due", "took", "queue", "due (UTC)")
    print_table(headings, [_row(one, now) for one in runs])


def _row(run: Run, now: datetime) -> tuple[str, ...]:
    return (
        str(run.id),
        state_text(run),
        run.label,
        str(run.attempt or "-"),
        lateness_text(run.lateness),
        _took(run, now),
        run.queue,
        utc_text(run.due_at),
    )


def _took(run: Run, now: datetime) -> str:
    """Say how long the attempt that holds or finished it took, or has taken so far."""
    if run.started_at is None:
        return "-"
    if run.finished_at is None and run.state != "running":
        return "-"
    return lateness_text((run.finished_at or now) - run.started_at)


def why(run: RunName, /, *, target: Target = TARGET) -> None:
    """Say in a sentence why a run is late, stuck, waiting or dead, and what that rests on."""
    with open_app(target, makes_store=False) as app:
        found = app.runs.why(find_promise(app, run))
    if target.json:
        print_json(found.to_json())
        return
    print_line((found.sentence, "bold"))
    print_facts([(name, fact) for name, fact in found.evidence])
    if found.remedy is not None:
        print_line(("remedy: ", "dim"), found.remedy)
