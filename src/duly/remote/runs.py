"""Runs of a server: find them, look at one from every side, stop and retry them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.interface.attempts import Attempt, AttemptQuery, Line, LineQuery, Step, StepQuery
from duly.interface.delayed import DelayedRun, Move
from duly.interface.runs import (
    EditRun,
    EnqueuedRun,
    Explanation,
    Justified,
    ReasonBody,
    RetryRun,
    Run,
    RunQuery,
)
from duly.interface.shapes import Page
from duly.interface.vitals import MissingAsked, MissingFound
from duly.remote.operation import DELETE, PATCH, look, order
from duly.remote.transport import said
from duly.remote.vitals import MISSING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.remote.transport import Delay, Instant, Transport

Reference = UUID | str
Listed = list[Run]
Attempts = list[Attempt]
Steps = list[Step]
Lines = list[Line]
RUNS_DEFAULT = 100
DELAYED_DEFAULT = LINES_DEFAULT = 1000
ONE = "/runs/{run}"
LIST = look("list_runs", "/runs", Page[Run])
ENQUEUE = order("enqueue_run", "/runs", EnqueuedRun)
ENQUEUE_MANY = order("enqueue_runs", "/runs/bulk", Page[EnqueuedRun])
GET_ONE = look("get_run", ONE, Run)
ATTEMPTS = look("list_attempts", f"{ONE}/attempts", Page[Attempt])
LINES = look("list_lines", f"{ONE}/lines", Page[Line])
PROGRESS = look("list_progress", f"{ONE}/progress", Page[Step])
WHY = look("explain_run", f"{ONE}/why", Explanation)
EDIT = order("edit_run", ONE, Run, method=PATCH, is_keyed=False)
CANCEL = order("cancel_run", f"{ONE}/cancel", Run)
RETRY = order("retry_run", f"{ONE}/retry", Run)
DISCARD = order("discard_run", f"{ONE}/discard", Run)
SEARCH_ATTEMPTS = look("search_attempts", "/attempts", Page[Attempt])

ONE_DELAYED = "/delayed/{key_or_id}"
LIST_DELAYED = look("list_delayed", "/delayed", Page[DelayedRun])
GET_DELAYED = look("get_delayed", ONE_DELAYED, DelayedRun)
MOVE = order("move_delayed", ONE_DELAYED, DelayedRun, method=PATCH)
CANCEL_DELAYED = order("cancel_delayed", ONE_DELAYED, Run, method=DELETE)


class Runs:
    """What a server knows about runs."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self, *, limit: int = RUNS_DEFAULT, **filters: Any) -> Listed:  # noqa: ANN401 - as `RunQuery` has them
        """Return runs, newest first; filters are those of `app.runs.list`."""
        return self._asking.items(LIST, query=said(RunQuery, **filters), limit=limit)

    def page(self, *, limit: int = RUNS_DEFAULT, **filters: Any) -> Page[Run]:  # noqa: ANN401 - as above
        """Return a page of runs; it may be short, and even empty, while there is more."""
        return self._asking.ask(LIST, query=said(RunQuery, limit=limit, **filters))

    def get(self, run: Reference) -> Run:
        """Return a run by its id or its label."""
        return self._asking.ask(GET_ONE, run)

    def missing(
        self, since: Instant, until: Instant | None = None, *, schedule: Reference | None = None
    ) -> MissingFound:
        """Return what timetables ask for and has no run, of all schedules or of one."""
        of = None if schedule is None else str(schedule)
        cursor: str | None = None
        pages: list[MissingFound] = []
        while True:
            query = said(MissingAsked, since=since, until=until, schedule=of, cursor=cursor)
            pages.append(self._asking.ask(MISSING, query=query))
            cursor = pages[-1].next_cursor
            if cursor is None:
                return MissingFound(
                    items=[one for page in pages for one in page.items],
                    cut=[one for page in pages for one in page.cut],
                    slots=sum(page.slots for page in pages),
                    schedules=sum(page.schedules for page in pages),
                )

    def attempts(self, run: Reference) -> Attempts:
        """Return every claim of a run and what became of it."""
        return self._asking.items(ATTEMPTS, run)

    def search_attempts(self, **filters: Any) -> Page[Attempt]:  # noqa: ANN401 - as `AttemptQuery` has them
        """Return a page of attempts of all runs, by worker, state, reason or error."""
        return self._asking.ask(SEARCH_ATTEMPTS, query=said(AttemptQuery, **filters))

    def why(self, run: Reference) -> Explanation:
        """Say why a run is late, stuck, waiting or dead."""
        return self._asking.ask(WHY, run)

    def progress(self, run: Reference, *, limit: int | None = None) -> Steps:
        """Return the steps of a run's progress."""
        return self._asking.items(PROGRESS, run, query=said(StepQuery, limit=limit))

    def lines(self, run: Reference, *, after: int = 0, limit: int = LINES_DEFAULT) -> Lines:
        """Return lines that a run's attempts wrote, after a number."""
        return self._asking.items(LINES, run, query=said(LineQuery, after=after), limit=limit)

    def cancel(self, run: Reference, *, reason: str | None = None) -> Run:
        """Stop a run: at once where nobody runs it, by asking where somebody does."""
        return self._asking.ask(CANCEL, run, body=said(ReasonBody, reason=reason))

    def retry(self, run: Reference, *, reason: str | None = None) -> Run:
        """Try again a run that is dead or waits; one in doubt is `inbox`'s."""
        return self._asking.ask(RETRY, run, body=said(RetryRun, reason=reason))

    def discard(self, run: Reference, *, reason: str) -> Run:
        """Give up a dead run for good; its record stays."""
        return self._asking.ask(DISCARD, run, body=said(Justified, reason=reason))

    def edit(
        self, run: Reference, arguments: Mapping[str, Any], *, reason: str | None = None
    ) -> Run:
        """Give a dead run other arguments, all of them; then retry it."""
        body = said(EditRun, arguments=arguments, reason=reason)
        return self._asking.ask(EDIT, run, body=body)


class Delayed:
    """Delayed runs of a server that are pending."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def list(self, *, limit: int = DELAYED_DEFAULT) -> list[DelayedRun]:
        """Return what is pending, in order of due."""
        return self._asking.items(LIST_DELAYED, limit=limit)

    def get(self, key_or_id: Reference) -> DelayedRun:
        """Return a pending one by its key or id."""
        return self._asking.ask(GET_DELAYED, key_or_id)

    def move(  # noqa: PLR0913 - each choice is an argument
        self,
        key_or_id: Reference,
        *,
        at: Instant | None = None,
        delay: Delay | None = None,
        past: str | None = None,
        reason: str | None = None,
    ) -> DelayedRun:
        """Have a pending one fall due at another time."""
        body = said(Move, at=at, delay=delay, past=past, reason=reason)
        return self._asking.ask(MOVE, key_or_id, body=body)

    def cancel(self, key_or_id: Reference, *, reason: str | None = None) -> Run:
        """Cancel a pending one."""
        return self._asking.ask(CANCEL_DELAYED, key_or_id, query=said(ReasonBody, reason=reason))
