"""Pages of one schedule: occurrences, changes, orders.

`read_ledger` takes the expected occurrences from the client library, which also shows that none is
missing without a record. The runs show how far each occurrence has come.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import msgspec

from duly import (
    Conflict,
    DulyError,
    Misfire,
    NotFound,
    UsageError,
    clock_changes,
    timetable_from_json,
)
from duly.api.views import PRESETS, restorable_for, zone_of
from duly.web.charts import RUNS_LOOKED_AT, Calendar, run_calendar
from duly.web.formatting import TimeFormatter, read_coming, read_local, span
from duly.web.pages.schedules import ScheduleRow, schedule_rows
from duly.web.rendering import command_text, local_path
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from duly import App, Run, Schedule, Timetable
    from duly.api.views import HistoryEntry, Occurrence, VitalSigns


_LEFT_OUT = frozenset({"version", "generation", "next_due", "held_for", "reason", "resume_missed"})
"""Changes with every order, or is told in a column of its own."""
_WORDS = {
    "status": "Status", "name": "Name", "owner": "Owner", "next_for": "Next",
    "resume_at": "Resumes", "task": "Task", "arguments": "Arguments", "queue": "Queue",
    "priority": "Priority", "timetable": "Rule", "misfire": "Catch-up", "jitter": "Spread",
    "overlap": "Overlap", "serialize_by": "Serialized by", "preset": "Kind of work",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FieldChange:
    """One field before and after."""

    label: str
    before: str
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeEntry:
    """One order or decision."""

    number: int
    at: datetime
    actor: str
    source: str
    action: str
    reason: str | None
    changes: tuple[FieldChange, ...]
    is_revertible: bool
    """Whether it changed what the schedule says, so that this can be taken back."""


def history_entry(entry: HistoryEntry) -> ChangeEntry:
    """Show an entry of a schedule's history."""
    before, after = entry.before or {}, entry.after or {}
    is_edit = bool(before) and before.get("definition") != after.get("definition")
    return ChangeEntry(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        source=entry.source,
        action=entry.action.removeprefix("schedule."),
        reason=entry.reason,
        changes=field_changes(before, after) if before else (),
        is_revertible=is_edit and "definition" in before,
    )


def field_changes(before: dict[str, Any], after: dict[str, Any]) -> tuple[FieldChange, ...]:
    """Return each field that is not what it was."""
    old, new = _flat(before), _flat(after)
    return tuple(
        FieldChange(_WORDS.get(name, name), _text(name, old.get(name)), _text(name, new.get(name)))
        for name in dict.fromkeys((*old, *new))
        if old.get(name) != new.get(name) and name not in _LEFT_OUT
    )


def _flat(facts: dict[str, Any]) -> dict[str, Any]:
    definition = facts.get("definition") or {}
    return {**{key: value for key, value in facts.items() if key != "definition"}, **definition}


