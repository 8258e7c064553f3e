"""Follow the audit trail; write and list seals.

The sealer seals entries afterwards, in their order, so that writing an entry costs nothing more. It
seals only settled entries: where a lower number may still be committed, it waits.

A number is drawn before its entry is committed. With several writers, a higher number may be seen
first, and a reader that continued after it would never see the lower one. So a page ends before a
number that is absent and may still come; a number that was given up is passed over.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from duly.domain.audit import Seal, SealedEntry
from duly.store.ports.queries import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.audit import AuditEntry
    from duly.store.ports.dispatch import Fence
    from duly.store.records import Row


_ENTRY = struct.Struct(">q32s")


@dataclass(frozen=True, slots=True, kw_only=True)
class SealAudit:
    """Seal what follows the last seal and is settled."""

    fence: Fence
    limit: int
    """At most so many entries."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrailMarks:
    """What a store knows of its audit trail apart from entries and seals."""

    sealed: int | None
    """The highest number that a seal has had; None where seals were made before it was noted."""
    drawn: int | None
    """The highest number that was drawn for an entry; None where the database does not tell."""
    is_gapless: bool
    """Whether an order that fails gives its number back, so that each number has an entry."""


TALLY = "seals"
"""Under this name the tallies hold the highest number that a seal has had."""


class SealingStore(Protocol):
    """Seals the audit trail, and shows the seals."""

    def seal_audit(self, command: SealAudit) -> Seal | None:
        """Write the next seal, and return it; None when there is nothing to seal.

        Needs the backfill lease of shard 0 (maintenance): a stale owner seals nothing. Whatever is
        committed later has a number above those that are sealed. Notes the number of the seal in
        the same transaction, and gives none again that was noted.
        """
        ...

    def trail_marks(self) -> TrailMarks:
        """Return the highest numbers of entries and seals, as noted apart from them."""
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


NEWEST_LOOKED_AT = 1000
"""How far back from the newest entry one looks for numbers that may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditAfter:
    """Which audit entries, oldest first."""

    after: int | None
    """Those of higher numbers; None for none of them: only to learn where the trail ends now."""
    tenant: str | None = None
    """Only this tenant's; None for all of them."""
    limit: int = PAGE_MAX
    """How many entries are looked at, of whichever tenant."""


@dataclass(frozen=True, slots=True)
class TrailPage:
    """Entries in the order of their numbers, and how far the trail was looked at."""

    entries: tuple[AuditEntry, ...]
    through: int
    """From where to go on. Nothing of this number or a lower one will come any more."""


class TrailingStore(Protocol):
    """Follows the audit trail."""

    def follow_audit(self, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first, without ever leaving one out.

        Whoever asks again from `through` sees every entry once, whenever it was committed.
        """
        ...


def decided_page(
    command: AuditAfter, entries: Sequence[AuditEntry], may_come: Callable[[int], bool]
) -> TrailPage:
    """Return what may be told of entries in their order.

    `may_come` says of an entry whether one before it is missing and may still come.
    """
    # Where a trail is looked at from its end, what lies before the first is nobody's concern.
    before = command.after
    through = 0 if before is None else before
    told: list[AuditEntry] = []
    for entry in entries:
        is_gap = before is not None and entry.number != before + 1
        if is_gap and may_come(entry.number):
            break
        if command.after is not None and command.tenant in {None, entry.tenant}:
            told.append(entry)
        before = through = entry.number
    return TrailPage(tuple(told), through)
