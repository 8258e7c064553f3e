"""A server is ready before it says so: the first who come wait for nothing that could be made."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest

import duly
from duly.api.server import BindAddress, Server
from duly.clock import SystemClock
from duly.engine.manual_clock import ManualClock
from duly.store.sqlite import SqliteStore
from duly.web import Console
from duly.web.rendering import _environment as environment
from tests.store.sqlite.made_file import made_file
from tests.waiting import LIMIT_S
from tests.web.conftest import START_SECONDS, served
from tests.web.page_client import Visitor
from tests.web.sample_store import furnish, sqlite_app
from tests.web.test_page_costs import Counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly.clock import Clock


class Standing:
    """A store that lets nobody look at schedules before it is told to."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.is_asked = threading.Event()
        self.is_open = threading.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def list_schedules(self, *arguments: Any, **named: Any) -> Any:
        self.is_asked.set()
        assert self.is_open.wait(START_SECONDS)
        return self._store.list_schedules(*arguments, **named)


class Broken(Standing):
    """A store in which schedules can't be looked at."""

    def list_schedules(self, *_: Any, **__: Any) -> Any:
        self.is_asked.set()
        raise duly.StoreUnavailable("broken", "is damaged", "restore it")


@pytest.fixture
def templates():
    """Return where compiled templates are kept: none so far."""
    environment.cache_clear()
    return environment()


@contextmanager
def on(store: Any, clock: Clock | None = None) -> Iterator[duly.App]:
    """Have an application on a store."""
    with duly.App(store=store, clock=clock or SystemClock()) as app:
        app.task(name="report")(lambda: None)
        yield app
    store.close()


@contextmanager
def beginning(app: duly.App) -> Iterator[tuple[Server, threading.Thread, threading.Event]]:
    """Begin to serve; lend who serves, its thread, and whether it can be reached."""
    serving, ready = Server(app, BindAddress(port=0), make=Console), threading.Event()
    thread = threading.Thread(target=serving.run, args=(ready.set,))
    thread.start()
    try:
        yield serving, thread, ready
    finally:
        serving.stop()
        thread.join(START_SECONDS)


def all_made() -> None:
    """Wait for what was not made within the time that a beginning has: a slow machine is slow."""
    for one in threading.enumerate():
        if one.name == "duly-ready":
            one.join(START_SECONDS)


def files_of(path: str) -> Callable[[], list[str]]:
    """Return what counts how often this process has a file open."""

    def found() -> list[str]:
        links = [one for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
        return sorted(str(to) for one in links if path in str(to := one.readlink()))

    return found


def sessions_of(url: str) -> Callable[[], list[str]]:
    """Return what tells by which processes a database is read."""
    sql = """SELECT pid FROM pg_stat_activity WHERE datname = current_database()
        AND pid <> pg_backend_pid() AND backend_type = 'client backend' ORDER BY pid"""

    def found() -> list[str]:
        with psycopg.connect(url) as connection:
            return [str(pid) for (pid,) in connection.execute(sql)]

    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_first_page_compiles_no_template_and_opens_no_connection(
    kind, request, tmp_path, templates
):
    """Both are there before the server says that it listens."""
    if kind == "sqlite":
        app, count = sqlite_app(tmp_path), files_of(str(tmp_path))
    else:
        url = request.getfixturevalue("database")
        app, count = duly.App(url), sessions_of(url)
        app.migrate()
        furnish(app)
    with app, served(app) as site, httpx.Client(base_url=site.url, timeout=LIMIT_S) as client:
        client.cookies["duly_session"] = site.session
        all_made()
        opened, compiled = count(), len(templates.cache)
        answer = client.get("/")

        assert 200 == answer.status_code
        assert opened
        assert opened == count()
        assert len(templates.list_templates()) == compiled == len(templates.cache)


def test_what_was_made_in_advance_serves_the_first_who_comes(tmp_path):
    """What costs most is kept by then, and is not looked at again."""
    clock = ManualClock()
    store = Counted(SqliteStore(made_file(tmp_path / "duly.db", clock), clock))
    with on(store, clock) as app, Visitor(app, clock=clock) as visitor:
        visitor.enter().console.make_ready()
        made = store.asked["list_last_ends"]
        answer = visitor.get("/")

    assert 200 == answer.status_code
    assert 0 < made == store.asked["list_last_ends"]


def test_a_store_that_does_not_answer_keeps_no_server_from_beginning(tmp_path, templates):
    """It is reached, and says that it lives."""
    store = Standing(SqliteStore(made_file(tmp_path / "duly.db")))
    with on(store) as app, beginning(app) as (serving, _, ready):
        assert ready.wait(START_SECONDS)
        assert store.is_asked.wait(START_SECONDS)
        assert 200 == httpx.get(f"{serving.url}/healthz", timeout=LIMIT_S).status_code
        assert not templates.cache

        store.is_open.set()


def test_a_server_that_is_stopped_while_it_gets_ready_waits_for_no_answer(tmp_path):
    """It ends in good order while the store still says nothing."""
    store = Standing(SqliteStore(made_file(tmp_path / "duly.db")))
    with on(store) as app, beginning(app) as (serving, thread, ready):
        assert store.is_asked.wait(START_SECONDS)
        serving.stop()
        thread.join(START_SECONDS)

        assert not thread.is_alive()
        assert not serving.is_cut_short
        assert not ready.is_set()

        store.is_open.set()


def test_a_page_that_can_not_be_made_in_advance_is_refused_to_who_asks(tmp_path, templates):
    """The server begins, and says on the page what is wrong and what to do."""
    store = Broken(SqliteStore(made_file(tmp_path / "duly.db")))
    with on(store) as app, served(app) as site:
        all_made()
        answer = httpx.get(site.url, cookies={"duly_session": site.session}, timeout=LIMIT_S)

        assert 503 == answer.status_code
        assert "restore it" in answer.text
        assert len(templates.list_templates()) == len(templates.cache)
