"""From a condition in the store to a server that somebody reads, and back when it is over."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.app.services import make_courier
from duly.config import Settings
from duly.domain.outcomes import Succeeded
from duly.engine.alerts.watcher import Watcher, WatcherIdentity
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.store.sqlite import SqliteStore
from duly_conformance import steps
from tests.engine.alert_channels.rig import await_tries
from tests.store.sqlite.made_file import made_file

if TYPE_CHECKING:
    from duly.client.alert_view import Alert

LONG_US = 100 * 3_600_000_000


@dataclass
class Watched:
    """A store in which something is wrong, and who watches it as in production."""

    app: duly.App
    clock: ManualClock

    def __post_init__(self) -> None:
        self.watcher = Watcher(self.app.store, self.clock, WatcherIdentity(holder=b"w" * 16))
        self.courier = make_courier(self.app, self.clock)
        self.courier.fence = lambda: self.watcher.fence

    def look(self, times: int) -> None:
        """Look and deliver, every quarter of a minute."""
        for _ in range(times):
            self.clock.advance("15s")
            self.watcher.tick()
            self.courier.tick()
        await_tries()

    def trouble(self) -> None:
        """Queue a run that nobody takes, and look until that is an alert; and some more."""
        steps.queue(self.app.store, queue="mail")
        self.look(16)

    def mend(self) -> Alert:
        """Have it taken and done, and look until that is over; and some more."""
        store = self.app.store
        busy = steps.join_worker(store, ttl_us=LONG_US)
        steps.end(store, busy, steps.take_one(store, busy), Succeeded())
        self.look(16)
        (alert,) = self.app.alerts.list(state="all")
        return self.app.alerts.get(alert.id)


@pytest.fixture(params=["memory", "sqlite"])
def watch(request, tmp_path):
    """Return a function that watches a store, with one channel, by an operator's allow-list."""
    clock = ManualClock()
    if request.param == "memory":
        store: Any = MemoryStore(clock)
    else:
        store = SqliteStore(made_file(tmp_path / "duly.db", clock), clock)

    def start(kind: str, options: dict[str, Any], place: str) -> Watched:
        settings = Settings(allow_addresses=(place,))
        app = duly.App(store=store, clock=clock, settings=settings, actor="ada")
        app.alerts.add_channel("ops", kind, options, reason="on call")
        app.alerts.set_rule("no-executions", channels=["ops"])
        return Watched(app, clock)

    yield start
    store.close()


def told(alert: Alert) -> list[tuple[str, str, str, int]]:
    return [(one.change, one.channel, one.state, one.tries) for one in alert.deliveries]


BOTH = [("raised", "ops", "done", 1), ("resolved", "ops", "done", 1)]


def test_a_real_mail_server_gets_one_mail_when_it_begins_and_one_when_it_is_over(watch, postbox):
    """By SMTP; both in one thread, each with what is so and what to do."""
    box = postbox()
    watched = watch("smtp", box.options(), box.place)
    watched.trouble()
    begun = len(box.letters)
    alert = watched.mend()
    first, second = (letter.message for letter in box.letters)

    assert 1 == begun
    assert BOTH == told(alert)
    assert "queue mail" in first["Subject"]
    assert first["Message-ID"] != second["Message-ID"]
    assert first["References"] == second["References"]
    assert "resolved" == alert.state
    assert alert.remedy in box.letters[0].part("plain")


def test_a_real_web_server_gets_one_signed_post_when_it_begins_and_one_when_it_is_over(
    watch, receive
):
    """By webhook, under the ids of the deliveries that are on record."""
    receiver = receive()
    options = {"url": receiver.url, "secret": {"secret": "env:DULY_SECRET_KEY"}}
    watched = watch("webhook", options, receiver.place)
    watched.trouble()
    begun = len(receiver.seen)
    alert = watched.mend()
    said = [json.loads(one.body) for one in receiver.seen]

    assert 1 == begun
    assert BOTH == told(alert)
    assert ["alert.raised", "alert.resolved"] == [one["type"] for one in said]
    assert [str(one.id) for one in alert.deliveries] == [
        one.headers["webhook-id"] for one in receiver.seen
    ]
    assert {(str(alert.id), "no-executions", "queue mail")} == {
        (one["data"]["alert"], one["data"]["kind"], one["data"]["subject"]) for one in said
    }


@pytest.mark.parametrize("kind", ["mattermost", "slack"])
def test_a_chat_gets_one_message_when_it_begins_and_one_when_it_is_over(
    watch, receive, monkeypatch, kind
):
    """By its hook, whose address is a secret."""
    receiver = receive()
    monkeypatch.setenv("DULY_SECRET_HOOK", f"http://{receiver.place}/hooks/xyz")
    watched = watch(kind, {"url": {"secret": "env:DULY_SECRET_HOOK"}}, receiver.place)
    watched.trouble()
    begun = len(receiver.seen)
    alert = watched.mend()
    texts = [json.loads(one.body) for one in receiver.seen]

    assert 1 == begun
    assert BOTH == told(alert)
    assert 2 == len(texts)
    assert all("no-executions" in json.dumps(one) for one in texts)
    assert {"/hooks/xyz"} == {one.path for one in receiver.seen}


def test_a_server_that_was_away_gets_it_later_and_once(watch, receive):
    """A try that failed is repeated under the same id until it is taken, and then no more."""
    from aiohttp import web

    answers = [503, 503]

    async def answer(request):
        return web.Response(status=answers.pop() if answers else 204)

    receiver = receive(answer)
    options = {"url": receiver.url, "secret": {"secret": "env:DULY_SECRET_KEY"}}
    watched = watch("webhook", options, receiver.place)
    watched.trouble()
    (alert,) = watched.app.alerts.list()

    assert [("raised", "ops", "done", 3)] == told(watched.app.alerts.get(alert.id))
    assert 3 == len(receiver.seen)
    assert 1 == len({one.headers["webhook-id"] for one in receiver.seen})
