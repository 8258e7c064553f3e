"""Selections of a server: what a filter found, frozen, a look at it, and orders about just that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.interface.runs import OrderedRuns
from duly.interface.selections import (
    NewScheduleSelection,
    NewSelection,
    OrderedSchedules,
    OrderPreview,
    OrderSelection,
    PauseSelection,
    RerunSelection,
    ResumeSelection,
    RunsPreviewAsked,
    ScheduleSelection,
    SchedulesPreviewAsked,
    Selection,
    SkipSelection,
)
from duly.remote.operation import look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.remote.transport import Instant, Transport

Reference = UUID | str
RUNS = "/runs/selections/{selection}"
FREEZE = order("create_selection", "/runs/selections", Selection)
GET = look("get_selection", RUNS, Selection)
PREVIEW = look("preview_selection", f"{RUNS}/preview", OrderPreview)
CANCEL = order("cancel_selection", f"{RUNS}/cancel", OrderedRuns)
DISCARD = order("discard_selection", f"{RUNS}/discard", OrderedRuns)
RETRY = order("retry_selection", f"{RUNS}/retry", OrderedRuns)
RERUN = order("rerun_selection", f"{RUNS}/rerun", OrderedRuns)
SKIP = order("skip_selection", f"{RUNS}/skip", OrderedRuns)

ALL_SCHEDULES = "/schedule-selections"
SCHEDULES = f"{ALL_SCHEDULES}/{{selection}}"
FREEZE_SCHEDULES = order("create_schedule_selection", ALL_SCHEDULES, ScheduleSelection)
GET_SCHEDULES = look("get_schedule_selection", SCHEDULES, ScheduleSelection)
PREVIEW_SCHEDULES = look("preview_schedule_selection", f"{SCHEDULES}/preview", OrderPreview)
PAUSE = order("pause_schedule_selection", f"{SCHEDULES}/pause", OrderedSchedules)
RESUME = order("resume_schedule_selection", f"{SCHEDULES}/resume", OrderedSchedules)


class Selections:
    """Runs that a filter found, frozen, and orders about exactly these."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def freeze(
        self,
        *,
        state: str | Sequence[str] | None = "dead",
        **filters: Any,  # noqa: ANN401 - as `NewSelection` has them
    ) -> Selection:
        """Find runs by a filter, dead ones unless told, and freeze which they are."""
        # None is said, and not left out: it means those of every state.
        body = {"state": None, **said(NewSelection, state=state, **filters)}
        return self._asking.ask(FREEZE, body=body)

    def get(self, selection: Reference) -> Selection:
        """Return a selection, with the newest of its runs as they are now."""
        return self._asking.ask(GET, selection)

    def preview(self, selection: Reference, order: str) -> OrderPreview:
        """Say what an order would do to each of its runs, if it were given now."""
        return self._asking.ask(PREVIEW, selection, query=said(RunsPreviewAsked, order=order))

    def retry(
        self, selection: Reference, *, reason: str | None = None, confirm: int | None = None
    ) -> OrderedRuns:
        """Queue its dead runs again, and at once those that wait."""
        body = said(OrderSelection, reason=reason, confirm=confirm)
        return self._asking.ask(RETRY, selection, body=body)

    def discard(
        self, selection: Reference, *, reason: str | None = None, confirm: int | None = None
    ) -> OrderedRuns:
        """Give up its dead runs for good."""
        body = said(OrderSelection, reason=reason, confirm=confirm)
        return self._asking.ask(DISCARD, selection, body=body)

    def cancel(
        self, selection: Reference, *, reason: str | None = None, confirm: int | None = None
    ) -> OrderedRuns:
        """Stop its runs."""
        body = said(OrderSelection, reason=reason, confirm=confirm)
        return self._asking.ask(CANCEL, selection, body=body)

    def rerun(
        self,
        selection: Reference,
        *,
        reason: str,
        repair: bool = False,
        confirm: int | None = None,
    ) -> OrderedRuns:
        """Run once more, each as another run, what its runs were to do."""
        body = said(RerunSelection, reason=reason, repair=repair, confirm=confirm)
        return self._asking.ask(RERUN, selection, body=body)

    def skip(self, selection: Reference, *, reason: str, confirm: int | None = None) -> OrderedRuns:
        """Leave its runs that are in doubt as they are, on record."""
        body = said(SkipSelection, reason=reason, confirm=confirm)
        return self._asking.ask(SKIP, selection, body=body)


class ScheduleSelections:
    """Schedules that a filter found, frozen, and orders about exactly these."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def freeze(self, **filters: Any) -> ScheduleSelection:  # noqa: ANN401 - as `NewScheduleSelection` has them
        """Find schedules by a filter, and freeze which they are and how."""
        return self._asking.ask(FREEZE_SCHEDULES, body=said(NewScheduleSelection, **filters))

    def get(self, selection: Reference) -> ScheduleSelection:
        """Return a selection, with the first of its schedules as they are now."""
        return self._asking.ask(GET_SCHEDULES, selection)

    def preview(self, selection: Reference, order: str) -> OrderPreview:
        """Say what an order, pause or resume, would do to each of them, if it were given now."""
        query = said(SchedulesPreviewAsked, order=order)
        return self._asking.ask(PREVIEW_SCHEDULES, selection, query=query)

    def pause(  # noqa: PLR0913 - each choice is an argument
        self,
        selection: Reference,
        *,
        reason: str,
        until: Instant | None = None,
        missed: str = "skip",
        confirm: int | None = None,
    ) -> OrderedSchedules:
        """Pause its schedules that nobody has changed since."""
        body = said(PauseSelection, reason=reason, until=until, missed=missed, confirm=confirm)
        return self._asking.ask(PAUSE, selection, body=body)

    def resume(
        self,
        selection: Reference,
        *,
        reason: str,
        missed: str = "skip",
        confirm: int | None = None,
    ) -> OrderedSchedules:
        """Resume its schedules that nobody has changed since."""
        body = said(ResumeSelection, reason=reason, missed=missed, confirm=confirm)
        return self._asking.ask(RESUME, selection, body=body)
