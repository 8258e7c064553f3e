"""Which quotas bound an order, and what is told when one is reached."""

from __future__ import annotations

import pickle
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.enums import ScheduleStatus
from duly.domain.quotas import (
    MOST_MAX,
    OWNED_DEFAULT,
    WINDOW_US,
    Bound,
    Counted,
    Quota,
    QuotaKey,
    bound_on_pending,
    bounds_on_schedule,
    does_count,
    free_again_us,
    may_be_bound,
    over_quota,
    read_most,
    read_scope,
)
from duly.errors import Conflict, UsageError
from tests.domain.test_planning import BASE
from tests.each_row import each_row

HERS = replace(BASE, tenant="acme", owner="anna", declared_by=None)
SCHEDULES, CREATIONS, PENDING = Counted.SCHEDULES, Counted.CREATIONS, Counted.PENDING


def quota(scope: str, counted: Counted, most: int | None, tenant: str = "") -> Quota:
    """Return a quota that somebody has set."""
    key = QuotaKey(scope, tenant)
    return Quota(key=key, counted=counted, most=most, version=1, updated_at=0, updated_by="ada")


def test_an_end_user_is_bounded_and_an_operator_is_not():
    """Ten active schedules, unless somebody says otherwise."""
    (bound,) = bounds_on_schedule(None, HERS, [])

    assert Bound("owner:anna", SCHEDULES, OWNED_DEFAULT, "acme", "anna") == bound
    assert [] == bounds_on_schedule(None, replace(HERS, owner=None), [])
    assert [] == bounds_on_schedule(None, replace(HERS, declared_by="code:app"), [])


def test_what_is_said_by_name_goes_before_what_is_said_about_each():
    """Also when it says that there is no bound; another tenant's owner is another owner."""
    each = quota("owner:*", SCHEDULES, 3)
    hers = quota("owner:anna", SCHEDULES, 5, "acme")
    lifted = replace(hers, most=None)
    others = replace(hers, key=QuotaKey("owner:anna", "another"))

    assert [5] == [one.most for one in bounds_on_schedule(None, HERS, [each, hers])]
    assert [] == bounds_on_schedule(None, HERS, [each, lifted])
    assert [3] == [one.most for one in bounds_on_schedule(None, HERS, [each, others])]


def test_an_operator_is_bounded_by_what_was_set_and_not_by_the_default():
    each = quota("owner:*", SCHEDULES, 4)

    assert [10] == [one.most for one in bounds_on_schedule(None, HERS, [])]
    assert [] == bounds_on_schedule(None, HERS, [], is_operator=True)
    assert [4] == [one.most for one in bounds_on_schedule(None, HERS, [each], is_operator=True)]


def test_a_new_schedule_is_bounded_by_all_that_apply_in_one_order():
    """Who waits for others does so in the same order everywhere, so nobody waits in a ring."""
    quotas = [
        quota("owner:*", SCHEDULES, 4),
        quota("tenant:acme", SCHEDULES, 3),
        quota("tenant:*", CREATIONS, 2),
        quota("all", CREATIONS, 1),
        quota("tenant:another", SCHEDULES, 0),
        quota("tenant:acme", PENDING, 0),
    ]

    found = [(one.scope, one.counted, one.most) for one in bounds_on_schedule(None, HERS, quotas)]

    assert [
        ("all", CREATIONS, 1),
        ("tenant:acme", CREATIONS, 2),
        ("tenant:acme", SCHEDULES, 3),
        ("owner:anna", SCHEDULES, 4),
    ] == found


