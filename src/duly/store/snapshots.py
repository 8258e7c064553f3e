"""Reading by snapshots: every question opens one, asks it, and lets it go."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Protocol

from duly.store.ports.queries import FIRST_DELAYED, PAGE_MAX, ReadingStore, SearchStore

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager

    from duly.domain.audit import AuditEntry
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import (
        AttemptRecord,
        DelayedRecord,
        LineRecord,
        OccurrenceStatus,
        ProgressRecord,
        RunRecord,
        SkipRecord,
    )
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.domain.vitals import DefinitionRecord, LastEnds, RunSpan, RunVital, VitalsFilter
    from duly.store.ports.queries import (
        AttemptFilter,
        AttemptPage,
        AuditFilter,
        AuditPage,
        DelayedPlace,
        OpenCounts,
        RunFilter,
        RunPage,
        ScheduleFilter,
        ScheduleSnapshot,
        StoreStatus,
        TenantCounts,
    )


class Snapshot(ReadingStore, SearchStore, Protocol):
    """A database as it was at one instant."""


class ReadsBySnapshot(ABC):
    """What may be looked at and for in a database that can be seen as it was at one instant."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Snapshot]:
        """Open a snapshot; it waits for nobody."""

    def get_schedule(
        self, schedule_id: ScheduleId, tenant: str | None = None
    ) -> ScheduleSnapshot | None:
        """Return a schedule, deleted or not."""
        with self._snapshot() as seen:
            return seen.get_schedule(schedule_id, tenant)

    def find_schedule(self, tenant: str, name: str) -> ScheduleSnapshot | None:
        """Return the schedule of a name."""
        with self._snapshot() as seen:
            return seen.find_schedule(tenant, name)

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order of name."""
        with self._snapshot() as seen:
            return seen.list_schedules(command)

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        with self._snapshot() as seen:
            return seen.get_definition(schedule_id, number)

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        with self._snapshot() as seen:
            return seen.list_definitions(schedule_id, limit)

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are."""
        with self._snapshot() as seen:
            return seen.get_definitions(keys)

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run."""
        with self._snapshot() as seen:
            return seen.get_run(run_id, tenant)

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first."""
        with self._snapshot() as seen:
            return seen.list_runs(command)

    def list_attempts(self, run_id: RunId, limit: int = PAGE_MAX) -> list[AttemptRecord]:
        """Return the last claims of a run by their fence."""
        with self._snapshot() as seen:
            return seen.list_attempts(run_id, limit)

    def list_progress(self, run_id: RunId, limit: int) -> list[ProgressRecord]:
        """Return the steps of a run's progress, oldest first."""
        with self._snapshot() as seen:
            return seen.list_progress(run_id, limit)

    def list_lines(self, run_id: RunId, after: int, limit: int) -> list[LineRecord]:
        """Return lines that a run's attempts wrote, in order."""
        with self._snapshot() as seen:
            return seen.list_lines(run_id, after, limit)

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        with self._snapshot() as seen:
            return seen.get_delayed(run_id, tenant)

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""
        with self._snapshot() as seen:
            return seen.find_delayed(tenant, key)

    def list_delayed(
        self, tenant: str, limit: int, after: DelayedPlace = FIRST_DELAYED
    ) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due."""
        with self._snapshot() as seen:
            return seen.list_delayed(tenant, limit, after)

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""
        with self._snapshot() as seen:
            return seen.list_skips(schedule_id, limit)

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest runs of each were open."""
        with self._snapshot() as seen:
            return seen.list_run_times(schedule_ids, limit)

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest runs of each ended."""
        with self._snapshot() as seen:
            return seen.list_last_ends(schedule_ids, limit, with_errors=with_errors)

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, newest first."""
        with self._snapshot() as seen:
            return seen.list_run_vitals(command)

    def list_owed(self, schedule_id: ScheduleId, limit: int = PAGE_MAX) -> list[CatchUpRange]:
        """Return the ranges a schedule still owes, oldest first."""
        with self._snapshot() as seen:
            return seen.list_owed(schedule_id, limit)

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceStatus]:
        """Say what is known about each expected occurrence."""
        with self._snapshot() as seen:
            return seen.judge(schedule_id, instants)

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        with self._snapshot() as seen:
            return seen.list_audit(command)

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id."""
        with self._snapshot() as seen:
            return seen.search_runs(command)

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts by run and fence, newest first."""
        with self._snapshot() as seen:
            return seen.search_attempts(command)

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        with self._snapshot() as seen:
            return seen.search_audit(command)

    def list_tasks(self) -> list[str]:
        """Return the names of registered tasks, sorted."""
        with self._snapshot() as seen:
            return seen.list_tasks()

    def status(self) -> StoreStatus:
        """Return the state of the store."""
        with self._snapshot() as seen:
            return seen.status()

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's."""
        with self._snapshot() as seen:
            return seen.count_tenant(tenant)

    def count_tenants(self) -> Mapping[str, OpenCounts]:
        """Count open runs by tenant."""
        with self._snapshot() as seen:
            return seen.count_tenants()
