"""Alerts on PostgreSQL: the watch, what is on record, deliveries, and what people say.

Whatever a watcher writes is written while it holds the row of the watch: nobody takes the watch in
between.
"""

from __future__ import annotations

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
    taken_term,
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
from duly.store.postgres.arrays import Texts, Uuids
from duly.store.postgres.filtering import PostgresWhere
from duly.store.postgres.session import as_values, first, one, uid
from duly.store.postgres.trouble import find_trouble
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from collections.abc import Collection

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
    from duly.store.postgres.connection import Connections
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work
    from duly.store.records import Row

READ_WATCH = """
SELECT epoch, holder, renewed_at, expires_at, name, notes, duly.now_us() FROM duly.watch"""
LOCK_WATCH = f"{READ_WATCH} FOR UPDATE"
WRITE_WATCH = """
UPDATE duly.watch SET epoch = $1::int8, holder = $2::bytea, renewed_at = $3::int8,
    expires_at = $4::int8, name = $5, notes = $6"""
FREE_WATCH = """
UPDATE duly.watch SET holder = NULL WHERE holder = $1::bytea AND epoch = $2::int8"""

_NAMES = [name.strip() for name in ALERT_COLUMNS.split(",")]
ALERT = f"SELECT uuid_send(id), {', '.join(_NAMES[1:])} FROM duly.alerts"  # noqa: S608 - ours
_WRITTEN = _NAMES[:WRITTEN_COLUMNS]
_TYPES = ["uuid", *["text"] * 11, *["int8"] * 6]
# What people have said of it stays.
WRITE_ALERT = f"""
INSERT INTO duly.alerts ({", ".join(_WRITTEN)})
VALUES ({", ".join(f"${number}::{kind}" for number, kind in enumerate(_TYPES, 1))})
ON CONFLICT (id) DO UPDATE SET
{", ".join(f"{name} = excluded.{name}" for name in _WRITTEN[4:])}"""  # noqa: S608 - columns of ours
FORGET_PENDING = "DELETE FROM duly.alerts WHERE id = $1::uuid AND state = 'pending'"
LIST_LIVE = f"{ALERT} WHERE state <> 'resolved' ORDER BY id"
GET_ALERT = f"{ALERT} WHERE id = $1::uuid AND ($2::text IS NULL OR tenant = $2)"
LOCK_ALERT = f"{GET_ALERT} FOR UPDATE"
ACKNOWLEDGE = """
UPDATE duly.alerts
SET acknowledged_at = $1::int8, acknowledged_by = $2, acknowledged_reason = $3
WHERE id = $4::uuid"""
OLD_ALERTS = """
SELECT uuid_send(id) FROM duly.alerts WHERE resolved_at < $1::int8
ORDER BY resolved_at, id LIMIT $2::int8"""
DELETE_ALERTS = (
    "DELETE FROM duly.alert_deliveries WHERE alert_id = ANY($1::uuid[])",
    "DELETE FROM duly.alerts WHERE id = ANY($1::uuid[])",
)

_COLUMNS = DELIVERY_COLUMNS.replace("alert_id", "uuid_send(alert_id)").removeprefix("id, ")
_DELIVERY = f"SELECT uuid_send(id), {_COLUMNS} FROM duly.alert_deliveries"  # noqa: S608 - ours
INSERT_DELIVERY = f"""
INSERT INTO duly.alert_deliveries ({DELIVERY_COLUMNS})
VALUES ($1::uuid, $2::uuid, $3, $4, $5, $6::int4, $7::int8, $8::int8, $9::int8, $10)
ON CONFLICT DO NOTHING"""  # noqa: S608 - columns of ours
# Whoever was told of an end before its beginning would take the beginning for news.
ITS_TURN = """(told = 'raised' OR NOT EXISTS (
    SELECT FROM duly.alert_deliveries AS begun
    WHERE begun.alert_id = alert_deliveries.alert_id AND begun.channel = alert_deliveries.channel
    AND begun.told = 'raised' AND begun.state = 'pending'))"""
