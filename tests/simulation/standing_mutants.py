"""Deliberate defects of drains and quarantines; the simulation must notice each."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

from duly.engine.worker import Worker
from duly.engine.worker.membership import Draining
from duly.store.memory import execution, ownership, standing
from duly.store.memory.tables import Journal
from duly.store.ports.dispatch import MemberKind, WorkerStatus
from tests.simulation.mutants import patched
from tests.simulation.simulation import Mutant

ORIGINAL_BEAT = execution.beat
ORIGINAL_ORDER = standing.order_worker
ORIGINAL_STAND = Worker._stand  # noqa: SLF001 - a mutant is made inside


# The store


def _drained_claim_on(journal, member):
    alive = ownership.seems_alive(journal, member)
    return alive and journal.tables.members[member].standing is not WorkerStatus.QUARANTINED


def _apart_until_it_joins_anew(journal, command):
    is_closed = command.host in journal.tables.quarantined_hosts
    return WorkerStatus.QUARANTINED if is_closed and command.kind is MemberKind.WORKER else None


def _hosts_take_newcomers(journal, command):
    with mock.patch.object(journal.tables, "quarantined_hosts", {}):
        return ORIGINAL_STANDING(journal, command)


ORIGINAL_STANDING = ownership._standing  # noqa: SLF001 - as above


def _fenced_and_still_there(journal, command):
    with mock.patch.object(Journal, "put", _put_unless_it_ends):
        return ORIGINAL_ORDER(journal, command)


def _put_unless_it_ends(self, table, key, row):
    if table is self.tables.members and not row.is_alive and table[key].is_alive:
        return
    ORIGINAL_PUT(self, table, key, row)


ORIGINAL_PUT = Journal.put


def _host_stays_closed(journal, command):
    closed = dict(journal.tables.quarantined_hosts)
    ordered = ORIGINAL_ORDER(journal, command)
    journal.tables.quarantined_hosts.update(closed)
    return ordered


def _all_of_its_process(journal, command):
    """Puts back what is at its place, and not what had it before."""
    if command.standing is not None or command.is_whole_host:
        return ORIGINAL_ORDER(journal, command)
    before = dict(journal.tables.members)
    ordered = ORIGINAL_ORDER(journal, command)
    for member, row in before.items():
        if member != command.worker:
            journal.put(journal.tables.members, member, row)
    return ordered


def _without_entry(journal, command):
    with mock.patch.object(Journal, "record_about"):
        return ORIGINAL_ORDER(journal, command)


def _untold(journal, command):
    return replace(ORIGINAL_BEAT(journal, command), standing=None)


def _told_to_drop_it(journal, command):
    """Takes from a worker what it holds, though it was only set apart."""
    if command.standing is not WorkerStatus.QUARANTINED:
        return ORIGINAL_ORDER(journal, command)
    return ORIGINAL_ORDER(journal, replace(command, is_fenced=True))


# The worker


def _in_a_hurry(self, monotonic):
    """Takes an order for a signal: what runs has a grace and no more."""
    if not (self.is_asked or self.is_ordered):
        return None
    asked = monotonic + min(self._parts.settings.grace_us, 100_000)
    return asked if self.until is None else min(asked, self.until)


def _apart_and_cut_off(self, standing):
    ORIGINAL_STAND(self, standing)
    if standing is WorkerStatus.QUARANTINED:
        self.stop_now()


def _drains_without_end(self, standing):
    barred = WorkerStatus.QUARANTINED if standing is WorkerStatus.DRAINING else standing
    ORIGINAL_STAND(self, barred)


def _never_back(self, standing):
    was_barred = self._claiming.is_barred
    ORIGINAL_STAND(self, standing)
    self._claiming.is_barred = was_barred or self._claiming.is_barred


STANDING_MUTANTS = (
    Mutant(
        "who is out of service claims",
        patch=patched(execution, "may_claim", ownership.seems_alive),
    ),
    Mutant(
        "who drains claims on", shows_in=1, patch=patched(execution, "may_claim", _drained_claim_on)
    ),
    Mutant(
        "a quarantine ends with the membership",
        shows_in=5,
        patch=patched(ownership, "_standing", _apart_until_it_joins_anew),
    ),
    Mutant(
        "a closed host takes newcomers",
        shows_in=3,
        patch=patched(ownership, "_standing", _hosts_take_newcomers),
    ),
    Mutant(
        "fenced off, and still a member",
        patch=patched(standing, "order_worker", _fenced_and_still_there),
    ),
    Mutant("set apart is fenced off", patch=patched(standing, "order_worker", _told_to_drop_it)),
    Mutant("a host stays closed", patch=patched(standing, "order_worker", _host_stays_closed)),
    Mutant(
        "a release forgets earlier memberships",
        shows_in=4,
        patch=patched(standing, "order_worker", _all_of_its_process),
    ),
    Mutant("an order without its entry", patch=patched(standing, "order_worker", _without_entry)),
    Mutant("a beat does not tell", patch=patched(execution, "beat", _untold)),
    Mutant(
        "a drain cuts off what runs", shows_in=1, patch=patched(Draining, "_until", _in_a_hurry)
    ),
    Mutant(
        "a quarantine cuts off what runs",
        shows_in=2,
        patch=patched(Worker, "_stand", _apart_and_cut_off),
    ),
    Mutant("a drain never ends", shows_in=56, patch=patched(Worker, "_stand", _drains_without_end)),
    Mutant("a release is not heeded", shows_in=1, patch=patched(Worker, "_stand", _never_back)),
)
