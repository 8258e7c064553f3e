"""Commands about runs to come: enqueue, move, cancel, delayed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from cyclopts import App, Parameter

from duly.app import App as Application
from duly.cli.confirm import UNSAID, print_undo, undo_command
from duly.cli.context import ArgumentOptions, Target, note_unchecked, open_app, read_call
from duly.cli.output import (
    PollTimer,
    print_empty_or_json,
    print_json,
    print_json_line,
    print_line,
    print_table,
)
from duly.cli.references import find_delayed
from duly.cli.run_wait import await_runs
from duly.cli.times import (
    local_moment,
    machine_zone,
    note_local_moment,
    read_moment,
    relative_text,
    zoned_text,
)
from duly.client.run_view import EnqueuedRun
from duly.clock import SystemClock
from duly.errors import UsageError
from duly.timetable.instants import utc_text
from duly.timetable.zones import default_zones

ARGUMENTS = ArgumentOptions()
TARGET = Target()


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class WhenOptions:
    """When a run is wanted."""

    in_: Annotated[str | None, Parameter(name="--in")] = None
    """After this long, by the store's clock: 10m, 24h."""
    at: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None
    """At this moment: an ISO time (in --tz if it has no offset), tomorrow, +10m."""
    tz: str | None = None
    """The zone that --at is meant in, and that times are shown in; this machine's unless given."""
    past: bool = False
    """Run at once what lies in the past, instead of refusing it."""

    @property
    def zone(self) -> str:
        """The zone that times are shown in: UTC, where this machine's has no name."""
        if self.tz is not None:
            return self.tz
        with suppress(UsageError):
            return machine_zone()
        return "UTC"

    def terms(self) -> dict[str, Any]:
        """Return what an order takes."""
        if self.tz is not None:
            default_zones().zone(self.tz)
        if self.in_ is not None and self.at is not None:
            raise UsageError("--in", self.in_, "contradicts --at", "give one of the two")
        moment = None
        if self.at is not None and self.tz is not None:
            moment = read_moment(self.at, self.tz, SystemClock(), "--at")
        elif self.at is not None:
            moment = local_moment(self.at, "--at")
        return {"at": moment, "delay": self.in_, "past": "run" if self.past else None}

    def note_zone(self, moment: datetime | None, *, as_json: bool) -> None:
        """Say in which zone --at was meant, if that was left to this machine."""
        if self.at is not None and moment is not None and self.tz is None:
            note_local_moment(self.at, moment, "--at", as_json=as_json)


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """By which key a run can be found again, and where it waits."""

    key: str | None = None
    """A business key: by it the run can be moved or cancelled while it is pending."""
    replace: bool = False
    """Replace a pending run that has the same key."""
    queue: str | None = None
    """The queue that it waits in."""
    priority: int | None = None
    """0 goes first, 9 last."""


WHEN, ORDER = WhenOptions(), OrderOptions()


def enqueue(  # noqa: PLR0913 - each group of options is an argument
    task: str,
    /,
    *,
    when: WhenOptions = WHEN,
    arguments: ArgumentOptions = ARGUMENTS,
    order: OrderOptions = ORDER,
    wait: bool = False,
    timeout: str | None = None,
    target: Target = TARGET,
) -> int:
    """Promise a run of a task: at once, after a while, or at a moment.

    Parameters
    ----------
    task
        The task to run: one of --app, or one that a program has made known to the store.
    wait
        Wait until the run is over; the exit code says how it ended, as of duly run wait.
    timeout
        With --wait: how long at the most.
    """
    terms = when.terms()
    if timeout is not None and not wait:
        raise UsageError("--timeout", timeout, "has nothing to wait for", "give --wait too")
    patience = PollTimer(timeout)
    with open_app(target) as app:
        call = read_call(app, task, arguments)
        with _named_as_options():
            run = app.enqueue(
                call,
                key=order.key,
                replace=order.replace,
                queue=order.queue,
                priority=order.priority,
                **terms,
            )
        _tell(app, run, (task, when.zone), target, is_stream=wait)
        when.note_zone(terms["at"], as_json=target.json)
        return await_runs(app, [run.id], patience, as_json=target.json) if wait else 0


