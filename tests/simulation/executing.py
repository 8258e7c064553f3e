"""Executing: plays scripts on strands of a worker's node, and notes what was seen to happen.

The observer stands outside the store: it knows which code began under which fence and when it was
over, whatever any process believes or manages to tell.
"""

from __future__ import annotations

from asyncio import CancelledError
from dataclasses import dataclass
from typing import TYPE_CHECKING

from duly.domain.enums import TaskKind
from duly.domain.outcomes import Failed, GiveUp, Snooze, TryAgain
from duly.domain.runs import Reason
from duly.domain.verification import CHECK_SUFFIX
from duly.engine.executors.results import end_of_error, end_of_value
from tests.simulation.effecting import Outside, check_outside, take_effect
from tests.simulation.limiting import call_out, limited_script
from tests.simulation.scripts import CALM, play, script_of
from tests.simulation.task_threads import Strand
from tests.simulation.world import Violation

if TYPE_CHECKING:
    from duly.domain.ids import RunId
    from duly.engine.executors.executor import AttemptWork
    from duly.engine.worker import WorkerSettings
    from duly.store.ports.execution import ClaimedRun
    from tests.simulation.limit_checker import LimitChecker
    from tests.simulation.nodes import Node
    from tests.simulation.scripts import Script
    from tests.simulation.world import World


@dataclass(eq=False, slots=True)
class Execution:
    """Code that was seen to begin: of which run, under which fence, and what it said in the end."""

    run_id: RunId
    fence: int
    number: int
    deed: str
    began_at: int
    """In true time, as is the end."""
    ended_at: int | None = None
    word: str | None = None
    """What it said: a result, an error, or what it asks for; None if it never came to that."""
    wait_us: int | None = None
    """How long it asked to wait."""
    is_given_up: bool = False
    """Whether its worker has settled it while it went on: what it said then, nobody heard."""


class Observer:
    """Writes down every start and every end."""

    def __init__(self, world: World) -> None:
        self.executions: dict[tuple[RunId, int], Execution] = {}
        self.outside = Outside(world)
        self.limits: LimitChecker | None = None
        """Who is told of every start, in a world that has limits."""
        self._world = world
        self._running: dict[RunId, list[Execution]] = {}

    def begin(self, claimed: ClaimedRun, script: Script) -> Execution:
        """Note that code begins."""
        run_id, tries = claimed.record.id, claimed.tries
        key = (run_id, tries.fence)
        if key in self.executions:
            raise Violation("INV-4: one claim was executed twice")
        began_at = self._world.true_at
        if self.limits is not None:
            self.limits.begin(claimed)
        seen = Execution(run_id, tries.fence, tries.attempt, script.deed, began_at)
        self.executions[key] = seen
        others = self._running.setdefault(run_id, [])
        self._world.counts["starts"] += 1
        self._world.counts["overlaps of execution"] += bool(others)
        others.append(seen)
        return seen

    def give_up(self, claimed: ClaimedRun) -> None:
        """Note that nobody waits any more for the end of code that has begun."""
        seen = self.executions.get((claimed.run_id, claimed.fence))
        if seen is not None:
            seen.is_given_up = True

    def end(self, seen: Execution) -> None:
        """Note that code is over."""
        seen.ended_at = self._world.true_at
        self._running[seen.run_id].remove(seen)


class ScriptedExecutor:
    """Runs work of one kind: what can be cancelled, what can't be stopped, what can be killed."""

    def __init__(
        self, node: Node, kind: TaskKind, observer: Observer, settings: WorkerSettings
    ) -> None:
        self._node = node
        self._settings = settings
        """They say how many the worker may execute, of all kinds together and of this one."""
        self._kind = kind
        self._observer = observer
        self._strands: dict[int, tuple[AttemptWork, Strand]] = {}

    def start(self, work: AttemptWork) -> None:
        """Begin."""
        is_full = len(self._node.strands) >= self._settings.slots_of(TaskKind)
        if is_full or len(self._strands) >= self._settings.slots_of((self._kind,)):
            # Said, and not raised: that would be the run's own end.
            self._node.world.broken = "R8: a worker runs more at a time than it has slots"
        strand = Strand(self._node, lambda strand: self._run(strand, work))
        self._strands[id(work)] = (work, strand)

    def _run(self, strand: Strand, work: AttemptWork) -> None:
        world = self._node.world
        draw = limited_script if world.recipe.has_limits else script_of
        script = CALM if world.weather.is_calm else draw(world.recipe, work.claimed)
        work.began()
        seen = self._observer.begin(work.claimed, script)
        try:
            try:
                if world.recipe.has_limits:
                    call_out(strand, work)
                value = self._act(strand, work, script)
            except Exception as error:  # noqa: BLE001 - whatever a task raises is its end
                seen.word = type(error).__name__
                end = end_of_error(error, work.runnable.policy, work.live)
            except CancelledError as error:
                seen.word = "cancelled"
                end = end_of_error(error, work.runnable.policy, work.live)
            else:
                _note_value(seen, value)
                end = end_of_value(value, work.live)
        finally:
            self._observer.end(seen)
            self._strands.pop(id(work), None)
        work.ended(end)

    def _act(self, strand: Strand, work: AttemptWork, script: Script) -> object:
        outside = self._observer.outside
        if work.runnable.name.endswith(CHECK_SUFFIX):
            check_outside(strand, work, outside)
            return None
        if self._node.world.recipe.has_effects:
            take_effect(strand, work, outside)
        return play(strand, work.live, script)

    def ask(self, work: AttemptWork) -> None:
        """Cancel what can be; a thread looks by itself."""
        _, strand = self._strands.get(id(work), (None, None))
        if strand is not None and self._kind is not TaskKind.THREAD:
            strand.interrupt(CancelledError())

    def insist(self, work: AttemptWork) -> bool:
        """Kill a process; nothing else can be made to stop."""
        _, strand = self._strands.get(id(work), (None, None))
        if strand is None or strand.is_over:
            return True
        if self._kind is not TaskKind.PROCESS:
            self._observer.give_up(work.claimed)
            return False
        self._kill(work, strand)
        return True

    def close(self) -> None:
        """End all processes; threads go on for as long as the worker's process does."""
        for work, strand in list(self._strands.values()):
            if self._kind is TaskKind.PROCESS and not strand.is_over:
                self._kill(work, strand)

    def _kill(self, work: AttemptWork, strand: Strand) -> None:
        strand.end()
        self._strands.pop(id(work), None)
        work.ended(Failed("killed", Reason.KILLED))


def _note_value(seen: Execution, value: object) -> None:
    match value:
        case Snooze(after_us=after_us):
            seen.word, seen.wait_us = "snoozed", after_us
        case TryAgain(after_us=after_us):
            seen.word, seen.wait_us = "again", after_us
        case GiveUp():
            seen.word = "gave up"
        case _:
            seen.word = "succeeded"
