"""What happens between the commands of the tour: processes are started, looked at, and killed."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

from duly.app import App
from duly.cli.tour_fleet import Fleet, wait_until
from duly.client.run_view import Run
from duly.demo.member import LEASE_SECONDS
from duly.domain.literals import Lane
from duly.domain.schedules import TENANT_DEFAULT
from duly.store.dispatch import LeaseKey

Tell: TypeAlias = Callable[[str], None]

SCHEDULE = "tick"
IMPORT = "import"
RUNS_BEFORE = 2
RUNS_AFTER = 6
PAGES_BEFORE = 3


def open_shop(fleet: Fleet, tell: Tell) -> None:
    """Start a fleet, and wait until it works."""
    dispatchers, workers = _started(fleet, "dispatcher"), _started(fleet, "worker")
    tell(f"Two processes of duly dispatcher are started: {dispatchers}.")
    tell(f"And two of duly worker: {workers}.")
    wait_until(lambda: _runs_made("succeeded") >= RUNS_BEFORE, "waiting for the first runs")


def kill_a_dispatcher(fleet: Fleet, tell: Tell) -> None:
    """Kill the dispatcher that fires the tour's schedule, and wait for the other to go on."""
    wait_until(lambda: _owner() != 0, "looking for whoever owns it")
    victim = _owner()
    before = _runs_made()
    fleet.kill(victim)
    tell(
        f"kill -9 {victim}, the dispatcher that owned it. When its lease of 5 s has run out, the"
        " other one takes over, and makes up for what fell due meanwhile."
    )
    wanted = before + RUNS_AFTER
    wait_until(lambda: _runs_made("succeeded") >= wanted, "waiting for the other one")


def kill_a_worker(fleet: Fleet, tell: Tell) -> None:
    """Kill the worker that imports pages, and wait for the other to go on from the checkpoint."""
    wait_until(lambda: _pages_done() >= PAGES_BEFORE, "pages are being imported")
    run = _import()
    victim = _process_of(None if run is None else run.worker)
    fleet.kill(victim)
    tell(
        f"kill -9 {victim}, the worker that was in the middle of it. When its lease has run out"
        f" ({LEASE_SECONDS} s here, usually 15 s), the other one goes on after the last checkpoint."
    )
    wait_until(_is_over, "waiting for the other one to go on and finish")


def _started(fleet: Fleet, kind: str) -> str:
    first, second = fleet.start(kind), fleet.start(kind)
    return f"{first} and {second}"


def _owner() -> int:
    """Return the process that owns the shard of the tour's schedule; 0 if none does."""
    with App(os.environ["DULY_URL"]) as here:
        seen, status = here.store.find_schedule(TENANT_DEFAULT, SCHEDULE), here.store.status()
    shard = -1 if seen is None else seen.record.shard
    owners = [one.owner for one in status.leases if one.key == LeaseKey(shard, Lane.LIVE)]
    return _process_of(owners[0] if owners else None)


def _process_of(member: int | None) -> int:
    """Return the process of a member of the fleet; 0 if there is none."""
    with App(os.environ["DULY_URL"]) as here:
        members = here.store.status().members
    return next((one.process for one in members if one.id == member), 0)


def _runs_made(state: str | None = None) -> int:
    """Count the runs of the tour's schedule."""
    with App(os.environ["DULY_URL"]) as here:
        return len(here.runs.list(schedule=SCHEDULE, state=state, limit=1000))


def _import() -> Run | None:
    with App(os.environ["DULY_URL"]) as here:
        return next(iter(here.runs.list(key=IMPORT, limit=1)), None)


def _pages_done() -> int:
    run = _import()
    return 0 if run is None or run.last_progress is None else run.last_progress.done


def _is_over() -> bool:
    run = _import()
    return run is not None and run.is_over
