"""Identities: computed, sorted by time, distinct, and spread over shards (SPEC R1, INV-3, S8)."""

from __future__ import annotations

from collections import Counter
from uuid import RFC_4122, UUID, uuid5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.ids import (
    ScheduleId,
    drawn_run_ids,
    identity_text,
    is_occurrence_id,
    occurrence_run_id,
    ordered_run_id,
    read_identity,
    schedule_id,
    shard_of,
)
from duly.domain.schedules import jitter_offset_us
from duly.errors import UsageError
from tests.domain.settled_spans import HOUR, START, schedule_ids
from tests.each_row import each_row

MILLISECOND = 1000
instants = st.integers(0, 4 * START)
nonces = st.binary(max_size=40)
kinds = st.sampled_from(["once", "manual", "rerun", "redo", "verify"])
A, B = ScheduleId(b"a" * 16), ScheduleId(b"b" * 16)


def version_of(identity: bytes) -> int | None:
    found = UUID(bytes=identity)
    assert RFC_4122 == found.variant
    return found.version


@given(schedule_ids, instants)
def test_an_occurrence_has_one_id_for_ever(schedule, instant):
    """INV-3: two dispatchers and a replay compute the same."""
    assert occurrence_run_id(schedule, instant) == occurrence_run_id(schedule, instant)


def test_the_id_of_an_occurrence_is_a_promise():
    """INV-3: another release must compute the same, so it is written down here."""
    found = identity_text(occurrence_run_id(A, START))

    assert "01a4896e-bc00-8965-a51e-49f91ecc87f2" == found


@given(schedule_ids, schedule_ids, instants, instants)
def test_other_occurrences_have_other_ids(one, other, first, second):
    """INV-3."""
    same = (one, first) == (other, second)

    assert same == (occurrence_run_id(one, first) == occurrence_run_id(other, second))


@given(
    st.tuples(kinds, instants, nonces, schedule_ids),
    st.tuples(kinds, instants, nonces, schedule_ids),
)
def test_other_orders_have_other_ids(one, other):
    """Kind, instant, nonce and schedule all count."""
    assert (one == other) == (ordered_run_id(*one) == ordered_run_id(*other))


@given(kinds, instants, nonces)
def test_what_is_hashed_has_its_frame(kind, instant, nonce):
    """A nonce that looks like a schedule is still a nonce."""
    assert ordered_run_id(kind, instant, nonce, A) != ordered_run_id(kind, instant, A + nonce)


def test_an_order_never_meets_an_occurrence():
    """INV-3: not even one that is made for the same instant with nothing to tell it apart."""
    assert occurrence_run_id(A, START) != ordered_run_id("manual", START, b"", A)


@given(schedule_ids, schedule_ids, instants, instants)
def test_ids_sort_by_time(one, other, first, second):
    """To the millisecond."""
    ids = [occurrence_run_id(one, first), occurrence_run_id(other, second)]

    if first // MILLISECOND != second // MILLISECOND:
        assert (first < second) == (ids[0] < ids[1])


@given(instants, st.binary(min_size=10, max_size=16))
def test_ids_are_uuids(instant, draw):
    """Of a drawn one version 7, of a computed one version 8."""
    assert 7 == version_of(schedule_id(instant, draw))
    assert 8 == version_of(occurrence_run_id(A, instant))
    assert 8 == version_of(ordered_run_id("once", instant, draw))


@given(instants, st.binary(min_size=2, max_size=2), st.lists(st.binary(min_size=8, max_size=8)))
def test_drawn_ids_are_neighbours(instant, shared, each):
    """Sorted, alike in front, no occurrence's, and different wherever the draws are."""
    each = [*each, bytes(8)]
    ids = drawn_run_ids(instant, shared + b"".join(each))

    assert sorted(set(ids)) == ids
    assert len({one[:8] for one in ids}) == 1
    assert len({one[0] & 0x3F for one in each}) <= len(ids) <= len(each)
    for one in ids:
        assert 8 == version_of(one)
        assert not is_occurrence_id(one)
        assert ordered_run_id("once", instant, b"")[:6] == one[:6]


@pytest.mark.parametrize("size", [2, 9, 17])
def test_drawn_ids_take_whole_draws(size):
    with pytest.raises(AssertionError):
        drawn_run_ids(START, bytes(size))


def test_an_id_needs_ten_drawn_bytes():
    with pytest.raises(AssertionError):
        schedule_id(START, bytes(9))


def test_schedules_of_one_moment_differ_by_their_draw():
    assert schedule_id(START, b"a" * 10) != schedule_id(START, b"b" * 10)


@pytest.mark.parametrize("shards", [1, 8, 64])
def test_occurrences_of_one_moment_spread_over_shards(shards):
    """The front of an id is time, so its end decides."""
    ids = [occurrence_run_id(ScheduleId(bytes(12) + n.to_bytes(4)), START) for n in range(3200)]
    found = Counter(shard_of(one, shards) for one in ids)

    assert set(range(shards)) == set(found)
    assert max(found.values()) < 2 * len(ids) / shards


@given(schedule_ids)
def test_an_id_is_read_in_all_its_forms(identity):
    text = identity_text(identity)

    assert {identity} == {
        read_identity(form, "id") for form in (identity, text, text.upper(), UUID(text))
    }


@each_row("wrong", ["", "nightly", b"short", 7, None, "0" * 31, object()])
def test_anything_else_is_no_id(wrong):
    with pytest.raises(UsageError) as caught:
        read_identity(wrong, "run")

    assert "run" == caught.value.field


@given(schedule_ids, st.integers(0, 3) | st.integers(0, 7 * 24 * HOUR))
def test_jitter_is_stable_and_within_its_window(identity, window):
    """Always the same moment, never earlier, and the end is not in it."""
    offset = jitter_offset_us(identity, window)

    assert offset == jitter_offset_us(identity, window)
    assert 0 <= offset < max(window, 1)


def test_jitter_spreads_schedules_over_their_window():
    """Ten thousand at nine o'clock."""
    space = UUID(int=0)
    ids = [ScheduleId(uuid5(space, str(number)).bytes) for number in range(10_000)]
    tenths = Counter(jitter_offset_us(one, HOUR) * 10 // HOUR for one in ids)

    assert set(range(10)) == set(tenths)
    assert max(tenths.values()) < 1200


def test_jitter_of_one_schedule_differs_from_that_of_another():
    assert jitter_offset_us(A, HOUR) != jitter_offset_us(B, HOUR)
