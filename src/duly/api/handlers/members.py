"""Members over HTTP: the dispatchers and workers of the fleet, and who is out of service."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers.parts import given, look, order, whole
from duly.errors import UsageError
from duly.interface.members import Member, QuarantinedHost, QuarantineWorker, ReleaseWorker
from duly.interface.runs import Justified
from duly.interface.shapes import Page
from duly.store.ports.dispatch import MemberKind

if TYPE_CHECKING:
    from duly.api.route import ApiRequest, Route

WORKER_DIGITS_MAX = 19


def list_workers(received: ApiRequest) -> Page[Member]:
    """Return the workers: who is alive, what they serve, and how busy they are."""
    return whole(Member, received.app.status().workers)


def list_dispatchers(received: ApiRequest) -> Page[Member]:
    """Return the dispatchers: who is alive, and how much of time each owns."""
    found = received.app.status().members
    return whole(Member, [one for one in found if one.kind == MemberKind.DISPATCHER])


def list_quarantined_hosts(received: ApiRequest) -> Page[QuarantinedHost]:
    """Return hosts of which no worker claims anything, by name."""
    return whole(QuarantinedHost, received.app.workers.quarantined_hosts())


def drain_worker(received: ApiRequest) -> Member:
    """Let a worker claim nothing more, and end when what it holds is done."""
    reason = received.body.reason
    return Member.from_view(received.app.workers.drain(_worker(received), reason=reason))


def quarantine_worker(received: ApiRequest) -> Member:
    """Let a worker claim nothing more until it is released; it stays, to be looked at."""
    terms = given(received.body)
    return Member.from_view(received.app.workers.quarantine(_worker(received), **terms))


def release_worker(received: ApiRequest) -> Member:
    """Let a worker claim again, or all of its host."""
    terms = given(received.body)
    return Member.from_view(received.app.workers.release(_worker(received), **terms))


def _worker(received: ApiRequest) -> int:
    text = received.path["worker"]
    if not (text.isascii() and text.isdecimal() and len(text) < WORKER_DIGITS_MAX):
        raise UsageError("worker", text, "is not a number", "give the id of one: GET /workers")
    return int(text)


_ONE = "/workers/{worker}"
ROUTES: tuple[Route, ...] = (
    look("/dispatchers", list_dispatchers, Page[Member]),
    look("/workers", list_workers, Page[Member]),
    look("/workers/quarantined-hosts", list_quarantined_hosts, Page[QuarantinedHost]),
    order(f"{_ONE}/drain", drain_worker, Justified, Member),
    order(f"{_ONE}/quarantine", quarantine_worker, QuarantineWorker, Member),
    order(f"{_ONE}/release", release_worker, ReleaseWorker, Member),
)
