"""When a schedule last succeeded, was last found to have worked, and last went wrong."""

from __future__ import annotations

from datetime import timedelta

import duly
from duly import Retry, Verdict, every
from duly.testing import virtual_time

START = "2026-04-03T02:00"


def test_a_schedule_tells_its_last_success_check_and_error_apart():
    """A success that was not found to be one is no useful completion."""
    app = duly.App("memory:")
    broken: list[str] = []

    @app.task(retry=Retry(attempts=1))
    def close(run: duly.Run) -> None:
        if "task" in broken:
            raise ValueError("no such ledger")

    @close.verify
    def is_closed(run: duly.Run) -> Verdict:
        return Verdict.absent() if "check" in broken else Verdict.present()

    with virtual_time(app, START) as clock:
        app.schedules.create("close", close, every("1h"))
        fresh = app.schedules.get("close")
        for breaks in ("", "check", "task"):
            broken.append(breaks)
            clock.advance("1h")
        clock.advance("1m")
        found = app.schedules.get("close")
        (listed,) = app.schedules.list(with_last_ends=True)
        (plain,) = app.schedules.list()

    assert (None, None, None) == (
        fresh.last_success_at,
        fresh.last_verified_at,
        fresh.last_error_at,
    )
    ends = found.last_ends
    assert ends is not None
    assert (ends, None) == (listed.last_ends, plain.last_ends)
    assert ends.success is not None
    assert ends.verified is not None
    assert ends.error is not None
    hour = timedelta(hours=1)
    assert hour == ends.success.scheduled_for - ends.verified.scheduled_for
    assert hour == ends.error.scheduled_for - ends.success.scheduled_for
    assert "no such ledger" in (ends.error.error or "")
    assert ends.success.at == found.last_success_at
    assert ends.verified.at == found.last_verified_at
    assert ends.error.at == found.last_error_at
    told = found.to_json()["last_ends"]
    assert (str(ends.error.run), None) == (told["error"]["run"], told["unknown_through"])
