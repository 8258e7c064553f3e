"""Secrets are found nowhere around a run either: traces, logs, pages, numbers and alerts.

What the store, the API and exports hold of them is `test_canaries.py`'s.
"""

from __future__ import annotations

import io
import json
import logging
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from aiohttp import web

import duly
from duly.api.app import Api
from duly.api.middleware import ApiSettings
from duly.app.metrics import measure
from duly.app.services import WorkerOptions
from duly.config import Settings
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly.telemetry.listeners import JsonLogFormatter
from duly.web.pages import PAGES
from duly_conformance.steps import make_dead
from tests.api.api_client import Asker
from tests.api.api_fixtures import token_for
from tests.engine.alert_channels.conftest import closing, postbox, receive
from tests.engine.alert_channels.rig import await_tries
from tests.engine.alert_channels.test_alerts_delivered import Watched
from tests.engine.webhooks.rig import KEY
from tests.store.sqlite.made_file import made_file
from tests.telemetry.recorded import Recorded, at_work, wait_state
from tests.web.page_client import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["closing", "postbox", "receive"]

CANARIES = {
    "DULY_SECRET_TOKEN": "canary-token-51ab/93",
    "DULY_SECRET_PASSWORD": "canary-password-7c2f/11",
    "DULY_SECRET_KEY": KEY,
}
RECEIVERS = ("aiohttp.access", "mail.log")
"""How the servers of this test log what they were sent; that is not ours."""
HOOK = "/hooks/canary-hook-0d4e77"


@pytest.fixture(autouse=True)
def secrets(monkeypatch):
    for name, value in CANARIES.items():
        monkeypatch.setenv(name, value)


@pytest.fixture(params=["sqlite", "postgres"])
def url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/duly.db"
    return request.getfixturevalue("database")


@contextmanager
def logged() -> Iterator[io.StringIO]:
    """Have everything logged, by everybody and at every level, as JSON."""
    kept = io.StringIO()
    handler = logging.StreamHandler(kept)
    handler.setFormatter(JsonLogFormatter())
    handler.addFilter(lambda record: not record.name.startswith(RECEIVERS))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield kept
    root.removeHandler(handler)
    root.setLevel(level)


def careless(app: duly.App) -> Any:
    @app.task(name="careless", retry=duly.Retry(attempts=2, base="100ms"))
    def task(run: duly.Run, token: duly.Secret) -> None:
        run.log(f"logging in with {token.reveal()}")
        run.progress(1, 2, f"with {token.reveal()}")
        raise ValueError(f"could not log in with {token.reveal()}")

    return task


def told_by(app: duly.App, run: str) -> str:
    """Return what pages and numbers say, to somebody who may see everything."""
    named = {"run": run, "schedule": "leaky"}
    told = [measure(app).text()]
    with Visitor(app, ApiSettings(requests_burst_max=1_000_000)) as visitor:
        visitor.enter("admin", "*")
        for page in PAGES:
            parts = set(re.findall(r"\{(\w+)\}", page.path))
            if page.method == "GET" and parts <= named.keys():
                path = re.sub(r"\{(\w+)\}", lambda found: named[found[1]], page.path)
                told.append(visitor.get(path).text)
    with Asker(Api(app), token_for(app)) as asker:
        paths = ("/vitals", f"/runs/{run}/why", f"/runs/{run}/lines", "/audit", "/alerts", "/inbox")
        told += [asker.get(path).text for path in paths]
        told.append(asker.get("http://localhost/metrics").text)
    return "\n".join(told)


