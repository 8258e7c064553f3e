"""A real browser for tests: one for each process that needs one.

Playwright's synchronous face leaves its event loop running in the thread that uses it: whoever runs
a loop of their own in that thread later is refused. So the loop is put away between two tests.
"""

from __future__ import annotations

import os
from asyncio import _get_running_loop, _set_running_loop
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import Error, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Page, Playwright

CHROMIUM = Path(os.environ.get("DULY_CHROMIUM", "/usr/bin/chromium-headless-shell"))
START_MS = 120_000
FLAGS = (
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--no-first-run", "--disable-default-apps", "--disable-domain-reliability",
    # In a container /dev/shm is small, and a page that does not get what it asks for there is gone.
    "--disable-dev-shm-usage", "--disable-gpu",
)  # fmt: skip


def settle(page: Page) -> None:
    """Wait until every part of a page that comes after it has come."""
    page.locator(".htmx-request, [aria-busy]").first.wait_for(state="detached")


class Rig:
    """Starts a browser when the first test wants one, and another if that one is gone."""

    def __init__(self) -> None:
        self._playwright: Playwright | None = None
        self._browser: Browser | None = None
        self._loop: Any = None

    @contextmanager
    def lent(self) -> Iterator[Browser]:
        """Lend the browser for the length of a test."""
        with self._own_loop():
            yield self._ready()

    def close(self) -> None:
        """End the browser."""
        with self._own_loop():
            self._stop()

    @contextmanager
    def _own_loop(self) -> Iterator[None]:
        _set_running_loop(self._loop)
        try:
            yield
        finally:
            self._loop = _get_running_loop()
            _set_running_loop(None)

    def _ready(self) -> Browser:
        if self._browser is not None and self._browser.is_connected():
            return self._browser
        self._stop()
        self._playwright = sync_playwright().start()
        flags = [*FLAGS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]
        self._browser = self._playwright.chromium.launch(
            executable_path=str(CHROMIUM), args=flags, timeout=START_MS
        )
        return self._browser

    def _stop(self) -> None:
        for one, end in ((self._browser, "close"), (self._playwright, "stop")):
            try:
                if one is not None:
                    getattr(one, end)()
            except Error:
                continue  # it is gone already, which is what is wanted
        self._browser = self._playwright = None
