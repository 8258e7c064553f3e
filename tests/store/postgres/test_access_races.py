"""Access under real races: what may happen once happens once, however many come at once."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial

import pytest

from duly.domain.auth import secret_hash
from duly.store.ports.auth import ANSWER_AWAITED_US, IdempotencyStatus
from duly_conformance import access
from duly_conformance.steps import audit

CROWD = 8
ROUNDS = 5


@pytest.fixture
def store(patient_store):
    return patient_store


def test_of_a_crowd_with_one_order_one_begins_it(store, watch, clock):
    """INV-17: at first, and again when whoever began it is gone."""
    for number in range(ROUNDS):
        key = replace(access.ORDER, key=f"k{number}")
        crowd = CROWD * [partial(access.announce, store, key=key)]
        first = Counter(found.standing for found in watch.at_once(*crowd))
        clock.advance(ANSWER_AWAITED_US)
        second = Counter(found.standing for found in watch.at_once(*crowd))

        assert {IdempotencyStatus.BEGUN: 1, IdempotencyStatus.RUNNING: CROWD - 1} == first == second


def test_who_comes_second_waits_for_the_first_to_commit(store, watch):
    """And then finds what it has begun, and not a key that nobody has."""
    watch.put_turnstile("UPDATE", "duly.answers")
    first = watch.start(partial(access.announce, store))
    assert watch.stands_at_the_turnstile()
    second = watch.start(partial(access.announce, store))
    assert watch.is_blocked()
    watch.open_turnstile()

    assert IdempotencyStatus.BEGUN is first.result(120).standing
    assert IdempotencyStatus.RUNNING is second.result(120).standing


def test_of_a_crowd_with_one_code_one_spends_it(store, watch):
    for number in range(ROUNDS):
        secret = secret_hash(f"code {number}")
        store.add_code(secret)

        spent = watch.at_once(*CROWD * [partial(store.spend_code, secret)])

        assert 1 == sum(spent)


def test_of_a_crowd_that_revokes_a_token_one_is_on_record(store, watch):
    token = access.add(store)

    revoked = watch.at_once(*CROWD * [partial(access.revoke, store, token)])

    assert 1 == len(set(revoked))
    assert ["token.revoked"] == [one.action for one in audit(store, action="token.revoked")]
