"""The checker is proved first: sound evidence passes, and each seeded defect is found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.system.checker import violations
from tests.system.evidence import DONE, Evidence, Order, Sight, Span, Standing

SECOND = 1_000_000
BEGAN = 1_000 * SECOND
UNTIL = BEGAN + 10 * SECOND
SCHEDULE = "5c" * 16


def order(kind: str, subject: str, at: int, **fields: int) -> Order:
    return Order(
        kind=kind, subject=subject, asked_at=at, answered_at=at + 10, answer=DONE, **fields
    )


def fired(number: int, at: int, **fields: object) -> Sight:
    sight = Sight(
        id=f"{number:032x}",
        schedule=SCHEDULE,
        key=None,
        scheduled_for=at,
        not_before=at,
        fired_at=at + 5,
        state="queued",
        lane="live",
        seen_at=at + 20,
    )
    return replace(sight, **fields)  # type: ignore[arg-type]


def evidence(runs: list[Sight] | None = None) -> Evidence:
    """Return what a healthy ten seconds leave behind, or with other runs."""
    occurrences = [fired(at, BEGAN + at * SECOND) for at in range(1, 11) if at != 4]
    reminder = fired(
        100, BEGAN + SECOND // 2, schedule=None, key="reminder", seen_at=BEGAN + SECOND
    )
    chosen = [*occurrences, reminder] if runs is None else runs
    return Evidence(
        orders=[
            order("create", "nightly", BEGAN + 1, period_us=SECOND),
            order("enqueue", "reminder", BEGAN + 2, due_at=BEGAN + SECOND // 2),
        ],
        sights=chosen,
        kept=chosen,
        skips=[Span(SCHEDULE, BEGAN + 4 * SECOND, BEGAN + 4 * SECOND)],
        owed=[],
        schedules=[Standing(SCHEDULE, "nightly", "active", BEGAN + 5, UNTIL + SECOND)],
        until=UNTIL,
    )


SOUND = evidence()
RUNS = SOUND.kept
CANCEL = order("cancel", "reminder", BEGAN + 3)
MOVE = order("move", "reminder", BEGAN + 3, due_at=BEGAN + 3 * SECOND)
PAUSE = order("pause", "nightly", BEGAN + 5 * SECOND + 100)


def with_runs(place: int, **fields: object) -> Evidence:
    changed = list(RUNS)
    changed[place] = replace(changed[place], **fields)  # type: ignore[arg-type]
    return evidence(changed)


DEFECTS = {
    "a run seen before its time": ("early", with_runs(0, seen_at=BEGAN + SECOND - 1)),
    "a run fired before its time": ("early", with_runs(0, fired_at=BEGAN + SECOND - 1)),
    "a run that hides its early fire behind another label": (
        "early",
        with_runs(0, scheduled_for=BEGAN, fired_at=BEGAN, seen_at=BEGAN + 1),
    ),
    "an occurrence without a verdict": ("hole", evidence(RUNS[1:])),
    "a skip that was never recorded": ("hole", replace(SOUND, skips=[])),
    "an occurrence that is still pending": (
        "unsettled",
        replace(
            evidence(RUNS[:8] + RUNS[9:]),
            schedules=[Standing(SCHEDULE, "nightly", "active", BEGAN + 5, UNTIL)],
        ),
    ),
    "two runs of one occurrence": (
        "twice",
        evidence([*RUNS, replace(RUNS[0], id="second")]),
    ),
    "two runs that claim to be different occurrences": (
        "early",
        evidence([*RUNS, fired(200, UNTIL + SECOND, fired_at=UNTIL, seen_at=UNTIL)]),
    ),
    "an occurrence that was run and skipped": (
        "twice",
        evidence([*RUNS, fired(4, BEGAN + 4 * SECOND)]),
    ),
    "a run of no occurrence": ("stranger", evidence([*RUNS, fired(7, BEGAN + 7 * SECOND + 1)])),
    "a schedule that was acknowledged and is gone": ("lost", replace(SOUND, schedules=[])),
    "a delayed run that was acknowledged and is gone": ("lost", evidence(RUNS[:-1])),
    "a delayed run that fired twice": (
        "twice",
        evidence([*RUNS, replace(RUNS[-1], id="second")]),
    ),
    "a delayed run that fired for an instant it was moved from": (
        "stranger",
        replace(SOUND, orders=[*SOUND.orders, MOVE]),
    ),
    "a delayed run that fired and was cancelled": (
        "unwanted",
        replace(SOUND, orders=[*SOUND.orders, CANCEL]),
    ),
    "a cancelled run without a record": (
        "lost",
        replace(evidence(RUNS[:-1]), orders=[*SOUND.orders, CANCEL]),
    ),
    "a fire while it was paused": ("unwanted", replace(SOUND, orders=[*SOUND.orders, PAUSE])),
    "a run that was seen and is gone": ("unmade", replace(SOUND, kept=RUNS[1:])),
    "a run that is not what it was": (
        "rewritten",
        replace(SOUND, sights=with_runs(0, fired_at=BEGAN + 2 * SECOND).kept),
    ),
    "a run that the observer never saw": ("unseen", replace(SOUND, sights=RUNS[1:])),
    "an error that no dispatcher foresaw": ("defect", replace(SOUND, unforeseen=["a defect"])),
    "an answer that no fault explains": (
        "defect",
        replace(SOUND, orders=[*SOUND.orders[:1], replace(SOUND.orders[1], answer="a defect")]),
    ),
    "a schedule that nobody asked for": (
        "stranger",
        replace(SOUND, orders=SOUND.orders[1:]),
    ),
}


def test_sound_evidence_passes():
    assert [] == violations(SOUND)


@pytest.mark.parametrize(("kind", "seeded"), DEFECTS.values(), ids=DEFECTS)
def test_a_seeded_defect_is_found(kind, seeded):
    assert kind in {one.partition(":")[0] for one in violations(seeded)}


def test_an_order_without_an_answer_may_have_happened_or_not():
    """A client that was killed in the middle of a call was told nothing."""
    cancel = replace(CANCEL, answer=None, answered_at=None)
    cancelled = replace(RUNS[-1], state="cancelled", fired_at=None)

    for last in (RUNS[-1], cancelled):
        told = replace(evidence([*RUNS[:-1], last]), orders=[*SOUND.orders, cancel])

        assert [] == violations(told)


def test_a_create_without_an_answer_may_have_left_nothing():
    unheard = replace(SOUND.orders[0], answer=None, answered_at=None)
    nothing = replace(
        evidence(RUNS[-1:]), orders=[unheard, SOUND.orders[1]], schedules=[], skips=[]
    )

    assert [] == violations(nothing)
