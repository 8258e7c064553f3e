"""A campaign with workers: tasks' code is executed while everything around it is killed.

    make chaos SECONDS=300
    python -m tests.system.work_campaign postgres 300 [SEED]

Two dispatchers and five workers, on PostgreSQL (each behind a proxy of its own, on a server that
crashes) or on a SQLite file. Besides what the other campaigns check, three witnesses are compared:
the lines that tasks' code writes, the store's records of attempts, and what workers were told.
"""

from __future__ import annotations

import random
import shutil
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from tests.postgres.proxy import Proxy
from tests.postgres.server import Server
from tests.system.campaign import (
    KILLED,
    RECOVERY_US,
    STOPPED,
    Campaign,
    chosen,
    commit,
    percentiles,
    run_for,
    unprovoked,
)
from tests.system.checker import violations
from tests.system.fleet import SECOND_US, Fleet
from tests.system.postgres_campaign import COMMITS, RECOVERING, THENS, PostgresCampaign
from tests.system.work_checker import GIVEN_BACK, count_overlaps, work_violations
from tests.system.work_evidence import START
from tests.system.workforce import (
    KILLED_SUPERVISOR,
    KILLED_WORKER,
    OF_WORKERS,
    STOPPED_WORKER,
    Workforce,
)
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.system.evidence import Evidence
    from tests.system.work_evidence import WorkEvidence

OF_PROCESSES = OF_WORKERS | {KILLED, STOPPED, "SIGTERM", "kill -9 client"}
"""Faults of somebody's process: the store is there for everybody else."""
LOSE_SECONDS = 3.0
WORKERS = 5
SCHEDULES = 60
CLAIMS = b"INSERT INTO duly.claims"
ENDS = b"INSERT INTO duly.outcomes"
STATEMENTS = (
    CLAIMS,
    ENDS,
    b"INSERT INTO duly.attempts",
    b"UPDATE duly.members",
    COMMITS,
    b"",
)
"""What a statement of a worker has in it whose answer is lost: a claim, an end, a beat, any."""


