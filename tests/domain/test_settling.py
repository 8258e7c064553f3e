"""Settling: each occurrence of a span ends in one place, exactly at its edges (SPEC M1, F8, INV-9)."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duly.domain.enums import Lane, MisfirePolicy, Origin, SkipReason
from duly.domain.fire_planning import (
    COUNT_MAX,
    NO_FURTHER,
    Plan,
    ScheduleVersion,
    Settlement,
    count_between,
    owe,
    plan_late,
    plan_on_time,
    settle,
    skip_span,
)
from duly.domain.ids import occurrence_run_id
from duly.domain.policies import Misfire
from duly.errors import UsageError
from duly.timetable.instants import from_microseconds
from duly.timetable.interval import every
from duly.timetable.once import at
from tests.domain.settled_spans import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    START,
    Counted,
    must_cover,
    occurrences,
    places,
    template,
    templates,
)
from tests.each_row import each_row

slots = st.integers(0, 60)
"""How many occurrences lie behind the first one of a span."""
elapsed = st.one_of(st.integers(-DAY, 2 * DAY), st.sampled_from([-1, 0, 1]))
"""Where now is, seen from the end of the span."""


def span_of(one: ScheduleVersion, number: int) -> tuple[int, int]:
    """Return a span that begins after START and has so many further occurrences."""
    first = one.definition.timetable.first_from(START)
    assert first is not None
    last = first
    for _ in range(number):
        last = one.definition.timetable.first_from(last + 1) or last
    return first, last


def drained(
    one: ScheduleVersion, first: int, last: int, now: int, runs_max: int = 500
) -> Settlement:
    """Settle a span step by step until nothing more is due; return all of it together."""
    whole = settle(one, first, last, now, runs_max)
    while whole.owed is not None:
        step = settle(one, whole.owed.first_for, whole.owed.last_for, now, runs_max)
        if not step.runs and not step.skips:
            break
        whole = Settlement(whole.runs + step.runs, whole.skips + step.skips, step.owed)
    return whole


@given(templates(), slots, elapsed, st.integers(1, 80))
def test_settling_covers_a_span_exactly_once(one, number, after, runs_max):
    """INV-9: runs, skips and what stays owed have no holes and no overlap."""
    first, last = span_of(one, number)
    now = last + one.offset_us + after

    settled = settle(one, first, last, now, runs_max)

    must_cover(settled, occurrences(one.definition.timetable, first, last))
    assert len(settled.runs) <= runs_max


@given(templates(), slots, elapsed)
def test_owing_covers_a_span_exactly_once(one, number, after):
    """What the bounds exclude is skipped, the rest is one range."""
    first, last = span_of(one, number)

    settled = owe(one, first, last, last + one.offset_us + after)

    must_cover(settled, occurrences(one.definition.timetable, first, last))
    assert () == settled.runs


@given(templates(), slots, elapsed)
def test_nothing_is_settled_as_a_run_before_it_is_due(one, number, after):
    """INV-1."""
    first, last = span_of(one, number)
    now = last + one.offset_us + after

    settled = settle(one, first, last, now)

    assert all(run.not_before <= now for run in settled.runs)
    assert all(run.not_before == run.scheduled_for + one.offset_us for run in settled.runs)


@given(templates(), slots, elapsed)
def test_runs_are_settled_oldest_first_under_the_id_of_their_occurrence(one, number, after):
    """INV-3."""
    first, last = span_of(one, number)

    runs = settle(one, first, last, last + one.offset_us + after).runs

    assert sorted(run.scheduled_for for run in runs) == [run.scheduled_for for run in runs]
    assert [occurrence_run_id(one.schedule_id, run.scheduled_for) for run in runs] == [
        run.run_id for run in runs
    ]


@given(templates(), slots, elapsed, st.integers(1, 7))
def test_a_span_that_is_due_is_settled_whole_in_the_end(one, number, after, runs_max):
    """INV-9: step by step, whatever the rate; nothing stays owed that is due."""
    first, last = span_of(one, number)
    now = last + one.offset_us + abs(after)

    whole = drained(one, first, last, now, runs_max)

    assert whole.owed is None
    must_cover(whole, occurrences(one.definition.timetable, first, last))


@given(templates(), slots, elapsed)
def test_what_is_settled_says_whether_it_was_missed(one, number, after):
    """An occurrence within its grace is live, a later one is catch-up."""
    first, last = span_of(one, number)
    now = last + one.offset_us + after

    for run in settle(one, first, last, now).runs:
        is_missed = now - run.not_before > one.definition.misfire.grace_us

        expected = (Origin.CATCH_UP, Lane.CATCH_UP) if is_missed else (Origin.SCHEDULE, Lane.LIVE)
        assert expected == (run.origin, run.lane)


@given(templates(), slots, st.integers(1, 2 * DAY))
def test_a_late_plan_covers_all_up_to_its_next_instant(one, number, after):
    """INV-9: what is settled and what is pending meet without hole or overlap."""
    first, last = span_of(one, number)
    now = last + one.offset_us + one.definition.misfire.grace_us + after

    plan = plan_late(one, one.pending(first), now)

    assert plan.pending is not None
    expected = occurrences(one.definition.timetable, first, plan.pending.scheduled_for - 1)
    must_cover(plan.settlement, expected)
    following = one.definition.timetable.first_from(expected[-1] + 1)
    assert one.pending(following) == plan.pending


@given(templates(), slots, st.integers(1, 2 * DAY))
def test_a_late_plan_jumps_past_what_is_missed(one, number, after):
    """What falls due from now on is on time, however long the outage was."""
    first, last = span_of(one, number)
    grace_us = one.definition.misfire.grace_us
    now = last + one.offset_us + grace_us + after

    plan = plan_late(one, one.pending(first), now)

    assert plan.pending is not None
    assert plan.pending.due_at >= now - grace_us
    assert all(run.not_before <= now for run in plan.settlement.runs)


@given(templates(), slots)
def test_a_plan_on_time_is_one_run_and_the_next_instant(one, number):
    """And it can be made ahead of time, because it does not ask what time it is."""
    _, last = span_of(one, number)
    pending = one.pending(last)

    plan = plan_on_time(one, pending)

    (run,) = plan.settlement.runs
    assert (last, pending.due_at, Origin.SCHEDULE, Lane.LIVE) == (
        run.scheduled_for,
        run.not_before,
        run.origin,
        run.lane,
    )
    assert ((), None) == (plan.settlement.skips, plan.settlement.owed)
    assert one.next_after(last) == plan.pending


@st.composite
def edges(draw: st.DrawFn) -> tuple[ScheduleVersion, int, int, int]:
    """Draw a span and a now at, just before or just after an edge of one of its occurrences."""
    one, number = draw(templates()), draw(st.integers(0, 12))
    first, last = span_of(one, number)
    chosen = draw(st.sampled_from(occurrences(one.definition.timetable, first, last)))
    misfire = one.definition.misfire
    older_us = max(misfire.not_older_us or 0, misfire.grace_us)
    distance = draw(st.sampled_from([0, misfire.grace_us, older_us]))
    return one, first, last, chosen + one.offset_us + distance + draw(st.integers(-1, 1))


def expected_places(one: ScheduleVersion, instants: list[int], now: int) -> list[str]:
    """Say by the words of the policy where each occurrence of a span belongs."""
    misfire = one.definition.misfire
    ages = [now - instant - one.offset_us for instant in instants]
    is_due = [age >= 0 for age in ages]
    is_missed = [age > misfire.grace_us for age in ages]
    older_us = misfire.not_older_us
    is_old = [older_us is not None and age > max(older_us, misfire.grace_us) for age in ages]
    if misfire.policy is MisfirePolicy.LATEST and is_missed[0]:
        newest = max(place for place, due in enumerate(is_due) if due)
        if is_old[newest]:
            return ["too-old"] * (newest + 1) + ["owed"] * (len(ages) - newest - 1)
        return ["coalesced"] * newest + ["run"] + ["owed"] * (len(ages) - newest - 1)
    found = ["run" if due else "owed" for due in is_due]
    if misfire.policy is MisfirePolicy.SKIP:
        return ["misfire" if missed else one for missed, one in zip(is_missed, found, strict=True)]
    if misfire.policy is MisfirePolicy.ALL:
        return ["too-old" if old else one for old, one in zip(is_old, found, strict=True)]
    return found


@given(edges())
def test_each_occurrence_is_settled_as_the_policy_says(edge):
    """INV-9: exactly at its due, at the end of its grace, and at its greatest age."""
    one, first, last, now = edge
    instants = occurrences(one.definition.timetable, first, last)

    settled = settle(one, first, last, now)

    found = [place for instant in instants for place in places(settled, instant)]
    assert expected_places(one, instants, now) == found


@given(edges())
def test_a_late_plan_begins_again_with_what_is_on_time(edge):
    """INV-9: exactly at the end of the grace."""
    one, first, _, now = edge
    grace_us = one.definition.misfire.grace_us
    assume(now - one.pending(first).due_at > grace_us)

    plan = plan_late(one, one.pending(first), now)

    assert plan.pending is not None
    is_latest = one.definition.misfire.policy is MisfirePolicy.LATEST
    horizon = now + 1 if is_latest else now - grace_us
    following = one.definition.timetable.first_from(horizon - one.offset_us)
    assert following == plan.pending.scheduled_for


OUTAGES = [1, 2, 100, 101, 10_000]


def outage(policy: str, number: int, **bounds) -> tuple[Plan, ScheduleVersion, int]:
    """Return the plan after an outage of so many minutes, each with an occurrence."""
    bounds = {"grace": "0s", "not_older": None} | bounds
    one = template(timetable=every("1m"), misfire=Misfire(policy, **bounds))
    now = START + number * MINUTE + 30 * SECOND
    return plan_late(one, one.pending(START + MINUTE), now), one, now


@each_row("number", OUTAGES)
def test_skip_runs_nothing_of_an_outage(number):
    """INV-9."""
    plan, _, _ = outage("skip", number)

    (skip,) = plan.settlement.skips
    assert ((), None) == (plan.settlement.runs, plan.settlement.owed)
    assert (START + MINUTE, START + number * MINUTE, SkipReason.MISFIRE) == (
        skip.first_for,
        skip.last_for,
        skip.reason,
    )
    assert (number if number <= COUNT_MAX else None) == skip.count


@each_row("number", OUTAGES)
def test_latest_runs_one_for_an_outage(number):
    """INV-9: the newest, and it stands for all before it."""
    plan, _, _ = outage("latest", number)

    (run,) = plan.settlement.runs
    assert START + number * MINUTE == run.scheduled_for
    assert plan.settlement.owed is None
    assert (number > 1) == bool(plan.settlement.skips)
    for skip in plan.settlement.skips:
        assert (START + MINUTE, START + (number - 1) * MINUTE) == (skip.first_for, skip.last_for)
        assert (SkipReason.COALESCED, run.run_id) == (skip.reason, skip.into)


@each_row("number", OUTAGES)
def test_all_runs_each_of_an_outage(number):
    """INV-9: as a range that is drained."""
    plan, one, now = outage("all", number)

    owed = plan.settlement.owed
    assert owed is not None
    assert ((), ()) == (plan.settlement.runs, plan.settlement.skips)
    whole = drained(one, owed.first_for, owed.last_for, now)
    assert (number, (), None) == (len(whole.runs), whole.skips, whole.owed)


@each_row("number", OUTAGES)
def test_at_most_keeps_the_newest(number):
    """INV-9."""
    plan, _, _ = outage("all", number, at_most=100)

    owed = plan.settlement.owed
    assert owed is not None
    kept = min(number, 100)
    assert START + (number - kept + 1) * MINUTE == owed.first_for
    assert START + number * MINUTE == owed.last_for
    assert [SkipReason.TOO_MANY] * (number > 100) == [skip.reason for skip in plan.settlement.skips]


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_an_occurrence_at_the_end_of_its_grace_is_on_time(policy):
    """INV-9: lateness equal to the grace is not late, a microsecond more is."""
    one = template(misfire=Misfire(policy, grace="60s"), jitter_us=10 * MINUTE)
    due = one.pending(START).due_at

    edge = settle(one, START, START, due + MINUTE)
    past = settle(one, START, START, due + MINUTE + 1)

    (run,) = edge.runs
    assert (Origin.SCHEDULE, ()) == (run.origin, edge.skips)
    assert ([SkipReason.MISFIRE] if policy == "skip" else []) == [
        skip.reason for skip in past.skips
    ]
    assert ([] if policy == "skip" else [Origin.CATCH_UP]) == [run.origin for run in past.runs]


@pytest.mark.parametrize("policy", ["latest", "all"])
def test_an_occurrence_as_old_as_allowed_is_run(policy):
    """INV-9: one microsecond older is too old."""
    one = template(misfire=Misfire(policy, not_older="3h"), jitter_us=10 * MINUTE)
    due = one.pending(START).due_at

    edge = settle(one, START, START, due + 3 * HOUR)
    past = settle(one, START, START, due + 3 * HOUR + 1)

    assert (1, ()) == (len(edge.runs), edge.skips)
    assert ((), [SkipReason.TOO_OLD]) == (past.runs, [skip.reason for skip in past.skips])


def test_within_its_grace_nothing_is_too_old():
    """The grace says what is on time, whatever the other bound says."""
    one = template(misfire=Misfire("all", grace="2h", not_older="1s"))

    settled = settle(one, START, START + HOUR, START + 2 * HOUR)

    assert [START, START + HOUR] == [run.scheduled_for for run in settled.runs]


def test_of_what_is_owed_the_too_old_is_told_from_the_too_many():
    """First by age, then by number."""
    misfire = Misfire("all", at_most=3, not_older="4h", grace="0s")
    one = template(misfire=misfire)
    now = START + 9 * HOUR + 30 * MINUTE

    settled = owe(one, START, START + 9 * HOUR, now)

    kinds = [places(settled, START + hours * HOUR)[0] for hours in range(10)]
    assert ["too-old"] * 6 + ["too-many"] + ["owed"] * 3 == kinds


def test_what_is_owed_is_judged_again_when_it_is_drained():
    """It may have become too old meanwhile."""
    one = template(misfire=Misfire("all", not_older="4h"))
    now = START + 6 * HOUR

    settled = settle(one, START, START + 5 * HOUR, now)

    kinds = [places(settled, START + hours * HOUR)[0] for hours in range(6)]
    assert ["too-old"] * 2 + ["run"] * 4 == kinds


def test_what_is_not_due_yet_stays_owed():
    """Between its nominal time and its jittered due."""
    one = template(misfire=Misfire("all"), jitter_us=30 * MINUTE)
    due = one.pending(START + HOUR).due_at

    settled = settle(one, START, START + HOUR, due - 1)

    assert [START] == [run.scheduled_for for run in settled.runs]
    assert settled.owed is not None
    assert (START + HOUR, START + HOUR) == (settled.owed.first_for, settled.owed.last_for)


def test_a_timer_within_its_grace_is_no_misfire():
    """INV-9, k = 0: planning it late is a mistake of ours."""
    one = template()

    with pytest.raises(AssertionError):
        plan_late(one, one.pending(START), START + MINUTE)


def test_a_schedule_without_a_further_occurrence_ends_with_the_reason():
    one = template(timetable=at(from_microseconds(START)))

    on_time = plan_on_time(one, one.pending(START))
    late = plan_late(one, one.pending(START), START + HOUR)

    for plan in (on_time, late):
        assert (None, NO_FURTHER, 1) == (plan.pending, plan.end_reason, len(plan.settlement.runs))


class Blind(Counted):
    """A timetable that can't look back."""

    def last_until(self, instant: int) -> int | None:
        raise UsageError("timetable", "it", "can't look back", "look ahead")


