"""One request for every operation: what its path names, what it says. A route without fails."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly.api.app import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly.api.route import Route
    from tests.client.tenant_walk import Things

SPAN = {"since": "2026-04-02T08:00Z", "until": "2026-04-02T11:00Z"}
NAMED: dict[str, tuple[str, ...]] = {
    "schedule": ("name", "schedule"),
    "run": ("queued", "running", "dead", "doubtful", "label"),
    "key_or_id": ("key", "delayed"),
    "backfill": ("backfill",),
    "selection": ("selection", "schedule_selection"),
    "token": ("token", "prefix"),
    "alert": ("alert",),
    "silence": ("silence",),
    "owner": ("owner",),
}
"""What a part of a path may be, by the names of a tenant's things."""
SHARED = {
    "queue": "default",
    "limit": "task:remind",
    "destination": "https://example.com",
    "scope": "owner:anna",
    "task": "remind",
    "worker": "1",
    "rule": "queue-age",
    "channel": "log",
}
"""What belongs to no tenant."""
BODIES: dict[str, Any] = {
    "create_schedule": {"name": "{name}", "task": "remind", "when": "1h"},
    "edit_schedule": {"version": 1, "jitter": "5m", "reason": "spread"},
    "preview_rule": {"when": "every weekday at 9", "tz": "Europe/Paris"},
    "move_delayed": {"delay": "2h"},
    "enqueue_run": {"task": "remind", "key": "{key}"},
    "enqueue_runs": {"calls": [{"task": "remind"}]},
    "edit_run": {"arguments": {"note": "other"}},
    "discard_run": {"reason": "of no use"},
    "reconcile_run": {"is_done": True, "reason": "looked", "despite_missing": True},
    "rerun_run": {"reason": "again"},
    "resume_run": {"reason": "go on"},
    "skip_run": {"reason": "enough"},
    "create_selection": {"state": ["dead"]},
    "rerun_selection": {"reason": "again"},
    "skip_selection": {"reason": "enough"},
    "create_schedule_selection": {"schedules": ["{name}"]},
    "pause_schedule_selection": {"reason": "holidays"},
    "resume_schedule_selection": {"reason": "over"},
    "create_backfill": {"schedule": "{name}", **SPAN},
    "plan_backfill": {"schedule": "{name}", **SPAN},
    "resume_from_backfill": {"reason": "go on"},
    "throttle_backfill": {"per_minute": 6},
    "set_limit": {"running": 3},
    "mark_owner_gone": {"reason": "left"},
    "set_quotas": {"schedules": 3},
    "block_reruns": {"reason": "broken"},
    "suspend_retries": {"reason": "broken"},
    "drain_worker": {"reason": "upgrade"},
    "quarantine_worker": {"reason": "smokes"},
    "create_token": {"name": "another"},
    "acknowledge_alert": {"reason": "on it"},
    "silence_alerts": {"reason": "deploy", "duration": "1h"},
    "set_alert_rule": {"threshold": 60},
    "set_alert_channel": {"kind": "log"},
    "begin_session": {"code": "none"},
}
QUERIES: dict[str, dict[str, str]] = {
    "preview_selection": {"order": "rerun"},
    "preview_schedule_selection": {"order": "pause"},
    "get_schedule_occurrences": {"start": SPAN["since"], "end": SPAN["until"]},
    "get_proof": {"schedule": "{name}", "day": "2026-04-02"},
    "list_missing": {"since": SPAN["since"]},
    "find_zones": {"search": "berlin"},
    "explain_rule": {"when": "15m"},
}
_PART = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Example:
    """A request."""

    route: Route
    path: str
    options: dict[str, Any]


def examples_of(route: Route, of: Things) -> Iterator[Example]:
    """Yield requests for an operation about a tenant's things: one for each way to name them."""
    options: dict[str, Any] = {}
    if route.body is not None:
        options["json"] = _filled(BODIES.get(route.operation_id, {}), of)
    if route.operation_id in QUERIES:
        options["params"] = _filled(QUERIES[route.operation_id], of)
    named = _PART.findall(route.path)
    ways = next((NAMED[name] for name in named if name in NAMED), ("",))
    for way in ways:
        path = route.path
        for name in named:
            value = str(getattr(of, way)) if name in NAMED else SHARED[name]
            path = path.replace(f"{{{name}}}", value.replace("/", "%2F"))
        yield Example(route, path, options)


def _filled(said: Any, of: Things) -> Any:
    """Put a tenant's things into what is said."""
    if isinstance(said, dict):
        return {key: _filled(value, of) for key, value in said.items()}
    if isinstance(said, list):
        return [_filled(one, of) for one in said]
    if isinstance(said, str) and (found := _PART.fullmatch(said)):
        return str(getattr(of, found[1]))
    return said


BY_OPERATION = {route.operation_id: route for route in ROUTES}
