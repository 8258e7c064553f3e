"""What lies in other tenants, where a list of one tenant is empty and whoever asks may know."""

from __future__ import annotations

from shlex import quote

from duly.app import App
from duly.cli.agreeing import counted
from duly.cli.output import print_line

SHOWN_MAX = 5


def print_elsewhere(app: App, states: tuple[str, ...] = ()) -> None:
    """Say how many open runs other tenants have, in these states or in any."""
    counts = {
        tenant: sum(count for state, count in found.items() if not states or state in states)
        for tenant, found in app.status().tenants.items()
        if tenant != app.tenant
    }
    others = [(tenant, count) for tenant, count in counts.items() if count]
    for tenant, count in others[:SHOWN_MAX]:
        print_line(f"{counted(count, 'open run')} in tenant {tenant}: --tenant {quote(tenant)}")
    if len(others) > SHOWN_MAX:
        print_line(f"and some in {len(others) - SHOWN_MAX:,} more tenants: duly status --json")
