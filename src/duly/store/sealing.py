"""The sealing port: one sealer chains the audit trail with hashes; anybody can verify it (A2).

Entries are sealed afterwards, in their own order, so that writing one costs nothing more. Only what
is settled is sealed: where a lower number may still be committed, the sealer waits for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from duly.domain.sealing import Seal, SealedEntry

if TYPE_CHECKING:
    from duly.domain.audit import AuditEntry
    from duly.store.dispatch import Fence
    from duly.store.records import Row

_ENTRY = struct.Struct(">q32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAudit:
    """Seal what follows the last seal and is settled."""

    fence: Fence
    limit: int
    """At most so many entries."""


class SealingStore(Protocol):
    """Seals the audit trail, and shows the seals."""

    def seal_audit(self, command: SealAudit) -> Seal | None:
        """Write the next seal, and return it; None when there is nothing to seal.

        Needs the backfill lease of shard 0 (maintenance): a stale owner seals nothing. Whatever is
        committed later has a number above those that are sealed.
        """
        ...

    def list_seals(self, after: int, limit: int) -> list[Seal]:
        """Return seals of higher numbers, oldest first."""
        ...

    def read_trail(self, after: int, limit: int) -> list[AuditEntry]:
        """Return entries of higher numbers that are there, oldest first, settled or not."""
        ...


def seal_row(seal: Seal) -> tuple[int | bytes, ...]:
    """Return a seal as databases have it."""
    entries = b"".join(_ENTRY.pack(*one) for one in seal.entries)
    stretch = (seal.number, seal.after, seal.through)
    return (*stretch, seal.format, entries, seal.hash, seal.sealed_at, seal.sealed_by)


def read_seal(row: Row) -> Seal:
    """Return a seal from its row; of what is cut short, as much as there is."""
    number, after, through, made_as, packed, hashed, sealed_at, sealed_by = row
    whole = packed[: len(packed) // _ENTRY.size * _ENTRY.size]
    return Seal(
        number=number,
        after=after,
        through=through,
        entries=tuple(SealedEntry(*one) for one in _ENTRY.iter_unpack(whole)),
        sealed_at=sealed_at,
        sealed_by=sealed_by,
        format=made_as,
        hash=bytes(hashed),
    )
