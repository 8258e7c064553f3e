"""On a phone: one row on top with the two lights and a menu, for fingers, keys and ears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.web.accessibility import shut_out

if TYPE_CHECKING:
    from playwright.sync_api import FloatRect, Page

    from tests.web.conftest import Site

PHONE = {"width": 390, "height": 844}
ROW_MAX = 56
WHOLE = """() => document.documentElement.scrollWidth <= innerWidth"""


@pytest.fixture
def phone(site: Site, open_page) -> Page:
    page: Page = open_page(site, "/runs", viewport=PHONE, has_touch=True)
    return page


def boxes(page: Page) -> list[FloatRect]:
    found = [page.locator(one).bounding_box() for one in (".brand", "#health", ".open-menu")]
    return [one for one in found if one is not None]


def test_the_top_is_one_row_with_both_lights_in_words(phone):
    """Brand, two lights and the menu; the page begins right below."""
    row = boxes(phone)

    assert 3 == len(row)
    assert {0} == {round(one["y"]) for one in row}
    assert max(one["height"] for one in row) <= ROW_MAX
    main = phone.locator("main h1").bounding_box()
    assert main is not None
    assert main["y"] <= 2 * ROW_MAX
    for name in ("Control plane", "Useful work"):
        assert phone.locator("#health").get_by_text(name).is_visible()
    assert 2 == phone.locator("#health .chip:visible").count()
    assert not phone.get_by_role("navigation", name="Main").is_visible()


@pytest.mark.parametrize("width", [320, 360, 640, 800])
def test_the_row_stays_one_row_at_every_width(phone, width):
    """A small phone, 200 % of a desk, a tablet: nothing falls below, or beside."""
    phone.set_viewport_size({"width": width, "height": 740})

    assert {0} == {round(one["y"]) for one in boxes(phone)}
    assert phone.evaluate(WHOLE)
    lights = [one.bounding_box() for one in phone.locator("#health .chip:visible").all()]
    menu = phone.locator(".open-menu").bounding_box()
    assert 2 == len(lights)
    assert menu is not None
    assert all(one is not None and one["x"] + one["width"] <= menu["x"] for one in lights)


def test_the_menu_is_opened_walked_and_closed_by_keys(phone):
    """It says what it is, the focus goes in, Escape closes it and gives the focus back."""
    button = phone.get_by_role("button", name="Menu")
    button.focus()
    phone.keyboard.press("Enter")
    bar = phone.get_by_role("navigation", name="Main")
    bar.wait_for()

    assert "page" == bar.get_by_role("link", name="Runs").get_attribute("aria-current")

    phone.keyboard.press("Tab")

    assert bar.get_by_role("link", name="Overview").evaluate(
        "one => one === document.activeElement"
    )

    phone.keyboard.press("Escape")
    bar.wait_for(state="hidden")

    assert button.evaluate("one => one === document.activeElement")


def test_the_menu_leads_everywhere_and_shuts_nobody_out(phone):
    """All places, whose clock, theme and sign-out; by axe-core, open."""
    phone.get_by_role("button", name="Menu").click()
    menu = phone.locator("#menu")
    menu.wait_for()

    assert 10 == menu.get_by_role("navigation", name="Main").get_by_role("link").count()
    assert menu.get_by_role("navigation", name="Show times in").is_visible()
    assert menu.get_by_text("early fires").is_visible()
    assert phone.evaluate(WHOLE)
    assert not shut_out(phone)

    menu.get_by_role("link", name="Inbox").click()
    phone.get_by_role("heading", name="Inbox").wait_for()

    assert not menu.is_visible()


def test_the_key_for_finding_opens_the_menu_where_the_field_is(site, open_page):
    """A key does on a phone with a keyboard what it does at a desk."""
    page: Page = open_page(site, "/inbox", viewport=PHONE)
    page.keyboard.press("/")
    page.locator("#find").wait_for()

    assert page.locator("#find").evaluate("one => one === document.activeElement")


def test_a_dialog_that_the_menu_opened_gives_the_focus_to_its_button(phone):
    """What opened it is gone with the menu, and nobody is left at the top of the page."""
    phone.get_by_role("button", name="Menu").click()
    phone.get_by_role("button", name="Command palette").click()
    phone.locator("#palette[open]").wait_for()
    phone.keyboard.press("Escape")
    phone.locator("#palette").wait_for(state="hidden")

    assert phone.get_by_role("button", name="Menu").evaluate(
        "one => one === document.activeElement"
    )


def test_at_a_desk_there_is_a_rail_and_no_menu(site, open_page):
    """All places in sight."""
    page: Page = open_page(site, "/runs", viewport={"width": 1280, "height": 860})

    assert page.get_by_role("navigation", name="Main").is_visible()
    assert not page.locator(".open-menu").is_visible()
    assert 1 == page.get_by_role("navigation", name="Show times in").count()


def test_filters_are_folded_say_what_is_on_and_are_opened_by_keys(site, open_page):
    """The list begins at once; what is on is read without opening anything."""
    phone = open_page(site, "/runs?only=late", viewport=PHONE, has_touch=True)
    summary = phone.locator(".folded > summary")
    field = phone.get_by_label("Schedule", exact=True)

    assert not field.is_visible()

    summary.press("Enter")
    phone.get_by_label("State").select_option("succeeded")
    phone.locator("#filters-on", has_text="state succeeded").wait_for()

    assert "Runs" == phone.locator("h1").inner_text(), "and no more those that are late"

    phone.reload()

    assert "Filters state succeeded" in summary.inner_text().replace("\n", " ")
    assert not field.is_visible()

    phone.set_viewport_size({"width": 1280, "height": 844})

    assert (True, False) == (field.is_visible(), summary.is_visible())

    phone.set_viewport_size(PHONE)
    phone.goto(phone.url.partition("/runs")[0] + "/schedules")
    phone.keyboard.press("/")

    assert "search" == phone.evaluate("document.activeElement.name")
