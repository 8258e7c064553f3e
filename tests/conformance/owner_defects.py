"""Stores that are broken about owners, and the test of the contract that is meant for each."""

from __future__ import annotations

from duly.domain.enums import ScheduleStatus
from duly.domain.quotas import GONE
from duly.store.memory import MemoryStore


class GoneForTheNewOnly(MemoryStore):
    """Looks for who is gone only when a schedule is made."""

    def change_schedule(self, command):
        quotas = self.tables.quotas
        self.tables.quotas = {
            key: one for key, one in quotas.items() if not key[0].scope.startswith(GONE)
        }
        try:
            return super().change_schedule(command)
        finally:
            self.tables.quotas = quotas


class GoneEverywhere(MemoryStore):
    """Tells one tenant of another's owners."""

    def list_gone(self, tenant, after, limit):
        tenants = dict.fromkeys((tenant, "default", "acme"))
        return [gone for one in tenants for gone in MemoryStore.list_gone(self, one, after, limit)]


class MakesItAllTheSame(MemoryStore):
    """Does not look for who is gone when a schedule is made."""

    def create_schedule(self, command):
        quotas = self.tables.quotas
        self.tables.quotas = {
            key: one for key, one in quotas.items() if not key[0].scope.startswith(GONE)
        }
        try:
            return super().create_schedule(command)
        finally:
            self.tables.quotas = quotas


class ForgetsWhoComesBack(MemoryStore):
    """Finds what is active, and not what will be again by itself."""

    def list_active_of(self, tenant, owner, limit):
        found = super().list_active_of(tenant, owner, limit)
        return [one for one in found if self.tables.schedules[one].status is ScheduleStatus.ACTIVE]


class GoneAreQuotas(MemoryStore):
    """Lists who is gone among quotas."""

    def list_quotas(self):
        return list(self.tables.quotas.values())


class SaysItTwice(MemoryStore):
    """Takes what is said again for something new."""

    def mark_gone(self, command):
        self.tables.quotas = {
            key: one for key, one in self.tables.quotas.items() if not key[0].scope.startswith(GONE)
        }
        return super().mark_gone(command)


class SilentOwners(MemoryStore):
    """Has an owner back without a word on the trail."""

    def mark_back(self, command):
        found = super().mark_back(command)
        del self.tables.audit[max(self.tables.audit)]
        return found


OWNER_DEFECTS = [
    (GoneForTheNewOnly, "test_what_rests_is_not_woken_for_an_owner_who_is_gone"),
    (GoneEverywhere, "test_those_who_are_gone_are_listed_by_name_and_tenant"),
    (MakesItAllTheSame, "test_nothing_new_is_made_for_an_owner_who_is_gone"),
    (ForgetsWhoComesBack, "test_what_still_fires_for_them_is_found_until_it_is_paused"),
    (GoneAreQuotas, "test_those_who_are_gone_are_listed_by_name_and_tenant"),
    (SaysItTwice, "test_what_is_said_of_owners_is_on_record_once"),
    (SilentOwners, "test_what_is_said_of_owners_is_on_record_once"),
]
