"""Permission before an effect, and what is known of it afterwards."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.effects import (
    LEAST_TIME_LEFT_US,
    ClaimCheck,
    EffectRecord,
    EffectReport,
    EffectState,
    Grant,
    may_begin,
    may_repeat,
    require_effect_key,
    seen_by,
    told,
)
from duly.domain.enums import Effects, Origin
from duly.domain.ids import RunId
from duly.domain.runs import lineage_root_of
from duly.errors import UsageError
from tests.each_row import each_row

RUN = RunId(bytes(range(16)))
OTHER = RunId(bytes(range(1, 17)))
HERE = ClaimCheck(is_ours=True, is_cancel_asked=False, deadline_at=None, now=0)
INTENDED = EffectRecord(
    root=RUN, key="charge:7", state=EffectState.INTENDED, run_id=RUN, fence=3, begun_at=0
)
UNKNOWN = replace(INTENDED, state=EffectState.UNKNOWN)
DONE = replace(INTENDED, state=EffectState.DONE, done_at=1, result='"ok"')
REPEATABLE = [Effects.PURE, Effects.IDEMPOTENT, Effects.TRANSACTIONAL]


def test_who_owns_the_run_and_has_time_left_may_begin():
    assert may_begin(HERE) is Grant.GRANTED
    assert may_begin(HERE._replace(deadline_at=LEAST_TIME_LEFT_US)) is Grant.GRANTED


def test_nothing_is_begun_by_one_that_was_replaced_or_asked_to_stop_or_is_out_of_time():
    """INV-5: the permission is fenced, and not given for what would be cut short."""
    assert may_begin(HERE._replace(is_ours=False, is_cancel_asked=True)) is Grant.GONE
    assert may_begin(HERE._replace(is_cancel_asked=True)) is Grant.STOPPING
    assert may_begin(HERE._replace(deadline_at=LEAST_TIME_LEFT_US - 1)) is Grant.TOO_LATE


@pytest.mark.parametrize("effects", Effects)
def test_an_effect_nobody_has_begun_is_permitted_and_one_that_is_done_is_not(effects: Effects):
    assert may_repeat(None, (RUN, 3), effects) is Grant.GRANTED
    assert may_repeat(DONE, (RUN, 4), effects) is Grant.DONE


@pytest.mark.parametrize("known", [INTENDED, UNKNOWN])
def test_an_unsafe_effect_of_an_attempt_that_is_gone_is_never_permitted_again(known: EffectRecord):
    """INV-11."""
    assert may_repeat(known, (RUN, 4), Effects.UNSAFE) is Grant.UNKNOWN
    assert may_repeat(known, (OTHER, 3), Effects.UNSAFE) is Grant.UNKNOWN


@each_row("effects", REPEATABLE)
@each_row("known", [INTENDED, UNKNOWN])
def test_one_that_may_be_repeated_is(known: EffectRecord, effects: Effects):
    assert may_repeat(known, (RUN, 4), effects) is Grant.GRANTED


def test_an_answer_that_was_lost_is_given_again():
    """The same attempt asks once more, and has done nothing meanwhile."""
    assert may_repeat(INTENDED, (RUN, 3), Effects.UNSAFE) is Grant.GRANTED


def test_what_was_known_as_unknown_stays_so_for_whoever_asks():
    """Not even the attempt that began it may say that it asks for the first time."""
    assert may_repeat(UNKNOWN, (RUN, 3), Effects.UNSAFE) is Grant.UNKNOWN


@each_row(
    ("known", "is_done", "expected"),
    [
        (None, True, (False, None)),
        (None, False, (True, None)),
        (INTENDED, True, (True, replace(DONE, done_at=9))),
        (INTENDED, False, (True, None)),
        (replace(INTENDED, tries=2), False, (True, replace(UNKNOWN, tries=2))),
        (DONE, True, (True, DONE)),
        (DONE, False, (False, DONE)),
        (replace(INTENDED, fence=4), True, (False, replace(INTENDED, fence=4))),
        (replace(DONE, run_id=OTHER), True, (False, replace(DONE, run_id=OTHER))),
    ],
)
def test_only_who_intends_an_effect_says_what_became_of_it(known, is_done, expected):
    """Once; that nothing happened is not believed of what others have intended before."""
    assert expected == told(known, EffectReport((RUN, 3), is_done, '"ok"', 9))


@each_row("origin", Origin)
def test_a_line_is_a_run_and_what_makes_good_what_it_left(origin: Origin):
    """A plain rerun begins one, so that nobody takes it for a repetition."""
    shares = origin in {Origin.REPAIR, Origin.BACKFILL}

    assert (OTHER if shares else RUN) == lineage_root_of(RUN, origin, OTHER)
    assert RUN == lineage_root_of(RUN, origin, None)


def test_an_intention_whose_attempt_is_over_is_shown_as_unknown():
    assert seen_by(INTENDED, (RUN, 3)) is EffectState.INTENDED
    assert seen_by(INTENDED, (RUN, 4)) is EffectState.UNKNOWN
    assert seen_by(INTENDED, None) is EffectState.UNKNOWN
    assert seen_by(DONE, None) is EffectState.DONE


@each_row("key", ["", "  ", "x" * 201, 7, "a\x00b"])
def test_a_key_that_is_none_is_refused(key: str):
    with pytest.raises(UsageError, match=r"^key: "):
        require_effect_key(key)
