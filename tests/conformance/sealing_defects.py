"""Stores that seal the audit trail wrongly, and the test that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.audit import make_seal
from duly.store.memory import MemoryStore


class BeginsAnew(MemoryStore):
    """Chains nothing: each seal stands for itself."""

    def seal_audit(self, command):
        seal = super().seal_audit(command)
        if seal is None:
            return None
        entries = [self.tables.audit[number] for number, _ in seal.entries]
        alone = make_seal(None, entries, now=seal.sealed_at, by=seal.sealed_by)
        changed = replace(alone, number=seal.number, after=seal.after)
        self.tables.seals[seal.number] = changed
        return changed


class SealsForAnybody(MemoryStore):
    """Asks nobody for the lease."""

    def seal_audit(self, command):
        last = self.tables.seals.get(len(self.tables.seals))
        entries = self.read_trail(0 if last is None else last.through, command.limit)
        if not entries:
            return None
        seal = make_seal(last, entries, now=self.now(), by=command.fence.member)
        self.tables.seals[seal.number] = seal
        return seal


class SealsWithoutEnd(MemoryStore):
    """Seals all there is, however much."""

    def seal_audit(self, command):
        return super().seal_audit(replace(command, limit=1_000_000))


class ReadsFromTheFirst(MemoryStore):
    """Begins with the entry that was seen last."""

    def read_trail(self, after, limit):
        return super().read_trail(after - 1, limit)


class NotesNothing(MemoryStore):
    """Knows of its seals only by looking at them."""

    def trail_marks(self):
        return replace(super().trail_marks(), sealed=None)


IN_ORDER = "test_every_entry_is_sealed_once_in_its_order"
SEALING_DEFECTS = [
    (BeginsAnew, "test_what_is_written_later_gets_the_next_seal"),
    (SealsForAnybody, "test_whoever_lacks_the_maintenance_lease_seals_nothing[expired]"),
    (SealsWithoutEnd, IN_ORDER),
    (NotesNothing, "test_the_highest_numbers_are_known_apart_from_what_has_them"),
    (ReadsFromTheFirst, "test_seals_and_entries_are_read_in_pages"),
]
