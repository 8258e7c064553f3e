"""Workers of a campaign: real processes, some of them supervised, and what is done to them."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from duly.domain.ids import RunId
from tests.system import work_views
from tests.system.fleet import STOPPED, is_running, parent_of, state_of
from tests.system.work_evidence import (
    END,
    LEDGER_VARIABLE,
    START,
    Left,
    WorkEvidence,
    read_marks,
    read_told,
)
from tests.system.work_tasks import DEADLY, DEAF, POLICIES
from tests.system.worker_program import LEASE_SECONDS, PROGRAM
from tests.waiting import WaitedTooLongError, pause, wait_until

if TYPE_CHECKING:
    import random
    from pathlib import Path

    from tests.system.fleet import Fleet, Process

KILLED_WORKER = "kill -9 worker"
KILLED_SUPERVISOR = "kill -9 supervisor"
STOPPED_WORKER = "worker SIGSTOP past the lease"
TERMINATED_WORKER = "worker SIGTERM"
OF_WORKERS = frozenset({KILLED_WORKER, KILLED_SUPERVISOR, STOPPED_WORKER, TERMINATED_WORKER})
APP = "tests.system.work_tasks:app"
SLOTS = 10
GRACES = ("0s", "30s")
ALIVE_MIN = 2
TRIES_MAX = 200
TAIL_BYTES = 100_000
QUIET_SECONDS = 300.0
"""So long after everything is quiet, every run is over."""


@dataclass
class Post:
    """A place where a worker is kept: by a supervisor, or as a process of its own."""

    url: str
    is_supervised: bool
    process: Process


@dataclass
class Workforce:
    """Keeps workers at their posts, and does things to them."""

    fleet: Fleet
    draw: random.Random
    ways: list[str]
    """The URL by which the worker at each post reaches the store."""
    posts: list[Post] = field(default_factory=list)
    harmed: dict[int, list[int]] = field(default_factory=dict)
    """When something was done to a process, by its id."""
    left: list[Left] = field(default_factory=list)
    _stopped: set[int] = field(default_factory=set)

    def start(self) -> None:
        """Man every post, every other one with a supervisor, and wait until all have joined."""
        self.ledger.touch()
        os.environ[LEDGER_VARIABLE] = str(self.ledger)
        for place, url in enumerate(self.ways):
            is_supervised = place % 2 == 0
            self.posts.append(Post(url, is_supervised, self._new(url, is_supervised)))
        wait_until("all workers have joined", lambda: len(self.alive()) == len(self.posts))

    @property
    def ledger(self) -> Path:
        return self.fleet.folder / "work.ledger"

    def alive(self) -> dict[int, tuple[int, int]]:
        """Return the worker processes that are members: their member's id, and what they hold."""
        rows = self.fleet.ask(work_views.LIST_ALIVE, self.fleet.clock.now_us())
        return {
            process: (member, claims)
            for process, member, claims in rows
            if is_running(process) and self.post_of(process) is not None
        }

    def post_of(self, process: int) -> Post | None:
        """Return the post of one of our workers; nobody else's process is ever touched."""
        parent = parent_of(process)
        for post in self.posts:
            if (parent if post.is_supervised else process) == post.process.popen.pid:
                return post
        return None

    def kill_workers(self, count: int = 1) -> None:
        """Kill worker processes at any moment, rather busy ones; some may be gone just then."""
        for _ in range(TRIES_MAX):
            killed = [self._kill(process) for process in self._some(count)]
            if any(killed):
                return
        raise WaitedTooLongError("nobody could be killed")

    def _kill(self, process: int) -> bool:
        """Kill one and see to it that another takes its post; say whether it was still there."""
        post = self.post_of(process)
        is_killed = False
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
            self._harm(process, KILLED_WORKER)
            is_killed = True
        if post is not None and not post.is_supervised:
            self._replace(post)
        return is_killed

    def kill_supervisor(self) -> None:
        """Kill a supervisor: its worker must not outlive it, and hold on to its runs."""
        post = self.draw.choice([post for post in self.posts if post.is_supervised])
        children = [one for one in self.alive() if self.post_of(one) is post]
        for process in children:
            self.harmed.setdefault(process, []).append(self.fleet.clock.now_us())
        self.fleet.note(KILLED_SUPERVISOR, self.fleet.clock.now_us())
        self._replace(post)
        wait_until("it ends with its supervisor", lambda: not any(map(is_running, children)))

    def stop_workers(self, count: int = 2) -> None:
        """Stop workers for longer than their lease, kill another meanwhile, and let them go on.

        What they do and say then is done and said by somebody who no longer holds the run.
        """
        fleet, began = self.fleet, self.fleet.clock.now_us()
        members = dict(self._stop_one(is_executing=place == 0) for place in range(count))
        victims = list(members)
        self.kill_workers(self.draw.randrange(1, 4))
        for process in victims:
            wait_until("its lease is over", partial(self._is_over, members[process]))
        pause(self.draw.uniform(0.0, 0.5))
        going_on = [process for process in victims if is_running(process)]
        for process in going_on:
            os.kill(process, signal.SIGCONT)
            fleet.note(STOPPED_WORKER, began, fleet.clock.now_us())
        self._stopped.clear()
        for process in victims:
            wait_until("it works again", partial(self._is_back, process))
        if not going_on:
            self.stop_workers(count)  # a task of theirs had aborted all of them

    def stop_until_refused(self) -> None:
        """Stop a worker as it is about to report, until its lease is over: it reports too late.

        A task of its own may end a worker before it reports; then another one is stopped.
        """
        for _ in range(TRIES_MAX):
            process = self._stop_at_report()
            wait_until(
                "its report is refused, or a task has ended it",
                lambda: self._has_refused() or not is_running(process),  # noqa: B023 - called here
            )
            if self._has_refused():
                wait_until("it works again", partial(self._is_back, process))
                return
        raise WaitedTooLongError("tasks have ended all workers that had been stopped")

    def _stop_at_report(self) -> int:
        """Stop a worker before it reports, until its lease is over; return its process."""
        for _ in range(TRIES_MAX):
            process, began = self._some(1)[0], self.fleet.clock.now_us()
            member, _claims = self.alive().get(process, (0, 0))
            self._harm(process, None)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGUSR1)
            wait_until("it stops itself, or a task ends it", partial(_has_stopped, process))
            if state_of(process) == STOPPED:
                wait_until("its lease is over", partial(self._is_over, member))
                os.kill(process, signal.SIGCONT)
                self.fleet.note(STOPPED_WORKER, began, self.fleet.clock.now_us())
                return process
        raise WaitedTooLongError("tasks have ended all workers that were to be stopped")

    def _has_refused(self) -> bool:
        return bool(work_views.refused(self.fleet.eyes))

    def _stop_one(self, *, is_executing: bool) -> tuple[int, int]:
        """Stop a worker that holds a run, or executes one; return its process and member's id."""
        for _ in range(TRIES_MAX):
            process = self._some(1)[0]
            member = self.alive().get(process, (0, 0))[0]
            self._harm(process, None)
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGSTOP)
            # One that holds the lock of a whole file would stop everybody else, too.
            holds = self.alive().get(process, (0, 0)) > (member, 0)
            if is_executing:
                holds = holds and self._is_executing(process)
            if holds and self.fleet.is_writable():
                self._stopped.add(process)
                return process, member
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGCONT)
            pause(self.draw.uniform(0.02, 0.1))
        raise WaitedTooLongError("nobody could be stopped who held a run")

    def _is_executing(self, process: int) -> bool:
        """Say whether code is in the middle of its work that will have its say."""
        with self.ledger.open("rb") as ledger:
            ledger.seek(max(0, os.fstat(ledger.fileno()).st_size - TAIL_BYTES))
            marks = [json.loads(line) for line in ledger.read().split(b"\n")[1:-1]]
        ours = [one for one in marks if one["process"] == process]
        ended = {(one["run"], one["fence"]) for one in ours if one["kind"] == END}
        return any(
            one["said"] in DEAF and (one["run"], one["fence"]) not in ended
            for one in ours
            if one["kind"] == START
        )

    def terminate_worker(self) -> None:
        """Tell a worker to stop: it finishes or gives back what it has, and that costs nothing."""
        post = self.draw.choice(self.posts)
        at = self.fleet.clock.now_us()
        processes = [one for one in self.alive() if self.post_of(one) is post]
        self.fleet.note(TERMINATED_WORKER, at)
        status = post.process.terminate()
        # A task that kills its worker may do so just now, and then that is no good order.
        if status in (0, 1):
            self.left += [Left(process, at) for process in processes]
        self._replace(post)

    def finish(self) -> None:
        """Wait until every run is over, or ought to be; then end all workers in good order."""
        with suppress(AssertionError):
            wait_until("all is quiet", self._is_quiet, QUIET_SECONDS)
        for post in self.posts:
            post.process.terminate()

    def evidence(self, outages: list[tuple[int, int]]) -> WorkEvidence:
        """Gather everything."""
        eyes, records = self.fleet.eyes, work_views.attempts(self.fleet.eyes)
        marks, found = read_marks(self.ledger), work_views.fates(self.fleet.eyes)
        tasks = {fate.run: fate.task for fate in found}
        deadly = {
            mark.process for mark in marks if mark.kind == START and tasks.get(mark.run) == DEADLY
        }
        lines = [
            line
            for post_log in sorted(self.fleet.folder.glob("worker-*.log"))
            for line in post_log.read_text(encoding="utf-8", errors="replace").splitlines()
        ]
        return WorkEvidence(
            marks=marks,
            attempts=records,
            fates=found,
            budgets={task: retry.attempts for task, retry in POLICIES.items()},
            waits=_waits({one.run for one in records if one.fence > 1}, tasks),
            told=read_told(lines),
            left=[one for one in self.left if one.process not in deadly],
            evictions=work_views.evictions(eyes),
            harmed=set(self.harmed) | deadly,
            outages=outages,
            refused=work_views.refused(eyes),
            findings=self.fleet.check(),
        )

    def _new(self, url: str, is_supervised: bool) -> Process:
        words = [PROGRAM, str(LEASE_SECONDS), "worker", "--json", "--log-runs", "--app", APP]
        options = [f"--slots={SLOTS}", f"--grace={self.draw.choice(GRACES)}", f"--url={url}"]
        alone = [] if is_supervised else ["--no-supervisor"]
        return self.fleet.start([*words, *options, *alone], "worker")

    def _replace(self, post: Post) -> None:
        """Start another one in its place; whatever is left of the old one is killed."""
        post.process.kill()
        post.process = self._new(post.url, post.is_supervised)

    def _some(self, count: int) -> list[int]:
        """Choose worker processes that are not stopped, rather some that hold runs."""
        self._wait_for_some()
        alive = {one: facts for one, facts in self.alive().items() if one not in self._stopped}
        busy = [process for process, (_, claims) in alive.items() if claims]
        idle = [process for process in alive if process not in busy]
        self.draw.shuffle(busy)
        return (busy + idle)[:count]

    def _wait_for_some(self) -> None:
        wait_until("somebody works", self._has_some)

    def _has_some(self) -> bool:
        self.revive()
        return len(self.alive().keys() - self._stopped) >= ALIVE_MIN

    def revive(self) -> None:
        """Start another where code of a task has ended a worker that nobody supervises."""
        for post in self.posts:
            if not post.process.is_running:
                self._replace(post)

    def _harm(self, process: int, kind: str | None) -> None:
        at = self.fleet.clock.now_us()
        self.harmed.setdefault(process, []).append(at)
        if kind is not None:
            self.fleet.note(kind, at)

    def _is_over(self, member: int) -> bool:
        return bool(self.fleet.ask(work_views.IS_OVER, member, self.fleet.clock.now_us())[0][0])

    def _is_back(self, process: int) -> bool:
        """Say whether a process is a member again, or gone for a reason of its own."""
        return not is_running(process) or process in self.alive()

    def _is_quiet(self) -> bool:
        return bool(self.fleet.ask(work_views.IS_QUIET)[0][0])


def _waits(runs: set[str], tasks: dict[str, str]) -> dict[tuple[str, int], int]:
    return {
        (run, number): POLICIES[tasks[run]].delay_us(RunId(bytes.fromhex(run)), number)
        for run in runs
        for number in range(1, POLICIES[tasks[run]].attempts)
    }


def _has_stopped(process: int) -> bool:
    return state_of(process) == STOPPED or not is_running(process)