def test_one_more_is_one_that_was_not_counted_or_not_theirs():
    """Edits and pauses are nobody's business; bringing back and giving away are."""
    paused = replace(HERS, status=ScheduleStatus.PAUSED, pending=None)
    resting = replace(paused, resume_at=1)
    given_away = replace(HERS, owner="bob")

    assert may_be_bound(None, HERS)
    assert not may_be_bound(HERS, replace(HERS, version=9))
    assert not may_be_bound(HERS, paused)
    assert may_be_bound(paused, HERS)
    assert not may_be_bound(resting, HERS)
    assert may_be_bound(HERS, given_away)
    assert (True, False, True) == (does_count(HERS), does_count(paused), does_count(resting))
    # Only its new owner's: the tenant has as many as before, and none was made.
    quotas = [quota("tenant:*", SCHEDULES, 1), quota("all", CREATIONS, 1)]
    assert ["owner:bob"] == [one.scope for one in bounds_on_schedule(HERS, given_away, quotas)]
    assert ["tenant:acme", "owner:anna"] == [
        one.scope for one in bounds_on_schedule(paused, HERS, quotas)
    ]


def test_pending_runs_are_bounded_where_somebody_says_so():
    """And nowhere else."""
    each, ours = quota("tenant:*", PENDING, 5), quota("tenant:acme", PENDING, None)

    assert bound_on_pending("acme", []) is None
    assert bound_on_pending("acme", [quota("tenant:acme", SCHEDULES, 5)]) is None
    assert Bound("tenant:acme", PENDING, 5, "acme") == bound_on_pending("acme", [each])
    assert bound_on_pending("acme", [each, ours]) is None


@given(st.lists(st.integers(0, 3 * WINDOW_US), min_size=1, max_size=30), st.integers(1, 10))
def test_it_is_said_when_there_is_room_again(instants: list[int], most: int):
    """Not a microsecond later than need be, and not before."""
    now = max(instants)
    made = [one for one in instants if one > now - WINDOW_US]
    if len(made) < most:
        return
    later = now + free_again_us(Bound("all", CREATIONS, most), made, now)

    def within(at: int) -> int:
        return len([one for one in made if one > at - WINDOW_US])

    assert within(later) < most <= within(later - 1)


def test_an_error_names_the_quota_the_count_and_the_remedy():
    """And it is a conflict, which a program may tell from others; it travels whole."""
    error = over_quota(Bound("owner:anna", SCHEDULES, 10, "acme", "anna"), 12)

    assert isinstance(error, Conflict)
    assert (
        "quota: 'owner:anna of tenant acme' has 12 active schedules, and 10 is the most; pause or"
        " delete one, or raise it: duly quota set owner:anna --tenant acme --schedules N. The limit"
        " is for end users: declared schedules (@app.schedule, duly schedule apply) do not count,"
        " and the default does not bind operators (duly schedule create)"
    ) == str(error)
    again = pickle.loads(pickle.dumps(error))
    assert (str(error), 10, 12) == (str(again), again.most, again.count)


@each_row("scope", ["", "everybody", "owner:", "tenant: ", "task:send", "all:x", 7])
def test_a_scope_that_is_nobodys_is_refused(scope: object):
    with pytest.raises(UsageError, match="scope"):
        read_scope(scope, "acme")


def test_an_owner_is_one_of_a_tenant():
    assert QuotaKey("owner:anna", "acme") == read_scope("owner:anna", "acme")
    assert QuotaKey("owner:*", "") == read_scope("owner:*", "acme")
    assert QuotaKey("tenant:b", "") == read_scope("tenant:b", "acme")


@each_row("most", [-1, MOST_MAX + 1, True, "many", 1.5])
def test_a_number_that_is_none_is_refused(most: object):
    """So is a quota that nobody keeps."""
    with pytest.raises(UsageError, match="schedules"):
        read_most(QuotaKey("tenant:*"), SCHEDULES, most)
    with pytest.raises(UsageError, match="owner has quotas of schedules"):
        read_most(QuotaKey("owner:*"), PENDING, 5)
    assert read_most(QuotaKey("tenant:*"), SCHEDULES, "none") is None
    assert [0, 100_000] == [read_most(QuotaKey("all"), CREATIONS, most) for most in (0, 100_000)]
