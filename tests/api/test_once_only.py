"""An order under an Idempotency-Key is carried out once, and answered alike."""

from __future__ import annotations

from typing import Any

import pytest

from duly.api import repeating
from duly.api.app import Api
from duly.errors import StoreUnavailable
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for

KEY = {"Idempotency-Key": "7d2f"}
HOURLY = {"name": "nightly", "task": "report", "when": "1h", "overlap": "allow"}


@pytest.fixture
def orders(asked):
    asked.post("/schedules", json=HOURLY)
    return asked


def runs(asker) -> int:
    return len(asker.get("/runs").json()["items"])


def test_an_order_given_again_is_answered_as_before(orders):
    first = orders.post("/schedules/nightly/trigger", headers=KEY)
    again = orders.post("/schedules/nightly/trigger", headers=KEY)
    another = orders.post("/schedules/nightly/trigger", headers={"Idempotency-Key": "other"})

    assert (201, first.content) == (again.status_code, again.content)
    assert (None, "true") == (
        first.headers.get("Idempotency-Replayed"),
        again.headers["Idempotency-Replayed"],
    )
    assert another.json()["id"] != first.json()["id"]
    assert 2 == runs(orders)


def test_an_edit_whose_answer_was_lost_can_be_given_again(orders):
    """It is not told that it came too late because of itself."""
    headers = {**KEY, "If-Match": '"1"'}
    first = orders.patch("/schedules/nightly", json={"jitter": "1m"}, headers=headers)
    again = orders.patch("/schedules/nightly", json={"jitter": "1m"}, headers=headers)

    assert (200, '"2"') == (again.status_code, again.headers["ETag"])
    assert first.content == again.content


@pytest.mark.parametrize(
    "other",
    [
        ("/schedules/nightly/trigger", {"json": {"reason": "else"}}),
        ("/schedules/nightly/pause", {}),
    ],
)
def test_a_key_belongs_to_one_order(orders, other):
    orders.post("/schedules/nightly/trigger", headers=KEY)
    path, options = other
    refused = orders.post(path, headers=KEY, **options)

    assert (422, "key-reused") == (refused.status_code, refused.json()["code"])


def test_a_key_is_its_owners(app, orders):
    orders.post("/schedules/nightly/trigger", headers=KEY)
    by_another = orders.post("/schedules/nightly/trigger", headers=KEY | token_for(app, "bert"))

    assert 201 == by_another.status_code
    assert 2 == runs(orders)


def test_what_was_refused_may_be_given_again(orders):
    """A refusal has done nothing: the same order may well be good later."""
    missing = orders.post("/schedules/later/trigger", headers=KEY)
    orders.post("/schedules", json={"name": "later", "task": "report", "when": "1h"})
    now_there = orders.post("/schedules/later/trigger", headers=KEY)

    assert (404, 201) == (missing.status_code, now_there.status_code)


@pytest.mark.parametrize("key", ["", "a" * 201, "\u00e9", "a b"])
def test_what_is_no_key_is_refused(orders, key):
    answer = orders.post(
        "/schedules/nightly/trigger", headers={"Idempotency-Key": key.encode("latin-1")}
    )

    assert (422, "Idempotency-Key") == (answer.status_code, answer.json()["field"])


