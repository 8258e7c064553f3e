"""The surveying port: what is asked about many at once, so that a page of them costs as one does.

Each answers what a question about one would have, for all of them from one snapshot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from duly.domain.scope import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly.domain.attempts import AttemptRecord
    from duly.domain.effects import EffectRecord
    from duly.domain.identity import RunId, ScheduleId
    from duly.domain.run_vitals import DefinitionRecord
    from duly.domain.runs import OccurrenceVerdict, RunRecord
    from duly.domain.schedules import ScheduleRecord
    from duly.store.effects import VerdictRecord

EFFECTS_MAX = 1_000
"""So many effects of each run are read as evidence."""


class Judged(NamedTuple):
    """A schedule, and the occurrences of it that are asked about."""

    schedule_id: ScheduleId
    instants: Sequence[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What is on record about a run that is in doubt."""

    attempt: AttemptRecord | None = None
    """The last claim of it."""
    effects: tuple[EffectRecord, ...] = ()
    """The ledger of its line, in the order in which they were first begun."""
    verdicts: tuple[VerdictRecord, ...] = ()
    """What was found about it, oldest first."""
    has_checkpoint: bool = False


class Findings(NamedTuple):
    """What is on record about what a run brought about."""

    verdicts: tuple[VerdictRecord, ...] = ()
    """Of its checks, oldest first."""
    scope: Scope = Scope()


class SurveyStore(Protocol):
    """What anybody may look at, many at once."""

    def judge_many(self, asked: Sequence[Judged]) -> list[list[OccurrenceVerdict]]:
        """Say what `judge` says of each, in the order in which they were asked about."""
        ...

    def get_schedules(self, ids: Sequence[ScheduleId]) -> dict[ScheduleId, ScheduleRecord]:
        """Return those schedules that there are, deleted or not."""
        ...

    def get_runs(self, run_ids: Sequence[RunId]) -> dict[RunId, RunRecord]:
        """Return those runs that there are."""
        ...

    def list_many_definitions(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[DefinitionRecord]]:
        """Return the newest `limit` versions of each one's template, newest first.

        Who has none is left out.
        """
        ...

    def list_newest_runs(
        self, ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunRecord]]:
        """Return the newest `limit` runs of each schedule, newest first by id.

        Who has none is left out.
        """
        ...

    def read_evidence(self, run_ids: Sequence[RunId]) -> dict[RunId, Evidence]:
        """Return what is on record about each run, as the questions about one would (E5).

        Of a run that is not there nothing is on record.
        """
        ...

    def read_findings(self, run_ids: Sequence[RunId]) -> dict[RunId, Findings]:
        """Return of each run what `list_verdicts` and `get_scope` would (E6)."""
        ...
