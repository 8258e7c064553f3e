"""What every store must do about seals and the audit trail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.audit import Chain, Trace, entry_facts, sealed_entry
from duly.domain.enums import Lane
from duly.store.ports.audit import AuditAfter, SealAudit
from duly.store.ports.dispatch import MEMBER_TTL_US
from duly.store.ports.queries import AuditFilter
from duly_conformance import steps
from duly_conformance.kit import ADA, add_runs, new_run

if TYPE_CHECKING:
    from duly.domain.audit import Seal
    from duly.engine.manual_clock import ManualClock
    from duly.store.ports import Store
    from duly.store.ports.dispatch import Fence


def seal(store: Store, fence: Fence, limit: int = 100) -> Seal | None:
    """Seal once."""
    return store.seal_audit(SealAudit(fence=fence, limit=limit))


def traces(store: Store) -> list[Trace]:
    """Return what does not agree with the seals of a store."""
    chain, told = Chain(), list[Trace]()
    for one in store.list_seals(0, 100):
        entries = store.read_trail(one.after, 100)
        found = [sealed_entry(entry_facts(entry), one.format) for entry in entries]
        told += chain.follow(one, [entry for entry in found if entry.number <= one.through])
    return told


class Sealing:
    """What the sealing port promises."""

    def test_every_entry_is_sealed_once_in_its_order(self, store: Store) -> None:
        """Stretch by stretch, each chained to the one before it."""
        for name in ("a", "b", "c"):
            steps.pause(store, steps.create(store, name))
        fence = steps.own(store, (Lane.BACKFILL,))
        written = [one.number for one in store.follow_audit(AuditAfter(after=0)).entries]

        made = [seal(store, fence, limit=4), seal(store, fence, limit=4)]

        seals = store.list_seals(0, 100)
        assert (made, None) == (seals, seal(store, fence))
        assert written == [number for one in seals for number, _ in one.entries]
        assert [(1, 0), (2, seals[0].through)] == [(one.number, one.after) for one in seals]
        assert [] == traces(store)

    def test_what_is_written_later_gets_the_next_seal(
        self, store: Store, clock: ManualClock
    ) -> None:
        """With the time of the sealing, and who did it."""
        fence = steps.own(store, (Lane.BACKFILL,))
        record = steps.create(store)
        seal(store, fence)
        clock.advance(1)
        steps.pause(store, record)

        second = seal(store, fence)

        assert second is not None
        assert (clock.now_us(), fence.member) == (second.sealed_at, second.sealed_by)
        assert [second] == store.list_seals(1, 100)
        assert [] == traces(store)

    def test_a_trail_without_entries_has_nothing_to_seal(self, store: Store) -> None:
        fence = steps.own(store, (Lane.BACKFILL,))

        assert (None, []) == (seal(store, fence), store.list_seals(0, 100))

    def test_the_highest_numbers_are_known_apart_from_what_has_them(self, store: Store) -> None:
        """Of entries and of seals: an end that was cut off shows."""
        fence = steps.own(store, (Lane.BACKFILL,))
        before = store.trail_marks()
        for name in ("a", "b"):
            steps.create(store, name)
            seal(store, fence)
        steps.create(store, "c")
        last = store.follow_audit(AuditAfter(after=0)).entries[-1].number
        marks = store.trail_marks()

        assert (None, 2, last) == (before.sealed, marks.sealed, marks.drawn)

    def test_seals_and_entries_are_read_in_pages(self, store: Store) -> None:
        """Oldest first, after a number."""
        fence = steps.own(store, (Lane.BACKFILL,))
        for name in ("a", "b", "c"):
            steps.create(store, name)
            seal(store, fence)
        trail = store.read_trail(0, 100)

        assert [1, 2] == [one.number for one in store.list_seals(0, 2)]
        assert [3] == [one.number for one in store.list_seals(2, 2)]
        assert (trail[:2], trail[2:]) == (
            store.read_trail(0, 2),
            store.read_trail(trail[1].number, 2),
        )
        assert trail == list(store.follow_audit(AuditAfter(after=0)).entries)

    @pytest.mark.parametrize("owner", ["another lane", "taken over", "expired"])
    def test_whoever_lacks_the_maintenance_lease_seals_nothing(
        self, store: Store, clock: ManualClock, owner: str
    ) -> None:
        """INV-5: one sealer at a time; it is the backfill lease of shard 0."""
        steps.create(store)
        lanes = (Lane.LIVE, Lane.CATCH_UP) if owner == "another lane" else tuple(Lane)
        fence = steps.own(store, lanes)
        if owner != "another lane":
            clock.advance(MEMBER_TTL_US)
        if owner == "taken over":
            steps.own(store)

        assert (None, []) == (seal(store, fence), store.list_seals(0, 100))


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
        """However small the pages."""
        for name in ("a", "b", "c"):
            steps.pause(store, steps.create(store, name))
        written = [one.number for one in store.list_audit(AuditFilter())]

        assert sorted(written) == followed(store)
        assert sorted(written)[3:] == followed(store, after=sorted(written)[2])

    def test_entries_are_the_same_as_those_that_are_listed(self, store: Store) -> None:
        """One trail, read in two directions."""
        steps.pause(store, steps.create(store))
        page = store.follow_audit(AuditAfter(after=0))

        assert store.list_audit(AuditFilter()) == list(reversed(page.entries))

    def test_an_entry_tells_from_which_address_and_by_what_an_order_came(
        self, store: Store
    ) -> None:
        """Whether it was about one thing or about several at once."""
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
        """And nothing of what was."""
        record = steps.create(store)
        now = store.follow_audit(AuditAfter(after=None))
        steps.pause(store, record)

        assert ((), False) == (now.entries, now.through == 0)
        assert ["schedule.paused"] == [
            one.action for one in store.follow_audit(AuditAfter(after=now.through)).entries
        ]

    def test_an_empty_trail_ends_where_it_begins(self, store: Store) -> None:
        for after in (None, 0):
            page = store.follow_audit(AuditAfter(after=after))

            assert ((), 0) == (page.entries, page.through)

    def test_who_follows_one_tenant_passes_over_the_others(self, store: Store) -> None:
        """Also their entries count as looked at, or one would look at them for ever."""
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
