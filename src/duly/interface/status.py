"""The state of everything over the wire, on one screen."""

from __future__ import annotations

from duly.interface.members import Member
from duly.interface.shapes import Asked, Instant, Shown


class OpenAlerts(Shown, frozen=True, kw_only=True):
    """How many alerts of a kind and severity are open."""

    kind: str
    severity: str
    count: int
    silenced: int


class Status(Shown, frozen=True, kw_only=True):
    """What is promised, what is due, what waits for a worker, and who keeps time."""

    store: str
    tenant: str | None
    now: Instant
    schedules: dict[str, int]
    delayed: int
    queued: int
    owed: int
    overdue: int
    oldest_due_at: Instant | None
    next_due_at: Instant | None
    early_fires: int
    members: list[Member]
    leases_owned: int
    leases_total: int
    shards: int
    tzdata: str
    incarnation: int
    queues: dict[str, int]
    running: int
    retrying: int
    dead: int
    ambiguous: int
    paused_queues: list[str]
    taskless: list[str]
    stale: list[str]
    """Active schedules whose last useful completion is old, each in a sentence."""
    judged: int
    """How many were asked for it: the first hundred by name, and those that alerts are about."""
    alerts: list[OpenAlerts]
    """How many alerts are open, by severity and kind."""
    tenants: dict[str, dict[str, int]]
    """Open runs by tenant and state, for a token that sees all; of each the first thousand."""


class StatusAsked(Asked, frozen=True, kw_only=True):
    """Of whom the state is told."""

    own: bool = False
    """Of the tenant alone that is asked for, also to a token that sees all."""


class Ready(Shown, frozen=True, kw_only=True):
    """Whether the server can do what it is there for."""

    is_ready: bool
