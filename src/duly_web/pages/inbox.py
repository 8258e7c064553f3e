"""The inbox: runs that wait for a person, in doubt, dead or late; the safest first (UX 28-31)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from duly_web.page import Asked, Page, Shown
from duly_web.pages.runs import RunRow, run_row
from duly_web.shell import look_at_all, look_at_own
from duly_web.terms import TERMS, Term

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.api.views import InboxItem
    from duly_web.shell import Looked

PAGE_SIZE = 50
LATE = timedelta(seconds=60)
"""What is due for longer and has not begun is late by anybody's measure."""
LATE_STATES = ("queued", "blocked")
KINDS = ("doubt", "dead", "late")
COUNTED = {"doubt": "ambiguous", "dead": "dead"}
TENANTS_SHOWN_MAX = 20
ACTIONS = {
    "retry": "Retry",
    "resume": "Resume",
    "repair": "Repair rerun",
    "reconcile": "Reconcile",
    "skip": "Skip",
}
"""What people call the choices; the words of their buttons."""


class InboxQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which part of the inbox is looked at."""

    kind: str = "doubt"
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtRow:
    """A run of which nobody knows what it did."""

    run: RunRow
    since: datetime | None
    cause: str
    """What left it so."""
    safest: str
    why: str
    done: int
    unknown: int
    has_check: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DoubtGroup:
    """Runs in doubt for the same cause, about which the same is advised: decided together (31)."""

    task: str
    cause: str
    safest: str
    action: str
    why: str
    rows: tuple[DoubtRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxModel:
    """The page."""

    kind: str
    groups: tuple[DoubtGroup, ...] = ()
    rows: tuple[RunRow, ...] = ()
    next_cursor: str | None = None
    has_cursor: bool = False
    doubts: int = 0
    dead: int = 0
    elsewhere: tuple[tuple[str, int], ...] = ()
    """Of other tenants that the visitor may look into: how many of this kind they have."""
    terms: tuple[Term, ...] = TERMS


def show_inbox(asked: Asked) -> Shown:
    """Show what waits for somebody."""
    query: InboxQuery = asked.query
    kind = query.kind if query.kind in KINDS else KINDS[0]
    if kind == "doubt":
        model = InboxModel(
            kind=kind, groups=group_doubts(asked.app.inbox.list(limit=PAGE_SIZE), asked.now)
        )
    elif kind == "dead":
        page = asked.app.runs.page(state="dead", limit=PAGE_SIZE, cursor=query.cursor)
        rows = tuple(run_row(one, asked.now) for one in page.items)
        model = InboxModel(
            kind=kind, rows=rows, next_cursor=page.next_cursor, has_cursor=bool(query.cursor)
        )
    else:
        # What is late is measured anew each time, so there is no going on from an earlier look.
        until = asked.now - LATE
        page = asked.app.runs.page(state=LATE_STATES, until=until, limit=PAGE_SIZE)
        model = InboxModel(kind=kind, rows=tuple(run_row(one, asked.now) for one in page.items))
    # The tabs count what the lists hold; the lights above are of all that the visitor may see.
    looked = look_at_all(asked)
    own = look_at_own(asked, looked)
    elsewhere = () if kind == "late" else _elsewhere(looked, asked.visitor.tenant, COUNTED[kind])
    model = replace(model, doubts=own.ambiguous, dead=own.dead, elsewhere=elsewhere)
    return Shown(template="inbox.html", model=model, title="Inbox", looked=looked)


def _elsewhere(looked: Looked, tenant: str, state: str) -> tuple[tuple[str, int], ...]:
    counts = {name: one.get(state, 0) for name, one in looked.status.tenants.items()}
    found = [(name, count) for name, count in counts.items() if count and name != tenant]
    return tuple(found[:TENANTS_SHOWN_MAX])


def group_doubts(items: Iterable[InboxItem], now: datetime) -> tuple[DoubtGroup, ...]:
    """Put together what has the same cause and the same advice, the largest group first."""
    groups: dict[tuple[str, str, str, str], list[DoubtRow]] = {}
    for item in items:
        row = doubt_row(item, now)
        groups.setdefault((item.run.task, row.cause, row.safest, row.why), []).append(row)
    made = [
        DoubtGroup(
            task=task,
            cause=cause,
            safest=safest,
            action=ACTIONS[safest],
            why=why,
            rows=tuple(rows),
        )
        for (task, cause, safest, why), rows in groups.items()
    ]
    return tuple(sorted(made, key=lambda one: -len(one.rows)))


def doubt_row(item: InboxItem, now: datetime) -> DoubtRow:
    """Show one run that is in doubt."""
    done = sum(one.state == "done" for one in item.effects)
    return DoubtRow(
        run=run_row(item.run, now),
        since=item.since,
        cause=cause_of(item),
        safest=str(item.advice.choice),
        why=item.advice.why,
        done=done,
        unknown=len(item.effects) - done,
        has_check=item.has_check,
    )


def cause_of(item: InboxItem) -> str:
    """Say in a few words what left a run in doubt."""
    if item.attempt is None:
        return "not on record"
    return item.attempt.reason or item.attempt.state


PAGES = (
    Page(
        method="GET",
        path="/inbox",
        name="inbox",
        scope="read",
        handler=show_inbox,
        query=InboxQuery,
    ),
)
