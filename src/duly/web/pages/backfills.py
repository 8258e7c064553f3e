"""Pages of backfills: the plan, the list, one backfill.

`create_backfill` computes the plan again when it is ordered. If it would make more or fewer runs
than the visitor saw, nothing is done, and the new plan is shown.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from duly import UsageError
from duly.api.views import zone_of
from duly.web.formatting import read_past
from duly.web.pages.runs import RunRow, run_row
from duly.web.rendering import command_text
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from duly.api.views import Backfill, BackfillPlan, PlannedSlot
    from duly.web.requests import Handler


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


class OrderedBackfill(msgspec.Struct, forbid_unknown_fields=True):
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


def show_plan(asked: PageRequest) -> Rendered:
    """Show the form, and below it the plan once there is a span."""
    query: PlanQuery = asked.query
    chosen = tuple(query.classes) or CHOSEN
    model = PlanModel(query=query, chosen=chosen)
    if query.schedule and query.since:
        model = _planned(asked, query, chosen)
    return Rendered(template="backfill_plan.html", model=model, title="Plan a backfill")


def _planned(asked: PageRequest, query: PlanQuery, chosen: tuple[str, ...]) -> PlanModel:
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


def create_backfill(asked: PageRequest) -> Redirect:
    """Have exactly what was planned made, if the plan still holds."""
    ordered: OrderedBackfill = asked.form
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
    return Redirect(to=f"/backfills/{made.id}", said=Flash(text=text))


PLAN_PAGES = (
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
        form=OrderedBackfill,
    ),
)


LISTED_MAX = 100
RUNS_SHOWN = 20
LIVE_RUNS = 100
"""So many of the newest live runs are looked at for how late they begin."""
UNDONE = {"reason": "undone"}


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillRow:
    """One backfill, and how far it is."""

    backfill: Backfill
    percent: float
    left: timedelta | None
    """How long it will take at its rate, as far as that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillsModel:
    """The list."""

    rows: tuple[BackfillRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BackfillModel:
    """One backfill."""

    row: BackfillRow
    runs: tuple[RunRow, ...]
    live_p50: timedelta | None
    live_p99: timedelta | None
    live_runs: int
    command: str


class BackfillForm(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a backfill says."""

    reason: str | None = None
    per_minute: int | None = None
    concurrency: int | None = None


def show_backfills(asked: PageRequest) -> Rendered:
    """Show backfills, newest first."""
    found = asked.app.backfills.list()[:LISTED_MAX]
    rows = tuple(backfill_row(one) for one in found)
    return Rendered(template="backfills.html", model=BackfillsModel(rows=rows), title="Backfills")


def show_backfill(asked: PageRequest) -> Rendered:
    """Show one: how far it is, what it has made, and how late live runs begin beside it."""
    found = asked.app.backfills.get(asked.path["backfill"])
    made = asked.app.runs.page(
        schedule=found.schedule, lane="backfill", since=found.since, limit=RUNS_SHOWN
    )
    lateness = sorted(
        one.lateness
        for one in asked.app.runs.list(lane="live", state="succeeded", limit=LIVE_RUNS)
        if one.lateness is not None
    )
    model = BackfillModel(
        row=backfill_row(found),
        runs=tuple(run_row(one, asked.now) for one in made.items),
        live_p50=_quantile(lateness, 0.5),
        live_p99=_quantile(lateness, 0.99),
        live_runs=len(lateness),
        command=command_text(asked.app.tenant, "backfill", "show", str(found.id)),
    )
    return Rendered(template="backfill.html", model=model, title=f"Backfill of {found.schedule}")


def backfill_row(backfill: Backfill) -> BackfillRow:
    """Show how far one is; the rate says how long the rest takes at least."""
    rest = backfill.total - backfill.looked_at
    left = timedelta(minutes=rest / backfill.per_minute) if backfill.status == "active" else None
    percent = 100 * backfill.looked_at / backfill.total if backfill.total else 100.0
    return BackfillRow(backfill=backfill, percent=percent, left=left)


def _quantile(values: list[timedelta], part: float) -> timedelta | None:
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def pause_backfill(asked: PageRequest) -> Redirect:
    """Make no more runs until it is resumed."""
    form: BackfillForm = asked.form
    done = asked.app.backfills.pause(asked.path["backfill"], reason=form.reason)
    undo = Undo(label="Resume", path=f"/backfills/{done.id}/resume", fields=UNDONE)
    return _said(done, "is paused; what was made goes on", undo)


def resume_backfill(asked: PageRequest) -> Redirect:
    """Go on where it stands."""
    form: BackfillForm = asked.form
    done = asked.app.backfills.resume(asked.path["backfill"], reason=form.reason)
    undo = Undo(label="Pause again", path=f"/backfills/{done.id}/pause", fields=UNDONE)
    return _said(done, "goes on", undo)


def throttle_backfill(asked: PageRequest) -> Redirect:
    """Let it go faster or slower from now on."""
    form: BackfillForm = asked.form
    before = asked.app.backfills.get(asked.path["backfill"])
    done = asked.app.backfills.throttle(
        before.id, per_minute=form.per_minute, concurrency=form.concurrency, reason=form.reason
    )
    fields = {
        "per_minute": str(before.per_minute),
        "concurrency": str(before.concurrency),
        **UNDONE,
    }
    undo = Undo(label="As before", path=f"/backfills/{done.id}/throttle", fields=fields)
    pace = f"makes {done.per_minute} a minute now, {done.concurrency} at a time"
    return _said(done, pace, undo)


def cancel_backfill(asked: PageRequest) -> Redirect:
    """Make no more runs, for good."""
    form: BackfillForm = asked.form
    done = asked.app.backfills.cancel(asked.path["backfill"], reason=form.reason)
    return _said(done, "is cancelled; what was made goes on", None)


def _said(backfill: Backfill, what: str, undo: Undo | None) -> Redirect:
    text = f"the backfill of {backfill.schedule} {what}"
    return Redirect(to=f"/backfills/{backfill.id}", said=Flash(text=text, undo=undo))


def _order(verb: str, handler: Handler) -> Page:
    return Page(
        method="POST",
        path=f"/backfills/{{backfill}}/{verb}",
        name=f"{verb}_backfill",
        scope="edit",
        handler=handler,
        form=BackfillForm,
    )


PAGES = (
    Page(method="GET", path="/backfills", name="backfills", scope="read", handler=show_backfills),
    Page(
        method="GET",
        path="/backfills/{backfill}",
        name="backfill",
        scope="read",
        handler=show_backfill,
    ),
    _order("pause", pause_backfill),
    _order("resume", resume_backfill),
    _order("throttle", throttle_backfill),
    _order("cancel", cancel_backfill),
)
