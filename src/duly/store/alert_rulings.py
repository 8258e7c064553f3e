"""What every store writes of alerts alike: rows, audit entries, and what is refused."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from duly.domain.alert_rules import AlertKind, Severity
from duly.domain.alerts import (
    AlertId,
    AlertRecord,
    AlertState,
    AlertTransition,
    DeliveryId,
    DeliveryRecord,
    DeliveryState,
    NoticeKind,
    delivery_id,
)
from duly.domain.audit import Actor, AuditSubject, instant_text
from duly.domain.ids import RunId, identity_text
from duly.domain.runs import stored_policy
from duly.errors import Conflict, NotFound, Outdated, UsageError
from duly.store.ports.alerts import (
    TERMS_MAX,
    UNSAID,
    AlertSettingKind,
    AlertSettingRecord,
    TroubledRun,
)
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.domain.alerts import AlertChange
    from duly.store.ports.alerts import (
        AcknowledgeAlert,
        RemoveTerm,
        SetAlertSetting,
        SettleDelivery,
        WatcherFence,
    )
    from duly.store.records import Row

WATCHER = Actor("duly", "watcher")
KNOWN_KINDS = ", ".join(f"'{one}'" for one in AlertKind)
"""For SQL: what is to be told of other kinds waits for the newer program that knows them."""
AUDITED = {
    AlertTransition.RAISED: "alert.raised",
    AlertTransition.TOLD: "alert.told",
    AlertTransition.RESOLVED: "alert.resolved",
}
ALERT_COLUMNS = """id, kind, tenant, subject, state, severity, rule, summary, remedy, evidence,
    labels, told_to, since, seen_at, raised_at, told_at, gone_at, resolved_at, acknowledged_at,
    acknowledged_by, acknowledged_reason"""
WRITTEN_COLUMNS = 18
"""How many of them a watcher writes; the others are people's."""
DELIVERY_COLUMNS = "id, alert_id, told, channel, state, tries, made_at, next_at, settled_at, error"
TERM_COLUMNS = "sort, name, tenant, terms, until, set_at, set_by, reason"


def alert_row(alert: AlertRecord) -> tuple[Any, ...]:
    """Return what a watcher writes of an alert."""
    return (
        alert.id,
        str(alert.kind),
        alert.tenant,
        alert.subject,
        str(alert.state),
        str(alert.severity),
        alert.rule,
        alert.summary,
        alert.remedy,
        _json(alert.evidence),
        _json(alert.labels),
        _json(alert.told_to),
        alert.since,
        alert.seen_at,
        alert.raised_at,
        alert.told_at,
        alert.gone_at,
        alert.resolved_at,
    )


def read_alert(row: Row) -> AlertRecord:
    """Return an alert from its row."""
    identity, kind, tenant, subject, state, severity, *texts = row[:12]
    rule, summary, remedy, evidence, labels, told_to = texts
    since, seen_at, raised_at, told_at, gone_at, resolved_at, at, by, reason = row[12:]
    return AlertRecord(
        id=AlertId(bytes(identity)),
        kind=AlertKind(kind),
        tenant=tenant,
        subject=subject,
        state=AlertState(state),
        severity=Severity(severity),
        rule=rule,
        summary=summary,
        remedy=remedy,
        evidence=json.loads(evidence),
        labels=json.loads(labels),
        told_to=tuple(json.loads(told_to)),
        since=since,
        seen_at=seen_at,
        raised_at=raised_at,
        told_at=told_at,
        gone_at=gone_at,
        resolved_at=resolved_at,
        acknowledged_at=at,
        acknowledged_by=by,
        acknowledged_reason=reason,
    )


def read_alerts(rows: Iterable[Row]) -> list[AlertRecord]:
    """Return alerts from their rows, without those of kinds that only a newer program knows."""
    kinds = set(AlertKind)
    return [read_alert(row) for row in rows if row[1] in kinds]


def new_deliveries(change: AlertChange, now: int) -> list[DeliveryRecord]:
    """Return what is to be delivered of a change."""
    if change.tells is None:
        return []
    return [
        DeliveryRecord(
            id=delivery_id(change.alert.id, change.tells, channel),
            alert_id=change.alert.id,
            told=change.tells,
            channel=channel,
            state=DeliveryState.PENDING,
            tries=0,
            made_at=now,
            next_at=now,
        )
        for channel in change.channels
    ]