class Stuck(Counted):
    """A timetable that can't be computed at all."""

    def first_from(self, instant: int) -> int | None:
        raise UsageError("timetable", "it", "gives up", "make it simpler")

    last_until = first_from


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_a_rule_that_cannot_look_back_goes_on_one_by_one(policy):
    """INV-2: nothing is lost, only slower."""
    one = template(timetable=Blind(every("1h"), []), misfire=Misfire(policy))

    plan = plan_late(one, one.pending(START), START + 5 * HOUR)

    must_cover(plan.settlement, [START])
    assert one.pending(START + HOUR) == plan.pending


def test_a_rule_that_cannot_be_computed_ends_with_the_reason():
    """It never spins, and what was due is run."""
    one = template(timetable=Stuck(every("1h"), []))

    plan = plan_late(one, one.pending(START), START + 5 * HOUR)

    must_cover(plan.settlement, [START])
    assert plan.pending is None
    assert "gives up" in (plan.end_reason or "")


@pytest.mark.parametrize("policy", ["skip", "latest", "all"])
def test_the_price_of_a_plan_does_not_grow_with_the_outage(policy):
    """A month of minutes costs what a day of them does."""
    asked = []
    for days in (1, 30, 3000):
        questions: list[int] = []
        misfire = Misfire(policy, at_most=50, not_older=None)
        one = template(timetable=Counted(every("1m"), questions), misfire=misfire)
        plan_late(one, one.pending(START), START + days * DAY)
        asked.append(len(questions))

    assert max(asked) <= COUNT_MAX + 150
    assert len(set(asked)) == 1


