"""THE table of pages and actions: requests are served from it, and tests of access made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly_web.pages import (
    chosen_runs,
    health,
    overview,
    run,
    run_orders,
    runs,
    schedule_orders,
    schedules,
)

if TYPE_CHECKING:
    from duly_web.page import Page

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *health.PAGES,
    *schedules.PAGES,
    *schedule_orders.PAGES,
    *runs.PAGES,
    *chosen_runs.PAGES,
    *run.PAGES,
    *run_orders.PAGES,
)
