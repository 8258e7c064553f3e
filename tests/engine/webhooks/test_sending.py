"""What is sent, what an answer means, and what a receiver can't do to a worker."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import ssl
import struct
import subprocess
import threading

import pytest
from aiohttp import web

from duly.domain.ids import identity_text
from duly.domain.outbound_urls import read_allow_list
from duly.domain.outcomes import CancelledEnd, Failed, GaveUp, Succeeded, TimedOut, is_answered
from duly.domain.runs import Reason
from duly.domain.webhooks import read_webhook_plan
from duly.engine.executors import webhook_client
from duly.engine.executors.address_guard import AddressGuard
from duly.engine.executors.webhook_client import WebhookRequest, send
from tests.engine.webhooks.rig import ROOT, claimed_run
from tests.required_programs import required_program
from tests.waiting import SkippingLoop

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US


def answering(status, text="", **headers):
    named = {name.replace("_", "-"): value for name, value in headers.items()}

    async def answer(request):
        return web.Response(status=status, text=text, headers=named)

    return answer


def ended(receive, sender, answer, **options):
    receiver = receive(answer)
    return sender(receiver.place).send(receiver.url, **options)


def test_a_webhook_says_what_it_is_about_and_which_attempt_it_is(receive, sender):
    """The id of its line's first run is the idempotency key."""
    receiver = receive()
    end = sender(receiver.place).send(f"{receiver.url}?a=1")
    [seen] = receiver.seen
    claimed = claimed_run()

    assert Succeeded('{"status":204}') == end
    assert seen.path == "/hook?a=1"
    assert {
        "type": "order.paid",
        "timestamp": "2027-03-08T08:00:00Z",
        "data": {"order": 42},
        "run": {
            "id": identity_text(claimed.record.id),
            "root": identity_text(ROOT),
            "attempt": 3,
            "fence": 7,
            "schedule": "nightly",
            "scheduled_for": "2027-03-08T08:00:00Z",
        },
    } == json.loads(seen.body)
    assert identity_text(ROOT) == seen.headers["webhook-id"] == seen.headers["idempotency-key"]
    assert ("3", "7") == (seen.headers["duly-attempt"], seen.headers["duly-fence"])
    assert seen.headers["webhook-timestamp"] == str(claimed.claimed_at // SECOND_US)
    assert seen.headers["content-type"] == "application/json"
    assert seen.headers["user-agent"].startswith("Duly/")


def test_a_success_is_any_2xx_and_its_first_words_are_kept(receive, sender):
    end = ended(receive, sender, answering(200, "thanks\x1b[31m"))

    assert Succeeded('{"answer":"thanks [31m","status":200}') == end


def test_an_accepted_webhook_is_a_success_that_is_noted(receive, sender):
    receiver = receive(answering(202))
    attempt = sender(receiver.place).start(receiver.url)

    assert isinstance(attempt.end, Succeeded)
    assert "accepted" in (attempt.end.result or "")
    assert any("accepted" in line for line in attempt.told.lines)


def test_a_receiver_that_is_gone_is_not_tried_again(receive, sender):
    end = ended(receive, sender, answering(410, "we closed", Retry_After="5"))

    assert isinstance(end, GaveUp)
    assert end.reason == Reason.GONE
    assert "410 Gone" in end.error
    assert "we closed" in end.error


@pytest.mark.parametrize("status", [400, 401, 404, 418, 429, 500, 502, 503, 504, 599])
def test_any_other_status_is_a_failure_that_is_tried_again(receive, sender, status):
    end = ended(receive, sender, answering(status, "no\r\nway"))

    assert isinstance(end, Failed)
    assert (Reason.HTTP_STATUS, True, None) == (end.reason, end.is_retryable, end.after_us)
    assert str(status) in end.error
    assert "no  way" in end.error


@pytest.mark.parametrize(
    ("status", "is_broken"),
    [(302, False), (400, False), (404, False), (429, True), (500, True), (503, True), (599, True)],
)
def test_only_who_is_broken_or_overloaded_has_not_answered(receive, sender, status, is_broken):
    """A receiver that says no is there, and its breaker stays closed."""
    end = ended(receive, sender, answering(status))

    assert is_broken is not is_answered(end)


def test_who_can_not_be_connected_to_has_not_answered(sender):
    """Nor has one that lets a call wait for longer than it may."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        end = sender(place).send(f"http://{place}/hook")

    assert is_answered(end) is False


@pytest.mark.parametrize(
    ("status", "said", "after_us"),
    [
        (429, "7", 7 * SECOND_US),
        (503, "120", 120 * SECOND_US),
        (500, "3", 3 * SECOND_US),
        (429, "0", SECOND_US),
        (429, "99999999999999999999", DAY_US),
        (429, "Mon, 08 Mar 2027 08:00:30 GMT", 30 * SECOND_US),
        (503, "Mon, 08 Mar 2027 07:00:00 GMT", SECOND_US),
        (503, "Mon, 08 Mar 2055 07:00:00 GMT", DAY_US),
    ],
)
def test_a_receiver_may_say_when_to_try_again(receive, sender, status, said, after_us):
    """Retry-After, in seconds or as a date, from a second to a day."""
    end = ended(receive, sender, answering(status, Retry_After=said))

    assert isinstance(end, Failed)
    assert (Reason.RETRY_AFTER, after_us) == (end.reason, end.after_us)


@pytest.mark.parametrize("said", ["-5", "soon", "1e9", "٣", "Mon, 99 Foo 2027", "9" * 200])
def test_a_retry_after_that_says_nothing_leaves_it_to_the_backoff(receive, sender, said):
    async def answer(request):
        return web.Response(status=429, headers={"Retry-After": said})

    end = ended(receive, sender, answer)

    assert isinstance(end, Failed)
    assert (Reason.HTTP_STATUS, None) == (end.reason, end.after_us)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure_and_nothing_is_followed(receive, sender, status):
    """Not even to an address that is allowed."""
    other = receive()
    receiver = receive(answering(status, Location=other.url))
    end = sender(receiver.place, other.place).send(receiver.url)

    assert isinstance(end, Failed)
    assert end.reason == Reason.HTTP_STATUS
    assert f"points to {other.url}" in end.error
    assert [] == other.seen


def end_in_time(receiver, loop):
    """Return how a request ends on a loop whose time is up when the receiver says so."""
    plan = read_webhook_plan(receiver.url, {"secret": "env:HOOK", "timeout": "60s"})
    request = WebhookRequest(
        address=plan.address,
        guard=AddressGuard(plan.address, read_allow_list([receiver.place])),
        body=b"{}",
        headers={},
        timeout_us=plan.timeout_us,
        response_bytes_max=plan.response_bytes_max,
    )
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(send(request))


def test_a_slow_answer_ends_with_the_webhooks_own_time(receive):
    loop = SkippingLoop()

    async def never(request):
        loop.skip()
        await receiver.until_over()
        return web.Response()

    receiver = receive(never)
    end = end_in_time(receiver, loop)

    assert isinstance(end, TimedOut)
    assert end.reason == Reason.TIMEOUT
    assert "gave no answer within 1m" in (end.error or "")


def test_a_status_line_that_comes_byte_by_byte_ends_with_the_webhooks_own_time(receive_raw):
    loop = SkippingLoop()

    def drip(connection: socket.socket) -> None:
        connection.settimeout(0.02)
        for number, letter in enumerate(b"HTTP/1.1 200 OK" + b"." * 6_000):
            connection.sendall(bytes([letter]))
            if number == 10:
                loop.skip()
            try:
                if connection.recv(10) == b"":
                    return
            except TimeoutError:
                continue

    end = end_in_time(receive_raw(drip), loop)

    assert isinstance(end, TimedOut)


def test_a_webhook_that_was_not_connected_in_time_was_not_sent(sender):
    """An unsafe one may be tried again, whichever of its limits was over first."""

    async def hanging(host, port):
        await asyncio.Event().wait()

    end = sender(lookup=hanging).send("https://slow.example/", timeout="100ms")

    assert isinstance(end, Failed)
    assert (True, True) == (end.is_undone, end.is_retryable)
    assert "could not be connected to within 100ms" in end.error


def test_a_body_without_end_is_read_to_its_limit(receive, sender):
    sent = 0

    async def pour(request):
        nonlocal sent
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"x" * 65_536)
            sent += 65_536

    receiver = receive(pour)
    end = sender(receiver.place).send(receiver.url, response_bytes_max=10_000)

    assert isinstance(end, Succeeded)
    assert len(end.result or "") < 2_000
    assert sent < 100_000_000


def test_a_body_that_never_ends_after_its_status_does_not_take_the_answer_back(
    receive_raw, sender, monkeypatch
):
    monkeypatch.setattr(webhook_client, "BODY_S_MAX", 0.1)
    over = threading.Event()

    def stall(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 410 Gone\r\nContent-Length: 100\r\n\r\nno more")
        over.wait()

    receiver = receive_raw(stall)
    end = sender(receiver.place).send(receiver.url, timeout="60s")
    over.set()

    assert isinstance(end, GaveUp)
    assert "no more" in end.error


def test_a_compressed_bomb_is_not_unpacked(receive, sender):
    bomb = gzip.compress(bytes(50_000_000))

    async def answer(request):
        return web.Response(body=bomb, headers={"Content-Encoding": "gzip"})

    receiver = receive(answer)
    end = sender(receiver.place).send(receiver.url, response_bytes_max=100_000)

    assert isinstance(end, Succeeded)
    assert f"({len(bomb):,} bytes, compressed, not unpacked)" in (end.result or "")
    assert receiver.seen[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    "words",
    [
        b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 20_000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X-Many: 1\r\n" * 100 + b"Content-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 " + b"O" * 20_000 + b"\r\n\r\n",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"",
        b"HTTP/1.1 999999 OK\r\n\r\n",
    ],
    ids=["long header", "many headers", "long status", "another protocol", "nothing", "no status"],
)
def test_what_is_not_an_answer_is_a_failure(receive_raw, sender, words):
    receiver = receive_raw(lambda connection: connection.sendall(words))
    end = sender(receiver.place).send(receiver.url)

    assert isinstance(end, Failed)
    assert end.reason == Reason.ERROR
    assert end.is_retryable
    assert len(end.error) < 1_000


def test_a_connection_that_is_reset_is_a_failure(receive_raw, sender):
    def reset(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    receiver = receive_raw(reset)
    end = sender(receiver.place).send(receiver.url)

    assert isinstance(end, Failed)
    assert end.reason == Reason.ERROR


def test_a_port_that_nobody_listens_on_is_a_failure(sender):
    with socket.socket() as taken:  # so that nobody else begins to
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        end = sender(f"127.0.0.1:{port}").send(f"http://127.0.0.1:{port}/")

    assert isinstance(end, Failed)
    assert end.reason == Reason.ERROR
    assert end.is_retryable


def test_a_name_that_does_not_exist_is_a_failure_that_is_tried_again(sender):
    async def unknown(host, port):
        raise OSError("no such name")

    end = sender(lookup=unknown).send("https://gone.example/")

    assert isinstance(end, Failed)
    assert (Reason.ERROR, True) == (end.reason, end.is_retryable)


def test_a_proxy_of_the_environment_is_not_used(receive, sender, monkeypatch):
    """A variable must not send webhooks elsewhere."""
    proxy, receiver = receive(), receive()
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://{proxy.place}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    sender(receiver.place, proxy.place).send(receiver.url)

    assert (0, 1) == (len(proxy.seen), len(receiver.seen))


def test_a_cookie_does_not_come_back(receive, sender):
    receiver = receive(answering(200, Set_Cookie="session=1; Path=/"))
    sending = sender(receiver.place)
    sending.send(receiver.url)
    sending.send(receiver.url)

    assert [None, None] == [one.headers.get("cookie") for one in receiver.seen]


@pytest.fixture
def certified(tmp_path):
    """A certificate that nobody vouches for."""
    program = str(required_program("openssl"))
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    how = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=here"
    name = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate]
    subprocess.run([program, *how.split(), *name], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context


def test_a_receiver_whose_certificate_nobody_vouches_for_gets_nothing(receive, sender, certified):
    receiver = receive(certified=certified)
    end = sender(receiver.place).send(receiver.url.replace("http:", "https:"))

    assert isinstance(end, Failed)
    assert (Reason.ERROR, []) == (end.reason, receiver.seen)
    assert "certificate" in end.error


def test_an_ipv6_receiver_is_reached_by_its_address(sender):
    listener = socket.socket(socket.AF_INET6)
    try:
        listener.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no IPv6 here")
    with listener:
        listener.listen()
        port = listener.getsockname()[1]
        attempt = sender(f"[::1]:{port}").start(f"http://[::1]:{port}/")
        connection, _ = listener.accept()
        with connection:
            said = connection.recv(65_536)
            connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

            assert isinstance(attempt.end, Succeeded)
            assert f"Host: [::1]:{port}".encode() in said


def test_headers_of_the_program_go_along(receive, sender):
    receiver = receive()
    sender(receiver.place).send(receiver.url, headers={"X-Tenant": "acme"})

    assert receiver.seen[0].headers["x-tenant"] == "acme"


@pytest.mark.parametrize("how", ["ask", "insist"])
def test_a_request_can_be_dropped(receive, sender, how):
    """Cancelling ends it at once."""

    async def never(request):
        await receiver.until_over()
        return web.Response()

    receiver = receive(never)
    sending = sender(receiver.place)
    attempt = sending.start(receiver.url)
    assert receiver.has_seen.wait(120)
    getattr(sending.executor, how)(attempt)

    assert isinstance(attempt.end, CancelledEnd)


def test_closing_drops_what_is_under_way(receive, sender):
    async def never(request):
        await receiver.until_over()
        return web.Response()

    receiver = receive(never)
    sending = sender(receiver.place)
    attempt = sending.start(receiver.url)
    assert receiver.has_seen.wait(120)
    sending.executor.close()
    late = sending.start(receiver.url)

    assert isinstance(attempt.end, CancelledEnd)
    assert isinstance(late.end, CancelledEnd)
