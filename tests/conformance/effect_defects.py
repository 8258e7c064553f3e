"""Stores that are broken about effects and doubt, and the test that is meant for each."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from duly.domain.effects import EffectState
from duly.domain.enums import Effects, Origin
from duly.domain.runs import AttemptCounts
from duly.errors import LeaseLost
from duly.store.memory import MemoryStore
from duly.store.memory.tables import Ready
from duly.store.ports.dispatch import MemberId
from duly.store.ports.execution import ClaimRef


class PermitsTheStale(MemoryStore):
    """Takes whoever asks for the holder."""

    def begin_effect(self, command):
        claim = self.tables.claims[command.hold.run_id]
        hold = ClaimRef(command.hold.run_id, claim.tries.fence)
        return super().begin_effect(replace(command, worker=MemberId(claim.worker), hold=hold))


class ForgetsTheBoundary(MemoryStore):
    """Permits, and notes nothing on the claim."""

    def begin_effect(self, command):
        begun = super().begin_effect(command)
        run_id = command.hold.run_id
        self.tables.claims[run_id] = replace(self.tables.claims[run_id], effects_at=None)
        return begun


class OverlooksThePermission(MemoryStore):
    """Carries out what was decided about a lost claim before it was permitted anything."""

    def settle_lost(self, command):
        losses = []
        for loss in command.losses:
            claim = self.tables.claims[loss.claim.hold.run_id]
            seen = replace(loss.claim, effects_at=claim.effects_at)
            losses.append(replace(loss, claim=seen))
        return super().settle_lost(replace(command, losses=tuple(losses)))


class RepeatsTheUnknown(MemoryStore):
    """Permits an unsafe task what may have happened before."""

    def begin_effect(self, command):
        return super().begin_effect(replace(command, effects=Effects.IDEMPOTENT))


class DoesItAgain(MemoryStore):
    """Knows nothing of effects that earlier attempts have done."""

    def begin_effect(self, command):
        for place, known in list(self.tables.effects.items()):
            if known.fence != command.hold.fence:
                del self.tables.effects[place]
        return super().begin_effect(command)


class ReadsIntentionsAsTheyStand(MemoryStore):
    """Leaves what an attempt intended as it was when the attempt ended."""

    def list_effects(self, run_id, limit):
        found = super().list_effects(run_id, limit)
        return [replace(one, state=EffectState.INTENDED) for one in found]


class FreesTheGateInDoubt(MemoryStore):
    """Lets the next pass a maybe."""

    def finish_runs(self, worker, finishes):
        finished = super().finish_runs(worker, finishes)
        for run_id in self.tables.in_doubt:
            self.tables.held_gates.pop(run_id, None)
        return finished


class SilentChoice(MemoryStore):
    """Keeps no record of what a person decided."""

    def settle_doubt(self, command):
        record = super().settle_doubt(command)
        for number, entry in list(self.tables.audit.items()):
            if entry.action == "run.settled":
                del self.tables.audit[number]
        return record


class SettlesForOthers(MemoryStore):
    """Takes back what another run of the line intends, when a person settles a doubt."""

    def settle_doubt(self, command):
        record = super().settle_doubt(command)
        for place, known in list(self.tables.effects.items()):
            if known.state is EffectState.INTENDED:
                del self.tables.effects[place]
        return record


class SharesEveryLedger(MemoryStore):
    """Takes every rerun for a repair."""

    def rerun_run(self, command):
        record = super().rerun_run(command)
        repair = replace(self.tables.runs[record.id], origin=Origin.REPAIR)
        self.tables.runs[record.id] = repair
        return self.get_run(record.id)


class LeavesItUnknown(MemoryStore):
    """Closes a run that a person has looked into, and leaves its effects as they are."""

    def settle_doubt(self, command):
        before = dict(self.tables.effects)
        record = super().settle_doubt(command)
        self.tables.effects.update(before)
        return record


class ClosesWithItemsMissing(MemoryStore):
    """Takes the word of whoever says that it is done."""

    def settle_doubt(self, command):
        return super().settle_doubt(replace(command, is_despite_missing=True))


class RepairsBesideTheRepair(MemoryStore):
    """Queues a repair of what is being repaired."""

    def rerun_run(self, command):
        repairs = {run: row for run, row in self.tables.runs.items() if row.origin is Origin.REPAIR}
        for run in repairs:
            if run not in {command.new_id, command.id}:
                self.tables.runs[run] = replace(self.tables.runs[run], origin=Origin.RERUN)
        record = super().rerun_run(command)
        self.tables.runs.update(repairs)
        return record


class CutsTheLedger(MemoryStore):
    """Leaves out of a long ledger what came last, whatever is known of it."""

    def list_effects(self, run_id, limit):
        return super().list_effects(run_id, 1 << 20)[:limit]


class CountsOneAttemptOnce(MemoryStore):
    """Takes an item that an attempt has done twice for one that it has done once."""

    def report(self, worker, reports):
        told = [
            one if one.scope is None else replace(one, scope=replace(one.scope, repeated=()))
            for one in reports
        ]
        return super().report(worker, told)


class RepeatsWhatWasRepeated(MemoryStore):
    """Does not look whether somebody was faster."""

    def rerun_run(self, command):
        return super().rerun_run(replace(command, alone_since=None))


class RepeatsWhatWasTried(MemoryStore):
    """Does not look whether a run was tried again since it was seen."""

    def rerun_run(self, command):
        return super().rerun_run(replace(command, fence=None))


class GoesBesideTheOpen(MemoryStore):
    """Queues a rerun whoever is open."""

    def rerun_run(self, command):
        record = super().rerun_run(command)
        self.tables.blocked.pop(record.id, None)
        now = self.now()
        self.tables.ready.setdefault(record.id, Ready(now, now, AttemptCounts()))
        return self.get_run(record.id)


class CountsEveryWord(MemoryStore):
    """Takes a repeated report of an item for a second time that it was done."""

    def report(self, worker, reports):
        for place, item in self.tables.scope_items.items():
            self.tables.scope_items[place] = item._replace(by=None)
        return super().report(worker, reports)


class ForgetsTheLineEarly(MemoryStore):
    """Forgets the ledger with the first run of a line."""

    def prune(self, command):
        pruned = super().prune(command)
        for place in [one for one in self.tables.effects if one[0] not in self.tables.runs]:
            del self.tables.effects[place]
        return pruned


class CommitsWhatWasLost(MemoryStore):
    """Leaves it to the caller to undo what he wrote about a run that he lost."""

    def finish_within(self, within, worker, finish):
        try:
            super().finish_within(within, worker, finish)
        except LeaseLost:
            within._loan._refusal = None  # noqa: SLF001 - the defect is in there
            raise


class EndsAgainWithin(MemoryStore):
    """Takes an end that is told again for an answer that was lost, whatever is written with it."""

    def finish_within(self, within, worker, finish):
        with suppress(LeaseLost):
            super().finish_within(within, worker, finish)
        within._loan._refusal = None  # noqa: SLF001 - the defect is in there


class TakesSuccessForProof(MemoryStore):
    """Tells a run that succeeded as one whose work was found in place."""

    def list_last_ends(self, schedule_ids, limit, **terms):
        found = super().list_last_ends(schedule_ids, limit, **terms)
        return {one: replace(ends, verified=ends.success) for one, ends in found.items()}


class TakesUnknownForNever(MemoryStore):
    """Forgets how far back it could look."""

    def list_last_ends(self, schedule_ids, limit, **terms):
        found = super().list_last_ends(schedule_ids, limit, **terms)
        return {one: replace(ends, unknown_through=None) for one, ends in found.items()}


EFFECT_DEFECTS = [
    (PermitsTheStale, "test_who_no_longer_holds_the_run_gets_no_permission[mail]"),
    (ForgetsTheBoundary, "test_a_worker_that_is_lost_beyond_the_boundary_leaves_doubt"),
    (
        OverlooksThePermission,
        "test_a_permission_that_came_after_it_was_found_lost_is_not_overlooked[mail]",
    ),
    (RepeatsTheUnknown, "test_what_an_attempt_left_open_is_unknown"),
    (DoesItAgain, "test_an_effect_that_is_done_keeps_its_result_and_is_not_done_again"),
    (ReadsIntentionsAsTheyStand, "test_what_an_attempt_left_open_is_unknown"),
    (FreesTheGateInDoubt, "test_what_is_serialized_with_a_doubt_waits_for_it"),
    (SilentChoice, "test_it_goes_on_as_the_same_run_with_a_fresh_budget[retry]"),
    (
        SettlesForOthers,
        "test_a_settled_doubt_leaves_alone_what_another_run_of_the_line_intends",
    ),
    (SharesEveryLedger, "test_a_repair_shares_the_ledger_and_a_rerun_begins_its_own"),
    (LeavesItUnknown, "test_what_is_recorded_as_done_has_its_effects_done"),
    (ClosesWithItemsMissing, "test_what_is_closed_with_items_missing_is_closed_on_purpose"),
    (RepairsBesideTheRepair, "test_what_is_being_repaired_is_not_repaired_beside_that"),
    (CutsTheLedger, "test_of_a_long_ledger_no_unknown_effect_is_overlooked"),
    (CountsOneAttemptOnce, "test_an_item_that_one_attempt_repeats_is_counted_as_repeated"),
    (
        RepeatsWhatWasRepeated,
        "test_what_was_run_once_more_since_it_was_seen_is_left_alone",
    ),
    (
        RepeatsWhatWasTried,
        "test_what_had_another_attempt_since_it_was_seen_is_left_alone",
    ),
    (GoesBesideTheOpen, "test_a_rerun_waits_for_a_run_that_is_open"),
    (CountsEveryWord, "test_the_same_attempt_saying_it_twice_says_it_once"),
    (ForgetsTheLineEarly, "test_what_runs_have_in_common_goes_with_the_last_of_them"),
    (CommitsWhatWasLost, "test_who_lost_the_run_writes_nothing"),
    (EndsAgainWithin, "test_an_attempt_that_has_ended_does_not_end_again"),
    (TakesSuccessForProof, "test_succeeded_and_verified_and_wrong_are_told_apart"),
    (TakesUnknownForNever, "test_what_is_no_longer_kept_is_unknown_and_not_never"),
]
