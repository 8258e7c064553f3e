"""`duly run list`, `duly run show`: which runs there are, and all about one."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.cli.as_of import AsOf, read_as_of
from duly.cli.elsewhere import print_elsewhere
from duly.cli.output import print_json, print_line, print_table
from duly.cli.references import find_run
from duly.cli.run.as_of import find_runs_then, print_runs_then
from duly.cli.run.selection import RunOptions, page_of_runs, select_runs
from duly.cli.run.story import print_story, state_text, story_json
from duly.cli.target import Target, opened
from duly.cli.times import lateness_text
from duly.client.paging import Page
from duly.client.run_view import Run
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

TARGET = Target()
WHICH = RunOptions()
NUMBER_DEFAULT = 20
FIRST = "first"
"""The cursor of a first page."""


def list_runs(  # noqa: PLR0913 - each group of options is an argument
    *,
    which: RunOptions = WHICH,
    state: tuple[str, ...] = (),
    reason: str | None = None,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
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
    if as_of is not None and cursor is not None:
        raise UsageError("cursor", cursor, "contradicts --as-of", "give --number instead")
    with opened(target, makes_store=False) as app:
        if as_of is not None:
            at = read_as_of(app, as_of)
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
    with opened(target, makes_store=False) as app:
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
