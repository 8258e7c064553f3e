"""Seals: whatever does not agree is named (A2)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from duly.domain.audit import Actor, AuditEntry
from duly.domain.sealing import Chain, Trace, entry_facts, make_seal, sealed_entry


def entry(number: int, **parts) -> AuditEntry:
    made = AuditEntry(
        number=number,
        at=1_000 + number,
        actor=Actor("ada", "cli", "why"),
        action="schedule.paused",
        tenant="default",
        subject="nightly",
        subject_id=bytes(16),
        before={"status": "active", "owner": "Zoë"},
        after={"status": "paused"},
    )
    return replace(made, **parts)


TRAIL = [entry(1), entry(2), entry(4), entry(5)]
FIRST = make_seal(None, TRAIL[:2], now=7, by=3)
SECOND = make_seal(FIRST, TRAIL[2:], now=8, by=3)


def traces(trail, *seals):
    chain, told = Chain(), list[Trace]()
    for seal in seals or (FIRST, SECOND):
        stretch = [one for one in trail if seal.after < one.number <= seal.through]
        told += chain.follow(seal, [sealed_entry(entry_facts(one)) for one in stretch])
    return [(str(one.kind), one.number) for one in told]


def test_what_nobody_touched_agrees():
    """A2: a number that was given up is no reason for doubt."""
    assert [] == traces(TRAIL)


@pytest.mark.parametrize(
    "parts",
    [
        {"at": 1},
        {"actor": Actor("eve", "cli", "why")},
        {"actor": Actor("ada", "library", "why")},
        {"actor": Actor("ada", "cli", None)},
        {"action": "schedule.resumed"},
        {"tenant": "theirs"},
        {"subject": "hourly"},
        {"subject_id": None},
        {"before": None},
        {"after": {"status": "deleted"}},
    ],
    ids=lambda parts: next(iter(parts)),
)
def test_whatever_is_changed_of_an_entry_shows(parts):
    """A2."""
    changed = [TRAIL[0], replace(TRAIL[1], **parts), *TRAIL[2:]]

    assert [("changed", 2)] == traces(changed)


def test_what_is_removed_or_inserted_is_named():
    """A2: also in a place that was left free."""
    assert [("removed", 1)] == traces(TRAIL[1:])
    assert [("removed", 5)] == traces(TRAIL[:-1])
    assert [("inserted", 3)] == traces([*TRAIL, entry(3)])


def test_the_order_of_keys_says_nothing():
    """A2: the same facts, however they are stored."""
    before = {"owner": "Zoë", "status": "active"}

    assert [] == traces([replace(TRAIL[0], before=before), *TRAIL[1:]])


@pytest.mark.parametrize(
    ("seals", "expected"),
    [
        ((SECOND,), [("seal", 1)]),
        ((replace(FIRST, sealed_at=9), SECOND), [("seal", 1)]),
        ((replace(FIRST, hash=bytes(32)), SECOND), [("seal", 1), ("seal", 2)]),
        ((FIRST, replace(SECOND, after=3)), [("seal", 2)]),
        ((FIRST, replace(SECOND, format=2)), [("seal", 2)]),
        (
            (FIRST, replace(make_seal(None, TRAIL[2:], now=8, by=3), number=2, after=2)),
            [("seal", 2)],
        ),
    ],
    ids=["removed", "changed", "hash", "stretch", "format", "begun anew"],
)
def test_a_chain_that_was_tampered_with_shows(seals, expected):
    """A2: also to whoever changes the seal with the entry."""
    assert expected == traces(TRAIL, *seals)


def test_who_seals_a_changed_entry_anew_contradicts_what_follows():
    """A2."""
    forged = replace(TRAIL[1], subject="hourly")
    anew = make_seal(None, [TRAIL[0], forged], now=7, by=3)

    assert [("seal", 2)] == traces([TRAIL[0], forged, *TRAIL[2:]], anew, SECOND)


def test_the_way_it_is_hashed_stays():
    """A2: chains of earlier releases are verified by later ones."""
    assert "585f43ed63f6a337d886b7b1b7058ef5c227026b7dbecf04216783f60198b710" == SECOND.hash.hex()
