"""Events in a program's hands: what was ordered and decided, in the order in which it was written.

They are the entries of the audit trail. Whoever follows goes on from where the last page ended, and
sees each of them once, whatever was committed late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.client.history import HistoryEntry, entry_view
from duly.errors import UsageError
from duly.store.reading import PAGE_MAX
from duly.store.trailing import AuditAfter

if TYPE_CHECKING:
    from duly.client.caller import Caller

NUMBER_MAX = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events in their order, and the number to go on from."""

    items: tuple[HistoryEntry, ...]
    through: int
    """Give it as `number` to see what comes next; it may have grown though there are no items."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {"items": [one.to_json() for one in self.items], "through": self.through}


class Events:
    """What happens, to be followed."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def after(
        self, number: int | None = None, *, limit: int = PAGE_MAX, all_tenants: bool = False
    ) -> EventPage:
        """Return events of higher numbers, oldest first; of None none: only where they end now."""
        if number is not None and not (_is_whole(number) and 0 <= number <= NUMBER_MAX):
            remedy = "give the number of the last event that was seen, or 0 for all there are"
            raise UsageError("after", number, "is not the number of an event", remedy)
        if not (_is_whole(limit) and 1 <= limit <= PAGE_MAX):
            raise UsageError("limit", limit, "is out of range", f"give 1 to {PAGE_MAX:,}")
        if all_tenants:
            self._caller.require_operator("follow what happens to others")
        tenant = None if all_tenants else self._caller.tenant
        command = AuditAfter(after=number, tenant=tenant, limit=limit)
        page = self._caller.store.follow_audit(command)
        return EventPage(tuple(entry_view(one) for one in page.entries), page.through)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
