"""Proof in a program's hands: whether a day's occurrences did all they were to, once (E6)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly.client.history import Occurrence, read_occurrences
from duly.client.schedule_orders import find_schedule
from duly.domain.instants import to_microseconds
from duly.domain.literals import RunState
from duly.domain.proving import Line, Standing, judge
from duly.domain.runs import VerdictKind
from duly.domain.scope import Scope
from duly.domain.timetable.combined import zone_of
from duly.domain.timetable.once import at
from duly.errors import UsageError

if TYPE_CHECKING:
    from duly.client.caller import Caller
    from duly.client.doubt_view import Check
    from duly.client.inbox import Inbox
    from duly.client.run_view import Run
    from duly.client.runs import Runs
    from duly.client.schedule_orders import Reference
    from duly.store.reading import Seen


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

    def __init__(self, caller: Caller, runs: Runs, inbox: Inbox) -> None:
        self._caller = caller
        self._runs = runs
        self._inbox = inbox

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
            occurrences=tuple(self._judged(seen, one) for one in found),
        )

    def _judged(self, seen: Seen, occurrence: Occurrence) -> ProvenOccurrence:
        runs = self._line(seen, occurrence)
        check, scope = None, Scope()
        for run in runs:
            checks = self._inbox.checks(run)
            check = checks[-1] if checks else check
            known = self._inbox.scope(run)
            scope = known if known.is_known else scope
        line = Line(
            VerdictKind(occurrence.verdict),
            tuple(RunState(run.state) for run in runs),
            None if check is None else check.kind,
            scope,
        )
        standing, why = judge(line)
        return ProvenOccurrence(
            occurrence=occurrence,
            runs=runs,
            check=check,
            scope=scope,
            standing=str(standing),
            why=why,
        )

    def _line(self, seen: Seen, occurrence: Occurrence) -> tuple[Run, ...]:
        """Return the runs of an occurrence: its own, and what people have run once more."""
        instant = occurrence.scheduled_for
        after = instant + timedelta(microseconds=1)
        found = self._runs.list(schedule=UUID(bytes=seen.record.id), since=instant, until=after)
        if occurrence.run is not None and occurrence.run not in {run.id for run in found}:
            found.append(self._runs.get(occurrence.run))
        return tuple(sorted(found, key=lambda run: (run.created_at, run.id)))


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
