"""A file whose audit trail was tampered with."""

from __future__ import annotations

import apsw
import pytest

import duly
from duly_conformance import steps
from duly_conformance.kit import SECOND_US, new_schedule
from tests.store.tampering import (
    ALL_GONE,
    LAST_SEAL_GONE,
    TAMPERED,
    found,
    seal_more,
    seal_six,
)


@pytest.mark.parametrize("statement", TAMPERED)
def test_what_was_changed_removed_or_inserted_is_named(store, path, statement):
    seal_six(store)
    assert [] == found(store)
    tamper(path, statement)

    assert TAMPERED[statement] == found(store)


def tamper(path, statement):
    file = apsw.Connection(str(path))
    file.execute(statement.format(audit="duly_audit", seals="duly_seals", override=""))
    file.close()


@pytest.mark.parametrize(
    ("statement", "at_once", "later"),
    [
        (LAST_SEAL_GONE, [("seal", 3), ("removed", 5)], [("seal", 3), ("removed", 5)]),
        (ALL_GONE, [("seal", 1), ("removed", 1)], [("seal", 1), ("removed", 1)]),
    ],
    ids=["last seal", "all"],
)
def test_an_end_that_was_cut_off_is_found_also_when_a_dispatcher_has_gone_on(
    store, path, statement, at_once, later
):
    """No number is given twice: neither to an entry nor to a seal."""
    seal_six(store)
    tamper(path, statement)
    before = found(store)
    seal_more(store)

    assert (at_once, later) == (before, found(store))


def test_a_young_entry_that_was_removed_is_found_also_after_the_next_seal(store, path):
    """Each number has an entry."""
    seal_six(store)
    for name in ("d", "e", "f", "g"):
        steps.create(store, name)
    tamper(path, "DELETE FROM {audit} WHERE number IN (8, 10)")
    before = found(store)
    seal_more(store)

    assert [("removed", 8), ("removed", 10)] == before
    assert before == found(store)


def test_an_order_that_failed_leaves_no_gap(store):
    """What a transaction has drawn comes back with it."""

    def fail():
        with store.transaction(SECOND_US) as lent:
            store.joined(lent).create_schedule(new_schedule(store.now(), "undone"))
            raise ValueError("undone")

    with pytest.raises(ValueError, match="undone"):
        fail()
    steps.create(store, "a")

    assert [] == found(store)


def test_a_trail_that_was_emptied_before_its_first_seal_is_found(store, path):
    for name in ("a", "b", "c"):
        steps.create(store, name)
    tamper(path, "DELETE FROM {audit}")
    (trace,) = duly.App(store=store).audit.verify().traces

    assert ("removed", 1) == (str(trace.kind), trace.number)
    assert "and all up to 3 are not there, although number 3 was given" == trace.problem


def test_what_can_not_be_told_is_said(store, path):
    """Of a store without seals, and of one whose program did not note their number."""
    steps.create(store, "a")
    audit = duly.App(store=store).audit
    unsealed = audit.verify()
    seal_more(store)
    sealed = audit.verify()
    tamper(path, "DELETE FROM duly_tallies WHERE name = 'seals'")
    unnoted = audit.verify()

    assert ("No seal is there: a changed entry cannot be found.",) == unsealed.undecided
    assert () == sealed.undecided
    assert [
        "It is not noted how many seals were made: a removed last seal cannot be found."
    ] == list(unnoted.undecided)
    assert (True, True, True) == (unsealed.is_sound, sealed.is_sound, unnoted.is_sound)
