"""A campaign of effects: workers are killed, stopped and cut off in every phase of every class.

    make chaos
    python -m tests.system.effects_campaign sqlite|postgres FAULTS [SEED]

Real workers, which are born quickly so that hundreds can die in minutes, pay through a bank, which
is a process of its own. Each run brings along where its worker comes to harm; others are killed at
any moment, and on PostgreSQL answers are lost on the way. Meanwhile an operator looks at the bank
and decides about some of the runs that are in doubt. See effects_checker.py for the verdict.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import duly
from tests.forked_commands import ROOT, TREE
from tests.postgres.proxy import Proxy
from tests.system import effects_evidence as records
from tests.system import work_views
from tests.system.bank import PLACE_VARIABLE, RECOGNISED, is_paid, read_book
from tests.system.campaign import commit, percentiles
from tests.system.campaign_stores import store_url
from tests.system.effects_checker import UNSAFE, count_doubts, effects_violations
from tests.system.effects_evidence import Decision, EffectsEvidence
from tests.system.effects_harm import BEFORE, HAPPENED, KILL, STOP, WITHIN
from tests.system.effects_tasks import ACCOUNTS, CLASSES, PHASES, SOON, WHOLE
from tests.system.effects_tasks import app as tasks
from tests.system.fleet import Fleet, is_running
from tests.system.postgres_campaign import THENS
from tests.system.views import SQLITE
from tests.system.work_evidence import (
    END,
    LEDGER_VARIABLE,
    START,
    Mark,
    WorkEvidence,
    read_marks,
    read_told,
)
from tests.waiting import pause, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from duly.client.doubt_view import InboxItem

WORKERS = 6
SLOTS = 3
FEED = 40
"""So many runs are to be done at any moment."""
LOOK_SECONDS = 0.05
LOOKS_A_LOOK = 10
"""Runs and doubts are looked at every so many rounds."""
LOSE_ROUNDS = 60
"""An answer that is to be lost and never comes is given up after so many rounds."""
QUIET_SECONDS = 300.0
ANY_MOMENT = "any moment"
LOST_ANSWER = "answer lost"
PROVOKE_MAX = 10
"""What chance has not brought about is provoked so often; once is enough but for bad luck."""
RECOGNISING = ("refresh", f"{KILL}@{HAPPENED}")
"""Its worker dies after the bank has paid, so that the next attempt is recognised by its key."""
DOUBTING = ("batch", f"{KILL}@{HAPPENED}")
STOPPING = ("tally", f"{STOP}@{BEFORE}")
KILLING = ("tally", f"{KILL}@{BEFORE}")
STATEMENTS = {
    "a claim": b"INSERT INTO duly.claims",
    "a permission": b"INSERT INTO duly.effects",
    "a permission for all": b"SET effects_at = g.now",
    "an effect done": b"SET state = 'done'",
    "an end": b"INSERT INTO duly.outcomes",
    "a row": b"INSERT INTO closings",
    "a commit": b"COMMIT",
    "a beat": b"UPDATE duly.members",
}
"""Whose answers are lost on their way to a worker."""
FIND_MEMBERS = "SELECT max(id) FROM duly.members WHERE process = $1"
FIND_PROCESS = """
SELECT m.process FROM duly.attempts a JOIN duly.members m ON m.id = a.worker
WHERE a.run_id = $1 ORDER BY a.fence DESC LIMIT 1"""
LIST_ROWS = "SELECT run FROM closings"
COUNT_OPEN = """
SELECT (SELECT count(*) FROM duly.ready) + (SELECT count(*) FROM duly.claims)
    + (SELECT count(*) FROM duly.waiting)"""


@dataclass
class Post:
    """A place where there is always a worker, and its way to the store."""

    url: str
    proxy: Proxy | None = None
    process: int = 0
    losing: str | None = None
    """Whose answer is being lost, if any is."""
    rounds: int = 0


@dataclass
class EffectsCampaign:
    """Keeps workers at work, harms them, and has an operator decide what they leave behind."""

    fleet: Fleet
    app: duly.App
    seed: str
    posts: list[Post]
    draw: random.Random = field(init=False)
    nursery: subprocess.Popen[str] = field(init=False)
    names: dict[str, str] = field(default_factory=dict)
    decisions: list[Decision] = field(default_factory=list)
    seen: list[tuple[str, str]] = field(default_factory=list)
    lost: Counter[str] = field(default_factory=Counter)
    """Answers that were lost on their way."""
    stopped: set[int] = field(default_factory=set)
    _last: dict[str, str] = field(default_factory=dict)
    _considered: set[str] = field(default_factory=set)
    _marks: list[Mark] = field(default_factory=list)
    _read_bytes: int = 0
    _rounds: int = 0

    def __post_init__(self) -> None:
        self.draw = random.Random(self.seed)

    # Beginning

    @property
    def ledger(self) -> Path:
        return self.fleet.folder / "work.ledger"

    @property
    def book(self) -> Path:
        return self.fleet.folder / "bank.book"

    def start(self) -> None:
        """Open the bank, and man every post."""
        place = self.fleet.folder / "bank.place"
        self.ledger.touch()
        os.environ |= {LEDGER_VARIABLE: str(self.ledger), PLACE_VARIABLE: str(place)}
        self.fleet.new_dispatcher()
        self.fleet.start(["tests.system.bank", str(self.book), str(place)], "bank")
        with self.app.transaction() as tx:
            tx.execute("CREATE TABLE closings (run TEXT, fence INTEGER)")
        self.nursery = subprocess.Popen(
            [sys.executable, "-m", "tests.system.effects_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": TREE},
            start_new_session=True,
        )
        self.man_posts()
        wait_until("the bank is open", place.exists)

    def end(self) -> None:
        """Leave nothing behind."""
        if not hasattr(self, "nursery"):
            return
        # All workers are of its group; those that are stopped are killed, too.
        with suppress(ProcessLookupError):
            os.killpg(self.nursery.pid, signal.SIGKILL)
        self.nursery.communicate()

    def man_posts(self) -> None:
        """Put a worker wherever there is none."""
        for number, post in enumerate(self.posts):
            if post.process == 0 or not is_running(post.process):
                assert self.nursery.stdin is not None, "piped"
                assert self.nursery.stdout is not None, "piped"
                log = str(self.fleet.folder / f"worker-{number}.log")
                born = {"url": post.url, "log": log, "slots": str(SLOTS)}
                self.nursery.stdin.write(json.dumps(born) + "\n")
                self.nursery.stdin.flush()
                self.stopped.discard(post.process)
                post.process = int(self.nursery.stdout.readline())

    # Work, and harm

    def enqueue(self, task: str, harms: Sequence[str] = ()) -> str:
        """Ask for a run that brings harm along."""
        call: dict[str, object] = {"harms": list(harms)}
        match task:
            case "wire":
                call |= {"is_refused": self.draw.random() < 0.3}
            case "payroll":
                call |= {"account": self.draw.choice(ACCOUNTS)}
            case "blind":
                call |= {"name": f"blind {self.seed} {len(self.names)}"}
        run = self.app.enqueue(tasks.call(task, call)).id.hex
        if task == "blind":
            self.names[str(call["name"])] = run
        return run

    def draw_harm(self, task: str) -> str:
        """Draw where a worker comes to harm."""
        phase = self.draw.choice(PHASES[task])
        kind = self.draw.choices((KILL, STOP), (65, 35))[0]
        # A transaction that is stopped holds the lock of a whole file: nobody could go on.
        if phase == WITHIN and self.is_file:
            kind = KILL
        return f"{kind}@{phase}"

    def feed(self) -> None:
        """See to it that there is always something to be done."""
        for _ in range(FEED - self.count_open()):
            task = self.draw.choice(tuple(PHASES))
            harms = [
                self.draw_harm(task) for _ in range(self.draw.choices((0, 1, 2), (1, 4, 2))[0])
            ]
            self.enqueue(task, harms)

    def count_open(self) -> int:
        """Return how many runs are still to end, or to be in doubt."""
        return int(self.fleet.ask(COUNT_OPEN)[0][0])

    @property
    def is_file(self) -> bool:
        return self.fleet.url.startswith(SQLITE)

    def round(self, *, is_wild: bool = True) -> None:
        """Look after everything once."""
        self._rounds += 1
        self.man_posts()
        self.let_go_on()
        for post in self.posts:
            if post.proxy is not None:
                self._lose_answer(post, post.proxy, may_begin=is_wild)
        if is_wild and self.draw.random() < 0.05:
            self.harm_anybody()
        if self._rounds % LOOKS_A_LOOK == 0:
            self.look()
            self.decide()
        pause(LOOK_SECONDS)

    def harm_anybody(self) -> None:
        """Kill or stop somebody at any moment."""
        post = self.draw.choice(self.posts)
        if post.process in self.stopped:
            return
        kind = self.draw.choice((KILL, KILL, STOP))
        with suppress(ProcessLookupError):
            os.kill(post.process, signal.SIGKILL if kind == KILL else signal.SIGSTOP)
            if kind == STOP and not self.fleet.is_writable():
                # It holds the lock of the whole file: nobody could go on, nor say that it is dead.
                os.kill(post.process, signal.SIGCONT)
                return
            self._write(kind, ANY_MOMENT, post.process)

    def _write(self, kind: str, said: str, process: int) -> None:
        nobody = {"run": "0" * 32, "attempt": 0, "fence": 0}
        at = self.fleet.clock.now_us()
        line = {"kind": kind, **nobody, "process": process, "at": at, "said": said, "wait_us": 0}
        with self.ledger.open("ab", buffering=0) as ledger:
            ledger.write((json.dumps(line) + "\n").encode())

    def marks(self) -> list[Mark]:
        """Return what has been written down so far."""
        with self.ledger.open("rb") as ledger:
            ledger.seek(self._read_bytes)
            whole, newline, _ = ledger.read().rpartition(b"\n")
        self._read_bytes += len(whole) + len(newline)
        for line in whole.splitlines():
            mark = Mark(**json.loads(line))
            self._marks.append(mark)
            if mark.kind == STOP:
                self.stopped.add(mark.process)
        return self._marks

    def faults(self) -> Counter[str]:
        """Return what has been done, by kind and phase."""
        done = Counter(f"{one.kind}@{one.said}" for one in self.marks() if one.kind in {KILL, STOP})
        return done + Counter({f"{LOST_ANSWER} of {name}": n for name, n in self.lost.items()})

    def let_go_on(self) -> None:
        """Let stopped workers go on whose lease is over."""
        self.marks()
        now = self.fleet.clock.now_us()
        for process in list(self.stopped):
            (member,) = self.fleet.ask(FIND_MEMBERS, process)[0]
            is_over = member is None or self.fleet.ask(work_views.IS_OVER, member, now)[0][0]
            if is_over:
                self.stopped.discard(process)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGCONT)

    def _lose_answer(self, post: Post, proxy: Proxy, *, may_begin: bool) -> None:
        """Let a statement of a worker be executed, and its answer be lost, now and then."""
        if post.losing is None:
            if may_begin and self.draw.random() < 0.1:
                post.losing = self.draw.choice(tuple(STATEMENTS))
                post.rounds = 0
                proxy.drop_reply(STATEMENTS[post.losing], self.draw.choice(THENS))
            return
        post.rounds += 1
        if proxy.wait_dropped(0):
            self.lost[post.losing] += 1
            post.losing = None
        elif post.rounds > LOSE_ROUNDS or not may_begin:
            proxy.heal()
            post.losing = None

    # Looking, and deciding

    def look(self) -> None:
        """Write down each state that a run is seen in."""
        for run, state in records.states(self.fleet.eyes).items():
            if self._last.get(run) != state:
                self._last[run] = state
                self.seen.append((run, state))

    def decide(self) -> None:
        """Decide about runs that are in doubt and whose workers are gone for certain."""
        for item in self.app.inbox.list(limit=100):
            if item.run.id.hex in self._considered:
                continue
            identity = item.run.id.bytes if self.is_file else item.run.id
            found = self.fleet.ask(FIND_PROCESS, identity)
            if not found or is_running(found[0][0]):
                continue
            self._considered.add(item.run.id.hex)
            if self.draw.random() < 0.5:
                self._decide(item)

    def _decide(self, item: InboxItem) -> None:
        """Look at the bank, and say what is true; what was not paid may be tried again."""
        run, at = item.run, self.fleet.clock.now_us()
        if run.task == "blind":
            return
        line = run.idempotency_key
        truth = {one.key: is_paid(line, one.key) for one in item.effects if one.state != "done"}
        is_whole_paid = not item.effects and is_paid(line, WHOLE)
        is_over = is_whole_paid or (run.task == "wire" and any(truth.values()))
        choice = "reconcile" if is_over else self.draw.choice(("retry", "resume", "skip", "repair"))
        reason, inbox = "the bank was asked", self.app.inbox
        match choice:
            case "reconcile":
                inbox.reconcile(run.id, is_done=True, reason=reason, effects=truth)
            case "skip":
                inbox.skip(run.id, reason=reason)
            case "repair":
                inbox.rerun(run.id, repair=True, reason=reason, effects=truth, confirm=run.id)
            case "retry" | "resume":
                order = inbox.retry if choice == "retry" else inbox.resume
                order(run.id, reason=reason, effects=truth, confirm=run.id)
                # Another doubt of the same run is another question.
                self._considered.discard(run.id.hex)
        self.decisions.append(Decision(run.id.hex, choice, at))

    # What has to come about

    def go_on_until_done(self, *, is_wild: bool = True) -> None:
        """Go on until every run has ended or is in doubt, and nobody is stopped."""
        while self.stopped or self.count_open():
            self.round(is_wild=is_wild)

    def provoke(self) -> None:
        """Bring about what chance has not, each by the harm that leads to it, with no other harm."""
        for _ in range(PROVOKE_MAX):
            missing = self.missing()
            if not missing:
                return
            for task, harm in missing:
                self.enqueue(task, [harm])
                self.go_on_until_done(is_wild=False)

    def missing(self) -> list[tuple[str, str]]:
        """Return what has to come about and has not yet: a task, and the harm that brings it about."""
        kinds = {name.partition("@")[0] for name in self.faults()}
        has_come = {
            RECOGNISING: any(one.kind == RECOGNISED for one in read_book(self.book)),
            DOUBTING: bool(records.doubts(self.fleet.eyes)),
            STOPPING: STOP in kinds,
            KILLING: KILL in kinds,
        }
        return [harm for harm, is_there in has_come.items() if not is_there]

    # The end

    def finish(self) -> EffectsEvidence:
        """Wait until nothing more is to be done, and gather everything."""
        wait_until("all is quiet", self._is_quiet, QUIET_SECONDS)
        self.look()
        view, fleet = self.fleet.eyes, self.fleet
        fates, attempts = work_views.fates(view), work_views.attempts(view)
        logs = sorted(fleet.folder.glob("worker-*.log"))
        lines = [one for log in logs for one in log.read_text("utf-8", "replace").splitlines()]
        marks = read_marks(self.ledger)
        with self.app.transaction() as tx:
            rows = Counter(str(run) for (run,) in tx.execute(LIST_ROWS))
        work = WorkEvidence(
            marks=[one for one in marks if one.kind in {START, END}],
            attempts=attempts,
            fates=fates,
            budgets=dict.fromkeys(PHASES, SOON.attempts),
            waits={},
            told=read_told(lines),
            refused=work_views.refused(view),
            findings=fleet.check(),
            doubtful=frozenset(one for one, effects in CLASSES.items() if effects == UNSAFE),
            decided=frozenset(one.run for one in self.decisions),
        )
        return EffectsEvidence(
            work=work,
            marks=marks,
            book=read_book(self.book),
            doubts=records.doubts(view),
            decisions=self.decisions,
            begun=records.begun(view),
            ledger=records.effects(view),
            rows=rows,
            roots=records.roots(view),
            classes=CLASSES,
            names=self.names,
            seen=self.seen,
        )

    def _is_quiet(self) -> bool:
        self.round(is_wild=False)
        return not self.stopped and bool(self.fleet.ask(work_views.IS_QUIET)[0][0])


def report(campaign: EffectsCampaign, evidence: EffectsEvidence) -> str:
    """Return the figures on one line, without the verdict."""
    faults = campaign.faults()
    told = ", ".join(f"{count} {name}" for name, count in sorted(faults.items()))
    states = Counter(one.state for one in evidence.work.fates)
    attempts = Counter(one.state for one in evidence.work.attempts)
    expected, alone = count_doubts(evidence)
    decided = Counter(one.choice for one in evidence.decisions)
    again = sum(one.kind == RECOGNISED for one in evidence.book)
    return (
        f"faults {faults.total():,}: {told};"
        f" runs {len(evidence.work.fates):,} ({_counts(states)});"
        f" attempts {len(evidence.work.attempts):,} ({_counts(attempts)});"
        f" outside effects {len(evidence.book):,}, of them recognised by the key {again:,};"
        f" stale completions refused {len(evidence.work.refused):,};"
        f" ambiguous {len(evidence.doubts):,}, by the outside ledger {expected:,}"
        f" ({alone:,} of them by the store's note alone);"
        f" decided ({_counts(decided)});"
        f" harm to doubt p50/p99/max {percentiles(doubt_lateness(evidence))}"
    )


def _counts(counter: Counter[str]) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in sorted(counter.items()))


def doubt_lateness(evidence: EffectsEvidence) -> list[int]:
    """Return how long after harm came to an attempt its run was in doubt."""
    harmed = {(one.run, one.fence): one.at for one in evidence.marks if one.kind in {KILL, STOP}}
    held = ((doubt, harmed.get((doubt.run, doubt.fence))) for doubt in evidence.doubts)
    return [doubt.at - at for doubt, at in held if at is not None and at <= doubt.at]


def unprovoked(campaign: EffectsCampaign, evidence: EffectsEvidence) -> list[str]:
    """Return what a campaign was meant to bring about and did not."""
    states = Counter(one.state for one in evidence.work.attempts)
    phases = {name.partition("@")[2] for name in campaign.faults() if "@" in name}
    everywhere = {phase for found in PHASES.values() for phase in found}
    found = [f"unprovoked: nobody was harmed at {one}" for one in sorted(everywhere - phases)]
    if not states["lost"]:
        found.append("unprovoked: no attempt was lost")
    if not evidence.doubts:
        found.append("unprovoked: no run was in doubt")
    if not evidence.work.refused:
        found.append("unprovoked: no stale completion was refused")
    if not any(one.kind == RECOGNISED for one in evidence.book):
        found.append("unprovoked: the bank recognised nobody")
    return found


def judge(campaign: EffectsCampaign, evidence: EffectsEvidence) -> tuple[list[str], str]:
    """Return what was found wrong, and the figures with the verdict on one line."""
    found = effects_violations(evidence)
    duplicates = sum(one.startswith("twice") for one in found)
    return found, (
        f"{report(campaign, evidence)}; duplicates {duplicates}; violations {len(found)};"
        f" seed {campaign.seed}; commit {commit()}"
    )


@contextmanager
def campaign(
    url: str | None, folder: Path, seed: str, workers: int = WORKERS
) -> Iterator[EffectsCampaign]:
    """Make a campaign on a store; end its processes and proxies at the end."""
    with ExitStack() as stack:
        fleet = Fleet(folder, url)
        stack.callback(fleet.kill_all)
        proxies = [None if url is None else stack.enter_context(Proxy(url)) for _ in range(workers)]
        posts = [Post(fleet.url if proxy is None else proxy.url, proxy) for proxy in proxies]
        app = stack.enter_context(duly.App(fleet.url, name="effects-campaign"))
        made = EffectsCampaign(fleet, app, seed, posts)
        stack.callback(made.end)
        yield made


def run_everywhere(going: EffectsCampaign) -> EffectsEvidence:
    """Harm each task once in every other of its phases, which are others on another store.

    Every fifth worker is stopped, all others are killed. Who is to be stopped may be lost to other
    harm before it comes to that; then it is done to the next attempt.
    """
    going.start()
    places = [(task, phase) for task, phases in PHASES.items() for phase in phases]
    for number, (task, phase) in enumerate(places[going.is_file :: 2]):
        is_stop = number % 5 == 0 and not (phase == WITHIN and going.is_file)
        going.enqueue(task, [f"{STOP}@{phase}"] * 2 if is_stop else [f"{KILL}@{phase}"])
    going.go_on_until_done()
    going.provoke()
    return going.finish()


def run_until(going: EffectsCampaign, faults: int) -> EffectsEvidence:
    """Go on until so much harm is done, and then until all is quiet."""
    going.start()
    while going.faults().total() < faults:
        going.feed()
        going.round()
    return going.finish()


def main() -> None:
    store, faults = sys.argv[1], int(sys.argv[2])
    seed = sys.argv[3] if len(sys.argv) > 3 else f"{random.Random().getrandbits(32):08x}"
    sys.stdout.write(f"seed {seed}: {faults} faults to workers and their effects, on {store}\n")
    sys.stdout.flush()
    folder = Path(tempfile.mkdtemp(prefix="duly-effects-"))
    with store_url(store) as url, campaign(url, folder, seed) as going:
        evidence = run_until(going, faults)
        found, told = judge(going, evidence)
        found += unprovoked(going, evidence)
    sys.stdout.write("".join(f"{one}\n" for one in (*found, told)))
    if found:
        sys.stdout.write(f"the evidence is in {folder}\n")
        sys.exit(1)
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()
