"""Stores that are broken about moving promises, and the test that is meant for each."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

from duly.store.memory import MemoryStore
from duly.store.ports.transfer import LEDGER, TransferUnit


def _without(bundles, parts):
    for bundle in bundles:
        rows = {name: rows for name, rows in bundle.rows.items() if name not in parts}
        yield TransferUnit(bundle.kind, rows)


class ForgetsTheLedger(MemoryStore):
    """Takes runs in, and not what they have done."""

    def import_promises(self, command):
        return super().import_promises(replace(command, bundles=_without(command.bundles, LEDGER)))


class ForgetsWhatIsOwed(MemoryStore):
    """Hands out what is pending, and not what is owed."""

    @contextmanager
    def export_promises(self, *, has_history):
        with super().export_promises(has_history=has_history) as exported:
            yield replace(exported, bundles=_without(exported.bundles, ("owed",)))


class TakesItAgain(MemoryStore):
    """Knows nothing of what it has imported before."""

    def import_promises(self, command):
        number = len(self.tables.audit)
        return super().import_promises(replace(command, id=number.to_bytes(16)))


class LeavesHalf(MemoryStore):
    """Keeps what was written before it came to something that is in the way."""

    def import_promises(self, command):
        for bundle in command.bundles:
            super().import_promises(replace(command, id=bytes(16), bundles=[bundle]))
            self.tables.audit.clear()


class TrustsAnyClock(MemoryStore):
    """Does not look at when it was exported."""

    def import_promises(self, command):
        return super().import_promises(replace(command, as_of=0))


class ForgetsAtOnce(MemoryStore):
    """Says of what is over that it never was."""

    @contextmanager
    def export_promises(self, *, has_history):
        with super().export_promises(has_history=has_history) as exported:
            yield replace(exported, bundles=map(_unpruned, exported.bundles))


def _unpruned(bundle):
    if "schedule_state" not in bundle.rows:
        return bundle
    state = bundle.rows["schedule_state"][0] | {"pruned_through": None}
    return TransferUnit(bundle.kind, {**bundle.rows, "schedule_state": [state]})


MOVING_DEFECTS = [
    (ForgetsTheLedger, "test_what_was_running_is_lost_and_what_it_did_is_not_repeated"),
    (ForgetsWhatIsOwed, "test_all_that_is_promised_arrives"),
    (TakesItAgain, "test_the_same_export_again_changes_nothing"),
    (LeavesHalf, "test_a_conflict_leaves_nothing_behind"),
    (TrustsAnyClock, "test_a_store_whose_clock_is_behind_takes_nothing"),
    (ForgetsAtOnce, "test_without_history_what_is_over_is_unknown_and_not_missing"),
]
