"""The checker of effects is proved first: sound evidence passes, each seeded lie is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from tests.system.bank import Entry
from tests.system.effects_checker import count_doubts, effects_violations
from tests.system.effects_evidence import Decision, Doubt, EffectsEvidence
from tests.system.work_evidence import Attempt, Fate, Mark, WorkEvidence

SECOND = 1_000_000
DUE = 1_000 * SECOND
WIRE, REMIND, CLOSE, BLIND, REPAIR = ("aa" * 16, "bb" * 16, "cc" * 16, "dd" * 16, "ee" * 16)
LINES = {one: f"{one[:8]}-{one[8:]}" for one in (WIRE, REMIND)}
CLASSES = {"wire": "unsafe", "remind": "idempotent", "close_day": "transactional"}
CLASSES |= {"blind": "unsafe", "tally": "pure"}


def at(second: float) -> int:
    return DUE + int(second * SECOND)


def mark(kind: str, run: str, fence: int, second: float, said: str = "") -> Mark:
    numbers = {"attempt": fence, "fence": fence, "process": 7}
    return Mark(kind=kind, run=run, at=at(second), said=said, **numbers)


def attempt(run: str, fence: int, claimed: float, ended: float, state: str, **more: Any) -> Attempt:
    made = Attempt(
        run=run,
        fence=fence,
        number=fence,
        state=state,
        reason="lost" if state == "lost" else None,
        process=7,
        claimed_at=at(claimed),
        ended_at=at(ended),
    )
    return replace(made, **more)


def entry(run: str, fence: int, second: float, key: str, kind: str = "paid") -> Entry:
    numbers = {"attempt": fence, "fence": fence, "process": 7, "at": at(second)}
    return Entry(kind=kind, line=LINES.get(run, run), key=key, run=run, **numbers)


def fate(run: str, task: str, state: str, charged: int) -> Fate:
    return Fate(run=run, task=task, state=state, reason=None, due_at=DUE, charged=charged)


MARKS = [
    # Lost before its permission; then refused by the bank; then lost after its effect.
    mark("start", WIRE, 1, 0.1, "wire"),
    mark("kill", WIRE, 1, 0.2, "asking"),
    mark("start", WIRE, 2, 3.1, "wire"),
    mark("asked", WIRE, 2, 3.2, "wire"),
    mark("granted", WIRE, 2, 3.3, "wire"),
    mark("end", WIRE, 2, 3.5, "not done"),
    mark("start", WIRE, 3, 4.1, "wire"),
    mark("asked", WIRE, 3, 4.2, "wire"),
    mark("granted", WIRE, 3, 4.3, "wire"),
    mark("stop", WIRE, 3, 4.5, "happened"),
    # Lost after its effect, and repeated with the same key.
    mark("start", REMIND, 1, 0.1, "remind"),
    mark("granted", REMIND, 1, 0.2, "mail"),
    mark("kill", REMIND, 1, 0.4, "happened"),
    mark("start", REMIND, 2, 3.1, "remind"),
    mark("granted", REMIND, 2, 3.2, "mail"),
    mark("recorded", REMIND, 2, 3.4, "mail"),
    mark("end", REMIND, 2, 3.5, "done"),
    mark("start", CLOSE, 1, 0.1, "close_day"),
    mark("end", CLOSE, 1, 0.2, "done"),
]
ATTEMPTS = [
    attempt(WIRE, 1, 0.0, 3.0, "lost"),
    attempt(WIRE, 2, 3.0, 3.6, "failed", reason="error"),
    attempt(WIRE, 3, 4.0, 7.0, "lost", late_state="succeeded"),
    attempt(REMIND, 1, 0.0, 3.0, "lost"),
    attempt(REMIND, 2, 3.0, 3.6, "succeeded"),
    attempt(CLOSE, 1, 0.0, 0.3, "succeeded"),
    attempt(BLIND, 1, 0.0, 3.0, "lost"),
]
FATES = [
    fate(WIRE, "wire", "ambiguous", 3),
    fate(REMIND, "remind", "succeeded", 2),
    fate(CLOSE, "close_day", "succeeded", 1),
    fate(BLIND, "blind", "ambiguous", 1),
]
BOOK = [
    entry(WIRE, 2, 3.4, "wire", "refused"),
    entry(WIRE, 3, 4.4, "wire"),
    entry(REMIND, 1, 0.3, "mail"),
    entry(REMIND, 2, 3.3, "mail", "recognised"),
    replace(entry("00" * 16, 0, 0.2, "whole"), line="blind 0"),
]


def evidence(**fields: Any) -> EffectsEvidence:
    """Return four runs' stories: unsafe, idempotent, transactional, and one that takes no run."""
    marks = fields.get("marks", MARKS)
    work = WorkEvidence(
        marks=[one for one in marks if one.kind in {"start", "end"}],
        attempts=fields.pop("attempts", ATTEMPTS),
        fates=fields.pop("fates", FATES),
        budgets=dict.fromkeys(CLASSES, 5),
        waits={},
        doubtful=frozenset(("wire", "blind")),
        decided=frozenset(one.run for one in fields.get("decisions", [])),
    )
    made: dict[str, Any] = {
        "work": work,
        "marks": MARKS,
        "book": BOOK,
        "doubts": [Doubt(WIRE, 3, at(7)), Doubt(BLIND, 1, at(3))],
        "decisions": [],
        "begun": {(WIRE, 2): at(3.25), (WIRE, 3): at(4.25), (BLIND, 1): at(0.1)},
        "ledger": {(WIRE, "wire"): "unknown", (REMIND, "mail"): "done"},
        "rows": Counter({CLOSE: 1}),
        "roots": {one: one for one in (WIRE, REMIND, CLOSE, BLIND)},
        "classes": CLASSES,
        "names": {"blind 0": BLIND},
        "seen": [(WIRE, "running"), (WIRE, "ambiguous"), (CLOSE, "succeeded")],
    }
    return EffectsEvidence(**(made | fields))


