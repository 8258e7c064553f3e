"""Orders about schedules, as pure decisions: no occurrence is lost or doubled (SPEC S3-S5, M1, INV-14)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from duly.domain.enums import Missed, ScheduleStatus, SkipReason
from duly.domain.fire_planning import NO_FURTHER, NOTHING, ScheduleVersion
from duly.domain.ids import ScheduleId
from duly.domain.policies import Misfire
from duly.domain.schedule_changes import (
    ScheduleChange,
    decide_delete,
    decide_edit,
    decide_pause,
    decide_restore,
    decide_resume,
    decide_retime,
    decide_skip_next,
    first_pending,
)
from duly.domain.schedules import NextOccurrence, ScheduleRecord
from duly.errors import Conflict, UsageError
from duly.timetable.instants import from_microseconds
from duly.timetable.interval import every
from duly.timetable.once import at
from tests.domain.settled_spans import (
    DAY,
    HOUR,
    MINUTE,
    START,
    definition,
    definitions,
    must_cover,
    occurrences,
    schedule_ids,
)

BASE = ScheduleRecord(
    id=ScheduleId(bytes(16)),
    tenant="default",
    name="nightly",
    owner=None,
    declared_by=None,
    status=ScheduleStatus.ACTIVE,
    version=3,
    definition_number=2,
    definition=definition(),
    shard=0,
    pending=NextOccurrence(START, START),
    held_for=None,
    last_for=None,
    last_run=None,
    last_fired_at=None,
    fires=0,
    reason=None,
    resume_at=None,
    resume_missed=None,
    status_before=None,
    pruned_through=None,
    created_at=START - DAY,
    updated_at=START - DAY,
    updated_by="ada",
)
LATER = START + 100 * DAY
elapsed = st.one_of(st.integers(-2 * HOUR, 2 * DAY), st.sampled_from([-1, 0, 1]))
missed = st.sampled_from(Missed)


@st.composite
def records(draw: st.DrawFn, *, ran: bool = True) -> ScheduleRecord:
    """Draw an active schedule whose first occurrence after START is pending."""
    identity, template = draw(schedule_ids), draw(definitions())
    first = template.timetable.first_from(START)
    assert first is not None
    before = template.timetable.last_until(first - 1)
    return replace(
        BASE,
        id=identity,
        definition=template,
        pending=ScheduleVersion(identity, 1, template).pending(first),
        last_for=before if ran and draw(st.booleans()) else None,
    )


def record(**parts: Any) -> ScheduleRecord:
    """Return an active schedule, hourly from START on, but for what is given."""
    return replace(BASE, **parts)


def pending_of(one: ScheduleRecord) -> NextOccurrence:
    assert one.pending is not None
    return one.pending


def applied(one: ScheduleRecord, change: ScheduleChange) -> ScheduleRecord:
    """Return the schedule as a store leaves it."""
    new = change.definition
    return replace(
        one,
        status=change.status,
        version=one.version + 1,
        definition_number=one.version + 1 if new else one.definition_number,
        definition=new or one.definition,
        pending=change.pending,
        held_for=change.held_for,
        reason=change.reason,
        resume_at=change.resume_at,
        resume_missed=change.resume_missed,
        status_before=change.status_before,
    )


def paused(one: ScheduleRecord) -> ScheduleRecord:
    return applied(one, decide_pause(one, reason=None, until=None, missed=Missed.SKIP))


def deleted(one: ScheduleRecord) -> ScheduleRecord:
    return applied(one, decide_delete(one, None))


def must_go_on_from(one: ScheduleRecord, change: ScheduleChange, first: int) -> None:
    """Require that all from `first` on is settled, up to what is pending or held, and no further."""
    going_on = change.pending.scheduled_for if change.pending else change.held_for
    assert going_on is not None
    expected = occurrences(one.definition.timetable, first, going_on - 1)
    must_cover(change.settlement, expected)
    following = one.definition.timetable.first_from(expected[-1] + 1 if expected else first)
    assert following == going_on


class TestCreating:
    @given(schedule_ids, definitions(), st.integers(0, DAY))
    def test_a_new_schedule_begins_after_now(self, identity, template, after):
        """Strictly after, with its jitter."""
        now = START + after
        found = first_pending(identity, template, now)

        assert template.timetable.first_from(now + 1) == found.scheduled_for
        assert ScheduleVersion(identity, 1, template).pending(found.scheduled_for) == found

    def test_one_that_would_never_fire_is_refused(self):
        """A promise that can't be kept is not made."""
        template = definition(timetable=at(from_microseconds(START)))

        with pytest.raises(UsageError, match="no occurrence in the future"):
            first_pending(BASE.id, template, START)


