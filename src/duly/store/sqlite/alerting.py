"""Alerts in a file: the watch, what is on record, deliveries, and what people say."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duly.domain.alerts import WAIT_MAX_US, AlertTransition, DeliveryState
from duly.store.alert_rulings import (
    ALERT_COLUMNS,
    AUDITED,
    DELIVERY_COLUMNS,
    KNOWN_KINDS,
    TERM_COLUMNS,
    WATCHER,
    WRITTEN_COLUMNS,
    alert_row,
    alert_subject,
    change_subject,
    delivery_row,
    is_watching,
    new_deliveries,
    new_term,
    ordered_terms,
    read_alerts,
    read_delivery,
    read_term,
    removed_term,
    require_open,
    term_row,
    term_subject,
    undelivered_subject,
    watch_refused,
)
from duly.store.filters import alerts_where
from duly.store.ports.alerts import (
    ALERTS_KEPT_US,
    LISTED_MAX,
    DueDeliveries,
    DueDelivery,
    Watch,
    Watched,
)
from duly.store.rulings import is_current
from duly.store.sqlite.filtering import SqliteWhere
from duly.store.sqlite.rows import one
from duly.store.sqlite.trouble import find_trouble

if TYPE_CHECKING:
    from collections.abc import Collection
    from contextlib import AbstractContextManager

    from duly.domain.alerts import AlertChange, AlertId, AlertRecord, DeliveryRecord
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
    from duly.store.sqlite.work import Look, Work

READ_WATCH = "SELECT epoch, holder, renewed_at, expires_at, name, notes FROM duly_watch"
WRITE_WATCH = """
UPDATE duly_watch SET epoch = ?, holder = ?, renewed_at = ?, expires_at = ?, name = ?, notes = ?"""
FREE_WATCH = "UPDATE duly_watch SET holder = NULL WHERE holder = ? AND epoch = ?"

ALERT = f"SELECT {ALERT_COLUMNS} FROM duly_alerts"  # noqa: S608 - columns of ours
_WRITTEN = [name.strip() for name in ALERT_COLUMNS.split(",")][:WRITTEN_COLUMNS]
# What people have said of it stays.
WRITE_ALERT = f"""
INSERT INTO duly_alerts ({", ".join(_WRITTEN)}) VALUES ({", ".join("?" * WRITTEN_COLUMNS)})
ON CONFLICT (id) DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in _WRITTEN[4:])}"""  # noqa: S608 - columns of ours
FORGET_PENDING = "DELETE FROM duly_alerts WHERE id = ? AND state = 'pending'"
# A planner without figures would rather walk through what was resolved since months.
LIST_LIVE = f"{ALERT} INDEXED BY duly_alerts_live WHERE state <> 'resolved' ORDER BY id"
GET_ALERT = f"{ALERT} WHERE id = ?1 AND (?2 IS NULL OR tenant = ?2)"
ACKNOWLEDGE = """
UPDATE duly_alerts SET acknowledged_at = ?, acknowledged_by = ?, acknowledged_reason = ?
WHERE id = ? AND acknowledged_at IS NULL AND state <> 'resolved'"""
OLD_ALERTS = """
SELECT id FROM duly_alerts WHERE resolved_at < ? ORDER BY resolved_at, id LIMIT ?"""
DELETE_ALERT = "DELETE FROM duly_alerts WHERE id = ?"
DELETE_DELIVERIES = "DELETE FROM duly_alert_deliveries WHERE alert_id = ?"

_DELIVERY = f"SELECT {DELIVERY_COLUMNS} FROM duly_alert_deliveries"  # noqa: S608 - columns of ours
INSERT_DELIVERY = f"""
INSERT INTO duly_alert_deliveries ({DELIVERY_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING"""  # noqa: S608 - columns of ours
# Whoever was told of an end before its beginning would take the beginning for news.
ITS_TURN = """(told = 'raised' OR NOT EXISTS (
    SELECT 1 FROM duly_alert_deliveries AS begun
    WHERE begun.alert_id = duly_alert_deliveries.alert_id
    AND begun.channel = duly_alert_deliveries.channel
    AND begun.told = 'raised' AND begun.state = 'pending'))"""
DUE_DELIVERIES = f"""
SELECT {DELIVERY_COLUMNS} FROM (
    SELECT *, row_number() OVER (PARTITION BY channel ORDER BY next_at, id) AS place
    FROM duly_alert_deliveries
    WHERE state = 'pending' AND (next_at <= ?1 OR next_at > ?1 + {WAIT_MAX_US})
    AND channel NOT IN (SELECT value FROM json_each(?3)) AND {ITS_TURN}
    AND EXISTS (SELECT 1 FROM duly_alerts AS own
        WHERE own.id = duly_alert_deliveries.alert_id AND own.kind IN ({KNOWN_KINDS})))
ORDER BY place, next_at, id LIMIT ?2"""  # noqa: S608 - columns and a number of ours
NEXT_DELIVERY = f"""
SELECT min(next_at) FROM duly_alert_deliveries
WHERE state = 'pending' AND next_at > ?1 AND next_at <= ?1 + {WAIT_MAX_US}
AND channel NOT IN (SELECT value FROM json_each(?2))"""  # noqa: S608 - a number of ours
DELIVERIES_OF = f"{_DELIVERY} WHERE alert_id = ? ORDER BY made_at, channel, id LIMIT ?"
GET_DELIVERY = f"{_DELIVERY} WHERE id = ? AND state = 'pending' AND tries = ?"
SETTLE_DELIVERY = """
UPDATE duly_alert_deliveries
SET state = ?, tries = tries + 1, next_at = ?, settled_at = ?, error = ?
WHERE id = ? AND state = 'pending' AND tries = ?"""

_TERM = f"SELECT {TERM_COLUMNS} FROM duly_alert_terms"  # noqa: S608 - columns of ours
GET_TERM = f"{_TERM} WHERE sort = ?1 AND name = ?2"
GET_TERM_OF = f"{GET_TERM} AND (?3 IS NULL OR tenant = ?3)"
LIST_TERMS = f"{_TERM} WHERE ?1 IS NULL OR sort = ?1"
COUNT_TERMS = "SELECT count(*) FROM duly_alert_terms"
WRITE_TERM = f"""
INSERT OR REPLACE INTO duly_alert_terms ({TERM_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"""  # noqa: S608 - columns of ours
DELETE_TERM = "DELETE FROM duly_alert_terms WHERE sort = ? AND name = ?"
FORGET_TERMS = """
DELETE FROM duly_alert_terms WHERE (sort, name) IN (
    SELECT sort, name FROM duly_alert_terms WHERE until < ? LIMIT ?)
RETURNING 1"""


class SqliteAlerting(ABC):
    """What watchers do, and what people look at and say."""

    @abstractmethod
    def _write(self) -> AbstractContextManager[Work]:
        """Open a short transaction: it commits, or nothing of it happens."""

    @abstractmethod
    def _read(self) -> AbstractContextManager[Look]:
        """Open a snapshot; it waits for nobody."""

    def hold_watch(self, command: RenewWatcherLease) -> Watch:
        """Take the watch, or renew it; who finds it another's writes nothing."""
        with self._read() as look:
            seen = _hold(look, command, may_write=False)
        if seen is not None:
            return seen
        with self._write() as work:
            held = _hold(work, command, may_write=True)
            assert held is not None, "whoever may write has an answer"
            return held

    def release_watch(self, fence: WatcherFence) -> None:
        """Give up the watch, if it is still ours."""
        with self._write() as work:
            work.connection.execute(FREE_WATCH, fence)

    def load_watched(self) -> Watched:
        """Return what a watcher decides upon."""
        with self._read() as look:
            alerts = tuple(read_alerts(look.connection.execute(LIST_LIVE)))
            said = [read_term(row) for row in look.connection.execute(LIST_TERMS, (None,))]
            return Watched(now=look.now, alerts=alerts, terms=tuple(ordered_terms(said, look.now)))

    def apply_alerts(self, command: ApplyAlerts) -> bool:
        """Write changes, deliveries and audit entries together."""
        with self._write() as work:
            if not is_watch_ours(work, command.fence, command.held_at):
                return False
            for change in command.changes:
                _apply(work, change)
            return True

    def load_deliveries(self, limit: int, without: Collection[str] = ()) -> DueDeliveries:
        """Return deliveries whose time has come, each channel's in its turn."""
        with self._read() as look:
            others = json.dumps(sorted(without))
            found = look.connection.execute(DUE_DELIVERIES, (look.now, limit, others)).fetchall()
            due = [read_delivery(row) for row in found]
            alerts = {alert: _alert(look, alert) for alert in {one.alert_id for one in due}}
            (later,) = one(look.connection, NEXT_DELIVERY, (look.now, others))
            listed = [(delivery, alerts[delivery.alert_id]) for delivery in due]
            return DueDeliveries(
                now=look.now,
                due=tuple(DueDelivery(own, alert) for own, alert in listed if alert is not None),
                next_at=look.now if len(due) == limit else later,
            )

    def settle_delivery(self, command: SettleDelivery) -> bool:
        """Write what became of a try."""
        with self._write() as work:
            return is_watch_ours(work, command.fence) and _settle(work, command)

    def list_alerts(self, command: AlertFilter) -> list[AlertRecord]:
        """Return alerts, newest first."""
        with self._read() as look:
            where = alerts_where(SqliteWhere(), command)
            sql = where.sql(ALERT, "ORDER BY id DESC", min(command.limit, LISTED_MAX))
            return read_alerts(look.connection.execute(sql, where.bound()))

    def get_alert(self, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
        """Return an alert."""
        with self._read() as look:
            return _alert(look, alert_id, tenant)

    def list_deliveries(self, alert_id: AlertId) -> list[DeliveryRecord]:
        """Return the deliveries of an alert."""
        with self._read() as look:
            found = look.connection.execute(DELIVERIES_OF, (alert_id, LISTED_MAX))
            return [read_delivery(row) for row in found]

    def acknowledge_alert(self, command: AcknowledgeAlert) -> AlertRecord:
        """Note who has taken note."""
        with self._write() as work:
            alert = require_open(_alert(work, command.id, command.tenant), command)
            if alert.acknowledged_at is not None:
                return alert
            actor = command.actor
            said = (work.now, actor.name, actor.reason, alert.id)
            work.connection.execute(ACKNOWLEDGE, said)
            work.record(actor, "alert.acknowledged", alert_subject(alert))
            noted = _alert(work, alert.id)
            assert noted is not None, "it was there"
            return noted

    def set_alert_term(self, command: SetAlertSetting) -> AlertSettingRecord:
        """Keep what was said."""
        with self._write() as work:
            row = work.connection.execute(GET_TERM, (command.sort, command.name)).fetchone()
            before = None if row is None else read_term(row)
            (count,) = one(work.connection, COUNT_TERMS)
            made = new_term(command, before, count, work.now)
            if made is before:
                return made
            work.connection.execute(WRITE_TERM, term_row(made))
            subject = term_subject(command.sort, before, made)
            work.record(command.actor, f"alert-{command.sort}.set", subject)
            return made

    def remove_alert_term(self, command: RemoveTerm) -> bool:
        """Take back what was said."""
        with self._write() as work:
            key = (command.sort, command.name)
            row = work.connection.execute(GET_TERM_OF, (*key, command.tenant)).fetchone()
            before = removed_term(command, None if row is None else read_term(row))
            if before is None:
                return False
            work.connection.execute(DELETE_TERM, key)
            subject = term_subject(command.sort, before, None)
            work.record(command.actor, f"alert-{command.sort}.removed", subject)
            return True

    def list_alert_terms(self, sort: AlertSettingKind) -> list[AlertSettingRecord]:
        """Return what was said of a sort."""
        with self._read() as look:
            said = [read_term(row) for row in look.connection.execute(LIST_TERMS, (sort,))]
            return ordered_terms(said, look.now)

    def find_trouble(self, command: FindTrouble) -> UnusualRuns:
        """Return runs that are out of the ordinary."""
        with self._read() as look:
            return find_trouble(look, command)


def is_watch_ours(work: Work, fence: WatcherFence, held_at: int | None = None) -> bool:
    """Say whether somebody has the watch; put on record who writes and has not."""
    if is_watching(one(work.connection, READ_WATCH), fence, work.now, held_at):
        return True
    work.record(WATCHER, "watch.refused", watch_refused(fence))
    return False


def forget_alerts(work: Work, limit: int) -> int:
    """Remove alerts that were resolved long ago, and silences that were over then."""
    connection, until = work.connection, work.now - ALERTS_KEPT_US
    doomed = connection.execute(OLD_ALERTS, (until, limit)).fetchall()
    connection.executemany(DELETE_DELIVERIES, doomed)
    connection.executemany(DELETE_ALERT, doomed)
    return len(doomed) + len(connection.execute(FORGET_TERMS, (until, limit)).fetchall())


def _hold(seen: Look | Work, command: RenewWatcherLease, *, may_write: bool) -> Watch | None:
    """Return whose the watch is; None when it must be written, and may not be."""
    now = seen.now
    epoch, holder, renewed_at, expires_at, name, notes = one(seen.connection, READ_WATCH)
    is_free = holder is None or not is_current(renewed_at, expires_at, now)
    is_ours = holder == command.holder and not is_free
    if is_ours or is_free:
        if not may_write:
            return None
        epoch, name = epoch if is_ours else epoch + 1, command.name
        expires_at = now + command.ttl_us
        notes = notes if command.notes is None else command.notes
        row = (epoch, command.holder, now, expires_at, name, notes)
        seen.connection.execute(WRITE_WATCH, row)
    return Watch(
        is_held=is_ours or is_free,
        epoch=epoch,
        now=now,
        until=expires_at,
        holder=name,
        notes=notes,
    )


def _apply(work: Work, change: AlertChange) -> None:
    if change.step is AlertTransition.FORGOTTEN:
        work.connection.execute(FORGET_PENDING, (change.alert.id,))
        return
    work.connection.execute(WRITE_ALERT, alert_row(change.alert))
    for delivery in new_deliveries(change, work.now):
        work.connection.execute(INSERT_DELIVERY, delivery_row(delivery))
    if change.step in AUDITED:
        work.record(WATCHER, AUDITED[change.step], change_subject(change))


def _settle(work: Work, command: SettleDelivery) -> bool:
    connection, tried = work.connection, command.tried
    row = connection.execute(GET_DELIVERY, (command.id, command.tries)).fetchone()
    if row is None:
        return False
    delivery = read_delivery(row)
    settled_at = None if tried.state is DeliveryState.PENDING else work.now
    said = (tried.state, work.now + tried.wait_us, settled_at, tried.error)
    connection.execute(SETTLE_DELIVERY, (*said, command.id, command.tries))
    if tried.state is DeliveryState.GIVEN_UP:
        alert = _alert(work, delivery.alert_id)
        assert alert is not None, "a delivery goes with its alert"
        subject = undelivered_subject(alert, command, delivery.channel)
        work.record(WATCHER, "alert.undelivered", subject)
    return True


def _alert(seen: Look | Work, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
    return next(iter(read_alerts(seen.connection.execute(GET_ALERT, (alert_id, tenant)))), None)
