"""What pages keep for a while: of one tenant, made by one, and forgotten with an order."""

from __future__ import annotations

import pytest

from duly.testing import ManualClock
from duly.web.rendering import ENTRIES_MAX, TtlCache


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kept(clock: ManualClock) -> TtlCache:
    return TtlCache(clock).of("acme")


def never() -> str:
    pytest.fail("it is kept")


def test_an_answer_is_kept_for_as_long_as_it_may_be_old(kept: TtlCache, clock: ManualClock):
    """And made anew then."""
    assert "first" == kept.get("key", 5, lambda: "first")
    assert "first" == kept.get("key", 5, never)
    clock.advance("5s")
    assert "second" == kept.get("key", 5, lambda: "second")


def test_of_another_tenant_nothing_is_told(kept: TtlCache):
    kept.get("key", 5, lambda: "acme's")

    assert "globex's" == kept.of("globex").get("key", 5, lambda: "globex's")
    assert "acme's" == kept.get("key", 5, never)


def test_one_makes_it_anew_and_others_get_what_there_was(kept: TtlCache, clock: ManualClock):
    """No more than one of them waits."""
    kept.get("key", 5, lambda: "old")
    clock.advance("5s")
    told = []

    def make() -> str:
        told.append(kept.get("key", 5, never))
        return "new"

    assert "new" == kept.get("key", 5, make)
    assert ["old"] == told


def test_what_was_looked_at_before_an_order_is_not_kept_after_it(kept: TtlCache):
    """Who gave the order would be shown what was so before, for as long as it is kept."""

    def make() -> str:
        kept.forget()  # somebody gives an order while this one looks
        return "before"

    assert "before" == kept.get("key", 60, make)
    assert "after" == kept.get("key", 60, lambda: "after")
    assert "after" == kept.get("key", 60, never)


def test_an_order_forgets_what_is_kept_of_its_own_tenant(kept: TtlCache):
    other = kept.of("globex")
    kept.get("key", 60, lambda: "before")
    other.get("key", 60, lambda: "theirs")
    kept.forget()

    assert "after" == kept.get("key", 60, lambda: "after")
    assert "theirs" == other.get("key", 60, never)


def test_what_could_not_be_made_is_made_by_who_comes_next(kept: TtlCache, clock: ManualClock):
    """And not waited for."""
    kept.get("key", 5, lambda: "old")
    clock.advance("5s")
    with pytest.raises(ZeroDivisionError):
        kept.get("key", 5, lambda: str(1 // 0))

    assert "new" == kept.get("key", 5, lambda: "new")


def test_a_bounded_number_is_kept(kept: TtlCache):
    for number in range(ENTRIES_MAX + 10):
        kept.get(number, 60, lambda: "answer")

    assert len(kept.answers) <= ENTRIES_MAX
    assert not kept.making
