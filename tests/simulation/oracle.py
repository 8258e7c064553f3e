"""The oracle: what should become of occurrences, from the rule and the history of orders alone.

It shares the timetables with the shipped code, which have their own oracles, and nothing of
planning or settling: it walks a rule instant by instant where those compute ranges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.enums import MisfirePolicy, SkipReason
from duly.domain.schedules import jitter_offset_us
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.domain.fire_planning import PlannedRun, Settlement, Skip
    from duly.domain.ids import ScheduleId
    from duly.domain.schedules import Definition

STEPS_MAX = 20_000
BY_ORDER = frozenset((SkipReason.PAUSED, SkipReason.DELETED, SkipReason.SKIPPED))
ALLOWED = {
    MisfirePolicy.SKIP: frozenset((SkipReason.MISFIRE,)),
    MisfirePolicy.LATEST: frozenset((SkipReason.COALESCED, SkipReason.TOO_OLD)),
    MisfirePolicy.ALL: frozenset((SkipReason.TOO_OLD, SkipReason.TOO_MANY)),
}


def occurrences(definition: Definition, first: int, last: int) -> Iterator[int]:
    """Walk a rule from an instant to another, both included."""
    cursor = definition.timetable.first_from(first)
    for _ in range(STEPS_MAX):
        if cursor is None or cursor > last:
            return
        yield cursor
        following = definition.timetable.first_from(cursor + 1)
        if following is not None and following <= cursor:
            raise Violation(f"INV-15: after {cursor} the rule names {following}")
        cursor = following
    raise Violation(f"the walk of {definition.timetable} takes too long")


class Template:
    """One definition of one schedule, with what follows from both."""

    def __init__(self, schedule_id: ScheduleId, number: int, definition: Definition) -> None:
        self.number = number
        self.definition = definition
        self.misfire = definition.misfire
        self.offset_us = jitter_offset_us(schedule_id, definition.jitter_us)
        if not 0 <= self.offset_us <= max(definition.jitter_us - 1, 0):
            raise Violation("S8: jitter is outside of its window")
        self.keep_us = None
        if self.misfire.not_older_us is not None:
            self.keep_us = max(self.misfire.not_older_us, self.misfire.grace_us)

    def due(self, occurrence: int) -> int:
        """Return when an occurrence falls due."""
        return occurrence + self.offset_us

    def is_missed(self, occurrence: int, now: int) -> bool:
        """Say whether an occurrence is later than its grace."""
        return now - self.due(occurrence) > self.misfire.grace_us

    def is_too_old(self, occurrence: int, now: int) -> bool:
        """Say whether an occurrence is too old to be run late."""
        return self.keep_us is not None and now - self.due(occurrence) > self.keep_us


def check_settlement(template: Template, settlement: Settlement, now: int, known_at: int) -> None:
    """Hold a settlement against the misfire policy (INV-9).

    It was decided at some moment between `known_at`, the last time its author had been told, and
    `now`, when it was carried out: what is skipped must be late by now, what is run must not have
    been too late then.
    """
    policy = template.misfire.policy
    for skip in settlement.skips:
        if skip.reason not in ALLOWED[policy]:
            raise Violation(f"INV-9: {policy} skipped something as {skip.reason}")
        _check_skip(template, settlement, skip, now)
    for run in settlement.runs:
        _check_run(template, settlement, run, known_at)
    at_most = template.misfire.at_most
    if policy is MisfirePolicy.ALL and at_most is not None and settlement.owed is not None:
        owed = settlement.owed
        many = sum(1 for _ in occurrences(template.definition, owed.first_for, owed.last_for))
        if many > at_most:
            raise Violation(f"INV-9: {many} occurrences are owed, at most {at_most} may be")


def _check_skip(template: Template, settlement: Settlement, skip: Skip, now: int) -> None:  # noqa: C901 - a rule for each reason
    match skip.reason:
        case SkipReason.MISFIRE:
            if not template.is_missed(skip.last_for, now):
                raise Violation("INV-9: an occurrence within its grace was skipped as missed")
        case SkipReason.TOO_OLD:
            if not template.is_too_old(skip.last_for, now):
                raise Violation("INV-9: an occurrence was skipped as too old that is not")
        case SkipReason.COALESCED:
            into = [run for run in settlement.runs if run.run_id == skip.into]
            if len(into) != 1 or into[0].scheduled_for <= skip.last_for:
                raise Violation("INV-9: what was coalesced has no later run to stand for it")
            if not template.is_missed(skip.first_for, now):
                raise Violation("INV-9: occurrences within their grace were coalesced")
        case SkipReason.TOO_MANY:
            owed, at_most = settlement.owed, template.misfire.at_most
            if owed is None or at_most is None:
                raise Violation("INV-9: too many were skipped where nothing bounds them")
            kept = sum(1 for _ in occurrences(template.definition, owed.first_for, owed.last_for))
            if kept < at_most:
                raise Violation(f"INV-9: {kept} are owed and some skipped, though {at_most} may be")
        case _:
            raise AssertionError(skip.reason)


def _check_run(template: Template, settlement: Settlement, run: PlannedRun, known_at: int) -> None:
    if not template.is_missed(run.scheduled_for, known_at):
        return
    match template.misfire.policy:
        case MisfirePolicy.SKIP:
            raise Violation("INV-9: an occurrence later than its grace was run under skip")
        case MisfirePolicy.LATEST:
            following = template.definition.timetable.first_from(run.scheduled_for + 1)
            if following is None or template.due(following) > known_at:
                return
            others = [one.scheduled_for for one in settlement.runs]
            if following in others:
                raise Violation("INV-9: latest ran two occurrences that were missed together")
            owed = settlement.owed
            if owed is not None and owed.first_for <= following <= owed.last_for:
                raise Violation("INV-9: latest ran one and left a newer one owed that was due")
        case MisfirePolicy.ALL:
            if template.is_too_old(run.scheduled_for, known_at):
                raise Violation("INV-9: an occurrence was run that is too old")
