"""Proof: whether a day's occurrences of a schedule did all that they were to, once (E6)."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from duly.api.views import zone_of
from duly_web.commands import command_text
from duly_web.moments import local_date
from duly_web.page import Asked, Page, Shown

if TYPE_CHECKING:
    from duly.api.views import ProvenOccurrence

ROWS_MAX = 100
"""So many rows make a page of less than 150 kB; those that are not proven come first."""
RUNS_SHOWN_MAX = 10
MISSING_SHOWN_MAX = 20
EVIDENCE_LENGTH_MAX = 500
DAY = timedelta(days=1)


class ProofQuery(msgspec.Struct, forbid_unknown_fields=True):
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


def show_proof(asked: Asked) -> Shown:
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
    return Shown(template="proof.html", model=model, title=f"Proof of {schedule.name}")


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


PAGES = (
    Page(
        method="GET",
        path="/schedules/{schedule}/proof",
        name="proof",
        scope="read",
        handler=show_proof,
        query=ProofQuery,
    ),
)
