"""Workers, queues, destinations, owners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote, urlencode

import msgspec

from duly import UsageError
from duly.api.views import CONFIRMED_ABOVE
from duly.web.pages.runs import RunRow, run_row
from duly.web.requests import Flash, Page, PageRequest, Redirect, Rendered, Undo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly import App
    from duly.api.views import Breaker, GoneOwner, MemberStatus, QuarantinedHost, Queue
    from duly.web.requests import Handler


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
    state: str
    """Of its attempt."""


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


def show_fleet(asked: PageRequest) -> Rendered:
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
    return Rendered(template="fleet.html", model=model, title="Fleet")


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
                state=last.state,
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


FLEET = "/fleet"
UNDONE = {"reason": "undone"}


class FleetOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a part of the fleet says."""

    reason: str | None = None
    fence: str | None = None
    """`yes`: what a quarantined worker holds is taken from it."""


def drain_worker(asked: PageRequest) -> Redirect:
    """Let a worker claim nothing more, and end."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.drain(worker, reason=form.reason)
    text = f"worker {worker} claims nothing more, and ends when what it holds is done"
    undo = Undo(label="Release", path=f"/fleet/workers/{worker}/release", fields=UNDONE)
    return _said(text, undo)


def quarantine_worker(asked: PageRequest) -> Redirect:
    """Let a worker claim nothing more; it stays, to be looked at."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.quarantine(worker, fence=form.fence == "yes", reason=form.reason)
    undo = Undo(label="Release", path=f"/fleet/workers/{worker}/release", fields=UNDONE)
    return _said(f"worker {worker} is quarantined", undo)


def release_worker(asked: PageRequest) -> Redirect:
    """Let a worker claim again."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.release(worker, reason=form.reason)
    return _said(f"worker {worker} claims again")


def pause_queue(asked: PageRequest) -> Redirect:
    """Hand out nothing from a queue; what runs goes on."""
    form: FleetOrder = asked.form
    queue = asked.app.queues.pause(asked.path["queue"], reason=form.reason)
    path = f"/fleet/queues/{quote(queue.name, safe='')}/resume"
    return _said(f"queue {queue.name} is paused", Undo(label="Resume", path=path, fields=UNDONE))


def resume_queue(asked: PageRequest) -> Redirect:
    """Hand out again."""
    form: FleetOrder = asked.form
    queue = asked.app.queues.resume(asked.path["queue"], reason=form.reason)
    path = f"/fleet/queues/{quote(queue.name, safe='')}/pause"
    text = f"queue {queue.name} is handed out again"
    return _said(text, Undo(label="Pause again", path=path, fields=UNDONE))


def reset_breaker(asked: PageRequest) -> Redirect:
    """Close a breaker: what waits for its destination goes on."""
    form: FleetOrder = asked.form
    breaker = asked.app.breakers.reset(asked.path["destination"], reason=form.reason)
    return _said(f"{breaker.destination} is called again")


def read_worker(asked: PageRequest) -> int:
    """Read which worker is meant."""
    text = asked.path["worker"]
    if not text.isdecimal() or len(text) > 18:
        raise UsageError("worker", text, "is not the id of a worker", "take one from the list")
    return int(text)


def _said(text: str, undo: Undo | None = None) -> Redirect:
    return Redirect(to=FLEET, said=Flash(text=text, undo=undo))


def _order(path: str, name: str, handler: Handler) -> Page:
    return Page(method="POST", path=path, name=name, scope="edit", handler=handler, form=FleetOrder)


ORDER_PAGES = (
    _order("/fleet/workers/{worker}/drain", "drain_worker", drain_worker),
    _order("/fleet/workers/{worker}/quarantine", "quarantine_worker", quarantine_worker),
    _order("/fleet/workers/{worker}/release", "release_worker", release_worker),
    _order("/fleet/queues/{queue}/pause", "pause_queue", pause_queue),
    _order("/fleet/queues/{queue}/resume", "resume_queue", resume_queue),
    _order("/fleet/breakers/{destination}/reset", "reset_breaker", reset_breaker),
)


GONE_SHOWN_MAX = 100
GONE_LOOKED_AT_MAX = 1_000
"""Among so many somebody is looked for who is not on the page."""
FIRING_MAX = 1_000
"""So many of an owner's schedules are looked at, as many as one order pauses."""
NAMES_SHOWN_MAX = 20
PLACE = "/owners"
OWNER_UNDONE = "undone"


class OwnersQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Who is looked at, and after whom the list goes on."""

    owner: str | None = None
    cursor: str | None = None


class OwnerOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What is said of an owner."""

    owner: str
    reason: str | None = None
    typed: str = ""
    """How many schedules they are, where they are many."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AffectedSchedules:
    """An owner's schedules that fire, or will again by themselves: an order would pause them."""

    names: tuple[str, ...]
    count: int
    is_cut: bool
    """Whether there may be more."""

    @property
    def more(self) -> int:
        """How many are not named."""
        return self.count - len(self.names)

    @property
    def is_typed(self) -> bool:
        """Whether their number must be typed."""
        return self.count > CONFIRMED_ABOVE


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnersModel:
    """The page."""

    query: OwnersQuery
    rows: tuple[GoneOwner, ...]
    next_cursor: str | None
    owner: str | None
    """Who is looked at,"""
    gone: GoneOwner | None
    """what was said of them,"""
    firing: AffectedSchedules | None
    """and what goes on for them."""


def show_owners(asked: PageRequest) -> Rendered:
    """Show who is gone, and what would be paused if one more were."""
    query: OwnersQuery = asked.query
    page = asked.app.owners.page(limit=GONE_SHOWN_MAX, after=query.cursor or None)
    owner = (query.owner or "").strip() or None
    model = OwnersModel(
        query=query,
        rows=tuple(page.items),
        next_cursor=page.after,
        owner=owner,
        gone=None if owner is None else _find(asked.app, page.items, owner),
        firing=None if owner is None else look_at_firing(asked.app, owner),
    )
    title = "Owners" if owner is None else f"Owner {owner}"
    return Rendered(template="owners.html", model=model, title=title)


def look_at_firing(app: App, owner: str) -> AffectedSchedules:
    """Look at what goes on for an owner, a bounded number."""
    active = app.schedules.page(owner=owner, status="active", limit=FIRING_MAX)
    paused = app.schedules.page(owner=owner, status="paused", limit=FIRING_MAX)
    found = [*active.items, *(one for one in paused.items if one.resume_at is not None)]
    return AffectedSchedules(
        names=tuple(one.name for one in found[:NAMES_SHOWN_MAX]),
        count=len(found),
        is_cut=active.after is not None or paused.after is not None,
    )


def mark_gone(asked: PageRequest) -> Redirect:
    """Say that somebody is gone: what fires for them is paused, and nothing new is made."""
    form: OwnerOrder = asked.form
    firing = look_at_firing(asked.app, form.owner)
    if firing.is_typed and form.typed.strip().replace(",", "") != str(firing.count):
        remedy = f"type {firing.count}, which is how many schedules would be paused"
        raise UsageError("typed", form.typed, "is not the number of schedules", remedy)
    gone = asked.app.owners.gone(form.owner, reason=form.reason or "")
    text = f"{gone.owner} is gone: {_schedules(gone.paused)} paused, and nothing new is made"
    if gone.active:
        text += f"; {_schedules(gone.active)} left: say it again"
    fields = {"owner": gone.owner, "reason": OWNER_UNDONE}
    undo = Undo(label="They are back", path=f"{PLACE}/back", fields=fields)
    return Redirect(to=owner_path(gone.owner), said=Flash(text=text, undo=undo))


def mark_back(asked: PageRequest) -> Redirect:
    """Say that somebody is back; the next page has what was paused, to be chosen and resumed."""
    form: OwnerOrder = asked.form
    was = asked.app.owners.back(form.owner, reason=form.reason or None)
    text = f"{was.owner} is back; what was paused stays so until somebody resumes it"
    fields = {"owner": was.owner, "reason": OWNER_UNDONE}
    undo = Undo(label="Gone after all", path=f"{PLACE}/gone", fields=fields)
    paused = urlencode({"owner": was.owner, "status": "paused"})
    return Redirect(to=f"/schedules?{paused}", said=Flash(text=text, undo=undo))


def owner_path(owner: str) -> str:
    """Return where an owner is looked at."""
    return f"{PLACE}?{urlencode({'owner': owner})}"


def _find(app: App, shown: list[GoneOwner], owner: str) -> GoneOwner | None:
    found = next((one for one in shown if one.owner == owner), None)
    if found is None and len(shown) == GONE_SHOWN_MAX:
        everybody = app.owners.list(limit=GONE_LOOKED_AT_MAX)
        found = next((one for one in everybody if one.owner == owner), None)
    return found


def _schedules(count: int) -> str:
    return "1 schedule is" if count == 1 else f"{count:,} schedules are"


OWNER_PAGES = (
    Page(
        method="GET",
        path=PLACE,
        name="owners",
        scope="read",
        handler=show_owners,
        query=OwnersQuery,
    ),
    Page(
        method="POST",
        path=f"{PLACE}/gone",
        name="mark_owner_gone",
        scope="edit",
        handler=mark_gone,
        form=OwnerOrder,
    ),
    Page(
        method="POST",
        path=f"{PLACE}/back",
        name="mark_owner_back",
        scope="edit",
        handler=mark_back,
        form=OwnerOrder,
    ),
)