def _tell(  # noqa: PLR0913 - what was ordered, and how it is told
    app: Application, run: EnqueuedRun, asked: tuple[str, str], target: Target, *, is_stream: bool
) -> None:
    """Tell what was promised, and how to take it back."""
    task, tz = asked
    now = app.status().now
    is_pending = run.due_at > now
    words = ("cancel", run.key or str(run.id)) if is_pending else ("run", "cancel", str(run.id))
    taking_back = undo_command(*words, "--reason", UNSAID)
    if target.json:
        told = {**run.to_json(), "undo": taking_back}
        if is_stream:
            print_json_line(told)
        else:
            print_json(told)
        return
    if not run.is_new:
        print_line(f"This was promised before, as {run.id}. Nothing was added.")
    elif is_pending:
        print_line(f"Promised {task}, due {_when(run.due_at, tz, now)}. Id: {run.id}")
    else:
        print_line(f"Queued {task}. Id: {run.id}")
    print_undo(taking_back)
    note_unchecked(app, task)


def move(
    key: str,
    /,
    *,
    when: WhenOptions = WHEN,
    reason: str | None = None,
    target: Target = TARGET,
) -> None:
    """Move a delayed run that is still pending to another moment.

    Parameters
    ----------
    key
        Its key or its id.
    reason
        Why; it is recorded.
    """
    terms = when.terms()
    if when.in_ is None and when.at is None:
        raise UsageError(
            "--at", key, "is to be moved, but not where to", "give --at tomorrow, or --in 2h"
        )
    with open_app(target, makes_store=False) as app:
        before = find_delayed(app, key)
        with _named_as_options():
            moved = app.move(before.id, reason=reason, **terms)
        when.note_zone(terms["at"], as_json=target.json)
        old = before.due_at.isoformat()
        taking_back = undo_command("move", key, "--at", old)
        if target.json:
            print_json({**moved.to_json(), "undo": taking_back})
            return
        now = app.status().now
        print_line(
            f"Moved {key} from {zoned_text(before.due_at, when.zone)}"
            f" to {_when(moved.due_at, when.zone, now)}."
        )
        print_undo(taking_back)


def cancel(key: str, /, *, reason: str, target: Target = TARGET) -> None:
    """Cancel a delayed run that is still pending; what is left is its record.

    Parameters
    ----------
    key
        Its key or its id.
    reason
        Why; it is recorded.
    """
    with open_app(target, makes_store=False) as app:
        before = find_delayed(app, key)
        run = app.cancel(before.id, reason=reason)
        words = ["enqueue", run.task, "--at", before.due_at.isoformat()]
        words += ["--key", before.key] if before.key else []
        words += ["--arguments", _json(run.arguments)] if run.arguments else []
        taking_back = undo_command(*words)
        if target.json:
            print_json({**run.to_json(), "undo": taking_back})
            return
        print_line(f"Cancelled {key}, which was due {zoned_text(before.due_at, 'UTC')}.")
        print_undo(taking_back)


@contextmanager
def _named_as_options() -> Iterator[None]:
    """Name what is wrong as it was typed: a program's order has other words for it."""
    try:
        yield
    except UsageError as error:
        option = {"at": "--at", "delay": "--in"}.get(error.field)
        if option is None:
            raise
        raise UsageError(option, error.value, error.problem, error.remedy) from error


def _when(instant: datetime, tz: str, now: datetime) -> str:
    return f"{zoned_text(instant, tz)}, {relative_text(now, instant)}"


def _json(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False)


NUMBER_DEFAULT = 50

delayed_app = App(name="delayed", help="Look at delayed runs that are pending.")


@delayed_app.command(name="list")
def list_delayed(
    *,
    number: Annotated[int, Parameter(name=["--limit", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """List delayed runs that are pending, in the order in which they fall due.

    Parameters
    ----------
    number
        How many to show at the most.
    """
    with open_app(target, makes_store=False) as application:
        found = application.delayed.list(limit=number)
        if print_empty_or_json(found, "No delayed run is pending.", as_json=target.json):
            return
        now = application.status().now
        rows = [
            (
                one.key or "-",
                one.task,
                utc_text(one.due_at),
                relative_text(now, one.due_at),
                one.queue,
                str(one.moves),
                str(one.id),
            )
            for one in found
        ]
        print_table(("key", "task", "due (UTC)", "distance", "queue", "moves", "id"), rows)
