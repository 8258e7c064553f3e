"""Alerts as webhooks and in chats, to real servers on loopback."""

from __future__ import annotations

import json
import logging
import threading
from datetime import UTC, datetime, timedelta

import pytest
from aiohttp import web
from standardwebhooks import Webhook

from duly.domain.alert_messages import log_line
from duly.engine.alerts.channels import LEFT_MAX
from tests.engine.alert_channels.rig import (
    CANARY,
    DELIVERY,
    TryLimit,
    await_tries,
    made_certificate,
    notice,
    opened,
)
from tests.engine.webhooks.rig import KEY, RawReceiver

SECRET = {"secret": "env:DULY_SECRET_KEY"}
HOOK = "/hooks/canary-hook-7d21xk"
HOSTILE = (
    "x\r\n@channel <!here> <@U1> [a](http://evil.example) `code` *b* <script>\u202e\u200b\x00\ud800"
)


def webhook(receiver, wait=threading.Event.wait, **options):
    given = {"url": receiver.url, "secret": SECRET, "timeout": "10s", **options}
    return opened("webhook", given, receiver.place, wait=wait)


@pytest.fixture
def chat(monkeypatch):
    """Return a function that opens the hook of a chat; its address is a secret."""

    def start(kind, receiver, hook=HOOK, **options):
        monkeypatch.setenv("DULY_SECRET_HOOK", f"http://{receiver.place}{hook}")
        given = {"url": {"secret": "env:DULY_SECRET_HOOK"}, **options}
        return opened(kind, given, receiver.place)

    return start


def answering(status, text="", **headers):
    async def answer(request):
        return web.Response(status=status, text=text, headers=headers)

    return answer


async def echo(request):
    """A server that repeats all that it was told, in its body and in a header."""
    told = {"path": request.path_qs, "headers": dict(request.headers), "body": await request.text()}
    path = f"http://elsewhere.example{request.path_qs}"
    return web.Response(status=307, text=json.dumps(told), headers={"Location": path})


def test_a_webhook_is_signed_and_carries_the_id_of_its_delivery(receive):
    """As Standard Webhooks has it, checked with their own library."""
    receiver = receive()

    assert webhook(receiver).deliver(notice()).is_done

    seen = receiver.seen[0]
    at = datetime.fromtimestamp(int(seen.headers["webhook-timestamp"]), UTC)
    signature = Webhook(KEY).sign(str(DELIVERY), at, seen.body.decode())
    assert str(DELIVERY) == seen.headers["webhook-id"] == seen.headers["idempotency-key"]
    assert signature == seen.headers["webhook-signature"]
    told = json.loads(seen.body)
    assert ("alert.raised", "missing-run") == (told["type"], told["data"]["kind"])
    assert {"expected": "2026-04-03T00:00:00Z", "found": 0} == told["data"]["evidence"]
    assert "docs/runbooks/missing-run.md" == told["data"]["runbook"]


def test_every_try_of_a_delivery_says_the_same_under_the_same_id(receive):
    """So that a receiver can tell a repetition."""
    receiver = receive(answering(500))
    first, second = webhook(receiver), webhook(receiver)
    results = [first.deliver(notice()), first.deliver(notice()), second.deliver(notice())]

    assert [False] * 3 == [one.is_done for one in results]
    assert 1 == len({one.body for one in receiver.seen})
    assert {str(DELIVERY)} == {one.headers["webhook-id"] for one in receiver.seen}


@pytest.mark.parametrize(
    ("status", "headers", "is_done", "is_final", "retry_after"),
    [
        (200, {}, True, False, None),
        (202, {}, True, False, None),
        (301, {"Location": "/elsewhere"}, False, False, None),
        (400, {}, False, False, None),
        (404, {}, False, False, None),
        (410, {}, False, True, None),
        (429, {"Retry-After": "120"}, False, False, timedelta(seconds=120)),
        (503, {"Retry-After": "999999999"}, False, False, timedelta(days=1)),
        (503, {"Retry-After": "nonsense"}, False, False, None),
        (500, {}, False, False, None),
    ],
)
@pytest.mark.parametrize("kind", ["webhook", "slack", "mattermost"])
def test_an_answer_means_what_it_means_for_webhooks(
    receive, chat, kind, status, headers, is_done, is_final, retry_after
):
    receiver = receive(answering(status, "because", **headers))
    channel = webhook(receiver) if kind == "webhook" else chat(kind, receiver)
    result = channel.deliver(notice())

    assert (is_done, is_final, retry_after) == (result.is_done, result.is_final, result.retry_after)
    assert (str(status) in result.detail) is not is_done
    assert 1 == len(receiver.seen), "redirects are not followed"


