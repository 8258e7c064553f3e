"""Orders about one schedule: pause, resume, run now; each says how to take it back (UX 38-42)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from duly_web.page import Asked, Moved, Page, Said, Undo

if TYPE_CHECKING:
    from duly import Schedule


class ScheduleOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a schedule says."""

    reason: str | None = None
    version: int | None = None
    """Which version was seen: somebody else may have been faster (41)."""
    until: str | None = None
    missed: str = "skip"
    back: str = "/schedules"


def pause_schedule(asked: Asked) -> Moved:
    """Pause: new runs stop, and what runs keeps running."""
    form: ScheduleOrder = asked.form
    paused = asked.app.schedules.pause(
        asked.path["schedule"], reason=form.reason, until=form.until, version=form.version
    )
    undo = _undo("Resume", paused, "resume", form.back)
    return Moved(to=form.back, said=Said(text=f"{paused.name} is paused", undo=undo))


def resume_schedule(asked: Asked) -> Moved:
    """Go on."""
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


def _undo(label: str, schedule: Schedule, verb: str, back: str) -> Undo:
    # The version goes along: an undo never takes back what somebody else did since.
    fields = {"version": str(schedule.version), "reason": "undone", "back": back}
    return Undo(label=label, path=f"/schedules/{quote(str(schedule.id))}/{verb}", fields=fields)


PAGES = (
    Page(
        method="POST",
        path="/schedules/{schedule}/pause",
        name="pause_schedule",
        scope="edit",
        handler=pause_schedule,
        form=ScheduleOrder,
    ),
    Page(
        method="POST",
        path="/schedules/{schedule}/resume",
        name="resume_schedule",
        scope="edit",
        handler=resume_schedule,
        form=ScheduleOrder,
    ),
    Page(
        method="POST",
        path="/schedules/{schedule}/trigger",
        name="trigger_schedule",
        scope="trigger",
        handler=trigger_schedule,
        form=ScheduleOrder,
    ),
)
