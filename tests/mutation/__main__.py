"""Runs mutants, each in a process of its own with the tests nearest to it: `make mutants`.

python -m tests.mutation --hand                     the mutants made by hand
python -m tests.mutation --seed 1 duly.cli.limits   five drawn ones of each module
"""

from __future__ import annotations

import argparse
import importlib
import multiprocessing
import os
import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path

import pytest

from tests.mutation.made_by_hand import BY_HAND, EQUIVALENT, NEAREST
from tests.mutation.patching import ENVIRONMENT, Mutant, drawn
from tests.near import importers, is_test

ROOT = Path(__file__).resolve().parents[2]
EACH = 5
FILES_MAX = 8
LIMIT_S = 300.0
TEST_LIMIT_S = 60
FORKING = multiprocessing.get_context("fork")
importing = cache(importers)
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


def nearest(module: str) -> tuple[str, ...]:
    """Return the files of tests that import a module or have its name, at most a few."""
    if module in NEAREST:
        return NEAREST[module]
    *folders, name = module.split(".")
    by_name = [f"tests/{folder}/test_{name}.py" for folder in folders]
    found = [one for one in by_name if (ROOT / one).exists()]
    found += sorted(one for one in importing()[module] if is_test(one) and one not in found)
    if not found:
        sys.exit(f"no test imports {module} or has its name: add it to NEAREST")
    return tuple(found[:FILES_MAX])


def judge(mutant: Mutant) -> str:
    """Return what became of a mutant: who caught it, or that it survived."""
    tests = mutant.tests or nearest(mutant.module)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "log")
        process = FORKING.Process(target=run, args=(mutant, tests, log))
        process.start()
        process.join(LIMIT_S)
        if process.is_alive():
            process.kill()
            process.join()
            return "caught by a time-out"
        told = log.read_text(encoding="utf-8")
    if process.exitcode == 0:
        reason = EQUIVALENT.get((mutant.module, mutant.symbol, mutant.change))
        return "SURVIVED" if reason is None else f"equivalent: {reason}"
    caught_by = FAILED.findall(told)
    if process.exitcode != 1 or not caught_by:
        sys.exit(f"{mutant.module}.{mutant.symbol}: the tests could not be run\n{told}")
    return f"caught by {caught_by[0]}"


def run(mutant: Mutant, tests: tuple[str, ...], log: Path) -> None:
    """Apply a mutant and run tests until one fails; in a process of its own."""
    with (
        log.open("w", encoding="utf-8") as stream,
        redirect_stdout(stream),
        redirect_stderr(stream),
    ):
        os.environ[ENVIRONMENT] = repr(vars(mutant))
        os.environ["PYTHONPATH"] = os.pathsep.join((str(ROOT / "tests/mutation"), str(ROOT)))
        mutant.apply()
        # Loaded before the fork, and so without rewritten assertions: nothing of theirs is tested.
        quiet = "ignore::pytest.PytestAssertRewriteWarning"
        options = ["-x", "-q", "-W", quiet, "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=line"]
        status = pytest.main([*options, f"--timeout={TEST_LIMIT_S}", "-m", "not thorough", *tests])
        stream.flush()
        os._exit(int(status))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "modules", nargs="*", help="modules to draw mutants of; with --hand, to keep to"
    )
    parser.add_argument("--hand", action="store_true", help="the mutants made by hand")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    os.chdir(ROOT)
    chosen = [one for one in BY_HAND if not options.modules or one.module in options.modules]
    if not options.hand:
        chosen = [one for module in options.modules for one in drawn(module, options.seed, EACH)]
    for module in ("duly.cli.main", "duly.testing", "hypothesis", *{one.module for one in chosen}):
        importlib.import_module(module)
    survived = 0
    for mutant in chosen:
        verdict = judge(mutant)
        survived += verdict == "SURVIVED"
        sys.stdout.write(f"{mutant.module}.{mutant.symbol}: {mutant.change}: {verdict}\n")
        sys.stdout.flush()
    sys.stdout.write(f"{len(chosen)} mutants, {survived} survived\n")
    sys.exit(bool(survived))


if __name__ == "__main__":
    main()
