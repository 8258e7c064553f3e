"""Filters as this database's conditions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.domain.ids import ID_BYTES
from duly.store.filters import Where
from duly.store.postgres.arrays import Texts
from duly.store.postgres.session import uid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.filters import Path, Value


class PostgresWhere(Where):
    """Conditions with the places of PostgreSQL's statements, each with the type of its value."""

    def place(self, value: Value) -> str:
        """Take a value up; return how the statement names it."""
        if isinstance(value, bytes):
            self.values.append(uid(value))
            kind = "uuid"
        else:
            self.values.append(value)
            kind = "int8" if isinstance(value, int) else "text"
        return f"${len(self.values)}::{kind}"

    def one_of(self, column: str, values: Iterable[str] | None) -> None:
        """Ask for one of some texts, if any are given."""
        if values is not None:
            self.values.append(Texts(sorted(values)))
            self.add(f"{column} = ANY(${len(self.values)}::text[])")

    def begins(self, column: str, prefix: str) -> None:
        """Ask for texts that begin so."""
        self.add(f"{column} ^@ ?", prefix)

    def follow(self, path: Path) -> str:
        """Ask for the rows of a path; return the order in which its index has them.

        All columns are compared at once, and all are in the order, although the first are alike:
        so no other index will do. One that has the order alone may be believed to lead there
        sooner, and lead past all that is newer.
        """
        columns = (*(column for column, _ in path.leads), path.column)
        alike = [value for _, value in path.leads]
        names, places = f"({', '.join(columns)})", f"({', '.join('?' * len(columns))})"
        is_number = path.column.endswith("number")
        least: Value = 0 if is_number else bytes(ID_BYTES)
        most: Value = (1 << 63) - 1 if is_number else b"\xff" * ID_BYTES
        if path.leads or path.first is not None:
            self.add(f"{names} >= {places}", *alike, least if path.first is None else path.first)
        if path.leads or path.end is not None:
            relation, end = ("<=", most) if path.end is None else ("<", path.end)
            self.add(f"{names} {relation} {places}", *alike, end)
        return ", ".join(f"{column} DESC" for column in columns)

    def holds(self, text: str, part: str) -> None:
        """Ask for texts that hold another."""
        self.add(f"strpos({text}, ?) > 0", part)
