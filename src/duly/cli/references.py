"""Which schedule, run or instant is meant; hints at other tenants."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from difflib import get_close_matches
from shlex import quote
from typing import Annotated
from uuid import UUID

from cyclopts import Parameter

from duly.app import App
from duly.cli.confirm import counted, undo_command
from duly.cli.output import print_line
from duly.cli.times import read_local_moment, read_moment
from duly.client.run_view import DelayedRun, Run
from duly.client.schedule_view import Schedule
from duly.clock import SystemClock
from duly.errors import NotFound, UsageError
from duly.timetable.instants import utc_text

RunName = Annotated[str, Parameter(help="Its id, the beginning of it, its label or its key.")]
"""A run as a command is given it."""
BEGINNING_MIN = 6
"""Shorter beginnings of ids are more often typing errors than meant."""
RUNS_SEARCHED_MAX = 10_000
_SHOWN_MAX = 3
_RUNS_LISTED = "see duly run list; what is not yet due is in duly delayed list"
_HEXADECIMAL = re.compile(r"[0-9a-f-]+", re.IGNORECASE)


def find_schedule(app: App, text: str, *, by_beginning: bool = False) -> Schedule:
    """Return the schedule of a name, an id, or the beginning of an id.

    With `by_beginning` the beginning of a name will do: for looking, not for changing anything.
    """
    with suppress(NotFound):
        return app.schedules.get(text)
    found: list[Schedule] = []
    if _is_beginning(text):
        everything = app.schedules.list(include_deleted=True)
        found = [one for one in everything if _begins(one.id, text)]
    if not found and by_beginning and text:
        found = app.schedules.list(name_prefix=text, include_deleted=True)
    if len(found) == 1:
        # Of itself a schedule tells more than of many: how its newest runs ended.
        return app.schedules.get(found[0].id)
    if found:
        raise _ambiguous("schedule", text, [one.name for one in found])
    raise NotFound("schedule", text, _suggestion(app, text))


def find_run(app: App, text: str) -> Run:
    """Return the run of an id or a label, of the beginning of an id, or the newest of a key."""
    with suppress(NotFound):
        return _identified_run(app, text)
    if by_key := app.runs.list(key=text, limit=1):
        return by_key[0]
    if _is_short(text):
        newest = app.runs.list(limit=RUNS_SEARCHED_MAX)
        _refuse_short("run", text, [one.id for one in newest if _begins(one.id, text)])
    raise NotFound("run", text, _where_runs_are(app, text))


def find_promise(app: App, text: str) -> UUID:
    """Return the id of a run, or of a delayed run that is still pending, by key too."""
    with suppress(NotFound):
        return _identified_run(app, text).id
    with suppress(NotFound):
        return find_delayed(app, text).id
    return find_run(app, text).id


def _identified_run(app: App, text: str) -> Run:
    """Return the run of an id, a label, or the beginning of an id among the newest."""
    with suppress(NotFound):
        return app.runs.get(text)
    if _is_beginning(text):
        newest = app.runs.list(limit=RUNS_SEARCHED_MAX)
        found = [one for one in newest if _begins(one.id, text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _ambiguous("run", text, [str(one.id) for one in found])
    raise NotFound("run", text, _RUNS_LISTED)


def find_delayed(app: App, text: str) -> DelayedRun:
    """Return the pending delayed run of a key, an id, or the beginning of an id."""
    with suppress(NotFound):
        return app.delayed.get(text)
    with suppress(NotFound, ValueError):
        return app.delayed.get(UUID(text))
    if _is_beginning(text):
        found = [one for one in app.delayed.list() if _begins(one.id, text)]
        if len(found) == 1:
            return found[0]
        if found:
            raise _ambiguous("delayed run", text, [str(one.id) for one in found])
    if _is_short(text):
        pending = app.delayed.list()
        _refuse_short("delayed run", text, [one.id for one in pending if _begins(one.id, text)])
    remedy = "see duly delayed list; what has fired is in duly run list"
    raise NotFound("delayed run", text, remedy)


def _where_runs_are(app: App, text: str) -> str:
    """Say where to look, also to who gave the name of a schedule or of a task."""
    with suppress(NotFound, UsageError):
        name = app.schedules.get(text).name
        return (
            f"it is a schedule, whose runs are in {undo_command('run', 'list', '--schedule', name)}"
        )
    if app.runs.list(task=text, limit=1):
        return f"it is a task, whose runs are in {undo_command('run', 'list', '--task', text)}"
    return _RUNS_LISTED


def _is_beginning(text: str) -> bool:
    return len(text) >= BEGINNING_MIN and bool(_HEXADECIMAL.fullmatch(text))


def _is_short(text: str) -> bool:
    return len(text) < BEGINNING_MIN and bool(_HEXADECIMAL.fullmatch(text))


def _begins(identity: UUID, text: str) -> bool:
    return identity.hex.startswith(text.replace("-", "").lower())


def _refuse_short(what: str, text: str, found: Sequence[UUID]) -> None:
    """Refuse a beginning that is too short to be relied on; say what it may have meant."""
    if len(found) > 1:
        raise _ambiguous(what, text, [str(one) for one in found])
    if found:
        remedy = f"give {BEGINNING_MIN} characters of an id or more; did you mean {found[0]}?"
        raise NotFound(what, text, remedy)


def _ambiguous(what: str, text: str, names: Sequence[str]) -> UsageError:
    shown = ", ".join(names[:_SHOWN_MAX]) + (", …" if len(names) > _SHOWN_MAX else "")
    return UsageError(what, text, f"is ambiguous: it begins {shown}", "give more of it")


def _suggestion(app: App, text: str) -> str:
    names = [one.name for one in app.schedules.list(include_deleted=True)]
    close = get_close_matches(text, names, n=_SHOWN_MAX, cutoff=0.6)
    if close:
        return f"did you mean {' or '.join(close)}?"
    return "see duly schedule list"


AsOf = Annotated[
    str | None,
    Parameter(
        name="--as-of",
        allow_leading_hyphen=True,
        help="Show what was so then: an ISO time, today, -2h.",
    ),
]


def read_as_of(app: App, text: str, tz: str | None = None, *, as_json: bool = False) -> datetime:
    """Read the instant, in a zone or in this machine's; what is to come is not known."""
    if tz is None:
        at = read_local_moment(text, "as-of", as_json=as_json)
    else:
        at = read_moment(text, tz, SystemClock(), "as-of")
    now = app.status().now
    if at > now:
        problem, remedy = "lies in the future", f"give an instant before {utc_text(now)}"
        raise UsageError("as-of", text, problem, remedy)
    return at


SHOWN_MAX = 5


def print_elsewhere(app: App, states: tuple[str, ...] = ()) -> None:
    """Say how many open runs other tenants have, in these states or in any, if that can be seen."""
    status = app.status()
    if status.tenant is not None:
        print_line(f"This is about tenant {status.tenant}: others can't be seen from here.")
    counts = {
        tenant: sum(count for state, count in found.items() if not states or state in states)
        for tenant, found in status.tenants.items()
        if tenant != app.tenant
    }
    others = [(tenant, count) for tenant, count in counts.items() if count]
    for tenant, count in others[:SHOWN_MAX]:
        print_line(f"{counted(count, 'open run')} in tenant {tenant}: --tenant {quote(tenant)}")
    if len(others) > SHOWN_MAX:
        print_line(f"and some in {len(others) - SHOWN_MAX:,} more tenants: duly status --json")
