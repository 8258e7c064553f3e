"""THE table of pages and actions: requests are served from it, and tests of access made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly_web.pages import (
    alert,
    alert_orders,
    alert_rules,
    alerts,
    audit,
    backfill_plan,
    backfills,
    bulk_orders,
    chosen_runs,
    demo,
    editor,
    fleet,
    fleet_orders,
    health,
    inbox,
    inbox_batch,
    inbox_item,
    missing,
    overview,
    owners,
    proof,
    run,
    run_orders,
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
    *proof.PAGES,
    *owners.PAGES,
    *bulk_orders.PAGES,
    *schedule_orders.PAGES,
    *editor.PAGES,
    *runs.PAGES,
    *chosen_runs.PAGES,
    *run.PAGES,
    *run_orders.PAGES,
    *inbox.PAGES,
    *inbox_item.PAGES,
    *inbox_batch.PAGES,
    *missing.PAGES,
    *backfills.PAGES,
    *backfill_plan.PAGES,
    *fleet.PAGES,
    *fleet_orders.PAGES,
    *alerts.PAGES,
    *alert.PAGES,
    *alert_rules.PAGES,
    *alert_orders.PAGES,
    *audit.PAGES,
    *demo.PAGES,
)
