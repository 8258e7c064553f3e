"""Schema status, migrate, check; prune by retention."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly.store.ports.dispatch import Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long history is kept. Pending promises and the audit trail are never touched by it."""

    outcomes_us: Mapping[str, int]
    """By final state; a state that is not named is kept."""
    runs_per_schedule: int | None
    """Of closed runs, the newest this many of each schedule are kept; None for no such bound."""
    skips_us: int | None
    deleted_schedules_us: int | None
    """How long a deleted schedule can be restored."""


@dataclass(frozen=True, slots=True)
class Pruned:
    """How many rows of each kind were removed, and whether there is more."""

    counts: Mapping[PruneKind, int]
    has_more: bool


class PruneKind(StrEnum):
    """What retention removes."""

    OUTCOMES = "outcomes"
    SKIPS = "skips"
    SCHEDULES = "schedules"
    MEMBERS = "members"
    ARRIVALS = "arrivals"
    ACCESS = "access"
    """Sessions, codes, kept answers and frozen sets that have expired."""
    ALERTS = "alerts"
    """Alerts that were resolved long ago, and silences that are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prune:
    """Remove history that is past its retention, at most `limit` rows of each kind."""

    fence: Fence
    retention: Retention
    limit: int


class MaintenanceStore(Protocol):
    """What keeps a store small."""

    def prune(self, command: Prune) -> Pruned:
        """Remove closed runs past retention; remember per schedule how far.

        Also old skips, deleted schedules past their retention, dead members that own nothing, old
        arrivals, what has expired of access, and alerts of long ago. Needs the backfill lease of
        shard 0 (maintenance): a stale owner removes nothing.
        """
        ...


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
class IntegrityFinding:
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

    def check(self) -> list[IntegrityFinding]:
        """Look for what must never be: damage, broken invariants, changed migrations."""
        ...
