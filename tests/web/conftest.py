"""A console in this process, in virtual time; and a real one that a real browser looks at."""

from __future__ import annotations

import os
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from duly.api.listening import Listening
from duly.api.serving import Serving
from duly.testing.virtual_time import virtual_time
from duly_web import Console
from tests.api.desk import START, lives, make_app
from tests.api.ports import free_port
from tests.web.visiting import Visitor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page

    import duly

CHROMIUM = Path(os.environ.get("DULY_CHROMIUM", "/usr/bin/chromium"))
WAIT_MS = 50_000
"""A machine that does much else is slow, and nothing is wrong with the page."""
QUIET = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-default-apps", "--disable-domain-reliability",
)  # fmt: skip


@pytest.fixture
def visitor() -> Iterator[Visitor]:
    """Somebody signed in, two hours after an application began."""
    app = make_app()
    with virtual_time(app, START) as clock:
        lives(app, clock)
        with Visitor(app) as visitor:
            visitor.clock = clock
            yield visitor.enter()


@dataclass
class Site:
    """A console that is served, and a token that opens it."""

    app: duly.App
    url: str
    token: str


@contextmanager
def served(app: duly.App) -> Iterator[Site]:
    """Serve a console on a port of its own, until the end."""
    listening = Listening(port=free_port())
    serving = Serving(app, listening, make=Console)
    ready = threading.Event()
    thread = threading.Thread(target=serving.run, args=(ready.set,))
    thread.start()
    assert ready.wait(20), "the server did not come up"
    try:
        token = app.tokens.create("anna", role="admin", tenant="*").text
        yield Site(app, listening.url, token)
    finally:
        serving.stop()
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests of a process; says clearly why there is none."""
    if not CHROMIUM.exists():
        pytest.skip(f"there is no {CHROMIUM}: install chromium, or name one in $DULY_CHROMIUM")
    from playwright.sync_api import sync_playwright

    flags = [*QUIET, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
        yield found
        found.close()


@pytest.fixture
def open_page(browser: Browser) -> Iterator[Any]:
    """Return what opens a page of a site for somebody who has signed in."""
    contexts = []

    def opened(site: Site, path: str = "/", **options: Any) -> Page:
        context = browser.new_context(**{"timezone_id": "Europe/Paris"} | options)
        contexts.append(context)
        context.set_default_timeout(WAIT_MS)
        page = context.new_page()
        page.goto(f"{site.url}/enter?next={path}")
        page.get_by_label("Token or one-time code").fill(site.token)
        page.get_by_role("button", name="Sign in").click()
        return page

    yield opened
    for context in contexts:
        context.close()
