"""The live part of a run: what a task's code may do while a worker executes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from duly.domain.attempts import Progress
    from duly.domain.effects import Permitted
    from duly.domain.scope import ScopeReport


class Transacting:
    """A transaction that ends its run when it commits, while its code is still to say with what."""

    def __init__(self, transaction: object) -> None:
        """Take what the store has lent."""
        self.transaction = transaction
        self.result: str | None = None
        """What the run gives, as JSON text."""


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

    def begin_effect(self, key: str | None) -> Permitted:
        """Ask for permission to do what can't be taken back; durable before this returns."""
        ...

    def end_effect(self, key: str, result: str | None, *, is_done: bool = True) -> None:
        """Say that an effect is done, with its result (JSON text), or that it did not happen.

        LeaseLost when it is no longer ours: then nobody knows.
        """
        ...

    def transact(self, limit_us: int) -> AbstractContextManager[Transacting]:
        """Lend a transaction whose commit is also the run's success (E4)."""
        ...

    def note_scope(self, report: ScopeReport) -> None:
        """Say what is expected, or which items are done; stored soon, and with the end."""
        ...

    def done_items(self, items: tuple[str, ...]) -> frozenset[str]:
        """Return those of some items that are done, by whichever attempt of the run's line."""
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