class TestPausing:
    @given(records(), missed)
    def test_pausing_holds_what_was_pending(self, one, missed):
        """INV-12: nothing is settled, nothing is lost."""
        change = decide_pause(one, reason="rest", until=LATER, missed=missed)

        assert (ScheduleStatus.PAUSED, None, pending_of(one).scheduled_for) == (
            change.status,
            change.pending,
            change.held_for,
        )
        assert (NOTHING, False, None) == (change.settlement, change.drops_owed, change.definition)
        assert ("rest", LATER, missed) == (change.reason, change.resume_at, change.resume_missed)

    def test_pausing_for_good_leaves_the_choice_to_whoever_resumes(self):
        change = decide_pause(record(), reason=None, until=None, missed=Missed.MISFIRE)

        assert (None, None) == (change.resume_at, change.resume_missed)

    def test_pausing_what_is_paused_keeps_what_is_held(self):
        one = paused(record())
        change = decide_pause(one, reason="longer", until=LATER, missed=Missed.SKIP)

        assert (START, LATER) == (change.held_for, change.resume_at)

    @given(records(), elapsed)
    def test_resuming_from_now_skips_the_pause(self, one, after):
        """INV-2: each occurrence of the pause is on record, and none after now."""
        first = pending_of(one).scheduled_for
        now = first + after

        change = decide_resume(paused(one), now, Missed.SKIP, None)

        must_cover(
            change.settlement,
            occurrences(one.definition.timetable, first, now) if first <= now else [],
        )
        assert {SkipReason.PAUSED} >= {skip.reason for skip in change.settlement.skips}
        assert ((), None) == (change.settlement.runs, change.settlement.owed)
        assert change.pending is not None
        assert (
            one.definition.timetable.first_from(max(now + 1, first)) == change.pending.scheduled_for
        )

    @given(records(), elapsed)
    def test_resuming_by_the_misfire_policy_is_as_after_an_outage(self, one, after):
        """INV-9: settled up to what is pending, with no hole and nothing early."""
        first = pending_of(one).scheduled_for
        now = first + after

        change = decide_resume(paused(one), now, Missed.MISFIRE, None)

        must_go_on_from(one, change, first)
        assert all(run.not_before <= now for run in change.settlement.runs)

    def test_resuming_does_not_bring_back_what_a_person_skipped(self):
        """INV-3: one verdict for each occurrence; neither does restoring."""
        one = applied(record(), decide_skip_next(record(), None))
        now = START - HOUR
        resumed = decide_resume(paused(one), now, Missed.SKIP, None)
        restored = decide_restore(deleted(one), now, None)

        assert [START + HOUR] * 2 == [
            pending_of(applied(one, change)).scheduled_for for change in (resumed, restored)
        ]

    def test_a_pause_within_the_grace_is_no_misfire(self):
        """The held occurrence is on time, at the edge too."""
        one = paused(record())
        edge = decide_resume(one, START + MINUTE, Missed.MISFIRE, None)
        past = decide_resume(one, START + MINUTE + 1, Missed.MISFIRE, None)

        assert (NextOccurrence(START, START), NOTHING) == (edge.pending, edge.settlement)
        assert [START] == [run.scheduled_for for run in past.settlement.runs]

    def test_what_ran_out_during_the_pause_ends(self):
        one = paused(record(definition=definition(timetable=at(from_microseconds(START)))))
        change = decide_resume(one, START + 1, Missed.SKIP, None)

        assert (ScheduleStatus.ENDED, None, NO_FURTHER) == (
            change.status,
            change.pending,
            change.reason,
        )
        must_cover(change.settlement, [START])

    @pytest.mark.parametrize("status", ["active", "ended", "deleted"])
    def test_only_what_is_paused_resumes(self, status):
        with pytest.raises(Conflict):
            decide_resume(record(status=ScheduleStatus(status)), START, Missed.SKIP, None)

    @pytest.mark.parametrize("status", ["ended", "deleted"])
    def test_what_is_over_is_not_paused(self, status):
        with pytest.raises(Conflict):
            decide_pause(
                record(status=ScheduleStatus(status)), reason=None, until=None, missed=Missed.SKIP
            )


