"""`duly run wait`: waits until runs are over, and says by its exit code how they ended."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from uuid import UUID

from duly.app import App
from duly.cli.context import Target, open_app
from duly.cli.output import (
    TIMED_OUT,
    PollTimer,
    Ticker,
    print_aside,
    print_block,
    print_json_line,
    print_line,
    ticker,
)
from duly.cli.references import find_promise
from duly.cli.run_details import progress_text, state_text
from duly.cli.times import lateness_text
from duly.client.run_view import Run
from duly.client.status import living
from duly.errors import NotFound

TARGET = Target()
SUCCEEDED, FAILED, AMBIGUOUS = 0, 1, 6


def wait(*runs: str, timeout: str | None = None, target: Target = TARGET) -> int:
    """Wait until runs are over, and tell each; with --json, one document on each line.

    The exit code is 0 when all have succeeded, 1 when one has not, 6 when what became of one is
    unknown, and 124 when the time is up.

    Parameters
    ----------
    runs
        Their ids, beginnings of ids, labels, or keys of delayed runs.
    timeout
        How long to wait at the most: 30s, 10m. Without it, for ever.
    """
    with open_app(target, makes_store=False) as app:
        wanted = [find_promise(app, one) for one in runs]
        return await_runs(app, wanted, PollTimer(timeout), as_json=target.json)


def await_runs(app: App, wanted: Sequence[UUID], patience: PollTimer, *, as_json: bool) -> int:
    """Wait for runs, tell each as it ends, and return the worst that happened as an exit code."""
    open_runs = list(dict.fromkeys(wanted))
    looked: dict[UUID, Run | None] = {}
    worst = SUCCEEDED
    is_first = True
    with ticker() as told:
        while open_runs:
            looked = {one: _look(app, one) for one in open_runs}
            for run in looked.values():
                if run is not None and _is_over(run):
                    told.wipe()
                    _print_end(run, as_json=as_json)
                    worst = _worse(worst, _code(run))
            open_runs = [one for one, run in looked.items() if run is None or not _is_over(run)]
            if open_runs and is_first:
                _note_missing(app, [looked[one] for one in open_runs], as_json=as_json)
            is_first = False
            _tell(told, [looked[one] for one in open_runs])
            if open_runs and not patience.wait():
                break
    for one in open_runs:
        _print_open(one, looked[one], as_json=as_json)
        worst = worst or TIMED_OUT
    return worst


def _note_missing(app: App, runs: Sequence[Run | None], *, as_json: bool) -> None:
    """Say at once if nobody is there who could bring an end to the waiting."""
    found = app.status()
    is_timed = any(run is None or run.state == "retrying" for run in runs)
    missing = [
        f"no {kind} is alive: start duly {kind}"
        for kind, is_needed in (("dispatcher", is_timed), ("worker", True))
        if is_needed and not living(found, kind)
    ]
    if missing:
        print_aside("note", f"waiting, but {', and '.join(missing)}", as_json=as_json)


def _look(app: App, run: UUID) -> Run | None:
    """Return a run; None while it is still a promise."""
    with suppress(NotFound):
        return app.runs.get(run)
    return None


def _is_over(run: Run) -> bool:
    return run.is_over or run.state == "ambiguous"


def _code(run: Run) -> int:
    if run.state == "succeeded":
        return SUCCEEDED
    return AMBIGUOUS if run.state == "ambiguous" else FAILED


def _worse(one: int, other: int) -> int:
    """Return the worse of two codes: a failure is certain, and says more than the unknown."""
    return FAILED if FAILED in (one, other) else max(one, other)


def _print_end(run: Run, *, as_json: bool) -> None:
    if as_json:
        print_json_line(run.to_json())
        return
    took = ""
    if run.started_at is not None and run.finished_at is not None:
        took = f" in {lateness_text(run.finished_at - run.started_at)}"
    style = "green" if run.state == "succeeded" else "bold red"
    print_line(f"{run.label} ", (state_text(run), style), f"{took}. Id: {run.id}")
    if run.state == "ambiguous":
        print_line(f"Nobody knows what it did, and it is not tried again: duly inbox {run.id}")
    elif run.state != "succeeded":
        print_line(f"Ask why: duly run why {run.id}")
    if run.result is not None:
        print_line(("result", "dim"))
        print_block(json.dumps(run.result, ensure_ascii=False, indent=2))


def _print_open(identity: UUID, run: Run | None, *, as_json: bool) -> None:
    if as_json:
        state = "pending" if run is None else run.state
        known = {"id": str(identity), "state": state} if run is None else run.to_json()
        print_json_line({**known, "is_over": False})
        return
    name = str(identity) if run is None else run.label
    state = "pending" if run is None else run.state
    print_line(f"{name} is still {state}. Ask why: duly run why {identity}")


def _tell(told: Ticker, runs: Sequence[Run | None]) -> None:
    if not runs:
        return
    first = next((one for one in runs if one is not None), None)
    if first is None:
        told.tell(f"{len(runs)} not due yet")
        return
    progress = "" if first.last_progress is None else f", {progress_text(first.last_progress)}"
    more = "" if len(runs) == 1 else f", and {len(runs) - 1:,} more"
    told.tell(f"{first.label} is {first.state}{progress}{more}")
