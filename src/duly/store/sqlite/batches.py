"""Statements over many rows at once, which are bound a few dozen at a time.

Running a statement once for each row costs several times as much: it is looked up in the cache for
every row and pushes others out of it, and other threads of the program get a word in each time.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import apsw

    from duly.store.records import Row

ROWS_MAX = 32
"""How many rows are bound together: more at a time is no faster."""
_SIZES = (1, 8, ROWS_MAX)
"""What a statement is prepared for; rows of nothing fill it up."""


class Batch:
    """A statement that joins rows with a table, made with `asked` for a table of them."""

    def __init__(self, statement: str, *columns: str, also: int = 0) -> None:
        """Take `also` so many parameters besides, which come first: ?1 and so on."""
        self._blank = (None,) * len(columns)
        self._texts = [
            f"WITH asked ({', '.join(columns)}) AS ({_values(size, len(columns), also)}){statement}"
            for size in _SIZES
        ]

    @property
    def text(self) -> str:
        """Return the statement as it is run for many."""
        return self._texts[-1]

    def chunks(self, rows: Sequence[Row], also: Row = ()) -> Iterable[tuple[str, list[Any]]]:
        """Return the statements for some rows, each with its bindings."""
        for first in range(0, len(rows), ROWS_MAX):
            chunk = rows[first : first + ROWS_MAX]
            size = next(place for place, size in enumerate(_SIZES) if size >= len(chunk))
            bindings = [*also, *chain.from_iterable(chunk)]
            # A row of nothing joins nothing.
            bindings += self._blank * (_SIZES[size] - len(chunk))
            yield self._texts[size], bindings

    def change(self, connection: apsw.Connection, rows: Sequence[Row], also: Row = ()) -> int:
        """Run it; return how many rows were changed."""
        changed = 0
        for text, bindings in self.chunks(rows, also):
            connection.execute(text, bindings)
            changed += connection.changes()
        return changed

    def find(self, connection: apsw.Connection, rows: Sequence[Row], also: Row = ()) -> list[Row]:
        """Run it; return what it answers."""
        found: list[Row] = []
        for text, bindings in self.chunks(rows, also):
            found += connection.execute(text, bindings)
        return found


def _values(rows: int, columns: int, after: int) -> str:
    numbers = iter(range(after + 1, after + 1 + rows * columns))
    made = (f"({', '.join(f'?{next(numbers)}' for _ in range(columns))})" for _ in range(rows))
    return f"VALUES {', '.join(made)}"
