"""A real browser looks at a real console: signing in, reading, ordering, with eyes and without."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.web.conftest import served
from tests.web.furnished import furnish, sqlite_app

pytestmark = pytest.mark.timeout(180)  # a browser on a machine that does much else is slow
PLACES = (
    "/",
    "/schedules",
    "/runs",
    "/health",
    "/alerts",
    "/alerts/silences",
    "/alerts/rules",
    "/alerts/channels",
    "/alerts/rules/queue-age",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with sqlite_app(tmp_path_factory.mktemp("console")) as app, served(app) as site:
        yield site


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_shuts_anybody_out(site, open_page, scheme):
    """U3: what axe-core finds by WCAG 2.2 AA is nothing, in light and in dark."""
    page = open_page(site, color_scheme=scheme)
    run = site.app.runs.list()[0]
    options = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}
    found = {}
    for path in (*PLACES, f"/runs/{run.id}"):
        page.goto(site.url + path)
        results = Axe().run(page, options=options)
        if results.violations_count:
            found[path] = results.generate_report()

    assert not found, "\n".join(found.values())


def test_a_schedule_is_paused_with_a_reason_and_that_is_undone(site, open_page):
    """U3, A1: the dialog names it, the reason is on record, and the next page offers to undo."""
    page = open_page(site, "/schedules")
    page.get_by_role("button", name="Pause nightly-report").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("migration")
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.get_by_text("nightly-report is paused").wait_for()

    assert ("paused", "migration") == _standing(site.app)

    page.locator("#said").get_by_role("button", name="Resume").click()
    page.get_by_text("nightly-report goes on").wait_for()

    assert "active" == site.app.schedules.get("nightly-report").status


def test_what_is_wrong_with_an_order_is_said_in_the_dialog(site, open_page):
    """L6: the field, the value and the remedy; what was typed stays."""
    page = open_page(site, "/schedules")
    page.get_by_role("button", name="Pause every-minute").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("so")
    dialog.get_by_label("Resume by itself at").fill("tomorrowish")
    dialog.get_by_role("button", name="Pause").click()
    dialog.get_by_text("is not an instant").first.wait_for()

    assert "so" == dialog.get_by_label("Reason").input_value()
    assert "active" == site.app.schedules.get("every-minute").status


def test_the_one_time_code_of_a_printed_address_opens_the_console(site, browser):
    """L1, U1: what stands behind the # begins a session, and leaves the address."""
    code = site.app.doorkeeper().make_code()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/enter#{code}")
    page.get_by_role("heading", name="Overview").wait_for()

    assert f"{site.url}/" == page.url

    context.close()


def test_a_session_that_ended_leads_to_the_door_and_back(site, open_page):
    """U3: whoever has to sign in again comes to the page that they wanted."""
    page = open_page(site, "/runs")
    page.context.clear_cookies()
    page.goto(f"{site.url}/runs?state=queued")
    page.get_by_label("Token or one-time code").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("heading", name="Runs").wait_for()

    assert page.url.endswith("/runs?state=queued")


def test_what_is_new_waits_behind_a_pill_and_moves_nothing(site, open_page):
    """U3: a list says what came, and shows it when asked."""
    page = open_page(site, "/runs?queue=mail")
    page.locator("#list tbody tr").first.wait_for()
    before = page.locator("#list tbody tr").count()
    page.get_by_label("Task").focus()
    with page.expect_response("**/live"):
        page.reload()
    page.get_by_label("Task").focus()
    site.app.enqueue(site.app.call("remind", {"class_id": 99}))
    page.get_by_role("button", name="1 new").wait_for()

    assert before == page.locator("#list tbody tr").count()
    assert page.get_by_label("Task").evaluate("one => one === document.activeElement")

    page.get_by_role("button", name="1 new").click()

    assert before + 1 == page.locator("#list tbody tr").count()


def test_nothing_on_a_page_needs_what_the_policy_forbids(site, open_page):
    """L1: no inline script, style or handler; the browser has nothing to complain about."""
    page = open_page(site)
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    for path in PLACES:
        page.goto(site.url + path)

    assert [] == said


@pytest.mark.parametrize("width", [360, 640])
def test_a_phone_and_a_zoomed_page_scroll_one_way_only(site, open_page, width):
    """U3: at 360 px, and at 200 % of 1280 px, nothing is wider than the window."""
    page = open_page(site, viewport={"width": width, "height": 740})
    for path in PLACES:
        page.goto(site.url + path)
        wide = page.evaluate("document.documentElement.scrollWidth")

        assert wide <= width, path


def test_pages_are_the_same_on_postgresql(database, open_page):
    """U3, D4: the console reads and orders on PostgreSQL as on SQLite."""
    import duly

    with duly.App(database, actor="ada") as app:
        app.migrate()
        furnish(app)
        with served(app) as site:
            page = open_page(site, "/schedules")
            page.get_by_role("button", name="Resume in-tokyo").click()
            page.get_by_role("dialog").get_by_role("button", name="Resume").click()
            page.get_by_text("in-tokyo goes on").wait_for()

            assert "active" == app.schedules.get("in-tokyo").status


def _standing(app):
    found = app.schedules.get("nightly-report")
    return found.status, found.reason
