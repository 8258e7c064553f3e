"""Commands that a page offers to be copied: to be typed as they are, about the same things."""

from __future__ import annotations

import shlex

from duly.api.views import TENANT_DEFAULT

PROGRAM = "duly"


def command_text(tenant: str | None, *words: str) -> str:
    """Return a command about what is a tenant's; None for what all tenants share."""
    return shlex.join((PROGRAM, *_whose(tenant), *words))


def of_tenant(tenant: str | None, command: str) -> str:
    """Return a command of the engine's with whose things it is about, unless it says so itself."""
    name, _, rest = command.partition(" ")
    if name != PROGRAM or "--tenant" in rest:
        return command
    return " ".join((name, *(shlex.quote(one) for one in _whose(tenant)), rest))


def _whose(tenant: str | None) -> tuple[str, ...]:
    return () if tenant in {None, TENANT_DEFAULT} else ("--tenant", str(tenant))
