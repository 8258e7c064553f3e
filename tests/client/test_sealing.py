"""The audit trail verified, in a store and in a file."""

from __future__ import annotations

import io
import json

import pytest

from duly import UsageError
from duly.client import audit
from duly.client.audit import verify_file
from duly.store.memory import MemoryStore
from duly.store.ports.audit import SealAudit
from duly_conformance import steps
from tests.store.tampering import found, seal_six

BEFORE = (
    '{"duly":"audit","format":1,"source":"memory"}\n'
    '{"kind":"entry","number":1,"at":1775000000000000,"actor":"zoë","source":"cli","reaso'
    'n":"because","action":"queue.paused","tenant":"","subject":"mail","subject_id":null,'
    '"before":null,"after":null}\n'
    '{"kind":"seal","number":1,"after":0,"through":1,"format":1,"sealed_at":1775000000000'
    '000,"sealed_by":1,"hash":"4b3c5cccfeff44dca7b9152c1e213ea8fb35421e2026b72402dc95f784'
    '75099b","entries":[[1,"86efa48978c1bec90d14ad88fbc617cacb61d85a4ba956279f348110c662f'
    '34d"]]}\n'
    '{"kind":"entry","number":2,"at":1775000000000000,"actor":"zoë","source":"cli","reaso'
    'n":"because","action":"queue.paused","tenant":"","subject":"häfen","subject_id":null'
    ',"before":null,"after":null}\n'
    '{"kind":"seal","number":2,"after":1,"through":2,"format":1,"sealed_at":1775000000000'
    '000,"sealed_by":1,"hash":"d0904a5b1841f193b914420df9ade3c0a4a1f5c5f0984e751cb6eb6d2a'
    '97cc89","entries":[[2,"1415bcaf6f3c10a8f74537e071d3c3b3ecd6a630cf331becfae2781162fa9'
    '181"]]}\n'
    '{"kind":"end","seals":2,"entries":2}\n'
)
"""What a program wrote that knew neither addresses nor credentials."""


@pytest.fixture
def sealed(store):
    head = seal_six(store)
    steps.create(store, "young")
    return head


@pytest.fixture
def lines(app, sealed):
    file = io.BytesIO()
    app.audit.export(file)
    return file.getvalue().splitlines(keepends=True)


def verdict(tmp_path, lines, known=None):
    path = tmp_path / "audit.jsonl"
    path.write_bytes(b"".join(lines))
    return verify_file(path, known)


def test_a_trail_is_verified_to_its_end(app, sealed, monkeypatch):
    """Page by page; what is too young is counted."""
    monkeypatch.setattr(audit, "ENTRIES_PAGE", 3)
    monkeypatch.setattr(audit, "SEALS_PAGE", 2)
    told = app.audit.verify()

    assert (True, 3, 6, 1, sealed) == (
        told.is_sound,
        told.seals,
        told.entries,
        told.unsealed,
        told.head,
    )


def test_a_chain_that_was_made_anew_contradicts_the_head_that_was_kept(app, store, clock):
    """Whoever can write everything can't write what is kept elsewhere."""
    head = seal_six(store)
    clock.advance(1)
    other = MemoryStore(clock)
    seal_six(other)

    assert [] == found(store, head)
    assert [("seal", 3)] == found(other, head)
    assert [("seal", 3)] == found(MemoryStore(clock), head)


@pytest.mark.parametrize("known", ["", "x", "1", "1:ab", "0:" + "00" * 32, "1:" + "zz" * 32])
def test_a_head_that_is_none_is_refused(app, known):
    """With what to give instead."""
    with pytest.raises(UsageError, match="is not the number and the hash of a seal"):
        app.audit.verify(known=known)


def test_a_file_is_verified_without_its_store(app, sealed, lines, tmp_path):
    """It says the same."""
    told, stored = verdict(tmp_path, lines, sealed), app.audit.verify()

    assert stored.to_json() | {"source": told.source} == told.to_json()
    assert told.is_sound


