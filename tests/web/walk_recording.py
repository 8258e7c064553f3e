"""Takes the moving picture of the console's guide: the demo's walk, from a killed worker to its audit line.

    python -m tests.web.walk_recording

It needs Pillow, which nothing else does: `pip install pillow` first. It starts `duly demo`, kills the
worker that it offers, decides about the run in doubt, and writes docs/walk.webp.
"""

from __future__ import annotations

import importlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

from tests.web.browser_rig import CHROMIUM, settle
from tests.web.screenshots import WAIT_MS, printed_address

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

WRITTEN = Path(__file__).parents[2] / "docs" / "walk.webp"
SIZE: Any = {"width": 1120, "height": 700}
SHRUNK = (840, 525)
SHORT_MS, LONG_MS = 1_400, 3_200
LOOKS_MAX = 60
"""So often it is looked whether the run is in doubt by now: its worker's lease must run out."""
POINTED = "one => { one.style.outline = '3px solid #d97706'; one.style.outlineOffset = '3px'; }"


class Film:
    """Frames, each with how long it is shown."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.frames: list[tuple[bytes, int]] = []

    def take(self, milliseconds: int, pointed: Locator | None = None) -> None:
        """Take a frame; what is pressed next has a ring around it."""
        self._page.locator("h1").first.wait_for()
        settle(self._page)
        if pointed is not None:
            pointed.scroll_into_view_if_needed()
            pointed.evaluate(POINTED)
        self.frames.append((self._page.screenshot(), milliseconds))


def main() -> None:
    demo = subprocess.Popen(
        (sys.executable, "-m", "duly", "demo", "--no-open"), stdout=subprocess.PIPE, text=True
    )
    try:
        address = printed_address(demo)
        with sync_playwright() as playwright:
            flags = ["--disable-dev-shm-usage", *(["--no-sandbox"] if os.geteuid() == 0 else [])]
            browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=flags)
            page = browser.new_page(timezone_id="Europe/Paris", color_scheme="light", viewport=SIZE)
            page.set_default_timeout(WAIT_MS)
            frames = walk(page, address)
            browser.close()
    finally:
        demo.send_signal(signal.SIGINT)
        demo.communicate()
    write(frames)


def walk(page: Page, address: str) -> list[tuple[bytes, int]]:
    """Go the way that the demo offers."""
    film = Film(page)
    site = address.partition("/enter")[0]
    page.goto(address)
    kill = page.get_by_role("button", name="Kill worker")
    film.take(LONG_MS)
    kill.wait_for()
    film.take(SHORT_MS, kill)
    kill.click()
    page.get_by_text("was killed in the middle of").wait_for()
    doubt = page.get_by_role("link", name="Its run is in doubt")
    for _ in range(LOOKS_MAX):
        page.goto(site)
        settle(page)
        if doubt.count():
            break
        page.wait_for_timeout(SHORT_MS)
    film.take(LONG_MS, doubt)
    run = str(doubt.get_attribute("href")).rpartition("/")[2]
    page.goto(f"{site}/runs/{run}")
    film.take(LONG_MS, page.get_by_role("link", name="Decide in the inbox"))
    page.goto(f"{site}/inbox/{run}")
    film.take(LONG_MS)
    card = page.locator("details.choice[open]")
    card.get_by_label("is done", exact=True).check()
    for one in card.locator("select[name=effect]").all():
        one.select_option(label="has happened")
    card.get_by_label("Reason").fill("booked: statement 42 of the bank")
    send = card.get_by_role("button", name="Reconcile")
    film.take(LONG_MS, send)
    send.click()
    page.locator("#said").wait_for()
    film.take(LONG_MS)
    page.goto(f"{site}/audit")
    film.take(LONG_MS, page.locator("tbody tr", has_text="run.settled").first)
    return film.frames


def write(frames: list[tuple[bytes, int]]) -> None:
    """Write them as one picture that moves."""
    image: Any = importlib.import_module("PIL.Image")
    drawn = [
        image.open(io.BytesIO(one)).convert("RGB").resize(SHRUNK, image.Resampling.LANCZOS)
        for one, _ in frames
    ]
    drawn[0].save(
        WRITTEN,
        save_all=True,
        append_images=drawn[1:],
        duration=[milliseconds for _, milliseconds in frames],
        loop=0,
        quality=72,
        method=6,
    )
    sys.stdout.write(f"{WRITTEN}: {len(drawn)} frames, {WRITTEN.stat().st_size / 1024:.0f} kB\n")


if __name__ == "__main__":
    main()
