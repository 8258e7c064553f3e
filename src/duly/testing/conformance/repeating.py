"""Safe repetition: the part of the contract about answers that are kept, and frozen sets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from duly.domain.access import Expiry, secret_hash
from duly.domain.identity import RunId, schedule_id
from duly.store.access import (
    ANSWER_AWAITED_US,
    ANSWER_KEPT_US,
    FROZEN_SETS_MAX,
    FROZEN_US,
    TOKENS_KEPT_US,
    Announced,
    Answer,
    AnswerKey,
    BeginAnswer,
    FinishAnswer,
    Freeze,
    Standing,
)
from duly.store.dispatch import PruneKind
from duly.testing.conformance.access import SECRET, add, begin
from duly.testing.conformance.retention import KEEP, prune
from duly.testing.factories import DAY_US

if TYPE_CHECKING:
    from duly.store.protocol import Store
    from duly.testing.manual_clock import ManualClock

ORDER = AnswerKey(tenant="acme", principal=bytes(range(16)), key="k1")
ANSWER = Answer(status=201, headers={"ETag": '"1"'}, body=b'{"id": "\xc3\xa9"}\x00')


class KeptAnswers:
    """What makes an order safe to repeat."""

    def test_an_order_is_begun_once_and_then_answered_alike(self, store: Store) -> None:
        """A4, INV-17: who repeats it gets the same answer, byte for byte."""
        now = store.now()
        first = announce(store)
        meanwhile = announce(store)
        assert store.finish_answer(finish(first))

        assert Announced(Standing.BEGUN, 1, now) == first
        assert Announced(Standing.RUNNING) == meanwhile
        assert Announced(Standing.ANSWERED, answer=ANSWER) == announce(store)

    def test_a_key_is_for_one_order(self, store: Store) -> None:
        """L6: another one under it is told apart, running or answered."""
        first = announce(store)
        running = announce(store, request=b"other")
        store.finish_answer(finish(first))

        assert Standing.DIFFERENT is running.standing
        assert Standing.DIFFERENT is announce(store, request=b"other").standing

    @pytest.mark.parametrize("part", ["tenant", "principal", "key"])
    def test_keys_of_others_have_nothing_to_do_with_it(self, store: Store, part: str) -> None:
        """L2: neither of another tenant, nor of another token of it."""
        store.finish_answer(finish(announce(store)))
        others: dict[str, Any] = {"tenant": "globex", "principal": bytes(16), "key": "k2"}
        elsewhere = replace(ORDER, **{part: others[part]})

        assert Standing.BEGUN is announce(store, key=elsewhere).standing

    def test_an_order_of_which_nothing_was_done_may_come_again(self, store: Store) -> None:
        """A4: even another one, under the same key; under a fence of its own."""
        first = announce(store)
        store.forget_answer(ORDER, first.fence)
        second = announce(store, request=b"other")
        store.forget_answer(ORDER, first.fence)

        assert (Standing.BEGUN, first.fence + 1) == (second.standing, second.fence)
        assert Standing.RUNNING is announce(store, request=b"other").standing
        assert not store.finish_answer(finish(first))
        assert store.finish_answer(finish(second))
        store.forget_answer(ORDER, second.fence)
        assert Standing.ANSWERED is announce(store, request=b"other").standing

    def test_what_somebody_began_and_died_over_is_begun_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A4: a minute later, under a higher fence, and with the same begin for its ids."""
        first = announce(store)
        clock.advance(ANSWER_AWAITED_US - 1)
        assert Standing.RUNNING is announce(store).standing
        clock.advance(1)
        second = announce(store)

        taken_over = Announced(Standing.BEGUN, first.fence + 1, first.begun_at, is_taken_over=True)
        assert taken_over == second
        assert not store.finish_answer(finish(first))
        assert store.finish_answer(finish(second))

    def test_an_answer_is_kept_for_a_day(self, store: Store, clock: ManualClock) -> None:
        """A4."""
        store.finish_answer(finish(announce(store)))
        clock.advance(ANSWER_KEPT_US - 1)
        assert Standing.ANSWERED is announce(store).standing
        clock.advance(1)

        assert Standing.BEGUN is announce(store, request=b"other").standing


class FrozenSets:
    """What a set of runs that was chosen promises, and what is forgotten of access."""

    def test_a_set_stays_as_it_was_chosen(self, store: Store) -> None:
        """A1."""
        ids = tuple(RunId(number.to_bytes(16)) for number in (3, 1, 2))
        kept = store.freeze(frozen(1, ids=ids))

        assert kept == store.find_frozen(kept.id, "acme")
        assert (ids, '{"state":"dead"}', 5) == (kept.ids, kept.chosen_by, kept.as_of)
        empty = store.freeze(frozen(2))
        assert empty == store.find_frozen(empty.id, "acme")

    def test_a_set_is_the_tenants_own_and_expires(self, store: Store, clock: ManualClock) -> None:
        """A1, L2."""
        kept = store.freeze(frozen(1))
        assert store.find_frozen(kept.id, "globex") is None
        clock.advance(FROZEN_US)

        assert store.find_frozen(kept.id, "acme") is None

    def test_who_makes_many_sets_keeps_the_newest(self, store: Store) -> None:
        """A1: and nobody else's make room for them."""
        others = store.freeze(replace(frozen(1), made_by="bob"))
        kept = [store.freeze(frozen(number)) for number in range(2, FROZEN_SETS_MAX + 3)]

        assert store.find_frozen(kept[0].id, "acme") is None
        assert all(store.find_frozen(one.id, "acme") for one in kept[1:])
        assert store.find_frozen(others.id, "acme")

    def test_what_has_expired_is_forgotten(self, store: Store, clock: ManualClock) -> None:
        """D6: and what has not is kept."""
        begin(store)
        store.add_code(SECRET)
        announce(store)
        store.freeze(frozen(1))
        token = add(store, expiry=Expiry(after_us=DAY_US))
        lasting = add(store, 2, expiry=Expiry())
        assert 0 == prune(store, KEEP).counts[PruneKind.ACCESS]
        clock.advance(DAY_US)
        begin(store, "another")
        key = replace(ORDER, key="k2")
        announce(store, key=key)

        assert 4 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert 0 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert store.find_session(secret_hash("another"))
        assert Standing.RUNNING is announce(store, key=key).standing
        clock.advance(TOKENS_KEPT_US - 1)
        assert 2 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert store.find_token(token.prefix)
        clock.advance(1)
        assert 1 == prune(store, KEEP).counts[PruneKind.ACCESS]
        assert [lasting] == store.list_tokens(None)


def announce(store: Store, *, key: AnswerKey = ORDER, request: bytes = b"order") -> Announced:
    """Announce an order."""
    return store.begin_answer(BeginAnswer(key=key, request_hash=request))


def finish(announced: Announced) -> FinishAnswer:
    """Return the answer to an order that was begun."""
    assert Standing.BEGUN is announced.standing
    return FinishAnswer(key=ORDER, fence=announced.fence, answer=ANSWER)


def frozen(number: int, ids: tuple[RunId, ...] = ()) -> Freeze:
    """Return the order to keep a set of runs."""
    return Freeze(
        id=schedule_id(0, number.to_bytes(10)),
        tenant="acme",
        made_by="ada",
        chosen_by='{"state":"dead"}',
        ids=ids,
        as_of=5,
    )
