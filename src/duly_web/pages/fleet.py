"""Workers, dispatchers, queues, destinations: who does the work, and what stands still (UX 36)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly_web.page import Asked, Page, Shown
from duly_web.pages.runs import RunRow, run_row

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly import App
    from duly.api.views import Breaker, MemberStatus, QuarantinedHost, Queue

RUNNING_MAX = 200
"""So many runs are looked at for the oldest of each worker and for those that stand still."""

OPEN_STATES = ("claimed", "running", "heartbeat-stale", "stalled")


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerRow:
    """A worker, and the run that it has had for longest."""

    member: MemberStatus
    free: int
    oldest: HeldRun | None


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRun:
    """A run that somebody has, and when it last breathed and advanced."""

    run: RunRow
    worker: int
    started_at: datetime | None
    heartbeat_at: datetime | None
    progress_at: datetime | None
    is_stalled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetModel:
    """The page."""

    workers: tuple[WorkerRow, ...]
    dispatchers: tuple[MemberStatus, ...]
    queues: tuple[Queue, ...]
    breakers: tuple[Breaker, ...]
    hosts: tuple[QuarantinedHost, ...]
    stuck: tuple[HeldRun, ...]
    """The longest without progress first."""
    is_cut: bool
    """Whether there are more runs at work than were looked at."""
    may_order: bool
    """Workers and queues are everybody's: orders about them are for whoever may act everywhere."""


def show_fleet(asked: Asked) -> Shown:
    """Show who is there."""
    app, visitor = asked.app, asked.visitor
    members = [one for one in app.status(with_stale=False).members if one.is_alive]
    held, is_cut = held_runs(app, asked.now)
    workers = [one for one in members if one.kind == "worker"]
    model = FleetModel(
        workers=tuple(_worker(one, held) for one in workers),
        dispatchers=tuple(one for one in members if one.kind == "dispatcher"),
        queues=tuple(app.queues.list()),
        breakers=tuple(app.breakers.list()) if visitor.is_everywhere else (),
        hosts=tuple(app.workers.quarantined_hosts()) if visitor.is_everywhere else (),
        stuck=tuple(sorted(held, key=_last_advance)),
        is_cut=is_cut,
        may_order=visitor.is_everywhere and visitor.may("edit"),
    )
    return Shown(template="fleet.html", model=model, title="Fleet")


def held_runs(app: App, now: datetime) -> tuple[list[HeldRun], bool]:
    """Return what is being done, when each breathed and advanced, and whether there is more."""
    page = app.runs.page(state="running", limit=RUNNING_MAX)
    open_ = app.attempts.page(state=OPEN_STATES, limit=RUNNING_MAX)
    attempts = {one.run: one for one in open_.items}
    held: list[HeldRun] = []
    for run in page.items:
        last = attempts.get(run.id)
        if last is None:
            continue  # it ended while we looked
        held.append(
            HeldRun(
                run=run_row(run, now),
                worker=last.worker,
                started_at=last.started_at,
                heartbeat_at=last.heartbeat_at,
                progress_at=last.progress_at or last.started_at,
                is_stalled=last.state == "stalled",
            )
        )
    return held, page.next_cursor is not None or open_.next_cursor is not None


def _worker(member: MemberStatus, held: Sequence[HeldRun]) -> WorkerRow:
    own = [one for one in held if one.worker == member.id]
    return WorkerRow(
        member=member,
        free=max(0, member.slots - member.leaked - member.running),
        oldest=min(own, key=lambda one: (one.started_at is None, one.started_at), default=None),
    )


def _last_advance(one: HeldRun) -> tuple[bool, float]:
    return one.progress_at is None, one.progress_at.timestamp() if one.progress_at else 0.0


PAGES = (Page(method="GET", path="/fleet", name="fleet", scope="read", handler=show_fleet),)
