"""How much somebody may still make, told before the click (S7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly import App

COUNTED_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """One limit, and how much of it is used."""

    whose: str
    used: int
    most: int

    @property
    def is_used_up(self) -> bool:
        """Whether one more would be refused."""
        return self.used >= self.most


def allowances(app: App, owner: str) -> tuple[Allowance, ...]:
    """Return the limits on active schedules that a new one would count against."""
    said = {
        (one.scope, one.tenant): one.most for one in app.quotas.list() if one.counted == "schedules"
    }
    found = []
    tenant = _first(said, (f"tenant:{app.tenant}", None), ("tenant:*", None))
    if tenant is not None:
        found.append(Allowance(whose=app.tenant, used=_active(app), most=tenant))
    if owner:
        own = _first(said, (f"owner:{owner}", app.tenant), ("owner:*", None))
        if own is not None:
            found.append(Allowance(whose=owner, used=_active(app, owner), most=own))
    return tuple(found)


def _first(
    said: dict[tuple[str, str | None], int | None], *keys: tuple[str, str | None]
) -> int | None:
    """Return what the first of them says that says anything."""
    return next((said[key] for key in keys if key in said), None)


def _active(app: App, owner: str | None = None) -> int:
    return len(app.schedules.page(status="active", owner=owner, limit=COUNTED_MAX).items)
