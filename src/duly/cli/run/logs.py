"""`duly run logs`: what a run's attempts have written, as it is written if that is wanted."""

from __future__ import annotations

import sys
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from duly.app import App
from duly.cli.output import json_line, neutral, print_line
from duly.cli.references import RunName, find_run
from duly.cli.target import Target, opened
from duly.cli.times import exact_text
from duly.cli.waiting import Patience
from duly.client.attempt_view import Line

TARGET = Target()
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
    with opened(target, makes_store=False) as app:
        found = find_run(app, run)
        last = _print_from(app, found.id, 0, as_json=target.json)
        if follow:
            _follow(app, found.id, last, as_json=target.json)
        elif not last and not target.json:
            print_line("Its attempts have written nothing.")


def _follow(app: App, run: UUID, last: int, *, as_json: bool) -> None:
    patience = Patience(None)
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
