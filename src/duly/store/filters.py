"""Filters as conditions of a statement: the same for every database, but for how values are given.

The one place that puts a statement together: conditions of ours, values of the caller's.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from duly.domain.literals import ScheduleStatus
from duly.store.run_columns import RUN_REASON, RUN_STATE

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from duly.store.reading import AuditFilter, RunFilter, ScheduleFilter

Value = str | int | bytes


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

    def add(self, condition: str, *values: Value) -> None:
        """Add a condition."""
        first, *rest = condition.split("?")
        text = first
        for value, part in zip(values, rest, strict=True):
            text += self.place(value) + part
        self._conditions.append(text)

    def equal(self, column: str, value: Value | None) -> None:
        """Ask for a value, if one is given."""
        if value is not None:
            self.add(f"{column} = ?", value)

    def sql(self, select: str, order: str, limit: int) -> str:
        """Return the whole statement."""
        where = f"WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        return f"{select} {where} {order} LIMIT {self.place(limit)}"

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
    if command.after is not None:
        where.add("(s.tenant, s.name, s.id) > (?, ?, ?)", *command.after)
    return where


def runs_where(where: Where, command: RunFilter) -> Where:
    """Take up the conditions of a filter on runs, beside the places that they may be in."""
    where.equal("r.tenant", command.tenant)
    where.equal("r.schedule_id", command.schedule_id)
    where.equal("r.key", command.key)
    where.equal("r.task", command.task)
    where.equal("r.queue", command.queue)
    where.equal(RUN_REASON, command.reason)
    where.one_of(RUN_STATE, command.states)
    where.one_of("r.origin", command.origins)
    if command.since is not None:
        where.add("r.scheduled_for >= ?", command.since)
    if command.until is not None:
        where.add("r.scheduled_for < ?", command.until)
    if command.before_id is not None:
        where.add("r.id < ?", command.before_id)
    return where


def audit_where(where: Where, command: AuditFilter) -> Where:
    """Take up the conditions of a filter on the audit trail."""
    where.equal("tenant", command.tenant)
    where.equal("subject_id", command.subject_id)
    where.equal("subject", command.subject)
    where.equal("action", command.action)
    where.equal("actor", command.actor)
    if command.before_number is not None:
        where.add("number < ?", command.before_number)
    return where
