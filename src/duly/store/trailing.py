"""The trailing port: the audit trail in the order of its numbers, for whoever follows it.

A number is drawn before its entry is committed. Where several write at a time, a higher one may be
seen first: whoever went on from it would never see the lower. So a page ends before a number that
is not there and may still come; one that was given up is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from duly.store.reading import PAGE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.audit import AuditEntry

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
