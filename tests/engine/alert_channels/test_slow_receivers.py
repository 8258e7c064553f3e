"""Receivers that hang, fail or are many: each keeps nobody but itself waiting."""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack
from typing import Any

from aiohttp import web

import duly
from duly.app.services import make_courier, watching
from duly.config import Settings
from duly.engine.alerts.channels import DeliveryResult
from duly.engine.alerts.delivery import SENDERS_MAX, AlertDeliverer, DeliveryThreads
from duly.engine.manual_clock import ManualClock
from duly.store.memory import MemoryStore
from duly.store.ports.alerts import AlertSettingKind, SetAlertSetting
from duly.telemetry import TickFailed
from duly_conformance import alerts, steps
from duly_conformance.kit import ADA
from tests.engine.alerts.alert_rig import GuardRoom
from tests.engine.alerts.conftest import databases, stored
from tests.engine.rig import Recorder
from tests.waiting import LIMIT_S, comes_true

__all__ = ["databases", "stored"]
BUSY = DeliveryResult(is_done=False, detail="busy")


class Gate:
    """An answer of a real server that does not come until it is let go."""

    def __init__(self) -> None:
        self.is_open = threading.Event()

    async def answer(self, _request: web.Request) -> web.Response:
        await asyncio.get_running_loop().run_in_executor(None, self.is_open.wait, LIMIT_S)
        return web.Response(status=204)


def hook(receiver) -> dict[str, Any]:
    secret = {"secret": "env:DULY_SECRET_KEY"}
    return {"url": receiver.url, "secret": secret, "timeout": "30s"}


def told(app, subject: str) -> dict[str, tuple[str, int]]:
    (alert,) = [one for one in app.alerts.list() if one.subject == subject]
    return {one.channel: (one.state, one.tries) for one in app.alerts.get(alert.id).deliveries}


def test_a_receiver_that_hangs_holds_up_nobody_else(stored, receive, postbox):
    """Others get what is raised before and after it hung; it gets its own in the end, once."""
    store, clock = stored
    gate, box = Gate(), postbox()
    receiver = receive(gate.answer)
    settings = Settings(allow_addresses=(receiver.place, box.place))
    app = duly.App(store=store, clock=clock, settings=settings, actor="ada")
    app.alerts.add_channel("log", "webhook", hook(receiver))
    app.alerts.add_channel("mail", "smtp", box.options())
    senders, fence = DeliveryThreads(), alerts.watch(store)
    courier = make_courier(app, clock, None, senders)
    courier.fence = lambda: fence
    alerts.look(store, fence, alerts.condition("queue a"))
    courier.tick()
    assert comes_true(lambda: receiver.seen and told(app, "queue a")["mail"] == ("done", 1))
    alerts.look(store, fence, *(alerts.condition(one) for one in ("queue a", "queue b")))
    courier.tick()
    assert comes_true(lambda: told(app, "queue b")["mail"] == ("done", 1))
    hanging = (told(app, "queue a")["log"], told(app, "queue b")["log"], len(receiver.seen))
    gate.is_open.set()
    assert senders.wait(LIMIT_S)
    courier.tick()
    assert senders.wait(LIMIT_S)

    assert (("pending", 0), ("pending", 0), 1) == hanging
    for subject in ("queue a", "queue b"):
        assert {"log": ("done", 1), "mail": ("done", 1)} == told(app, subject)
    ids = [one.headers["webhook-id"] for one in receiver.seen]
    assert (2, 2, 2) == (len(ids), len(set(ids)), len(box.letters))


class Stuck:
    """A channel that takes a notice and does not come back until it is let go."""

    asked = 0
    most = 0

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.go_on = threading.Event()

    def deliver(self, _notice) -> DeliveryResult:
        with self.lock:
            self.asked += 1
            self.most = max(self.most, self.asked)
        self.go_on.wait(LIMIT_S)
        with self.lock:
            self.asked -= 1
        return DeliveryResult(is_done=True)


def test_so_many_are_told_at_once_and_no_more(stored):
    """However many channels hang, and each has its turn when one of them is done."""
    store, clock = stored
    names = [f"channel-{number:02}" for number in range(SENDERS_MAX + 3)]
    for name in names:
        terms = {"kind": "log", "options": {}}
        store.set_alert_term(
            SetAlertSetting(sort=AlertSettingKind.CHANNEL, name=name, terms=terms, actor=ADA)
        )
    stuck: Any = Stuck()
    guard = GuardRoom(store, clock)
    senders = DeliveryThreads()
    guard.courier = AlertDeliverer(store, clock, lambda _: stuck, start=senders.start)
    guard.courier.fence = lambda: guard.watcher.fence
    steps.queue(store, queue="mail")
    guard.look(8)
    assert comes_true(lambda: stuck.asked == SENDERS_MAX)
    guard.look(2)
    stuck.go_on.set()
    assert senders.wait(LIMIT_S)
    guard.look()
    assert senders.wait(LIMIT_S)
    (alert,) = guard.alerts("no-executions")

    assert SENDERS_MAX == stuck.most
    states = {one.channel: str(one.state) for one in store.list_deliveries(alert.id)}
    assert dict.fromkeys(["log", *names], "done") == states


def test_a_channel_that_fails_is_left_alone_with_all_that_goes_there(stored):
    """Longer each time; one try tells for all, and the others are not charged for it."""
    store, clock = stored
    guard = GuardRoom(store, clock)
    for number in range(5):
        steps.queue(store, f"run {number}", queue=f"queue-{number}")
    guard.channel.answers = [BUSY] * 3
    guard.look(5)
    tries = len(guard.channel.notices)
    guard.look(1, after="1s")
    at_once = len(guard.channel.notices)
    guard.look(12)
    raised = [one for one in guard.channel.told if one[1] == "no-executions"]

    assert tries == at_once <= 3
    assert {f"queue queue-{number}" for number in range(5)} == {one[2] for one in raised}
    ids = [one.id for one in guard.channel.notices]
    assert len(ids) - len(set(ids)) == 3
    found = [one for alert in guard.alerts() for one in store.list_deliveries(alert.id)]
    assert 3 == sum(one.tries - 1 for one in found)


def test_who_ends_in_good_order_waits_for_what_is_being_sent(receive):
    """It is settled under the watch, and the next one does not send it again."""
    gate = Gate()
    receiver = receive(gate.answer)
    store = MemoryStore(ManualClock())
    app = duly.App(store=store, settings=Settings(allow_addresses=(receiver.place,)), actor="ada")
    app.alerts.add_channel("log", "webhook", hook(receiver))
    steps.make_dead(store, "a")
    with ExitStack() as stack:
        stack.enter_context(watching(app))
        assert receiver.has_seen.wait(LIMIT_S)
        ending = threading.Thread(target=stack.pop_all().close)
        ending.start()
        assert comes_true(
            lambda: not any(one.name == "duly-alerts" for one in threading.enumerate())
        )
        gate.is_open.set()
        ending.join(LIMIT_S)

    (alert,) = app.alerts.list()
    assert [("done", 1)] == [(one.state, one.tries) for one in app.alerts.get(alert.id).deliveries]
    assert [] == steps.audit(store, action="watch.refused")


def test_what_a_sender_did_not_foresee_is_told():
    """Nobody is left waiting for it."""
    recorder = Recorder()
    senders = DeliveryThreads(recorder)

    def fail() -> None:
        raise ValueError("a defect")

    senders.start(fail)

    assert senders.wait(LIMIT_S)
    assert ["ValueError('a defect')"] == [one.problem for one in recorder.of(TickFailed)]
