"""Workers that are taken out of service on the memory store, and hosts of which all are."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.store.memory.ownership import seems_alive
from duly.store.ports.dispatch import MemberKind
from duly.store.ports.operations import (
    QuarantinedHost,
    is_known,
    ordered_worker_subject,
    require_orderable,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.store.memory.tables import Journal
    from duly.store.ports.dispatch import Member, WorkerStatus
    from duly.store.ports.operations import OrderWorker


def order_worker(journal: Journal, command: OrderWorker) -> Member:
    """Change a worker's standing."""
    tables = journal.tables
    found = require_orderable(_read(journal, command), command)
    if is_known(found, command):
        return found
    standing = command.standing
    if command.is_whole_host:
        actor = command.actor
        if standing is None:
            journal.remove(tables.quarantined_hosts, found.host)
        elif found.host not in tables.quarantined_hosts:
            host = QuarantinedHost(found.host, journal.now, actor.name, actor.reason)
            journal.put(tables.quarantined_hosts, found.host, host)
        _set(journal, standing, lambda one: one.host == found.host)
    elif standing is None:
        _set(journal, None, lambda one: (one.host, one.process) == (found.host, found.process))
    else:
        _set(journal, standing, lambda one: one.id == found.id)
    if command.is_fenced:
        ended = replace(tables.members[found.id], is_alive=False)
        journal.put(tables.members, found.id, ended)
    journal.record_about(command.actor, command.action, ordered_worker_subject(found, command))
    journal.wakes.add(MemberKind.WORKER)
    after = _read(journal, command)
    assert after is not None, "it was there"
    return after


def _set(
    journal: Journal, standing: WorkerStatus | None, is_meant: Callable[[Member], bool]
) -> None:
    """Set the standing of workers; that of one that is over only ends."""
    for member in tuple(journal.tables.members.values()):
        is_open = member.is_alive or standing is None
        if member.kind is MemberKind.WORKER and is_open and is_meant(member):
            journal.put(journal.tables.members, member.id, replace(member, standing=standing))


def _read(journal: Journal, command: OrderWorker) -> Member | None:
    found = journal.tables.members.get(command.worker)
    if found is None:
        return None
    return replace(found, is_alive=seems_alive(journal, found.id))
