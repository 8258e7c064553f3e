"""The program that runs one attempt of a task in a process of its own.

Given a place alone, it only loads the application there: so a worker finds out whether it can.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from duly.app.loading import load_app
from duly.app.tracing import EXPORTS_VARIABLE, export_as_worker
from duly.engine.executors.process_child import serve
from duly.errors import DulyError

if TYPE_CHECKING:
    from duly.engine.executors.executor import TaskCatalogue


def load_catalogue(place: str) -> TaskCatalogue:
    """Return the tasks of the application at a place."""
    catalogue = load_app(place).catalogue()
    if EXPORTS_VARIABLE in os.environ:
        export_as_worker()  # after the program has set up what it wants itself
    return catalogue


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
