"""Following the audit trail: the part of the contract that streams of events rely on (A2)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from duly.store.reading import AuditFilter
from duly.store.trailing import AuditAfter
from duly.testing.conformance import steps
from duly.testing.factories import ADA, add_runs, new_run

if TYPE_CHECKING:
    from duly.store.protocol import Store


def followed(store: Store, after: int = 0, limit: int = 2, tenant: str | None = None) -> list[int]:
    """Return the numbers of all entries, page by page."""
    numbers: list[int] = []
    while True:
        page = store.follow_audit(AuditAfter(after=after, limit=limit, tenant=tenant))
        numbers += [one.number for one in page.entries]
        if page.through == after:
            return numbers
        after = page.through


class FollowingTheTrail:
    """What the trailing port promises."""

    def test_who_follows_sees_every_entry_once_in_its_order(self, store: Store) -> None:
        """A2: however small the pages."""
        for name in ("a", "b", "c"):
            steps.pause(store, steps.create(store, name))
        written = [one.number for one in store.list_audit(AuditFilter())]

        assert sorted(written) == followed(store)
        assert sorted(written)[3:] == followed(store, after=sorted(written)[2])

    def test_entries_are_the_same_as_those_that_are_listed(self, store: Store) -> None:
        """A2: one trail, read in two directions."""
        steps.pause(store, steps.create(store))
        page = store.follow_audit(AuditAfter(after=0))

        assert store.list_audit(AuditFilter()) == list(reversed(page.entries))

    def test_an_entry_tells_from_which_address_and_by_what_an_order_came(
        self, store: Store
    ) -> None:
        """A2: whether it was about one thing or about several at once."""
        steps.pause(store, steps.create(store))
        runs = add_runs(new_run(None, "a"), new_run(None, "b"))
        store.add_runs(replace(runs, actor=ADA))
        store.pause_queue("mail", replace(ADA, address=None, credential=None))
        here, *others = steps.audit(store)

        assert (None, None) == (here.actor.address, here.actor.credential)
        assert 3 == len(others)
        assert {(ADA.address, ADA.credential)} == {
            (one.actor.address, one.actor.credential) for one in others
        }

    def test_who_begins_now_sees_what_comes(self, store: Store) -> None:
        """A2: and nothing of what was."""
        record = steps.create(store)
        now = store.follow_audit(AuditAfter(after=None))
        steps.pause(store, record)

        assert ((), False) == (now.entries, now.through == 0)
        assert ["schedule.paused"] == [
            one.action for one in store.follow_audit(AuditAfter(after=now.through)).entries
        ]

    def test_an_empty_trail_ends_where_it_begins(self, store: Store) -> None:
        """A2."""
        for after in (None, 0):
            page = store.follow_audit(AuditAfter(after=after))

            assert ((), 0) == (page.entries, page.through)

    def test_who_follows_one_tenant_passes_over_the_others(self, store: Store) -> None:
        """L2: also their entries count as looked at, or one would look at them for ever."""
        steps.create(store, "theirs", tenant="them")
        steps.create(store, "ours", tenant="us")
        steps.create(store, "theirs too", tenant="them")
        ours = store.list_audit(AuditFilter(tenant="us"))
        page = store.follow_audit(AuditAfter(after=0, tenant="us"))

        assert (tuple(ours), max(one.number for one in store.list_audit(AuditFilter()))) == (
            page.entries,
            page.through,
        )
        assert [one.number for one in ours] == followed(store, limit=1, tenant="us")