def test_a_step_of_draining_costs_what_it_makes():
    """Not what is owed."""
    questions: list[int] = []
    misfire = Misfire("all", not_older=None)
    one = template(timetable=Counted(every("1m"), questions), misfire=misfire)

    settled = settle(one, START, START + 900 * DAY, START + 1000 * DAY, 20)

    assert len(settled.runs) == 20
    assert len(questions) <= 60


@given(templates(), slots)
def test_counting_tells_how_many_or_that_they_are_too_many(one, number):
    first, last = span_of(one, number)

    assert len(occurrences(one.definition.timetable, first, last)) == count_between(
        one, first, last
    )
    assert count_between(replace(one, definition=template().definition), 0, START) is None


@pytest.mark.parametrize(("number", "counted"), [(COUNT_MAX, COUNT_MAX), (COUNT_MAX + 1, None)])
def test_a_span_is_counted_as_far_as_can_be_walked(number, counted):
    one = template(timetable=every("1m"))

    assert counted == count_between(one, START, START + (number - 1) * MINUTE)


@given(templates(), slots, st.integers(-HOUR, DAY))
def test_skipping_a_span_covers_it(one, number, after):
    """Up to an instant that need not be an occurrence."""
    first, last = span_of(one, number)
    until = last + after

    skips = skip_span(one, first, until, SkipReason.PAUSED)

    must_cover(Settlement((), skips), occurrences(one.definition.timetable, first, until))
    assert (first > until) == (skips == ())
