"""The live part of a run: what a task's code may do while a worker executes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from duly.domain.attempts import Progress


class Live(Protocol):
    """What a run can do while it is being executed; may be called from any thread."""

    @property
    def is_cancelled(self) -> bool:
        """Whether it should stop: somebody asked, its time is up, or it is no longer ours."""
        ...

    def advance(self, progress: Progress) -> None:
        """Say how far it is; stored soon, without waiting. Progress is what stall limits watch."""
        ...

    def save(self, partition: str, state: str) -> None:
        """Store a checkpoint (JSON text) before returning; LeaseLost when it is no longer ours."""
        ...

    def saved(self, partition: str) -> str | None:
        """Return the last checkpoint of the run, by whichever attempt."""
        ...

    def write(self, level: str, text: str) -> None:
        """Add a line to the run's log; stored soon, without waiting, and with secrets left out.

        What is too long is cut after that: before, half a secret would no longer be recognised.
        """
        ...

    def conceal(self, text: str) -> None:
        """Never let this text (a secret's value) appear in lines, errors or results."""
        ...

    def hide(self, text: str, *, is_cut: bool = False) -> str:
        """Return a text with secrets left out, so that it may be cut.

        Of one that was cut already, what may be the beginning of a secret at its end goes, too.
        """
        ...
