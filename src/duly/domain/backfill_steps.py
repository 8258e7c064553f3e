"""The steps of a backfill: which occurrences come next, and what each would become (M2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duly.domain.backfilling import BackfillOrder
from duly.domain.identity import occurrence_run_id, ordered_run_id

if TYPE_CHECKING:
    from duly.domain.identity import BackfillId, RunId
    from duly.domain.settling import Template


class Span(NamedTuple):
    """What is left of a backfill's span."""

    since: int
    until: int
    """Not included."""
    order: BackfillOrder
    cursor: int
    """The next occurrence."""


class Planned(NamedTuple):
    """An occurrence whose turn has come, and the runs that it would become."""

    scheduled_for: int
    not_before: int
    fills: RunId
    """The one run of the occurrence, if it has none."""
    redoes: RunId
    """Another, which only this backfill can make, if it has one."""


class Step(NamedTuple):
    """The next occurrences, and where the step after this one begins."""

    slots: tuple[Planned, ...]
    cursor: int | None
    """None when there are no more."""


def first_of(template: Template, since: int, until: int, order: BackfillOrder) -> int | None:
    """Return the occurrence that a backfill begins with; None if the span has none."""
    timetable = template.definition.timetable
    if order is BackfillOrder.OLDEST:
        found = timetable.first_from(since)
        return None if found is None or found >= until else found
    found = timetable.last_until(until - 1)
    return None if found is None or found < since else found


def rest_of(span: Span) -> tuple[int, int]:
    """Return the part of a span that nobody has looked at yet: from its cursor on, by its order."""
    if span.order is BackfillOrder.OLDEST:
        return span.cursor, span.until
    return span.since, span.cursor + 1


def next_step(template: Template, span: Span, backfill: BackfillId, count: int) -> Step:
    """Return the next few occurrences of a span."""
    cursor: int | None = span.cursor
    slots: list[Planned] = []
    while cursor is not None and len(slots) < count:
        slots.append(_planned(template, cursor, backfill))
        cursor = _following(template, span, cursor)
    return Step(tuple(slots), cursor)


def _planned(template: Template, scheduled_for: int, backfill: BackfillId) -> Planned:
    schedule = template.schedule_id
    return Planned(
        scheduled_for,
        template.pending(scheduled_for).due_at,
        occurrence_run_id(schedule, scheduled_for),
        ordered_run_id("redo", scheduled_for, backfill, schedule),
    )


def _following(template: Template, span: Span, occurrence: int) -> int | None:
    if span.order is BackfillOrder.OLDEST:
        return first_of(template, occurrence + 1, span.until, span.order)
    return first_of(template, span.since, occurrence, span.order)
