"""Audit trail, proof, missing runs."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec

from duly import UsageError
from duly.api.views import zone_of
from duly.web.formatting import local_date
from duly.web.pages.fleet import owner_path
from duly.web.rendering import command_text
from duly.web.requests import Page, PageRequest, Rendered, read_place, write_place

if TYPE_CHECKING:
    from duly.api.views import HistoryEntry, LookedFrom, MissingRun, ProvenOccurrence


PAGE_SIZE = 50
CHANGES_MAX = 40
"""So many changed fields of an entry are shown."""
TEXT_MAX = 300
"""A value is shown so far."""
PLACES = {
    "queue": "/fleet",
    "worker": "/fleet",
    "member": "/fleet",
    "alert": "/alerts",
    "backfill": "/backfills",
}
"""Where what has no page of its own is listed, by the kind of an action."""
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SYSTEM = "duly"
"""As whom the system decides by itself."""


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    """What the trail is narrowed by; all of it stands in the address."""

    subject: str | None = None
    action: str | None = None
    actor: str | None = None
    since: str | None = None
    until: str | None = None
    scope: str | None = None
    """`all`: what is of no tenant, too."""
    cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One field, before and after."""

    field: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRow:
    """One entry."""

    number: int
    at: datetime
    actor: str
    source: str
    address: str | None
    credential: str | None
    action: str
    subject: str
    name: str
    """What people call it."""
    id: str | None
    """Beside the name of a run."""
    path: str | None
    """Where it is shown; None for what has no page, or is forgotten."""
    reason: str | None
    changes: tuple[Change, ...]
    is_automatic: bool
    """Whether the system decided it, and nobody ordered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditModel:
    """The page."""

    query: AuditQuery
    rows: tuple[AuditRow, ...]
    next_cursor: str | None

    @property
    def is_filtered(self) -> bool:
        """Whether nothing to be seen may mean that there is something else."""
        return any(msgspec.structs.astuple(self.query))


def show_audit(asked: PageRequest) -> Rendered:
    """Show entries, newest first."""
    query: AuditQuery = asked.query
    page = asked.app.audit.page(
        subject=query.subject,
        action=query.action,
        actor=query.actor,
        since=query.since,
        until=query.until,
        all_tenants=query.scope == "all",
        limit=PAGE_SIZE,
        cursor=query.cursor,
    )
    rows = tuple(audit_row(one) for one in page.items)
    model = AuditModel(query=query, rows=rows, next_cursor=page.next_cursor)
    return Rendered(template="audit.html", model=model, title="Audit")


def audit_row(entry: HistoryEntry) -> AuditRow:
    """Show one entry."""
    run = None if entry.label is None else _id(entry.subject)
    return AuditRow(
        number=entry.number,
        at=entry.at,
        actor=entry.actor,
        source=entry.source,
        address=entry.address,
        credential=entry.credential,
        action=entry.action,
        subject=entry.subject,
        name=entry.label or entry.subject,
        id=run,
        path=_path(entry, run),
        reason=entry.reason,
        changes=changes_of(entry.before, entry.after),
        is_automatic=entry.actor == SYSTEM,
    )


def _id(subject: str) -> str | None:
    found = _ID.search(subject)
    return None if found is None else found[0]


def _path(entry: HistoryEntry, run: str | None) -> str | None:
    """Return where the thing is shown that an entry is about."""
    if run is not None:
        return f"/runs/{run}"
    kind = entry.action.partition(".")[0]
    if kind == "schedule" and _id(entry.subject) is None:
        return f"/schedules/{quote(entry.subject, safe='')}"
    if kind == "owner":
        return owner_path(entry.subject)
    return PLACES.get(kind)


def changes_of(
    before: dict[str, object] | None, after: dict[str, object] | None
) -> tuple[Change, ...]:
    """Return the fields that differ, by name."""
    old, new = before or {}, after or {}
    fields = [one for one in dict.fromkeys((*old, *new)) if old.get(one) != new.get(one)]
    return tuple(
        Change(one, _text(old.get(one)), _text(new.get(one))) for one in fields[:CHANGES_MAX]
    )


def _text(value: object) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= TEXT_MAX else f"{text[:TEXT_MAX]}…"


PAGES = (
    Page(
        method="GET",
        path="/audit",
        name="audit",
        scope="read",
        handler=show_audit,
        query=AuditQuery,
    ),
)


SPANS = {"1h": timedelta(hours=1), "1d": timedelta(days=1), "7d": timedelta(days=7)}
MISSING_ROWS_MAX = 120
"""So many rows make a page of less than 150 kB."""


class MissingQuery(msgspec.Struct, forbid_unknown_fields=True):
    """How far back is looked, and at which schedule."""

    span: str = "1d"
    schedule: str | None = None
    cursor: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MissingModel:
    """The page."""

    query: MissingQuery
    rows: tuple[MissingRun, ...]
    """Newest first."""
    cut: tuple[LookedFrom, ...]
    more: int
    slots: int
    schedules: int
    next_cursor: str | None
    spans: tuple[str, ...] = tuple(SPANS)


def show_missing(asked: PageRequest) -> Rendered:
    """Show what should exist by the timetables, and does not."""
    query: MissingQuery = asked.query
    if query.span not in SPANS:
        raise UsageError("span", query.span, "is no span", f"choose of {', '.join(SPANS)}")
    found = asked.app.runs.missing(
        asked.now - SPANS[query.span], schedule=query.schedule, after=read_place(query.cursor)
    )
    rows = sorted(found.items, key=lambda one: (one.is_missing, one.due_at), reverse=True)
    model = MissingModel(
        query=query,
        rows=tuple(rows[:MISSING_ROWS_MAX]),
        cut=found.cut,
        more=max(0, len(rows) - MISSING_ROWS_MAX),
        slots=found.slots,
        schedules=found.schedules,
        next_cursor=write_place(found.after),
    )
    return Rendered(template="missing.html", model=model, title="Missing runs")


MISSING_PAGES = (
    Page(
        method="GET",
        path="/missing",
        name="missing",
        scope="read",
        handler=show_missing,
        query=MissingQuery,
    ),
)


ROWS_MAX = 100
"""So many rows make a page of less than 150 kB; those that are not proven come first."""
RUNS_SHOWN_MAX = 10
MISSING_SHOWN_MAX = 20
EVIDENCE_LENGTH_MAX = 500
DAY = timedelta(days=1)


class ProofPageQuery(msgspec.Struct, forbid_unknown_fields=True):
    """Which day, in the schedule's own time zone; today unless told."""

    day: str | None = None