class LosingWord:
    """A store whose word of what it did is lost once: the process died, or the network."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_losing = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def finish_answer(self, command: Any) -> bool:
        if self.is_losing:
            raise StoreUnavailable("store", "went away", "try again")
        kept: bool = self._store.finish_answer(command)
        return kept


def test_an_order_whose_word_was_lost_is_found_and_not_made_twice(app, store, clock, orders):
    """Whoever takes it over after a minute makes the same ids."""
    losing: Any = LosingWord(store)
    headers = token_for(app)
    with app.standing_in(losing, clock, clock.advance), Asker(Api(app), headers) as asker:
        lost = asker.post("/schedules/nightly/trigger", headers=KEY)
        made = asker.get("/runs").json()["items"]
        losing.is_losing = False
        at_once = asker.post("/schedules/nightly/trigger", headers=KEY)
        clock.advance("2m")
        later = asker.post("/schedules/nightly/trigger", headers=KEY)
        again = asker.post("/schedules/nightly/trigger", headers=KEY)

    assert (503, 1) == (lost.status_code, len(made))
    assert (409, "still-running") == (at_once.status_code, at_once.json()["code"])
    assert (201, made[0]["id"]) == (later.status_code, later.json()["id"])
    assert later.content == again.content
    assert 1 == runs(orders)


def test_an_order_that_does_more_each_time_is_not_given_anew_unseen(app, store, clock, orders):
    """The first has skipped an occurrence and died; the next one is not skipped with it."""
    losing: Any = LosingWord(store)
    headers = token_for(app)
    with app.standing_in(losing, clock, clock.advance), Asker(Api(app), headers) as asker:
        lost = asker.post("/schedules/nightly/skip", headers=KEY)
        skipped = asker.get("/schedules/nightly").json()
        losing.is_losing = False
        clock.advance("2m")
        later = asker.post("/schedules/nightly/skip", headers=KEY)
        again = asker.post("/schedules/nightly/skip", headers=KEY)

    assert (503, 409, 409) == (lost.status_code, later.status_code, again.status_code)
    assert ("outcome-unknown", later.content) == (later.json()["code"], again.content)
    assert "application/problem+json" == again.headers["Content-Type"]
    assert skipped["version"] == orders.get("/schedules/nightly").json()["version"]


def test_an_answer_that_is_too_long_is_not_kept(orders, monkeypatch):
    """The order is not carried out again for that."""
    monkeypatch.setattr(repeating, "ANSWER_BYTES_MAX", 10)
    first = orders.post("/schedules/nightly/trigger", headers=KEY)
    again = orders.post("/schedules/nightly/trigger", headers=KEY)

    assert (201, 409) == (first.status_code, again.status_code)
    assert "answer-gone" == again.json()["code"]
    assert 1 == runs(orders)


def test_the_text_of_a_token_is_kept_nowhere(app, store, asked):
    """Neither with the answers that are kept."""
    made = asked.post("/tokens", json={"name": "ci"}, headers=KEY)
    again = asked.post("/tokens", json={"name": "ci"}, headers=KEY)

    assert (201, 201) == (made.status_code, again.status_code)
    assert made.json()["text"] != again.json()["text"]


class LosingAnswer:
    """A store that changes a schedule and loses its answer, for as long as `is_losing`."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_losing = True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def change_schedule(self, command: Any) -> Any:
        changed = self._store.change_schedule(command)
        if self.is_losing:
            raise StoreUnavailable("store", "lost the answer", "look again")
        return changed


def test_an_order_whose_answer_was_lost_is_not_carried_out_twice(app, store, clock, orders):
    """The store failed after it had skipped the occurrence; the key stays announced."""
    losing: Any = LosingAnswer(store)
    headers = token_for(app)
    with app.standing_in(losing, clock, clock.advance), Asker(Api(app), headers) as asker:
        lost = asker.post("/schedules/nightly/skip", headers=KEY)
        skipped = asker.get("/schedules/nightly").json()
        losing.is_losing = False
        at_once = asker.post("/schedules/nightly/skip", headers=KEY)
        clock.advance("2m")
        later = asker.post("/schedules/nightly/skip", headers=KEY)

    assert (503, 2) == (lost.status_code, skipped["version"])
    assert (409, "still-running") == (at_once.status_code, at_once.json()["code"])
    assert (409, "outcome-unknown") == (later.status_code, later.json()["code"])
    assert skipped["version"] == orders.get("/schedules/nightly").json()["version"]


def test_the_parts_of_a_request_are_not_run_together():
    """A request with the same bytes, divided elsewhere, is another one."""
    assert repeating.request_hash(b"a", b"bc") != repeating.request_hash(b"ab", b"c")
    assert repeating.request_hash(b"abc") != repeating.request_hash(b"abc", b"")


@pytest.mark.parametrize("key", ["a", "a" * 200])
def test_a_key_may_have_one_to_two_hundred_characters(key):
    assert key == repeating.read_key(key)
