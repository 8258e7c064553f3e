"""Alert lifecycle: conditions detected, alerts raised, silenced, resolved, delivery retries.

Detectors return conditions: a subject, what is wrong with it, and one number. A rule sets the
threshold from which a condition is an alert. `decide` compares the detected conditions with the
recorded alerts and returns what changes:

    nothing ──seen──▶ pending ──held long enough──▶ open ──gone long enough──▶ resolved
                         └─────gone: forgotten          └──back in time: as it was

An alert is raised once for as long as its condition holds, and resolves itself. While it is open,
its text and evidence follow what detectors see; no further notice is sent. A condition that
comes and goes within `clear_for` is one alert and not many. An alert whose subject was not examined
stays as it was.

A silence suppresses the notice of an alert and not its record. If the alert outlasts the silence,
the notice is sent when the silence ends. The end of an alert whose beginning was sent is always
sent, so that a receiver never keeps an alert open by mistake.

`CreationRate` learns the usual rate as a mean in which the last hour weighs most. Until it has
watched for a while no rate is unusual, and small numbers are never unusual.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import StrEnum
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple, NewType

from duly.domain.schedules import canonical_json
from duly.timetable.instants import DAY, HOUR, SECOND_US

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from duly.domain.alert_rules import AlertKind, Rule, Rulebook, Severity


TRIES_MAX = 30
FIRST_WAIT_US = 5 * SECOND_US
WAIT_MAX_US = HOUR * SECOND_US
KEPT_UP_US = DAY * SECOND_US
"""How long it is tried: who was away for longer hears of it by looking."""
ERROR_LENGTH_MAX = 1000


class DeliveryState(StrEnum):
    """What has become of a delivery."""

    PENDING = "pending"
    DONE = "done"
    GIVEN_UP = "given-up"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryRecord:
    """One change of an alert on its way to one channel; its id is the key against repetition."""

    id: DeliveryId
    alert_id: AlertId
    told: NoticeKind
    channel: str
    state: DeliveryState
    tries: int
    made_at: int
    next_at: int
    """When it is tried next, while it is pending."""
    settled_at: int | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class DeliveryOutcome:
    """What becomes of a delivery after a try."""

    state: DeliveryState
    wait_us: int = 0
    error: str | None = None


def conclude_try(
    delivery: DeliveryRecord, result: tuple[bool, bool, str], retry_us: int | None, now: int
) -> DeliveryOutcome:
    """Decide: done, tried again later, or given up. Total; the wait doubles, up to an hour.

    The result says whether it is done, whether trying again is of no use, and what was said.
    """
    is_done, is_final, detail = result
    if is_done:
        return DeliveryOutcome(DeliveryState.DONE)
    error = detail[:ERROR_LENGTH_MAX]
    tries = delivery.tries + 1
    if is_final or tries >= TRIES_MAX or now - delivery.made_at >= KEPT_UP_US:
        return DeliveryOutcome(DeliveryState.GIVEN_UP, error=error)
    doubled = min(FIRST_WAIT_US << min(tries - 1, 20), WAIT_MAX_US)
    wait_us = doubled if retry_us is None else min(max(retry_us, FIRST_WAIT_US), WAIT_MAX_US)
    return DeliveryOutcome(DeliveryState.PENDING, wait_us=wait_us, error=error)


AlertId = NewType("AlertId", bytes)
DeliveryId = NewType("DeliveryId", bytes)

ALERTS_OPEN_MAX = 1000
"""How many are pending or open at a time; what comes on top waits until some are over."""
SUBJECT_LENGTH_MAX = 500


class AlertState(StrEnum):
    """How far an alert has come."""

    PENDING = "pending"
    OPEN = "open"
    RESOLVED = "resolved"


class NoticeKind(StrEnum):
    """What a channel is told."""

    RAISED = "raised"
    RESOLVED = "resolved"


class AlertKey(NamedTuple):
    """What there is one alert about at a time."""

    kind: AlertKind
    tenant: str
    """Empty for what all tenants share."""
    subject: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """Something that is so, by what was seen."""

    kind: AlertKind
    tenant: str = ""
    subject: str
    value: float
    """What rules compare."""
    since: int
    """When it began, as far as can be known."""
    summary: str
    remedy: str
    evidence: Mapping[str, Any] = field(default_factory=dict)
    labels: Mapping[str, str] = field(default_factory=dict)
    """By which rules are narrowed: schedule, task, queue."""

    @property
    def key(self) -> AlertKey:
        """What an alert of it would be about."""
        return AlertKey(self.kind, self.tenant, self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorResult:
    """What was seen, and how far was looked: of the rest nothing is known."""

    conditions: tuple[Condition, ...] = ()
    kinds: frozenset[AlertKind] = frozenset()
    """Of these everything was looked at."""
    keys: frozenset[AlertKey] = frozenset()
    """These were looked at besides."""

    def covers(self, key: AlertKey) -> bool:
        """Say whether a condition of that key would have been seen."""
        return key.kind in self.kinds or key in self.keys


def joined(observations: Iterable[DetectorResult]) -> DetectorResult:
    """Return what several detectors have seen together."""
    parts = list(observations)
    return DetectorResult(
        conditions=tuple(one for part in parts for one in part.conditions),
        kinds=frozenset().union(*(part.kinds for part in parts)),
        keys=frozenset().union(*(part.keys for part in parts)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRecord:
    """An alert, as the store knows it."""

    id: AlertId
    kind: AlertKind
    tenant: str
    subject: str
    state: AlertState
    severity: Severity
    rule: str
    summary: str
    remedy: str
    evidence: Mapping[str, Any]
    labels: Mapping[str, str]
    since: int
    seen_at: int
    """When it was first seen."""
    raised_at: int | None = None
    told_at: int | None = None
    """When channels were to be told; None while it is silenced, or pending."""
    told_to: tuple[str, ...] = ()
    """The channels that were: they are told of its end."""
    gone_at: int | None = None
    """Since when the condition is not seen; None while it is."""
    resolved_at: int | None = None
    acknowledged_at: int | None = None
    acknowledged_by: str | None = None
    acknowledged_reason: str | None = None

    @property
    def key(self) -> AlertKey:
        """What it is about."""
        return AlertKey(self.kind, self.tenant, self.subject)


@dataclass(frozen=True, slots=True, kw_only=True)
class Silence:
    """Nobody is told of such alerts, until it is over."""

    id: str
    tenant: str | None = None
    """None for all."""
    kinds: frozenset[AlertKind] = frozenset()
    """None named: all."""
    subject: str | None = None
    """As alerts have it; one that ends with * stands for all that begin so."""
    until: int

    def covers(self, alert: AlertRecord, now: int) -> bool:
        """Say whether it keeps an alert from being told."""
        if now >= self.until or self.tenant not in {None, alert.tenant}:
            return False
        if self.kinds and alert.kind not in self.kinds:
            return False
        if self.subject is None:
            return True
        stem = self.subject.removesuffix("*")
        is_stem = stem != self.subject
        return alert.subject.startswith(stem) if is_stem else alert.subject == self.subject


class MatchedCondition(NamedTuple):
    """A condition, and the rule by which it is an alert."""

    condition: Condition
    rule: Rule


class AlertTransition(StrEnum):
    """What becomes of an alert."""

    NOTED = "noted"
    """It is pending."""
    FORGOTTEN = "forgotten"
    """It was pending, and is gone."""
    RAISED = "raised"
    TOLD = "told"
    """It was silenced, and is told now."""
    GONE = "gone"
    """Its condition is not seen; if that stays so, it is resolved."""
    BACK = "back"
    UPDATED = "updated"
    """Its facts have changed: its text is that of the last look. No channel is notified again."""
    RESOLVED = "resolved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertChange:
    """One alert as it becomes, and who is told what."""

    step: AlertTransition
    alert: AlertRecord
    tells: NoticeKind | None = None
    channels: tuple[str, ...] = ()
    is_silenced: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertPolicy:
    """What alerts are judged by."""

    rules: Rulebook
    silences: tuple[Silence, ...] = ()
    channels: tuple[str, ...] = ()
    """All there are, by name."""


def decide(
    alerts: Sequence[AlertRecord], seen: DetectorResult, standards: AlertPolicy, now: int
) -> list[AlertChange]:
    """Say what changes, of alerts that are pending or open and what was seen. Total."""
    held: dict[AlertKey, MatchedCondition] = {}
    for condition in seen.conditions:
        rule = standards.rules.rule_for(condition)
        if rule is not None and rule.is_on and condition.value >= rule.threshold:
            held.setdefault(condition.key, MatchedCondition(condition, rule))
    known = {alert.key for alert in alerts}
    room = max(ALERTS_OPEN_MAX - len(known), 0)
    fresh = [found for key, found in held.items() if key not in known][:room]
    changes: list[AlertChange | None] = [_begin(found, standards, now) for found in fresh]
    for alert in alerts:
        found = held.get(alert.key)
        if found is not None:
            changes.append(_go_on(alert, found, standards, now))
        elif seen.covers(alert.key):
            changes.append(_fade(alert, standards, now))
        else:
            changes.append(_tell_late(alert, standards, now))
    return [change for change in changes if change is not None]


def _begin(found: MatchedCondition, standards: AlertPolicy, now: int) -> AlertChange:
    condition, rule = found
    alert = AlertRecord(
        id=alert_id(condition.key, now),
        kind=condition.kind,
        tenant=condition.tenant,
        subject=condition.subject,
        state=AlertState.PENDING,
        severity=rule.severity,
        rule=rule.name,
        summary=condition.summary,
        remedy=condition.remedy,
        evidence=condition.evidence,
        labels=condition.labels,
        since=min(condition.since, now),
        seen_at=now,
    )
    if rule.hold_us > 0:
        return AlertChange(step=AlertTransition.NOTED, alert=alert)
    return _raise(alert, rule, standards, now)


def _go_on(
    alert: AlertRecord, found: MatchedCondition, standards: AlertPolicy, now: int
) -> AlertChange | None:
    """Go on with one whose condition is seen."""
    condition, rule = found
    if alert.state is AlertState.PENDING:
        if alert.seen_at > now:
            # As below: nobody waits until that time has come again.
            return AlertChange(step=AlertTransition.NOTED, alert=replace(alert, seen_at=now))
        if now - alert.seen_at < rule.hold_us:
            return None
        newest = replace(_updated(alert, condition), severity=rule.severity, rule=rule.name)
        return _raise(newest, rule, standards, now)
    # The text tells how long something has been so: only other facts are worth a write.
    has_changed = canonical_json(condition.evidence) != canonical_json(alert.evidence)
    newest = replace(_updated(alert, condition), gone_at=None)
    late = _tell_late(newest, standards, now)
    if late is not None:
        return late
    if alert.gone_at is not None:
        return AlertChange(step=AlertTransition.BACK, alert=newest)
    return AlertChange(step=AlertTransition.UPDATED, alert=newest) if has_changed else None


def _updated(alert: AlertRecord, condition: Condition) -> AlertRecord:
    return replace(
        alert,
        summary=condition.summary,
        remedy=condition.remedy,
        evidence=condition.evidence,
    )


def _raise(alert: AlertRecord, rule: Rule, standards: AlertPolicy, now: int) -> AlertChange:
    raised = replace(alert, state=AlertState.OPEN, raised_at=now)
    if _is_silenced(raised, standards, now):
        return AlertChange(step=AlertTransition.RAISED, alert=raised, is_silenced=True)
    channels = _channels(rule, standards)
    return AlertChange(
        step=AlertTransition.RAISED,
        alert=replace(raised, told_at=now, told_to=channels),
        tells=NoticeKind.RAISED,
        channels=channels,
    )


def _fade(alert: AlertRecord, standards: AlertPolicy, now: int) -> AlertChange | None:
    """Go on with one whose condition is not seen though it was looked for."""
    if alert.state is AlertState.PENDING:
        return AlertChange(step=AlertTransition.FORGOTTEN, alert=alert)
    rule = standards.rules.named(alert.rule, alert.kind)
    # A clock that ran ahead and was put right leaves instants that are still to come.
    gone_at = now if alert.gone_at is None else min(alert.gone_at, now)
    if now - gone_at < rule.clear_us:
        is_noted = alert.gone_at == gone_at
        return (
            None
            if is_noted
            else AlertChange(step=AlertTransition.GONE, alert=replace(alert, gone_at=gone_at))
        )
    is_told = alert.told_at is not None
    return AlertChange(
        step=AlertTransition.RESOLVED,
        alert=replace(alert, state=AlertState.RESOLVED, gone_at=gone_at, resolved_at=now),
        tells=NoticeKind.RESOLVED if is_told else None,
        channels=tuple(one for one in alert.told_to if one in standards.channels),
    )


def _tell_late(alert: AlertRecord, standards: AlertPolicy, now: int) -> AlertChange | None:
    """Tell of one that was silenced when it was raised, once it is not."""
    is_untold = alert.state is AlertState.OPEN and alert.told_at is None
    if not is_untold or _is_silenced(alert, standards, now):
        return None
    rule = standards.rules.named(alert.rule, alert.kind)
    channels = _channels(rule, standards)
    return AlertChange(
        step=AlertTransition.TOLD,
        alert=replace(alert, told_at=now, told_to=channels),
        tells=NoticeKind.RAISED,
        channels=channels,
    )


def _is_silenced(alert: AlertRecord, standards: AlertPolicy, now: int) -> bool:
    return any(one.covers(alert, now) for one in standards.silences)


def _channels(rule: Rule, standards: AlertPolicy) -> tuple[str, ...]:
    named = tuple(one for one in rule.channels if one in standards.channels)
    # Whoever was to be told is there no more: everybody is better than nobody.
    return named or standards.channels


def alert_id(key: AlertKey, seen_at: int) -> AlertId:
    """Return the id of an alert: computed, so that what is decided twice is one alert."""
    framed = "\0".join((*map(str, key), str(seen_at))).encode()
    return AlertId(_identity(seen_at, b"alert", framed))


def delivery_id(alert: AlertId, told: NoticeKind, channel: str) -> DeliveryId:
    """Return the id of a delivery: the same however often it is decided and tried."""
    framed = alert + b"\0".join((str(told).encode(), channel.encode()))
    return DeliveryId(blake2b(framed, digest_size=16, person=b"duly.delivery").digest())


def _identity(at: int, what: bytes, framed: bytes) -> bytes:
    """Return sixteen bytes that sort by time, in the form of a UUID of version 8."""
    rest = int.from_bytes(blake2b(framed, digest_size=10, person=b"duly." + what).digest())
    high = (at // 1000 & ((1 << 48) - 1)) << 16 | 8 << 12 | rest >> 62 & 0xFFF
    return (high << 64 | 0b10 << 62 | rest & ((1 << 62) - 1)).to_bytes(16)


SHARE = 1 / 240
"""How much one look weighs, four a minute: the mean follows within an hour or so."""
LOOKS_MIN = 40
"""Ten minutes of watching."""
LOOKS_COUNTED_MAX = 1_000_000
FEW = 30.0
"""So many in a minute are nothing out of the ordinary, wherever."""


class CreationRate(NamedTuple):
    """What was learnt so far."""

    usual: float = 0.0
    """In a minute."""
    looks: int = 0

    def after(self, made: int) -> CreationRate:
        """Return what is learnt by another look at the last minute."""
        # At first every look weighs as much as those before it.
        share = max(SHARE, 1 / (self.looks + 1))
        # Once it is known, what is out of the ordinary does not at once become ordinary.
        most = 2 * max(self.usual, FEW)
        learnt = made if self.looks < LOOKS_MIN else min(made, most)
        usual = self.usual + (learnt - self.usual) * share
        return CreationRate(round(usual, 3), min(self.looks + 1, LOOKS_COUNTED_MAX))

    def times(self, made: int) -> float:
        """Say how many times the usual number were made; 0 while that is not known."""
        return made / max(self.usual, FEW) if self.looks >= LOOKS_MIN else 0.0


def rate_from_json(stored: object) -> CreationRate:
    """Read what a watcher before has learnt; nothing, if it can't be read."""
    match stored:
        case [int() | float() as usual, int(looks)] if usual >= 0 and looks >= 0:
            return CreationRate(float(usual), looks)
        case _:
            return CreationRate()
