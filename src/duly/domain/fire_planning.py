"""Fire planning: which occurrences of a span become runs, which are skipped, which stay owed.

The bounds are exact: an occurrence whose lateness equals the grace is on time, and one whose age
equals `not_older` is still run. A run is never planned before it is due.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from duly.domain.enums import Lane, MisfirePolicy, Origin, SkipReason
from duly.domain.ids import RunId, ScheduleId, occurrence_run_id
from duly.domain.schedules import CatchUpRange, Definition, NextOccurrence, jitter_offset_us
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT_MAX = 500
"""A longer run of skipped occurrences is recorded by its ends alone: counting has its price."""

NO_FURTHER = "its timetable has no further occurrence"


@dataclass(frozen=True, slots=True)
class ScheduleVersion:
    """A schedule's identity with one version of its definition: all that planning asks for."""

    schedule_id: ScheduleId
    definition_number: int
    definition: Definition
    offset_us: int = field(init=False)
    """How much later than its nominal time an occurrence falls due."""

    def __post_init__(self) -> None:
        """Work out the jitter, which is always the same."""
        offset_us = jitter_offset_us(self.schedule_id, self.definition.jitter_us)
        object.__setattr__(self, "offset_us", offset_us)

    def pending(self, scheduled_for: int) -> NextOccurrence:
        """Return an occurrence with the instant at which it falls due."""
        return NextOccurrence(scheduled_for, scheduled_for + self.offset_us)

    def next_after(self, instant: int) -> NextOccurrence | None:
        """Return the first occurrence whose nominal time is later than an instant."""
        found = self.definition.timetable.first_from(instant + 1)
        return None if found is None else self.pending(found)


class PlannedRun(NamedTuple):
    """A run to be made, and the instant before which it may not exist."""

    run_id: RunId
    scheduled_for: int
    not_before: int
    origin: Origin
    lane: Lane


@dataclass(frozen=True, slots=True)
class Skip:
    """A range of occurrences, both ends included, that are not run, and why."""

    first_for: int
    last_for: int
    count: int | None
    """How many; None when there are more than COUNT_MAX."""
    reason: SkipReason
    into: RunId | None = None
    """The run that stands for them, when they were coalesced."""


class Settlement(NamedTuple):
    """What becomes of a span of occurrences: each is in exactly one of the three."""

    runs: tuple[PlannedRun, ...] = ()
    skips: tuple[Skip, ...] = ()
    owed: CatchUpRange | None = None


NOTHING = Settlement()


class Plan(NamedTuple):
    """What firing a timer does: settle what is due, and put the timer to its next instant."""

    settlement: Settlement
    pending: NextOccurrence | None
    end_reason: str | None = None
    """Why there is no next instant, when there is none."""


def plan_on_time(
    template: ScheduleVersion, pending: NextOccurrence, following: int | None = None
) -> Plan:
    """Plan the fire of an occurrence that is no later than its grace. Can be made ahead of time.

    The nominal time of the next occurrence may be given by whoever has worked it out already.
    """
    scheduled_for, due_at = pending
    run_id = occurrence_run_id(template.schedule_id, scheduled_for)
    run = PlannedRun(run_id, scheduled_for, due_at, Origin.SCHEDULE, Lane.LIVE)
    settlement = Settlement((run,))
    if following is None:
        return _with_next(template, settlement, scheduled_for)
    return Plan(settlement, NextOccurrence(following, following + template.offset_us))


def plan_late(template: ScheduleVersion, pending: NextOccurrence, now: int) -> Plan:
    """Plan the fire of an occurrence that is later than its grace: by the misfire policy.

    The timer jumps over everything missed at once, so later occurrences are on time. The cost does
    not grow with the length of the outage.
    """
    policy = template.definition.misfire
    offset, timetable = template.offset_us, template.definition.timetable
    assert pending.due_at < now - policy.grace_us, "an occurrence within its grace is on time"
    is_latest = policy.policy is MisfirePolicy.LATEST
    horizon = now - offset if is_latest else now - policy.grace_us - offset - 1
    try:
        last = timetable.last_until(horizon)
    except UsageError:
        last = None  # a rule that can't look back: this occurrence alone is missed
    last = pending.scheduled_for if last is None else max(last, pending.scheduled_for)
    decide = owe if policy.policy is MisfirePolicy.ALL else settle
    settlement = decide(template, pending.scheduled_for, last, now)
    return _with_next(template, settlement, last)


