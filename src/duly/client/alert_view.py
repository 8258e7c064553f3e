"""Alerts, rules, channels and silences as people see them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.domain.alert_rules import USUAL
from duly.store.alert_rulings import version_of
from duly.timetable.instants import (
    duration_text,
    from_microseconds,
    iso_or_none,
    iso_utc,
    moment_or_none,
)

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from duly.domain.alert_rules import Rule
    from duly.domain.alerts import AlertRecord, DeliveryRecord
    from duly.store.ports.alerts import AlertSettingRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertDelivery:
    """One change of an alert on its way to one channel."""

    id: UUID
    """The same on every try: by it a receiver knows a repetition."""
    change: str
    """`raised` or `resolved`."""
    channel: str
    state: str
    """`pending`, `done` or `given-up`."""
    tries: int
    made_at: datetime
    next_at: datetime | None
    """When it is tried next, while it is pending."""
    settled_at: datetime | None
    error: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "change": self.change,
            "channel": self.channel,
            "state": self.state,
            "tries": self.tries,
            "made_at": iso_utc(self.made_at),
            "next_at": iso_or_none(self.next_at),
            "settled_at": iso_or_none(self.settled_at),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """Something that is wrong, or was."""

    id: UUID
    kind: str
    state: str
    """`pending` until it has held for long enough, `open`, `resolved`."""
    severity: str
    tenant: str | None
    """Whose it is; None for what all tenants share."""
    subject: str
    summary: str
    remedy: str
    evidence: dict[str, Any]
    rule: str
    since: datetime
    """When it began, as far as can be known."""
    raised_at: datetime | None
    told_at: datetime | None
    """When channels were to be told; None while it is silenced."""
    resolved_at: datetime | None
    acknowledged_at: datetime | None
    acknowledged_by: str | None
    acknowledged_reason: str | None
    deliveries: tuple[AlertDelivery, ...] = ()
    """Told by `get` alone."""

    @property
    def is_silenced(self) -> bool:
        """Whether it is open and nobody was told."""
        return self.state == "open" and self.told_at is None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "kind": self.kind,
            "state": self.state,
            "severity": self.severity,
            "tenant": self.tenant,
            "subject": self.subject,
            "summary": self.summary,
            "remedy": self.remedy,
            "evidence": self.evidence,
            "rule": self.rule,
            "since": iso_utc(self.since),
            "raised_at": iso_or_none(self.raised_at),
            "told_at": iso_or_none(self.told_at),
            "resolved_at": iso_or_none(self.resolved_at),
            "acknowledged_at": iso_or_none(self.acknowledged_at),
            "acknowledged_by": self.acknowledged_by,
            "acknowledged_reason": self.acknowledged_reason,
            "is_silenced": self.is_silenced,
            "deliveries": [one.to_json() for one in self.deliveries],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenAlerts:
    """How many alerts of a kind and severity are open."""

    kind: str
    severity: str
    count: int
    silenced: int
    """How many of them nobody was told of."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "count": self.count,
            "silenced": self.silenced,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """When a condition of a kind is an alert."""

    name: str
    kind: str
    threshold: float
    unit: str
    """What the threshold counts: `seconds`, `count` or `times`."""
    meaning: str
    """What it is compared with."""
    hold_for: str
    """How long it must hold before it is raised."""
    clear_for: str
    """How long it must be gone before it is resolved."""
    severity: str
    channels: tuple[str, ...]
    """Who is told; none named: all."""
    is_on: bool
    tenant: str | None
    schedule: str | None
    task: str | None
    queue: str | None
    is_default: bool
    """Whether nobody has set it."""
    version: int
    """Another one with each change, to give back with the next; 0 while nobody has set it."""
    set_at: datetime | None
    set_by: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "threshold": self.threshold,
            "unit": self.unit,
            "meaning": self.meaning,
            "hold_for": self.hold_for,
            "clear_for": self.clear_for,
            "severity": self.severity,
            "channels": list(self.channels),
            "is_on": self.is_on,
            "tenant": self.tenant,
            "schedule": self.schedule,
            "task": self.task,
            "queue": self.queue,
            "is_default": self.is_default,
            "version": self.version,
            "set_at": iso_or_none(self.set_at),
            "set_by": self.set_by,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChannel:
    """Where alerts go."""

    name: str
    kind: str
    options: dict[str, Any]
    """Of a secret, the reference."""
    is_default: bool
    """Whether it is the log, of which nobody has said anything."""
    version: int
    """Another one with each change, to give back with the next; 0 while nobody has set it."""
    set_at: datetime | None
    set_by: str | None
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "name": self.name,
            "kind": self.kind,
            "options": self.options,
            "is_default": self.is_default,
            "version": self.version,
            "set_at": iso_or_none(self.set_at),
            "set_by": self.set_by,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelTest:
    """How a try of a channel went."""

    channel: str
    is_done: bool
    detail: str
    """What the other side said, if it did not take it."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"channel": self.channel, "is_done": self.is_done, "detail": self.detail}


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertSilence:
    """Nobody is told of such alerts, until it is over."""

    id: UUID
    tenant: str | None
    """None for everybody's, and what all share."""
    kinds: tuple[str, ...]
    """None named: all."""
    subject: str | None
    until: datetime
    version: int
    """Another one with each change."""
    set_at: datetime
    set_by: str
    reason: str | None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "id": str(self.id),
            "tenant": self.tenant,
            "kinds": list(self.kinds),
            "subject": self.subject,
            "until": iso_utc(self.until),
            "version": self.version,
            "set_at": iso_utc(self.set_at),
            "set_by": self.set_by,
            "reason": self.reason,
        }


