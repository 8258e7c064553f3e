"""THE table of pages and actions: requests are served from it, and tests of access made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly_web.pages import (
    bulk_orders,
    editor,
    health,
    overview,
    run,
    runs,
    schedule,
    schedule_orders,
    schedules,
)

if TYPE_CHECKING:
    from duly_web.page import Page

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *health.PAGES,
    *schedules.PAGES,
    *schedule.PAGES,
    *bulk_orders.PAGES,
    *schedule_orders.PAGES,
    *editor.PAGES,
    *runs.PAGES,
    *run.PAGES,
)
