"""What an application does to guard its store: who may come in, and what must never be in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.errors import UsageError, require_text
from duly.store.tenancy import KeepsTenants

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.store.protocol import Store
    from duly.store.schema import Finding

ROLE_LENGTH_MAX = 63


class Guarding:
    """A part of `duly.App`."""

    _caller: Caller

    if TYPE_CHECKING:

        @property
        def store(self) -> Store:
            """The store."""
            ...

    def grant_access(self, role: str, *, undo: bool = False, dry_run: bool = False) -> list[str]:
        """Give a role of PostgreSQL what `duly server` needs, for one tenant at a time (L2).

        Return the statements. With `undo` its rights are taken back; with `dry_run` nothing is run.
        """
        self._caller.require_operator("grant access")
        require_text("role", role, ROLE_LENGTH_MAX)
        store = self.store
        if not isinstance(store, KeepsTenants):
            problem = f"has no meaning here: {store.name} knows no roles"
            raise UsageError("role", role, problem, "use a store on PostgreSQL")
        return store.grant_access(role, is_undone=undo, is_dry=dry_run)

    def check(self) -> list[Finding]:
        """Look for what must never be in the store."""
        self._caller.require_operator("look for what must never be")
        return self.store.check()
