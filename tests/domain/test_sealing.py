"""Seals: whatever does not agree is named."""

from __future__ import annotations

from dataclasses import replace

from duly.domain import audit
from duly.domain.audit import (
    Actor,
    AuditEntry,
    Chain,
    Seal,
    Trace,
    entry_facts,
    is_covered,
    make_seal,
    sealed_entry,
)
from tests.each_row import each_row

NEWER = ("address", "credential")


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
        found = [sealed_entry(entry_facts(one), seal.format) for one in stretch]
        told += chain.follow(seal, found)
    return [(str(one.kind), one.number) for one in told]


def test_what_nobody_touched_agrees():
    """A number that was given up is no reason for doubt."""
    assert [] == traces(TRAIL)


@each_row(
    "parts",
    [
        {"at": 1},
        {"actor": Actor("eve", "cli", "why")},
        {"actor": Actor("ada", "library", "why")},
        {"actor": Actor("ada", "cli", None)},
        {"actor": Actor("ada", "cli", "why", "192.0.2.1")},
        {"actor": Actor("ada", "cli", "why", None, "token:1")},
        {"action": "schedule.resumed"},
        {"tenant": "theirs"},
        {"subject": "hourly"},
        {"subject_id": None},
        {"before": None},
        {"after": {"status": "deleted"}},
    ],
)
def test_whatever_is_changed_of_an_entry_shows(parts):
    changed = [TRAIL[0], replace(TRAIL[1], **parts), *TRAIL[2:]]

    assert [("changed", 2)] == traces(changed)


def test_what_is_removed_or_inserted_is_named():
    """Also in a place that was left free."""
    assert [("removed", 1)] == traces(TRAIL[1:])
    assert [("removed", 5)] == traces(TRAIL[:-1])
    assert [("inserted", 3)] == traces([*TRAIL, entry(3)])


def test_the_order_of_keys_says_nothing():
    """The same facts, however they are stored."""
    before = {"owner": "Zoë", "status": "active"}

    assert [] == traces([replace(TRAIL[0], before=before), *TRAIL[1:]])


@each_row(
    ("seals", "expected"),
    [
        ((SECOND,), [("seal", 1)]),
        ((replace(FIRST, sealed_at=9), SECOND), [("seal", 1)]),
        ((replace(FIRST, hash=bytes(32)), SECOND), [("seal", 1), ("seal", 2)]),
        ((FIRST, replace(SECOND, after=3)), [("seal", 2)]),
        ((FIRST, replace(SECOND, format=3)), [("seal", 2)]),
        ((FIRST, replace(SECOND, format=1)), [("seal", 2), ("changed", 4), ("changed", 5)]),
        (
            (FIRST, replace(make_seal(None, TRAIL[2:], now=8, by=3), number=2, after=2)),
            [("seal", 2)],
        ),
    ],
)
def test_a_chain_that_was_tampered_with_shows(seals, expected):
    """Also to whoever changes the seal with the entry."""
    assert expected == traces(TRAIL, *seals)


def test_who_seals_a_changed_entry_anew_contradicts_what_follows():
    forged = replace(TRAIL[1], subject="hourly")
    anew = make_seal(None, [TRAIL[0], forged], now=7, by=3)

    assert [("seal", 2)] == traces([TRAIL[0], forged, *TRAIL[2:]], anew, SECOND)


def seal_as_before(previous: Seal | None, trail) -> Seal:
    """Seal entries as programs did that knew neither address nor credential."""
    facts = [
        {key: value for key, value in entry_facts(one).items() if key not in NEWER} for one in trail
    ]
    seal = Seal(
        number=1 if previous is None else 2,
        after=0 if previous is None else previous.through,
        through=trail[-1].number,
        entries=tuple(sealed_entry(one) for one in facts),
        sealed_at=7 if previous is None else 8,
        sealed_by=3,
        format=1,
    )
    return audit._hashed(seal, previous)  # noqa: SLF001 - what is written for ever


def test_the_way_it_is_hashed_stays():
    """Chains of earlier releases are verified by later ones."""
    first = seal_as_before(None, TRAIL[:2])
    second = seal_as_before(first, TRAIL[2:])

    assert "585f43ed63f6a337d886b7b1b7058ef5c227026b7dbecf04216783f60198b710" == second.hash.hex()
    assert "8ec04672b7346d06292be1d82839b10f1b49dec0a3c786139f238da70ef3f95c" == SECOND.hash.hex()
    assert [] == traces(TRAIL, first, second)


def test_programs_of_both_formats_may_seal_one_after_the_other():
    """While a fleet is brought to a newer release, an older member may hold the lease."""
    known = replace(TRAIL[2], actor=Actor("ada", "api", "why", "192.0.2.1", "token:1"))
    trail = [*TRAIL[:2], known, TRAIL[3]]
    second = seal_as_before(FIRST, trail[2:])

    assert [] == traces(trail, FIRST, second)
    assert [("changed", 4)] == traces([*TRAIL[:2], entry(4, at=1), TRAIL[3]], FIRST, second)


def test_what_a_seal_leaves_out_is_known():
    """Nobody takes an address for protected that was sealed by a program without it."""
    known = entry(4, actor=Actor("ada", "api", "why", "192.0.2.1"))

    assert is_covered(entry_facts(TRAIL[0]), 1)
    assert not is_covered(entry_facts(known), 1)
    assert is_covered(entry_facts(known), 2)


def test_a_number_that_a_seal_has_had_is_not_given_again():
    """A gap remains where seals were removed, and the chain goes on."""
    third = make_seal(FIRST, TRAIL[2:], now=9, by=3, made=2)

    assert (3, [("seal", 2)]) == (third.number, traces(TRAIL, FIRST, third))