class TestDeleting:
    @given(records())
    def test_deleting_stops_at_once_and_remembers(self, one):
        """INV-13: what was pending is held, what is owed is given up."""
        change = decide_delete(one, "not needed")

        assert (ScheduleStatus.DELETED, None, pending_of(one).scheduled_for, True) == (
            change.status,
            change.pending,
            change.held_for,
            change.drops_owed,
        )
        assert (ScheduleStatus.ACTIVE, "not needed") == (change.status_before, change.reason)

    @given(records(), elapsed)
    def test_restoring_skips_what_fell_in_between(self, one, after):
        """INV-2."""
        first = pending_of(one).scheduled_for
        now = first + after

        change = decide_restore(deleted(one), now, None)

        assert ScheduleStatus.ACTIVE == change.status
        must_cover(
            change.settlement,
            occurrences(one.definition.timetable, first, now) if first <= now else [],
        )
        assert {SkipReason.DELETED} >= {skip.reason for skip in change.settlement.skips}
        assert change.pending is not None
        assert (
            one.definition.timetable.first_from(max(now + 1, first)) == change.pending.scheduled_for
        )

    @given(records(), elapsed)
    def test_what_was_paused_comes_back_paused(self, one, after):
        """To what it was before."""
        first = pending_of(one).scheduled_for
        now = first + after

        change = decide_restore(deleted(paused(one)), now, None)

        assert (ScheduleStatus.PAUSED, None) == (change.status, change.pending)
        assert one.definition.timetable.first_from(max(now + 1, first)) == change.held_for
        must_cover(
            change.settlement,
            occurrences(one.definition.timetable, first, now) if first <= now else [],
        )

    def test_a_pause_with_an_end_comes_back_with_its_end(self):
        """Pause keeps everything, and so does a deletion that is undone."""
        resting = decide_pause(record(), reason=None, until=LATER, missed=Missed.MISFIRE)
        gone = deleted(applied(record(), resting))

        change = decide_restore(gone, START, None)

        assert (LATER, Missed.MISFIRE) == (change.resume_at, change.resume_missed)

    def test_what_had_ended_comes_back_ended(self):
        """To what it was before, whatever its timetable could still give."""
        gone = deleted(record(status=ScheduleStatus.ENDED, pending=None))
        change = decide_restore(gone, START, None)

        assert (ScheduleStatus.ENDED, None) == (change.status, change.pending)

    def test_what_ran_out_meanwhile_comes_back_ended(self):
        one = record(definition=definition(timetable=at(from_microseconds(START))))
        change = decide_restore(deleted(one), START + 1, None)

        assert (ScheduleStatus.ENDED, None) == (change.status, change.pending)

    def test_nothing_is_deleted_twice_nor_restored_untouched(self):
        with pytest.raises(Conflict):
            decide_delete(deleted(record()), None)
        with pytest.raises(Conflict):
            decide_restore(record(), START, None)


