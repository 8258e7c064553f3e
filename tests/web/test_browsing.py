"""A real browser looks at a real console: signing in, reading, ordering, with eyes and without."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.web.browsing import settle
from tests.web.conftest import served
from tests.web.furnished import furnish, sqlite_app
from tests.web.lived_in import HOSTILE, lived_in

if TYPE_CHECKING:
    from playwright.sync_api import Dialog

pytestmark = pytest.mark.timeout(400)  # waiting for its turn, on a machine that does much else
PLACES = (
    *("/", "/schedules", "/runs", "/health", "/missing", "/fleet", "/audit"),
    *("/inbox", "/inbox?kind=dead", "/inbox?kind=late", "/backfills", "/backfills/plan"),
    *("/alerts", "/alerts/silences", "/alerts/rules", "/alerts/channels"),
    "/alerts/rules/queue-age",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with sqlite_app(tmp_path_factory.mktemp("console")) as app, served(app) as site:
        yield site


@pytest.fixture(scope="module")
def school():
    with lived_in() as app, served(app) as site:
        yield site


def places(school) -> list[str]:
    """Return pages with something of each kind on them."""
    runs = school.app.runs
    states = ("ambiguous", "succeeded", "queued")
    found = [f"/runs/{runs.list(state=state, limit=1)[0].id}" for state in states]
    hostile = runs.list(schedule=HOSTILE, limit=1)[0]
    frozen = school.app.selections.freeze(ids=[hostile.id])
    return [*PLACES, *found, f"/runs/{hostile.id}", f"/runs/chosen/{frozen.id}?verb=retry"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_shuts_anybody_out_and_none_needs_what_the_policy_forbids(
    school, open_page, scheme
):
    """U3, L1: by WCAG 2.2 AA axe-core finds nothing; hostile texts run nothing; no complaint."""
    page = open_page(school, color_scheme=scheme)
    # What is dark differs in its colours alone.
    rules = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
    options = {"runOnly": rules if scheme == "light" else ["color-contrast"]}
    found: dict[str, object] = {}
    said: list[str] = []

    def answered(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.dismiss()

    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", answered)
    for path in places(school):
        page.goto(school.url + path)
        settle(page)
        for one in page.locator("details.data").all():
            one.evaluate("one => { one.open = true; }")
        results = Axe().run(page, options=options)
        if results.violations_count:
            found[path] = results.generate_report()

    assert not found, "\n".join(map(str, found.values()))
    assert [] == said


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


def test_a_dead_run_is_edited_and_retried_and_the_dialogs_say_what_that_is(school, open_page):
    """U3, A3, UX 38: the dialog names the run, its button repeats the verb, an edit is undone."""
    run = school.app.runs.list(state="dead", schedule="broken-import", limit=1)[0]
    page = open_page(school, f"/runs/{run.id}")
    page.get_by_role("button", name="Edit arguments").click()
    dialog = page.get_by_role("dialog")
    heading = dialog.get_by_role("heading").inner_text()
    dialog.get_by_label("Arguments, as JSON").fill('{"how": "well"}')
    dialog.get_by_label("Reason").fill("typo")
    dialog.get_by_role("button", name="Edit arguments").click()
    with page.expect_navigation():  # the page before it says the same
        page.get_by_role("button", name="Put the old arguments back").click()
    page.locator("#said").get_by_text("has other arguments").wait_for()

    assert run.label in heading
    assert run.arguments == school.app.runs.get(run.id).arguments

    page.get_by_role("button", name="Retry").click()
    dialog.get_by_label("Reason").fill("again")
    dialog.get_by_role("button", name="Retry").click()
    page.locator("#said").get_by_text("is queued again, the same run").wait_for()

    assert "queued" == school.app.runs.get(run.id).state


def test_boxes_are_ticked_counted_and_kept_while_others_come(school, open_page):
    """U3, A1, UX 39: the choice survives what is new, and leads to the count."""
    page = open_page(school, "/runs?queue=mail&state=queued")
    page.get_by_role("button", name="Cancel …").wait_for()
    disabled = page.get_by_role("button", name="Cancel …").is_disabled()
    for box in page.locator("tbody [data-choose]").all()[:2]:
        box.check()
    count = page.locator("[data-chosen]").inner_text()
    school.app.enqueue(school.app.call("remind", {"class_id": 50}))
    page.get_by_role("button", name="1 new").click()
    kept = page.locator("tbody [data-choose]:checked").count()
    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("heading", name="Cancel 2 runs").wait_for()

    assert (True, "2 chosen", 2) == (disabled, count, kept)


@pytest.mark.parametrize("width", [360, 640, 1000, 1280])
def test_a_phone_and_a_zoomed_page_scroll_one_way_only(school, open_page, width):
    """U3: at 360 px, at 200 % of 1280 px, and up to there, nothing is wider than the window."""
    page = open_page(school, viewport={"width": width, "height": 740})
    for path in places(school):
        page.goto(school.url + path)
        settle(page)
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

            page.goto(f"{site.url}/?span=2d")
            settle(page)
            assert page.locator("#timeline .lane a").count() > 1
            run = app.runs.list(limit=1)[0]
            page.goto(f"{site.url}/runs/{run.id}")
            page.get_by_role("button", name="Cancel").click()
            page.get_by_role("dialog").get_by_label("Reason").fill("not wanted")
            page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
            page.locator("#said").wait_for()

            assert "cancelled" == app.runs.get(run.id).state


def _standing(app):
    found = app.schedules.get("nightly-report")
    return found.status, found.reason
