"""Stores that are broken about shares, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.enums import Lane
from duly.store.memory import MemoryStore


class OneTenantAfterTheOther(MemoryStore):
    """Serves the first tenant until nothing of his is left."""

    def claim_runs(self, command):
        one = replace(command, limit=1, served={})
        claims = [super(OneTenantAfterTheOther, self).claim_runs(one) for _ in range(command.limit)]
        return replace(claims[0], runs=tuple(run for claimed in claims for run in claimed.runs))


class ForgetsWhoWasServed(MemoryStore):
    """Begins every claim with the same tenant."""

    def claim_runs(self, command):
        return super().claim_runs(replace(command, served={}))


class OneTurnForAllQueues(MemoryStore):
    """Takes who was served in one queue for served in all."""

    def claim_runs(self, command):
        claimed = super().claim_runs(command)
        last = [*claimed.served.values()][-1:]
        return replace(claimed, served={queue: one for queue in command.served for one in last})


class LiveFirstAlways(MemoryStore):
    """Begins with what is live, whatever it is asked for."""

    def claim_runs(self, command):
        return super().claim_runs(replace(command, first_lane=Lane.LIVE))


SHARING_DEFECTS = [
    (OneTenantAfterTheOther, "test_what_one_leaves_goes_to_the_others"),
    (ForgetsWhoWasServed, "test_tenants_take_turns_when_there_is_one_slot"),
    (ForgetsWhoWasServed, "test_tenants_that_do_not_fit_into_a_claim_have_the_next"),
    (OneTurnForAllQueues, "test_queues_keep_turns_of_their_own"),
    (LiveFirstAlways, "test_tenants_share_within_another_lane"),
]
