"""Stores that are broken about workers out of service, and the test that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.store.memory import MemoryStore


class AsksTheWorkerOnly(MemoryStore):
    """Tells the worker, and leaves the rest to it."""

    def claim_runs(self, command):
        member = self.tables.members[command.worker]
        self.tables.members[command.worker] = replace(member, standing=None)
        claimed = super().claim_runs(command)
        self.tables.members[command.worker] = member
        return claimed


class TellsNobody(MemoryStore):
    """Refuses, and does not say why."""

    def beat(self, command):
        return replace(super().beat(command), standing=None)


class ForgetsWhoJoinsAnew(MemoryStore):
    """Takes everybody who joins for a new one."""

    def join(self, command):
        member, now = super().join(command)
        self.tables.members[member] = replace(self.tables.members[member], standing=None)
        return member, now


class FencesNothing(MemoryStore):
    """Puts it into quarantine, and leaves it what it holds."""

    def order_worker(self, command):
        return super().order_worker(replace(command, is_fenced=False))


class SilentStanding(MemoryStore):
    """Carries the order out, and tells nobody."""

    def order_worker(self, command):
        member = super().order_worker(command)
        self.tables.audit.clear()
        return member


STANDING_DEFECTS = [
    (AsksTheWorkerOnly, "test_it_claims_nothing_more_and_finishes_what_it_holds[draining]"),
    (TellsNobody, "test_its_beat_tells_it[quarantined]"),
    (ForgetsWhoJoinsAnew, "test_a_process_that_joins_anew_stays_in_quarantine"),
    (FencesNothing, "test_fenced_off_it_loses_what_it_holds"),
    (SilentStanding, "test_who_ordered_it_and_why_is_on_record"),
]
