"""THE table of routes: what there is, who may use it, what goes in and what comes out.

Requests are served from it, and the OpenAPI document, the tests of access and the documentation are
made of it. Each resource brings its own part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.api.handlers import (
    alerts,
    attempts,
    backfills,
    delayed,
    describing,
    events,
    inbox,
    limits,
    looking,
    members,
    owners,
    proofs,
    queues,
    run_orders,
    runs,
    schedule_selections,
    schedules,
    selections,
    sessions,
    tasks,
    tokens,
    vitals,
)

if TYPE_CHECKING:
    from duly.api.route import Route

ROUTES: tuple[Route, ...] = (
    *schedules.ROUTES,
    *schedule_selections.ROUTES,
    *delayed.ROUTES,
    *runs.ROUTES,
    *run_orders.ROUTES,
    *selections.ROUTES,
    *attempts.ROUTES,
    *inbox.ROUTES,
    *backfills.ROUTES,
    *queues.ROUTES,
    *limits.ROUTES,
    *tasks.ROUTES,
    *members.ROUTES,
    *owners.ROUTES,
    *alerts.ROUTES,
    *proofs.ROUTES,
    *vitals.ROUTES,
    *looking.ROUTES,
    *events.ROUTES,
    *tokens.ROUTES,
    *sessions.ROUTES,
    *describing.ROUTES,
)
