"""Planning a backfill: the exact occurrences first, then the order about them (UX 33, M2).

The plan is looked at again when it is ordered: if there is more or less to be made by then than
the person saw, nothing is done, and the new plan is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly.api.views import zone_of
from duly_web.instants import read_past
from duly_web.page import Asked, Moved, Page, Said, Shown

if TYPE_CHECKING:
    from duly.api.views import BackfillPlan, PlannedSlot

SLOTS_SHOWN = 300
CLASSES = ("missing", "failed", "succeeded", "unknown")
CHOSEN = ("missing", "failed")
MODES = {
    "fill": "Fill: what has succeeded is left alone",
    "redo": "Redo: what has succeeded is run once more, as a repair",
}
ORDERS = {"oldest-first": "oldest first", "newest-first": "newest first"}
CONFIRMED_ABOVE = 100


class PlanQuery(msgspec.Struct, forbid_unknown_fields=True):
    """The span to be planned, in the address."""

    schedule: str | None = None
    since: str | None = None
    until: str | None = None
    classes: list[str] = []
    mode: str = "fill"


class Ordered(msgspec.Struct, forbid_unknown_fields=True):
    """A plan that somebody has looked at, and how it is to be carried out."""

    schedule: str
    since: str
    until: str
    runs: int
    """How many the plan showed."""
    classes: list[str] = []
    mode: str = "fill"
    order: str = "oldest-first"
    per_minute: int = 60
    concurrency: int = 1
    confirm: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanModel:
    """The page."""

    query: PlanQuery
    chosen: tuple[str, ...]
    plan: BackfillPlan | None = None
    slots: tuple[PlannedSlot, ...] = ()
    more: int = 0
    zone: str | None = None
    is_confirmed: bool = False
    """Whether the number of runs must be typed."""
    classes: tuple[str, ...] = CLASSES
    modes: tuple[tuple[str, str], ...] = tuple(MODES.items())
    orders: tuple[tuple[str, str], ...] = tuple(ORDERS.items())


def show_plan(asked: Asked) -> Shown:
    """Show the form, and below it the plan once there is a span."""
    query: PlanQuery = asked.query
    chosen = tuple(query.classes) or CHOSEN
    model = PlanModel(query=query, chosen=chosen)
    if query.schedule and query.since:
        model = _planned(asked, query, chosen)
    return Shown(template="backfill_plan.html", model=model, title="Plan a backfill")


def _planned(asked: Asked, query: PlanQuery, chosen: tuple[str, ...]) -> PlanModel:
    schedule = asked.app.schedules.get(query.schedule or "")
    mine, now = asked.clocks.mine, asked.now
    plan = asked.app.backfills.plan(
        schedule.id,
        since=read_past("since", query.since or "", mine, now),
        until=read_past("until", query.until, mine, now) if query.until else now,
        classes=chosen,
        mode=query.mode,
    )
    return PlanModel(
        query=query,
        chosen=chosen,
        plan=plan,
        slots=plan.slots[:SLOTS_SHOWN],
        more=max(0, len(plan.slots) - SLOTS_SHOWN),
        zone=zone_of(schedule.timetable),
        is_confirmed=plan.runs > CONFIRMED_ABOVE,
    )


def create_backfill(asked: Asked) -> Moved:
    """Have exactly what was planned made, if the plan still holds."""
    ordered: Ordered = asked.form
    if ordered.runs > CONFIRMED_ABOVE and ordered.confirm != str(ordered.runs):
        problem = f"is not how many runs it makes: {ordered.runs}"
        raise UsageError("confirm", ordered.confirm, problem, f"type {ordered.runs}")
    made = asked.app.backfills.create(
        ordered.schedule,
        since=ordered.since,
        until=ordered.until,
        classes=tuple(ordered.classes) or CHOSEN,
        mode=ordered.mode,
        order=ordered.order,
        per_minute=ordered.per_minute,
        concurrency=ordered.concurrency,
        runs=ordered.runs,
        reason=ordered.reason,
    )
    text = f"{ordered.runs} runs of {made.schedule} are being made, {made.per_minute} a minute"
    return Moved(to=f"/backfills/{made.id}", said=Said(text=text))


PAGES = (
    Page(
        method="GET",
        path="/backfills/plan",
        name="backfill_plan",
        scope="read",
        handler=show_plan,
        query=PlanQuery,
    ),
    Page(
        method="POST",
        path="/backfills/create",
        name="create_backfill",
        scope="edit",
        handler=create_backfill,
        form=Ordered,
    ),
)
