"""Stores that are broken about limits, and the test of the contract that is meant for each."""

from __future__ import annotations

from dataclasses import replace

from duly.store.memory import MemoryStore


class JudgesEachEnd(MemoryStore):
    """Takes in the ends of a batch one after the other: what comes first weighs more."""

    def finish_runs(self, worker, finishes):
        ends = [super(JudgesEachEnd, self).finish_runs(worker, [one]) for one in finishes]
        return replace(ends[0], results=tuple(one.results[0] for one in ends))


LIMIT_DEFECTS = [
    (JudgesEachEnd, "test_a_batch_of_ends_is_judged_as_a_whole[False]"),
]
