"""The program that runs one attempt of a task in a process of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from duly.app.loading import load_app
from duly.app.tracing import EXPORTS_VARIABLE, export_as_worker
from duly.engine.executors.process_child import serve

if TYPE_CHECKING:
    from duly.engine.executors.executor import TaskCatalogue


def load_catalogue(place: str) -> TaskCatalogue:
    """Return the tasks of the application at a place."""
    catalogue = load_app(place).catalogue()
    if EXPORTS_VARIABLE in os.environ:
        export_as_worker()  # after the program has set up what it wants itself
    return catalogue


if __name__ == "__main__":
    serve(load_catalogue)
