"""`--as-of`: an instant that has passed, at which something is looked at."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from cyclopts import Parameter

from duly.app import App
from duly.cli.moments import read_moment
from duly.clock import SystemClock
from duly.domain.time_texts import utc_text
from duly.errors import UsageError

AsOf = Annotated[
    str | None,
    Parameter(
        name="--as-of",
        allow_leading_hyphen=True,
        help="Show what was so then: an ISO time, today, -2h.",
    ),
]


def read_as_of(app: App, text: str, tz: str = "UTC") -> datetime:
    """Read the instant; what is to come nobody knows."""
    at = read_moment(text, tz, SystemClock(), "as-of")
    now = app.status().now
    if at > now:
        problem, remedy = "lies in the future", f"give an instant before {utc_text(now)}"
        raise UsageError("as-of", text, problem, remedy)
    return at
