"""The cast: the schedules of the demo, and who gives orders in it; each name says that it is one.

All schedules are of the owner `demo`, by which pages and programs can tell them.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duly.demo import tasks
from duly.domain.instants import from_microseconds
from duly.domain.misfire import Misfire
from duly.domain.timetable.cron import cron
from duly.domain.timetable.explain import clock_changes
from duly.domain.timetable.interval import every
from duly.domain.timetable.monthly import monthly
from duly.domain.timetable.rrule import rrule

if TYPE_CHECKING:
    from datetime import datetime

    from duly.app import App
    from duly.domain.timetable.timetable import Timetable

OWNER = "demo"
OPERATOR, ANALYST = "demo operator", "demo analyst"
PAYMENTS = "card-payments"
"""The schedule whose worker is there to be killed."""
NIGHTLY = cron("30 2 * * *", tz="Europe/Berlin")
CLOCK_CHANGE = "night-of-the-clock-change"
CLOCK_CHANGE_ZONES = ("Europe/Berlin", "America/New_York", "Australia/Sydney", "Pacific/Auckland")
"""Where clocks are put forward at two in the morning, so that there is no 02:30."""
_YEAR = timedelta(days=366)


def create_schedules(app: App, now: int) -> None:
    """Make the schedules that have a history."""
    made = app.schedules.create
    made(
        "sensor-poll",
        tasks.poll_sensors,
        every("15m"),
        preset="best-effort",
        owner=OWNER,
    )
    made("search-index", tasks.refresh_index, cron("5 * * * *"), preset="refresh", owner=OWNER)
    made(
        "price-feed",
        tasks.import_feed.bind(source="prices"),
        cron("10 * * * *", tz="Europe/London"),
        misfire=Misfire("all"),
        overlap="allow",
        owner=OWNER,
    )
    made(
        "nightly-report",
        tasks.nightly_report,
        NIGHTLY,
        misfire="latest",
        owner=OWNER,
    )
    made(
        "ledger-close",
        tasks.close_ledger,
        cron("0 18 * * *", tz="America/New_York"),
        preset="one-result",
        owner=OWNER,
    )
    made(
        "supplier-payouts",
        tasks.pay_suppliers,
        cron("0 7 * * *", tz="Europe/London"),
        preset="never-twice",
        owner=OWNER,
    )
    made("image-cache", tasks.rebuild_cache, cron("20 */6 * * *"), overlap="replace", owner=OWNER)
    made(
        CLOCK_CHANGE,
        tasks.archive_mail,
        cron("30 2 * * *", tz=zone_of_next_change(from_microseconds(now))),
        owner=OWNER,
    )
    _create_rare(app)


def _create_rare(app: App) -> None:
    made = app.schedules.create
    made(
        "weekday-standup",
        tasks.send_reminder.bind(class_id=7),
        cron("0 9 * * 1-5", tz="Asia/Tokyo"),
        owner=OWNER,
    )
    made(
        "month-end-archive",
        tasks.archive_mail,
        monthly("last friday", at="18:00", tz="America/New_York"),
        owner=OWNER,
    )
    made(
        "newsletter",
        tasks.archive_mail,
        rrule("FREQ=WEEKLY;BYDAY=TU", dtstart="2026-01-06T08:00", tz="Asia/Kolkata"),
        owner=OWNER,
    )
    made("old-export", tasks.archive_mail, every("12h"), owner=OWNER)


def create_live_schedules(app: App) -> None:
    """Make the schedules by which something happens every few seconds, while somebody looks on."""
    made = app.schedules.create
    made("pulse", tasks.pulse, every("4s"), preset="best-effort", owner=OWNER)
    made("page-import", tasks.import_pages, every("20s"), overlap="skip", owner=OWNER)
    made(PAYMENTS, tasks.charge_card, every("1m"), overlap="skip", owner=OWNER)
    app.schedules.trigger(PAYMENTS, reason="so that there is one to look at")


def zone_of_next_change(now: datetime) -> str:
    """Return the zone whose clocks change soonest."""

    def changes_at(zone: str) -> datetime:
        found = clock_changes(_at_night(zone), now, now + _YEAR)
        return found[0].at if found else now + 2 * _YEAR

    return min(CLOCK_CHANGE_ZONES, key=changes_at)


def _at_night(zone: str) -> Timetable:
    return cron("30 2 * * *", tz=zone)
