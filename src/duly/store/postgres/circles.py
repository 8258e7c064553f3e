"""Orders that waited in a circle, and were let go of to end it: they are carried out again.

Whoever replaces what is pending under several keys, one after the other in a transaction of the
caller's, may meet another who does so in another order. The server ends one of all that wait, and
that may be a bystander who wanted a single row. What it had done is undone, so it begins anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from psycopg.errors import DeadlockDetected

from duly.errors import StoreUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")
TRIES = 3


def beyond_circles(order: Callable[[], T]) -> T:
    """Carry out an order, again if it was ended to let others go on; a transaction of our own."""
    for _ in range(TRIES - 1):
        try:
            return order()
        except StoreUnavailable as error:
            if not isinstance(error.__cause__, DeadlockDetected):
                raise
    return order()
