"""Orders about one schedule: each says what it does, and how to take it back (UX 38-42)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from duly import Conflict, NotFound, UsageError, timetable_from_json
from duly.api.views import restorable_for, zone_of
from duly_web.addresses import local_path
from duly_web.instants import read_coming
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from duly import Schedule

OPEN_STATES = ("blocked", "queued", "running", "retrying")
STOPPED_MAX = 100
HISTORY_LOOKED_AT = 500


class ScheduleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a schedule says."""

    reason: str | None = None
    version: int | None = None
    """Which version was seen: somebody else may have been faster (41)."""
    until: str | None = None
    missed: str = "skip"
    active: str = "drain"
    """What becomes of its open runs: `drain` lets them end, `stop` cancels them (40)."""
    entry: int | None = None
    """Which change is taken back."""
    back: str = "/schedules"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskModel:
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


def _ask(asked: Asked, verb: str) -> Shown:
    """Ask for the reason first: without a script there is no dialog."""
    schedule = asked.app.schedules.get(asked.path["schedule"])
    open_ = asked.app.runs.list(schedule=schedule.id, state=OPEN_STATES, limit=STOPPED_MAX)
    kept = restorable_for(asked.app)
    model = AskModel(
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
    return Shown(template="schedule_ask.html", model=model, title=f"{verb} {schedule.name}")


def pause_schedule(asked: Asked) -> Shown | Moved:
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
    text = f"{paused.name} is paused{_until(asked, paused)}"
    if form.active == "stop":
        text += f"; {_stop_open(asked, paused, form.reason)} open runs are asked to stop"
    undo = _undo("Resume", paused, "resume", form.back)
    return Moved(to=form.back, said=Said(text=text, undo=undo))


def _until(asked: Asked, paused: Schedule) -> str:
    """Say until when, on the clock that the viewer has chosen."""
    if paused.resume_at is None:
        return ""
    end = asked.clocks.moment(paused.resume_at, asked.now, zone_of(paused.timetable))
    return f" until {end.day} {end.clock.removesuffix(':00')} {end.zone}"


def _stop_open(asked: Asked, schedule: Schedule, reason: str | None) -> int:
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


def resume_schedule(asked: Asked) -> Moved:
    """Go on: from now, or with what was missed, as was chosen."""
    form: ScheduleOrder = asked.form
    resumed = asked.app.schedules.resume(
        asked.path["schedule"], missed=form.missed, reason=form.reason, version=form.version
    )
    undo = _undo("Pause again", resumed, "pause", form.back)
    return Moved(to=form.back, said=Said(text=f"{resumed.name} goes on", undo=undo))


def trigger_schedule(asked: Asked) -> Moved:
    """Run it now, besides its timetable."""
    form: ScheduleOrder = asked.form
    made = asked.app.schedules.trigger(asked.path["schedule"], reason=form.reason)
    return Moved(to=f"/runs/{made.id}", said=Said(text=f"{made.label} was made"))


def skip_schedule(asked: Asked) -> Moved:
    """Skip the one pending occurrence, on record."""
    form: ScheduleOrder = asked.form
    skipped = asked.app.schedules.skip_next(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    text = f"The next occurrence of {skipped.name} is skipped, on record"
    return Moved(to=form.back, said=Said(text=text))


def delete_schedule(asked: Asked) -> Shown | Moved:
    """Stop it at once; it can be restored for a while."""
    form: ScheduleOrder = asked.form
    if form.reason is None:
        return _ask(asked, "Delete")
    deleted = asked.app.schedules.delete(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    undo = _undo("Restore", deleted, "restore", form.back)
    return Moved(to=form.back, said=Said(text=f"{deleted.name} is deleted", undo=undo))


def restore_schedule(asked: Asked) -> Moved:
    """Bring back a deleted one."""
    form: ScheduleOrder = asked.form
    restored = asked.app.schedules.restore(
        asked.path["schedule"], reason=form.reason, version=form.version
    )
    undo = _undo("Delete again", restored, "delete", form.back)
    return Moved(to=form.back, said=Said(text=f"{restored.name} is back", undo=undo))


def revert_schedule(asked: Asked) -> Moved:
    """Bring back what a schedule said before a change, as a new change on record (19)."""
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
        return Moved(to=path, said=Said(text="Nothing was changed: it is so already"))
    entry = asked.app.schedules.history(reverted.id, limit=1)[0]
    undo = _undo("Undo", reverted, "revert", path, entry=str(entry.number))
    text = f"{reverted.name} is as it was before change {form.entry}"
    return Moved(to=path, said=Said(text=text, undo=undo))


def _before(asked: Asked, schedule: Schedule, entry: int | None) -> dict[str, Any]:
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


PAGES = (
    _order("pause", pause_schedule),
    _order("resume", resume_schedule),
    _order("trigger", trigger_schedule, "trigger"),
    _order("skip", skip_schedule),
    _order("delete", delete_schedule),
    _order("restore", restore_schedule),
    _order("revert", revert_schedule),
)
