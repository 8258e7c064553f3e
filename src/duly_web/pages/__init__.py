"""THE table of pages and actions: requests are served from it, and tests of access made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly_web.pages import (
    audit,
    backfill_plan,
    backfills,
    fleet,
    fleet_orders,
    health,
    inbox,
    inbox_batch,
    inbox_item,
    missing,
    overview,
    run,
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
    *run.PAGES,
    *inbox.PAGES,
    *inbox_item.PAGES,
    *inbox_batch.PAGES,
    *missing.PAGES,
    *backfills.PAGES,
    *backfill_plan.PAGES,
    *fleet.PAGES,
    *fleet_orders.PAGES,
    *audit.PAGES,
)
