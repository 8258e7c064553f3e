"""Repeats tests beside busy loops, and says which of them fail: `make steady`.

    python -m tests.steady [--times 30] [--loops 2] [TEST …]

Without names it repeats those of steady_tests.txt: the tests that depend most on time, processes and
ports. A test that fails here is broken, or the product is.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
LISTED = Path(__file__).with_name("steady_tests.txt")
NOT_RUN = (4, 5)
"""Exit codes of pytest: a name that is no test, and no test at all."""


def listed() -> list[str]:
    """Return the tests of the list."""
    lines = LISTED.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep so many processors busy meanwhile."""
    command = [sys.executable, "-c", "while True: pass"]
    loops = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def play(tests: list[str], workers: int) -> tuple[int, list[str]]:
    """Run tests once; return how many ran, and which failed."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "junit.xml"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            f"-n{workers}",
            "-m",
            "not thorough",
            "--junitxml",
            str(report),
            *tests,
        ]
        ended = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
        if ended.returncode in NOT_RUN:
            sys.exit(ended.stdout + ended.stderr)
        cases = list(ET.parse(report).getroot().iter("testcase"))  # noqa: S314 - our own file
    failed = [
        case for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    if failed:
        sys.stdout.write(ended.stdout)
    return len(cases), [f"{case.get('classname')}::{case.get('name')}" for case in failed]


def main() -> int:
    """Repeat, say what each round found, and list the failures at the end."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=30)
    parser.add_argument("--loops", type=int, default=2)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    failures: Counter[str] = Counter()
    with busy_loops(options.loops):
        for number in range(1, options.times + 1):
            count, failed = play(options.tests or listed(), options.workers)
            failures.update(failed)
            load = os.getloadavg()[0]
            sys.stdout.write(
                f"round {number}: {count} ran, {len(failed)} failed, load {load:.1f}\n"
            )
            sys.stdout.flush()
    for name, times in failures.most_common():
        sys.stdout.write(f"{times} of {options.times}: {name}\n")
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