DUE_DELIVERIES = f"""
SELECT uuid_send(id), {_COLUMNS} FROM (
    SELECT *, row_number() OVER (PARTITION BY channel ORDER BY next_at, id) AS place
    FROM duly.alert_deliveries
    WHERE state = 'pending' AND (next_at <= $1::int8 OR next_at > $1::int8 + {WAIT_MAX_US})
    AND channel <> ALL($3::text[]) AND {ITS_TURN}
    AND EXISTS (SELECT FROM duly.alerts AS own
        WHERE own.id = alert_deliveries.alert_id AND own.kind IN ({KNOWN_KINDS}))) AS due
ORDER BY place, next_at, id LIMIT $2::int8"""  # noqa: S608 - columns and a number of ours
NEXT_DELIVERY = f"""
SELECT min(next_at) FROM duly.alert_deliveries
WHERE state = 'pending' AND next_at > $1::int8 AND next_at <= $1::int8 + {WAIT_MAX_US}
AND channel <> ALL($2::text[])"""  # noqa: S608 - a number of ours
DELIVERIES_OF = f"""{_DELIVERY} WHERE alert_id = $1::uuid
ORDER BY made_at, channel, id LIMIT $2::int8"""
GET_DELIVERY = f"""{_DELIVERY}
WHERE id = $1::uuid AND state = 'pending' AND tries = $2::int4 FOR UPDATE"""
SETTLE_DELIVERY = """
UPDATE duly.alert_deliveries
SET state = $1, tries = tries + 1, next_at = $2::int8, settled_at = $3::int8, error = $4
WHERE id = $5::uuid"""

_TERM = f"SELECT {TERM_COLUMNS} FROM duly.alert_terms"  # noqa: S608 - columns of ours
GET_TERM = f"{_TERM} WHERE sort = $1 AND name = $2 FOR UPDATE"
GET_TERM_OF = f"""
{_TERM} WHERE sort = $1 AND name = $2 AND ($3::text IS NULL OR tenant = $3) FOR UPDATE"""
LIST_TERMS = f"{_TERM} WHERE $1::text IS NULL OR sort = $1"
COUNT_TERMS = "SELECT count(*) FROM duly.alert_terms"
# Of two who say something new under one name at once, the second waits, and looks again.
INSERT_TERM = f"""
INSERT INTO duly.alert_terms ({TERM_COLUMNS})
VALUES ($1, $2, $3, $4, $5::int8, $6::int8, $7, $8)
ON CONFLICT DO NOTHING"""  # noqa: S608 - columns of ours
UPDATE_TERM = """
UPDATE duly.alert_terms
SET terms = $4, until = $5::int8, set_at = $6::int8, set_by = $7, reason = $8
WHERE sort = $1 AND name = $2 AND tenant = $3"""
LOOKS_MAX = 5
"""How often somebody else may have said and taken back something before that is told."""
DELETE_TERM = "DELETE FROM duly.alert_terms WHERE sort = $1 AND name = $2"
FORGET_TERMS = """
DELETE FROM duly.alert_terms WHERE (sort, name) IN (
    SELECT sort, name FROM duly.alert_terms WHERE until < $1::int8 LIMIT $2::int8)"""


