"""Lost connections: orders are repeated within bounds, under one key, and carried out once."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

import duly
from duly.errors import StoreUnavailable


def test_an_order_whose_reply_is_lost_is_carried_out_once(afar, lossy, app, rests):
    """The promise is made once, however often it is sent."""
    before = len(app.runs.list(limit=1000, queue="lost"))
    lossy.losses = 2
    made = afar.enqueue("report", queue="lost")

    assert made.id == app.runs.list(queue="lost", limit=1)[0].id
    assert before + 1 == len(app.runs.list(limit=1000, queue="lost"))
    assert 1 == len(lossy.keys())
    assert 2 == len(rests)
    assert 0 < rests[0] < rests[1] <= 5


def test_tries_are_bounded_and_the_error_says_that_nobody_knows(afar, lossy, app, rests):
    lossy.losses = 9
    with pytest.raises(StoreUnavailable, match="not known whether") as caught:
        afar.schedules.create("unsure", "report", "1h")

    assert 2 == len(rests)
    assert lossy.url == caught.value.store
    assert "unsure" == app.schedules.get("unsure").name


def test_looking_again_is_always_safe(afar, lossy):
    lossy.losses = 2

    assert "hourly" == afar.schedules.get("hourly").name


def test_a_rule_whose_reply_is_lost_is_set_once_and_is_no_conflict(afar, lossy, app):
    """What is sent again says what is so already."""
    lossy.losses = 2
    made = afar.alerts.set_rule("breaker-open", threshold="7m", version=0)
    entries = app.audit.page(action="alert-rule.set", all_tenants=True).items

    assert (420, True) == (made.threshold, made.version > 0)
    assert ["rule breaker-open"] == [one.subject for one in entries]


def test_what_has_no_key_is_not_sent_twice(afar, lossy, app):
    """A token whose text was lost is not made a second time behind anybody's back."""
    lossy.losses = 1
    with pytest.raises(StoreUnavailable, match="not known whether"):
        afar.tokens.create("once")

    assert 1 == sum(one.name == "once" for one in app.tokens.list())


def test_events_are_told_once_each_across_a_lost_connection(afar, lossy, app):
    """Nothing is left out and nothing told twice when the connection is lost."""
    events = afar.events(after=0)
    first = next(events)
    lossy.losses = 1
    app.schedules.create("after-the-loss", app.call("report"), duly.every("1h"))
    seen = [first.number]
    with closing(events):
        for one in events:
            seen.append(one.number)
            if one.subject == "after-the-loss":
                break

    assert sorted(set(seen)) == seen
    assert [one.number for one in reversed(app.audit.page(limit=1000).items)][: len(seen)] == seen


def test_a_server_that_is_not_there_is_said_so(rests):
    with socket.socket() as silent:  # bound, so that nothing else listens there
        silent.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with duly.connect(url, token="duly_x", rest=rests.append) as nobody:  # noqa: S106
            with pytest.raises(StoreUnavailable, match="can't be reached"):
                nobody.enqueue("report")

            assert 4 == len(rests)
