"""Stores that are broken about quotas, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.quotas import EACH_OWNER, Counted, Quota, QuotaKey
from duly.store.memory import MemoryStore


class IgnoresResumes(MemoryStore):
    """Asks about quotas only when a schedule is made."""

    def change_schedule(self, command):
        quotas, self.tables.quotas = self.tables.quotas, {}
        key, counted = QuotaKey(EACH_OWNER), Counted.SCHEDULES
        lifted = Quota(key=key, counted=counted, most=None, version=1, updated_at=0, updated_by="")
        self.tables.quotas[key, counted] = lifted
        try:
            return super().change_schedule(command)
        finally:
            self.tables.quotas = quotas


class CountsTheDeclared(MemoryStore):
    """Takes an operator's own schedules for an end user's."""

    def create_schedule(self, command):
        return super().create_schedule(replace(command, declared_by=None))


class BoundsTheFirstOnly(MemoryStore):
    """Counts what is pending before an order, and not what it adds."""

    def add_runs(self, command):
        quotas = dict(self.tables.quotas)
        pending = [key for key in quotas if key[1] is Counted.PENDING]
        if len(self.tables.delayed) <= min((quotas[key].most or 0 for key in pending), default=0):
            for key in pending:
                del self.tables.quotas[key]
        try:
            return super().add_runs(command)
        finally:
            self.tables.quotas = quotas


class SilentQuotas(MemoryStore):
    """Sets quotas without a word on the trail."""

    def set_quotas(self, command):
        found = super().set_quotas(command)
        del self.tables.audit[max(self.tables.audit)]
        return found


QUOTA_DEFECTS = [
    (IgnoresResumes, "test_what_rests_makes_room_until_it_is_to_go_on"),
    (CountsTheDeclared, "test_nobodys_and_declared_schedules_are_not_an_end_users"),
    (BoundsTheFirstOnly, "test_so_many_runs_of_a_tenant_are_pending[alike]"),
    (SilentQuotas, "test_quotas_are_on_record_with_who_set_them"),
]