def _text(name: str, value: object) -> str:
    if value is None:
        return "–"  # noqa: RUF001 - typography
    if name == "timetable":
        return _rule_text(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _rule_text(stored: Any) -> str:  # noqa: ANN401 - JSON values
    try:
        rule = timetable_from_json(stored).describe()
    except DulyError:
        return json.dumps(stored, ensure_ascii=False)
    policies = [f"{key}={stored[key]}" for key in ("gap", "fold") if stored.get(key)]
    is_default = policies == ["gap=next", "fold=first"]
    return rule if is_default or not policies else f"{rule} ({', '.join(policies)})"


ROWS_BACK, ROWS_AHEAD = 30, 5
HALVINGS_MAX = 24
RUNS_MAX = 200
PENDING_STATES = frozenset({"expected", "due"})
SECOND = timedelta(seconds=1)
MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerRow:
    """One expected occurrence."""

    at: datetime
    label: str
    state: str
    """A state of `web/formatting.py`."""
    why: str | None
    run: str | None
    into: bool
    """Whether the run is another one, which stands for this one."""
    origin: str | None
    lateness: timedelta | None
    took: timedelta | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ledger:
    """A part of the occurrences, newest first."""

    rows: tuple[LedgerRow, ...]
    start: datetime
    end: datetime
    has_earlier: bool


@dataclass(frozen=True, slots=True)
class LedgerPage:
    """Whose ledger it is, and its newest runs, which are known already."""

    app: App
    schedule: Schedule
    newest: Sequence[Run]


def read_ledger(of: LedgerPage, now: datetime, until: datetime | None) -> Ledger:
    """Return a window of occurrences that ends at `until`, or a few after now."""
    app, schedule = of.app, of.schedule
    end = until or _steps(schedule, now, ROWS_AHEAD)
    start = _steps(schedule, min(end, now), -ROWS_BACK)
    found, start = _occurrences(app, schedule, start, end)
    states = _runs(of, start, end)
    verified = _verified(app, schedule, states)
    rows = tuple(ledger_row(one, states, verified, now) for one in reversed(found))
    if schedule.status == "paused":
        rows = _held(rows, of)
    # A backfill may have made runs of a time before there was a schedule.
    has_earlier = start > schedule.created_at or bool(
        app.runs.list(schedule=schedule.id, until=start, limit=1)
    )
    return Ledger(rows=rows, start=start, end=end, has_earlier=has_earlier)


def _held(rows: tuple[LedgerRow, ...], of: LedgerPage) -> tuple[LedgerRow, ...]:
    """Say of what falls into a pause that it is held: it does not run by itself."""
    owed = [one.last_for for one in of.app.schedules.owed(of.schedule.id)]
    end = of.schedule.resume_at

    def is_held(row: LedgerRow) -> bool:
        is_within = end is None or row.at < end
        return row.state in PENDING_STATES and is_within and all(row.at > one for one in owed)

    return tuple(replace(row, state="slot-held") if is_held(row) else row for row in rows)


def _steps(schedule: Schedule, at: datetime, steps: int) -> datetime:
    """Walk so many occurrences on or back, by the rule in force."""
    rule = schedule.timetable
    for _ in range(abs(steps)):
        try:
            found = rule.next(at) if steps > 0 else rule.previous(at)
        except UsageError:
            return at
        if found is None:
            break
        at = found
    return at + SECOND if steps > 0 else at


def _occurrences(
    app: App, schedule: Schedule, start: datetime, end: datetime
) -> tuple[list[Occurrence], datetime]:
    """Return the occurrences of a span; a rule that was denser before an edit shortens it."""
    start = min(start, end - SECOND)
    for _ in range(HALVINGS_MAX):
        try:
            found = app.schedules.occurrences(schedule.id, start, end)
        except UsageError:
            start += (end - start) / 2
            continue
        kept = found[-(ROWS_BACK + ROWS_AHEAD + 5) :]
        return kept, kept[0].scheduled_for if len(kept) < len(found) else start
    return [], start


def _runs(of: LedgerPage, start: datetime, end: datetime) -> dict[UUID, Run]:
    if of.newest and min(one.scheduled_for for one in of.newest) < start:
        found = [one for one in of.newest if start <= one.scheduled_for <= end]
    else:
        found = of.app.runs.list(
            schedule=of.schedule.id, since=start, until=end + MICROSECOND, limit=RUNS_MAX
        )
    return {one.id: one for one in found}


def _verified(app: App, schedule: Schedule, runs: dict[UUID, Run]) -> dict[UUID, str]:
    """Return the verdicts of those that succeeded, where their task is one that is checked."""
    task = app.tasks.find(schedule.task)
    if task is None or not task.policy.is_checked:
        return {}
    found = {}
    for run in list(runs.values())[: ROWS_BACK + ROWS_AHEAD]:
        if run.state == "succeeded":
            checks = app.inbox.checks(run.id)
            if checks:
                found[run.id] = str(checks[-1].verdict)
    return found


def ledger_row(
    one: Occurrence, runs: dict[UUID, Run], verified: dict[UUID, str], now: datetime
) -> LedgerRow:
    """Show one occurrence with the run that it became, or that stands for it."""
    run = None if one.run is None else runs.get(one.run)
    is_own = one.verdict == "run"
    took = None
    if is_own and run is not None and run.started_at and run.finished_at:
        took = run.finished_at - run.started_at
    return LedgerRow(
        at=one.scheduled_for,
        label=one.label,
        state=_state(one, run, verified, now),
        why=one.reason or (run.reason if is_own and run is not None else None),
        run=None if one.run is None else str(one.run),
        into=one.run is not None and not is_own,
        origin=run.origin if is_own and run is not None else None,
        lateness=run.lateness if is_own and run is not None else None,
        took=took,
    )


def _state(one: Occurrence, run: Run | None, verified: dict[UUID, str], now: datetime) -> str:
    """Name where an occurrence stands; what is not over is never told as failed."""
    match one.verdict:
        case "pending":
            return "expected" if one.scheduled_for > now else "due"
        case "skipped":
            return "coalesced" if one.reason == "coalesced" else "skipped"
        case "run" if run is not None:
            return _run_state(run, verified)
        case "run":
            return "materialised"
        case other:
            return other


def _run_state(run: Run, verified: dict[UUID, str]) -> str:
    if run.state in {"blocked", "queued"}:
        return "materialised" if run.fired_at is None else "dispatched"
    if run.state == "running" and run.started_at is None:
        return "claimed"
    if run.state == "succeeded":
        return verified.get(run.id, "succeeded")
    return "failed" if run.state == "dead" else run.state


OPEN_STATES = ("blocked", "queued", "running", "retrying")
STOPPED_MAX = 100
HISTORY_LOOKED_AT = 500


class ScheduleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a schedule says."""

    reason: str | None = None
    version: int | None = None
    """Which version was seen: somebody else may have been faster."""
    until: str | None = None
    missed: str = "skip"
    active: str = "drain"
    """What becomes of its open runs: `drain` lets them end, `stop` cancels them."""
    entry: int | None = None
    """Which change is taken back."""
    back: str = "/schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfirmPage:
    """What is asked before an order, where no dialog has asked it."""

    verb: str
    id: str
    name: str
    path: str
    version: int
    open_runs: int
    zone: str | None
    restorable_until: datetime | None
    back: str


def _ask(asked: PageRequest, verb: str) -> Rendered:
    """Ask for the reason first: without a script there is no dialog."""
    schedule = asked.app.schedules.get(asked.path["schedule"])
    open_ = asked.app.runs.list(schedule=schedule.id, state=OPEN_STATES, limit=STOPPED_MAX)
    kept = restorable_for(asked.app)
    model = ConfirmPage(
        verb=verb,
        id=str(schedule.id),
        name=schedule.name,
        path=f"/schedules/{schedule.id}/{verb.lower()}",
        version=schedule.version if asked.form.version is None else asked.form.version,
        open_runs=len(open_),
        zone=zone_of(schedule.timetable),
        restorable_until=None if kept is None else asked.now + kept,
        back=local_path(asked.form.back) or "/schedules",
    )
    return Rendered(template="schedule_ask.html", model=model, title=f"{verb} {schedule.name}")


def pause_schedule(asked: PageRequest) -> Rendered | Redirect:
    """Pause: new runs stop, and what runs keeps running unless told."""
    form: ScheduleOrder = asked.form
    if form.reason is None:
        return _ask(asked, "Pause")
    schedule = asked.app.schedules.get(asked.path["schedule"])
    # Meant on the viewer's clock where it is known; else as on the command line.
    zone = asked.clocks.mine or zone_of(schedule.timetable)
    until = read_coming("until", form.until, zone, asked.now)
    paused = asked.app.schedules.pause(
        schedule.id,
        reason=form.reason,
        until=until,
        missed=form.missed,
        version=form.version,
    )
    text = f"{paused.name} is paused{_until_text(asked, paused)}"
    if form.active == "stop":
        text += f"; {_stop_open(asked, paused, form.reason)} open runs are asked to stop"
    undo = _undo("Resume", paused, "resume", form.back)
    return Redirect(to=form.back, said=Flash(text=text, undo=undo))


def _until_text(asked: PageRequest, paused: Schedule) -> str:
    """Say until when, on the clock that the viewer has chosen."""
    if paused.resume_at is None:
        return ""
    end = asked.clocks.moment(paused.resume_at, asked.now, zone_of(paused.timetable))
    return f" until {end.day} {end.clock.removesuffix(':00')} {end.zone}"


def _stop_open(asked: PageRequest, schedule: Schedule, reason: str | None) -> int:
    """Cancel the runs that are open now; those that end by themselves meanwhile have ended."""
    stopped = 0
    open_ = asked.app.runs.list(schedule=schedule.id, state=OPEN_STATES, limit=STOPPED_MAX)
    for run in open_:
        try:
            asked.app.runs.cancel(run.id, reason=reason)
            stopped += 1
        except (Conflict, NotFound):
            continue
    return stopped


def resume_schedule(asked: PageRequest) -> Redirect:
    """Go on: from now, or with what was missed, as was chosen."""
    form: ScheduleOrder = asked.form
    resumed = asked.app.schedules.resume(
        asked.path["schedule"], missed=form.missed, reason=form.reason, version=form.version
    )
    undo = _undo("Pause again", resumed, "pause", form.back)
    return Redirect(to=form.back, said=Flash(text=f"{resumed.name} goes on", undo=undo))


def trigger_schedule(asked: PageRequest) -> Redirect:
    """Run it now, besides its timetable."""
    form: ScheduleOrder = asked.form
    made = asked.app.schedules.trigger(asked.path["schedule"], reason=form.reason)
    return Redirect(to=f"/runs/{made.id}", said=Flash(text=f"{made.label} was made"))


def skip_schedule(asked: PageRequest) -> Redirect:
    """Skip the one pending occurrence, on record."""
    form: ScheduleOrder = asked.form
    skipped = asked.app.schedules.skip_next(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    text = f"The next occurrence of {skipped.name} is skipped, on record"
    return Redirect(to=form.back, said=Flash(text=text))


def delete_schedule(asked: PageRequest) -> Rendered | Redirect:
    """Stop it at once; it can be restored for a while."""
    form: ScheduleOrder = asked.form
    if form.reason is None:
        return _ask(asked, "Delete")
    deleted = asked.app.schedules.delete(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    undo = _undo("Restore", deleted, "restore", form.back)
    return Redirect(to=form.back, said=Flash(text=f"{deleted.name} is deleted", undo=undo))


def restore_schedule(asked: PageRequest) -> Redirect:
    """Bring back a deleted one."""
    form: ScheduleOrder = asked.form
    restored = asked.app.schedules.restore(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    undo = _undo("Delete again", restored, "delete", form.back)
    return Redirect(to=form.back, said=Flash(text=f"{restored.name} is back", undo=undo))


def revert_schedule(asked: PageRequest) -> Redirect:
    """Bring back what a schedule said before a change, as a new change on record."""
    form: ScheduleOrder = asked.form
    schedule = asked.app.schedules.get(asked.path["schedule"])
    before = _before(asked, schedule, form.entry)
    said: dict[str, Any] = before["definition"]
    reverted = asked.app.schedules.edit(
        schedule.id,
        version=schedule.version if form.version is None else form.version,
        name=before["name"],
        call=asked.app.call(said["task"], said["arguments"]),
        timetable=timetable_from_json(said["timetable"]),
        misfire=said["misfire"],
        jitter=said["jitter"],
        overlap=said["overlap"],
        serialize_by=said["serialize_by"],
        preset=said.get("preset") or "none",
        queue=said["queue"],
        priority=said["priority"],
        reason=form.reason or f"back to before change {form.entry}",
    )
    path = f"/schedules/{reverted.id}"
    if reverted.version == schedule.version:
        return Redirect(to=path, said=Flash(text="Nothing was changed: it is so already"))
    entry = asked.app.schedules.history(reverted.id, limit=1)[0]
    undo = _undo("Undo", reverted, "revert", path, entry=str(entry.number))
    text = f"{reverted.name} is as it was before change {form.entry}"
    return Redirect(to=path, said=Flash(text=text, undo=undo))


def _before(asked: PageRequest, schedule: Schedule, entry: int | None) -> dict[str, Any]:
    history = asked.app.schedules.history(schedule.id, limit=HISTORY_LOOKED_AT)
    found = next((one for one in history if one.number == entry), None)
    if found is None or found.before is None or "definition" not in found.before:
        remedy = "choose a change in the schedule's history that changed what it says"
        raise UsageError("entry", entry, "is no change that could be taken back", remedy)
    return found.before


def _undo(label: str, schedule: Schedule, verb: str, back: str, **more: str) -> Undo:
    # The version goes along: an undo never takes back what somebody else did since.
    fields = {"version": str(schedule.version), "reason": "undone", "back": back, **more}
    return Undo(label=label, path=f"/schedules/{quote(str(schedule.id))}/{verb}", fields=fields)


def _order(verb: str, handler: Any, scope: Any = "edit") -> Page:  # noqa: ANN401 - a handler and a scope
    return Page(
        method="POST",
        path=f"/schedules/{{schedule}}/{verb}",
        name=f"{verb}_schedule",
        scope=scope,
        handler=handler,
        form=ScheduleOrder,
    )


ORDER_PAGES = (
    _order("pause", pause_schedule),
    _order("resume", resume_schedule),
    _order("trigger", trigger_schedule, "trigger"),
    _order("skip", skip_schedule),
    _order("delete", delete_schedule),
    _order("restore", restore_schedule),
    _order("revert", revert_schedule),
)


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
    vitals: VitalSigns
    calendar: Calendar
    policies: tuple[Policy, ...]
    history: tuple[ChangeEntry, ...]
    why: tuple[str, ...]
    clock_notes: tuple[str, ...]
    coming: tuple[tuple[datetime, str | None], ...]
    updated_at: datetime
    updated_by: str
    restorable_until: datetime | None
    command: str
    query: ScheduleQuery


def show_schedule(asked: PageRequest) -> Rendered:
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
        ledger=read_ledger(LedgerPage(app, schedule, runs), asked.now, until),
        vitals=app.vitals.of_schedule(schedule.id),
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
    return Rendered(template="schedule.html", model=model, title=schedule.name)


def _until(asked: PageRequest, text: str) -> datetime:
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
    """Return every policy in force, those that nobody chose as well."""
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
        Policy(
            "Catch-up, in a minute",
            str(schedule.misfire.per_minute or "as many as the fleet can"),
            schedule.misfire.per_minute is None,
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
    """Say why the next run is at that instant, in sentences that follow from each other."""
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
    shown = TimeFormatter("schedule").moment(at, now, zone or "UTC")
    utc = TimeFormatter("utc").moment(at, now)
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
