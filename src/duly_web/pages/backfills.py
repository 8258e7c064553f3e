"""Backfills: the list, one of them as it goes on, and steering it (UX 34, 35, M2)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import msgspec

from duly_web.commands import command_text
from duly_web.page import Asked, Moved, Page, Said, Shown, Undo
from duly_web.pages.runs import RunRow, run_row

if TYPE_CHECKING:
    from duly.api.views import Backfill
    from duly_web.page import Handler

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


class BackfillOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a backfill says."""

    reason: str | None = None
    per_minute: int | None = None
    concurrency: int | None = None


def show_backfills(asked: Asked) -> Shown:
    """Show backfills, newest first."""
    found = asked.app.backfills.list()[:LISTED_MAX]
    rows = tuple(backfill_row(one) for one in found)
    return Shown(template="backfills.html", model=BackfillsModel(rows=rows), title="Backfills")


def show_backfill(asked: Asked) -> Shown:
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
    return Shown(template="backfill.html", model=model, title=f"Backfill of {found.schedule}")


def backfill_row(backfill: Backfill) -> BackfillRow:
    """Show how far one is; the rate says how long the rest takes at least."""
    rest = backfill.total - backfill.looked_at
    left = timedelta(minutes=rest / backfill.per_minute) if backfill.status == "active" else None
    percent = 100 * backfill.looked_at / backfill.total if backfill.total else 100.0
    return BackfillRow(backfill=backfill, percent=percent, left=left)


def _quantile(values: list[timedelta], part: float) -> timedelta | None:
    return values[min(len(values) - 1, int(part * len(values)))] if values else None


def pause_backfill(asked: Asked) -> Moved:
    """Make no more runs until it is resumed."""
    form: BackfillOrder = asked.form
    done = asked.app.backfills.pause(asked.path["backfill"], reason=form.reason)
    undo = Undo(label="Resume", path=f"/backfills/{done.id}/resume", fields=UNDONE)
    return _said(done, "is paused; what was made goes on", undo)


def resume_backfill(asked: Asked) -> Moved:
    """Go on where it stands."""
    form: BackfillOrder = asked.form
    done = asked.app.backfills.resume(asked.path["backfill"], reason=form.reason)
    undo = Undo(label="Pause again", path=f"/backfills/{done.id}/pause", fields=UNDONE)
    return _said(done, "goes on", undo)


def throttle_backfill(asked: Asked) -> Moved:
    """Let it go faster or slower from now on."""
    form: BackfillOrder = asked.form
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


def cancel_backfill(asked: Asked) -> Moved:
    """Make no more runs, for good."""
    form: BackfillOrder = asked.form
    done = asked.app.backfills.cancel(asked.path["backfill"], reason=form.reason)
    return _said(done, "is cancelled; what was made goes on", None)


def _said(backfill: Backfill, what: str, undo: Undo | None) -> Moved:
    text = f"the backfill of {backfill.schedule} {what}"
    return Moved(to=f"/backfills/{backfill.id}", said=Said(text=text, undo=undo))


def _order(verb: str, handler: Handler) -> Page:
    return Page(
        method="POST",
        path=f"/backfills/{{backfill}}/{verb}",
        name=f"{verb}_backfill",
        scope="edit",
        handler=handler,
        form=BackfillOrder,
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
