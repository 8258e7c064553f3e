"""Runs the tests that belong to the uncommitted change, in about half a minute: `make near`.

Near are, in this order: changed test files; tests that import a changed module or test helper; tests
that import one of its importers; tests of the same name. Documents, templates and scripts bring the
tests that read them. A change below `store` or `domain` brings the
contract along, one below `engine` ten simulated runs. Each file costs what the last `make test` noted;
what would go over the budget is left out, and named.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tests.run_report import read_costs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).resolve().parents[1]
BUDGET_S = 50.0
"""Processor seconds: some 25 on two cores, and loading."""
UNKNOWN_S = 1.0
"""What a test file is taken to cost before a run has measured it."""
DOCUMENTS = (
    "tests/test_documents.py",
    "tests/test_how_to_commands.py",
    "tests/test_runbooks.py",
)
PAGES = ("tests/web/test_pages.py", "tests/web/test_shell.py")
"""What looks at every page: for a template or a script, beside the tests of its own page."""
CONTRACT = "tests/conformance/test_memory.py"
SIMULATED = "tests/simulation/test_worlds.py"
SHOWN_MAX = 12


class Plan(NamedTuple):
    """Which test files to run, nearest first, and which belong to the change but cost too much."""

    chosen: list[str]
    left_out: list[str]
    cost_s: float


def changed_files() -> list[str]:
    """Return the files that differ from the last commit, new ones included."""
    listing = ("git", "status", "--porcelain", "--untracked-files=all", "--no-renames")
    shown = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    names = [line[3:] for line in shown.splitlines()]
    return [name for name in names if (ROOT / name).exists()]


def imports_of(path: Path) -> Iterator[str]:
    """Return the modules that a file may import: `from a import b` may mean `a` or `a.b`."""
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)


def module_name(name: str) -> str:
    """Return the module that a file holds."""
    parts = Path(name.removeprefix("src/")).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def importers() -> dict[str, set[str]]:
    """Return, for each module of the tree, the files that import it."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for folder in ("src", "tests"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            for module in imports_of(path):
                found[module].add(path.relative_to(ROOT).as_posix())
    return found


def is_test(name: str) -> bool:
    """Tell whether pytest collects a file."""
    return name.startswith("tests/") and Path(name).name.startswith("test_")


def near(changed: Iterable[str], importing: dict[str, set[str]]) -> list[list[str]]:
    """Return the test files that belong to changed files: ring by ring, nearest first."""
    changed = list(changed)
    python = [name for name in changed if name.endswith(".py")]
    direct = [importing.get(module_name(name), set()) for name in python]
    between = {one for some in direct for one in some if not is_test(one)}
    rings: list[Iterable[str]] = [python, *direct]
    rings += [beside(name) for name in changed if not name.endswith(".py")]
    rings += [importing.get(module_name(name), set()) for name in sorted(between)]
    for name in python:
        rings.append(
            path.relative_to(ROOT).as_posix()
            for path in sorted((ROOT / "tests").rglob(f"test_{Path(name).stem}.py"))
        )
    if any(name.startswith(("src/duly/store/", "src/duly/domain/")) for name in python):
        rings.insert(1, [CONTRACT])
    if any(name.startswith("src/duly/engine/") for name in python):
        rings.append([SIMULATED])
    return [[name for name in ring if is_test(name)] for ring in rings]


def beside(name: str) -> list[str]:
    """Return the test files that belong to a file that is no code of Python."""
    path = Path(name)
    if path.suffix == ".md":
        return list(DOCUMENTS)
    if not {"templates", "static"} & set(path.parts):
        return []
    subject = path.stem.partition("_")[0].removesuffix("s")
    own = sorted((ROOT / "tests/web").glob(f"test_{subject}*.py"))
    return [*PAGES, *(one.relative_to(ROOT).as_posix() for one in own)]


def plan(rings: list[list[str]], costs: dict[str, float]) -> Plan:
    """Choose files up to the budget: the nearest ring first, and in a ring the cheapest first."""
    plan = Plan([], [], 0.0)
    seen: set[str] = set()
    for ring in rings:
        for name in sorted(set(ring) - seen, key=lambda one: (costs.get(one, UNKNOWN_S), one)):
            cost = costs.get(name, UNKNOWN_S)
            fits = not plan.chosen or plan.cost_s + cost <= BUDGET_S
            (plan.chosen if fits else plan.left_out).append(name)
            plan = plan._replace(cost_s=plan.cost_s + fits * cost)
        seen.update(ring)
    return plan


def costs_by_file(folder: Path) -> dict[str, float]:
    """Return the processor seconds of each test file in the last run."""
    sums: defaultdict[str, float] = defaultdict(float)
    for test, cost in read_costs(folder).get("tests", {}).items():
        sums[test.partition("::")[0]] += cost
    return sums


def main(options: list[str]) -> int:
    """Run what is near, with more options for pytest; say what is left out."""
    changed = changed_files()
    costs = costs_by_file(ROOT / ".report")
    chosen, left_out, cost_s = plan(near(changed, importers()), costs)
    sys.stdout.write(f"{len(changed)} changed files: {len(chosen)} test files")
    sys.stdout.write(f", about {cost_s:.0f} s of processor{'' if costs else ' (guessed)'}\n")
    if left_out:
        more = f" and {len(left_out) - SHOWN_MAX} more" if len(left_out) > SHOWN_MAX else ""
        sys.stdout.write(f"left out, too dear: {', '.join(left_out[:SHOWN_MAX])}{more}\n")
    if not chosen:
        return 0
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", "--quiet", "-m", "not thorough", *options, *chosen]
    return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
