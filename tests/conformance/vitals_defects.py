"""Defects in what vitals and the search for the missing rest on."""

from __future__ import annotations

from duly.domain.runs import OccurrenceStatus, OccurrenceStatusKind
from duly.store.memory import MemoryStore


class ForgetsTheFault(MemoryStore):
    """Tells a run's last fault as none, once a later attempt has made it good."""

    def list_run_vitals(self, command):
        found = super().list_run_vitals(command)
        return [one._replace(fault=None) if one.state == "succeeded" else one for one in found]


class ForgetsTheHeartbeat(MemoryStore):
    """Says that an attempt lives, and not when its worker was last heard of."""

    def list_run_vitals(self, command):
        return [one._replace(heartbeat_at=None) for one in super().list_run_vitals(command)]


class KnowsOnlyTheNewestTemplate(MemoryStore):
    """Forgets what was intended before an edit."""

    def list_definitions(self, schedule_id, limit):
        return super().list_definitions(schedule_id, 1)


class TakesPrunedForMissing(MemoryStore):
    """Reports what retention has removed."""

    def judge_many(self, asked):
        return [
            [
                OccurrenceStatus(one.scheduled_for, OccurrenceStatusKind.MISSING)
                if one.kind is OccurrenceStatusKind.UNKNOWN
                else one
                for one in verdicts
            ]
            for verdicts in super().judge_many(asked)
        ]


VITALS_DEFECTS = [
    (
        ForgetsTheFault,
        "test_a_fault_is_told_by_its_end_also_where_it_was_made_good",
    ),
    (ForgetsTheHeartbeat, "test_an_attempt_that_lives_tells_its_heartbeat_and_how_far_it_is"),
    (KnowsOnlyTheNewestTemplate, "test_each_version_of_a_template_tells_when_it_was_written"),
    (TakesPrunedForMissing, "test_what_was_pruned_is_unknown"),
]
