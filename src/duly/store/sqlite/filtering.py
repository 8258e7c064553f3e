"""Filters as this database's conditions."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from duly.store.filters import Where

if TYPE_CHECKING:
    from collections.abc import Iterable

    from duly.store.filters import Path, Value


class SqliteWhere(Where):
    """Conditions with the places of SQLite's statements."""

    def place(self, value: Value) -> str:
        """Take a value up; return how the statement names it."""
        self.values.append(value)
        return "?"

    def one_of(self, column: str, values: Iterable[str] | None) -> None:
        """Ask for one of some texts, if any are given."""
        if values is not None:
            listed = json.dumps(sorted(values))
            self.add(f"{column} IN (SELECT value FROM json_each(?))", listed)  # noqa: S608

    def begins(self, column: str, prefix: str) -> None:
        """Ask for texts that begin so."""
        self.add(f"substr({column}, 1, ?) = ?", len(prefix), prefix)

    def follow(self, path: Path) -> str:
        """Ask for the rows of a path; return the order in which its index has them."""
        for column, value in path.leads:
            self.equal(column, value)
        if path.first is not None:
            self.add(f"{path.column} >= ?", path.first)
        if path.end is not None:
            self.add(f"{path.column} < ?", path.end)
        return f"{path.column} DESC"

    def holds(self, text: str, part: str) -> None:
        """Ask for texts that hold another."""
        self.add(f"instr({text}, ?) > 0", part)
