"""`duly audit`: who did what, when, why and from where."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from duly.cli.audit_table import print_entries
from duly.cli.output import print_json
from duly.cli.target import Target, opened
from duly.client.history import entry_view
from duly.errors import UsageError
from duly.store.reading import PAGE_MAX, AuditFilter

TARGET = Target()
NUMBER_DEFAULT = 20


def audit(  # noqa: PLR0913 - each filter is an argument
    *,
    subject: str | None = None,
    actor: str | None = None,
    action: str | None = None,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show what was ordered and decided, newest first; what the system did by itself too.

    Parameters
    ----------
    subject
        Only about this: a schedule's name, a delayed run's key.
    actor
        Only by this person or program; the system's own name is duly.
    action
        Only this, such as schedule.paused.
    number
        How many entries to show at the most.
    """
    if not 1 <= number <= PAGE_MAX:
        raise UsageError("number", number, "is out of range", f"give 1 to {PAGE_MAX:,}")
    with opened(target, makes_store=False) as app:
        command = AuditFilter(subject=subject, actor=actor, action=action, limit=number)
        entries = [entry_view(entry) for entry in app.store.list_audit(command)]
        if target.json:
            print_json([entry.to_json() for entry in entries])
        else:
            print_entries(entries, has_subject=True)
