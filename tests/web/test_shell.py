"""The shell in a real browser: keys, palette, theme, zones, drafts, and what is live."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

DAY = 86_400
pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else


def focused(page) -> str:
    """Return the id of what has the focus."""
    return str(page.evaluate("document.activeElement.id"))


def test_everything_is_reached_by_keys(site, open_page):
    """Find, help, places, and nothing happens while somebody types."""
    page = open_page(site)
    page.keyboard.press("/")
    found = [focused(page)]
    page.keyboard.type("gs?")
    found += [page.locator("#find").input_value(), page.url.removeprefix(site.url)]
    page.locator("#find").blur()
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard").wait_for()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("r")
    page.get_by_role("heading", name="Runs").wait_for()
    page.keyboard.press("Tab")
    skip = page.evaluate("document.activeElement.textContent")

    assert ["find", "gs?", "/"] == found
    assert "Skip to content" == skip


def test_the_palette_leads_everywhere_and_gives_the_focus_back(site, open_page):
    """By words, arrows and enter; escape leaves everything as it was."""
    page = open_page(site, "/schedules")
    page.get_by_label("Task").focus()
    page.keyboard.press("Control+k")
    page.keyboard.type("no such thing")
    none = page.locator("#palette-list li:visible").count()
    page.keyboard.press("Escape")
    back = focused(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("runs")
    page.keyboard.press("ArrowDown")
    chosen = page.locator("#palette-list [aria-selected=true]").get_attribute("id")
    described = page.locator("#palette-input").get_attribute("aria-activedescendant")
    page.keyboard.press("Enter")
    page.wait_for_url("**/runs?state=**")

    assert (0, "f-task") == (none, back)
    assert chosen == described


def test_the_theme_is_switched_and_kept(site, open_page):
    """From the system's to the other, and the next page has it."""
    page = open_page(site, color_scheme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    before = page.evaluate(ground)
    page.get_by_role("button", name="Switch between light and dark").click()
    after = page.evaluate(ground)
    page.goto(f"{site.url}/runs")

    assert before != after == page.evaluate(ground)


def test_times_are_shown_on_the_clock_that_was_chosen_and_that_is_kept(site, open_page):
    """The schedule's zone, mine, or UTC; the clock of the strip goes on in both."""
    page = open_page(site, "/schedules", timezone_id="America/New_York")
    page.reload()  # the browser has told its zone by now
    row = page.locator("tr", has_text="nightly-report")
    own = row.locator("abbr").first.inner_text()
    clock = page.locator(".health .clock").inner_text()
    page.get_by_role("link", name="Mine").click()
    mine = row.locator("abbr").first.inner_text()
    page.get_by_role("link", name="UTC").click()
    page.goto(f"{site.url}/schedules")
    utc = row.locator("abbr").first.inner_text()

    assert own in {"CET", "CEST"}
    assert mine in {"EST", "EDT"}
    assert "UTC" == utc
    assert re.search(r"E[SD]T", clock)
    assert "UTC" in clock


def seconds(clock: str) -> int:
    """Return how much of the day has passed when a clock shows that."""
    hours, minutes, rest = map(int, clock.split(":"))
    return hours * 3600 + minutes * 60 + rest


def test_relative_times_go_by_the_stores_clock(site, open_page):
    """A browser whose clock is an hour wrong shows what the server would."""
    page = open_page(site, "/health")
    page.context.add_init_script("const wrong = Date.now; Date.now = () => wrong() + 3600_000;")
    page.goto(f"{site.url}/runs")
    first = page.locator("tbody .rel").first
    before = first.inner_text()
    clock = page.locator(".health .clock [data-clock=UTC]")
    shown = clock.inner_text()
    page.wait_for_function(
        "shown => document.querySelector('.health .clock [data-clock=UTC]').textContent !== shown",
        arg=shown,
    )
    now = page.evaluate("new Date().toISOString().slice(11, 19)")
    apart = (seconds(now) - seconds(clock.inner_text())) % DAY

    assert min(apart, DAY - apart) < 600
    assert "h" not in before.split()
    assert "h" not in first.inner_text().split()


@pytest.mark.parametrize("width", [1366, 1920])
def test_a_light_says_a_sentence_that_can_be_read_or_none(site, open_page, width):
    """Where there is no room for some words, the word alone leads to the page of health."""
    page = open_page(site, viewport={"width": width, "height": 800})
    shown = page.evaluate(
        """() => [...document.querySelectorAll(".light")].map((light) => {
          const outer = light.getBoundingClientRect(), why = light.querySelector(".why");
          const named = light.querySelector(".named").getBoundingClientRect();
          const inner = why?.getBoundingClientRect();
          return {
            isWhole: named.right <= outer.right + 1 && named.bottom <= outer.bottom + 1,
            room: inner && inner.top < outer.bottom - 1 ? inner.width : null,
            href: light.getAttribute("href"),
          };
        })"""
    )

    assert [True, True] == [one["isWhole"] for one in shown]
    assert all(one["room"] is None or one["room"] > 100 for one in shown)
    assert all(one["href"].startswith("/health#") for one in shown)


def test_who_is_in_utc_sees_one_clock(site, open_page):
    """The same time twice tells nothing."""
    here = open_page(site, timezone_id="UTC").locator(".health .clock time").count()
    there = open_page(site, timezone_id="Asia/Tokyo").locator(".health .clock time").count()

    assert (1, 2) == (here, there)


def test_on_a_phone_the_words_under_a_drawing_stand_apart(site, open_page):
    """Labels of the lateness axis do not overlap."""
    page = open_page(site, "/overview/lateness", viewport={"width": 390, "height": 800})
    spans = page.evaluate(
        """() => [...document.querySelectorAll(".histogram text")]
          .map((one) => one.getBoundingClientRect()).filter((one) => one.width)
          .map((one) => [one.left, one.right])"""
    )

    assert len(spans) > 2
    assert all(one[1] <= following[0] for one, following in pairwise(spans))