def delivery_row(one: DeliveryRecord) -> tuple[Any, ...]:
    """Return a delivery as databases have it."""
    settled = (one.settled_at, one.error)
    words = (str(one.told), one.channel, str(one.state))
    return (one.id, one.alert_id, *words, one.tries, one.made_at, one.next_at, *settled)


def read_delivery(row: Row) -> DeliveryRecord:
    """Return a delivery from its row."""
    identity, alert, told, channel, state, tries, made_at, next_at, settled_at, error = row
    return DeliveryRecord(
        id=DeliveryId(bytes(identity)),
        alert_id=AlertId(bytes(alert)),
        told=NoticeKind(told),
        channel=channel,
        state=DeliveryState(state),
        tries=tries,
        made_at=made_at,
        next_at=next_at,
        settled_at=settled_at,
        error=error,
    )


def read_term(row: Row) -> AlertSettingRecord:
    """Return what somebody has said from its row."""
    sort, name, tenant, terms, until, set_at, set_by, reason = row
    return AlertSettingRecord(
        sort=AlertSettingKind(sort),
        name=name,
        tenant=tenant,
        terms=json.loads(terms),
        until=until,
        set_at=set_at,
        set_by=set_by,
        reason=reason,
    )


def term_row(one: AlertSettingRecord) -> tuple[Any, ...]:
    """Return what somebody has said as databases have it."""
    said = (one.until, one.set_at, one.set_by, one.reason)
    return (str(one.sort), one.name, one.tenant, _json(one.terms), *said)


def new_term(
    command: SetAlertSetting, before: AlertSettingRecord | None, count: int, now: int
) -> AlertSettingRecord:
    """Return what is kept: `before` itself if just this was said already, by an order given again.

    Refuses what is there already, another tenant's, not what it was, or one too many.
    """
    if before is not None and (command.is_new or before.tenant != command.tenant):
        raise taken_term(command)
    if command.version is not None and command.version != version_of(before):
        if before is not None and (before.terms, before.until) == (command.terms, command.until):
            return before
        raise _outdated(command, before)
    if before is None and count >= TERMS_MAX:
        problem = f"would be one more than the {TERMS_MAX:,} that are kept"
        remedy = "remove some that nobody needs"
        raise UsageError(f"alert {command.sort}", command.name, problem, remedy)
    return AlertSettingRecord(
        sort=command.sort,
        name=command.name,
        tenant=command.tenant,
        terms=command.terms,
        until=command.until,
        # A clock that was put back must not repeat a version.
        set_at=now if before is None else max(now, before.set_at + 1),
        set_by=command.actor.name,
        reason=command.actor.reason,
    )


def removed_term(
    command: RemoveTerm, before: AlertSettingRecord | None
) -> AlertSettingRecord | None:
    """Return what is taken back, if there is something; refuse what is not what it was."""
    if before is None or command.tenant not in {None, before.tenant}:
        return None
    if command.version not in {None, before.version}:
        raise _outdated(command, before)
    return before


def version_of(said: AlertSettingRecord | None) -> int:
    """Return which word it is that was said, if one was."""
    return UNSAID if said is None else said.version


def taken_term(command: SetAlertSetting) -> Conflict:
    """Return the refusal of a name that stands for something else."""
    what = f"alert {command.sort}"
    return Conflict(what, command.name, "is there already", "give it another name")


def _outdated(command: SetAlertSetting | RemoveTerm, before: AlertSettingRecord | None) -> Outdated:
    """Return the refusal of an order that is based on what no longer holds."""
    problem = "was taken back meanwhile"
    if before is not None:
        problem = f"was set by {before.set_by} at {instant_text(before.set_at)}, meanwhile"
    remedy = f"look at it again: you saw version {command.version}"
    return Outdated(f"alert {command.sort}", command.name, problem, remedy)


def term_subject(
    sort: AlertSettingKind, before: AlertSettingRecord | None, after: AlertSettingRecord | None
) -> AuditSubject:
    """Return what is told of what was said about alerts."""
    known = after or before
    assert known is not None, "something was said"
    return AuditSubject(
        name=f"{sort} {known.name}",
        tenant=known.tenant,
        before=_said(before),
        after=_said(after),
    )


