"""Sealing the audit trail on the memory store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, TypeVar

from duly.domain.audit import make_seal
from duly.domain.enums import Lane
from duly.store.memory.ownership import held_shards
from duly.store.ports.audit import TrailMarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.audit import AuditEntry, Seal
    from duly.store.memory.tables import Journal
    from duly.store.ports.audit import SealAudit


T = TypeVar("T")


class MemorySealing(ABC):
    """What the sealer does, and who verifies reads."""

    @abstractmethod
    def _write(self, operation: Callable[[Journal], T]) -> T:
        """Carry an operation out: all of it, or nothing."""

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables."""

    def seal_audit(self, command: SealAudit) -> Seal | None:
        """Chain what is settled of the audit trail with a hash; None when there is nothing."""
        return self._write(lambda journal: seal_audit(journal, command))

    def trail_marks(self) -> TrailMarks:
        """Return the highest numbers of entries and seals; here they are nowhere else."""
        return self._read(trail_marks)

    def list_seals(self, after: int, limit: int) -> list[Seal]:
        """Return seals of higher numbers, oldest first."""
        return self._read(lambda journal: list_seals(journal, after, limit))

    def read_trail(self, after: int, limit: int) -> list[AuditEntry]:
        """Return entries of higher numbers that are there, oldest first."""
        return self._read(lambda journal: read_trail(journal, after, limit))


def seal_audit(journal: Journal, command: SealAudit) -> Seal | None:
    """Write the next seal, if the maintenance lease is ours."""
    held, _ = held_shards(journal, command.fence, Lane.BACKFILL)
    if 0 not in held:
        return None
    seals = journal.tables.seals
    last = seals[max(seals)] if seals else None
    entries = read_trail(journal, 0 if last is None else last.through, command.limit)
    if not entries:
        return None
    seal = make_seal(last, entries, now=journal.now, by=command.fence.member)
    journal.insert(seals, seal.number, seal)
    return seal


def trail_marks(journal: Journal) -> TrailMarks:
    """Return the highest numbers of entries and seals."""
    tables = journal.tables
    sealed, drawn = max(tables.seals, default=None), max(tables.audit, default=0)
    return TrailMarks(sealed=sealed, drawn=drawn, is_gapless=True)


def list_seals(journal: Journal, after: int, limit: int) -> list[Seal]:
    """Return seals of higher numbers."""
    seals = journal.tables.seals
    return [seals[number] for number in sorted(seals) if number > after][:limit]


def read_trail(journal: Journal, after: int, limit: int) -> list[AuditEntry]:
    """Return entries of higher numbers."""
    audit = journal.tables.audit
    return [audit[number] for number in sorted(audit) if number > after][:limit]
