"""The audit trail verified, in a store and in a file (A2)."""

from __future__ import annotations

import io
import json

import pytest

from duly import UsageError
from duly.client import sealing
from duly.client.sealing import verify_file
from duly.store.memory import MemoryStore
from duly.store.sealing import SealAudit
from duly.testing.conformance import steps
from tests.store.tampering import found, seal_six


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
    """A2: page by page; what is too young is counted."""
    monkeypatch.setattr(sealing, "ENTRIES_PAGE", 3)
    monkeypatch.setattr(sealing, "SEALS_PAGE", 2)
    told = app.audit.verify()

    assert (True, 3, 6, 1, sealed) == (
        told.is_sound,
        told.seals,
        told.entries,
        told.unsealed,
        told.head,
    )


def test_a_chain_that_was_made_anew_contradicts_the_head_that_was_kept(app, store, clock):
    """A2: whoever can write everything can't write what is kept elsewhere."""
    head = seal_six(store)
    clock.advance(1)
    other = MemoryStore(clock)
    seal_six(other)

    assert [] == found(store, head)
    assert [("seal", 3)] == found(other, head)
    assert [("seal", 3)] == found(MemoryStore(clock), head)


@pytest.mark.parametrize("known", ["", "x", "1", "1:ab", "0:" + "00" * 32, "1:" + "zz" * 32])
def test_a_head_that_is_none_is_refused(app, known):
    """L6: with what to give instead."""
    with pytest.raises(UsageError, match="is not the number and the hash of a seal"):
        app.audit.verify(known=known)


def test_a_file_is_verified_without_its_store(app, sealed, lines, tmp_path):
    """A2: it says the same."""
    told, stored = verdict(tmp_path, lines, sealed), app.audit.verify()

    assert stored.to_json() | {"source": told.source} == told.to_json()
    assert told.is_sound


def test_a_file_that_was_tampered_with_shows(lines, tmp_path):
    """A2: entries and seals alike."""
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


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lambda lines: lines[:-1], "was cut short"),
        (lambda lines: lines[1:], "can't be read in line 1"),
        (lambda lines: [lines[0], b'{"kind":"entry"}\n'], "can't be read in line 2"),
        (lambda lines: [lines[0], b'{"kind":"seal"}\n'], "can't be read in line 2"),
        (lambda lines: [lines[0], b"[]\n"], "can't be read in line 2"),
        (lambda lines: [b"no json\n"], "is not made of JSON lines"),
    ],
    ids=["cut", "headless", "entry", "seal", "list", "text"],
)
def test_a_file_that_is_none_of_ours_is_refused(lines, tmp_path, spoil, problem):
    """L6: which is another thing than being tampered with."""
    with pytest.raises(UsageError, match=problem):
        verdict(tmp_path, spoil(lines))


def test_a_sealer_that_has_nothing_leaves_no_seal(app, store):
    """A2: a store that nobody has used is sound."""
    fence = steps.own(store)

    assert store.seal_audit(SealAudit(fence=fence, limit=10)) is None
    assert (True, 0, None) == (
        app.audit.verify().is_sound,
        app.audit.verify().seals,
        app.audit.verify().head,
    )
