"""`duly worker` with a chosen lease; on SIGUSR1 it stops itself before it reports its next ends.

python -m tests.system.worker_program SECONDS worker --app tasks:app …
"""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from duly.app import services
from duly.app.services import WorkerOptions
from duly.cli.main import main
from duly.clock import SystemClock
from duly.engine.supervisor import Supervisor, SupervisorSettings
from tests.system.stop_signal import stop_before

if TYPE_CHECKING:
    from duly.app.services import OutputListener
    from duly.engine.worker import WorkerSettings
    from duly.store.wakeups import LocalWakeups

SECOND_US = 1_000_000
LEASE_SECONDS = 8.0
"""Short, so that many leases expire in a campaign; ten beats fit in."""
PATIENT_SECONDS = 120.0
"""For a worker that must not lose its lease, however busy the machine is."""
PROGRAM = "tests.system.worker_program"
_settings = WorkerOptions.settings


def with_lease(options: WorkerOptions) -> WorkerSettings:
    """Return the settings of the command line with the chosen lease."""
    return replace(
        _settings(options),
        ttl_us=int(float(lease) * SECOND_US),
        beat_every_us=SECOND_US * 8 // 10,
        lease_margin_us=SECOND_US // 2,
        cancel_grace_us=SECOND_US,
    )


def brisk_supervisor(
    crew: services.Services, wakeups: LocalWakeups, voice: OutputListener
) -> Supervisor:
    """Return who keeps workers of this kind going, and does not wait long with those that crash."""
    python, flag, _, *words = crew.argv
    return Supervisor(
        (python, flag, PROGRAM, lease, *words),
        SystemClock(),
        wakeups,
        SupervisorSettings(processes=crew.processes, healthy_us=2 * SECOND_US),
        telemetry=voice.telemetry,
        env=crew.env,
    )


if __name__ == "__main__":
    lease = sys.argv.pop(1)
    WorkerOptions.settings = with_lease  # type: ignore[assignment, method-assign]
    services.Services.supervisor = brisk_supervisor  # type: ignore[assignment, method-assign]
    stop_before("finish_runs", "finish_and_claim")
    main()
