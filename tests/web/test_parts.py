"""Parts of the overview: they come after it, move nothing, stay live, and are pages of their own."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tests.web.browser_rig import settle
from tests.web.conftest import served

if TYPE_CHECKING:
    from playwright.sync_api import Route

MOVED_MAX = 12
"""Pixels: less than a line."""
PARTS = ("timeline", "sides", "lateness", "load")


@pytest.fixture(scope="module")
def school(two_days):
    app = two_days.copy()
    with served(app) as site:
        yield site


def test_the_overview_comes_before_its_parts_and_they_move_nothing(school, open_page):
    """What one looks at stays where it is while they come in above it."""
    page = open_page(school, "/health", reduced_motion="reduce")
    held: list[Route] = []
    is_free = threading.Event()

    def hold(route: Route) -> None:
        if is_free.is_set():
            route.continue_()
        else:
            held.append(route)

    page.route("**/overview/*", hold)
    with page.expect_request("**/overview/load"):
        page.goto(f"{school.url}/")
    page.evaluate("document.fonts.ready")
    queues = page.locator("#queues-title")
    queues.scroll_into_view_if_needed()
    before = queues.bounding_box()
    waiting = [page.locator(f"#part-{name}").get_attribute("aria-busy") for name in PARTS]
    ways = [page.locator(f"#part-{name} a").first.get_attribute("href") for name in PARTS]
    is_free.set()
    for one in held:
        one.continue_()
    settle(page)
    after = queues.bounding_box()

    assert ["true"] * len(PARTS) == waiting
    assert [f"/overview/{name}" for name in PARTS] == ways
    assert before is not None
    assert after is not None
    assert abs(before["y"] - after["y"]) <= MOVED_MAX
    assert page.locator("#timeline .lane a").count() > 1
    assert page.locator("tr[id^=side-]").count() > 1
    assert page.get_by_role("heading", name="Planned load").is_visible()


def test_without_a_script_each_part_is_a_page(school, open_page):
    """A link leads to it, and its own choices stay there."""
    page = open_page(school, java_script_enabled=False)
    page.locator("#part-timeline a").first.click()
    page.get_by_role("heading", name="Past and to come", level=1).wait_for()
    page.get_by_role("link", name="2d").click()
    page.wait_for_url("**/overview/timeline?span=2d")

    assert page.locator("#timeline .lane a").count() > 1


def test_a_part_is_looked_at_again_when_something_has_changed(school, open_page):
    """What somebody else orders is seen there, without anybody loading the page."""
    page = open_page(school)
    settle(page)
    row = page.locator("tr[id^=side-]", has=page.get_by_role("link", name="fees", exact=True))
    before = row.get_by_text("paused").count()
    school.app.schedules.pause("fees", reason="so")
    row.get_by_text("paused").first.wait_for()
    school.app.schedules.resume("fees")
    row.get_by_text("paused").first.wait_for(state="detached")

    assert 0 == before