class PostgresAlerting:
    """What watchers do, and what people look at and say."""

    _connections: Connections

    def hold_watch(self, command: RenewWatcherLease) -> Watch:
        """Take the watch, or renew it; who finds it another's writes nothing."""
        with self._connections.statement() as session:
            seen = _watch(command, one(session, READ_WATCH))
        if not seen.is_held:
            return seen
        with self._connections.write() as work:
            held = _watch(command, one(work.session, LOCK_WATCH))
            if held.is_held:
                row = (held.epoch, command.holder, held.now, held.until, held.holder, held.notes)
                work.session.run(WRITE_WATCH, row)
            return held

    def release_watch(self, fence: WatcherFence) -> None:
        """Give up the watch, if it is still ours."""
        with self._connections.statement() as session:
            session.run(FREE_WATCH, fence)

    def load_watched(self) -> Watched:
        """Return what a watcher decides upon."""
        with self._connections.read() as look:
            alerts = tuple(read_alerts(look.session.rows(LIST_LIVE)))
            said = [read_term(row) for row in look.session.rows(LIST_TERMS, (None,))]
            return Watched(now=look.now, alerts=alerts, terms=tuple(ordered_terms(said, look.now)))

    def apply_alerts(self, command: ApplyAlerts) -> bool:
        """Write changes, deliveries and audit entries together."""
        with self._connections.write() as work:
            if not is_watch_ours(work, command.fence, command.held_at):
                return False
            for change in command.changes:
                _apply(work, change)
            return True

    def load_deliveries(self, limit: int, without: Collection[str] = ()) -> DueDeliveries:
        """Return deliveries whose time has come, each channel's in its turn."""
        with self._connections.read() as look:
            session, others = look.session, Texts(sorted(without))
            rows = session.rows(DUE_DELIVERIES, (look.now, limit, others))
            found = [read_delivery(row) for row in rows]
            alerts = {alert: _alert(session, alert) for alert in {one.alert_id for one in found}}
            (later,) = one(session, NEXT_DELIVERY, (look.now, others))
            listed = [(delivery, alerts[delivery.alert_id]) for delivery in found]
            return DueDeliveries(
                now=look.now,
                due=tuple(DueDelivery(own, alert) for own, alert in listed if alert is not None),
                next_at=look.now if len(found) == limit else later,
            )

    def settle_delivery(self, command: SettleDelivery) -> bool:
        """Write what became of a try."""
        with self._connections.write() as work:
            return is_watch_ours(work, command.fence) and _settle(work, command)

    def list_alerts(self, command: AlertFilter) -> list[AlertRecord]:
        """Return alerts, newest first."""
        with self._connections.statement() as session:
            where = alerts_where(PostgresWhere(), command)
            sql = where.sql(ALERT, "ORDER BY id DESC", min(command.limit, LISTED_MAX))
            return read_alerts(session.rows(sql, where.bound()))

    def get_alert(self, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
        """Return an alert."""
        with self._connections.statement() as session:
            return _alert(session, alert_id, tenant)

    def list_deliveries(self, alert_id: AlertId) -> list[DeliveryRecord]:
        """Return the deliveries of an alert."""
        with self._connections.statement() as session:
            found = session.rows(DELIVERIES_OF, (uid(alert_id), LISTED_MAX))
            return [read_delivery(row) for row in found]

    def acknowledge_alert(self, command: AcknowledgeAlert) -> AlertRecord:
        """Note who has taken note."""
        with self._connections.write() as work:
            found = read_alerts(work.session.rows(LOCK_ALERT, (uid(command.id), command.tenant)))
            alert = require_open(found[0] if found else None, command)
            if alert.acknowledged_at is not None:
                return alert
            actor = command.actor
            work.session.run(ACKNOWLEDGE, (work.now, actor.name, actor.reason, uid(alert.id)))
            work.record(actor, "alert.acknowledged", alert_subject(alert))
            noted = _alert(work.session, alert.id)
            assert noted is not None, "it was there"
            return noted

    def set_alert_term(self, command: SetAlertSetting) -> AlertSettingRecord:
        """Keep what was said."""
        with self._connections.write() as work:
            for _ in range(LOOKS_MAX):
                made = _set_term(work, command)
                if made is not None:
                    return made
            raise taken_term(command)

    def remove_alert_term(self, command: RemoveTerm) -> bool:
        """Take back what was said."""
        with self._connections.write() as work:
            key = (str(command.sort), command.name)
            row = first(work.session, GET_TERM_OF, (*key, command.tenant))
            before = removed_term(command, None if row is None else read_term(row))
            if before is None:
                return False
            work.session.run(DELETE_TERM, key)
            subject = term_subject(command.sort, before, None)
            work.record(command.actor, f"alert-{command.sort}.removed", subject)
            return True

    def list_alert_terms(self, sort: AlertSettingKind) -> list[AlertSettingRecord]:
        """Return what was said of a sort."""
        with self._connections.read() as look:
            said = [read_term(row) for row in look.session.rows(LIST_TERMS, (str(sort),))]
            return ordered_terms(said, look.now)

    def find_trouble(self, command: FindTrouble) -> UnusualRuns:
        """Return runs that are out of the ordinary."""
        with self._connections.read() as look:
            return find_trouble(look, command)


def is_watch_ours(work: Work, fence: WatcherFence, held_at: int | None = None) -> bool:
    """Hold on to the watch, if it is somebody's; put on record who writes and has it not."""
    row = one(work.session, LOCK_WATCH)
    work.look_at_the_clock()
    if is_watching(row, fence, work.now, held_at):
        return True
    work.record(WATCHER, "watch.refused", watch_refused(fence))
    return False


def forget_alerts(work: Work, limit: int) -> int:
    """Remove alerts that were resolved long ago, and silences that were over then."""
    session, until = work.session, work.now - ALERTS_KEPT_US
    doomed = [bytes(alert) for (alert,) in session.rows(OLD_ALERTS, (until, limit))]
    for statement in DELETE_ALERTS if doomed else ():
        session.run(statement, (Uuids(doomed),))
    return len(doomed) + session.run(FORGET_TERMS, (until, limit))


def _watch(command: RenewWatcherLease, row: Row) -> Watch:
    """Return whose the watch is, or is to be."""
    epoch, holder, renewed_at, expires_at, name, notes, now = row
    is_free = holder is None or not is_current(renewed_at, expires_at, now)
    is_ours = holder is not None and not is_free and bytes(holder) == command.holder
    if not is_free and not is_ours:
        return Watch(
            is_held=False, epoch=epoch, now=now, until=expires_at, holder=name, notes=notes
        )
    return Watch(
        is_held=True,
        epoch=epoch if is_ours else epoch + 1,
        now=now,
        until=now + command.ttl_us,
        holder=command.name,
        notes=notes if command.notes is None else command.notes,
    )


def _apply(work: Work, change: AlertChange) -> None:
    if change.step is AlertTransition.FORGOTTEN:
        work.session.run(FORGET_PENDING, (uid(change.alert.id),))
        return
    work.session.run(WRITE_ALERT, as_values(alert_row(change.alert)))
    for delivery in new_deliveries(change, work.now):
        work.session.run(INSERT_DELIVERY, as_values(delivery_row(delivery)))
    if change.step in AUDITED:
        work.record(WATCHER, AUDITED[change.step], change_subject(change))


def _settle(work: Work, command: SettleDelivery) -> bool:
    session, tried = work.session, command.tried
    row = first(session, GET_DELIVERY, (uid(command.id), command.tries))
    if row is None:
        return False
    delivery = read_delivery(row)
    settled_at = None if tried.state is DeliveryState.PENDING else work.now
    said = (str(tried.state), work.now + tried.wait_us, settled_at, tried.error)
    session.run(SETTLE_DELIVERY, (*said, uid(command.id)))
    if tried.state is DeliveryState.GIVEN_UP:
        alert = _alert(session, delivery.alert_id)
        assert alert is not None, "a delivery goes with its alert"
        subject = undelivered_subject(alert, command, delivery.channel)
        work.record(WATCHER, "alert.undelivered", subject)
    return True


def _set_term(work: Work, command: SetAlertSetting) -> AlertSettingRecord | None:
    """Keep what was said; None when another has just said the first word under that name."""
    row = first(work.session, GET_TERM, (str(command.sort), command.name))
    before = None if row is None else read_term(row)
    (count,) = one(work.session, COUNT_TERMS)
    made = new_term(command, before, count, work.now)
    if made is before:
        return made
    if not work.session.run(INSERT_TERM if before is None else UPDATE_TERM, term_row(made)):
        return None
    subject = term_subject(command.sort, before, made)
    work.record(command.actor, f"alert-{command.sort}.set", subject)
    return made


def _alert(session: Session, alert_id: AlertId, tenant: str | None = None) -> AlertRecord | None:
    return next(iter(read_alerts(session.rows(GET_ALERT, (uid(alert_id), tenant)))), None)