class TestHeldUnderNewerRules:
    """Pending was ten past the hour; by the rules in force now it is the full hour."""

    HELD = START + 3 * HOUR + 10 * MINUTE

    def test_resuming_from_now_goes_on_with_the_slot_that_was_held(self):
        """INV-2: it lies ahead, so it is neither lost nor skipped."""
        resting = replace(paused(record()), held_for=self.HELD)
        change = decide_resume(resting, START + HOUR, Missed.SKIP, None)

        assert NextOccurrence(START + 3 * HOUR, START + 3 * HOUR) == change.pending
        assert () == change.settlement.skips

    def test_resuming_by_the_misfire_policy_means_the_instant_of_the_new_rules(self):
        resting = replace(paused(record()), held_for=self.HELD)
        change = decide_resume(resting, START + HOUR, Missed.MISFIRE, None)

        assert NextOccurrence(START + 3 * HOUR, START + 3 * HOUR) == change.pending

    def test_restoring_goes_on_with_the_slot_that_was_held(self):
        gone = replace(deleted(record()), held_for=self.HELD)
        change = decide_restore(gone, START + HOUR, None)

        assert NextOccurrence(START + 3 * HOUR, START + 3 * HOUR) == change.pending


class TestSkippingNext:
    @given(records())
    def test_the_one_pending_occurrence_is_skipped_on_record(self, one):
        """And the one after it is pending."""
        change = decide_skip_next(one, "holiday")

        must_go_on_from(one, change, pending_of(one).scheduled_for)
        (skip,) = change.settlement.skips
        assert (1, SkipReason.SKIPPED) == (skip.count, skip.reason)
        assert skip.first_for == skip.last_for == pending_of(one).scheduled_for

    def test_skipping_the_last_one_ends_it(self):
        one = record(definition=definition(timetable=at(from_microseconds(START))))
        change = decide_skip_next(one, None)

        assert (ScheduleStatus.ENDED, NO_FURTHER) == (change.status, change.reason)

    @pytest.mark.parametrize(
        "one", [paused(record()), deleted(record())], ids=["paused", "deleted"]
    )
    def test_without_anything_pending_there_is_nothing_to_skip(self, one):
        with pytest.raises(Conflict):
            decide_skip_next(one, None)


