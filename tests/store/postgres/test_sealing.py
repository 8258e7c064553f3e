"""A database whose audit trail was tampered with, and one that others write to meanwhile."""

from __future__ import annotations

import psycopg
import pytest

import duly
from duly.domain.enums import Lane
from duly.store.ports.audit import SealAudit
from duly_conformance import steps
from duly_conformance.kit import new_schedule
from tests.store.tampering import (
    ALL_GONE,
    LAST_SEAL_GONE,
    TAMPERED,
    found,
    seal_more,
    seal_six,
)


@pytest.fixture
def store(open_store, url):
    return open_store(url)


def test_what_was_changed_removed_or_inserted_is_named(store, url):
    """Each undone before the next."""
    seal_six(store)
    assert [] == found(store)
    told = {}
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("CREATE TABLE kept_audit AS TABLE duly.audit")
        owner.execute("CREATE TABLE kept_seals AS TABLE duly.seals")
        for statement in TAMPERED:
            override = "OVERRIDING SYSTEM VALUE"
            owner.execute(
                statement.format(audit="duly.audit", seals="duly.seals", override=override).encode()
            )
            told[statement] = found(store)
            owner.execute("TRUNCATE duly.audit, duly.seals")
            owner.execute("INSERT INTO duly.audit OVERRIDING SYSTEM VALUE SELECT * FROM kept_audit")
            owner.execute("INSERT INTO duly.seals SELECT * FROM kept_seals")

    assert TAMPERED == told
    assert [] == found(store)


def test_what_may_still_come_is_waited_for(store, url):
    """An entry that is committed late is in its seal, and none is sealed before it."""
    fence = steps.own(store, (Lane.BACKFILL,))
    order = SealAudit(fence=fence, limit=100)
    with psycopg.connect(url) as late:
        store.joined(late).create_schedule(new_schedule(store.now(), "late"))
        steps.create(store, "early")
        held_back = store.seal_audit(order)
        late.commit()
    seal = store.seal_audit(order)

    assert held_back is None
    assert seal is not None
    assert ["late", "early"] == [one.subject for one in store.read_trail(0, 10)]
    assert [1, 2] == [number for number, _ in seal.entries]
    assert duly.App(store=store).audit.verify().is_sound


@pytest.mark.parametrize(
    ("statement", "expected"),
    [(LAST_SEAL_GONE, [("seal", 3)]), (ALL_GONE, [("seal", 1)])],
    ids=["last seal", "all"],
)
def test_an_end_that_was_cut_off_is_found_also_when_a_dispatcher_has_gone_on(
    store, url, statement, expected
):
    """No number is given to two seals."""
    seal_six(store)
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(statement.format(audit="duly.audit", seals="duly.seals").encode())
    before = found(store)
    seal_more(store)

    assert (expected, expected) == (before, found(store))


def test_numbers_without_an_entry_are_counted_and_nothing_is_claimed(store, url):
    """An order that failed has drawn one, and so has an entry that was removed."""
    seal_six(store)
    with psycopg.connect(url) as failing:
        store.joined(failing).create_schedule(new_schedule(store.now(), "failing"))
        failing.rollback()
    failed = duly.App(store=store).audit.verify()
    steps.create(store, "young")
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute("DELETE FROM duly.audit WHERE number > 6")
    removed = duly.App(store=store).audit.verify()

    assert (True, True) == (failed.is_sound, removed.is_sound)
    assert failed.undecided[0].startswith("After the last seal 1 number has no entry.")
    assert removed.undecided[0].startswith("After the last seal 2 numbers have no entry.")