def test_headers_may_be_secret(receive, monkeypatch):
    monkeypatch.setenv("DULY_SECRET_TOKEN", f"Bearer {CANARY}")
    receiver = receive(echo)
    headers = {"Authorization": {"secret": "env:DULY_SECRET_TOKEN"}, "X-Team": "ops"}
    result = webhook(receiver, headers=headers).deliver(notice())

    seen = receiver.seen[0].headers
    assert (f"Bearer {CANARY}", "ops") == (seen["authorization"], seen["x-team"])
    assert CANARY not in result.detail


@pytest.mark.parametrize("kind", ["slack", "mattermost"])
@pytest.mark.parametrize("hook", [HOOK, "/x/canary/y1", "/x?canary=y", "/services/T0/B1/canary-b/"])
def test_the_address_of_a_chats_hook_is_never_told(receive, chat, kind, hook, caplog):
    """Whoever knows it may write there."""
    caplog.set_level(logging.DEBUG)
    receiver = receive(echo)
    result = chat(kind, receiver, hook).deliver(notice())

    assert [hook] == [one.path for one in receiver.seen]
    assert "307" in result.detail
    assert "canary" not in result.detail
    assert not [one for one in caplog.messages if "duly" in one and "canary" in one]


@pytest.mark.parametrize(
    "value", ["canary://hook", "http://canary@example.com/x", "canary x", "\u202e"]
)
def test_what_is_no_address_is_not_repeated(monkeypatch, value):
    monkeypatch.setenv("DULY_SECRET_HOOK", value)
    result = opened("slack", {"url": "env:DULY_SECRET_HOOK"}).deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "env:DULY_SECRET_HOOK" in result.detail
    assert "canary" not in result.detail


def test_secrets_that_are_not_here_are_looked_for_again_and_forbidden_ones_are_not(
    receive, monkeypatch
):
    """A channel is data; it reads only what the operator has set apart."""
    receiver = receive()
    missing = webhook(receiver, secret={"secret": "env:DULY_SECRET_NONE"}).deliver(notice())
    forbidden = webhook(receiver, secret={"secret": "env:ELSEWHERE"}).deliver(notice())

    assert [(False, False), (False, True)] == [
        (one.is_done, one.is_final) for one in (missing, forbidden)
    ]
    assert CANARY not in forbidden.detail
    assert [] == receiver.seen


def test_an_address_inside_is_refused_for_good(receive, monkeypatch):
    """The guard of webhooks holds for alerts."""
    receiver = receive()
    monkeypatch.setenv("DULY_SECRET_HOOK", f"http://{receiver.place}{HOOK}")
    results = [
        opened("webhook", {"url": receiver.url, "secret": SECRET}).deliver(notice()),
        opened("mattermost", {"url": "env:DULY_SECRET_HOOK"}).deliver(notice()),
    ]

    assert [True, True] == [one.is_final for one in results]
    assert all("a loopback address" in one.detail for one in results)
    assert [] == receiver.seen


def test_a_slow_server_is_left_when_its_time_is_up(receive):
    async def hang(request):
        await receiver.until_over()
        return web.Response()

    receiver = receive(hang)
    result = webhook(receiver, TryLimit().wait, timeout="300ms").deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "within 300ms" in result.detail, "the request says it, whose limit is shorter"


def test_a_server_that_drips_its_headers_is_left_as_well(receive_raw):
    over = threading.Event()

    def talk(connection):
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not over.wait(0.02):
            connection.sendall(b"X")

    receiver = receive_raw(talk)
    result = webhook(receiver, timeout="300ms").deliver(notice())
    over.set()

    assert (False, False) == (result.is_done, result.is_final)


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 2", b"\xff\x00garbage\r\n\r\n"])
def test_a_connection_that_breaks_off_raises_nothing(receive_raw, said):
    receiver = receive_raw(lambda connection: connection.sendall(said))
    result = webhook(receiver).deliver(notice())

    assert (False, False) == (result.is_done, result.is_final)
    assert "could not be asked" in result.detail


