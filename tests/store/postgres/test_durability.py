"""Durability is not left to what was chosen for others' work."""

from __future__ import annotations

import psycopg
import pytest

from duly_conformance import steps


@pytest.fixture
def careless(url):
    """A database whose owner would rather be fast than sure."""
    with psycopg.connect(url, autocommit=True) as owner:
        name = owner.info.dbname
        owner.execute(f'ALTER DATABASE "{name}" SET synchronous_commit = off')
    return url


def test_what_we_write_is_on_disk_before_it_is_told(careless, open_store):
    store = open_store(careless)

    assert [] == store.check()
    for for_dispatch in (False, True):
        with store._connections.statement(for_dispatch=for_dispatch) as session:  # noqa: SLF001
            assert [("on",)] == session.rows("SHOW synchronous_commit")


def test_behind_a_pooler_the_check_says_what_we_cannot_change(careless, pgbouncer_url, open_store):
    store = open_store(pgbouncer_url(careless))

    assert ["durability"] == [finding.what for finding in store.check()]


def test_the_check_finds_a_member_that_holds_what_it_does_not_own(url, open_store):
    """The fence reads the member's row, so it must say what the leases say."""
    store = open_store(url)
    fence = steps.own(store)
    assert [] == store.check()
    with psycopg.connect(url, autocommit=True) as other:
        other.execute("UPDATE duly.leases SET owner = NULL WHERE shard = 3")

    assert [f"member {fence.member} holds"] == [
        finding.detail.split(" other")[0] for finding in store.check()
    ]
