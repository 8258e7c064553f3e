"""From where an order came is on the audit trail, and nobody can say it of himself."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager

import httpx
import pytest
from starlette.requests import Request

import duly
from duly import UsageError
from duly.api.app import Api
from duly.api.middleware import HOPS_MAX, PROXIES_MAX, ApiSettings, caller_address, read_proxies
from duly.api.server import BindAddress
from duly.store.ports.queries import AuditFilter
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.each_row import each_row
from tests.forked_commands import bound
from tests.postgres.reused_databases import with_schema
from tests.waiting import LIMIT_S

OURS = read_proxies(["10.0.0.0/24", "2001:db8:1::/48"])
CLIENT, PROXY, OUTER = "203.0.113.9", "10.0.0.5", "10.0.0.6"


def address_of(peer, *forwarded, proxies=OURS):
    headers = [(b"x-forwarded-for", one.encode("latin-1")) for one in forwarded]
    scope = {"type": "http", "headers": headers, "client": peer and (peer, 1234)}
    return caller_address(Request(scope), proxies)


@each_row(
    ("peer", "forwarded", "expected"),
    [
        (CLIENT, (), CLIENT),
        (None, (), None),
        (None, (CLIENT,), None),
        ("/run/duly.sock", (CLIENT,), None),
        # Whoever is no proxy of ours says what they like.
        (CLIENT, ("198.51.100.1",), CLIENT),
        (PROXY, (CLIENT,), CLIENT),
        (PROXY, (), PROXY),
        (PROXY, (f"{CLIENT}, {OUTER}",), CLIENT),
        (PROXY, (CLIENT, OUTER), CLIENT),
        # What the caller wrote before the first of our proxies is not believed.
        (PROXY, (f"198.51.100.1, {CLIENT}",), CLIENT),
        (PROXY, ("198.51.100.1", CLIENT), CLIENT),
        (PROXY, (f"127.0.0.1, {PROXY}, {CLIENT}, {OUTER}",), CLIENT),
        (PROXY, (f"{OUTER}, {PROXY}",), OUTER),
        # What is no address ends it: who passed it on is known.
        (PROXY, ("unknown",), PROXY),
        (PROXY, (f"{CLIENT}, nonsense, {OUTER}",), OUTER),
        (PROXY, ("",), PROXY),
        (PROXY, (",,,",), PROXY),
        (PROXY, ("x" * 9000,), PROXY),
        (PROXY, ("203.0.113.9\x00",), PROXY),
        (PROXY, ("<script>alert(1)</script>",), PROXY),
        # As some proxies write it.
        (PROXY, (f"{CLIENT}:55123",), CLIENT),
        (PROXY, ("[2001:db8::7]:443",), "2001:db8::7"),
        (PROXY, ("2001:DB8:0::7",), "2001:db8::7"),
        ("::ffff:10.0.0.5", (f"::ffff:{CLIENT}",), CLIENT),
        ("2001:db8:1::9", (CLIENT,), CLIENT),
        ("fe80::1%eth0", (), "fe80::1"),
    ],
)
def test_a_forwarded_address_is_believed_as_far_as_our_proxies_wrote_it(peer, forwarded, expected):
    """From the right to the left, up to the first who is none of ours."""
    assert expected == address_of(peer, *forwarded)


def test_nobody_is_believed_unless_he_was_named():
    """The default."""
    assert () == ApiSettings().proxies
    assert PROXY == address_of(PROXY, CLIENT, proxies=ApiSettings().proxies)


def test_a_long_way_is_followed_so_far_and_no_further():
    """Whatever its length."""
    assert PROXY == address_of(PROXY, ",".join([CLIENT, *[PROXY] * HOPS_MAX]))
    assert CLIENT == address_of(PROXY, ",".join([CLIENT, *[PROXY] * (HOPS_MAX - 1)]))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("proxy.example.com", "is not an address or a network"),
        ("", "is not an address or a network"),
        ("10.0.0.1/24", "is not an address or a network"),
        ("0.0.0.0/0", "is everybody"),
        ("::/0", "is everybody"),
    ],
)
def test_whom_to_believe_is_said_by_address_and_is_never_everybody(text, problem):
    with pytest.raises(UsageError, match=problem):
        BindAddress(trust_proxies=(text,)).checked(has_token=True)


def test_so_many_proxies_are_named_and_no_more():
    """Each request is compared with all of them."""
    with pytest.raises(UsageError, match="is more than"):
        read_proxies(["10.0.0.1"] * (PROXIES_MAX + 1))


@contextmanager
def asking(app, clock, address=CLIENT, settings=None):
    with Asker(Api(app, settings, clock=clock), token_for(app), address) as asker:
        yield asker


def newest(app):
    return app.store.list_audit(AuditFilter(limit=1))[0]


def test_an_order_is_on_record_with_the_address_and_the_token_that_gave_it(app, clock):
    """And is shown with them, by the API as by the library."""
    with asking(app, clock) as asked:
        (token,) = app.tokens.list()
        made = asked.post("/schedules", json={"name": "a", "task": "report", "when": "every hour"})
        shown = asked.get("/audit").json()["items"][0]
        history = asked.get("/schedules/a/history").json()["items"][0]

    assert 201 == made.status_code
    entry = newest(app)
    assert (CLIENT, f"token:{token.id}") == (entry.actor.address, entry.actor.credential)
    for one in (shown, history):
        assert (CLIENT, f"token:{token.id}") == (one["address"], one["credential"])


def test_no_header_changes_the_address_of_a_caller_who_is_no_proxy(app, clock):
    """Whatever it is called."""
    said = {
        "X-Forwarded-For": "192.0.2.1",
        "X-Real-IP": "192.0.2.2",
        "Forwarded": "for=192.0.2.3",
        "X-Client-IP": "192.0.2.4",
        "True-Client-IP": "192.0.2.5",
    }
    with asking(app, clock) as asked:
        asked.post("/queues/mail/pause", json={"reason": "why"}, headers=said)

    assert ("queue.paused", CLIENT) == (newest(app).action, newest(app).actor.address)


def test_behind_a_proxy_that_was_named_the_callers_own_address_is_on_record(app, clock):
    with asking(app, clock, PROXY, ApiSettings(proxies=OURS)) as asked:
        asked.post(
            "/queues/mail/pause", json={"reason": "why"}, headers={"X-Forwarded-For": CLIENT}
        )

    assert CLIENT == newest(app).actor.address


def test_whoever_is_refused_is_on_record_with_the_address(app, clock):
    """Counted with others, once in a minute."""
    with asking(app, clock) as asked:
        asked.get("/schedules", headers={"Authorization": "Bearer nonsense"})

    assert ("access.refused", {CLIENT: 1}) == (newest(app).action, newest(app).after["from"])


def test_a_session_that_is_begun_over_the_wire_tells_from_where(app, clock):
    code = app.doorkeeper().make_code()
    with asking(app, clock) as asked:
        asked.post("/session", json={"code": code})

    assert ("session.begun", CLIENT) == (newest(app).action, newest(app).actor.address)


def test_the_library_comes_from_nowhere(app):
    """What is not known is not said."""
    app.queues.pause("mail", reason="why")

    assert (None, None) == (newest(app).actor.address, newest(app).actor.credential)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_real_server_tells_addresses_on_both_databases(kind, tmp_path, request):
    """By the connection, and by the proxy that its operator named."""
    if kind == "sqlite":
        url = f"sqlite:///{tmp_path}/duly.db"
    else:
        databases = request.getfixturevalue("postgres_server")
        url = databases.create_database(databases.prepared(with_schema))
    app = duly.App(url)
    token = {"Authorization": f"Bearer {app.tokens.create('ci', role='admin', tenant='*').text}"}
    words = bound(sys.executable, "-m", "duly", "server", "--port=0", "--json")
    words += ["--url", url]
    words += ["--trust-proxy", "127.0.0.0/8"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        served_at = json.loads(server.stdout.readline())["url"]
        try:
            for queue, forwarded in (("a", {}), ("b", {"X-Forwarded-For": f"192.0.2.1, {CLIENT}"})):
                answer = httpx.post(
                    f"{served_at}/api/v1/queues/{queue}/pause",
                    headers={**token, **forwarded},
                    json={"reason": "why"},
                    timeout=LIMIT_S,
                )
                assert 200 == answer.status_code
        finally:
            server.terminate()
            server.wait(LIMIT_S)

    told = [one.address for one in app.audit.page(action="queue.paused", all_tenants=True).items]
    app.close()
    assert [CLIENT, "127.0.0.1"] == told
