"""Alerts over the wire: what is wrong, who was told, and what people say about it."""

from __future__ import annotations

from typing import Any

from duly.interface.shapes import Asked, Duration, Identity, Instant, InstantText, Reason, Shown


class AlertDelivery(Shown, frozen=True, kw_only=True):
    """One change of an alert on its way to one channel."""

    id: Identity
    change: str
    channel: str
    state: str
    tries: int
    made_at: Instant
    next_at: Instant | None
    settled_at: Instant | None
    error: str | None


class Alert(Shown, frozen=True, kw_only=True):
    """Something that is wrong, or was."""

    id: Identity
    kind: str
    state: str
    """pending, open or resolved."""
    severity: str
    """page or warn."""
    tenant: str | None
    """None for what all tenants share."""
    subject: str
    summary: str
    remedy: str
    evidence: dict[str, Any]
    rule: str
    since: Instant
    raised_at: Instant | None
    told_at: Instant | None
    resolved_at: Instant | None
    acknowledged_at: Instant | None
    acknowledged_by: str | None
    acknowledged_reason: str | None
    is_silenced: bool
    deliveries: list[AlertDelivery]
    """Of one alert that is asked for; empty in a list."""


class AlertRule(Shown, frozen=True, kw_only=True):
    """When a condition of a kind is an alert."""

    name: str
    kind: str
    threshold: float
    unit: str
    meaning: str
    hold_for: Duration
    clear_for: Duration
    severity: str
    channels: list[str]
    is_on: bool
    tenant: str | None
    schedule: str | None
    task: str | None
    queue: str | None
    is_default: bool
    version: int
    """Also the ETag; an edit gives it back, and is refused if somebody else was faster."""
    set_at: Instant | None
    set_by: str | None
    reason: str | None


class AlertChannel(Shown, frozen=True, kw_only=True):
    """Where alerts go."""

    name: str
    kind: str
    options: dict[str, Any]
    is_default: bool
    version: int
    """Also the ETag; an edit gives it back, and is refused if somebody else was faster."""
    set_at: Instant | None
    set_by: str | None
    reason: str | None


class ChannelTest(Shown, frozen=True, kw_only=True):
    """How a try of a channel went."""

    channel: str
    is_done: bool
    detail: str


class AlertSilence(Shown, frozen=True, kw_only=True):
    """Nobody is told of such alerts, until it is over."""

    id: Identity
    tenant: str | None
    kinds: list[str]
    subject: str | None
    until: Instant
    version: int
    set_at: Instant
    set_by: str
    reason: str | None


class AlertsAsked(Asked, frozen=True, kw_only=True):
    """Which alerts."""

    state: list[str] | None = None
    """open unless given; pending, resolved, or all."""
    kind: str | None = None
    before: str | None = None
    """The last alert of a list that was cut short: the next ones are told."""
    limit: int | None = None


class SilenceAlerts(Asked, frozen=True, kw_only=True):
    """Tell nobody of such alerts for a while."""

    reason: Reason
    duration: Duration | None = None
    until: InstantText | None = None
    kind: list[str] | None = None
    subject: str | None = None
    tenant: str | None = None


class SetAlertRule(Asked, frozen=True, kw_only=True):
    """A rule; what is not given stays."""

    kind: str | None = None
    threshold: float | str | None = None
    hold_for: Duration | None = None
    clear_for: Duration | None = None
    severity: str | None = None
    channels: list[str] | None = None
    is_on: bool | None = None
    tenant: str | None = None
    schedule: str | None = None
    task: str | None = None
    queue: str | None = None
    reason: Reason | None = None


class SetAlertChannel(Asked, frozen=True, kw_only=True):
    """A channel, in place of what was said under its name before."""

    kind: str
    options: dict[str, Any] | None = None
    reason: Reason | None = None