def alert_view(record: AlertRecord, deliveries: Sequence[DeliveryRecord] = ()) -> Alert:
    """Show an alert."""
    return Alert(
        id=UUID(bytes=record.id),
        kind=str(record.kind),
        state=str(record.state),
        severity=str(record.severity),
        tenant=record.tenant or None,
        subject=record.subject,
        summary=record.summary,
        remedy=record.remedy,
        evidence=dict(record.evidence),
        rule=record.rule,
        since=from_microseconds(record.since),
        raised_at=moment_or_none(record.raised_at),
        told_at=moment_or_none(record.told_at),
        resolved_at=moment_or_none(record.resolved_at),
        acknowledged_at=moment_or_none(record.acknowledged_at),
        acknowledged_by=record.acknowledged_by,
        acknowledged_reason=record.acknowledged_reason,
        deliveries=tuple(_delivery_view(one) for one in deliveries),
    )


def count_open(records: Sequence[AlertRecord]) -> tuple[OpenAlerts, ...]:
    """Count open alerts by severity and kind, those that page first."""
    every = Counter((one.severity, one.kind) for one in records)
    silenced = Counter((one.severity, one.kind) for one in records if one.told_at is None)
    return tuple(
        OpenAlerts(
            kind=str(kind), severity=str(severity), count=count, silenced=silenced[severity, kind]
        )
        for (severity, kind), count in sorted(every.items())
    )


def rule_view(rule: Rule, said: AlertSettingRecord | None) -> AlertRule:
    """Show a rule, and who has set it."""
    usual = USUAL[rule.kind]
    return AlertRule(
        name=rule.name,
        kind=str(rule.kind),
        threshold=rule.threshold,
        unit=str(usual.unit),
        meaning=usual.meaning,
        hold_for=duration_text(rule.hold_us),
        clear_for=duration_text(rule.clear_us),
        severity=str(rule.severity),
        channels=rule.channels,
        is_on=rule.is_on,
        tenant=rule.tenant,
        schedule=rule.schedule,
        task=rule.task,
        queue=rule.queue,
        is_default=rule.is_default,
        version=version_of(said),
        set_at=None if said is None else from_microseconds(said.set_at),
        set_by=None if said is None else said.set_by,
        reason=None if said is None else said.reason,
    )


def channel_view(
    name: str,
    kind: str,
    options: Any,  # noqa: ANN401 - JSON
    said: AlertSettingRecord | None,
) -> AlertChannel:
    """Show a channel, and who has set it."""
    return AlertChannel(
        name=name,
        kind=kind,
        options=dict(options),
        is_default=said is None,
        version=version_of(said),
        set_at=None if said is None else from_microseconds(said.set_at),
        set_by=None if said is None else said.set_by,
        reason=None if said is None else said.reason,
    )


def silence_view(said: AlertSettingRecord) -> AlertSilence:
    """Show a silence."""
    assert said.until is not None, "a silence is over some time"
    return AlertSilence(
        id=UUID(said.name),
        tenant=said.tenant or None,
        kinds=tuple(said.terms.get("kinds") or ()),
        subject=said.terms.get("subject"),
        until=from_microseconds(said.until),
        version=said.version,
        set_at=from_microseconds(said.set_at),
        set_by=said.set_by,
        reason=said.reason,
    )


def _delivery_view(record: DeliveryRecord) -> AlertDelivery:
    is_pending = record.settled_at is None
    return AlertDelivery(
        id=UUID(bytes=record.id),
        change=str(record.told),
        channel=record.channel,
        state=str(record.state),
        tries=record.tries,
        made_at=from_microseconds(record.made_at),
        next_at=from_microseconds(record.next_at) if is_pending else None,
        settled_at=moment_or_none(record.settled_at),
        error=record.error,
    )
