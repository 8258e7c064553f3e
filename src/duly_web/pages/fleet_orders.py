"""Orders about workers, queues and destinations; what can be taken back says how (A1, UX 38)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from duly import UsageError
from duly_web.page import Asked, Moved, Page, Said, Undo

if TYPE_CHECKING:
    from duly_web.page import Handler

FLEET = "/fleet"
UNDONE = {"reason": "undone"}


class FleetOrder(msgspec.Struct, forbid_unknown_fields=True):
    """What a form about a part of the fleet says."""

    reason: str | None = None
    fence: str | None = None
    """`yes`: what a quarantined worker holds is taken from it."""


def drain_worker(asked: Asked) -> Moved:
    """Let a worker claim nothing more, and end."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.drain(worker, reason=form.reason)
    text = f"worker {worker} claims nothing more, and ends when what it holds is done"
    undo = Undo(label="Release", path=f"/fleet/workers/{worker}/release", fields=UNDONE)
    return _said(text, undo)


def quarantine_worker(asked: Asked) -> Moved:
    """Let a worker claim nothing more; it stays, to be looked at."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.quarantine(worker, fence=form.fence == "yes", reason=form.reason)
    undo = Undo(label="Release", path=f"/fleet/workers/{worker}/release", fields=UNDONE)
    return _said(f"worker {worker} is quarantined", undo)


def release_worker(asked: Asked) -> Moved:
    """Let a worker claim again."""
    form: FleetOrder = asked.form
    worker = read_worker(asked)
    asked.app.workers.release(worker, reason=form.reason)
    return _said(f"worker {worker} claims again")


def pause_queue(asked: Asked) -> Moved:
    """Hand out nothing from a queue; what runs goes on."""
    form: FleetOrder = asked.form
    queue = asked.app.queues.pause(asked.path["queue"], reason=form.reason)
    path = f"/fleet/queues/{quote(queue.name, safe='')}/resume"
    return _said(f"queue {queue.name} is paused", Undo(label="Resume", path=path, fields=UNDONE))


def resume_queue(asked: Asked) -> Moved:
    """Hand out again."""
    form: FleetOrder = asked.form
    queue = asked.app.queues.resume(asked.path["queue"], reason=form.reason)
    path = f"/fleet/queues/{quote(queue.name, safe='')}/pause"
    text = f"queue {queue.name} is handed out again"
    return _said(text, Undo(label="Pause again", path=path, fields=UNDONE))


def reset_breaker(asked: Asked) -> Moved:
    """Close a breaker: what waits for its destination goes on."""
    form: FleetOrder = asked.form
    breaker = asked.app.breakers.reset(asked.path["destination"], reason=form.reason)
    return _said(f"{breaker.destination} is called again")


def read_worker(asked: Asked) -> int:
    """Read which worker is meant."""
    text = asked.path["worker"]
    if not text.isdecimal() or len(text) > 18:
        raise UsageError("worker", text, "is not the id of a worker", "take one from the list")
    return int(text)


def _said(text: str, undo: Undo | None = None) -> Moved:
    return Moved(to=FLEET, said=Said(text=text, undo=undo))


def _order(path: str, name: str, handler: Handler) -> Page:
    return Page(method="POST", path=path, name=name, scope="edit", handler=handler, form=FleetOrder)


PAGES = (
    _order("/fleet/workers/{worker}/drain", "drain_worker", drain_worker),
    _order("/fleet/workers/{worker}/quarantine", "quarantine_worker", quarantine_worker),
    _order("/fleet/workers/{worker}/release", "release_worker", release_worker),
    _order("/fleet/queues/{queue}/pause", "pause_queue", pause_queue),
    _order("/fleet/queues/{queue}/resume", "resume_queue", resume_queue),
    _order("/fleet/breakers/{destination}/reset", "reset_breaker", reset_breaker),
)
