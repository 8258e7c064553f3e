"""Orders that the server ended to let others go on are carried out again."""

from __future__ import annotations

import pytest
from psycopg.errors import DeadlockDetected, LockNotAvailable

from duly.errors import StoreUnavailable
from duly.store.postgres.circles import TRIES, beyond_circles
from duly.store.postgres.failures import failure


class Order:
    """Fails so often, for such a reason, and is then carried out."""

    def __init__(self, times, kind=DeadlockDetected):
        self.left = times
        self.kind = kind
        self.asked = 0

    def __call__(self):
        self.asked += 1
        if self.left == 0:
            return "done"
        self.left -= 1
        error = self.kind("somebody had to give way")
        raise failure(error, "the store") from error


def test_a_bystander_of_a_circle_begins_anew():
    """What it had done is undone, so nothing is done twice."""
    order = Order(TRIES - 1)

    assert "done" == beyond_circles(order)
    assert TRIES == order.asked


def test_one_that_never_gets_through_is_told():
    order = Order(TRIES)

    with pytest.raises(StoreUnavailable, match="is busy"):
        beyond_circles(order)
    assert TRIES == order.asked


def test_what_failed_for_another_reason_is_not_tried_again():
    order = Order(1, LockNotAvailable)

    with pytest.raises(StoreUnavailable, match="is busy"):
        beyond_circles(order)
    assert 1 == order.asked