@dataclass
class Working(Campaign):
    """A campaign whose runs are executed; on a SQLite file, unless it says otherwise."""

    size: ClassVar[int] = 2
    pause_seconds: ClassVar[float] = 1.0
    rests: ClassVar[float] = 0.04

    schedules: int = SCHEDULES
    workers: int = WORKERS
    work: Workforce = field(init=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        ways = [self.way_of_worker(place) for place in range(self.workers)]
        self.work = Workforce(self.fleet, random.Random(f"{self.seed} work"), ways)

    def way_of_worker(self, place: int) -> str:
        """Return the URL by which a worker reaches the store."""
        return self.fleet.url

    def start(self) -> None:
        self.work.start()
        super().start()
        wait_until("something is executed", lambda: self.work.ledger.stat().st_size)

    def start_client(self, schedules: int) -> None:
        name = f"{self.seed}-{len(self.clients)}"
        place = [self.way_of_clients(), str(self.fleet.folder / f"{name}.orders")]
        program = ["tests.system.work_client", *place, name, str(schedules)]
        self.clients.append(self.fleet.start(program, "client"))

    def faults(self) -> dict[Callable[[], object], float]:
        return {**super().faults(), **self.faults_of_workers()}

    def faults_of_workers(self) -> dict[Callable[[], object], float]:
        """Return what may be done to workers, and how often, in proportion."""
        return {
            self.kill_workers: 26,
            self.work.kill_supervisor: 3,
            self.stop_workers: 14,
            self.work.terminate_worker: 4,
        }

    def kill_workers(self) -> None:
        """Kill one to three workers."""
        self.work.kill_workers(self.draw.randrange(1, 4))

    def stop_workers(self) -> None:
        """Stop two or three workers past their lease."""
        self.work.stop_workers(self.draw.randrange(2, 4))

    def finish(self) -> Evidence:
        """As all campaigns do, after every run is over."""
        self.quieten()
        self.work.finish()
        for dispatcher in self.dispatchers:
            dispatcher.terminate()
        return self.fleet.evidence(self.until)

    def quieten(self) -> None:
        """Let what is due be fired, and see to it that nothing more falls due."""
        client = self.clients[-1]
        assert 0 == client.close_input(), client.log.read_text("utf-8")
        last = self.fleet.client(self.draw, f"{self.seed}-last")
        schedules = last.app.schedules
        while paused := [one.name for one in schedules.list(status="paused")]:
            last.paused = paused
            last.finish()
        self.until = self.fleet.settle()
        while active := [one.name for one in schedules.list(status="active")]:
            last.active = active
            while last.active:
                last.pause()
        last.close()
        self.fleet.settle()

    def outages(self) -> list[tuple[int, int]]:
        """Return when the store was not there for somebody."""
        faults = self.fleet.faults
        return [(one.at, max(one.at, one.until)) for one in faults if one.kind not in OF_PROCESSES]


@dataclass
class WorkingOnPostgres(PostgresCampaign, Working):
    """The same on PostgreSQL, with all that can be done to a server and a network."""

    size: ClassVar[int] = 2

    schedules: int = SCHEDULES

    def way_of_worker(self, place: int) -> str:
        return self.proxies[self.size + place].url

    def faults(self) -> dict[Callable[[], object], float]:
        return self.faults_of_workers() | {
            self.kill_dispatcher: 1,
            self.stop_and_continue: 0.5,
            self.stop_gracefully: 0.5,
            self.kill_client: 1,
            self.crash_server: 2,
            self.end_backends: 1,
            self.cut: 1,
            self.refuse: 0.7,
            self.delay: 0.7,
            self.swallow: 0.7,
            self.deliver_late: 0.7,
            self.lose_answers_of_workers: 3,
        }

    def lose_answers_of_workers(self) -> None:
        """Let workers' statements be executed and their answers be lost, a few in a row."""
        for _ in range(self.draw.randrange(1, 6)):
            self.lose_answer_of_worker(self.draw.choice(STATEMENTS))
            pause(self.draw.uniform(0.0, 0.5))
        self.wait_for_fires()

    def lose_answer_of_worker(self, matching: bytes) -> None:
        """Let a statement of some worker be executed and its answer be lost."""
        proxy = self.draw.choice(self.proxies[self.size : -1])
        at = self.fleet.clock.now_us()
        proxy.drop_reply(matching, self.draw.choice(THENS))
        if proxy.wait_dropped(LOSE_SECONDS):
            name = matching.decode() or "any order"
            self.fleet.note(f"worker's answer lost of {name}", at, self.fleet.clock.now_us())
        else:
            proxy.heal()


def work_unprovoked(evidence: Evidence, work: WorkEvidence) -> list[str]:
    """Return what a campaign was meant to bring about and did not."""
    kinds = {fault.kind for fault in evidence.faults}
    states = Counter(attempt.state for attempt in work.attempts)
    found = []
    if kinds & {KILLED_WORKER, KILLED_SUPERVISOR} and not states["lost"]:
        found.append("unprovoked: no attempt was lost")
    if STOPPED_WORKER in kinds and not work.refused:
        found.append("unprovoked: no stale completion was refused")
    return found


def work_report(campaign: Working, evidence: Evidence, work: WorkEvidence) -> str:
    """Return the figures of workers on one line, without the verdict."""
    kinds = Counter(fault.kind for fault in evidence.faults)
    faults = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
    states = Counter(
        f"{one.state}: {one.reason}" if one.state == GIVEN_BACK else one.state
        for one in work.attempts
    )
    ended = Counter(fate.state for fate in work.fates)
    dead = Counter(fate.task for fate in work.fates if fate.state == "dead")
    healthy, recovering = start_lateness(evidence, work)
    starts = sum(mark.kind == START for mark in work.marks)
    return (
        f"faults: {faults}; operations {len(evidence.orders):,}; runs {len(work.fates):,}"
        f" ({_counts(ended)}; dead: {_counts(dead)}); attempts {len(work.attempts):,} ({_counts(states)});"
        f" observed starts {starts:,}; executions at once {count_overlaps(work)};"
        f" workers declared dead {len(work.evictions)};"
        f" stale completions refused {len(work.refused)};"
        f" takeovers {evidence.takeovers}; ambiguous {ended['ambiguous']};"
        f" lost to settled p50/p99/max {percentiles(settling(campaign.work, work))};"
        f" due to start p50/p99/max healthy {percentiles(healthy)},"
        f" in recovery {percentiles(recovering)}"
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counter.items()))


