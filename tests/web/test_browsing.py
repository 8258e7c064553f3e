"""A real browser looks at a real console: signing in, reading, ordering, with eyes and without."""

from __future__ import annotations

import pytest

from duly_conformance import alerts
from tests.web.accessibility import WIDE, heard, shut_out, too_wide
from tests.web.browser_rig import settle
from tests.web.conftest import served
from tests.web.two_day_history import HOSTILE

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else
PLACES = (
    *("/", "/schedules", "/runs", "/health", "/missing", "/fleet", "/audit", "/owners?owner=x"),
    *("/inbox", "/inbox?kind=dead", "/inbox?kind=late", "/backfills", "/backfills/plan"),
    *("/alerts", "/alerts/silences", "/alerts/rules", "/alerts/channels"),
    "/alerts/rules/queue-age",
)


@pytest.fixture(scope="module")
def school(two_days):
    app = two_days.copy()
    with served(app) as site:
        alert_of(app)
        since, until = "2026-04-01T00:00Z", "2026-04-03T00:00Z"
        app.backfills.create("fees", since=since, until=until, reason=HOSTILE, mode="redo")
        yield site


def places(school) -> list[str]:
    """Return pages with something of each kind on them."""
    app = school.app
    states = ("ambiguous", "succeeded", "queued", "dead", "retrying")
    runs = [app.runs.list(state=state, limit=1)[0].id for state in states]
    hostile = app.runs.list(schedule=HOSTILE, limit=1)[0].id
    schedules = [app.schedules.get(name).id for name in (HOSTILE, "in-tokyo")]
    frozen = app.selections.freeze(ids=[hostile])
    since = "2026-04-01T00:00Z"
    (backfill,) = app.backfills.list()
    return [
        *PLACES,
        *(f"/runs/{one}" for one in (*runs, hostile)),
        *(f"/schedules/{one}" for one in schedules),
        f"/inbox/{runs[0]}",
        f"/runs/chosen/{frozen.id}?verb=retry",
        f"/backfills/{backfill.id}",
        f"/backfills/plan?schedule=in-tokyo&since={since}",
        f"/alerts/{alert_of(app).id}",
    ]


def alert_of(app):
    """Return an alert of a schedule with a hostile name."""
    if not app.alerts.list():
        store = app.store
        condition = alerts.condition(f"schedule {HOSTILE}", summary=f"{HOSTILE} is late")
        alerts.look(store, alerts.watch(store), condition)
    return app.alerts.list()[0]


@pytest.mark.parametrize("part", [0, 1, 2])
def test_no_page_shuts_anybody_out_scrolls_two_ways_or_needs_what_the_policy_forbids(
    school, open_page, part
):
    """WCAG 2.2 AA in light and dark, on a phone and at 200 %; hostile texts run nothing."""
    page = open_page(school, viewport=WIDE)
    said = heard(page)
    found: dict[str, object] = {}
    wide: dict[str, list[int]] = {}
    for path in places(school)[part::3]:
        page.goto(school.url + path)
        settle(page)
        if report := shut_out(page):
            found[path] = report
        if widths := too_wide(page):
            wide[path] = widths

    assert not found, "\n".join(map(str, found.values()))
    assert {} == wide
    assert [] == said


def test_a_schedule_is_paused_with_a_reason_and_that_is_undone(site, open_page):
    """The dialog names it, the reason is on record, and the next page offers to undo."""
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
    """The field, the value and the remedy; what was typed stays."""
    page = open_page(site, "/schedules")
    page.get_by_role("button", name="Pause every-minute").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason").fill("so")
    dialog.get_by_label("Resume by itself at").fill("tomorrowish")
    dialog.get_by_role("button", name="Pause").click()
    dialog.get_by_text("is not a moment").first.wait_for()

    assert "so" == dialog.get_by_label("Reason").input_value()
    assert "active" == site.app.schedules.get("every-minute").status


def test_the_one_time_code_of_a_printed_address_opens_the_console(site, browser):
    """What stands behind the # begins a session, and leaves the address."""
    code = site.app.doorkeeper().make_code()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{site.url}/enter#{code}")
    page.get_by_role("heading", name="Overview").wait_for()

    assert f"{site.url}/" == page.url

    context.close()


def test_a_dead_run_is_edited_and_retried_and_the_dialogs_say_what_that_is(school, open_page):
    """The dialog names the run, its button repeats the verb, an edit is undone."""
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
    """The choice survives what is new, and leads to the count."""
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


def _standing(app):
    found = app.schedules.get("nightly-report")
    return found.status, found.reason
