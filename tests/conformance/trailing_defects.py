"""Defects in following the audit trail, each with the test that must notice it."""

from __future__ import annotations

from dataclasses import replace

from duly.store.memory import MemoryStore
from duly.store.ports.audit import TrailPage


class LooksAtOneTenant(MemoryStore):
    """Goes on from the last entry that it told: what others wrote is looked at for ever."""

    def follow_audit(self, command):
        page = super().follow_audit(command)
        told = page.entries[-1].number if page.entries else command.after or 0
        return TrailPage(page.entries, told)


class BeginsAtTheBeginning(MemoryStore):
    """Takes "from now on" for "from the beginning"."""

    def follow_audit(self, command):
        return super().follow_audit(replace(command, after=command.after or 0))


class TellsAllTenants(MemoryStore):
    """Shows everybody's entries to everybody."""

    def follow_audit(self, command):
        return super().follow_audit(replace(command, tenant=None))


class ForgetsFromWhere(MemoryStore):
    """Keeps who it was, and drops from where."""

    def list_audit(self, command):
        known = super().list_audit(command)
        return [replace(one, actor=replace(one.actor, address=None)) for one in known]


PASSING = "test_who_follows_one_tenant_passes_over_the_others"
TRAILING_DEFECTS = [
    (
        ForgetsFromWhere,
        "test_an_entry_tells_from_which_address_and_by_what_an_order_came",
    ),
    (LooksAtOneTenant, PASSING),
    (TellsAllTenants, PASSING),
    (BeginsAtTheBeginning, "test_who_begins_now_sees_what_comes"),
]
