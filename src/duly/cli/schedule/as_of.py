"""`duly schedule show --as-of`: how a schedule was at an instant, by the order before it."""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from duly.app import App
from duly.cli.audit_table import flat_facts
from duly.cli.output import print_facts, print_json, print_line
from duly.cli.target import Target
from duly.client.as_of import entry_as_of
from duly.client.history import HistoryEntry
from duly.client.schedule_view import Schedule
from duly.domain.instants import iso_utc
from duly.domain.time_texts import utc_text
from duly.errors import NotFound

PAGES_MAX = 20
PAGE = 200
_MICROSECOND = timedelta(microseconds=1)


def show_then(app: App, schedule: Schedule, at: datetime, target: Target) -> None:
    """Show how a schedule was: what the trail says that the last order before made of it."""
    entry = find_entry(app, schedule, at)
    assert entry.after is not None, "it says how it was afterwards"
    if target.json:
        since = {"since": iso_utc(entry.at), "entry": entry.number, "by": entry.actor}
        print_json({"as_of": iso_utc(at), "id": str(schedule.id), **since, **entry.after})
        return
    print_line((str(entry.after["name"]), "bold"), f"  as of {utc_text(at)}")
    why = f": {entry.reason}" if entry.reason else ""
    by = f"{utc_text(entry.at)}, {entry.action} by {entry.actor}{why} (#{entry.number})"
    facts = [(name, _text(value)) for name, value in flat_facts(entry.after).items()]
    print_facts([("so since", by), *facts, ("id", str(schedule.id))])


def find_entry(app: App, schedule: Schedule, at: datetime) -> HistoryEntry:
    """Return the entry of the trail that says how a schedule was; NotFound before there was one."""
    cursor: str | None = None
    for _ in range(PAGES_MAX):
        page = app.audit.page(
            subject_id=str(schedule.id),
            until=at + _MICROSECOND,
            all_tenants=False,
            limit=PAGE,
            cursor=cursor,
        )
        found = entry_as_of(page.items, at)
        if found is not None:
            return found
        cursor = page.next_cursor
        if cursor is None:
            break
    if schedule.created_at > at:
        remedy = f"it was made at {utc_text(schedule.created_at)}"
    else:
        remedy = "the trail does not reach back so far"
    raise NotFound("schedule", f"{schedule.name} as of {utc_text(at)}", remedy)


def _text(value: object) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
