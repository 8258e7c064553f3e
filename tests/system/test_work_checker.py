"""The checker of workers is proved first: sound evidence passes, each seeded defect is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.system.work_checker import count_overlaps, work_violations
from tests.system.work_evidence import (
    Attempt,
    Eviction,
    Fate,
    Left,
    Mark,
    Told,
    WorkEvidence,
    read_told,
)

SECOND = 1_000_000
DUE = 1_000 * SECOND
RUN = "ab" * 16
KILLED, ALIVE = 11, 22


def at(second: float) -> int:
    return DUE + int(second * SECOND)


def mark(kind: str, fence: int, second: float, **fields: Any) -> Mark:
    numbers = {"attempt": fields.pop("attempt", fence), "process": fields.pop("process", ALIVE)}
    return Mark(kind=kind, run=RUN, fence=fence, at=at(second), **numbers, **fields)


def attempt(fence: int, claimed: float, ended: float, **fields: Any) -> Attempt:
    made = Attempt(
        run=RUN,
        fence=fence,
        number=fence,
        state="failed",
        reason="error",
        process=ALIVE,
        claimed_at=at(claimed),
        ended_at=at(ended),
    )
    return replace(made, **fields)


def evidence(**fields: Any) -> WorkEvidence:
    """Return a run's story: lost by a killed worker, failed, snoozed, given back, and done."""
    made: dict[str, Any] = {
        "marks": [
            mark("start", 1, 0.1, process=KILLED),
            mark("start", 2, 6.0),
            mark("end", 2, 6.2, said="failed"),
            mark("start", 3, 8.0),
            mark("end", 3, 8.1, said="snoozed", wait_us=SECOND),
            mark("start", 5, 10.0, attempt=4),
            mark("end", 5, 10.1, said="done"),
        ],
        "attempts": [
            attempt(1, 0.0, 5.0, state="lost", reason="lost", process=KILLED),
            attempt(2, 5.9, 6.3),
            attempt(3, 7.9, 8.2, state="given-back", reason="snoozed"),
            attempt(4, 9.3, 9.4, number=None, state="given-back", reason="not-started"),
            attempt(5, 9.9, 10.2, number=4, state="succeeded", reason=None),
        ],
        "fates": [
            Fate(run=RUN, task="flaky", state="succeeded", reason=None, due_at=DUE, charged=3)
        ],
        "budgets": {"flaky": 3},
        "waits": {(RUN, 1): SECOND // 2, (RUN, 2): SECOND},
        "told": [
            Told(event="attempt-failed", run=RUN, number=2, state="failed"),
            Told(event="run-succeeded", run=RUN, number=4, state="succeeded"),
            Told(event="completion-refused", run=RUN, number=1, state="succeeded"),
        ],
        "left": [Left(ALIVE, at(11))],
        "evictions": [Eviction(KILLED, at(5))],
        "harmed": {KILLED},
        "refused": [(RUN, 1)],
    }
    return WorkEvidence(**(made | fields))


SOUND = evidence()


def with_mark(place: int, **fields: Any) -> WorkEvidence:
    changed = list(SOUND.marks)
    changed[place] = replace(changed[place], **fields)
    return evidence(marks=changed)


def with_attempt(place: int, **fields: Any) -> WorkEvidence:
    changed = list(SOUND.attempts)
    changed[place] = replace(changed[place], **fields)
    return evidence(attempts=changed)


def with_fate(**fields: Any) -> WorkEvidence:
    return evidence(fates=[replace(SOUND.fates[0], **fields)])


def without(name: str, place: int) -> WorkEvidence:
    kept = list(getattr(SOUND, name))
    del kept[place]
    return evidence(**{name: kept})


DEFECTS = {
    "a start that no record knows": ("unrecorded", without("attempts", 1)),
    "a start with another number than is recorded": ("misnumbered", with_mark(1, attempt=3)),
    "a start of what is recorded as not started": ("misnumbered", with_attempt(1, number=None)),
    "a hole in the numbers": ("misnumbered", with_attempt(4, number=5)),
    "a number that is used twice": ("misnumbered", with_attempt(4, number=3)),
    "two records of one claim": ("twice", with_attempt(3, fence=5)),
    "a claim that was started twice": (
        "twice",
        evidence(marks=[*SOUND.marks, mark("start", 5, 10.05, attempt=4)]),
    ),
    "a run of nobody": (
        "stranger",
        evidence(marks=[*SOUND.marks, replace(SOUND.marks[0], run="cd" * 16)]),
    ),
    "a run that still waits": ("unsettled", with_fate(state="retrying")),
    "a run that is still claimed": ("unsettled", with_attempt(1, ended_at=None)),
    "a dead run without a cause": ("unsettled", with_fate(state="dead")),
    "a run in two places": ("twice", with_fate(places=2)),
    "a run in no place": ("twice", with_fate(places=0)),
    "two successes": ("twice", with_attempt(1, state="succeeded")),
    "two workers that were told of their success": (
        "twice",
        evidence(told=[*SOUND.told, replace(SOUND.told[1], number=2)]),
    ),
    "a success that its code knows nothing of": ("invented", with_mark(6, said="failed")),
    "a success whose code never ended": ("invented", without("marks", 6)),
    "an outcome that no attempt has": ("contradiction", with_fate(state="failed")),
    "a success that is none": ("contradiction", with_attempt(4, state="failed")),
    "more charged attempts than the budget has": (
        "beyond its budget",
        evidence(budgets={"flaky": 2}),
    ),
    "more starts than the budget has": (
        "beyond its budget",
        evidence(
            marks=[*SOUND.marks, mark("start", 6, 11.0), mark("start", 7, 12.0)],
        ),
    ),
    "a charge for what was given back": ("mischarged", with_fate(charged=4)),
    "an attempt that nobody was charged for": ("mischarged", with_fate(charged=2)),
    "a death of a budget that was not used up": (
        "mischarged",
        evidence(
            budgets={"flaky": 9},
            fates=[replace(SOUND.fates[0], state="dead", reason="budget")],
        ),
    ),
    "an attempt that a worker lost that left in good order": (
        "mischarged",
        evidence(left=[Left(KILLED, at(1))]),
    ),
    "a start before it was due": ("early", with_mark(0, at=DUE - 1)),
    "a claim before the backoff was over": ("early", with_attempt(2, claimed_at=at(7.2))),
    "a start before the backoff was over": ("early", with_mark(3, at=at(7.2))),
    "a claim before the backoff of a lost attempt was over": (
        "early",
        with_attempt(1, claimed_at=at(5.4)),
    ),
    "a start before the wait that its code asked for": (
        "early",
        with_attempt(3, claimed_at=at(9.1)),
    ),
    "a wait that begins before its code asked for it": (
        "early",
        evidence(
            marks=[*SOUND.marks[:4], replace(SOUND.marks[4], at=at(8.5)), *SOUND.marks[5:]],
        ),
    ),
    "two executions at once that nobody took away": ("at once", with_mark(2, at=at(8.05))),
    "an execution that began after its run was done elsewhere": (
        "at once",
        with_mark(1, at=at(11)),
    ),
    "an acknowledged success that is gone": (
        "forgotten",
        evidence(told=[*SOUND.told, replace(SOUND.told[1], number=3)]),
    ),
    "an acknowledged failure that is gone": (
        "forgotten",
        evidence(told=[*SOUND.told, replace(SOUND.told[0], number=5)]),
    ),
    "a refused word that is not on record": ("unrecorded", evidence(refused=[])),
    "a worker that was evicted alive": ("evicted", evidence(harmed=set())),
    "a store that finds itself unsound": ("unsound", evidence(findings=["a claim without a run"])),
}


def test_sound_evidence_passes():
    assert [] == work_violations(SOUND)


@pytest.mark.parametrize("name", DEFECTS)
def test_each_seeded_defect_is_found(name):
    kind, defective = DEFECTS[name]

    assert kind in {one.partition(":")[0] for one in work_violations(defective)}


def test_a_lost_attempt_that_went_on_is_counted_and_allowed():
    """Nobody can stop a worker that stands still; its word is refused, and it has a fence."""
    went_on = evidence(marks=[*SOUND.marks, mark("end", 1, 9.0, process=KILLED, said="done")])

    assert [] == work_violations(went_on)
    assert 2 == count_overlaps(went_on)
    assert 0 == count_overlaps(SOUND)


def test_a_word_that_was_kept_with_its_attempt_is_on_record():
    assert [] == work_violations(replace(with_attempt(0, late_state="succeeded"), refused=[]))


def test_a_lease_that_ran_out_in_an_outage_is_explained():
    outage = (at(1), at(2))

    assert [] == work_violations(evidence(harmed=set(), outages=[outage]))


def test_half_a_line_of_a_killed_worker_is_passed_over():
    line = '{"event": "run-succeeded", "run_id": "a-b", "attempt_id": "a-b.2", "state": "x"}'

    assert [Told(event="run-succeeded", run="ab", number=2, state="x")] == read_told(
        [line[:20], line, "working on it", "7", '{"event": "joined"}']
    )
