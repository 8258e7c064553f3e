"""Workers that are taken out of service, and hosts of which all are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.ports.dispatch import MemberKind
from duly.store.ports.operations import (
    QuarantinedHost,
    is_known,
    ordered_worker_subject,
    require_orderable,
)
from duly.store.sqlite import rows
from duly.store.sqlite.reading import member_of
from duly.store.sqlite.work import counted

if TYPE_CHECKING:
    from duly.store.ports.dispatch import Member
    from duly.store.ports.operations import OrderWorker
    from duly.store.sqlite.work import Look, Work

BY_ID = f"{rows.MEMBER} WHERE id = ?3"
IS_ALIVE = f"SELECT 1 FROM duly_members WHERE id = ?3 AND {rows.IS_ALIVE}"  # noqa: S608 - ours
SET_STANDING = "UPDATE duly_members SET standing = ?1 WHERE id = ?2 AND ended_at IS NULL"
SET_STANDINGS = """
UPDATE duly_members SET standing = ?1
WHERE host = ?2 AND kind = ?3 AND ended_at IS NULL"""
# Also of those that are over: a process that joins anew is known by them.
RELEASE = "UPDATE duly_members SET standing = NULL WHERE host = ?1 AND process = ?2 AND kind = ?3"
RELEASE_HOST = "UPDATE duly_members SET standing = NULL WHERE host = ?1 AND kind = ?2"
END_MEMBER = """
UPDATE duly_members SET ended_at = ?1, standing = ?2 WHERE id = ?3 AND ended_at IS NULL"""
ADD_HOST = """
INSERT INTO duly_quarantined_hosts (host, since, by, reason) VALUES (?, ?, ?, ?)
ON CONFLICT DO NOTHING"""
DROP_HOST = "DELETE FROM duly_quarantined_hosts WHERE host = ?"
LIST_HOSTS = "SELECT host, since, by, reason FROM duly_quarantined_hosts ORDER BY host"


def order_worker(work: Work, command: OrderWorker) -> Member:
    """Change a worker's standing."""
    found = require_orderable(_read(work, command), command)
    if is_known(found, command):
        return found
    connection, worker = work.connection, str(MemberKind.WORKER)
    if command.is_whole_host:
        actor = command.actor
        if command.standing is None:
            connection.execute(DROP_HOST, (found.host,))
            connection.execute(RELEASE_HOST, (found.host, worker))
        else:
            connection.execute(ADD_HOST, (found.host, work.now, actor.name, actor.reason))
            connection.execute(SET_STANDINGS, (command.standing, found.host, worker))
    elif command.standing is None:
        connection.execute(RELEASE, (found.host, found.process, worker))
    else:
        connection.execute(SET_STANDING, (command.standing, found.id))
    if command.is_fenced:
        connection.execute(END_MEMBER, (work.now, command.standing, found.id))
    work.record(command.actor, command.action, ordered_worker_subject(found, command))
    work.has_orders = True
    after = _read(work, command)
    assert after is not None, "it was there"
    return after


def list_quarantined_hosts(look: Look) -> list[QuarantinedHost]:
    """Return hosts of which no worker claims anything."""
    return [QuarantinedHost(*row) for row in look.connection.execute(LIST_HOSTS)]


def _read(work: Work, command: OrderWorker) -> Member | None:
    key = (work.now, counted(work.judge_after, work.now), command.worker)
    row = work.connection.execute(BY_ID, key).fetchone()
    if row is None:
        return None
    is_alive = work.connection.execute(IS_ALIVE, key).fetchone() is not None
    return member_of(row, is_alive=is_alive)
