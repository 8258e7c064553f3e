"""Limits and breakers in a program's hands."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import NotFound, Retry, UsageError
from duly.testing import virtual_time

START = "2026-05-04T12:00"


@pytest.fixture
def app() -> duly.App:
    return duly.App("memory:")


def sender(app: duly.App, **options: Any) -> Any:
    @app.task(**options)
    def send(account: int = 0) -> None:
        """Do nothing."""

    return send


def test_a_limit_is_set_shown_and_removed_on_record(app: duly.App):
    made = app.limits.set("tenant:acme", running=20, rate="50/s burst 5", reason="they asked")
    [listed] = app.limits.list()

    assert made == listed
    assert ("tenant:acme", 20, "50/1s burst 5") == (made.name, made.running, made.rate)
    assert ("person", "they asked") == (made.source, made.reason)
    assert "tenant:acme" == made.to_json()["name"]
    assert app.limits.remove("tenant:acme")
    assert not app.limits.remove("tenant:acme")
    assert [] == app.limits.list()


@pytest.mark.parametrize(
    ("name", "parts", "message"),
    [
        ("acme", {"running": 1}, "limit: 'acme' names nothing that has limits; name a task"),
        ("tenant:", {"running": 1}, "limit: 'tenant:' names nothing that has limits"),
        ("queue:mail", {"running": 1}, "limit: 'queue:mail' names nothing that has limits"),
        ("task:send", {}, "limit: 'task:send' would limit nothing; give running"),
        ("task:send", {"running": 0}, "running: 0 is out of range"),
        ("task:send", {"rate": "often"}, "rate: 'often' is not a rate"),
        ("tenant:acme", {"running_by": {"a": 1}}, "running_by: 'tenant:acme' has no parameters"),
    ],
)
def test_a_limit_that_can_not_be_is_refused(app: duly.App, name, parts, message):
    with pytest.raises(UsageError, match=f"^{message}"):
        app.limits.set(name, **parts)

    assert [] == app.limits.list()


def test_what_code_declares_is_listed_and_a_persons_word_counts_before_it(app: duly.App):
    """Until it is removed."""
    send = sender(app, rate="1/m burst 1")
    with virtual_time(app, START) as clock:
        app.enqueue_many(send.bind(account=one) for one in range(3))
        clock.advance("30s")
        waiting = app.runs.list(state="retrying")
        app.limits.set("task:send", rate="1000/s")
        more = app.enqueue_many(send.bind(account=one) for one in range(10, 15))
        clock.advance("10s")

        assert ["code", "person"] == sorted(one.source for one in app.limits.list())
        assert 2 == len(waiting)
        assert {"succeeded"} == {app.runs.get(one.id).state for one in more}


def test_runs_begin_at_their_rate_and_none_is_lost(app: duly.App):
    """Ten a minute, one at a time, whatever comes at once."""
    send = sender(app, rate="10/m burst 1")
    with virtual_time(app, START) as clock:
        app.enqueue_many(send.bind(account=one) for one in range(10))
        clock.advance("30s")
        half = len(app.runs.list(state="succeeded"))
        why = app.runs.why(app.runs.list(state="retrying")[0].id)
        clock.advance("40s")

        assert (6, 10) == (half, len(app.runs.list(state="succeeded")))
        assert ("rate", True) == (why.cause, "task:send, 10/1m burst 1 is at 2026" in why.sentence)


def test_a_destination_that_fails_is_left_alone_and_comes_back(app: duly.App):
    """The runs keep their attempts, and say what they wait for."""
    is_up = False

    @app.task(destination="stripe", retry=Retry(attempts=100, base="1s", cap="1s"))
    def charge(number: int) -> None:
        if not is_up:
            raise ConnectionError("nobody answers")

    with virtual_time(app, START) as clock:
        runs = app.enqueue_many(charge.bind(number=one) for one in range(30))
        clock.advance("2s")
        [down] = app.breakers.list()
        why = app.runs.why(runs[-1].id)
        used = [app.runs.get(one.id).attempt for one in runs]
        is_up = True
        clock.advance("60s")
        up = app.breakers.get("stripe")

        assert ("open", False) == (down.state, down.is_closed)
        assert down.retry_at is not None
        assert sum(used) <= 20
        assert "breaker" == why.cause
        assert "It waits for stripe, whose breaker is open until 2026-05-04T12:00:0" in why.sentence
        assert why.remedy is not None
        assert "duly breaker reset stripe" in why.remedy
        assert "closed" == up.state
        assert {"succeeded"} == {app.runs.get(one.id).state for one in runs}


def test_a_breaker_is_reset_by_a_person(app: duly.App):
    """What waits goes on at its time."""

    @app.task(destination="stripe")
    def charge(number: int) -> None:
        raise ConnectionError("nobody answers")

    with virtual_time(app, START) as clock:
        app.enqueue_many(charge.bind(number=one) for one in range(10))
        clock.advance("1s")

        assert "open" == app.breakers.get("stripe").state
        assert "closed" == app.breakers.reset("stripe", reason="mended").state


def test_a_destination_that_nobody_called_is_not_found(app: duly.App):
    with pytest.raises(NotFound, match="'nowhere' was not found"):
        app.breakers.get("nowhere")
    with pytest.raises(NotFound):
        app.breakers.reset("nowhere")
    with pytest.raises(UsageError, match="destination is missing"):
        app.breakers.get(None)  # type: ignore[arg-type]