@dataclass(frozen=True, slots=True)
class ProvenRun:
    """A run of an occurrence."""

    id: str
    origin: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofRow:
    """One occurrence, with what is known of what it brought about."""

    at: datetime
    standing: str
    why: str
    items: str | None
    check: str | None
    checked_by: str | None
    checked_at: datetime | None
    evidence: str | None
    runs: tuple[ProvenRun, ...]
    runs_more: int
    missing: tuple[str, ...]
    missing_more: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProofModel:
    """The page."""

    id: str
    name: str
    day: date
    before: date
    after: date
    zone: str
    is_proven: bool
    counts: tuple[tuple[str, int], ...]
    """How many occurrences stand how."""
    rows: tuple[ProofRow, ...]
    more: int
    command: str


def show_proof(asked: PageRequest) -> Rendered:
    """Show whether a day's work is done, all of it and once."""
    schedule = asked.app.schedules.get(asked.path["schedule"])
    zone = zone_of(schedule.timetable) or "UTC"
    day = asked.query.day or local_date(asked.now, zone)
    proof = asked.app.prove(schedule.id, day)
    found = proof.occurrences
    if len(found) > ROWS_MAX:
        found = tuple(sorted(found, key=lambda one: one.standing == "proven"))
    counted = Counter(one.standing for one in proof.occurrences)
    model = ProofModel(
        id=str(schedule.id),
        name=schedule.name,
        day=proof.day,
        before=_moved(proof.day, -DAY),
        after=_moved(proof.day, DAY),
        zone=proof.tz,
        is_proven=proof.is_proven,
        counts=tuple(sorted(counted.items())),
        rows=tuple(_row(one) for one in found[:ROWS_MAX]),
        more=max(0, len(found) - ROWS_MAX),
        command=command_text(
            asked.app.tenant, "prove", schedule.name, "--for", proof.day.isoformat()
        ),
    )
    return Rendered(template="proof.html", model=model, title=f"Proof of {schedule.name}")


def _moved(day: date, by: timedelta) -> date:
    try:
        return day + by
    except OverflowError:
        return day  # there is no other


def _row(one: ProvenOccurrence) -> ProofRow:
    scope, check = one.scope, one.check
    expected = "?" if scope.expected is None else f"{scope.expected:,}"
    runs = tuple(ProvenRun(str(run.id), run.origin, run.state) for run in one.runs)
    return ProofRow(
        at=one.occurrence.scheduled_for,
        standing=one.standing,
        why=one.why,
        items=f"{scope.done:,} of {expected}" if scope.is_known else None,
        check=None if check is None else check.verdict,
        checked_by=None if check is None else check.by,
        checked_at=None if check is None else check.at,
        evidence=None if check is None else _evidence(check.evidence),
        runs=runs[-RUNS_SHOWN_MAX:],
        runs_more=max(0, len(runs) - RUNS_SHOWN_MAX),
        missing=tuple(scope.missing[:MISSING_SHOWN_MAX]),
        missing_more=max(0, len(scope.missing) - MISSING_SHOWN_MAX),
    )


def _evidence(evidence: object) -> str | None:
    if evidence is None:
        return None
    text = json.dumps(evidence, ensure_ascii=False)
    return text if len(text) <= EVIDENCE_LENGTH_MAX else f"{text[:EVIDENCE_LENGTH_MAX]}…"


PROOF_PAGES = (
    Page(
        method="GET",
        path="/schedules/{schedule}/proof",
        name="proof",
        scope="read",
        handler=show_proof,
        query=ProofPageQuery,
    ),
)
