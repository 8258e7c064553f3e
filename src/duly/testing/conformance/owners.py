"""Owners: the part of the contract about schedules whose owner is gone (S6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.literals import Missed
from duly.domain.owners import GoneRecord, decide_gone
from duly.domain.planning import decide_restore, decide_resume
from duly.domain.quotas import EACH_OWNER, Counted, QuotaKey
from duly.errors import Conflict, NotFound
from duly.store.owners import MarkOwner
from duly.store.quotas import SetQuotas
from duly.testing.conformance import steps
from duly.testing.factories import ADA, HOUR_US, SECOND_US, new_schedule, staying
from duly.testing.snapshot import snapshot

if TYPE_CHECKING:
    from duly.domain.schedules import ScheduleRecord
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

MANY = 100


class GoneOwners:
    """What it means that somebody says of an owner that they are gone."""

    def test_nothing_new_is_made_for_an_owner_who_is_gone(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S6: whether declared or not; of another tenant or name, they are somebody else."""
        said_at = clock.now_us()
        gone(store, "anna")
        clock.advance(HOUR_US)
        before = snapshot(store)

        with pytest.raises(Conflict, match=r"'anna' is gone, .* duly owner back anna$") as no:
            steps.create(store, "new", owner="anna")
        with pytest.raises(Conflict, match="'anna' is gone"):
            steps.create(store, "declared", owner="anna", declared_by="code:app")

        assert ("owner", "anna") == (no.value.what, no.value.name)
        assert before == snapshot(store)
        steps.create(store, "another's", owner="ann")
        steps.create(store, "nobody's")
        steps.create(store, "elsewhere", owner="anna", tenant="acme")
        expected = GoneRecord(
            owner="anna", tenant="default", gone_at=said_at, said_by=ADA.name, active=0
        )
        assert [expected] == store.list_gone("default", "", 10)

    def test_what_rests_is_not_woken_for_an_owner_who_is_gone(self, store: Store) -> None:
        """S6: neither resumed, restored, nor given to them; somebody else may take it over."""
        hers, his, old = (steps.create(store, who, owner=who) for who in ("anna", "bob", "cleo"))
        paused, deleted = steps.pause(store, hers), steps.delete(store, old)
        gone(store, "anna")
        gone(store, "cleo")
        before = snapshot(store)
        with pytest.raises(Conflict, match="'anna' is gone"):
            resume(store, paused)
        with pytest.raises(Conflict, match="'anna' is gone"):
            steps.apply(store, his, staying(his, owner="anna"))
        with pytest.raises(Conflict, match="'cleo' is gone"):
            steps.apply(store, deleted, decide_restore(deleted, store.now(), None))
        assert before == snapshot(store)

        taken = steps.apply(store, paused, staying(paused, owner="bob"))

        assert "active" == resume(store, taken).status

    def test_what_still_fires_for_them_is_found_until_it_is_paused(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S6: also what would go on by itself; it is paused without an end, and its reason told."""
        fires, second, rests = (steps.create(store, name, owner="anna") for name in "abc")
        steps.pause(store, rests)
        comes_back = steps.pause(store, second, until=clock.now_us() + HOUR_US)
        declared = steps.create(store, "declared", owner="anna", declared_by="code:app")
        steps.create(store, "his", owner="bob")
        gone(store, "anna")
        expected = sorted(one.id for one in (fires, comes_back, declared))
        assert expected == store.list_active_of("default", "anna", MANY)
        assert expected[:2] == store.list_active_of("default", "anna", 2)
        assert [3] == [one.active for one in store.list_gone("default", "", 10)]

        for schedule in (fires, comes_back):
            change = decide_gone(schedule, "anna", "left")
            assert change is not None
            steps.apply(store, schedule, change)

        assert [declared.id] == store.list_active_of("default", "anna", MANY)
        assert [1] == [one.active for one in store.list_gone("default", "", 10)]
        seen = steps.look(store, comes_back)
        assert ("paused", "left", None) == (str(seen.status), seen.reason, seen.resume_at)

    def test_an_edit_that_leaves_the_owner_is_not_refused(self, store: Store) -> None:
        """S6: what an order has not come to yet can be changed, and paused, all the same."""
        record = steps.create(store, owner="anna")
        gone(store, "anna")

        renamed = steps.apply(store, record, staying(record, name="renamed"))

        assert "paused" == str(steps.pause(store, renamed).status)

    def test_who_is_back_has_schedules_again(self, store: Store) -> None:
        """S6, A2: what was paused stays so; who is not gone can't be back."""
        paused = steps.pause(store, steps.create(store, owner="anna"))
        gone(store, "anna")

        was = store.mark_back(of("anna"))

        assert ("anna", ADA.name) == (was.owner, was.said_by)
        assert [] == store.list_gone("default", "", 10)
        assert "paused" == str(steps.look(store, paused).status)
        assert "active" == str(resume(store, paused).status)
        with pytest.raises(NotFound):
            store.mark_back(of("anna"))
        with pytest.raises(NotFound):
            store.mark_back(of("nobody"))

    def test_what_is_said_of_owners_is_on_record_once(
        self, store: Store, clock: ManualClock
    ) -> None:
        """S6, A2: said again, it stands as it was said first."""
        first = gone(store, "anna")
        clock.advance(SECOND_US)
        assert first == gone(store, "anna")
        store.mark_back(of("anna"))

        trail = [one for one in steps.audit(store) if one.action.startswith("owner.")]

        assert [("owner.back", "anna", "default"), ("owner.gone", "anna", "default")] == [
            (one.action, one.subject, one.tenant) for one in trail
        ]
        assert ADA.name == trail[1].actor.name
        assert trail[1].after == trail[0].before
        assert (None, None) == (trail[1].before, trail[0].after)

    def test_those_who_are_gone_are_listed_by_name_and_tenant(self, store: Store) -> None:
        """S6, L2: page after page; they are no quotas, whatever is set for them."""
        key = QuotaKey(EACH_OWNER)
        store.set_quotas(SetQuotas(key=key, most={Counted.SCHEDULES: 3}, actor=ADA))
        for name in ("bob", "anna", "Äda", "a:b"):
            gone(store, name)
        gone(store, "cleo", tenant="acme")

        first = store.list_gone("default", "", 2)
        rest = store.list_gone("default", first[-1].owner, 10)

        assert ["a:b", "anna", "bob", "Äda"] == [one.owner for one in (*first, *rest)]
        assert ["cleo"] == [one.owner for one in store.list_gone("acme", "", 10)]
        assert [key] == [one.key for one in store.list_quotas()]

    def test_an_owner_who_is_gone_is_so_within_a_lent_transaction(self, store: Store) -> None:
        """S6, D3: the order is refused, and the caller goes on."""
        gone(store, "anna")
        with store.transaction(SECOND_US) as lent:
            with pytest.raises(Conflict, match="'anna' is gone"):
                store.create_schedule(new_schedule(store.now(), "a", owner="anna"), within=lent)
            store.create_schedule(new_schedule(store.now(), "b"), within=lent)

        assert store.find_schedule("default", "a") is None
        assert store.find_schedule("default", "b") is not None


def of(owner: str, **parts: Any) -> MarkOwner:
    """Return an order about an owner."""
    return MarkOwner(**{"owner": owner, "tenant": "default", "actor": ADA, **parts})


def gone(store: Store, owner: str, **parts: Any) -> GoneRecord:
    """Say that an owner is gone."""
    return store.mark_gone(of(owner, **parts))


def resume(store: Store, record: ScheduleRecord) -> ScheduleRecord:
    """Resume a schedule from now on."""
    change = decide_resume(record, store.now(), Missed.SKIP, "taken over")
    return steps.apply(store, record, change)
