"""Proof in a program's hands: whether a day's occurrences did all they were to, once (E6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.doubt_view import check_view
from duly.client.history import Occurrence, read_occurrences
from duly.client.runs import run_views
from duly.client.schedule_orders import find_schedule
from duly.domain import proving
from duly.domain.identity import RunId
from duly.domain.instants import to_microseconds
from duly.domain.literals import RunState
from duly.domain.proving import Standing
from duly.domain.runs import VerdictKind
from duly.domain.scope import Scope
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.once import at
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from duly.client.caller import Caller
    from duly.client.doubt_view import Check
    from duly.client.run_view import Run
    from duly.client.runs import Runs
    from duly.client.schedule_orders import Reference
    from duly.store.reading import Seen
    from duly.store.surveys import Findings

    Line = list[Run]

LINE_MAX = 100
"""So many runs of one occurrence are looked at, the newest."""
ASKED_MAX = 1_000
"""So many runs are asked about at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenOccurrence:
    """One occurrence: what became of it, and how sure one can be."""

    occurrence: Occurrence
    runs: tuple[Run, ...]
    """Its run and those that repeat it, the first one first."""
    check: Check | None
    """The last look at its result."""
    scope: Scope
    standing: str
    why: str

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **self.occurrence.to_json(),
            "standing": self.standing,
            "why": self.why,
            "runs": [
                {"id": str(run.id), "origin": run.origin, "state": run.state} for run in self.runs
            ],
            "check": None if self.check is None else self.check.to_json(),
            "scope": self.scope.to_json(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What is known about all of a day's occurrences of a schedule."""

    schedule: str
    day: date
    tz: str
    occurrences: tuple[ProvenOccurrence, ...]

    @property
    def is_proven(self) -> bool:
        """Whether every occurrence of the day is proven, and there is one."""
        found = [one.standing for one in self.occurrences]
        return bool(found) and all(standing == Standing.PROVEN for standing in found)

    @property
    def is_ambiguous(self) -> bool:
        """Whether nobody knows what one of them did."""
        return any(one.standing == Standing.AMBIGUOUS for one in self.occurrences)

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            "schedule": self.schedule,
            "day": self.day.isoformat(),
            "zone": self.tz,
            "is_proven": self.is_proven,
            "occurrences": [one.to_json() for one in self.occurrences],
        }


class Proving:
    """Answers whether a day's work is done, all of it and once."""

    def __init__(self, caller: Caller, runs: Runs) -> None:
        self._caller = caller
        self._runs = runs

    def prove(self, schedule: Reference, day: date | str) -> Proof:
        """Return what is known of a schedule's occurrences on a day, in its own time zone."""
        seen = find_schedule(self._caller, schedule)
        read = _read_day(day)
        tz = zone_of(seen.record.definition.timetable) or "UTC"
        found = read_occurrences(self._caller, seen, _span(read, tz))
        return Proof(
            schedule=seen.record.name,
            day=read,
            tz=tz,
            occurrences=self._judged(found, self._lines(seen, found)),
        )

    def _lines(self, seen: Seen, occurrences: Sequence[Occurrence]) -> list[Line]:
        """Return the runs of each occurrence: its own, and what people have run once more."""
        if not occurrences:
            return []
        lines: dict[datetime, Line] = {one.scheduled_for: [] for one in occurrences}
        for run in self._runs_within(seen, min(lines), max(lines)):
            line = lines.get(run.scheduled_for)
            if line is not None and len(line) < LINE_MAX:
                line.append(run)
        known = {run.id: run for line in lines.values() for run in line}
        named = {one.run for one in occurrences if one.run is not None}
        known |= self._named(sorted(named - known.keys()))
        for one in occurrences:
            line = lines[one.scheduled_for]
            # One that stands for it is of another instant.
            its = None if one.run is None else known.get(one.run)
            if its is not None and its.id not in {run.id for run in line}:
                line.append(its)
        return [
            sorted(lines[one.scheduled_for], key=lambda run: (run.created_at, run.id))
            for one in occurrences
        ]

    def _runs_within(self, seen: Seen, first: datetime, last: datetime) -> Line:
        most = self._caller.settings.listed_max
        found = self._runs.list(
            schedule=UUID(bytes=seen.record.id),
            since=first,
            until=last + timedelta(microseconds=1),
            limit=most,
        )
        if len(found) == most:
            remedy = f"what can be proven has fewer than {most:,}: look at them with app.runs.list"
            raise UsageError("day", first.date().isoformat(), "has too many runs", remedy)
        return found

    def _named(self, ids: Sequence[UUID]) -> dict[UUID, Run]:
        caller = self._caller
        found = [
            record
            for some in _parts(RunId(one.bytes) for one in ids)
            for record in caller.store.get_runs(some).values()
            if record.tenant == caller.tenant
        ]
        return {run.id: run for run in run_views(caller, found)}

    def _judged(
        self, occurrences: Sequence[Occurrence], lines: Sequence[Line]
    ) -> tuple[ProvenOccurrence, ...]:
        ids = dict.fromkeys(RunId(run.id.bytes) for line in lines for run in line)
        findings: dict[RunId, Findings] = {}
        for some in _parts(ids):
            findings |= self._caller.store.read_findings(some)
        return tuple(
            _proven(one, line, [findings[RunId(run.id.bytes)] for run in line])
            for one, line in zip(occurrences, lines, strict=True)
        )


def _parts(ids: Iterable[RunId]) -> Iterator[list[RunId]]:
    """Return as many at a time as are asked about at once."""
    rest = iter(ids)
    while some := list(islice(rest, ASKED_MAX)):
        yield some


def _proven(
    occurrence: Occurrence, runs: Sequence[Run], findings: Sequence[Findings]
) -> ProvenOccurrence:
    """Judge one by all of its runs: the last check counts, and the last that knew its scope."""
    check, scope = None, Scope()
    for one in findings:
        check = one.verdicts[-1] if one.verdicts else check
        scope = one.scope if one.scope.is_known else scope
    evidence = proving.Line(
        VerdictKind(occurrence.verdict),
        tuple(RunState(run.state) for run in runs),
        None if check is None else check.finding,
        scope,
    )
    standing, why = proving.judge(evidence)
    return ProvenOccurrence(
        occurrence=occurrence,
        runs=tuple(runs),
        check=None if check is None else check_view(check),
        scope=scope,
        standing=str(standing),
        why=why,
    )


def _read_day(day: object) -> date:
    if isinstance(day, datetime):
        return day.date()
    if isinstance(day, date):
        return day
    try:
        return date.fromisoformat(str(day))
    except ValueError as error:
        remedy = "give a date, such as 2026-04-03"
        raise UsageError("day", day, "is not a day", remedy) from error


def _span(day: date, tz: str) -> tuple[int, int]:
    """Return the first instant of a zone's day, and that of the next."""
    return _midnight(day, tz), _midnight(day + timedelta(days=1), tz)


def _midnight(day: date, tz: str) -> int:
    # One that a gap swallows is the first moment after it.
    first = at(datetime.combine(day, time()), tz=tz).next(datetime.min.replace(tzinfo=UTC))
    assert first is not None, "every wall time has an instant under the default policies"
    return to_microseconds(first)
