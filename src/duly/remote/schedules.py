"""Schedules of a server: make, look at, change, stop and bring them back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.domain.policies import Misfire
from duly.interface.runs import EnqueuedRun, ReasonBody
from duly.interface.schedules import (
    Entry,
    NewestAsked,
    NewSchedule,
    NextAsked,
    Occurrence,
    OccurrencesAsked,
    OwedRange,
    Pause,
    PlannedSchedule,
    Preview,
    PreviewAsked,
    PreviewedOccurrence,
    Resume,
    Schedule,
    ScheduleEdit,
    SchedulesAsked,
    SkippedRange,
    Trigger,
)
from duly.interface.shapes import Page
from duly.remote.operation import DELETE, PATCH, look, order
from duly.remote.transport import said
from duly.timetable.timetable import Timetable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.remote.transport import Instant, Transport

Reference = UUID | str
Listed = list[Schedule]
Entries = list[Entry]
Occurrences = list[Occurrence]
OwedRanges = list[OwedRange]
SkippedRanges = list[SkippedRange]
Upcoming = list[PreviewedOccurrence]
SHOWN_DEFAULT = 1000
ONE = "/schedules/{schedule}"
LIST = look("list_schedules", "/schedules", Page[Schedule])
CREATE = order("create_schedule", "/schedules", PlannedSchedule)
GET_ONE = look("get_schedule", ONE, Schedule)
EDIT = order("edit_schedule", ONE, PlannedSchedule, method=PATCH)
DELETE_ONE = order("delete_schedule", ONE, Schedule, method=DELETE)
PREVIEW = order("preview_rule", "/schedules/preview", Preview, is_keyed=False)
PAUSE = order("pause_schedule", f"{ONE}/pause", Schedule)
RESUME = order("resume_schedule", f"{ONE}/resume", Schedule)
RESTORE = order("restore_schedule", f"{ONE}/restore", Schedule)
SKIP = order("skip_schedule", f"{ONE}/skip", Schedule)
TRIGGER = order("trigger_schedule", f"{ONE}/trigger", EnqueuedRun)
HISTORY = look("get_schedule_history", f"{ONE}/history", Page[Entry])
OCCURRENCES = look("get_schedule_occurrences", f"{ONE}/occurrences", Page[Occurrence])
OWED = look("get_schedule_owed", f"{ONE}/owed", Page[OwedRange])
SKIPS = look("get_schedule_skips", f"{ONE}/skips", Page[SkippedRange])
NEXT = look("get_schedule_next", f"{ONE}/next", Page[PreviewedOccurrence])


class Schedules:
    """What a server knows about schedules."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def create(
        self,
        name: str,
        task: str,
        when: str | Timetable | None = None,
        *,
        arguments: Mapping[str, Any] | None = None,
        **terms: Any,  # noqa: ANN401 - as `NewSchedule` has them
    ) -> PlannedSchedule:
        """Make a schedule of a task; the same one made again is the same one.

        When is a text, such as "every weekday at 9" with tz="Europe/Berlin", or a timetable. Terms
        are tz, gap, fold, calendar, dtstart, and the policies that `app.schedules.create` takes.
        """
        rule = _rule(when)
        body = said(
            NewSchedule, name=name, task=task, arguments=arguments, **rule, **_policies(terms)
        )
        return self._asking.ask(CREATE, body=body)

    def edit(
        self,
        schedule: Reference,
        *,
        version: int | None = None,
        when: str | Timetable | None = None,
        **changes: Any,  # noqa: ANN401 - as `ScheduleEdit` has them
    ) -> PlannedSchedule:
        """Change what is given and keep the rest; Outdated if it is no longer at `version`.

        Without a version it is looked at first, and changed unless somebody else is faster.
        """
        if version is None:
            version = self.get(schedule).version
        body = said(ScheduleEdit, **_rule(when), **_policies(changes))
        return self._asking.ask(EDIT, schedule, body=body, version=version)

    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        until: Instant | None = None,
        missed: str = "skip",
        version: int | None = None,
    ) -> Schedule:
        """Stop it and keep everything; `until` then, or until it is resumed."""
        body = said(Pause, reason=reason, until=until, missed=missed)
        return self._asking.ask(PAUSE, schedule, body=body, version=version)

    def resume(
        self,
        schedule: Reference,
        *,
        missed: str = "skip",
        reason: str | None = None,
        version: int | None = None,
    ) -> Schedule:
        """Let it go on."""
        body = said(Resume, reason=reason, missed=missed)
        return self._asking.ask(RESUME, schedule, body=body, version=version)

    def delete(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Stop it at once and give up what it owes; it can be restored for a while."""
        query = said(ReasonBody, reason=reason)
        return self._asking.ask(DELETE_ONE, schedule, query=query, version=version)

    def restore(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Bring back a deleted one."""
        body = said(ReasonBody, reason=reason)
        return self._asking.ask(RESTORE, schedule, body=body, version=version)

    def skip_next(
        self, schedule: Reference, *, reason: str | None = None, version: int | None = None
    ) -> Schedule:
        """Skip the one pending occurrence, on record."""
        body = said(ReasonBody, reason=reason)
        return self._asking.ask(SKIP, schedule, body=body, version=version)

    def trigger(
        self,
        schedule: Reference,
        *,
        reason: str | None = None,
        key: str | None = None,
        overlap: str | None = None,
    ) -> EnqueuedRun:
        """Run it now, besides its timetable."""
        body = said(Trigger, reason=reason, key=key, overlap=overlap)
        return self._asking.ask(TRIGGER, schedule, body=body)

    def get(self, schedule: Reference) -> Schedule:
        """Return a schedule by its name or id."""
        return self._asking.ask(GET_ONE, schedule)

    def list(self, *, limit: int | None = None, **filters: Any) -> Listed:  # noqa: ANN401 - as `SchedulesAsked` has them
        """Return schedules in order of name; all of them, unless a limit is given."""
        return self._asking.items(LIST, query=said(SchedulesAsked, **filters), limit=limit)

    def history(self, schedule: Reference, *, limit: int = SHOWN_DEFAULT) -> Entries:
        """Return who did what to it, newest first."""
        query = said(NewestAsked, limit=limit)
        return self._asking.items(HISTORY, schedule, query=query)

    def occurrences(self, schedule: Reference, start: Instant, end: Instant) -> Occurrences:
        """Return what became of each expected occurrence from `start` on and before `end`."""
        query = said(OccurrencesAsked, start=start, end=end)
        return self._asking.items(OCCURRENCES, schedule, query=query)

    def owed(self, schedule: Reference) -> OwedRanges:
        """Return the ranges of occurrences that it still owes, oldest first."""
        return self._asking.items(OWED, schedule)

    def skips(self, schedule: Reference, *, limit: int = SHOWN_DEFAULT) -> SkippedRanges:
        """Return the ranges of occurrences that were skipped, newest first, with the reason."""
        return self._asking.items(SKIPS, schedule, query=said(NewestAsked, limit=limit))

    def upcoming(self, schedule: Reference, n: int = 3) -> Upcoming:
        """Return its next occurrences; none unless it is active."""
        return self._asking.items(NEXT, schedule, query=said(NextAsked, count=n))

    def preview(
        self,
        when: str | Timetable,
        after: Instant | None = None,
        n: int = 3,
        **terms: Any,  # noqa: ANN401 - as `PreviewAsked` has them
    ) -> Preview:
        """Show what a rule means and when it fires; nothing is stored."""
        body = said(PreviewAsked, after=after, count=n, **_rule(when), **terms)
        return self._asking.ask(PREVIEW, body=body)


def _rule(when: str | Timetable | None) -> dict[str, Any]:
    return {"timetable": when.to_json()} if isinstance(when, Timetable) else {"when": when}


def _policies(terms: Mapping[str, Any]) -> dict[str, Any]:
    """Return policies as they are written."""
    misfire = terms.get("misfire")
    return {**terms, "misfire": misfire.to_json()} if isinstance(misfire, Misfire) else {**terms}
