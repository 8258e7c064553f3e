"""Quotas in a program's hands: how much one owner, one tenant, or all together may ask for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.client.reading import read_tenant
from duly.domain.instants import from_microseconds, iso_or_none
from duly.domain.limits import tenant_of
from duly.domain.quotas import EACH_OWNER, OWNED_DEFAULT, Counted, read_most, read_scope
from duly.errors import UsageError
from duly.store.quotas import SetQuotas

if TYPE_CHECKING:
    from datetime import datetime

    from duly.client.caller import Caller
    from duly.domain.quotas import Quota as Record
    from duly.domain.quotas import QuotaKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """One quota on one line."""

    scope: str
    """Whose: `owner:anna`, `owner:*` (each by itself), `tenant:acme`, `tenant:*`, `all`."""
    tenant: str | None
    """Of an owner's own quota: whose owner."""
    counted: str
    """What it bounds: schedules (active), creations (of schedules in a minute), pending (runs)."""
    most: int | None
    """None for no bound."""
    version: int
    """Grows with every change; 0 for the one that holds unless somebody says otherwise."""
    updated_at: datetime | None
    updated_by: str | None

    @property
    def is_default(self) -> bool:
        """Whether nobody has set it."""
        return self.version == 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "scope": self.scope,
            "tenant": self.tenant,
            "counted": self.counted,
            "most": self.most,
            "version": self.version,
            "is_default": self.is_default,
            "updated_at": iso_or_none(self.updated_at),
            "updated_by": self.updated_by,
        }


# A class that has a method `list` can't name the type below it.
ListedQuotas = list[Quota]
_DEFAULT = Quota(
    scope=EACH_OWNER,
    tenant=None,
    counted=str(Counted.SCHEDULES),
    most=OWNED_DEFAULT,
    version=0,
    updated_at=None,
    updated_by=None,
)


class Quotas:
    """The quotas of a store."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def set(  # noqa: PLR0913 - each quota is an argument
        self,
        scope: str,
        *,
        tenant: str | None = None,
        schedules: int | str | None = None,
        creations: int | str | None = None,
        pending: int | str | None = None,
        reason: str | None = None,
    ) -> ListedQuotas:
        """Set quotas of a scope; what is not given stays. "none" lifts one. Return the scope's.

        `schedules` bounds active schedules, `creations` how many are made in a minute, `pending`
        delayed runs. An owner is one of the `tenant`, this application's unless told. What there is
        already stays.
        """
        self._caller.require_operator("set quotas")
        key = self._key(scope, tenant)
        given = {
            Counted.SCHEDULES: schedules,
            Counted.CREATIONS: creations,
            Counted.PENDING: pending,
        }
        most = {
            counted: read_most(key, counted, value)
            for counted, value in given.items()
            if value is not None
        }
        if not most:
            remedy = f"give one of {', '.join(Counted)}"
            raise UsageError("quota", scope, "is asked to change nothing", remedy)
        command = SetQuotas(key=key, most=most, actor=self._caller.ordering(reason))
        return [_view(one) for one in self._caller.store.set_quotas(command)]

    def remove(self, scope: str, *, tenant: str | None = None, reason: str | None = None) -> None:
        """Take back all that was set for a scope: what is said about each holds again."""
        self._caller.require_operator("take quotas back")
        key = self._key(scope, tenant)
        self._caller.store.remove_quotas(key, self._caller.ordering(reason))

    def list(self) -> ListedQuotas:
        """Return every quota by scope, and the one that holds for each owner unless it is set.

        To a tenant's caller, those that bind it.
        """
        stored = self._caller.store.list_quotas()
        found = [_view(one) for one in stored if self._concerns(one.key)]
        if any(one.scope == EACH_OWNER for one in found):
            return found
        return sorted([*found, _DEFAULT], key=lambda one: (one.scope, one.tenant or ""))

    def _concerns(self, key: QuotaKey) -> bool:
        """Say whether a quota is one that the caller may see."""
        whose = key.tenant or tenant_of(key.scope)
        return not self._caller.is_confined or whose in {None, self._caller.tenant}

    def _key(self, scope: str, tenant: str | None) -> QuotaKey:
        key = read_scope(scope, self._caller.tenant if tenant is None else read_tenant(tenant))
        if tenant is not None and not key.tenant:
            remedy = "leave it out, or name an owner: owner:NAME"
            raise UsageError("tenant", tenant, f"says nothing about {key.scope}", remedy)
        return key


def _view(record: Record) -> Quota:
    return Quota(
        scope=record.key.scope,
        tenant=record.key.tenant or None,
        counted=str(record.counted),
        most=record.most,
        version=record.version,
        updated_at=from_microseconds(record.updated_at),
        updated_by=record.updated_by,
    )
