"""Sealing the audit trail: the part of the contract by which tampering shows (A2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from duly.domain.literals import Lane
from duly.domain.sealing import Chain, Trace, entry_facts, sealed_entry
from duly.store.dispatch import MEMBER_TTL_US
from duly.store.sealing import SealAudit
from duly.store.trailing import AuditAfter
from duly.testing.conformance import steps

if TYPE_CHECKING:
    from duly.domain.sealing import Seal
    from duly.store.dispatch import Fence
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


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
        """A2: stretch by stretch, each chained to the one before it."""
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
        """A2: with the time of the sealing, and who did it."""
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
        """A2."""
        fence = steps.own(store, (Lane.BACKFILL,))

        assert (None, []) == (seal(store, fence), store.list_seals(0, 100))

    def test_seals_and_entries_are_read_in_pages(self, store: Store) -> None:
        """A2: oldest first, after a number."""
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
        """A2, INV-5: one sealer at a time; it is the backfill lease of shard 0."""
        steps.create(store)
        lanes = (Lane.LIVE, Lane.CATCH_UP) if owner == "another lane" else tuple(Lane)
        fence = steps.own(store, lanes)
        if owner != "another lane":
            clock.advance(MEMBER_TTL_US)
        if owner == "taken over":
            steps.own(store)

        assert (None, []) == (seal(store, fence), store.list_seals(0, 100))
