"""Harm that a run brings along: its worker is killed or stopped exactly at a phase of an attempt.

A run carries its harms as an argument, one for each of its first attempts, such as
`["kill@permitted", "stop@before"]`. The phases of its code are reached by the code, those of the
worker around it by the calls of the store. It is written down before it is done.
"""

from __future__ import annotations

import json
import signal
import threading
from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING
from uuid import UUID

from tests.system.work_evidence import WorkLedger

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from duly.store.ports.execution import ClaimedRun, ClaimRef, FinishAttempt

KILL, STOP = "kill", "stop"
SIGNALS = {KILL: signal.SIGKILL, STOP: signal.SIGSTOP}
Who = tuple[UUID, int, int]
"""A run, its attempt, and its fence."""

# Around the code, at calls of the store.
CLAIMING, CLAIMED = "claiming", "claimed"
ASKING, ANSWERED = "asking", "answered"
FINISHING, FINISHED = "finishing", "finished"
# In the code.
BEFORE, PERMITTED, INSIDE, HAPPENED, RECORDED = (
    "before",
    "permitted",
    "inside",
    "happened",
    "recorded",
)
WITHIN, COMMITTED = "within", "committed"


@cache
def ledger() -> WorkLedger:
    """Return this process's own way to the ledger."""
    return WorkLedger()


def reach(phase: str, harms: Sequence[str], who: Who) -> None:
    """Come to a phase of an attempt, and no further if that is what the run is for."""
    attempt = who[1]
    wanted = harms[attempt - 1] if 1 <= attempt <= len(harms) else ""
    kind, _, where = wanted.partition("@")
    if where == phase:
        strike(kind, phase, who)


def strike(kind: str, phase: str, who: Who) -> None:
    """End or stop this process, here and now."""
    with PLANS.lock if kind == STOP else nullcontext():
        ledger().write(kind, who, phase)
        # To this very thread: another one would be told a moment later, and this one go on.
        signal.pthread_kill(threading.get_ident(), SIGNALS[kind])


class Plans:
    """What a worker's claims bring along."""

    def __init__(self) -> None:
        self._plans: dict[ClaimRef, tuple[Sequence[str], Who]] = {}
        self._next_claim: Who | None = None
        self._kind = KILL
        self.lock: AbstractContextManager[object] = nullcontext()
        """Held while the process is stopped: none of its threads may have the lock of a whole file
        then, or nobody else could go on, nor say that it is dead."""

    def learn(self, claimed: Sequence[ClaimedRun]) -> None:
        """Read what newly claimed runs bring along; some are for this very moment."""
        for one in claimed:
            harms = json.loads(one.arguments).get("harms", [])
            who = (UUID(bytes=one.run_id), one.tries.attempt, one.fence)
            self._plans[one.hold] = (harms, who)
        for one in claimed:
            self.reach(CLAIMED, one.hold)

    def reach(self, phase: str, hold: ClaimRef) -> None:
        """Come to a phase of one claim."""
        plan = self._plans.get(hold)
        if plan is not None:
            reach(phase, *plan)

    def reach_all(self, phase: str, finishes: Sequence[FinishAttempt]) -> None:
        """Come to a phase of several claims at once."""
        for one in finishes:
            self.reach(phase, one.hold)

    def note_next(self, harms: Sequence[str], who: Who) -> None:
        """Remember, at the end of a run, that the next claim is not to be made."""
        wanted = harms[who[1] - 1] if 1 <= who[1] <= len(harms) else ""
        kind, _, where = wanted.partition("@")
        if where == CLAIMING:
            self._next_claim, self._kind = who, kind

    def reach_claim(self) -> None:
        """Come to a claim."""
        who, self._next_claim = self._next_claim, None
        if who is not None:
            strike(self._kind, CLAIMING, who)


PLANS = Plans()
"""Of this process; a worker has one, as it has one life."""
