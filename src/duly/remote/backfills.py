"""Backfills of a server: plan what is missing, have it made, steer that, and go on from one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly.interface.backfills import (
    Backfill,
    BackfillPlan,
    BackfillQuery,
    NewBackfill,
    PlanBackfill,
    ResumeFrom,
    ThrottleBackfill,
)
from duly.interface.runs import ReasonBody
from duly.interface.shapes import Page
from duly.remote.operation import look, order
from duly.remote.transport import said

if TYPE_CHECKING:
    from uuid import UUID

    from duly.remote.transport import Instant, Transport

BACKFILL = "/backfills/{backfill}"
LIST_BACKFILLS = look("list_backfills", "/backfills", Page[Backfill])
PLAN = order("plan_backfill", "/backfills/plan", BackfillPlan, is_keyed=False)
CREATE_BACKFILL = order("create_backfill", "/backfills", Backfill)
GET_BACKFILL = look("get_backfill", BACKFILL, Backfill)
PAUSE_BACKFILL = order("pause_backfill", f"{BACKFILL}/pause", Backfill)
RESUME_BACKFILL = order("resume_backfill", f"{BACKFILL}/resume", Backfill)
CANCEL_BACKFILL = order("cancel_backfill", f"{BACKFILL}/cancel", Backfill)
THROTTLE = order("throttle_backfill", f"{BACKFILL}/throttle", Backfill)
PLAN_REST = look("plan_backfill_rest", f"{BACKFILL}/rest", BackfillPlan)
RESUME_FROM = order("resume_from_backfill", f"{BACKFILL}/resume-from", Backfill)


class Backfills:
    """Backfills of a server: plan what is missing, have it made, and steer that."""

    def __init__(self, asking: Transport) -> None:
        self._asking = asking

    def plan(
        self,
        schedule: UUID | str,
        *,
        since: Instant,
        until: Instant,
        **terms: Any,  # noqa: ANN401 - as `PlanBackfill` has them
    ) -> BackfillPlan:
        """Show the exact occurrences of a span and what is known about each."""
        body = said(PlanBackfill, schedule=schedule, since=since, until=until, **terms)
        return self._asking.ask(PLAN, body=body)

    def create(
        self,
        schedule: UUID | str,
        *,
        since: Instant,
        until: Instant,
        **terms: Any,  # noqa: ANN401 - as `NewBackfill` has them
    ) -> Backfill:
        """Have the runs of a span made, at a rate, so many at a time."""
        body = said(NewBackfill, schedule=schedule, since=since, until=until, **terms)
        return self._asking.ask(CREATE_BACKFILL, body=body)

    def get(self, backfill: UUID | str) -> Backfill:
        """Return a backfill."""
        return self._asking.ask(GET_BACKFILL, backfill)

    def list(self, schedule: UUID | str | None = None) -> list[Backfill]:
        """Return backfills, newest first; of one schedule, or of all."""
        return self._asking.items(LIST_BACKFILLS, query=said(BackfillQuery, schedule=schedule))

    def pause(self, backfill: UUID | str, *, reason: str | None = None) -> Backfill:
        """Make no more runs until it is resumed."""
        return self._asking.ask(PAUSE_BACKFILL, backfill, body=said(ReasonBody, reason=reason))

    def resume(self, backfill: UUID | str, *, reason: str | None = None) -> Backfill:
        """Go on where it stands."""
        return self._asking.ask(RESUME_BACKFILL, backfill, body=said(ReasonBody, reason=reason))

    def cancel(self, backfill: UUID | str, *, reason: str | None = None) -> Backfill:
        """Make no more runs, for good."""
        return self._asking.ask(CANCEL_BACKFILL, backfill, body=said(ReasonBody, reason=reason))

    def throttle(
        self,
        backfill: UUID | str,
        *,
        per_minute: int | None = None,
        concurrency: int | None = None,
        reason: str | None = None,
    ) -> Backfill:
        """Let it go faster or slower from now on."""
        body = said(ThrottleBackfill, per_minute=per_minute, concurrency=concurrency, reason=reason)
        return self._asking.ask(THROTTLE, backfill, body=body)

    def plan_rest(self, backfill: UUID | str) -> BackfillPlan:
        """Show what a backfill that was called off has left undone."""
        return self._asking.ask(PLAN_REST, backfill)

    def resume_from(  # noqa: PLR0913 - each choice is an argument
        self,
        backfill: UUID | str,
        *,
        reason: str,
        runs: int | None = None,
        per_minute: int | None = None,
        concurrency: int | None = None,
    ) -> Backfill:
        """Have another backfill do what one that was called off has left undone."""
        terms = {"runs": runs, "per_minute": per_minute, "concurrency": concurrency}
        body = said(ResumeFrom, reason=reason, **terms)
        return self._asking.ask(RESUME_FROM, backfill, body=body)
