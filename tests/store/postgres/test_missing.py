"""What was removed from the database by hand is found, because intent still asks for it."""

from __future__ import annotations

import psycopg
import pytest

from duly.domain.missing_occurrences import ExpectedOccurrenceKind, MissingCause
from tests.postgres.database_clock import DatabaseClock
from tests.postgres.reused_databases import with_store_and_clock
from tests.store.removing import REMOVALS, lived, slots


@pytest.mark.parametrize("what", REMOVALS)
def test_what_is_removed_behind_its_back_is_missing(open_store, new_database, what):
    """A run with its attempts and its end, a skip, a range that is owed."""
    url = new_database(with_store_and_clock)
    clock = DatabaseClock(url)
    store = open_store(url, clock)
    tables, places = REMOVALS[what]
    lived(store, clock)
    before = slots(store)
    with psycopg.connect(url, autocommit=True) as owner:
        for table in tables:
            owner.execute(f"DELETE FROM duly.{table}".encode())  # noqa: S608 - of ours
    found = [one for one in slots(store) if one.kind is ExpectedOccurrenceKind.MISSING]
    clock.close()

    assert [] == [one for one in before if one.kind is ExpectedOccurrenceKind.MISSING]
    assert [before[place].scheduled_for for place in places] == [one.scheduled_for for one in found]
    assert {MissingCause.UNRECORDED} == {one.cause for one in found}
