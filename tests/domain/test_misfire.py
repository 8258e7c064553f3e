"""The misfire policy as people write it, and as it is stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given

from duly.domain.enums import MisfirePolicy
from duly.domain.policies import AT_MOST_MAX, Misfire, read_misfire
from duly.errors import UsageError
from tests.domain.settled_spans import DAY, HOUR, MINUTE, SECOND, misfires
from tests.each_row import each_row


def test_the_default_surprises_nobody():
    """The latest, a minute of grace, not older than a day."""
    found = Misfire()

    assert (MisfirePolicy.LATEST, MINUTE, None, DAY) == (
        found.policy,
        found.grace_us,
        found.at_most,
        found.not_older_us,
    )


def test_durations_are_given_as_texts_or_timedeltas():
    found = Misfire("all", grace=timedelta(seconds=5), not_older="2h", at_most=3)

    assert (MisfirePolicy.ALL, 5 * SECOND, 3, 2 * HOUR) == (
        found.policy,
        found.grace_us,
        found.at_most,
        found.not_older_us,
    )


@given(misfires())
def test_what_is_stored_is_read_back(misfire):
    assert misfire == read_misfire(misfire.to_json())


@pytest.mark.parametrize(
    ("given_as", "meaning"),
    [
        ("skip", Misfire("skip")),
        (Misfire("all"), Misfire("all")),
        ({"policy": "all", "at_most": 3}, Misfire("all", at_most=3)),
        ({"at_most": "none", "not_older": "none"}, Misfire(at_most=None, not_older=None)),
        ({}, Misfire()),
    ],
)
def test_a_policy_is_a_name_a_value_or_its_parts(given_as, meaning):
    assert meaning == read_misfire(given_as)


@each_row(
    ("given_as", "field"),
    [
        ("never", "misfire"),
        ("", "misfire"),
        ("LATEST", "misfire"),
        (None, "misfire"),
        (3, "misfire"),
        (["all"], "misfire"),
        ({"policy": "all", "most": 3}, "misfire"),
        ({"policy": ["all"]}, "misfire"),
        ({"grace": "-1s"}, "grace"),
        ({"grace": "soon"}, "grace"),
        ({"grace": timedelta(seconds=-1)}, "grace"),
        ({"not_older": "-1d"}, "not_older"),
        ({"at_most": 0}, "at_most"),
        ({"at_most": -1}, "at_most"),
        ({"at_most": AT_MOST_MAX + 1}, "at_most"),
        ({"at_most": True}, "at_most"),
        ({"at_most": "3"}, "at_most"),
        ({"at_most": 2.0}, "at_most"),
    ],
)
def test_anything_else_is_refused_with_its_field(given_as, field):
    with pytest.raises(UsageError) as caught:
        read_misfire(given_as)

    assert field == caught.value.field


@pytest.mark.parametrize("at_most", [1, AT_MOST_MAX])
def test_the_bounds_of_a_bound_belong_to_it(at_most):
    assert at_most == Misfire("all", at_most=at_most).at_most


@pytest.mark.parametrize("policy", list(MisfirePolicy))
def test_a_policy_compares_by_what_it_means(policy):
    """An edit that changes nothing is recognised."""
    assert Misfire(policy, grace="60s") == Misfire(str(policy), grace=timedelta(minutes=1))
    assert Misfire(policy) != Misfire(policy, grace="61s")
