"""The searching port: pages of runs, attempts and audit entries, each at a bounded price.

A search goes by the index that narrows it most, newest first, and looks at `LOOKED_AT_MAX` rows of
it at the most. So a page may be shorter than asked, and even empty, while there is more: whoever
wants it goes on from `next`. When that is None, everything has been seen (A4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.store.reading import PAGE_MAX

if TYPE_CHECKING:
    from duly.domain.attempts import AttemptRecord
    from duly.domain.audit import AuditEntry
    from duly.domain.identity import RunId
    from duly.domain.literals import AttemptState
    from duly.domain.runs import RunRecord
    from duly.store.reading import AuditFilter, RunFilter

LOOKED_AT_MAX = 2_000
"""How many rows of an index one page looks at: some ten milliseconds."""
TEXTS_MAX = 500
"""How many of them when errors are searched: each is a long text, which has to be read."""
GATHERED_MAX = 10_000
"""How many ids that are in no order are put into one, rather than walk all runs: a queue's, those
of a key, those of strays in a span of time."""
CLOCK_BACK_MAX_US = 3_600_000_000
"""How far the store's clock may have been set back without the audit trail's order by number
leaving the order by time behind."""


class Bounds(NamedTuple):
    """How much one page may cost."""

    looked_at: int = LOOKED_AT_MAX
    texts: int = TEXTS_MAX
    gathered: int = GATHERED_MAX


BOUNDS = Bounds()


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptFilter:
    """Which attempts: those of the newest runs first, and of a run the last first."""

    tenant: str
    worker: int | None = None
    states: frozenset[AttemptState] | None = None
    reason: str | None = None
    error: str | None = None
    """A text that its error holds; upper and lower case differ."""
    before: tuple[RunId, int] | None = None
    """Page on from here: run and fence of the last one seen."""
    limit: int = PAGE_MAX


@dataclass(frozen=True, slots=True)
class RunPage:
    """Runs that were found, and before which id to go on."""

    records: list[RunRecord]
    next: RunId | None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts that were found, and before which run and fence to go on."""

    records: list[AttemptRecord]
    next: tuple[RunId, int] | None


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Audit entries that were found, and before which number to go on."""

    entries: list[AuditEntry]
    next: int | None


def attempt_matches(attempt: AttemptRecord, command: AttemptFilter) -> bool:
    """Say whether an attempt is one of those that are looked for, but for its tenant."""
    is_before = command.before is None or (attempt.run_id, attempt.fence) < command.before
    return (
        is_before
        and command.worker in (None, attempt.worker)
        and command.reason in (None, attempt.reason)
        and (command.states is None or attempt.state in command.states)
        and (
            command.error is None or (attempt.error is not None and command.error in attempt.error)
        )
    )


class SearchStore(Protocol):
    """What anybody may look for."""

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id.

        Runs that are made meanwhile may be missed if their id is newer than where a page ended;
        one that is there all the time is found once, unless it changes what it is looked for by.
        """
        ...

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts, alive and ended, by run and fence, newest first."""
        ...

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        ...
