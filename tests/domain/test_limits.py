"""What code and people say about limits, and what follows for a task's runs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly.domain.limits import (
    NO_LIMIT,
    Limit,
    LimitReason,
    LimitRecord,
    Limits,
    LimitSource,
    Rate,
    cap_gate,
    capped_place,
    keyed_place,
    place_text,
    read_limit,
    read_scope,
    why_of,
    why_text,
)
from duly.errors import UsageError
from tests.each_row import each_row

SECOND = 1_000_000
RATE = Rate(5, SECOND, 5)


def said(scope: str, source: LimitSource, limit: Limit) -> LimitRecord:
    return LimitRecord(scope, source, limit, 0, "ada", None)


def test_a_person_counts_before_the_code_and_one_before_all_of_a_kind():
    """Part by part."""
    limits = Limits(
        7,
        [
            said("tenant:*", LimitSource.PERSON, Limit(running=1, rate=RATE)),
            said("tenant:acme", LimitSource.CODE, Limit(running=5)),
            said("tenant:acme", LimitSource.PERSON, Limit(running=9)),
            said("tenant:small", LimitSource.CODE, Limit(running=2)),
        ],
    )

    assert limits.of("tenant:acme") == Limit(running=9, rate=RATE)
    assert limits.of("tenant:small") == Limit(running=2, rate=RATE)
    assert limits.of("tenant:other") == Limit(running=1, rate=RATE)
    assert limits.of("task:acme") == NO_LIMIT


def test_parameters_are_joined_and_the_more_special_word_counts():
    limits = Limits(
        1,
        [
            said("task:send", LimitSource.CODE, Limit(running_by=(("account", 1), ("host", 2)))),
            said("task:send", LimitSource.PERSON, Limit(running_by=(("account", 3),))),
        ],
    )

    assert limits.of("task:send").running_by == (("account", 3), ("host", 2))
    assert limits.of_place(keyed_place("send", "acme", "account", "7")) == 3
    assert limits.of_place(keyed_place("send", "acme", "region", "7")) is None


def test_only_what_is_limited_has_to_ask():
    """A run without a limit costs nothing more."""
    limits = Limits(1, [said("tenant:acme", LimitSource.PERSON, Limit(running=1))])

    assert limits.is_limited("send", "acme")
    assert not limits.is_limited("send", "other")


@each_row("value", ["", "send", "task:", "queue:x", ":x", 5, None, "x" * 500])
def test_what_has_no_limits_is_refused(value: object):
    with pytest.raises(UsageError, match="limit"):
        read_scope(value)


@each_row(
    ("field", "parts"),
    [
        ("running", (0, None, None)),
        ("running", (True, None, None)),
        ("running", ("5", None, None)),
        ("running", (10**9, None, None)),
        ("rate", (None, "often", None)),
        ("running_by", (None, None, {"account": 0})),
        ("running_by", (None, None, ["account"])),
        ("running_by", (None, None, {5: 1})),
        ("running_by", (None, None, dict.fromkeys(map(str, range(99)), 1))),
    ],
)
def test_what_is_no_limit_is_refused_by_its_field(field: str, parts: tuple[object, ...]):
    with pytest.raises(UsageError, match=field):
        read_limit(*parts)


@given(st.text(), st.text(), st.text(), st.text())
def test_places_of_values_are_told_apart_whatever_they_are_called(
    task: str, tenant: str, parameter: str, value: str
):
    """And bounded in length where values are not."""
    place = keyed_place(task, tenant, parameter, value)

    assert place != keyed_place(task, tenant, parameter + "x", value)
    assert capped_place(cap_gate(place)) == place
    assert why_of(why_text(LimitReason.CAP, place)) == (LimitReason.CAP, place)
    assert parameter in place_text(place)


def test_a_long_value_is_known_by_its_digest():
    assert len(keyed_place("send", "acme", "text", "x" * 100_000)) < 100
    assert keyed_place("send", "a", "t", "x" * 500) != keyed_place("send", "a", "t", "y" * 500)


@each_row("reason", [None, "", "error", "overlap", "retry-after 5", "cap"])
def test_other_reasons_are_none_of_ours(reason: str | None):
    assert why_of(reason) is None
