"""Following the audit trail while others write: what is committed late is not left out."""

from __future__ import annotations

import psycopg
import pytest

from duly.store.ports.audit import AuditAfter
from duly_conformance import steps
from duly_conformance.kit import new_schedule


@pytest.fixture
def store(open_store, url):
    return open_store(url)


def names(page) -> list[str]:
    return [one.subject for one in page.entries]


def test_an_entry_that_is_committed_late_is_waited_for(store, url):
    """A number that was drawn first and committed last is told in its place."""
    with psycopg.connect(url) as late:
        store.joined(late).create_schedule(new_schedule(store.now(), "late"))
        steps.create(store, "early")
        before = store.follow_audit(AuditAfter(after=0))
        late.commit()
        after = store.follow_audit(AuditAfter(after=before.through))

    assert ([], ["late", "early"]) == (names(before), names(after))


def test_an_entry_that_was_given_up_is_passed_over(store, url):
    """Once whoever drew its number has ended; others who write meanwhile are no reason."""
    with psycopg.connect(url) as lost, psycopg.connect(url) as other:
        store.joined(lost).create_schedule(new_schedule(store.now(), "lost"))
        steps.create(store, "kept")
        held_back = store.follow_audit(AuditAfter(after=0))
        store.joined(other).create_schedule(new_schedule(store.now(), "other"))
        lost.rollback()
        seen = store.follow_audit(AuditAfter(after=0))
        steps.create(store, "last")
        again = store.follow_audit(AuditAfter(after=seen.through))
        other.commit()
        rest = store.follow_audit(AuditAfter(after=again.through))

    assert ([], ["kept"], [], ["other", "last"]) == (
        names(held_back),
        names(seen),
        names(again),
        names(rest),
    )


def test_who_begins_now_begins_before_what_may_still_come(store, url):
    """What is committed after that is among what is seen."""
    steps.create(store, "old")
    with psycopg.connect(url) as late:
        store.joined(late).create_schedule(new_schedule(store.now(), "late"))
        steps.create(store, "early")
        now = store.follow_audit(AuditAfter(after=None))
        late.commit()

    assert ["late", "early"] == names(store.follow_audit(AuditAfter(after=now.through)))


def test_numbers_that_are_gone_are_no_reason_to_wait(store, url):
    """The beginning of a trail may have been pruned."""
    for name in ("a", "b", "c"):
        steps.create(store, name)
    with psycopg.connect(url, autocommit=True) as operator:
        operator.execute("delete from duly.audit where number <= 2")

    assert ["c"] == names(store.follow_audit(AuditAfter(after=0)))
