"""The program that runs one attempt of a task in a process of its own.

Given a place alone, it only loads the application there: so a worker finds out whether it can.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

from duly.app.loading import load_app, search_path
from duly.app.tracing import EXPORTS_VARIABLE, export_as_worker
from duly.engine.executors.process_child import serve
from duly.errors import DulyError, UsageError

if TYPE_CHECKING:
    from duly.engine.executors.executor import TaskCatalogue

ARGV = (sys.executable, "-m", "duly.app.task_process")
LOAD_SECONDS_MAX = 300


def load_catalogue(place: str) -> TaskCatalogue:
    """Return the tasks of the application at a place."""
    catalogue = load_app(place).catalogue()
    if EXPORTS_VARIABLE in os.environ:
        export_as_worker()  # after the program has set up what it wants itself
    return catalogue


def process_variables() -> dict[str, str]:
    """Return the variables of a task's process: it imports what this one can."""
    return {**os.environ, "PYTHONPATH": search_path()}


def require_loadable(place: str) -> None:
    """Refuse an application that a task's process can't load: each of its attempts would fail."""
    try:
        ended = subprocess.run(  # noqa: S603 - our own program
            (*ARGV, place),
            env=process_variables(),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LOAD_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        problem = f"is not loaded within {LOAD_SECONDS_MAX} seconds in a process of its own"
    else:
        if ended.returncode == 0:
            return
        said = ended.stderr.strip().rpartition("\n")[2]
        why = said or f"exit status {ended.returncode}"
        problem = f"can't be loaded in a process of its own ({why})"
    remedy = "correct its import: its process tasks could not run"
    raise UsageError("app", place, problem, remedy)


def _try(place: str) -> int:
    try:
        load_app(place)
    except DulyError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    if len(sys.argv) == 2:
        sys.exit(_try(sys.argv[1]))
    serve(load_catalogue)
