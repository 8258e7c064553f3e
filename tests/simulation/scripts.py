"""Scripts: the tasks of a world, what their policies say, and what each of their attempts does.

An attempt's script is drawn from its run and its number, so that it does not depend on who executes
it, nor on what else happens. When the world is calm all of them behave.
"""

from __future__ import annotations

import random
from asyncio import CancelledError
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from duly.domain.enums import Effects, TaskKind
from duly.domain.limits import Limit, Rate
from duly.domain.outcomes import GiveUp, Snooze, TryAgain
from duly.domain.policies import Retry
from duly.domain.runs import Progress, TaskPolicy
from duly.domain.tasks import NO_LIMITS, TaskLimits
from duly.domain.verification import check_name
from duly.errors import Cancelled
from tests.simulation.recipe import SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly.domain.tasks import RunContext
    from duly.store.ports.execution import ClaimedRun
    from tests.simulation.recipe import Recipe
    from tests.simulation.task_threads import Strand

DESTINATIONS = ("bank", "post")
CHECKED_SHARE = 0.4
TASKS = ("task1", "task2", "task3")
QUEUES = ("default", "mail", "reports")
KINDS = (TaskKind.ASYNC, TaskKind.THREAD, TaskKind.PROCESS)
FOREVER_US = 100_000 * SECOND
DEEDS = (
    ("succeed", 40),
    ("fail", 16),
    ("steps", 12),
    ("snooze", 6),
    ("again", 6),
    ("long", 6),
    ("give-up", 3),
    ("stall", 3),
    ("deaf", 3),
    ("never", 3),
    ("poison", 2),
)
LENGTHS_US = (0, 1000, 20_000, 300_000, SECOND, 3 * SECOND)
WAITS_US = (0, 100_000, SECOND, 4 * SECOND)


class Broken(Exception):  # noqa: N818 - what a task of a world raises
    """What a task raises that fails."""


@dataclass(frozen=True, slots=True)
class Script:
    """What one attempt does, and how long it takes."""

    deed: str
    length_us: int
    wait_us: int
    """How long it asks to wait, where it asks for that."""


@dataclass(frozen=True, slots=True)
class ScriptedTask:
    """A task as a worker knows it."""

    name: str
    kind: TaskKind
    policy: TaskPolicy
    plan: Any = None
    limits: TaskLimits = NO_LIMITS

    def prepare(self, claimed: ClaimedRun, live: RunContext) -> Callable[[], Any]:
        """Never called: a script is played instead."""
        raise AssertionError(claimed, live)


@dataclass(frozen=True, slots=True)
class ScriptedCatalogue:
    """The tasks that one worker has."""

    tasks: dict[str, ScriptedTask]

    def find(self, name: str) -> ScriptedTask | None:
        """Return a task by its name."""
        return self.tasks.get(name)

    def names(self) -> list[str]:
        """Return all names, sorted."""
        return sorted(self.tasks)


def scripted_tasks(recipe: Recipe) -> dict[str, ScriptedTask]:
    """Draw the tasks of a world; sometimes nobody has the code of one."""
    draws = recipe.stream("tasks")
    tasks = {name: ScriptedTask(name, draws.choice(KINDS), _policy(draws)) for name in TASKS}
    if draws.random() < 0.15:
        del tasks["task3"]
    if recipe.has_limits:
        said = recipe.stream("limits")
        return {name: replace(task, limits=_limits(name, said)) for name, task in tasks.items()}
    if recipe.has_effects:
        classes = recipe.stream("effects")
        tasks = {name: _with_class(task, classes) for name, task in tasks.items()}
        checked = [task for task in tasks.values() if task.policy.is_checked]
        return tasks | {(check := _check_of(task)).name: check for task in checked}
    return tasks


def _with_class(task: ScriptedTask, draws: random.Random) -> ScriptedTask:
    effects = draws.choice(
        (Effects.UNSAFE, Effects.UNSAFE, Effects.IDEMPOTENT, Effects.TRANSACTIONAL)
    )
    if effects is Effects.TRANSACTIONAL and task.kind is TaskKind.PROCESS:
        effects = Effects.IDEMPOTENT  # a process of its own can't commit with the store
    # Nobody is permitted anything in the last second of his time.
    timeout_us = max(task.policy.timeout_us or 0, 3 * SECOND)
    policy = replace(
        task.policy,
        effects=effects,
        timeout_us=timeout_us,
        is_checked=effects is Effects.UNSAFE and draws.random() < CHECKED_SHARE,
    )
    return replace(task, policy=policy)


