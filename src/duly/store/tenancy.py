"""A store whose database keeps tenants apart by itself, once it is told whose orders it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from duly.store.protocol import Store


class Owned(Protocol):
    """Something that is a tenant's."""

    @property
    def tenant(self) -> str:
        """Whose it is."""
        ...


T = TypeVar("T", bound=Owned)


class KeepsTenants:
    """What a client of one tenant speaks to, where there is a second line of defence (L2)."""

    def within(self, tenant: str) -> Store:
        """Return this store for the orders and questions of one tenant."""
        raise NotImplementedError

    @property
    def is_held(self) -> bool:
        """Whether it sees one tenant's at a time, and of all together nothing.

        Known once it was asked anything.
        """
        raise NotImplementedError

    def grant_access(self, role: str, *, is_undone: bool, is_dry: bool) -> list[str]:
        """Give a role of the database what a server needs, for one tenant at a time.

        Undone, take it back. Return the statements; dry, none of them is run. Doing it again is no
        error. NotFound when there is no such role; UsageError for one that nothing would hold.
        """
        raise NotImplementedError


def sees_everything(store: Store) -> bool:
    """Say whether a store that was asked something already sees what is every tenant's."""
    return not (isinstance(store, KeepsTenants) and store.is_held)


def part_of(store: Store, tenant: str) -> Store:
    """Return a store for the orders and questions of one tenant, if it keeps tenants apart."""
    return store.within(tenant) if isinstance(store, KeepsTenants) else store


def of_tenant(found: T | None, tenant: str | None) -> T | None:
    """Return what was found if it is a tenant's; whosever it is when none is named."""
    return found if found is None or tenant in {None, found.tenant} else None
