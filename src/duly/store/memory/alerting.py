"""Alerts on the memory store: the watch, what is on record, deliveries, and what people say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from duly.domain.alerts import WAIT_MAX_US, AlertState, AlertTransition, DeliveryState, NoticeKind
from duly.store.alert_rulings import (
    AUDITED,
    WATCHER,
    alert_subject,
    change_subject,
    is_watching,
    new_deliveries,
    new_term,
    ordered_terms,
    removed_term,
    require_open,
    term_subject,
    undelivered_subject,
    watch_refused,
)
from duly.store.memory.trouble import find_trouble
from duly.store.ports.alerts import (
    ALERTS_KEPT_US,
    LISTED_MAX,
    DueDeliveries,
    DueDelivery,
    Watch,
    Watched,
)
from duly.store.ports.auth import of_tenant
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from duly.domain.alerts import AlertChange, AlertId, AlertRecord, DeliveryRecord
    from duly.store.memory.tables import Journal, Tables
    from duly.store.ports.alerts import (
        AcknowledgeAlert,
        AlertFilter,
        AlertSettingKind,
        AlertSettingRecord,
        ApplyAlerts,
        FindTrouble,
        RemoveTerm,
        RenewWatcherLease,
        SetAlertSetting,
        SettleDelivery,
        UnusualRuns,
        WatcherFence,
    )

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WatchRow:
    """Who has the watch, and until when."""

    epoch: int = 0
    holder: bytes | None = None
    renewed_at: int = 0
    expires_at: int = 0
    name: str = ""
    notes: str = ""

    def as_row(self) -> tuple[int, bytes | None, int, int]:
        """Return what a fence is compared with."""
        return (self.epoch, self.holder, self.renewed_at, self.expires_at)


NOBODY = WatchRow()


class MemoryAlerting(ABC):
    """What watchers do, and what people look at and say."""

    tables: Tables

    @abstractmethod
    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables."""

    def hold_watch(self, command: RenewWatcherLease) -> Watch:
        """Take the watch, or renew it."""
        return self._write(lambda journal: _hold(journal, command))

    def release_watch(self, fence: WatcherFence) -> None:
        """Give up the watch, if it is still ours."""

        def release(journal: Journal) -> None:
            row = watch_row(journal)
            if (row.holder, row.epoch) == fence:
                journal.put(journal.tables.watch, 0, replace(row, holder=None))

        self._write(release)

    def load_watched(self) -> Watched:
        """Return what a watcher decides upon."""

        def read(journal: Journal) -> Watched:
            live = [one for one in self.tables.alerts.values() if _is_live(one)]
            terms = ordered_terms(list(self.tables.alert_terms.values()), journal.now)
            alerts = tuple(sorted(live, key=lambda one: one.id))
            return Watched(now=journal.now, alerts=alerts, terms=tuple(terms))

        return self._read(read)

    def apply_alerts(self, command: ApplyAlerts) -> bool:
        """Write changes, deliveries and audit entries together."""

        def apply(journal: Journal) -> bool:
            if not is_watch_ours(journal, command.fence, command.held_at):
                return False
            for change in command.changes:
                _apply(journal, change)
            return True

        return self._write(apply)

    def load_deliveries(self, limit: int, without: Collection[str] = ()) -> DueDeliveries:
        """Return deliveries whose time has come, each channel's in its turn."""

        def read(journal: Journal) -> DueDeliveries:
            tables, now = journal.tables, journal.now
            rows = tables.alert_deliveries.values()
            pending = [one for one in rows if one.state is DeliveryState.PENDING]
            begun = {
                (one.alert_id, one.channel) for one in pending if one.told is NoticeKind.RAISED
            }
            pending = [one for one in pending if one.channel not in without]
            due = _in_turn([one for one in pending if _is_due(one, begun, now)])[:limit]
            listed = tuple(DueDelivery(one, tables.alerts[one.alert_id]) for one in due)
            later = [one.next_at for one in pending if now < one.next_at <= now + WAIT_MAX_US]
            next_at = now if len(due) == limit else min(later, default=None)
            return DueDeliveries(now=now, due=listed, next_at=next_at)

        return self._read(read)

    def settle_delivery(self, command: SettleDelivery) -> bool:
        """Write what became of a try."""
        return self._write(lambda journal: _settle(journal, command))

    def list_alerts(self, command: AlertFilter) -> list[AlertRecord]:
        """Return alerts, newest first."""

        def read(_: Journal) -> list[AlertRecord]:
            found = [one for one in self.tables.alerts.values() if _is_meant(one, command)]
            found.sort(key=lambda one: one.id, reverse=True)
            return found[: min(command.limit, LISTED_MAX)]

        return self._read(read)

    def get_alert(self, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
        """Return an alert."""
        return self._read(lambda _: of_tenant(self.tables.alerts.get(alert_id), tenant))

    def list_deliveries(self, alert_id: AlertId) -> list[DeliveryRecord]:
        """Return the deliveries of an alert."""

        def read(_: Journal) -> list[DeliveryRecord]:
            rows = self.tables.alert_deliveries.values()
            found = [one for one in rows if one.alert_id == alert_id]
            return sorted(found, key=lambda one: (one.made_at, one.channel, one.id))[:LISTED_MAX]

        return self._read(read)

    def acknowledge_alert(self, command: AcknowledgeAlert) -> AlertRecord:
        """Note who has taken note."""

        def acknowledge(journal: Journal) -> AlertRecord:
            alert = require_open(self.tables.alerts.get(command.id), command)
            if alert.acknowledged_at is not None:
                return alert
            noted = replace(
                alert,
                acknowledged_at=journal.now,
                acknowledged_by=command.actor.name,
                acknowledged_reason=command.actor.reason,
            )
            journal.put(self.tables.alerts, alert.id, noted)
            journal.record_about(command.actor, "alert.acknowledged", alert_subject(noted))
            return noted

        return self._write(acknowledge)

    def set_alert_term(self, command: SetAlertSetting) -> AlertSettingRecord:
        """Keep what was said."""

        def put(journal: Journal) -> AlertSettingRecord:
            terms, key = self.tables.alert_terms, (command.sort, command.name)
            before = terms.get(key)
            made = new_term(command, before, len(terms), journal.now)
            if made is before:
                return made
            journal.put(terms, key, made)
            subject = term_subject(command.sort, before, made)
            journal.record_about(command.actor, f"alert-{command.sort}.set", subject)
            return made

        return self._write(put)

    def remove_alert_term(self, command: RemoveTerm) -> bool:
        """Take back what was said."""

        def remove(journal: Journal) -> bool:
            terms, key = self.tables.alert_terms, (command.sort, command.name)
            before = removed_term(command, terms.get(key))
            if before is None:
                return False
            journal.remove(terms, key)
            subject = term_subject(command.sort, before, None)
            journal.record_about(command.actor, f"alert-{command.sort}.removed", subject)
            return True

        return self._write(remove)

    def list_alert_terms(self, sort: AlertSettingKind) -> list[AlertSettingRecord]:
        """Return what was said of a sort."""

        def read(journal: Journal) -> list[AlertSettingRecord]:
            said = [one for one in self.tables.alert_terms.values() if one.sort is sort]
            return ordered_terms(said, journal.now)

        return self._read(read)

    def find_trouble(self, command: FindTrouble) -> UnusualRuns:
        """Return runs that are out of the ordinary."""
        return self._read(lambda journal: find_trouble(journal, command))


def watch_row(journal: Journal) -> WatchRow:
    """Return who has the watch."""
    return journal.tables.watch.get(0, NOBODY)


def is_watch_ours(journal: Journal, fence: WatcherFence, held_at: int | None = None) -> bool:
    """Say whether somebody has the watch; put on record who writes and has not."""
    if is_watching(watch_row(journal).as_row(), fence, journal.now, held_at):
        return True
    journal.record_about(WATCHER, "watch.refused", watch_refused(fence))
    return False


def forget_alerts(journal: Journal, limit: int) -> int:
    """Remove alerts that were resolved long ago, and silences that were over then."""
    tables, until = journal.tables, journal.now - ALERTS_KEPT_US
    resolved = [
        one
        for one in tables.alerts.values()
        if one.resolved_at is not None and one.resolved_at < until
    ]
    resolved.sort(key=lambda one: (one.resolved_at, one.id))
    for alert in resolved[:limit]:
        journal.remove(tables.alerts, alert.id)
        for one in [row for row in tables.alert_deliveries.values() if row.alert_id == alert.id]:
            journal.remove(tables.alert_deliveries, one.id)
    over = [
        key
        for key, one in tables.alert_terms.items()
        if one.until is not None and one.until < until
    ]
    for key in sorted(over)[:limit]:
        journal.remove(tables.alert_terms, key)
    return len(resolved[:limit]) + len(over[:limit])


def _hold(journal: Journal, command: RenewWatcherLease) -> Watch:
    row = watch_row(journal)
    is_free = row.holder is None or not is_current(row.renewed_at, row.expires_at, journal.now)
    is_ours = row.holder == command.holder and not is_free
    if is_ours or is_free:
        row = WatchRow(
            epoch=row.epoch if is_ours else row.epoch + 1,
            holder=command.holder,
            renewed_at=journal.now,
            expires_at=journal.now + command.ttl_us,
            name=command.name,
            notes=row.notes if command.notes is None else command.notes,
        )
        journal.put(journal.tables.watch, 0, row)
    return Watch(
        is_held=is_ours or is_free,
        epoch=row.epoch,
        now=journal.now,
        until=row.expires_at,
        holder=row.name,
        notes=row.notes,
    )


def _apply(journal: Journal, change: AlertChange) -> None:
    tables, alert = journal.tables, change.alert
    known = tables.alerts.get(alert.id)
    if change.step is AlertTransition.FORGOTTEN:
        if known is not None and known.state is AlertState.PENDING:
            journal.remove(tables.alerts, alert.id)
        return
    others = [one for one in tables.alerts.values() if _is_live(one) and one.key == alert.key]
    assert all(one.id == alert.id for one in others), "one alert about one thing at a time"
    if known is not None:
        alert = replace(
            alert,
            acknowledged_at=known.acknowledged_at,
            acknowledged_by=known.acknowledged_by,
            acknowledged_reason=known.acknowledged_reason,
        )
    journal.put(tables.alerts, alert.id, alert)
    for one in new_deliveries(change, journal.now):
        if one.id not in tables.alert_deliveries:
            journal.insert(tables.alert_deliveries, one.id, one)
    if change.step in AUDITED:
        journal.record_about(WATCHER, AUDITED[change.step], change_subject(change))


def _settle(journal: Journal, command: SettleDelivery) -> bool:
    if not is_watch_ours(journal, command.fence):
        return False
    tables, tried = journal.tables, command.tried
    one = tables.alert_deliveries.get(command.id)
    if one is None or (one.state, one.tries) != (DeliveryState.PENDING, command.tries):
        return False
    is_over = tried.state is not DeliveryState.PENDING
    settled = replace(
        one,
        state=tried.state,
        tries=one.tries + 1,
        next_at=journal.now + tried.wait_us,
        settled_at=journal.now if is_over else None,
        error=tried.error,
    )
    journal.put(tables.alert_deliveries, one.id, settled)
    if tried.state is DeliveryState.GIVEN_UP:
        subject = undelivered_subject(tables.alerts[one.alert_id], command, one.channel)
        journal.record_about(WATCHER, "alert.undelivered", subject)
    return True


def _is_due(one: DeliveryRecord, begun: set[tuple[AlertId, str]], now: int) -> bool:
    is_time = one.next_at <= now or one.next_at > now + WAIT_MAX_US
    return is_time and _is_its_turn(one, begun)


def _is_its_turn(one: DeliveryRecord, begun: set[tuple[AlertId, str]]) -> bool:
    """Say whether nobody would be told of an end before its beginning, which would be news then."""
    return one.told is NoticeKind.RAISED or (one.alert_id, one.channel) not in begun


def _in_turn(due: list[DeliveryRecord]) -> list[DeliveryRecord]:
    """Return the first of each channel, then the second of each, and so on."""
    placed: list[tuple[int, DeliveryRecord]] = []
    counts: Counter[str] = Counter()
    for one in sorted(due, key=lambda one: (one.next_at, one.id)):
        counts[one.channel] += 1
        placed.append((counts[one.channel], one))
    placed.sort(key=lambda pair: pair[0])
    return [one for _, one in placed]


def _is_live(alert: AlertRecord) -> bool:
    return alert.state is not AlertState.RESOLVED


def _is_meant(alert: AlertRecord, command: AlertFilter) -> bool:
    return (
        command.tenant in {None, alert.tenant}
        and (command.states is None or alert.state in command.states)
        and command.kind in {None, alert.kind}
        and (command.before_id is None or alert.id < command.before_id)
    )