def without(things: list[Any], place: int) -> list[Any]:
    return [*things[:place], *things[place + 1 :]]


def changed(things: list[Any], place: int, **fields: Any) -> list[Any]:
    return [*things[:place], replace(things[place], **fields), *things[place + 1 :]]


AGAIN = [*ATTEMPTS, attempt(WIRE, 4, 8.0, 8.5, "lost")]
AGAIN_MARKS = [*MARKS, mark("start", WIRE, 4, 8.1, "wire")]
ON_TWICE = [*changed(FATES, 0, charged=4)]
LIES = {
    "an effect is repeated after doubt": (
        "twice",
        evidence(book=[*BOOK, entry(WIRE, 4, 8.2, "wire")]),
    ),
    "one permission is used twice": ("twice", evidence(book=[*BOOK, entry(WIRE, 3, 4.45, "wire")])),
    "a blind one is executed twice": ("twice", evidence(book=[*BOOK, BOOK[-1]])),
    "a run in doubt is tried again": (
        "tried again",
        evidence(attempts=AGAIN, marks=AGAIN_MARKS, fates=ON_TWICE),
    ),
    "a run in doubt is tried again before it was decided": (
        "tried again",
        evidence(
            attempts=AGAIN,
            marks=AGAIN_MARKS,
            fates=changed(ON_TWICE, 0, state="retrying"),
            decisions=[Decision(WIRE, "retry", at(8.2))],
        ),
    ),
    "a run in doubt is tried again after it was skipped": (
        "tried again",
        evidence(
            attempts=AGAIN,
            marks=AGAIN_MARKS,
            fates=changed(ON_TWICE, 0, state="skipped"),
            decisions=[Decision(WIRE, "skip", at(7.5))],
        ),
    ),
    "a lost attempt beyond its boundary leaves no doubt": (
        "not in doubt",
        evidence(doubts=[Doubt(BLIND, 1, at(3))]),
    ),
    "doubt is told of another attempt": (
        "needless doubt",
        evidence(doubts=[Doubt(WIRE, 1, at(3)), Doubt(WIRE, 3, at(7)), Doubt(BLIND, 1, at(3))]),
    ),
    "what the bank has refused is in doubt": (
        "needless doubt",
        evidence(doubts=[Doubt(WIRE, 2, at(3.6)), Doubt(WIRE, 3, at(7)), Doubt(BLIND, 1, at(3))]),
    ),
    "a permission that the store has forgotten, of one that was killed at its answer": (
        "not in doubt",
        evidence(marks=changed(MARKS, 1, said="answered")),
    ),
    "doubt goes by itself": (
        "left doubt by itself",
        evidence(fates=changed(FATES, 0, state="failed")),
    ),
    "an effect without a permission": (
        "unpermitted",
        evidence(begun={(WIRE, 2): at(3.25), (BLIND, 1): at(0.1)}),
    ),
    "a permission that came after its effect": (
        "unpermitted",
        evidence(begun={(WIRE, 2): at(3.25), (WIRE, 3): at(4.6), (BLIND, 1): at(0.1)}),
    ),
    "a blind one that was never permitted": (
        "unpermitted",
        evidence(begun={(WIRE, 2): at(3.25), (WIRE, 3): at(4.25)}),
    ),
    "an effect that is not on record": ("forgotten", evidence(ledger={(REMIND, "mail"): "done"})),
    "an effect on record that never happened": (
        "invented",
        evidence(ledger={(WIRE, "wire"): "unknown", (REMIND, "other"): "done"}),
    ),
    "an effect that is begun again though it is on record": (
        "repeated",
        evidence(marks=[*MARKS, mark("recorded", REMIND, 1, 0.35, "mail")]),
    ),
    "a repair that does what is on record": (
        "repeated",
        evidence(
            book=[*BOOK, replace(entry(REPAIR, 1, 9.0, "mail", "recognised"), line=LINES[REMIND])],
            roots={one: one for one in (WIRE, REMIND, CLOSE, BLIND)} | {REPAIR: REMIND},
            fates=[*FATES, fate(REPAIR, "remind", "succeeded", 1)],
            attempts=[*ATTEMPTS, attempt(REPAIR, 1, 8.5, 9.5, "succeeded")],
            marks=[
                *MARKS,
                mark("start", REPAIR, 1, 8.6, "remind"),
                mark("end", REPAIR, 1, 9.2, "done"),
            ],
        ),
    ),
    "another key in another attempt": (
        "unrecognisable",
        evidence(book=changed(BOOK, 3, line="another")),
    ),
    "a row without a success": (
        "rows",
        evidence(
            fates=changed(FATES, 2, state="dead", reason="error"),
            attempts=changed(ATTEMPTS, 5, state="failed"),
        ),
    ),
    "a success without a row": ("rows", evidence(rows=Counter())),
    "a success with two rows": ("rows", evidence(rows=Counter({CLOSE: 2}))),
    "a pure one that pays": ("contradiction", evidence(classes=CLASSES | {"remind": "pure"})),
    "a payment for nobody": ("stranger", evidence(book=[*BOOK, entry("ff" * 16, 1, 5, "wire")])),
    "a run that is over goes on": (
        "reopened",
        evidence(seen=[(CLOSE, "succeeded"), (CLOSE, "running")]),
    ),
    "a start that no record knows": ("unrecorded", evidence(attempts=without(ATTEMPTS, 3))),
    "a success that its code did not say": ("invented", evidence(marks=without(MARKS, 16))),
    "doubt where everything may be repeated": (
        "unsettled",
        evidence(
            fates=changed(FATES, 1, state="ambiguous"),
            attempts=changed(ATTEMPTS, 4, state="lost"),
        ),
    ),
}


def test_sound_evidence_passes():
    assert [] == effects_violations(evidence())
    assert (2, 1) == count_doubts(evidence())


def test_a_decided_doubt_passes():
    """A person looked, and the run went on: the same effect is not done again, and it succeeds."""
    decided = evidence(
        attempts=[*ATTEMPTS, attempt(WIRE, 4, 8.0, 8.5, "succeeded")],
        marks=[
            *MARKS,
            mark("start", WIRE, 4, 8.1, "wire"),
            mark("end", WIRE, 4, 8.4, "done"),
        ],
        fates=changed(FATES, 0, state="succeeded", charged=1),
        decisions=[Decision(WIRE, "retry", at(7.5))],
        ledger={(WIRE, "wire"): "done", (REMIND, "mail"): "done"},
        seen=[(WIRE, "ambiguous"), (WIRE, "queued"), (WIRE, "succeeded")],
    )

    assert [] == effects_violations(decided)


@pytest.mark.parametrize("name", LIES)
def test_a_seeded_lie_is_found(name):
    kind, lie = LIES[name]

    assert any(one.startswith(f"{kind}:") for one in effects_violations(lie)), effects_violations(
        lie
    )