def test_no_secret_is_in_traces_logs_pages_or_numbers(url):
    """Of a task that has been as careless as can be, on both databases."""
    recorded = Recorded()
    with duly.App(url) as app, logged() as log:
        app.traces.tracing = recorded.tracing
        task = careless(app).bind(token=duly.secret("env:DULY_SECRET_TOKEN"))
        app.schedules.create("leaky", task, duly.every("1h"))
        with at_work(app, WorkerOptions(slots=2)):
            run = app.schedules.trigger("leaky")
            wait_state(app, run.id, "dead")
        told = told_by(app, str(run.id))
        spans = "\n".join(one.to_json() for one in recorded.spans)
        everything = "\n".join([told, spans, log.getvalue(), kept_in(url)])

    assert "could not log in with ***" in told
    assert "could not log in with ***" in spans
    assert all(json.loads(line) for line in log.getvalue().splitlines())
    assert CANARIES["DULY_SECRET_TOKEN"] not in everything


def kept_in(url: str) -> str:
    """Return all rows of all tables, where the database is not a file that another test reads."""
    if not url.startswith("postgresql:"):
        return ""
    with psycopg.connect(url) as connection:
        found = "SELECT tablename FROM pg_tables WHERE schemaname = 'duly'"
        tables = [name for (name,) in connection.execute(found)]
        rows = [
            str(row)
            for table in tables
            for row in connection.execute(f'SELECT t::text FROM duly."{table}" t').fetchall()  # noqa: S608 - names of ours
        ]
    assert rows
    return "\n".join(rows)


async def parrot(request):
    """A server that repeats all that it was told, and takes nothing."""
    told = {"path": request.path_qs, "headers": dict(request.headers), "body": await request.text()}
    return web.Response(status=500, text=json.dumps(told))


def test_no_secret_is_in_alerts_or_in_what_is_kept_of_their_deliveries(
    tmp_path, monkeypatch, receive, postbox
):
    """Neither what opens a channel, nor in what the channels were sent."""
    receiver, box = receive(parrot), postbox()
    monkeypatch.setenv("DULY_SECRET_HOOK", f"http://{receiver.place}{HOOK}")
    box.decisions.data = "451 try later"
    clock = ManualClock()
    store = SqliteStore(made_file(tmp_path / "duly.db", clock), clock)
    settings = Settings(allow_addresses=(receiver.place, box.place))
    app = duly.App(store=store, clock=clock, settings=settings, actor="ada")
    reference = {"secret": "env:DULY_SECRET_TOKEN"}
    channels: dict[str, tuple[str, dict[str, Any]]] = {
        "hook": (
            "webhook",
            {
                "url": receiver.url,
                "secret": "env:DULY_SECRET_KEY",
                "headers": {"Authorization": reference},
            },
        ),
        "chat": ("slack", {"url": "env:DULY_SECRET_HOOK"}),
        "rooms": ("mattermost", {"url": "env:DULY_SECRET_HOOK"}),
        "mail": (
            "smtp",
            box.options(username="duly", password={"secret": "env:DULY_SECRET_PASSWORD"}),
        ),
    }
    for name, (kind, options) in channels.items():
        app.alerts.add_channel(name, kind, options, reason="on call")
    app.alerts.set_rule("no-executions", channels=sorted(channels))
    with logged() as log:
        watched = Watched(app, clock)
        make_dead(store, "dead")
        watched.trouble()
        await_tries()
        told = told_by(app, "0196b000-0000-7000-8000-000000000001")
    (alert,) = app.alerts.list(kind="no-executions")
    deliveries = app.alerts.get(alert.id).deliveries
    store.close()
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir() if path.is_file())
    everything = "\n".join([told, log.getvalue(), repr(deliveries), kept.decode("latin-1")])

    assert sorted(channels) == sorted(one.channel for one in deliveries)
    assert any("500" in (one.error or "") for one in deliveries)
    assert any(HOOK == one.path for one in receiver.seen)
    for canary in (*CANARIES.values(), HOOK, KEY.removeprefix("whsec_")):
        assert canary not in everything, canary
    bodies = b"\n".join(one.body for one in receiver.seen).decode()
    for canary in (*CANARIES.values(), HOOK):
        assert canary not in bodies, canary
