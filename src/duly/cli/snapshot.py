"""What a live view shows of a store at one moment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from duly.app import App
from duly.client.health import Health, judge_health
from duly.client.queues import Queue
from duly.client.run_view import Run
from duly.client.status_view import Status

RUNNING_SHOWN_MAX = 20
FAILED_SHOWN_MAX = 8
FAILED_STATES = ("dead", "failed", "retrying")


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """The fleet, the queues, what is running and what has failed."""

    status: Status
    health: Health
    queues: Sequence[Queue]
    running: Sequence[Run]
    """The newest of them."""
    failed: Sequence[Run]
    """Those that went wrong last: dead, failed, or waiting to be tried again."""

    def heartbeat_age(self, run: Run) -> timedelta | None:
        """Return how long ago a run's worker was heard of."""
        for member in self.status.members:
            if member.id == run.worker:
                return self.status.now - member.renewed_at
        return None

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return {
            **self.health.to_json(),
            "status": self.status.to_json(),
            "queues": [one.to_json() for one in self.queues],
            "running": [one.to_json() for one in self.running],
            "failed": [one.to_json() for one in self.failed],
        }


def take_snapshot(app: App) -> Snapshot:
    """Look at everything once."""
    status, queues = app.status(), app.queues.list()
    running = app.runs.list(state="running", limit=RUNNING_SHOWN_MAX) if status.running else []
    return Snapshot(
        status=status,
        health=judge_health(status, queues, app.breakers.list()),
        queues=queues,
        running=running,
        failed=app.runs.list(state=list(FAILED_STATES), limit=FAILED_SHOWN_MAX),
    )
