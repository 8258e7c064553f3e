"""The schema port: what an operator does to a store before and between versions (D5)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Migration:
    """A step of the schema: `pre` before the new program runs, `post` once the old is gone."""

    number: int
    phase: str
    name: str
    sql: str
    checksum: str
    applied_at: int | None


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which migrations a store has and lacks, and whether this program can use it."""

    store: str
    applied: tuple[Migration, ...]
    missing: tuple[Migration, ...]
    unknown: tuple[str, ...]
    """Names of migrations that this program does not know: the store is newer."""
    is_usable: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that a check of a store found wrong."""

    what: str
    detail: str
    remedy: str


class SchemaStore(Protocol):
    """What `duly db` does."""

    def schema_status(self) -> SchemaStatus:
        """Say which migrations are applied and which are missing."""
        ...

    def migrate(self, *, phase: str | None = None) -> list[Migration]:
        """Apply what is missing, in order, each in its own transaction; return what was applied."""
        ...

    def check(self) -> list[Finding]:
        """Look for what must never be: damage, broken invariants, changed migrations."""
        ...
