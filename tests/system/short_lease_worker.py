"""`duly worker` with a short lease, so that many run out in a campaign; nothing else differs.

python -m tests.system.short_lease_worker worker --app tasks:app …
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.app import running
from duly.app.worker_options import WorkerOptions
from duly.cli.main import main
from duly.clock import SystemClock
from duly.engine.supervisor import Supervisor, SupervisorSettings

if TYPE_CHECKING:
    from duly.app.running import Voice
    from duly.engine.worker import WorkerSettings
    from duly.store.wakeups import LocalWakeups

SECOND_US = 1_000_000
LEASE_SECONDS = 8.0
"""Ten beats fit in: a machine that stands still for a moment costs nobody his lease."""
PROGRAM = "tests.system.short_lease_worker"
_settings = WorkerOptions.settings


def brisk_settings(options: WorkerOptions) -> WorkerSettings:
    """Return what a person said, and a short lease."""
    return replace(
        _settings(options),
        ttl_us=int(LEASE_SECONDS * SECOND_US),
        beat_every_us=SECOND_US * 8 // 10,
        lease_margin_us=SECOND_US // 2,
        cancel_grace_us=SECOND_US,
    )


def brisk_supervisor(crew: running.Crew, wakeups: LocalWakeups, voice: Voice) -> Supervisor:
    """Return who keeps workers of this kind going, and does not wait long with those that crash."""
    python, flag, _, *words = crew.argv
    return Supervisor(
        (python, flag, PROGRAM, *words),
        SystemClock(),
        wakeups,
        SupervisorSettings(processes=crew.processes, healthy_us=2 * SECOND_US),
        telemetry=voice.telemetry,
        env=crew.env,
    )


if __name__ == "__main__":
    WorkerOptions.settings = brisk_settings  # type: ignore[assignment, method-assign]
    running.Crew.supervisor = brisk_supervisor  # type: ignore[assignment, method-assign]
    main()