def owe(template: ScheduleVersion, first: int, last: int, now: int) -> Settlement:
    """Make a span owed, to be drained on the catch-up lane; what the bounds exclude is skipped."""
    policy = template.definition.misfire
    skips: list[Skip] = []
    if policy.policy is MisfirePolicy.ALL:
        first, skips = _bounded(template, first, last, now)
    return Settlement((), tuple(skips), _owed(template, first, last))


def settle(  # noqa: PLR0913, PLR0917 - a span, the time, and how much at once
    template: ScheduleVersion, first: int, last: int, now: int, runs_max: int = COUNT_MAX
) -> Settlement:
    """Settle a span as far as it is due and `runs_max` allows; the rest stays owed."""
    policy = template.definition.misfire
    cut = now - policy.grace_us - template.offset_us
    skips: list[Skip] = []
    if first < cut:
        missed_last = _last_until(template, first, min(last, cut - 1))
        match policy.policy:
            case MisfirePolicy.SKIP:
                skips.append(_skip(template, first, missed_last, SkipReason.MISFIRE))
                first = _following(template, missed_last, last)
            case MisfirePolicy.LATEST:
                return _settle_latest(template, first, last, now)
            case MisfirePolicy.ALL:
                first, skips = _without_too_old(template, first, last, now)
    return _settle_each(template, (first, last), now, (skips, runs_max))


def _settle_latest(template: ScheduleVersion, first: int, last: int, now: int) -> Settlement:
    """Let the newest occurrence that is due stand for all before it."""
    newest = _last_until(template, first, min(last, now - template.offset_us))
    rest = _following(template, newest, last)
    owed = _owed(template, rest, last)
    if _is_too_old(template, newest, now):
        too_old = _skip(template, first, newest, SkipReason.TOO_OLD)
        return Settlement((), (too_old,), owed)
    run = _run(template, template.pending(newest), now)
    skips: tuple[Skip, ...] = ()
    if first < newest:
        before = _last_until(template, first, newest - 1)
        skips = (_skip(template, first, before, SkipReason.COALESCED, run.run_id),)
    return Settlement((run,), skips, owed)


def _settle_each(
    template: ScheduleVersion, span: tuple[int, int], now: int, so_far: tuple[list[Skip], int]
) -> Settlement:
    """Make a run of each occurrence that is due, oldest first."""
    cursor, last = span
    skips, runs_max = so_far
    runs: list[PlannedRun] = []
    while cursor <= last and len(runs) < runs_max:
        pending = template.pending(cursor)
        if pending.due_at > now:
            break
        runs.append(_run(template, pending, now))
        cursor = _following(template, cursor, last)
    return Settlement(tuple(runs), tuple(skips), _owed(template, cursor, last))


def _bounded(template: ScheduleVersion, first: int, last: int, now: int) -> tuple[int, list[Skip]]:
    """Apply both bounds of `all`: nothing too old, and the newest `at_most`."""
    first, skips = _without_too_old(template, first, last, now)
    at_most = template.definition.misfire.at_most
    if at_most is None or first > last:
        return first, skips
    newest = _newest(template, first, last, at_most)
    if newest > first:
        before = _last_until(template, first, newest - 1)
        skips.append(_skip(template, first, before, SkipReason.TOO_MANY))
    return newest, skips