def settling(work: Workforce, evidence: WorkEvidence) -> list[int]:
    """Return how long after its worker was killed or stopped each lost attempt was settled."""
    found = []
    for attempt in evidence.attempts:
        before = [
            at
            for at in work.harmed.get(attempt.process or 0, [])
            if attempt.ended_at is not None and attempt.claimed_at <= at <= attempt.ended_at
        ]
        if attempt.state == "lost" and attempt.ended_at is not None and before:
            found.append(attempt.ended_at - min(before))
    return found


def start_lateness(evidence: Evidence, work: WorkEvidence) -> tuple[list[int], list[int]]:
    """Return how late runs were first started that were fired in time: healthy, in recovery."""
    spans = [(one.at - SECOND_US, max(one.at, one.until) + RECOVERY_US) for one in evidence.faults]
    lanes = {run.id: run.lane for run in evidence.kept}
    paused = {order.subject for order in evidence.orders if order.kind == "pause"}
    resumed = {one.id for one in evidence.schedules if one.name in paused}
    schedules = {run.id: run.schedule for run in evidence.kept}
    dues = {fate.run: fate.due_at for fate in work.fates}
    healthy: list[int] = []
    recovering: list[int] = []
    for mark in work.marks:
        is_first = mark.kind == START and mark.fence == 1 and lanes.get(mark.run) == "live"
        if is_first and schedules[mark.run] not in resumed:
            due = dues[mark.run]
            is_near = any(begin <= due <= end for begin, end in spans)
            (recovering if is_near else healthy).append(mark.at - due)
    return healthy, recovering


def judge(campaign: Working, evidence: Evidence) -> list[str]:
    """Print the verdict and the figures; return what was found wrong."""
    work = campaign.work.evidence(campaign.outages())
    found = [
        *violations(evidence),
        *work_violations(work),
        *unprovoked(evidence),
        *work_unprovoked(evidence, work),
    ]
    duplicates = sum(one.startswith("twice") for one in found)
    sys.stdout.write("".join(f"{one}\n" for one in found))
    sys.stdout.write(
        f"{work_report(campaign, evidence, work)}; duplicates {duplicates};"
        f" violations {len(found)}; seed {campaign.seed}; commit {commit()}\n"
    )
    sys.stdout.flush()
    return found


@contextmanager
def on_postgres(
    server: Server, folder: Path, seed: str, workers: int = WORKERS
) -> Iterator[WorkingOnPostgres]:
    """Make a campaign on a new database of a server; end its processes and proxies at the end."""
    url = server.create_database()
    with ExitStack() as stack:
        stack.callback(server.drop_database, url)
        count = WorkingOnPostgres.size + workers + 1
        proxies = [stack.enter_context(Proxy(url)) for _ in range(count)]
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        yield WorkingOnPostgres(fleet, seed, workers=workers, server=server, proxies=proxies)


@contextmanager
def on_sqlite(folder: Path, seed: str, workers: int = WORKERS) -> Iterator[Working]:
    """Make a campaign on a new file; end its processes at the end."""
    fleet = Fleet(folder)
    try:
        yield Working(fleet, seed, workers=workers)
    finally:
        fleet.kill_all()


@contextmanager
def _made(store: str, folder: Path, seed: str) -> Iterator[Working]:
    if store == "sqlite":
        with on_sqlite(folder, seed) as campaign:
            yield campaign
        return
    with Server.boot(RECOVERING, durable=True) as server:
        with on_postgres(server, folder, seed) as campaign:
            yield campaign
        shutil.copy(server.log, folder / "postgresql.log")


def main() -> None:
    store = sys.argv.pop(1)
    seconds, seed = chosen()
    sys.stdout.write(f"seed {seed}: {seconds:.0f} s of faults on real workers and {store}\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="duly-chaos-"))
    with _made(store, folder, seed) as campaign:
        found = judge(campaign, run_for(campaign, seconds))
    if found:
        sys.stdout.write(f"the evidence is in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