def test_a_file_of_before_addresses_is_sound_and_protected_as_it_was(tmp_path):
    """By a later program; what it did not cover is counted and not taken for protected."""
    lines = BEFORE.encode().splitlines(keepends=True)
    changed = [one.replace(b"h\xc3\xa4fen", b"hafen") for one in lines]
    added = [one.replace(b'"source":"cli"', b'"source":"cli","address":"::1"') for one in lines]

    assert (True, 2, 0) == outcome(verdict(tmp_path, lines))
    assert (False, 2, 0) == outcome(verdict(tmp_path, changed))
    assert (True, 2, 2) == outcome(verdict(tmp_path, added))


def outcome(told):
    return told.is_sound, told.entries, told.uncovered


def test_an_address_is_under_seal(lines, tmp_path):
    """Also in a file."""
    entry = json.loads(lines[1])
    assert ("192.0.2.7", True) == (entry["address"], entry["credential"].startswith("token:"))
    for changed in ({"address": None}, {"credential": "token:other"}):
        told = [lines[0], json.dumps(entry | changed).encode() + b"\n", *lines[2:]]

        assert [("changed", 1)] == [
            (str(one.kind), one.number) for one in verdict(tmp_path, told).traces
        ]


def test_a_file_that_was_tampered_with_shows(lines, tmp_path):
    """Entries and seals alike."""
    entry = json.loads(lines[1])
    changed = json.dumps(entry | {"actor": "eve"}).encode() + b"\n"
    twice = [*lines[:2], lines[1], *lines[2:]]
    later = [*lines[:-1], lines[1], lines[-1]]
    cases = [
        [lines[0], changed, *lines[2:]],
        [lines[0], *lines[2:]],
        twice,
        later,
        lines[:1] + lines[4:],
    ]

    told = [[(str(one.kind), one.number) for one in verdict(tmp_path, one).traces] for one in cases]

    assert [
        [("changed", 1)],
        [("removed", 1)],
        [("inserted", 1)],
        [("inserted", 1)],
        [("seal", 1)],
    ] == told


def test_a_file_whose_end_was_cut_off_shows(lines, tmp_path):
    """Its last line has the numbers that its store had noted."""
    seal = next(at for at, one in enumerate(lines) if b'"kind":"seal","number":3' in one)
    without_last = [*lines[: seal - 2], *lines[seal + 1 :]]
    emptied = [lines[0], lines[-1]]

    assert [("seal", 3), ("removed", 5)] == [
        (str(one.kind), one.number) for one in verdict(tmp_path, without_last).traces
    ]
    assert [("seal", 1), ("removed", 1)] == [
        (str(one.kind), one.number) for one in verdict(tmp_path, emptied).traces
    ]


def test_a_file_of_before_such_numbers_says_what_can_not_be_told(tmp_path):
    told = verdict(tmp_path, BEFORE.encode().splitlines(keepends=True))

    assert [
        "It is not noted how many seals were made: a removed last seal cannot be found."
    ] == list(told.undecided)


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda lines: lines[:-1], "was cut short"),
        (lambda lines: lines[1:], "can't be read in line 1"),
        (lambda lines: [lines[0], b'{"kind":"entry"}\n'], "can't be read in line 2"),
        (lambda lines: [lines[0], b'{"kind":"seal"}\n'], "can't be read in line 2"),
        (lambda lines: [lines[0], b"[]\n"], "can't be read in line 2"),
        (
            lambda lines: [one.replace(b'"through":2', b'"through":"2"') for one in lines],
            "can't be read in line 4",
        ),
        (
            lambda lines: [*lines[:-1], b'{"kind":"end","sealed":"3"}\n'],
            "can't be read in line",
        ),
        (lambda lines: [b"no json\n"], "is not made of JSON lines"),
    ],
    ids=["cut", "headless", "entry", "seal", "list", "number", "end", "text"],
)
def test_a_file_that_is_none_of_ours_is_refused(lines, tmp_path, spoil, problem):
    """Which is another thing than being tampered with."""
    with pytest.raises(UsageError, match=problem):
        verdict(tmp_path, spoil(lines))


def test_a_sealer_that_has_nothing_leaves_no_seal(app, store):
    """A store that nobody has used is sound."""
    fence = steps.own(store)

    assert store.seal_audit(SealAudit(fence=fence, limit=10)) is None
    assert (True, 0, None) == (
        app.audit.verify().is_sound,
        app.audit.verify().seals,
        app.audit.verify().head,
    )