def _without_too_old(
    template: ScheduleVersion, first: int, last: int, now: int
) -> tuple[int, list[Skip]]:
    if not _is_too_old(template, first, now):
        return first, []
    older_us = template.definition.misfire.not_older_us
    assert older_us is not None, "without the bound nothing is too old"
    oldest = now - max(older_us, template.definition.misfire.grace_us) - template.offset_us
    old_last = _last_until(template, first, min(last, oldest - 1))
    skip = _skip(template, first, old_last, SkipReason.TOO_OLD)
    return _following(template, old_last, last), [skip]


def _is_too_old(template: ScheduleVersion, scheduled_for: int, now: int) -> bool:
    """Say whether an occurrence is past `not_older`; within its grace none is."""
    policy = template.definition.misfire
    if policy.not_older_us is None:
        return False
    age_us = now - template.pending(scheduled_for).due_at
    return age_us > max(policy.not_older_us, policy.grace_us)


def _newest(template: ScheduleVersion, first: int, last: int, at_most: int) -> int:
    """Return the first of the newest `at_most` occurrences of a span."""
    newest = last
    for _ in range(at_most - 1):
        before = _last_until(template, first, newest - 1)
        if newest <= first or before >= newest:
            break
        newest = before
    return max(newest, first)


def _run(template: ScheduleVersion, pending: NextOccurrence, now: int) -> PlannedRun:
    grace_us = template.definition.misfire.grace_us
    is_missed = now - pending.due_at > grace_us
    return PlannedRun(
        run_id=occurrence_run_id(template.schedule_id, pending.scheduled_for),
        scheduled_for=pending.scheduled_for,
        not_before=pending.due_at,
        origin=Origin.CATCH_UP if is_missed else Origin.SCHEDULE,
        lane=Lane.CATCH_UP if is_missed else Lane.LIVE,
    )


def _skip(  # noqa: PLR0913, PLR0917 - the parts of a skip
    template: ScheduleVersion, first: int, last: int, reason: SkipReason, into: RunId | None = None
) -> Skip:
    return Skip(first, last, count_between(template, first, last), reason, into)


def count_between(template: ScheduleVersion, first: int, last: int) -> int | None:
    """Count the occurrences of a span, both ends included; None when there are too many to walk."""
    count = 0
    for _ in _walk(template, first, last):
        count += 1
        if count > COUNT_MAX:
            return None
    return count


def skip_span(
    template: ScheduleVersion, first: int, until: int, reason: SkipReason
) -> tuple[Skip, ...]:
    """Skip every occurrence from `first` up to an instant; nothing when there is none."""
    if first > until:
        return ()
    return (_skip(template, first, _last_until(template, first, until), reason),)


def _walk(template: ScheduleVersion, first: int, last: int) -> Iterator[int]:
    cursor = first
    while cursor <= last:
        yield cursor
        cursor = _following(template, cursor, last)


def _following(template: ScheduleVersion, occurrence: int, last: int) -> int:
    """Return the next occurrence of a span; an instant beyond its end when there is none."""
    if occurrence >= last:
        return last + 1
    try:
        found = template.definition.timetable.first_from(occurrence + 1)
    except UsageError:
        found = None
    return last + 1 if found is None or found > last else found


def _last_until(template: ScheduleVersion, first: int, instant: int) -> int:
    """Return the last occurrence of a span not after an instant; its first when unknown."""
    try:
        found = template.definition.timetable.last_until(instant)
    except UsageError:
        found = None
    return first if found is None else max(found, first)


def _owed(template: ScheduleVersion, first: int, last: int) -> CatchUpRange | None:
    if first > last:
        return None
    return CatchUpRange(
        schedule_id=template.schedule_id,
        first_for=first,
        last_for=last,
        definition_number=template.definition_number,
    )


def _with_next(template: ScheduleVersion, settlement: Settlement, after: int) -> Plan:
    """Put the timer to the first occurrence after what is settled; end it when there is none."""
    try:
        following = template.next_after(after)
    except UsageError as error:
        return Plan(settlement, None, f"its timetable can't be computed: {error}")
    assert following is None or following.scheduled_for > after, "a next instant is later"
    return Plan(settlement, following, None if following else NO_FURTHER)
