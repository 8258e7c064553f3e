"""Workers that are born quickly: a program that has loaded everything, and is copied for each.

    python -m tests.system.effects_worker      # takes a line of JSON for each, answers its process

So hundreds can be killed in a minute. Each is `duly worker --no-supervisor` with a short lease, and
comes to harm where its runs say so; nothing else differs. A line that is "kill" ends all of them.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, NoReturn

from duly.app.services import WorkerOptions
from duly.cli import services as _for_all  # noqa: F401 - loaded before anybody is born
from duly.cli.main import main as duly_main
from duly.domain.effects import Grant
from duly.store.postgres.store import PostgresStore
from duly.store.sqlite.store import SqliteStore
from tests.forked_commands import die_with
from tests.system.effects_harm import ANSWERED, ASKING, FINISHED, FINISHING, PLANS

if TYPE_CHECKING:
    from duly.engine.worker import WorkerSettings

SECOND_US = 1_000_000
LEASE_US = 2 * SECOND_US
APP = "tests.system.effects_tasks:app"
"""Loaded by each worker itself: it is then that an application learns where its store is."""
_settings = WorkerOptions.settings


def short_lived(options: WorkerOptions) -> WorkerSettings:
    """Return what a person said, and a lease that is over soon."""
    return replace(
        _settings(options),
        ttl_us=LEASE_US,
        beat_every_us=LEASE_US // 5,
        lease_margin_us=LEASE_US // 8,
        cancel_grace_us=SECOND_US // 2,
    )


def come_to_harm(store: Any) -> None:
    """Let calls of a store be the phases that they are in."""
    claim_runs, finish_runs = store.claim_runs, store.finish_runs
    finish_and_claim, begin_effect = store.finish_and_claim, store.begin_effect

    @wraps(claim_runs)
    def claiming(self: Any, command: Any) -> Any:
        if isinstance(self, SqliteStore):
            PLANS.lock = self._connections._lock  # noqa: SLF001 - what no user of a store needs
        PLANS.reach_claim()
        claimed = claim_runs(self, command)
        PLANS.learn(claimed.runs)
        return claimed

    @wraps(finish_runs)
    def finishing(self: Any, worker: Any, finishes: Any) -> Any:
        PLANS.reach_all(FINISHING, finishes)
        finished = finish_runs(self, worker, finishes)
        PLANS.reach_all(FINISHED, finishes)
        return finished

    @wraps(finish_and_claim)
    def both(self: Any, finishes: Any, claim: Any) -> Any:
        PLANS.reach_all(FINISHING, finishes)
        finished, claimed = finish_and_claim(self, finishes, claim)
        PLANS.reach_all(FINISHED, finishes)
        PLANS.learn(claimed.runs)
        return finished, claimed

    @wraps(begin_effect)
    def beginning(self: Any, command: Any) -> Any:
        PLANS.reach(ASKING, command.hold)
        begun = begin_effect(self, command)
        if begun.grant is Grant.GRANTED:
            PLANS.reach(ANSWERED, command.hold)
        return begun

    store.claim_runs, store.finish_runs = claiming, finishing
    store.finish_and_claim, store.begin_effect = both, beginning


def live(born: dict[str, str], parent: int) -> NoReturn:
    """Be a worker, to the end."""
    die_with(parent)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(born["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for here, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(here, place)
    WorkerOptions.settings = short_lived  # type: ignore[assignment, method-assign]
    for store in (SqliteStore, PostgresStore):
        come_to_harm(store)
    words = ["worker", "--json", "--log-runs", "--no-supervisor", "--grace=0s", f"--app={APP}"]
    duly_main([*words, f"--slots={born['slots']}", f"--url={born['url']}"])


def main() -> None:
    """Bring forth a worker for each line, and bury none: nobody waits for them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    parent = os.getpid()
    for line in sys.stdin:
        process = os.fork()
        if process == 0:
            live(json.loads(line), parent)
        sys.stdout.write(f"{process}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
