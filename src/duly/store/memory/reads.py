"""What anybody may look at one by one, on the memory store: as of one moment."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from duly.store.memory import counting, last_ends, reading, run_vitals, searching
from duly.store.ports.auth import of_tenant
from duly.store.ports.queries import FIRST_DELAYED, PAGE_MAX, ScheduleSnapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from duly.domain.audit import AuditEntry
    from duly.domain.ids import RunId, ScheduleId
    from duly.domain.runs import DelayedRecord, OccurrenceStatus, RunRecord, SkipRecord
    from duly.domain.schedules import CatchUpRange, Definition, ScheduleRecord
    from duly.domain.vitals import DefinitionRecord, LastEnds, RunSpan, RunVital, VitalsFilter
    from duly.store.memory.tables import Journal, Tables
    from duly.store.ports.audit import AuditAfter, TrailPage
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
        StoreStatus,
        TenantCounts,
    )

T = TypeVar("T")


class MemoryReads(ABC):
    """What anybody may look at."""

    tables: Tables

    @abstractmethod
    def _read(self, operation: Callable[[Journal], T]) -> T:
        """Look at the tables as they are at one moment."""

    def get_schedule(
        self, schedule_id: ScheduleId, tenant: str | None = None
    ) -> ScheduleSnapshot | None:
        """Return a schedule, deleted or not."""

        def read(journal: Journal) -> ScheduleSnapshot | None:
            record = of_tenant(self.tables.schedules.get(schedule_id), tenant)
            return None if record is None else ScheduleSnapshot(record, journal.now)

        return self._read(read)

    def find_schedule(self, tenant: str, name: str) -> ScheduleSnapshot | None:
        """Return the schedule of a name."""
        return self._read(lambda journal: reading.find_schedule(journal, tenant, name))

    def list_schedules(self, command: ScheduleFilter) -> list[ScheduleRecord]:
        """Return schedules in order."""
        return self._read(lambda journal: reading.list_schedules(journal, command))

    def get_definition(self, schedule_id: ScheduleId, number: int) -> Definition | None:
        """Return one version of a schedule's template."""
        return self._read(lambda _: self.tables.definitions.get((schedule_id, number)))

    def list_definitions(self, schedule_id: ScheduleId, limit: int) -> list[DefinitionRecord]:
        """Return the newest versions of a schedule's template, newest first."""
        return self._read(lambda one: run_vitals.list_definitions(one, schedule_id, limit))

    def get_definitions(
        self, keys: Sequence[tuple[ScheduleId, int]]
    ) -> dict[tuple[ScheduleId, int], Definition]:
        """Return those versions of templates that there are."""
        definitions = self.tables.definitions
        return self._read(lambda _: {key: definitions[key] for key in keys if key in definitions})

    def get_run(self, run_id: RunId, tenant: str | None = None) -> RunRecord | None:
        """Return a run."""
        return self._read(lambda journal: of_tenant(reading.get_run(journal, run_id), tenant))

    def list_runs(self, command: RunFilter) -> list[RunRecord]:
        """Return runs, newest first."""
        return self._read(lambda journal: reading.list_runs(journal, command))

    def get_delayed(self, run_id: RunId, tenant: str | None = None) -> DelayedRecord | None:
        """Return a pending delayed run by its id."""
        return self._read(lambda _: of_tenant(self.tables.delayed.get(run_id), tenant))

    def find_delayed(self, tenant: str, key: str) -> DelayedRecord | None:
        """Return the pending delayed run of a key."""

        def read(_: Journal) -> DelayedRecord | None:
            run_id = self.tables.keys.get((tenant, key))
            return None if run_id is None else self.tables.delayed[run_id]

        return self._read(read)

    def list_delayed(
        self, tenant: str, limit: int, after: DelayedPlace = FIRST_DELAYED
    ) -> list[DelayedRecord]:
        """Return pending delayed runs in order of due."""

        def read(_: Journal) -> list[DelayedRecord]:
            rows = (row for row in self.tables.delayed.values() if row.tenant == tenant)
            found = [row for row in rows if (row.due_at, row.id) > after]
            return sorted(found, key=lambda row: (row.due_at, row.id))[:limit]

        return self._read(read)

    def list_skips(self, schedule_id: ScheduleId, limit: int) -> list[SkipRecord]:
        """Return what was skipped, newest first."""

        def read(_: Journal) -> list[SkipRecord]:
            found = [row for row in self.tables.skips.values() if row.schedule_id == schedule_id]
            return sorted(found, key=lambda row: row.first_for, reverse=True)[:limit]

        return self._read(read)

    def list_run_times(
        self, schedule_ids: Sequence[ScheduleId], limit: int
    ) -> dict[ScheduleId, list[RunSpan]]:
        """Return from when to when the newest runs of each were open."""
        return self._read(lambda journal: reading.list_run_times(journal, schedule_ids, limit))

    def list_last_ends(
        self, schedule_ids: Sequence[ScheduleId], limit: int, *, with_errors: bool = True
    ) -> dict[ScheduleId, LastEnds]:
        """Return how the newest runs of each ended."""
        read = partial(last_ends.list_last_ends, with_errors=with_errors)
        return self._read(lambda journal: read(journal, schedule_ids, limit))

    def list_run_vitals(self, command: VitalsFilter) -> list[RunVital]:
        """Return what is known of runs, newest first."""
        return self._read(lambda journal: run_vitals.list_run_vitals(journal, command))

    def list_owed(self, schedule_id: ScheduleId, limit: int = PAGE_MAX) -> list[CatchUpRange]:
        """Return the ranges a schedule still owes, oldest first."""

        def read(_: Journal) -> list[CatchUpRange]:
            rows = [row.owed for row in self.tables.owed.values()]
            found = [owed for owed in rows if owed.schedule_id == schedule_id]
            return sorted(found, key=lambda owed: owed.first_for)[:limit]

        return self._read(read)

    def judge(self, schedule_id: ScheduleId, instants: Sequence[int]) -> list[OccurrenceStatus]:
        """Say what is known about each occurrence."""
        return self._read(lambda journal: reading.judge(journal, schedule_id, instants))

    def list_audit(self, command: AuditFilter) -> list[AuditEntry]:
        """Return audit entries, newest first."""
        return self._read(lambda journal: reading.list_audit(journal, command))

    def search_runs(self, command: RunFilter) -> RunPage:
        """Return a page of runs, newest first by id."""
        return self._read(lambda journal: searching.search_runs(journal, command))

    def search_attempts(self, command: AttemptFilter) -> AttemptPage:
        """Return a page of attempts by run and fence, newest first."""
        return self._read(lambda journal: searching.search_attempts(journal, command))

    def search_audit(self, command: AuditFilter) -> AuditPage:
        """Return a page of audit entries, newest first by number."""
        return self._read(lambda journal: searching.search_audit(journal, command))

    def follow_audit(self, command: AuditAfter) -> TrailPage:
        """Return entries after a number, oldest first: nobody else is writing one."""
        return self._read(lambda journal: reading.follow_audit(journal, command))

    def list_tasks(self) -> list[str]:
        """Return the names of tasks, sorted."""
        return self._read(lambda _: sorted(self.tables.tasks))

    def status(self) -> StoreStatus:
        """Return the state of the store."""
        return self._read(reading.status)

    def count_tenant(self, tenant: str) -> TenantCounts:
        """Count what is one tenant's."""
        return self._read(lambda journal: counting.count_tenant(journal, tenant))

    def count_tenants(self) -> dict[str, OpenCounts]:
        """Count open runs by tenant."""
        return self._read(counting.count_tenants)