def alert_subject(alert: AlertRecord, after: dict[str, Any] | None = None) -> AuditSubject:
    """Return what is told of an alert."""
    name = f"{alert.kind} {alert.subject}"
    return AuditSubject(name=name, tenant=alert.tenant, id=alert.id, after=after)


def change_subject(change: AlertChange) -> AuditSubject:
    """Return what is told of an alert that was raised, told or resolved."""
    alert = change.alert
    after: dict[str, Any] = {
        "state": str(alert.state),
        "severity": str(alert.severity),
        "rule": alert.rule,
        "summary": alert.summary,
        "since": instant_text(alert.since),
        "channels": list(change.channels),
    }
    if change.is_silenced:
        after["silenced"] = True
    return alert_subject(alert, after)


def undelivered_subject(alert: AlertRecord, command: SettleDelivery, channel: str) -> AuditSubject:
    """Return what is told of a delivery that was given up."""
    after = {
        "channel": channel,
        "delivery": identity_text(command.id),
        "tries": command.tries + 1,
        "error": command.tried.error,
    }
    return alert_subject(alert, after)


def watch_refused(fence: WatcherFence) -> AuditSubject:
    """Return what is told of a watcher that was no longer the one."""
    after = {"holder": fence.holder.hex(), "epoch": fence.epoch}
    return AuditSubject(name="watch", after=after)


def is_watching(row: Row, fence: WatcherFence, now: int, held_at: int | None = None) -> bool:
    """Say whether the watch is somebody's: epoch, holder, when it was renewed and expires.

    If told when it was held: and whether it was not held again since.
    """
    epoch, holder, renewed_at, expires_at = row[:4]
    is_ours = holder is not None and (bytes(holder), epoch) == (fence.holder, fence.epoch)
    is_newest = held_at in {None, renewed_at}
    return is_ours and is_newest and is_current(renewed_at, expires_at, now)


def require_open(alert: AlertRecord | None, command: AcknowledgeAlert) -> AlertRecord:
    """Refuse to take note of what is not there, another tenant's, or over."""
    remedy = "list them: duly alert list"
    if alert is None or command.tenant not in {None, alert.tenant}:
        raise NotFound("alert", identity_text(command.id), remedy)
    if alert.state is AlertState.RESOLVED:
        raise Conflict("alert", identity_text(command.id), "is resolved", remedy)
    return alert


def read_stalled(rows: Iterable[Row], now: int, limit: int) -> tuple[TroubledRun, ...]:
    """Return those that have not advanced within their task's limit, the longest first."""
    found: list[TroubledRun] = []
    for *facts, policy in rows:
        stall_us = stored_policy(policy).stall_us
        run = TroubledRun(RunId(bytes(facts[0])), *facts[1:])
        if stall_us is not None and now - run.since > stall_us:
            found.append(run._replace(stall_us=stall_us))
    found.sort(key=lambda one: (one.since, one.id))
    return tuple(found[:limit])


def read_tried(rows: Iterable[Row], limit: int) -> tuple[TroubledRun, ...]:
    """Return runs that were tried often, the most tried first."""
    found = [TroubledRun(RunId(bytes(row[0])), *row[1:]) for row in rows]
    found.sort(key=lambda one: (-one.attempt, one.id))
    return tuple(found[:limit])


def stamp(instant: int) -> bytes:
    """Return the least id that begins at an instant."""
    return (max(instant, 0) // 1000 & ((1 << 48) - 1)).to_bytes(6) + bytes(10)


def _said(term: AlertSettingRecord | None) -> dict[str, Any] | None:
    if term is None:
        return None
    until = {} if term.until is None else {"until": instant_text(term.until)}
    return {**term.terms, **until}


def _json(value: object) -> str:
    if isinstance(value, dict | list | str):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"))


def _plain(value: Any) -> Any:  # noqa: ANN401 - JSON values
    is_sequence = isinstance(value, tuple)
    return list(value) if is_sequence else dict(value)


def ordered_terms(terms: Sequence[AlertSettingRecord], now: int) -> list[AlertSettingRecord]:
    """Return terms by name, without silences that are over."""
    living = [one for one in terms if one.until is None or one.until > now]
    return sorted(living, key=lambda one: one.name)
