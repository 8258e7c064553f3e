"""Filters as conditions of a statement: the same for every database, but for how values are given.

The one place that puts a statement together: conditions of ours, values of the caller's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import ScheduleStatus
from duly.store.auditing import SYSTEM

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.store.ports.alerts import AlertFilter
    from duly.store.ports.queries import AuditFilter, ScheduleFilter

Value = str | int | bytes


class Path(NamedTuple):
    """A part of an index: rows whose first columns are these, in the order of the next one."""

    leads: tuple[tuple[str, Value], ...]
    column: str
    first: Value | None
    """From here on,"""
    end: Value | None
    """and before that; None for no bound."""


class Where(ABC):
    """Conditions that are gathered one by one; a condition has a ? for each of its values."""

    def __init__(self) -> None:
        self._conditions: list[str] = []
        self.values: list[object] = []

    @abstractmethod
    def place(self, value: Value) -> str:
        """Take a value up; return how the statement names it."""

    @abstractmethod
    def one_of(self, column: str, values: Iterable[str] | None) -> None:
        """Ask for one of some texts, if any are given."""

    @abstractmethod
    def begins(self, column: str, prefix: str) -> None:
        """Ask for texts that begin so."""

    @abstractmethod
    def holds(self, text: str, part: str) -> None:
        """Ask for texts that hold another."""

    @abstractmethod
    def follow(self, path: Path) -> str:
        """Ask for the rows of a path; return the order in which its index has them, last first."""

    def add(self, condition: str, *values: Value) -> None:
        """Add a condition."""
        first, *rest = condition.split("?")
        text = first
        for value, part in zip(values, rest, strict=True):
            text += self.place(value) + part
        self._conditions.append(text)

    def take_up(self, condition: str) -> None:
        """Add a condition whose values have been taken up before."""
        self._conditions.append(condition)

    def equal(self, column: str, value: Value | None) -> None:
        """Ask for a value, if one is given."""
        if value is not None:
            self.add(f"{column} = ?", value)

    def sql(self, select: str, order: str, limit: int) -> str:
        """Return the whole statement."""
        return f"{select} {self.clause()} {order} LIMIT {self.place(limit)}"

    def clause(self) -> str:
        """Return the conditions so far, and begin anew; their values stay in their places."""
        conditions, self._conditions = self._conditions, []
        return f"WHERE {' AND '.join(conditions)}" if conditions else ""

    def bound(self) -> Sequence[object]:
        """Return the values, in the order of their places."""
        return tuple(self.values)


def schedules_where(where: Where, command: ScheduleFilter) -> Where:
    """Take up the conditions of a filter on schedules."""
    statuses = command.statuses or frozenset(ScheduleStatus) - {ScheduleStatus.DELETED}
    where.equal("s.tenant", command.tenant)
    where.one_of("s.status", statuses)
    where.equal("t.task", command.task)
    where.equal("s.owner", command.owner)
    where.equal("s.declared_by", command.declared_by)
    if command.name_prefix:
        where.begins("s.name", command.name_prefix)
    where.one_of("s.name", command.names)
    if command.after is not None:
        where.add("(s.tenant, s.name, s.id) > (?, ?, ?)", *command.after)
    return where


def audit_where(where: Where, command: AuditFilter) -> Where:
    """Take up the conditions of a filter on the audit trail."""
    where.equal("tenant", command.tenant)
    where.equal("subject_id", command.subject_id)
    where.equal("subject", command.subject)
    where.equal("action", command.action)
    where.equal("actor", command.actor)
    if command.since is not None:
        where.add("at >= ?", command.since)
    if command.until is not None:
        where.add("at < ?", command.until)
    if command.before_number is not None:
        where.add("number < ?", command.before_number)
    return where


def audit_leads(command: AuditFilter) -> tuple[str, tuple[tuple[str, Value], ...]]:
    """Return what narrows the audit trail most, of what has an index: which, and by what."""
    if command.subject_id is not None:
        return "subject_id IS NOT NULL", (("subject_id", command.subject_id),)
    if command.subject is not None:
        return "true", (("subject", command.subject),)
    if command.action is not None:
        return "true", (("action", command.action),)
    if command.actor not in (None, SYSTEM.name):
        return f"actor <> '{SYSTEM.name}'", (("actor", command.actor),)
    return "true", () if command.tenant is None else (("tenant", command.tenant),)


def alerts_where(where: Where, command: AlertFilter) -> Where:
    """Take up the conditions of a filter on alerts."""
    where.equal("tenant", command.tenant)
    where.one_of("state", command.states)
    where.equal("kind", None if command.kind is None else str(command.kind))
    if command.before_id is not None:
        where.add("id < ?", command.before_id)
    return where
