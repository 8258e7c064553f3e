"""Stores that are broken about tenants, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.store.memory import MemoryStore
from duly.store.ports.queries import OpenCounts


class ChangesAnybodys(MemoryStore):
    """Does not look whose schedule an order is about."""

    def change_schedule(self, command):
        return super().change_schedule(replace(command, tenant=None))


class RunsAnybodys(MemoryStore):
    """Runs a schedule for whoever asks."""

    def add_runs(self, command):
        rows = dict(self.tables.schedules)
        for run in command.runs:
            if run.schedule_id in rows:
                row = replace(rows[run.schedule_id], tenant=run.tenant)
                self.tables.schedules[run.schedule_id] = row
        try:
            return super().add_runs(command)
        finally:
            self.tables.schedules.update(rows)


class TellsOfOthersIds(MemoryStore):
    """Takes another tenant's request for the same one again."""

    def create_schedule(self, command):
        known = self.tables.schedules.get(command.id)
        tenant = command.tenant if known is None else known.tenant
        return super().create_schedule(replace(command, tenant=tenant))


class CountsForAll(MemoryStore):
    """Counts the letters of all that are dead."""

    def count_tenant(self, tenant):
        return replace(super().count_tenant(tenant), dead=len(self.tables.dead))


class FindsAnybodys(MemoryStore):
    """Looks runs up by their id alone."""

    def get_run(self, run_id, tenant=None):
        return super().get_run(run_id)


class CountsOneTenant(MemoryStore):
    """Counts open runs as if all were one tenant's."""

    def count_tenants(self):
        counts = super().count_tenants().values()
        return {"default": OpenCounts(*map(sum, zip(*counts, strict=True)))} if counts else {}


TENANCY_DEFECTS = [
    (FindsAnybodys, "test_who_names_a_tenant_finds_that_tenants_things_and_no_others"),
    (
        ChangesAnybodys,
        "test_another_tenants_schedule_is_changed_as_little_as_one_that_is_not_there",
    ),
    (RunsAnybodys, "test_nobody_runs_another_tenants_schedule"),
    (TellsOfOthersIds, "test_an_id_that_another_tenant_has_used_is_taken_and_no_more_is_told"),
    (CountsOneTenant, "test_open_runs_are_counted_by_tenant_for_whoever_sees_all"),
    (CountsForAll, "test_what_is_a_tenants_is_counted_and_nothing_else"),
]
