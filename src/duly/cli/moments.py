"""Moments as people type them on the command line, read against a clock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.typed_moments import local_date, moment_from

if TYPE_CHECKING:
    from datetime import datetime

    from duly.clock import Clock

__all__ = ["local_date", "read_moment"]


def read_moment(text: str, tz: str, clock: Clock, field: str) -> datetime:
    """Read a moment; wall times and days are meant in `tz`."""
    return moment_from(text, tz, clock.now(), field)
