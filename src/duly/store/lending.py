"""Lent transactions: how long one may be used, and what is said when it may not be (D3)."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from duly.errors import Conflict, LeaseLost, StoreUnavailable, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.clock import Clock
    from duly.store.planning import Parameters


class Loan:
    """The time for which a transaction is lent."""

    def __init__(self, name: str, clock: Clock, limit_us: int) -> None:
        self._name = name
        self._clock = clock
        self._deadline_us = clock.monotonic_us() + limit_us
        self._is_open = True
        self._is_sealed = False
        self._refusal: LeaseLost | None = None

    def is_late(self) -> bool:
        """Say whether its time is over."""
        return self._clock.monotonic_us() > self._deadline_us

    def end(self) -> None:
        """Take it back."""
        self._is_open = False

    def refuse_late(self, is_alive: Callable[[], bool]) -> None:
        """Refuse what is over, what took too long, and what has been undone meanwhile."""
        if not self._is_open:
            raise UsageError("connection", self, "is a transaction that is over", "begin another")
        self.refuse_commit(is_alive)
        if self._is_sealed:
            remedy = "write what belongs to it before, or begin another one"
            raise UsageError(
                "connection", self, "has ended its run, and takes nothing more", remedy
            )

    def refuse_commit(self, is_alive: Callable[[], bool]) -> None:
        """Refuse to commit what took too long, or whose run was somebody else's to end."""
        if self._refusal is not None:
            raise self._refusal
        if self.is_late() or not is_alive():
            raise self.too_late()

    @contextmanager
    def last_word(self) -> Iterator[None]:
        """Let an order be the last: what comes after it is the commit, or nothing if it is refused.

        Also when the caller keeps the refusal to himself: somebody else may have written it (E4).
        """
        try:
            yield
        except LeaseLost as error:
            self._refusal = error
            raise
        self._is_sealed = True

    def too_late(self) -> StoreUnavailable:
        """Return the error for a transaction that was open for too long."""
        return StoreUnavailable(
            self._name,
            "the transaction was open for longer than its limit and has been undone",
            "do the slow part before it, or give a larger limit",
        )


def parameter_values(parameters: Parameters) -> Mapping[str, object] | tuple[object, ...]:
    """Return the values of a statement of the caller's."""
    if isinstance(parameters, Mapping):
        return parameters
    if isinstance(parameters, str | bytes):
        remedy = "give a tuple or a list of values, or a mapping by name"
        raise UsageError("parameters", parameters, "is one text and no list of values", remedy)
    return tuple(parameters)


def another_store(given: object) -> UsageError:
    """Return the error for a transaction that another store has lent."""
    return UsageError("connection", given, "is a transaction of another store", "use its own")


def mistake(sql: str, error: BaseException) -> UsageError:
    """Return the error for a statement of the caller's that no other time would let run."""
    return UsageError("sql", sql, f"can't be run ({first_line(error)})", "correct it")


def refused(sql: str, error: BaseException) -> Conflict:
    """Return the error for a statement of the caller's that a constraint refuses."""
    problem = f"was refused by a constraint ({first_line(error)})"
    return Conflict("statement", sql, problem, "look at the rows that are there")


def first_line(error: BaseException) -> str:
    """Return what an error says, without the details that some add in further lines."""
    return str(error).strip().split("\n", 1)[0]
