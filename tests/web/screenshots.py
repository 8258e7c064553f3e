"""Takes the pictures of docs/screenshots: every page of the demo, in light, dark and on a phone.

    make screenshots

It starts `duly demo`, looks at each page with the browser of the tests, and ends it.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.web.browser_rig import CHROMIUM, settle

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FOLDER = Path(__file__).parents[2] / "docs" / "screenshots"
ADDRESS = re.compile(r"http://\S+/enter#\S+")
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light", "viewport": {"width": 1280, "height": 860}},
    "dark": {"color_scheme": "dark", "viewport": {"width": 1280, "height": 860}},
    "phone": {"color_scheme": "light", "viewport": {"width": 390, "height": 844}},
}
PLACES = {
    "overview": "/",
    "schedules": "/schedules",
    "schedule": "/schedules/nightly-report",
    "proof": "/schedules/nightly-report/proof",
    "editor": "/schedules/new",
    "runs": "/runs",
    "inbox": "/inbox",
    "missing": "/missing",
    "backfills": "/backfills",
    "fleet": "/fleet",
    "alerts": "/alerts",
    "audit": "/audit",
    "health": "/health",
}
FOLLOWED = {
    "run": ("/runs?state=succeeded", "tbody th a"),
    "decision": ("/inbox", "main a:has-text('Decide')"),
    "backfill": ("/backfills", "tbody th a"),
    "alert": ("/alerts", "tbody th a"),
}
"""Pages of one thing: where it is listed, and the link that leads to it."""
WAIT_MS = 60_000


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    demo = subprocess.Popen(
        (sys.executable, "-m", "duly", "demo", "--no-open"), stdout=subprocess.PIPE, text=True
    )
    try:
        address = printed_address(demo)
        with sync_playwright() as playwright:
            flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
            take_all(browser, address)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate()


def printed_address(demo: subprocess.Popen[str]) -> str:
    assert demo.stdout is not None, "piped"
    for line in demo.stdout:
        if found := ADDRESS.search(line):
            return found[0]
    raise SystemExit("the demo has printed no address")


def take_all(browser: Browser, address: str) -> None:
    site = address.partition("/enter")[0]
    state = None
    for look, options in LOOKS.items():
        context = browser.new_context(timezone_id="Europe/Paris", storage_state=state, **options)
        page = context.new_page()
        page.set_default_timeout(WAIT_MS)
        if state is None:  # the code opens once; the others come with what it opened
            page.goto(address)
            page.get_by_role("heading", name="Overview").wait_for()
            state = context.storage_state()
        for name, path in PLACES.items():
            page.goto(site + path)
            take(page, f"{name}-{look}")
        for name, (path, link) in FOLLOWED.items():
            page.goto(site + path)
            page.goto(site + str(page.locator(link).first.get_attribute("href")))
            take(page, f"{name}-{look}")
        context.close()


def take(page: Page, name: str) -> None:
    page.locator("h1").first.wait_for()
    settle(page)
    page.screenshot(path=str(FOLDER / f"{name}.png"))
    sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main()
