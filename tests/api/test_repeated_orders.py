"""An order that was carried out, and whose answer was lost with the server, makes nothing twice.

Who gives it again under its Idempotency-Key is another process, which knows the key and since when
the order is known, and nothing else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duly.api.app import ROUTES
from duly.api.handlers import backfills, run_orders, runs
from duly.api.ordering import IdempotentOrder
from duly.api.route import ApiRequest
from duly.interface.backfills import NewBackfill
from duly.interface.runs import NewCall, NewRun, NewRuns, NoTerms, RerunRun
from tests.api.api_fixtures import anna

if TYPE_CHECKING:
    from duly.api.route import Handler
    from tests.api.api_fixtures import Desk

SPAN: dict[str, Any] = {
    "schedule": "hourly",
    "since": "2026-04-02T20:00Z",
    "until": "2026-04-03T00:00Z",
}
BEGUN_AT = 1_775_181_600_000_000
ORDERS: dict[str, tuple[Handler, Any]] = {
    "enqueue": (runs.enqueue_run, NewRun(task="report")),
    "enqueue later": (runs.enqueue_run, NewRun(task="report", delay="1h")),
    "enqueue many": (runs.enqueue_runs, NewRuns(calls=[NewCall(task="report")] * 3)),
    "backfill": (backfills.create_backfill, NewBackfill(**SPAN)),
    "rerun": (run_orders.rerun_run, RerunRun(reason="again")),
    "verify": (run_orders.verify_run, NoTerms()),
}


@pytest.mark.parametrize("name", ORDERS)
def test_an_order_given_again_under_its_key_makes_nothing_twice(desk: Desk, name):
    """Also when time has passed, and what the first has made is running or over."""
    handler, body = ORDERS[name]
    path = {"run": desk.runs("succeeded")[0]["id"]}

    def order(key: str) -> Any:
        ordered = IdempotentOrder(key.encode() * 16, BEGUN_AT)
        return handler(
            ApiRequest(app=desk.app, known=anna(), path=path, body=body, ordered=ordered)
        )

    before = made(desk)
    first = order("a")
    by_first = made(desk) - before
    desk.clock.advance("30s")
    known = made(desk)
    again = order("a")

    assert by_first
    assert ids_of(first) == ids_of(again)
    assert known == made(desk)
    order("b")
    assert known < made(desk)


MAKE_IDS = {"enqueue_run", "enqueue_runs", "create_backfill", "rerun_run", "silence_alerts",
            "trigger_schedule", "verify_run"}  # fmt: skip
"""Orders whose ids come from their key: given again they find what they made."""
MAKE_THE_ONE = {"rerun_selection", "resume_from_backfill"}
"""Orders that make what there can be one of: its id comes from what they are about."""
SET_A_STATE = {
    "acknowledge_alert", "allow_reruns", "allow_retries", "block_reruns", "cancel_backfill", "cancel_delayed",
    "cancel_run", "cancel_selection", "create_schedule", "create_schedule_selection", "create_selection", "delete_schedule",
    "discard_run", "discard_selection", "drain_worker", "edit_schedule", "mark_owner_back", "mark_owner_gone", "pause_backfill",
    "pause_queue", "pause_schedule", "pause_schedule_selection", "quarantine_worker", "release_worker", "reset_breaker",
    "restore_schedule", "resume_backfill", "resume_queue", "resume_schedule", "resume_schedule_selection", "revoke_token",
    "skip_run", "skip_selection", "suspend_retries", "throttle_backfill",
}  # fmt: skip
"""Orders after which something is as they say, however often they are given."""


def test_every_order_under_a_key_is_known_to_do_no_more_when_given_again():
    """By its ids, by what it sets, or because a server's death ends it."""
    once_only = {route.operation_id for route in ROUTES if route.is_once_only}
    under_a_key = {route.operation_id for route in ROUTES if route.is_idempotent}

    assert under_a_key == MAKE_IDS | MAKE_THE_ONE | SET_A_STATE | once_only
    assert not once_only & (MAKE_IDS | SET_A_STATE)


def made(desk: Desk) -> set[Any]:
    """Return what there is: runs, delayed runs and backfills."""
    app = desk.app
    found: list[Any] = [*app.runs.list(), *app.delayed.list(), *app.backfills.list()]
    return {one.id for one in found}


def ids_of(answer: Any) -> list[Any]:
    return [one.id for one in getattr(answer, "items", [answer])]
