"""Permitted tasks: those of an application that a worker may run.

A command that this worker may not run is nothing it knows: its runs are left to a worker that may,
as those are whose code it lacks (L5, S6).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.literals import TaskKind

if TYPE_CHECKING:
    from duly.engine.work import Catalogue, Runnable


class PermittedTasks:
    """A catalogue without the commands that are not allowed here."""

    def __init__(self, catalogue: Catalogue, commands: frozenset[str] | None) -> None:
        """Allow the commands of these tasks; None for all of them."""
        self._catalogue = catalogue
        self._commands = commands

    def find(self, name: str) -> Runnable | None:
        """Return a task by its name, if it may be run here."""
        found = self._catalogue.find(name)
        if found is None or found.kind is not TaskKind.COMMAND or self._commands is None:
            return found
        return found if name in self._commands else None

    def names(self) -> list[str]:
        """Return the names of those that may be run here, sorted."""
        return [name for name in self._catalogue.names() if self.find(name) is not None]

    def left_out(self) -> list[str]:
        """Return the names of those that may not."""
        return [name for name in self._catalogue.names() if self.find(name) is None]