def test_a_certificate_that_nobody_vouches_for_gets_nothing(receive, tmp_path):
    receiver = receive(certified=made_certificate(tmp_path, "IP:127.0.0.1").context)
    url = receiver.url.replace("http:", "https:")
    result = webhook(receiver, url=url).deliver(notice())

    assert (False, False, []) == (result.is_done, result.is_final, receiver.seen)
    assert "certificate" in result.detail


def test_a_lookup_that_hangs_holds_nobody_up_and_connects_nowhere_afterwards():
    receiver = RawReceiver(lambda _: None)
    released, limit = threading.Event(), TryLimit()

    def hanging(host, port):
        limit.end()
        released.wait()
        return ["127.0.0.1"]

    options = {
        "url": f"http://hooks.example:{receiver.port}/",
        "secret": SECRET,
        "timeout": "100ms",
    }
    place = f"hooks.example:{receiver.port}"
    channel = opened("webhook", options, place, lookup=hanging, wait=limit.wait)
    try:
        details = [channel.deliver(notice()).detail for _ in range(LEFT_MAX + 1)]
    finally:
        released.set()
    await_tries()
    receiver.close()

    assert LEFT_MAX == sum("within 600ms" in one for one in details)
    assert "have not ended yet" in details[-1]
    assert 0 == receiver.connections


def test_an_answer_without_end_is_read_in_part(receive):
    receiver = receive(answering(500, "x" * 5_000_000))
    result = webhook(receiver).deliver(notice())

    assert not result.is_done
    assert len(result.detail) <= 500


@pytest.mark.parametrize("kind", ["webhook", "slack", "mattermost"])
def test_texts_of_a_megabyte_are_cut(receive, chat, kind):
    receiver = receive()
    huge = dict.fromkeys(("kind", "subject", "summary", "remedy", "tenant"), "é" * 1_000_000)
    evidence = {f"{number}": ["é" * 1_000_000] * 10 for number in range(50)}
    channel = webhook(receiver) if kind == "webhook" else chat(kind, receiver)

    assert channel.deliver(notice(evidence=evidence, **huge)).is_done
    assert len(receiver.seen[0].body) < 64 * 1024


@pytest.mark.parametrize("kind", ["slack", "mattermost"])
def test_a_hostile_text_calls_nobody_in_a_chat(receive, chat, kind):
    """@channel, <!here>, links and Markdown stay what they are: somebody's words."""
    receiver = receive()
    hostile = dict.fromkeys(("subject", "summary", "remedy", "tenant", "kind"), HOSTILE)

    assert chat(kind, receiver).deliver(notice(evidence={HOSTILE: HOSTILE}, **hostile)).is_done

    told = json.loads(receiver.seen[0].body)
    for text in (told["text"], told["attachments"][0]["text"]):
        outside = "".join(text.split("`")[::2]) if kind == "mattermost" else text
        for call in ("@channel", "<!here>", "<@U1>", "http://", "\u202e", "\x00", "\ud800"):
            assert call not in outside, call


def test_a_hostile_text_is_data_in_a_webhook(receive):
    receiver = receive()
    hostile = dict.fromkeys(("subject", "summary", "remedy", "tenant", "kind"), HOSTILE)

    assert webhook(receiver).deliver(notice(evidence={HOSTILE: HOSTILE}, **hostile)).is_done

    seen = receiver.seen[0]
    data = json.loads(seen.body)["data"]
    assert HOSTILE.replace("\ud800", "?") == data["summary"]
    assert not any("evil" in value for value in seen.headers.values())


def test_the_log_has_a_line_for_each_notice_at_its_level(caplog):
    """An error for a page, a warning, and word when it is over."""
    caplog.set_level(logging.DEBUG, logger="duly.alerts")
    channel = opened("log", {})
    told = [
        notice(),
        notice(severity="warn", summary="a\nforged line", evidence={"\x1b[2J": "\r\n"}),
        notice(change="resolved"),
    ]
    results = [channel.deliver(one) for one in told]

    assert [True] * 3 == [one.is_done for one in results]
    assert ["ERROR", "WARNING", "INFO"] == [one.levelname for one in caplog.records]
    assert [log_line(one) for one in told] == caplog.messages
    assert all(one.isprintable() for one in caplog.messages)
    assert f"delivery={DELIVERY}" in caplog.messages[0]
