"""Measures what a run of tests costs, and says where it went.

With `--costs FOLDER` the run ends with its processor seconds beside the budget, the dearest tests and
fixtures with the figures of the last run, and what was started; all of it is kept in FOLDER. Without
it, a failed test still says where it ran and what ran before it.

The process that controls the run adopts orphans. So every program that a test leaves behind is counted,
named and ended.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import threading
import time  # noqa: TID251 - processor time is what is measured
from collections import Counter, defaultdict, deque
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

from tests.budget import CALIBRATION_ROUNDS, CORE_SECONDS, REFERENCE_S, started
from tests.failover.keeper import PR_SET_CHILD_SUBREAPER, descendants
from tests.waiting import WaitedTooLongError, wait_until

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

DEAREST = 10
CALIBRATE_EVERY = 500
REMEMBERED = 3
ORPHANS_LOOK_S = 0.1
COSTS_FILE = "costs.json"


def processor_s() -> float:
    """Return the processor seconds of this process and of the children that it has waited for."""
    return sum(os.times()[:4])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--costs`."""
    parser.addoption("--costs", metavar="FOLDER", help="say what the run cost; keep it in FOLDER")
    parser.addoption(
        "--orphans-end", metavar="SECONDS", type=float, default=60.0,
        help="with --costs: how long programs that tests have left may take to end",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Measure tests where they run, and the run where it is controlled."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    config.pluginmanager.register(Meter(worker or "this process"), "duly-meter")
    if worker is None and config.getoption("costs"):
        config.pluginmanager.register(Accounts(config), "duly-accounts")


class Meter:
    """Measures each test and fixture in the process that runs it."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._before: deque[str] = deque(maxlen=REMEMBERED)
        self._phase_began_s = processor_s()
        self._fixtures: defaultdict[str, float] = defaultdict(float)
        self._nested_s = [0.0]
        """Processor seconds of the fixtures that each fixture under way has asked for."""

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        """Note what a fixture takes, less what the fixtures below it take."""
        began_s = processor_s()
        self._nested_s.append(0.0)
        try:
            return (yield)
        finally:
            took_s = processor_s() - began_s
            own_s = took_s - self._nested_s.pop()
            self._nested_s[-1] += took_s
            self._fixtures[f"{fixturedef.baseid}: {fixturedef.argname}"] += own_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Note what a phase of a test took; of a failed one also where it ran."""
        report = yield
        now_s = processor_s()
        took_s, self._phase_began_s = now_s - self._phase_began_s, now_s
        report.__dict__["processor_s"] = took_s  # travels to the process in control
        if report.failed:
            report.sections.append(("Where it ran", self._surroundings(report, took_s)))
        if report.when == "teardown":
            self._before.append(item.nodeid)
        return report

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Hand over what was measured, to the process that controls the run."""
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["duly_costs"] = self.measured()

    def measured(self) -> dict[str, Any]:
        """Return processor seconds by fixture, and what was started."""
        return {"fixtures": dict(self._fixtures), "started": dict(started)}

    def _surroundings(self, report: pytest.TestReport, took_s: float) -> str:
        load = " ".join(f"{one:.1f}" for one in os.getloadavg())
        before = ", ".join(self._before) or "no other test"
        return (
            f"{report.when} on {self._worker}: {took_s:.1f} s of processor in {report.duration:.1f} s;"
            f" load average {load}\nbefore it ran there: {before}"
        )


class Accounts:
    """Adds up what a whole run costs, in the process that controls it."""

    def __init__(self, config: pytest.Config) -> None:
        self._folder = Path(config.getoption("costs"))
        self._orphans_end_s = config.getoption("orphans_end")
        self._began_s = time.monotonic()
        self._tests: defaultdict[str, float] = defaultdict(float)
        self._fixtures: defaultdict[str, float] = defaultdict(float)
        self._started: Counter[str] = Counter()
        self._calibrations = [calibrate()]
        self._workers: set[int] = set()
        self._left: list[str] = []
        self._known = read_costs(self._folder)
        self._is_over = threading.Event()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodeready(self) -> None:
        """Remember the processes that run tests, which are no orphans; adopt what they lose."""
        if not self._workers and sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            threading.Thread(target=self._bury_orphans, daemon=True).start()
        self._workers |= set(children())

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add what one process has measured."""
        self._add(getattr(node, "workeroutput", {}).get("duly_costs", {}))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add up a test; calibrate now and then."""
        self._tests[report.nodeid] += getattr(report, "processor_s", 0.0)
        if report.when == "teardown" and len(self._tests) % CALIBRATE_EVERY == 0:
            self._calibrations.append(calibrate())

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Wait for what tests have left behind; end what does not end by itself, and say so."""
        meter = session.config.pluginmanager.get_plugin("duly-meter")
        if not self._workers and isinstance(meter, Meter):
            self._add(meter.measured())
        self._is_over.set()
        with suppress(WaitedTooLongError):
            wait_until("all programs have ended", self._have_all_ended, self._orphans_end_s)
        for number, name in descendants(os.getpid()).items():
            self._left.append(f"{name} ({number})")
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        if self._left and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Say what the run cost, and keep it."""
        spent = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent_s = sum(os.times()[:2]) + spent.ru_utime + spent.ru_stime
        speed = REFERENCE_S / median(self._calibrations)
        stats = terminalreporter.stats
        sizes = {name: len(stats.get(name, ())) for name in ("failed", "error", "skipped")}
        wall_s = time.monotonic() - self._began_s
        terminalreporter.section("what it cost")
        terminalreporter.write_line(
            f"{len(self._tests):,} run, {sizes['failed'] + sizes['error']} failed,"
            f" {sizes['skipped']} skipped; {wall_s // 60:.0f} min {wall_s % 60:.0f} s;"
            f" {spent_s:.0f} core-s, at the speed of the reference machine {spent_s * speed:.0f}"
            f" of {CORE_SECONDS}{': over budget' if spent_s * speed > CORE_SECONDS else ''}"
        )
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(self._started.items()))
        terminalreporter.write_line(f"started: {kinds or 'nothing'}")
        for what, costs in (("tests", self._tests), ("fixtures", self._fixtures)):
            for line in self._dearest(what, costs):
                terminalreporter.write_line(line)
        if self._left:
            terminalreporter.write_line(
                f"left running, ended now: {', '.join(self._left)}", red=True
            )
        self._keep(spent_s, wall_s)

    def _add(self, measured: dict[str, Any]) -> None:
        for name, cost in measured.get("fixtures", {}).items():
            self._fixtures[name] += cost
        self._started.update(measured.get("started", {}))

    def _bury_orphans(self) -> None:
        # Until its parent has waited for it, a process that has ended looks alive to a test.
        while not self._is_over.wait(ORPHANS_LOOK_S):
            bury(set(children()) - self._workers)

    def _have_all_ended(self) -> bool:
        bury(set(children()) - self._workers)
        return not descendants(os.getpid())

    def _dearest(self, what: str, costs: Mapping[str, float]) -> list[str]:
        last: dict[str, float] = self._known.get(what, {})
        lines = [f"dearest {what}, in seconds of processor (last run):"]
        for name, cost in sorted(costs.items(), key=lambda one: -one[1])[:DEAREST]:
            before = f"{last[name]:.1f}" if name in last else "new"
            lines.append(f"  {cost:6.1f} ({before})  {name}")
        return lines

    def _keep(self, spent_s: float, wall_s: float) -> None:
        kept = {
            "core_seconds": round(spent_s, 1),
            "wall_seconds": round(wall_s, 1),
            "calibrations": self._calibrations,
            "started": dict(self._started),
            "tests": {name: round(cost, 3) for name, cost in self._tests.items()},
            "fixtures": {name: round(cost, 3) for name, cost in self._fixtures.items()},
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        (self._folder / COSTS_FILE).write_text(json.dumps(kept, indent=0), encoding="utf-8")


def read_costs(folder: Path) -> dict[str, Any]:
    """Return what the last run kept; nothing where none has."""
    with suppress(OSError, ValueError):
        known: dict[str, Any] = json.loads((folder / COSTS_FILE).read_text(encoding="utf-8"))
        return known
    return {}


def calibrate() -> float:
    """Return the processor seconds of a fixed loop: how fast this machine is just now."""
    began = time.thread_time()
    total = 0
    for number in range(CALIBRATION_ROUNDS):
        total += number & 3
    assert total
    return time.thread_time() - began


def children() -> list[int]:
    """Return this process's children, ended ones that nobody has waited for included."""
    own = Path(f"/proc/{os.getpid()}/task")
    found: list[int] = []
    with suppress(OSError):
        for thread in own.iterdir():
            found += map(int, (thread / "children").read_text().split())
    return found


def bury(numbers: set[int]) -> None:
    """Wait for those of these children that have ended, so that what they took is counted."""
    for number in numbers:
        with suppress(ChildProcessError):
            os.waitpid(number, os.WNOHANG)
