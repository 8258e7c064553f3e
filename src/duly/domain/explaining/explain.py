"""Finds who explains a run, by the place that it is in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.explaining import closed_runs, limited_runs, open_runs
from duly.domain.literals import RunState

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.explaining.facts import Explanation, RunFacts


def explain(facts: RunFacts) -> Explanation:
    """Say why a run is late, stuck, waiting or dead; or that it is on time. Total."""
    if facts.is_pending:
        return open_runs.unfired(facts, facts.run.not_before, "It")
    return _BY_STATE.get(facts.run.state, closed_runs.over)(facts)


_BY_STATE: dict[RunState, Callable[[RunFacts], Explanation]] = {
    RunState.BLOCKED: limited_runs.blocked,
    RunState.QUEUED: open_runs.queued,
    RunState.RUNNING: open_runs.running,
    RunState.RETRYING: open_runs.retrying,
    RunState.DEAD: open_runs.dead,
    RunState.AMBIGUOUS: open_runs.ambiguous,
    RunState.CANCELLED: closed_runs.ended_by_somebody,
    RunState.DISCARDED: closed_runs.ended_by_somebody,
    RunState.SKIPPED: closed_runs.ended_by_somebody,
    RunState.FAILED: closed_runs.failed,
    RunState.SUCCEEDED: closed_runs.succeeded,
}
