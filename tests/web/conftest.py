"""A console in this process, in virtual time; and a real one that a real browser looks at."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import pytest

from duly.api.server import BindAddress, Server
from duly.testing import virtual_time
from duly.web import Console
from duly.web.pages import PAGES
from tests.api.api_fixtures import START, lives, make_app
from tests.required_programs import skip_unless_ci
from tests.waiting import LIMIT_S
from tests.web.page_client import Visitor
from tests.web.two_day_history import lived_in

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser, Page, Response

    import duly
    from tests.web.browser_rig import Rig
    from tests.web.console_on_store import Workplace
    from tests.web.two_day_history import TwoDays

WAIT_MS = 120_000
"""A machine that does much else is slow, and nothing is wrong with the page."""
START_SECONDS = 120
STORES = ("sqlite", pytest.param("postgres", marks=pytest.mark.thorough))
"""What is shown is the same on each, and what stores answer alike has its own tests."""
ORDERS = tuple(one for one in PAGES if one.method == "POST")


def pytest_configure(config: pytest.Config) -> None:
    """Let a test say which orders it gives."""
    words = "clicks(*names): orders that its browser gives, and that are not refused"
    config.addinivalue_line("markers", words)


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    """An operator signed in two hours after an application began."""
    app = make_app()
    with virtual_time(app, START) as clock:
        lives(app, clock)
        with Visitor(app) as visitor:
            visitor.clock = clock
            yield visitor.enter()


@pytest.fixture(scope="session")
def two_days() -> Iterator[TwoDays]:
    """Two days of a small school, made once; tests order in copies of it."""
    with lived_in() as made:
        yield made


@pytest.fixture
def school(two_days: TwoDays) -> Iterator[Visitor]:
    """An operator signed in to a copy of the school."""
    with Visitor(two_days.copy()) as visitor:
        yield visitor.enter()


@dataclass
class Site:
    """A console that is served, and a token that opens it."""

    app: duly.App
    url: str
    token: str
    session: str
    """A cookie's value: of somebody who has signed in."""


@contextmanager
def served(app: duly.App) -> Iterator[Site]:
    """Serve a console on a port of its own, until the end."""
    serving = Server(app, BindAddress(port=0), make=Console)
    ready = threading.Event()
    thread = threading.Thread(target=serving.run, args=(ready.set,))
    thread.start()
    assert ready.wait(START_SECONDS), "the server did not come up"
    try:
        token = app.tokens.create("anna", role="admin", tenant="*").text
        with httpx.Client(base_url=serving.url, timeout=LIMIT_S) as client:
            client.post("/enter", data={"secret": token})
            session = client.cookies["duly_session"]
        yield Site(app, serving.url, token, session)
    finally:
        serving.stop()
        thread.join()


@pytest.fixture(scope="module", params=STORES)
def site(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    """A console of a store with something of each kind in it."""
    from tests.web.sample_store import postgres_app, sqlite_app

    if request.param == "sqlite":
        made: AbstractContextManager[duly.App] = sqlite_app(tmp_path_factory.mktemp("console"))
    else:
        made = postgres_app(request.getfixturevalue("postgres_server"))
    with made as app, served(app) as site:
        yield site


@pytest.fixture(scope="session", params=STORES)
def work(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    """One console for each store, and for all tests; each makes what it is about."""
    with workplace(request, tmp_path_factory) as work:
        yield work


@pytest.fixture(params=STORES)
def own_work(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Workplace]:
    """A console of the test's own: the overview shows the first of all schedules, and no more."""
    with workplace(request, tmp_path_factory) as work:
        yield work


def workplace(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AbstractContextManager[Workplace]:
    """Make a console at work on the store that is asked for."""
    from tests.web.console_on_store import on_postgres, on_sqlite

    if request.param == "sqlite":
        return on_sqlite(tmp_path_factory.mktemp("work"))
    return on_postgres(request.getfixturevalue("postgres_server"))


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """Start no browser unless a test needs one; say clearly why there is none."""
    from tests.web.browser_rig import CHROMIUM, Rig

    if not CHROMIUM.exists():
        skip_unless_ci(f"there is no {CHROMIUM}: run `make programs`, or set $DULY_CHROMIUM")
    rig = Rig()
    yield rig
    rig.close()


@pytest.fixture
def browser(rig: Rig) -> Iterator[Browser]:
    """Lend the browser of this process."""
    with rig.lent() as browser:
        yield browser


@pytest.fixture
def given(request: pytest.FixtureRequest) -> Iterator[set[str]]:
    """Hold a test to its word: the orders that it says it gives were given, and not refused."""
    given: set[str] = set()
    yield given
    marker = request.node.get_closest_marker("clicks")
    said = set() if marker is None else set(marker.args)

    assert said <= given, f"not clicked: {', '.join(sorted(said - given))}"


def note_order(given: set[str], answer: Response) -> None:
    """Note an order that a page has sent, unless it was refused."""
    if answer.request.method != "POST" or answer.status >= 400:
        return
    path = urlsplit(answer.url).path
    fitting = [one for one in ORDERS if re.fullmatch(re.sub(r"{\w+}", "[^/]+", one.path), path)]
    if fitting:  # what is named goes before what is any
        given.add(min(fitting, key=lambda one: one.path.count("{")).name)


@pytest.fixture
def open_page(browser: Browser, given: set[str]) -> Iterator[Any]:
    """Return what opens a page of a site for somebody who has signed in."""
    contexts = []

    def opened(site: Site, path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"timezone_id": "Europe/Paris"} | options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        context.on("response", lambda answer: note_order(given, answer))
        # What the door would have left behind: the session, and the zone that the browser is in.
        zone = options.get("timezone_id", "Europe/Paris")
        known = {"duly_session": site.session, "duly_zone": zone}
        context.add_cookies(
            [{"name": name, "value": value, "url": site.url} for name, value in known.items()]
        )
        page = context.new_page()
        page.goto(site.url + path)
        return page

    yield opened
    for context in contexts:
        context.close()