class TestEditing:
    @given(records(), definitions(), elapsed)
    def test_each_occurrence_belongs_to_one_definition(self, one, new, after):
        """INV-14: the old one keeps what it owed up to now, the new one begins after now."""
        assume(new.timetable != one.definition.timetable)
        first = pending_of(one).scheduled_for
        now = first + after

        change = decide_edit(one, new, now, None)

        old = occurrences(one.definition.timetable, first, now) if first <= now else []
        must_cover(change.settlement, old)
        assert () == change.settlement.runs
        assert change.pending is not None
        begins = max(now, one.last_for or now) + 1
        assert new.timetable.first_from(begins) == change.pending.scheduled_for
        if change.settlement.owed is not None:
            assert one.definition_number == change.settlement.owed.definition_number

    @given(records(), definitions(), st.integers(1, 2 * HOUR))
    def test_an_edit_that_relies_on_the_future_says_until_when(self, one, new, before):
        """INV-14: should the pending occurrence fall due before it is applied, decide anew."""
        assume(new.timetable != one.definition.timetable)
        change = decide_edit(one, new, pending_of(one).scheduled_for - before, None)

        assert (pending_of(one).scheduled_for, NOTHING) == (change.before, change.settlement)

    @given(records(), elapsed, st.integers(0, 2 * HOUR))
    def test_an_edit_that_keeps_the_timetable_keeps_the_occurrence(self, one, after, jitter_us):
        """INV-14: a new jitter moves its due, and nothing else."""
        new = replace(one.definition, jitter_us=jitter_us, misfire=Misfire("all"))
        change = decide_edit(one, new, pending_of(one).scheduled_for + after, None)

        expected = ScheduleVersion(one.id, 9, new).pending(pending_of(one).scheduled_for)
        assert (expected, NOTHING, new) == (change.pending, change.settlement, change.definition)

    @given(records(), definitions(), elapsed)
    def test_a_new_instant_is_later_than_the_last_one_run(self, one, new, after):
        """INV-15: also when the clock was set back."""
        assume(new.timetable != one.definition.timetable)
        now = pending_of(one).scheduled_for + after
        ran = replace(one, last_for=now + 5 * MINUTE)

        change = decide_edit(ran, new, now, None)

        assert change.pending is not None
        assert change.pending.scheduled_for > now + 5 * MINUTE

    @given(records(), definitions(), elapsed)
    def test_editing_what_is_paused_leaves_it_paused(self, one, new, after):
        """INV-14: what fell into the pause is skipped under the old definition."""
        assume(new.timetable != one.definition.timetable)
        first = pending_of(one).scheduled_for
        now = first + after
        rest = replace(paused(one), reason="rest", resume_at=LATER, resume_missed=Missed.MISFIRE)

        change = decide_edit(rest, new, now, "because")

        assert (ScheduleStatus.PAUSED, None, "rest") == (
            change.status,
            change.pending,
            change.reason,
        )
        assert (LATER, Missed.MISFIRE) == (change.resume_at, change.resume_missed)
        must_cover(
            change.settlement,
            occurrences(one.definition.timetable, first, now) if first <= now else [],
        )
        assert new.timetable.first_from(max(now, one.last_for or now) + 1) == change.held_for

    @given(records(), definitions(), elapsed, st.booleans())
    def test_an_edit_holds_until_the_old_rule_has_another_occurrence(self, one, new, after, rests):
        """INV-14: or what falls due before it is written would belong to neither rule."""
        assume(new.timetable != one.definition.timetable)
        now = pending_of(one).scheduled_for + after
        change = decide_edit(paused(one) if rests else one, new, now, None)

        following = one.definition.timetable.first_from(max(now + 1, pending_of(one).scheduled_for))
        assert following == change.before

    def test_an_edit_between_nominal_time_and_due_leaves_the_occurrence_to_the_old(self):
        """INV-14: it is owed, and drained when it is due."""
        one = record(
            definition=definition(jitter_us=HOUR),
            pending=NextOccurrence(START, START + 30 * MINUTE),
        )
        change = decide_edit(one, definition(timetable=every("7m")), START, None)

        assert change.settlement.owed is not None
        assert (START, START) == (
            change.settlement.owed.first_for,
            change.settlement.owed.last_for,
        )

    def test_editing_revives_what_has_ended(self):
        """Even with the timetable it had, if that has something left."""
        ended = record(status=ScheduleStatus.ENDED, pending=None, reason=NO_FURTHER)
        change = decide_edit(ended, ended.definition, START, None)

        assert (ScheduleStatus.ACTIVE, NextOccurrence(START + HOUR, START + HOUR)) == (
            change.status,
            change.pending,
        )

    def test_an_edit_to_something_that_never_fires_is_refused(self):
        with pytest.raises(UsageError, match="no occurrence in the future"):
            decide_edit(record(), definition(timetable=at(from_microseconds(START))), START, None)

    def test_what_is_deleted_is_not_edited(self):
        with pytest.raises(Conflict):
            decide_edit(deleted(record()), definition(), START, None)


