"""A real browser with schedules and their editor: by keyboard, at night, on a phone, and stale."""

from __future__ import annotations

import pytest
from axe_playwright_python.sync_playwright import Axe

import duly
from duly import cron, every
from duly.testing.virtual_time import virtual_time
from tests.web.conftest import served
from tests.web.furnished import furnish, sqlite_app

pytestmark = pytest.mark.timeout(240)  # a browser on a machine that does much else is slow
HOSTILE = (
    """<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>"""
)
WCAG = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    with sqlite_app(tmp_path_factory.mktemp("schedules")) as app, served(app) as site:
        yield site


def review(page):
    """Ask for the review."""
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("Nothing is stored yet").wait_for()


def preview_says(page, text):
    """Wait until the preview says something."""
    page.locator("#preview-body").get_by_text(text).first.wait_for()


def places(site):
    """Return the pages of this part."""
    schedule = site.app.schedules.get("nightly-report").id
    return (
        "/schedules",
        "/schedules?status=paused",
        f"/schedules/{schedule}",
        f"/schedules/{schedule}/proof",
        "/schedules/new",
        f"/schedules/{schedule}/edit",
        f"/schedules/{schedule}/duplicate",
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_schedules_shuts_anybody_out(site, open_page, scheme):
    """U3, U2: axe-core finds nothing: list, page, editor, its errors, its list of zones, review."""
    # So tall that nothing is scrolled under the bar on top.
    page = open_page(site, color_scheme=scheme, viewport={"width": 1280, "height": 3000})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    found = {}

    def look(name):
        results = Axe().run(page, options=WCAG)
        if results.violations_count:
            found[name] = results.generate_report()

    for path in places(site):
        page.goto(site.url + path)
        look(path)
    page.get_by_label("in the time zone").fill("tok")
    page.locator("#zone-list").get_by_role("option").first.wait_for()
    look("zones")
    page.keyboard.press("Escape")
    review(page)
    look("review")

    assert not found, "\n".join(found.values())
    assert [] == said

    page.goto(f"{site.url}/schedules/new")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("to be mended").wait_for()
    look("errors")

    assert not found, "\n".join(found.values())


@pytest.mark.parametrize("width", [360, 640])
def test_on_a_phone_and_at_twice_the_size_pages_scroll_one_way_only(site, open_page, width):
    """U3, UX editor 15: at 360 px, and at 200 % of 1280 px, nothing is wider than the window."""
    page = open_page(site, viewport={"width": width, "height": 740})
    for path in places(site):
        page.goto(site.url + path)

        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_a_schedule_is_made_by_keyboard_alone(site, open_page):
    """U2, UX editor 15: type, choose a zone from the list, review, save; and undo that."""
    page = open_page(site, "/schedules/new")
    page.get_by_label("Name", exact=True).focus()
    keys = page.keyboard
    keys.type("by-keyboard")
    keys.press("Tab")
    keys.type("report")  # the list jumps to what is typed
    page.get_by_label("at", exact=True).focus()
    keys.press("Control+a")
    keys.type("9:15pm")
    keys.press("Tab")
    zone = page.get_by_role("combobox", name="in the time zone")
    zone.focus()
    keys.press("Control+a")
    keys.type("berlin")
    page.get_by_role("option", name="Berlin").wait_for()

    assert "true" == zone.get_attribute("aria-expanded")
    assert page.locator(f"#{zone.get_attribute('aria-activedescendant')}").is_visible()

    keys.press("Enter")
    preview_says(page, "every weekday at 21:15 (Europe/Berlin)")

    assert "Europe/Berlin" == zone.input_value()
    assert "false" == zone.get_attribute("aria-expanded")
    assert page.get_by_text("Your browser is in Europe/Paris").is_visible()

    page.get_by_label("Name", exact=True).focus()
    keys.press("Enter")  # in a field: the form's own button, which is the review
    page.get_by_text("Nothing is stored yet").wait_for()
    keys.press("Enter")  # the focus is on Save
    page.get_by_text("Scheduled: every weekday at 21:15 (Europe/Berlin). First:").wait_for()

    assert "15 21 * * 1-5" == _rule(site, "by-keyboard")
    assert page.locator("tr.made", has_text="by-keyboard").is_visible()

    page.locator("#said").get_by_role("button", name="Undo").click()
    page.get_by_text("by-keyboard is deleted").wait_for()

    assert "deleted" == site.app.schedules.get("by-keyboard").status


def test_what_was_typed_outlives_a_reload_and_is_gone_once_saved(site, open_page):
    """UX editor 9: the draft is in this browser only; Esc asks whoever has something to lose."""
    page = open_page(site, "/schedules/new")
    page.get_by_label("Name", exact=True).fill("from-a-draft")
    page.get_by_label("Task", exact=True).select_option("remind")
    page.get_by_label("class_id").fill("42")
    page.get_by_label("Every", exact=True).select_option("weekly")
    page.get_by_label("Tuesday").check()
    page.reload()
    page.get_by_text("Your draft was restored").wait_for()

    assert "from-a-draft" == page.get_by_label("Name", exact=True).input_value()
    assert "42" == page.get_by_label("class_id").input_value()
    assert page.get_by_label("Tuesday").is_checked()
    assert not site.app.schedules.list(name_prefix="from-a-draft")

    page.keyboard.press("Escape")
    page.get_by_role("dialog", name="Leave the editor?").wait_for()
    page.get_by_role("button", name="Keep editing").click()
    review(page)
    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: every Tuesday").wait_for()

    assert {"class_id": 42} == site.app.schedules.get("from-a-draft").arguments

    page.goto(f"{site.url}/schedules/new")

    assert "" == page.get_by_label("Name", exact=True).input_value()

    page.keyboard.press("Escape")  # nothing to lose: it leaves
    page.get_by_role("heading", name="Schedules").wait_for()


def test_a_zone_that_somebody_prefers_comes_before_the_browsers(site, open_page):
    """U2: the person's own default, then the browser's; a zone that was used is offered again."""
    page = open_page(site, "/schedules/new")
    zone = page.get_by_label("in the time zone")

    assert "Europe/Paris" == zone.input_value()

    zone.fill("new york")
    page.get_by_role("option", name="New York").click()
    page.get_by_role("button", name="Always begin with New York").click()
    page.evaluate("localStorage.removeItem('duly-editor:new')")
    page.goto(f"{site.url}/schedules/new")

    assert "America/New_York" == zone.input_value()

    zone.click()
    page.get_by_role("group", name="Recent").get_by_role("option", name="New York").wait_for()


def test_a_session_that_ends_while_editing_keeps_the_draft(site, open_page):
    """UX editor 9: sign in again, and go on where one was."""
    page = open_page(site, "/schedules/new")
    page.get_by_label("Name", exact=True).fill("kept-over-the-door")
    page.get_by_label("Task", exact=True).select_option("report")
    page.context.clear_cookies()
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_label("Token or one-time code").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Your draft was restored").wait_for()

    assert page.url.endswith("/schedules/new")
    assert "kept-over-the-door" == page.get_by_label("Name", exact=True).input_value()

    review(page)
    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: ").wait_for()

    assert "active" == site.app.schedules.get("kept-over-the-door").status


def test_a_stale_edit_shows_both_and_overwrites_nothing(site, open_page):
    """S4, UX 41: theirs and mine, side by side; then mine on top of theirs, if I say so."""
    call = site.app.call("report")
    made = site.app.schedules.create("contested", call, cron("0 9 * * *", tz="Europe/Paris"))
    page = open_page(site, f"/schedules/{made.id}/edit")
    page.get_by_label("at", exact=True).fill("8:00")
    preview_says(page, "The next run moves from")
    site.app.acting_as("bea", "library").schedules.edit(made.id, overlap="allow")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    stale = page.locator("#stale")
    stale.get_by_text("bea changed this schedule while you were editing").wait_for()

    assert stale.evaluate("one => one === document.activeElement")
    assert "allow" in stale.locator("tr", has_text="still runs").inner_text()
    assert "0 9 * * *" == _rule(site, "contested")

    assert page.get_by_label("They run side by side").is_checked()

    review(page)
    page.get_by_role("button", name="Save changes").click()
    page.get_by_text("Saved: every day at 08:00").wait_for()
    now = site.app.schedules.get("contested")

    assert ("0 8 * * *", "allow") == (_rule(site, "contested"), now.overlap)

    page.locator("#said").get_by_role("button", name="Undo").click()
    page.get_by_text("is as it was before change").wait_for()

    assert "0 9 * * *" == _rule(site, "contested")


def test_many_are_paused_as_they_were_seen(site, open_page):
    """UX 15, 39: the frozen set, its count, a reason; one that was made meanwhile is not touched."""
    call = site.app.call("report")
    for number in range(3):
        site.app.schedules.create(f"bulk-{number}", call, every("1h"))
    page = open_page(site, "/schedules?search=bulk-")
    page.get_by_label("Choose all on this page").check()
    page.get_by_text("3 chosen").wait_for()
    page.get_by_role("button", name="Pause chosen").click()
    page.get_by_role("heading", name="Pause 3 schedules").wait_for()
    site.app.schedules.create("bulk-late", call, every("1h"))
    page.get_by_label("Reason").fill("migration")
    page.get_by_role("button", name="Pause 3 schedules").click()
    page.get_by_text("3 schedules paused").wait_for()
    status = {one.name: one.status for one in site.app.schedules.list(name_prefix="bulk-")}

    assert "active" == status.pop("bulk-late")
    assert {"paused"} == set(status.values())

    page.locator("#said").get_by_role("button", name="Undo").click()
    page.get_by_text("3 schedules resumed").wait_for()

    assert not site.app.schedules.list(name_prefix="bulk-", status="paused")


def test_who_was_chosen_stays_chosen_when_a_row_changes(site, open_page):
    """U3: live updates touch no selection; nor does another filter that still shows the row."""
    call = site.app.call("report")
    made = site.app.schedules.create("lively", call, every("1h"))
    page = open_page(site, "/schedules?search=lively")
    with page.expect_response("**/live"):
        page.reload()
    page.get_by_label("Choose lively", exact=True).check()
    page.get_by_label("Task").focus()
    site.app.schedules.edit(made.id, overlap="allow")
    site.app.schedules.create("lively-too", call, every("1h"))
    page.locator("#pill-show").wait_for()  # what is new is told after what has changed

    assert page.get_by_label("Choose lively", exact=True).is_checked()
    assert "1 chosen" == page.locator("#chosen-count").inner_text()

    with page.expect_response("**/schedules?*status=active*"):
        page.get_by_label("Status").select_option("active")
    page.locator(f"#s-{made.id}").wait_for()

    assert page.get_by_label("Choose lively", exact=True).is_checked()


def test_the_rule_is_switched_between_its_ways_without_loss(site, open_page):
    """UX editor 1: sentence to text and back; what is no sentence says so and stays."""
    page = open_page(site, "/schedules/new")
    page.get_by_label("at", exact=True).fill("7:07")
    preview_says(page, "every weekday at 07:07")
    page.get_by_role("button", name="Cron, RRULE").click()

    assert "7 7 * * 1-5" == page.get_by_label("Rule", exact=True).input_value()

    page.get_by_label("Rule", exact=True).fill("every 20 minutes")
    preview_says(page, "every 20 minutes")
    page.get_by_role("button", name="Sentence").click()
    page.locator("#mode-note").get_by_text("can't be shown as a sentence").wait_for()

    assert "every 20 minutes" == page.get_by_label("Rule", exact=True).input_value()

    page.get_by_label("Rule", exact=True).fill("fridays at 17:00")
    preview_says(page, "every Friday at 17:00")
    page.get_by_role("button", name="Sentence").click()

    assert page.get_by_label("Friday").is_checked()
    assert "17:00" == page.get_by_label("at", exact=True).input_value()


def test_what_is_wrong_is_told_on_leaving_the_field_and_mended_by_a_button(site, open_page):
    """UX editor 11: next to the field, with the value that mends it."""
    page = open_page(site, "/schedules/new")
    zone = page.get_by_label("in the time zone")
    zone.fill("Berln")
    zone.blur()
    page.get_by_role("button", name="Use Europe/Berlin").click()
    preview_says(page, "(Europe/Berlin)")

    assert zone.get_attribute("aria-invalid") is None

    page.get_by_label("at", exact=True).fill("25")
    page.get_by_label("at", exact=True).blur()
    page.get_by_text("“25” is not a time of day").wait_for()


def test_the_week_and_the_clock_are_those_of_the_language(site, open_page):
    """UX editor 15: Sunday first and AM in America, Monday first and 24 hours in Germany."""
    american = open_page(site, "/schedules/new", locale="en-US")
    german = open_page(site, "/schedules/new", locale="de-DE")

    american.locator("[data-hour]", has_text="9:00 AM").first.wait_for()
    german.locator("[data-hour]", has_text="09:00").first.wait_for()
    for page in (american, german):
        page.get_by_label("Every", exact=True).select_option("weekly")

    assert "Sunday" == american.locator("#f-days .day").first.inner_text()
    assert "Monday" == german.locator("#f-days .day").first.inner_text()


def test_the_night_before_the_clocks_change_is_flagged(browser, open_page):
    """T2, U2: 02:30 does not exist tomorrow, and the editor says what happens instead."""
    app = duly.App("memory:", actor="ada")
    with virtual_time(app, "2026-03-28T20:00"):
        furnish(app)
        with served(app) as site:
            page = open_page(site, "/schedules/new", timezone_id="Europe/Berlin")
            page.get_by_label("Every", exact=True).select_option("daily")
            page.get_by_label("at", exact=True).fill("2:30")
            flagged = page.locator("#preview-body .flagged")
            flagged.wait_for()

            assert "Sun 29 Mar" in flagged.inner_text()
            assert "02:30 does not exist that day; it runs at 03:00" in flagged.inner_text()

            page.get_by_text("When clocks change").click()
            page.get_by_label("Leave it out that day").check()
            page.locator("#preview-body .flagged").wait_for(state="detached")

            assert "Mon 30 Mar" in page.locator(".coming li").first.inner_text()


def test_nothing_that_somebody_types_is_ever_run(site, open_page):
    """L1: in every field, in the preview, the review, the list, the page and its history."""
    page = open_page(site, "/schedules/new")
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("dialog", lambda dialog: said.append(dialog.message))
    page.get_by_text("Spread, owner, queue").click()
    page.get_by_label("Owner", exact=True).fill(HOSTILE)
    page.get_by_label("Queue", exact=True).fill(HOSTILE)
    page.get_by_label("Name", exact=True).fill(HOSTILE)
    page.get_by_label("Task", exact=True).select_option("report")
    page.get_by_label("Owner", exact=True).blur()
    page.get_by_role("button", name="Cron, RRULE").click()
    page.get_by_label("Rule", exact=True).fill(HOSTILE)
    page.get_by_label("Rule", exact=True).blur()
    page.locator("[data-error=text]").get_by_text("(read as").wait_for()
    page.get_by_label("Rule", exact=True).fill("15m")
    page.get_by_label("Queue", exact=True).fill("default")
    preview_says(page, "every 15 minutes")
    review(page)

    assert not page.evaluate("window.broken")

    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: every 15 minutes").wait_for()
    made = site.app.schedules.get(HOSTILE)
    site.app.schedules.pause(made.id, reason=HOSTILE)
    for path in ("/schedules", f"/schedules/{made.id}", f"/schedules/{made.id}/edit"):
        page.goto(site.url + path)

        assert not page.evaluate("window.broken")

    assert [] == said


def test_the_editor_works_without_a_script(site, browser):
    """U3: each step is a page of the server."""
    context = browser.new_context(java_script_enabled=False, timezone_id="Europe/Paris")
    context.set_default_timeout(50_000)
    page = context.new_page()
    page.goto(f"{site.url}/enter?next=/schedules/new")
    page.get_by_label("Token or one-time code").fill(site.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_label("Name", exact=True).fill("without-script")
    page.get_by_label("Task", exact=True).select_option("report")
    page.get_by_label("in the time zone").fill("Europe/Berlin")
    page.get_by_role("button", name="Cron, RRULE").click()
    page.get_by_label("Rule", exact=True).fill("every weekday at 6:45")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: every weekday at 06:45 (Europe/Berlin)").wait_for()
    context.close()

    assert "45 6 * * 1-5" == _rule(site, "without-script")


def test_schedules_are_made_and_edited_the_same_on_postgresql(database, open_page):
    """U2, D4: create, look, edit, pause many: on PostgreSQL as on SQLite."""
    with duly.App(database, actor="ada") as app:
        app.migrate()
        furnish(app)
        with served(app) as site:
            page = open_page(site, "/schedules/new")
            page.get_by_label("Name", exact=True).fill("on-postgresql")
            page.get_by_label("Task", exact=True).select_option("report")
            review(page)
            page.get_by_role("button", name="Save schedule").click()
            page.get_by_text("Scheduled: every weekday at 09:00 (Europe/Paris)").wait_for()
            page.get_by_role("link", name="on-postgresql").click()
            page.get_by_role("heading", name="Every expected occurrence").wait_for()
            page.get_by_role("link", name="Edit", exact=True).click()
            page.get_by_label("at", exact=True).fill("noon")
            review(page)
            page.get_by_role("button", name="Save changes").click()
            page.get_by_text("Saved: every weekday at 12:00").wait_for()
            page.goto(f"{site.url}/schedules")
            page.get_by_label("Choose all on this page").check()
            page.get_by_role("button", name="Pause chosen").click()
            page.get_by_label("Reason").fill("so")
            page.get_by_role("button", name="Pause 3 schedules").click()
            page.get_by_text("3 schedules paused").wait_for()

            assert "0 12 * * 1-5" == _rule(site, "on-postgresql")
            assert 4 == len(app.schedules.list(status="paused"))


def _rule(site, name):
    return site.app.schedules.get(name).timetable.to_json()["expression"]


def test_a_day_is_proven_from_the_page_of_a_schedule(site, open_page):
    """E6: one page, found from the schedule, that answers for any day."""
    page = open_page(site)
    schedule = site.app.schedules.get("nightly-report")
    page.goto(f"{site.url}/schedules/{schedule.id}")
    page.get_by_role("link", name="Prove a day").click()
    page.get_by_role("heading", name="Proof of nightly-report").wait_for()
    page.get_by_label("Day (").fill("2020-01-01")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/proof?day=2020-01-01")
    page.get_by_text("Nothing was expected on that day").wait_for()
    page.get_by_role("link", name="The day after").click()

    page.wait_for_url("**/proof?day=2020-01-02")
