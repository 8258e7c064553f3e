"""One schedule: occurrences, days, policies, history, and why it runs when it does (UX 16-20)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from duly import Misfire, UsageError, clock_changes
from duly.api.views import PRESETS, restorable_for, zone_of
from duly_web.changes import Entry, history_entry
from duly_web.commands import command_text
from duly_web.heat import RUNS_LOOKED_AT, Calendar, run_calendar
from duly_web.instants import read_local
from duly_web.ledger import Ledger, Ledgered, read_ledger
from duly_web.moments import Clocks, span
from duly_web.page import Asked, Page, Shown
from duly_web.pages.schedule_orders import OPEN_STATES
from duly_web.pages.schedules import ScheduleRow, schedule_rows

if TYPE_CHECKING:
    from duly import Schedule, Timetable

HISTORY_SHOWN = 20
LOOKED_AHEAD = timedelta(days=400)
CHANGES_SHOWN = 3


class ScheduleQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of the ledger."""

    until: str | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy in force."""

    label: str
    value: str
    is_default: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleModel:
    """The page."""

    row: ScheduleRow
    arguments: str
    owner: str | None
    declared_by: str | None
    fires: int
    open_runs: int
    looked_at: int | None
    """Of so many of the newest runs; None if these are all there are."""
    ledger: Ledger
    calendar: Calendar
    policies: tuple[Policy, ...]
    history: tuple[Entry, ...]
    why: tuple[str, ...]
    clock_notes: tuple[str, ...]
    coming: tuple[tuple[datetime, str | None], ...]
    updated_at: datetime
    updated_by: str
    restorable_until: datetime | None
    command: str
    query: ScheduleQuery


def show_schedule(asked: Asked) -> Shown:
    """Show one schedule."""
    app, query = asked.app, asked.query
    schedule = app.schedules.get(asked.path["schedule"])
    zone = zone_of(schedule.timetable)
    until = None if query.until is None else _until(asked, query.until)
    runs = app.runs.list(schedule=schedule.id, limit=RUNS_LOOKED_AT)
    deleted = schedule.status == "deleted"
    kept = restorable_for(app)
    model = ScheduleModel(
        row=schedule_rows(asked, [schedule])[0],
        arguments=json.dumps(schedule.arguments, indent=2, ensure_ascii=False),
        owner=schedule.owner,
        declared_by=schedule.declared_by,
        fires=schedule.fires,
        open_runs=sum(one.state in OPEN_STATES for one in runs),
        looked_at=len(runs) if len(runs) >= RUNS_LOOKED_AT else None,
        ledger=read_ledger(Ledgered(app, schedule, runs), asked.now, until),
        calendar=run_calendar(runs, zone or asked.clocks.mine or "UTC", asked.now),
        policies=effective_policies(schedule),
        history=tuple(map(history_entry, app.schedules.history(schedule.id, limit=HISTORY_SHOWN))),
        why=explain_next(schedule, asked.now),
        clock_notes=_clock_notes(schedule.timetable, asked.now),
        coming=tuple(
            (one.utc, None if one.change is None else one.change.text)
            for one in schedule.upcoming(5)
        ),
        updated_at=schedule.updated_at,
        updated_by=schedule.updated_by,
        restorable_until=schedule.updated_at + kept if deleted and kept else None,
        command=command_text(asked.app.tenant, "schedule", "show", schedule.name),
        query=query,
    )
    return Shown(template="schedule.html", model=model, title=schedule.name)


def _until(asked: Asked, text: str) -> datetime:
    found = read_local("until", text, asked.clocks.mine)
    if isinstance(found, str):
        try:
            found = datetime.fromisoformat(found)
        except ValueError as error:
            remedy = "give an instant such as 2026-04-03T09:00Z"
            raise UsageError("until", text, "is not an instant", remedy) from error
    if found.tzinfo is None:
        raise UsageError("until", text, "has no offset", "give one such as Z or +02:00")
    return found


def effective_policies(schedule: Schedule) -> tuple[Policy, ...]:
    """Return every policy in force, those that nobody chose as well (18)."""
    said, usual = schedule.misfire.to_json(), Misfire().to_json()
    stored = schedule.timetable.to_json()
    found = [
        Policy("Overlap", schedule.overlap, schedule.overlap == "skip"),
        Policy("Catch-up", str(said["policy"]), said["policy"] == usual["policy"]),
        Policy(
            "Catch-up, not older than",
            str(said["not_older"] or "however old"),
            said["not_older"] == usual["not_older"],
        ),
        Policy(
            "Catch-up, at most",
            str(said["at_most"] or "however many"),
            said["at_most"] == usual["at_most"],
        ),
        Policy("Still on time", str(said["grace"]), said["grace"] == usual["grace"]),
        Policy(
            "Spread over", span(schedule.jitter) if schedule.jitter else "0s", not schedule.jitter
        ),
        Policy("Time that does not exist", _inner(stored, "gap"), _inner(stored, "gap") == "next"),
        Policy("Time that comes twice", _inner(stored, "fold"), _inner(stored, "fold") == "first"),
        Policy("Queue", schedule.queue, schedule.queue == "default"),
        Policy("Priority", str(schedule.priority), schedule.priority == 4),
    ]
    if schedule.serialize_by:
        found.append(Policy("Serialized by", schedule.serialize_by, is_default=False))
    if schedule.preset:
        words = PRESETS[schedule.preset].words if schedule.preset in PRESETS else ""
        found.append(Policy("Kind of work", f"{schedule.preset}: {words}", is_default=False))
    return tuple(found)


def _inner(stored: dict[str, object], name: str) -> str:
    """Return a policy of the rule itself, within what limits it."""
    while isinstance(inner := stored.get("timetable"), dict):
        stored = inner
    return str(stored.get(name, "does not matter"))


def explain_next(schedule: Schedule, now: datetime) -> tuple[str, ...]:
    """Say why the next run is at that instant, in sentences that follow from each other (20)."""
    said = [f"The rule says: {schedule.timetable.describe()}."]
    zone = zone_of(schedule.timetable)
    if schedule.next_for is None:
        why = f" ({schedule.reason})" if schedule.reason else ""
        said.append(f"It is {schedule.status}{why}: nothing is pending.")
        if (after := schedule.next_after_pause) is not None:
            said.append(f"Next after the pause: {_told(after, now, zone)}.")
        return tuple(said)
    by_rule = schedule.timetable.next(now)
    said.append(
        f"Now is {_told(now, now, zone)}."
        f" Its next occurrence is {_told(schedule.next_for, now, zone)}."
    )
    if by_rule is not None and schedule.next_for > by_rule:
        said.append(f"The one at {_told(by_rule, now, zone)} was skipped by hand.")
    if schedule.next_due is not None and schedule.next_due != schedule.next_for:
        later = span(schedule.next_due - schedule.next_for)
        said.append(
            f"Its spread makes it due {later} later, always the same:"
            f" {_told(schedule.next_due, now, zone)}."
        )
    return tuple(said)


def _told(at: datetime, now: datetime, zone: str | None) -> str:
    shown = Clocks("schedule").moment(at, now, zone or "UTC")
    utc = Clocks("utc").moment(at, now)
    beside = "" if shown.zone == "UTC" else f" ({utc.clock} UTC)"
    return f"{shown.day} {shown.clock} {shown.zone}{beside}"


def _clock_notes(timetable: Timetable, now: datetime) -> tuple[str, ...]:
    found = clock_changes(timetable, now, now + LOOKED_AHEAD)
    return tuple(one.text for one in found[:CHANGES_SHOWN])


PAGES = (
    Page(
        method="GET",
        path="/schedules/{schedule}",
        name="schedule",
        scope="read",
        handler=show_schedule,
        query=ScheduleQuery,
    ),
)
