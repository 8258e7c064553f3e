"""Workers that are taken out of service, and hosts of which all are.

The member's row is held for update: a claim that is under way comes first, and the next one finds
the worker's standing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.store.ports.dispatch import MemberKind
from duly.store.ports.operations import (
    QuarantinedHost,
    is_known,
    ordered_worker_subject,
    require_orderable,
)
from duly.store.postgres import rows
from duly.store.postgres.reading import member_of
from duly.store.postgres.session import first
from duly.store.rulings import is_current

if TYPE_CHECKING:
    from duly.store.ports.dispatch import Member
    from duly.store.ports.operations import OrderWorker
    from duly.store.postgres.session import Session
    from duly.store.postgres.work import Work

BY_ID = f"{rows.MEMBER} WHERE id = $1::int8"
LOCK = "SELECT id FROM duly.members WHERE id = $1::int8 FOR UPDATE"
LOCK_HOST = """
SELECT id FROM duly.members WHERE host = (SELECT host FROM duly.members WHERE id = $1::int8)
ORDER BY id FOR UPDATE"""
SET_STANDING = """
UPDATE duly.members SET standing = $1 WHERE id = $2::int8 AND ended_at IS NULL"""
SET_STANDINGS = """
UPDATE duly.members SET standing = $1 WHERE host = $2 AND kind = $3 AND ended_at IS NULL"""
# Also of those that are over: a process that joins anew is known by them.
RELEASE = """
UPDATE duly.members SET standing = NULL WHERE host = $1 AND process = $2::int8 AND kind = $3"""
RELEASE_HOST = "UPDATE duly.members SET standing = NULL WHERE host = $1 AND kind = $2"
END_MEMBER = """
UPDATE duly.members SET ended_at = $1::int8, standing = $2
WHERE id = $3::int8 AND ended_at IS NULL"""
ADD_HOST = """
INSERT INTO duly.quarantined_hosts (host, since, "by", reason) VALUES ($1, $2::int8, $3, $4)
ON CONFLICT DO NOTHING"""
DROP_HOST = "DELETE FROM duly.quarantined_hosts WHERE host = $1"
LIST_HOSTS = 'SELECT host, since, "by", reason FROM duly.quarantined_hosts ORDER BY host'


def order_worker(work: Work, command: OrderWorker) -> Member:
    """Change a worker's standing."""
    session = work.session
    session.rows(LOCK_HOST if command.is_whole_host else LOCK, (command.worker,))
    work.look_at_the_clock()
    found = require_orderable(_read(work, command), command)
    if is_known(found, command):
        return found
    worker = str(MemberKind.WORKER)
    standing = None if command.standing is None else str(command.standing)
    if command.is_whole_host:
        actor = command.actor
        if standing is None:
            session.run(DROP_HOST, (found.host,))
            session.run(RELEASE_HOST, (found.host, worker))
        else:
            session.run(ADD_HOST, (found.host, work.now, actor.name, actor.reason))
            session.run(SET_STANDINGS, (standing, found.host, worker))
    elif standing is None:
        session.run(RELEASE, (found.host, found.process, worker))
    else:
        session.run(SET_STANDING, (standing, found.id))
    if command.is_fenced:
        session.run(END_MEMBER, (work.now, standing, found.id))
    work.record(command.actor, command.action, ordered_worker_subject(found, command))
    work.has_orders = True
    after = _read(work, command)
    assert after is not None, "it was there"
    return after


def list_quarantined_hosts(session: Session) -> list[QuarantinedHost]:
    """Return hosts of which no worker claims anything."""
    return [QuarantinedHost(*row) for row in session.rows(LIST_HOSTS)]


def _read(work: Work, command: OrderWorker) -> Member | None:
    row = first(work.session, BY_ID, (command.worker,))
    if row is None:
        return None
    ended_at, renewed_at, expires_at = row[4], row[6], row[7]
    is_alive = ended_at is None and is_current(renewed_at, expires_at, work.now)
    return member_of(row, is_alive=is_alive)
