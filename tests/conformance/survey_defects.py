"""Defects in answers about many at once."""

from __future__ import annotations

from dataclasses import replace

from duly.domain.verification import Scope
from duly.store.memory import MemoryStore


class JudgesByTheFirst(MemoryStore):
    """Judges the occurrences of all schedules as if they were those of the first."""

    def judge_many(self, asked):
        return super().judge_many([one._replace(schedule_id=asked[0].schedule_id) for one in asked])


class ForgetsTheDeleted(MemoryStore):
    """Finds no schedule that was deleted."""

    def get_schedules(self, ids):
        found = super().get_schedules(ids)
        return {one: record for one, record in found.items() if record.status != "deleted"}


class TellsTheOldest(MemoryStore):
    """Returns the first runs of a schedule in place of its last."""

    def list_newest_runs(self, ids, limit):
        found = super().list_newest_runs(ids, 1000)
        return {one: runs[-limit:] for one, runs in found.items()}


class SharesTheLedger(MemoryStore):
    """Tells of every run the effects of one."""

    def read_evidence(self, run_ids):
        found = super().read_evidence(run_ids)
        most = max((one.effects for one in found.values()), key=len, default=())
        return {one: replace(evidence, effects=most) for one, evidence in found.items()}


class ForgetsTheLine(MemoryStore):
    """Tells of runs that repeat another one no scope."""

    def read_findings(self, run_ids):
        found = super().read_findings(run_ids)
        known = self.get_runs(run_ids)
        again = {one for one, run in known.items() if run.origin == "repair"}
        return {
            one: told._replace(scope=Scope()) if one in again else told
            for one, told in found.items()
        }


SURVEY_DEFECTS = [
    (JudgesByTheFirst, "test_occurrences_of_many_are_judged_as_those_of_each"),
    (ForgetsTheDeleted, "test_schedules_and_their_templates_are_found_by_id"),
    (TellsTheOldest, "test_the_newest_runs_of_each_are_found"),
    (SharesTheLedger, "test_what_is_on_record_about_runs_is_read_together"),
    (ForgetsTheLine, "test_what_runs_brought_about_is_read_together"),
]