def _check_of(task: ScriptedTask) -> ScriptedTask:
    policy = replace(task.policy, effects=Effects.PURE, is_checked=False, stall_us=None)
    return ScriptedTask(check_name(task.name), TaskKind.THREAD, policy)


def _limits(name: str, draws: random.Random) -> TaskLimits:
    """Draw what a task's code says: whom it calls, how many at once, how many in a while."""
    destination = draws.choice((*DESTINATIONS, None))
    if name == TASKS[0] and draws.random() < 0.7:
        # Nothing else in the way of its calls: enough of them fail together.
        return TaskLimits(destination=DESTINATIONS[0])
    return TaskLimits(
        limit=Limit(
            running=draws.choice((None, None, 1, 3)),
            rate=draws.choice((None, None, Rate(30, 60 * SECOND, 2), Rate(5, SECOND, 3))),
            running_by=draws.choice(((), (("n", 1),), (("n", 2),))),
        ),
        destination=DESTINATIONS[0] if name == TASKS[0] else destination,
    )


def _policy(draws: random.Random) -> TaskPolicy:
    retry = Retry(
        draws.randint(1, 4),
        base=draws.choice(("100ms", "1s", "3s")),
        cap="6s",
        per_minute=draws.choice((None, None, None, 600)),
    )
    return TaskPolicy(
        retry=retry,
        timeout_us=draws.choice((SECOND, 3 * SECOND, 8 * SECOND)),
        run_timeout_us=draws.choice((None, None, 10 * SECOND, 40 * SECOND)),
        stall_us=draws.choice((None, None, 2 * SECOND)),
    )


def script_of(recipe: Recipe, claimed: ClaimedRun) -> Script:
    """Draw what an attempt does."""
    run, number = claimed.record.id, claimed.tries.attempt
    whole_run = random.Random(f"{recipe.seed}/{run.hex()}")
    failures = whole_run.choice((0, 0, 0, 1, 2, 6))
    draws = random.Random(f"{recipe.seed}/{run.hex()}/{number}")
    names, weights = zip(*DEEDS, strict=True)
    deed = draws.choices(names, weights)[0]
    if number <= failures:
        deed = "fail"
    elif number > 8:
        deed = "succeed"
    return Script(deed, draws.choice(LENGTHS_US), draws.choice(WAITS_US))


CALM = Script("succeed", 500, 0)


def play(strand: Strand, live: RunContext, script: Script) -> object:
    """Do what the script says; return or raise as a task's code would."""
    match script.deed:
        case "steps":
            return _advance(strand, live, script)
        case "long" | "stall":
            return _look_now_and_then(strand, live)
        case "deaf":
            return _sleep_deaf(strand, 12 * SECOND)
        case "never":
            return _sleep_deaf(strand, FOREVER_US)
        case "poison":
            _crash(strand)
            return _sleep_deaf(strand, FOREVER_US)
        case _:
            strand.sleep(script.length_us)
            return _answer(script)


def _answer(script: Script) -> object:
    match script.deed:
        case "succeed":
            return {"n": script.length_us}
        case "fail":
            raise Broken
        case "snooze":
            return Snooze(script.wait_us)
        case "again":
            return TryAgain(script.wait_us, "not yet")
        case "give-up":
            return GiveUp("no use")
        case _:
            raise AssertionError(script.deed)


def _advance(strand: Strand, live: RunContext, script: Script) -> object:
    """Go on from the last checkpoint, step by step, and leave others behind."""
    done = int(live.saved("") or "0")
    for step in range(done, done + 4):
        if live.is_cancelled:
            raise Cancelled("simulated")
        strand.sleep(script.length_us)
        live.advance(Progress(step + 1, done + 4, None))
        live.write("info", f"step {step}")
        if step % 2:
            live.save("", str(step + 1))
    return None


def _look_now_and_then(strand: Strand, live: RunContext) -> object:
    for _ in range(20):
        strand.sleep(SECOND)
        if live.is_cancelled:
            raise Cancelled("simulated")
    return None


def _sleep_deaf(strand: Strand, length_us: int) -> object:
    until = strand.clock.monotonic_us() + length_us
    while strand.clock.monotonic_us() < until:
        try:
            strand.sleep(until - strand.clock.monotonic_us())
        except CancelledError:
            continue
    return None


def _crash(strand: Strand) -> None:
    """Take the whole process along; somebody starts another."""
    node = strand.node
    node.world.counts["workers killed by a task"] += 1
    node.world.after(0, node.kill)
    node.world.after(SECOND, node.start)