class TestRetiming:
    @given(records(), elapsed)
    def test_the_same_rules_move_nothing(self, one, after):
        now = pending_of(one).scheduled_for + after
        assume(one.definition.timetable.first_from(now + 1) is not None)
        is_next = one.definition.timetable.first_from(now + 1) == pending_of(one).scheduled_for

        change = decide_retime(one, now, "2026b")

        if is_next or pending_of(one).scheduled_for <= now:
            assert change is None

    def test_newer_rules_move_what_is_pending(self):
        """From intent, checked against the clock when it is applied."""
        one = record(pending=NextOccurrence(START + 30 * MINUTE, START + 30 * MINUTE))
        change = decide_retime(one, START, "2026b")

        assert change is not None
        assert ("schedule.retimed", NextOccurrence(START + HOUR, START + HOUR), "2026b") == (
            change.action,
            change.pending,
            change.reason,
        )
        assert START + 30 * MINUTE == change.before

    def test_what_was_due_under_the_old_rules_stays_due(self):
        """INV-2."""
        one = record(pending=NextOccurrence(START + 1, START + 1))

        assert decide_retime(one, START + 1, "2026b") is None

    def test_a_recomputed_instant_lies_after_the_last_one_run(self):
        """INV-15."""
        one = record(
            last_for=START + HOUR, pending=NextOccurrence(START + 90 * MINUTE, START + 90 * MINUTE)
        )
        change = decide_retime(one, START, "2026b")

        assert change is not None
        assert NextOccurrence(START + 2 * HOUR, START + 2 * HOUR) == change.pending

    def test_a_slot_that_the_rules_move_before_now_is_not_lost(self):
        """INV-2: hourly on the hour; pending was ten past, and now it is five past."""
        was = START + HOUR + 10 * MINUTE
        one = record(last_for=START + 10 * MINUTE, pending=NextOccurrence(was, was))

        change = decide_retime(one, START + HOUR + 5 * MINUTE, "2026b")

        assert change is not None
        assert NextOccurrence(START + HOUR, START + HOUR) == change.pending

    def test_a_slot_that_has_run_is_not_run_again_at_its_new_instant(self):
        """INV-3: it ran at ten to, which the new rules call the full hour."""
        was = START + 50 * MINUTE
        one = record(last_for=was - HOUR, pending=NextOccurrence(was, was))

        change = decide_retime(one, START - 5 * MINUTE, "2026b")

        assert change is not None
        assert NextOccurrence(START + HOUR, START + HOUR) == change.pending

    def test_what_a_person_skipped_is_not_promised_again(self):
        """Also when it is the next one under the new rules."""
        was = START + HOUR + 10 * MINUTE
        one = record(pending=NextOccurrence(was, was))

        change = decide_retime(one, START, "2026b", settled_through=START + HOUR)

        assert change is not None
        assert NextOccurrence(START + 2 * HOUR, START + 2 * HOUR) == change.pending

    @pytest.mark.parametrize(
        "one", [paused(record()), deleted(record())], ids=["paused", "deleted"]
    )
    def test_what_rests_is_not_retimed(self, one):
        """It is computed when it goes on."""
        assert decide_retime(one, START, "2026b") is None


@given(
    records(),
    st.lists(
        st.tuples(
            st.sampled_from(["pause", "resume", "delete", "restore", "skip", "edit"]),
            st.integers(0, 3 * HOUR),
            missed,
            definitions(),
        ),
        max_size=8,
    ),
)
def test_no_sequence_of_orders_loses_or_doubles_an_occurrence(one, orders):
    """INV-2, INV-14: followed order by order, each definition's occurrences are accounted for once."""
    now = START
    for verb, after, choice, new in orders:
        now += after
        change = _decide(one, (verb, now, choice, new))
        if change is None:
            continue
        cursor = one.pending.scheduled_for if one.pending else one.held_for
        goes_on = change.pending.scheduled_for if change.pending else change.held_for
        if cursor is not None:
            end = now if change.definition else None
            _must_account(one, change, (cursor, goes_on, end))
        assert goes_on is None or goes_on > (one.last_for or 0)
        runs = [run.scheduled_for for run in change.settlement.runs]
        one = replace(applied(one, change), last_for=max([*runs, one.last_for or 0]) or None)


def _decide(  # noqa: PLR0911 - one for each order
    one: ScheduleRecord, order: tuple[str, int, Missed, Any]
) -> ScheduleChange | None:
    verb, now, choice, new = order
    try:
        match verb:
            case "pause":
                return decide_pause(one, reason=None, until=None, missed=choice)
            case "resume":
                return decide_resume(one, now, choice, None)
            case "delete":
                return decide_delete(one, None)
            case "restore":
                return decide_restore(one, now, None)
            case "skip":
                return decide_skip_next(one, None)
            case _:
                return decide_edit(one, new, now, None)
    except Conflict:
        return None


def _must_account(
    one: ScheduleRecord, change: ScheduleChange, bounds: tuple[int, int | None, int | None]
) -> None:
    """Require that all between the old place and the new one is settled, once."""
    cursor, goes_on, end = bounds
    if change.definition is not None and change.definition.timetable != one.definition.timetable:
        assert end is not None
        expected = occurrences(one.definition.timetable, cursor, end) if cursor <= end else []
    else:
        assert goes_on is not None
        # Before what was pending all is settled: going back there would do it twice.
        assert goes_on >= cursor
        expected = occurrences(one.definition.timetable, cursor, goes_on - 1)
    must_cover(change.settlement, expected)
