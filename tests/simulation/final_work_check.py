"""The reckoning of work: when all is quiet, every run and attempt is as ledger and observer say."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from duly.domain.enums import AttemptState, RunState
from tests.simulation.final_check import PATIENCE_US
from tests.simulation.scripts import scripted_tasks
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.domain.runs import RunRecord
    from tests.simulation.work_checker import WorkChecker
    from tests.simulation.work_ledger import RunNote
    from tests.simulation.world import World

CLAIM_OLD_US = 25_000_000
"""No claim is older than this when everybody behaves: no time-out lasts as long."""
GATE_OLD_US = 15_000_000
"""Whoever tends the store opens a gate that somebody else left closed, and does so more often."""
BEFORE_WORK = frozenset((RunState.QUEUED, RunState.CANCELLED, RunState.REPLACED))


def reckon_work(work: WorkChecker, runs: list[RunRecord], world: World) -> None:
    """Compare runs, attempts and checkpoints with what was told and what was seen."""
    now = world.store.now()
    tasks = scripted_tasks(world.recipe)
    known = {run.id for run in runs}
    if any(note.id not in known for note in work.runs.values() if note.fence):
        raise Violation("INV-2: a run that was claimed is not there")
    for run in runs:
        note = work.runs.get(run.id)
        if note is None:
            if run.state not in BEFORE_WORK:
                raise Violation(f"INV-6: a run that nobody touched is {run.state}")
        else:
            _reckon_run(note, run)
        # What nobody has the code of is put off again and again; a backlog of it may be long.
        if world.recipe.workers and run.call.task in tasks:
            _reckon_liveness(work, note, run, now)
        if note is not None and note.fence:
            _reckon_attempts(work, note, world.store)
    _reckon_budgets(work)
    if work.gates is not None:
        work.gates.reckon(now, GATE_OLD_US)


def _reckon_run(note: RunNote, run: RunRecord) -> None:
    if run.state is not note.state:
        raise Violation(f"INV-6: a run that is {note.state} is kept as {run.state}")
    tries = (run.tries.fence, run.tries.attempt, run.tries.charged)
    if tries != (note.fence, note.attempt, note.charged):
        raise Violation(f"INV-7: a run has other numbers than were told: {tries}")
    if run.state is RunState.RETRYING and run.next_at != note.due_at:
        raise Violation("INV-1: a run waits for another moment than was decided")
    if run.state is RunState.DEAD and run.state_reason is None:
        raise Violation("INV-2: a run is dead without a cause")


def _reckon_liveness(work: WorkChecker, note: RunNote | None, run: RunRecord, now: int) -> None:
    """Nothing waits for nobody: what is due was taken up, what was taken up has ended (INV-26)."""
    if run.state is RunState.RETRYING and (run.next_at or 0) < now - PATIENCE_US:
        raise Violation("INV-26: a retry is overdue after the quiet")
    if run.state is RunState.RUNNING:
        assert note is not None
        if note.claimed_at < now - CLAIM_OLD_US:
            raise Violation("INV-26: a claim is held for too long after the quiet")
    if run.state is RunState.QUEUED and run.call.queue not in work.paused:
        queued_at = max(run.fired_at or 0, 0 if note is None else note.queued_at)
        if queued_at < now - PATIENCE_US:
            late = (now - queued_at) / 1_000_000
            raise Violation(f"INV-26: a run is queued for {late:.1f} s after the quiet")


def _reckon_attempts(work: WorkChecker, note: RunNote, store: Any) -> None:
    """Every start that was seen has its one record, and numbers have no holes (INV-7)."""
    records = {one.fence: one for one in store.list_attempts(note.id)}
    if sorted(records) != sorted(note.orders):
        raise Violation(f"INV-7: claims {sorted(note.orders)} are recorded as {sorted(records)}")
    numbers = [records[fence].number for fence in sorted(records)]
    started = [number for number in numbers if number is not None]
    if started != list(range(1, len(started) + 1)):
        raise Violation(f"INV-7: attempts have the numbers {numbers}")
    for fence, record in records.items():
        seen = work.observer.executions.get((note.id, fence))
        if seen is not None and seen.number != record.number:
            raise Violation(f"INV-7: an attempt was {seen.number}, and is kept as {record.number}")
        if fence in note.ended and record.state is not note.ended[fence][1]:
            raise Violation(f"INV-6: an attempt that was {note.ended[fence][1]} is {record.state}")
        if fence in note.late and record.late is None:
            raise Violation("INV-5: a word that came too late was not kept")
    if note.checkpoints and store.get_checkpoints(note.id) != note.checkpoints:
        raise Violation("INV-5: checkpoints are others than were accepted")


def _reckon_budgets(work: WorkChecker) -> None:
    """Counted blindly: code was not begun more often than the budget allows (INV-10)."""
    begun: Counter[tuple[RunId, int]] = Counter()
    for run_id, fence in work.observer.executions:
        note = work.runs[run_id]
        is_free = note.ended.get(fence, (0, None))[1] is AttemptState.GIVEN_BACK
        if not is_free:
            begun[run_id, note.orders[fence]] += 1
    for (run_id, _), count in begun.items():
        most = work.policy(work.runs[run_id].task).retry.attempts
        if count > most:
            raise Violation(f"INV-10: code was begun {count} times, at most {most} are allowed")
