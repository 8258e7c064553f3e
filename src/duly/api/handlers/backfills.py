"""Backfills over HTTP: plan what is missing, have it made, and steer that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, reference_of, whole
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

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route


def list_backfills(received: ApiRequest) -> Page[Backfill]:
    """Return backfills, newest first; of one schedule, or of all."""
    asked: BackfillQuery = received.query
    of = None if asked.schedule is None else reference_of(asked.schedule)
    return whole(Backfill, received.app.backfills.list(of))


def plan_backfill(received: ApiRequest) -> BackfillPlan:
    """Show the exact occurrences of a span and what is known about each; nothing is made."""
    terms = given(received.body)
    schedule = reference_of(terms.pop("schedule"))
    return BackfillPlan.from_view(received.app.backfills.plan(schedule, **terms))


def create_backfill(received: ApiRequest) -> Backfill:
    """Have the runs of a span made, at a rate, so many at a time, on a lane of their own."""
    terms = given(received.body)
    schedule = reference_of(terms.pop("schedule"))
    made = received.app.backfills.create(schedule, **terms, id=received.order_id())
    return Backfill.from_view(made)


def get_backfill(received: ApiRequest) -> Backfill:
    """Return a backfill."""
    return Backfill.from_view(received.app.backfills.get(_backfill(received)))


def pause_backfill(received: ApiRequest) -> Backfill:
    """Make no more runs until it is resumed; those that were made go on."""
    reason = received.body.reason
    return Backfill.from_view(received.app.backfills.pause(_backfill(received), reason=reason))


def resume_backfill(received: ApiRequest) -> Backfill:
    """Go on where a backfill stands."""
    reason = received.body.reason
    return Backfill.from_view(received.app.backfills.resume(_backfill(received), reason=reason))


def cancel_backfill(received: ApiRequest) -> Backfill:
    """Make no more runs, for good; those that were made go on."""
    reason = received.body.reason
    return Backfill.from_view(received.app.backfills.cancel(_backfill(received), reason=reason))


def throttle_backfill(received: ApiRequest) -> Backfill:
    """Let a backfill go faster or slower from now on."""
    terms = given(received.body)
    return Backfill.from_view(received.app.backfills.throttle(_backfill(received), **terms))


def plan_backfill_rest(received: ApiRequest) -> BackfillPlan:
    """Show what a backfill that was called off has left undone; nothing is made."""
    return BackfillPlan.from_view(received.app.backfills.plan_rest(_backfill(received)))


def resume_from_backfill(received: ApiRequest) -> Backfill:
    """Have another backfill do what one that was called off has left undone."""
    terms = given(received.body)
    return Backfill.from_view(received.app.backfills.resume_from(_backfill(received), **terms))


def _backfill(received: ApiRequest) -> str:
    return received.path["backfill"]


_ONE = "/backfills/{backfill}"
ROUTES: tuple[Route, ...] = (
    look("/backfills", list_backfills, Page[Backfill], BackfillQuery),
    order("/backfills", create_backfill, NewBackfill, Backfill, scope="trigger", status=201),
    order(
        "/backfills/plan",
        plan_backfill,
        PlanBackfill,
        BackfillPlan,
        scope="read",
        is_idempotent=False,
    ),
    look(_ONE, get_backfill, Backfill),
    look(f"{_ONE}/rest", plan_backfill_rest, BackfillPlan, errors=frozenset({404, 409})),
    order(
        f"{_ONE}/resume-from",
        resume_from_backfill,
        ResumeFrom,
        Backfill,
        scope="trigger",
        status=201,
    ),
    order(f"{_ONE}/cancel", cancel_backfill, ReasonBody, Backfill),
    order(f"{_ONE}/pause", pause_backfill, ReasonBody, Backfill),
    order(f"{_ONE}/resume", resume_backfill, ReasonBody, Backfill),
    order(f"{_ONE}/throttle", throttle_backfill, ThrottleBackfill, Backfill),
)
