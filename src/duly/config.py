"""Settings: the limits that a program may choose for itself, validated whole."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import timedelta

from duly.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The limits of one application; every one has a default that is right for most."""

    payload_bytes_max: int = 64 * 1024
    """A payload says what to work on. What is larger belongs where the work is: a row, a file."""
    payload_depth_max: int = 32
    runs_per_order_max: int = 10_000
    """All of one order commit together; this bounds how long others wait for it."""
    decisions_max: int = 5
    """How often an order is decided anew because the schedule moved meanwhile."""
    listed_max: int = 100_000
    """How many things one call may list."""
    occurrences_max: int = 10_000
    """How many occurrences one call may judge."""
    transaction_limit: timedelta = timedelta(seconds=1)
    """How long a lent connection may be kept: a store may have one writer only."""

    def __post_init__(self) -> None:
        """Refuse a limit that limits everything, or is no number."""
        for one in fields(self):
            value = getattr(self, one.name)
            if one.name == "transaction_limit":
                is_limit = isinstance(value, timedelta) and value > timedelta(0)
            else:
                is_limit = isinstance(value, int) and not isinstance(value, bool) and value >= 1
            if not is_limit:
                raise UsageError(one.name, value, "is not a limit", "give a whole number from 1 on")
