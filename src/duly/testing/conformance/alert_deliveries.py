"""Deliveries of alerts, and what people say about alerts: their part of the contract (V3)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from duly.domain.alert_delivery import DeliveryState, Tried
from duly.errors import Conflict
from duly.store.alerting import RemoveTerm, SetTerm, SettleDelivery, TermSort
from duly.testing.conformance import steps
from duly.testing.conformance.alerts import LOST, PERSON, actions, condition, look, lose, watch

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock


class Deliveries:
    """What is promised about deliveries."""

    def test_a_delivery_is_due_until_it_is_settled(self, store: Store, clock: ManualClock) -> None:
        """V3: done, or due again at its time; each under the id it had from the first."""
        fence = watch(store)
        look(store, fence, condition())
        first, second = store.load_deliveries(10).due
        again = Tried(DeliveryState.PENDING, wait_us=5_000_000, error="busy")

        told = [
            store.settle_delivery(
                SettleDelivery(
                    fence=fence, id=first.delivery.id, tries=0, tried=Tried(DeliveryState.DONE)
                )
            ),
            store.settle_delivery(
                SettleDelivery(fence=fence, id=second.delivery.id, tries=0, tried=again)
            ),
        ]

        waiting = store.load_deliveries(10)
        assert ([True, True], (), clock.now_us() + 5_000_000) == (
            told,
            waiting.due,
            waiting.next_at,
        )
        clock.advance(5_000_000)
        (due,) = store.load_deliveries(10).due
        assert (second.delivery.id, 1, "busy") == (
            due.delivery.id,
            due.delivery.tries,
            due.delivery.error,
        )
        states = {one.channel: one.state for one in store.list_deliveries(first.alert.id)}
        assert {DeliveryState.DONE, DeliveryState.PENDING} == set(states.values())

    def test_a_try_is_settled_once(self, store: Store) -> None:
        """V3: a second word about it changes nothing."""
        fence = watch(store)
        look(store, fence, condition())
        due = store.load_deliveries(1).due[0].delivery
        done = SettleDelivery(fence=fence, id=due.id, tries=0, tried=Tried(DeliveryState.DONE))
        failed = replace(done, tried=Tried(DeliveryState.GIVEN_UP, error="no"))

        assert [True, False, False] == [store.settle_delivery(one) for one in (done, done, failed)]
        assert [] == actions(store, "alert.undelivered")

    def test_what_is_given_up_is_on_record(self, store: Store) -> None:
        """V3, A2: with what the channel said."""
        fence = watch(store)
        look(store, fence, condition())
        due = store.load_deliveries(1).due[0].delivery
        tried = Tried(DeliveryState.GIVEN_UP, error="no such address")

        store.settle_delivery(SettleDelivery(fence=fence, id=due.id, tries=0, tried=tried))

        (entry,) = steps.audit(store, action="alert.undelivered")
        assert entry.after is not None
        assert (due.channel, 1, "no such address") == (
            entry.after["channel"],
            entry.after["tries"],
            entry.after["error"],
        )

    @LOST
    def test_whoever_has_the_watch_no_more_settles_nothing(
        self, store: Store, clock: ManualClock, how: str
    ) -> None:
        """V3: the next one tries again, under the same id."""
        fence = watch(store)
        look(store, fence, condition())
        store.release_watch(fence)
        due = store.load_deliveries(1).due[0].delivery
        stale = lose(store, clock, how)
        order = SettleDelivery(fence=stale, id=due.id, tries=0, tried=Tried(DeliveryState.DONE))

        assert not store.settle_delivery(order)
        assert due.id in {one.delivery.id for one in store.load_deliveries(10).due}

    def test_deliveries_are_read_longest_due_first(self, store: Store, clock: ManualClock) -> None:
        """V3: at most so many; when the next one is due is told as well."""
        fence = watch(store)
        look(store, fence, condition("queue a"))
        clock.advance(1)
        look(store, fence, condition("queue a"), condition("queue b"))

        found = store.load_deliveries(3)

        assert ["queue a", "queue a", "queue b"] == [one.alert.subject for one in found.due]
        assert (clock.now_us(), clock.now_us()) == (found.next_at, found.now)

    def test_an_end_waits_for_its_beginning(self, store: Store, clock: ManualClock) -> None:
        """V3: who was told of the end first would take the beginning for news, and stay alarmed."""
        fence = watch(store)
        look(store, fence, condition())
        done, late = store.load_deliveries(10).due
        later = Tried(DeliveryState.PENDING, wait_us=5_000_000, error="busy")
        for one, tried in ((done, Tried(DeliveryState.DONE)), (late, later)):
            order = SettleDelivery(fence=fence, id=one.delivery.id, tries=0, tried=tried)
            assert store.settle_delivery(order)
        look(store, fence)

        before = store.load_deliveries(10)
        clock.advance(5_000_000)
        (begun,) = [one for one in store.load_deliveries(10).due if one.delivery.told == "raised"]
        gone = Tried(DeliveryState.GIVEN_UP, error="no")
        order = SettleDelivery(fence=fence, id=begun.delivery.id, tries=1, tried=gone)
        assert store.settle_delivery(order)
        after = store.load_deliveries(10)

        channel = done.delivery.channel
        assert [("resolved", channel)] == [
            (one.delivery.told, one.delivery.channel) for one in before.due
        ]
        assert before.now + 5_000_000 == before.next_at
        assert ({"resolved"}, 2) == ({one.delivery.told for one in after.due}, len(after.due))


class AlertTerms:
    """What is promised about rules, channels and silences."""

    def test_what_was_said_is_kept_and_replaced(self, store: Store, clock: ManualClock) -> None:
        """V3, A2: with who said it, before and after."""
        order = SetTerm(
            sort=TermSort.RULE, name="mail", terms={"threshold": 3, "ß": [1]}, actor=PERSON
        )
        store.set_alert_term(order)
        clock.advance(1)

        made = store.set_alert_term(replace(order, terms={"threshold": 4}))

        assert [made] == store.list_alert_terms(TermSort.RULE)
        assert ({"threshold": 4}, clock.now_us(), "anna", "because") == (
            made.terms,
            made.set_at,
            made.set_by,
            made.reason,
        )
        assert (made,) == store.load_watched().terms
        newest, oldest = steps.audit(store, action="alert-rule.set")
        assert (None, {"threshold": 3, "ß": [1]}) == (oldest.before, oldest.after)
        assert ({"threshold": 3, "ß": [1]}, {"threshold": 4}) == (newest.before, newest.after)

    def test_sorts_do_not_meet(self, store: Store) -> None:
        """V3: a rule and a channel may have one name."""
        for sort in TermSort:
            store.set_alert_term(SetTerm(sort=sort, name="x", terms={"of": sort}, actor=PERSON))

        assert [[{"of": str(sort)}] for sort in TermSort] == [
            [one.terms for one in store.list_alert_terms(sort)] for sort in TermSort
        ]

    def test_a_new_name_is_nobody_elses(self, store: Store) -> None:
        """V3, L2."""
        order = SetTerm(
            sort=TermSort.SILENCE, name="x", tenant="acme", terms={}, until=None, actor=PERSON
        )
        store.set_alert_term(order)

        for other in (replace(order, is_new=True), replace(order, tenant="else")):
            with pytest.raises(Conflict, match="is there already"):
                store.set_alert_term(other)
        assert ["acme"] == [one.tenant for one in store.list_alert_terms(TermSort.SILENCE)]

    def test_what_is_taken_back_is_gone(self, store: Store) -> None:
        """V3, A2, L2: once, and only by whose it is."""
        order = SetTerm(sort=TermSort.CHANNEL, name="x", tenant="acme", terms={}, actor=PERSON)
        store.set_alert_term(order)
        gone = RemoveTerm(sort=TermSort.CHANNEL, name="x", actor=PERSON)

        done = [
            store.remove_alert_term(one)
            for one in (replace(gone, tenant="else"), replace(gone, tenant="acme"), gone)
        ]

        assert ([False, True, False], []) == (done, store.list_alert_terms(TermSort.CHANNEL))
        assert ["alert-channel.set", "alert-channel.removed"] == actions(store)

    def test_a_silence_is_over_by_itself(self, store: Store, clock: ManualClock) -> None:
        """V3: by the store's clock."""
        until = clock.now_us() + 5
        order = SetTerm(sort=TermSort.SILENCE, name="x", terms={}, until=until, actor=PERSON)
        store.set_alert_term(order)
        clock.advance(4)
        before = len(store.list_alert_terms(TermSort.SILENCE)), len(store.load_watched().terms)
        clock.advance(1)

        assert (1, 1) == before
        assert ([], ()) == (store.list_alert_terms(TermSort.SILENCE), store.load_watched().terms)
