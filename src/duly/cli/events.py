"""`duly events`: what is ordered and decided, as it happens, and each line once."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.audit import newest_entries
from duly.cli.output import json_line, neutral
from duly.cli.target import Target, is_server, named_tenant, opened
from duly.cli.times import exact_text
from duly.cli.waiting import Patience
from duly.client.history import HistoryEntry
from duly.errors import UsageError
from duly.store.reading import PAGE_MAX

TARGET = Target()
NUMBER_DEFAULT = 20


def events(
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"])] = False,
    after: int | None = None,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NUMBER_DEFAULT,
    target: Target = TARGET,
) -> None:
    """Show what was ordered and decided, oldest first: by people, programs and the system itself.

    With --json each is a document on a line of its own. Each has a number; whoever was interrupted
    goes on with --after and the last number that was seen, and misses nothing.

    Parameters
    ----------
    follow
        Go on, and show what comes until Ctrl-C.
    after
        Only those after this number; 0 for all there are. Else the last ones.
    number
        How many of the last ones to show first.
    """
    if not 0 <= number <= PAGE_MAX:
        raise UsageError("number", number, "is out of range", f"give 0 to {PAGE_MAX:,}")
    with opened(target, makes_store=False) as app:
        is_whole = named_tenant(target) is None
        if after is None:
            after = app.events.after(None, all_tenants=is_whole).through
            found = newest_entries(app, number, {}, is_whole=is_whole) if number else []
            _print([one for one in reversed(found) if one.number <= after], as_json=target.json)
            if not follow:
                return
        if follow and is_server(app):
            for one in app.events.follow(after, all_tenants=is_whole):  # type: ignore[attr-defined]
                _print([one], as_json=target.json)
        _show_from(app, after, target, is_followed=follow)


def _show_from(app: App, after: int, target: Target, *, is_followed: bool) -> None:
    patience = Patience(None)
    while True:
        page = app.events.after(after, all_tenants=named_tenant(target) is None)
        _print(page.items, as_json=target.json)
        if page.through > after:
            after = page.through
            patience.renew()
        elif is_followed:
            patience.wait()
        else:
            return


def _print(entries: Sequence[HistoryEntry], *, as_json: bool) -> None:
    for one in entries:
        # An event is told as it happened: nobody looks up what its subject is called by now.
        told = replace(one, label=None)
        sys.stdout.write(json_line(told.to_json()) if as_json else _text(told))
    sys.stdout.flush()


def _text(entry: HistoryEntry) -> str:
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{entry.actor} ({entry.source})"
    text = f"#{entry.number} {entry.action} {entry.subject} by {by}{why}"
    return f"{exact_text(entry.at)} {neutral(text)}\n"
