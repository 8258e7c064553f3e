"""Statements over many rows at once, which are bound dozens at a time.

Running a statement once for each row costs several times as much: it is looked up in the cache for
every row and pushes others out of it, and other threads of the program get a word in each time.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import apsw

    from duly.store.records import Row

ROWS_MAX = 128
"""How many rows are bound together: more at a time is no faster."""
_SIZES = (1, 2, 4, 8, 16, 32, 64, ROWS_MAX)
"""What a statement is prepared for; rows of nothing fill it up."""


class Chunk(NamedTuple):
    """Some dozens of rows, bound for every statement that asks for their columns."""

    filled: int
    fit: int
    """Which of the sizes they fit."""
    bindings: list[Any]


def chunks(rows: Sequence[Row], also: Row = (), most: int = ROWS_MAX) -> Iterator[Chunk]:
    """Bind rows, behind what else there is to bind."""
    for first in range(0, len(rows), most):
        chosen = rows[first : first + most]
        count = len(chosen)
        fit = bisect_left(_SIZES, count)
        bindings = [*also, *chain.from_iterable(chosen)]
        # A row of nothing joins nothing.
        bindings += [None] * ((_SIZES[fit] - count) * len(chosen[0]))
        yield Chunk(count, fit, bindings)


class _Sized:
    """A statement for any number of rows, in a few sizes."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = list(texts)

    @property
    def text(self) -> str:
        """Return the statement as it is run for many."""
        return self._texts[-1]

    def run(self, connection: apsw.Connection, chunk: Chunk) -> apsw.Cursor:
        """Run it for one chunk."""
        return connection.execute(self._texts[chunk.fit], chunk.bindings)

    def change(self, connection: apsw.Connection, rows: Sequence[Row], also: Row = ()) -> int:
        """Run it for all; return how many rows were changed."""
        changed = 0
        for chunk in chunks(rows, also):
            self.run(connection, chunk)
            changed += connection.changes()
        return changed


class Batch(_Sized):
    """A statement that joins rows with a table, made with `asked` for a table of them."""

    def __init__(self, statement: str, *columns: str, also: int = 0) -> None:
        """Take `also` so many parameters besides, which come first: ?1 and so on."""
        super().__init__(
            f"WITH asked ({', '.join(columns)}) AS ({_values(size, len(columns), also)}){statement}"
            for size in _SIZES
        )


class Among(_Sized):
    """A statement about rows of a table that are named, one after the other behind it.

    No table is made of their names, which for a few of them would take longer than all the rest.
    """

    def __init__(self, statement: str, columns: int = 1) -> None:
        """Name rows by so many columns."""
        super().__init__(f"{statement} IN ({_names(size, columns)})" for size in _SIZES)


def _names(rows: int, columns: int) -> str:
    if columns > 1:
        return _values(rows, columns, 0)
    return ", ".join(f"?{number}" for number in range(1, rows + 1))


def _values(rows: int, columns: int, after: int) -> str:
    numbers = iter(range(after + 1, after + 1 + rows * columns))
    made = (f"({', '.join(f'?{next(numbers)}' for _ in range(columns))})" for _ in range(rows))
    return f"VALUES {', '.join(made)}"
