"""All pages and actions of the console: requests are served from it, tests of access made of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.web.pages import (
    alerts,
    audit,
    backfills,
    editor,
    fleet,
    inbox,
    overview,
    runs,
    schedule,
    schedules,
)

if TYPE_CHECKING:
    from duly.web.requests import Page

PAGES: tuple[Page, ...] = (
    *overview.PAGES,
    *overview.HEALTH_PAGES,
    *schedules.PAGES,
    *schedule.PAGES,
    *audit.PROOF_PAGES,
    *fleet.OWNER_PAGES,
    *schedules.ORDER_PAGES,
    *schedule.ORDER_PAGES,
    *editor.PAGES,
    *runs.PAGES,
    *runs.CHOSEN_PAGES,
    *runs.RUN_PAGES,
    *runs.ORDER_PAGES,
    *inbox.PAGES,
    *inbox.ITEM_PAGES,
    *inbox.BATCH_PAGES,
    *audit.MISSING_PAGES,
    *backfills.PAGES,
    *backfills.PLAN_PAGES,
    *fleet.PAGES,
    *fleet.ORDER_PAGES,
    *alerts.PAGES,
    *alerts.ALERT_PAGES,
    *alerts.RULE_PAGES,
    *alerts.ORDER_PAGES,
    *audit.PAGES,
    *overview.DEMO_PAGES,
)
