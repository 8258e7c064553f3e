"""A real browser with schedules and their editor: by keyboard, at night, on a phone, and stale."""

from __future__ import annotations

import pytest

from duly import cron, every
from tests.web.accessibility import WIDE, heard, shut_out, too_wide
from tests.web.browser_rig import settle
from tests.web.conftest import WAIT_MS

pytestmark = pytest.mark.timeout(600)  # a browser on a machine that does much else is slow
HOSTILE = (
    """<img src=x onerror="document.title='broken'"><script>document.title='broken'</script>"""
)


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


def test_no_page_of_schedules_shuts_anybody_out(site, open_page):
    """Axe-core finds nothing: list, page, editor, its errors, its list of zones, review."""
    page = open_page(site, viewport=WIDE)
    said = heard(page)
    found: dict[str, object] = {}

    def look(name):
        if report := shut_out(page):
            found[name] = report
        if widths := too_wide(page):
            found[f"{name}, too wide"] = widths

    for path in places(site):
        page.goto(site.url + path)
        settle(page)
        look(path)
    page.get_by_label("in the time zone").fill("tok")
    page.locator("#zone-list").get_by_role("option").first.wait_for()
    look("zones")
    page.keyboard.press("Escape")
    review(page)
    look("review")

    assert not found, "\n".join(f"{name}: {text}" for name, text in found.items())
    assert [] == said

    page.goto(f"{site.url}/schedules/new")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("to mend").wait_for()
    look("errors")

    assert not found, "\n".join(map(str, found.values()))


def test_a_schedule_is_made_by_keyboard_alone(site, open_page):
    """Type, choose a zone from the list, review, save; and undo that."""
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
    page.locator("[data-save]:focus").wait_for()
    keys.press("Enter")
    page.get_by_text("Scheduled: every weekday at 21:15 (Europe/Berlin). First:").wait_for()

    page.locator("tr.made", has_text="by-keyboard").wait_for()

    assert "15 21 * * 1-5" == _rule(site, "by-keyboard")

    page.locator("#said").get_by_role("button", name="Undo").click()
    page.get_by_text("by-keyboard is deleted").wait_for()

    assert "deleted" == site.app.schedules.get("by-keyboard").status


def test_what_was_typed_outlives_a_reload_and_is_gone_once_saved(site, open_page):
    """The draft is in this browser only; Esc asks whoever has something to lose."""
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

    page.wait_for_function(
        "!Object.keys(localStorage).some((key) => key.startsWith('duly-editor:'))"
    )
    page.goto(f"{site.url}/schedules/new")

    assert "" == page.get_by_label("Name", exact=True).input_value()

    page.keyboard.press("Escape")  # nothing to lose: it leaves
    page.get_by_role("heading", name="Schedules").wait_for()


def test_a_zone_that_somebody_prefers_comes_before_the_browsers(site, open_page):
    """The person's own default, then the browser's; a zone that was used is offered again."""
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


def test_a_zone_is_fixed_and_following_somebody_is_refused_with_what_to_do_instead(site, open_page):
    """What can't be kept is not offered; from elsewhere it is moved, by name."""
    page = open_page(site, "/schedules/new")
    zone = page.get_by_label("in the time zone")

    assert page.get_by_text("Fixed: it stays in this zone wherever you are").is_visible()

    zone.fill("follow my profile")
    zone.blur()
    page.get_by_text("the zone of a schedule is fixed; choose a zone").wait_for()
    rule = cron("0 9 * * *", tz="Europe/Berlin")
    made = site.app.schedules.create("travelled", site.app.call("report"), rule)
    page = open_page(site, f"/schedules/{made.id}/edit", timezone_id="Asia/Tokyo")
    banner = page.locator("#zone-banner")
    banner.get_by_text("Your browser is in Asia/Tokyo, this schedule in Europe/Berlin").wait_for()

    assert "Europe/Berlin" == page.get_by_label("in the time zone").input_value()

    page.get_by_label("in the time zone").fill("berl")  # half a zone is none
    page.locator("#zone-list [role=option]").first.wait_for()

    assert not banner.is_visible()
    assert "now" not in page.locator("#zone-now").inner_text()

    page.get_by_label("in the time zone").press("Escape")
    banner.get_by_role("button", name="Use Tokyo").click()
    preview_says(page, "The next run moves from")
    review(page)
    page.get_by_role("button", name="Save changes").click()
    page.get_by_text("Saved: every day at 09:00 (Asia/Tokyo)").wait_for()


def test_many_are_paused_as_they_were_seen(site, open_page):
    """The frozen set, its count, a reason; one that was made meanwhile is not touched."""
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
    """Live updates touch no selection; nor does another filter that still shows the row."""
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
    """Sentence to text and back; what is no sentence says so and stays."""
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
    """Next to the field, with the value that mends it."""
    page = open_page(site, "/schedules/new")
    zone = page.get_by_label("in the time zone")
    zone.fill("Berln")
    zone.blur()
    page.get_by_role("button", name="Use Europe/Berlin").click()
    preview_says(page, "(Europe/Berlin)")

    assert zone.get_attribute("aria-invalid") is None

    page.get_by_label("at", exact=True).fill("25")
    page.get_by_label("at", exact=True).blur()
    page.get_by_text("“25” is not a time of day").first.wait_for()


def test_the_week_and_the_clock_are_those_of_the_language(site, open_page):
    """Sunday first and AM in America, Monday first and 24 hours in Germany."""
    american = open_page(site, "/schedules/new", locale="en-US")
    german = open_page(site, "/schedules/new", locale="de-DE")

    american.locator("[data-hour]", has_text="9:00 AM").first.wait_for()
    german.locator("[data-hour]", has_text="09:00").first.wait_for()
    for page in (american, german):
        page.get_by_label("Every", exact=True).select_option("weekly")

    assert "Sunday" == american.locator("#f-days .day").first.inner_text()
    assert "Monday" == german.locator("#f-days .day").first.inner_text()


def test_nothing_that_somebody_types_is_ever_run(site, open_page):
    """In every field, in the preview, the review, the list, the page and its history."""
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
    """Each step is a page of the server."""
    context = browser.new_context(java_script_enabled=False, timezone_id="Europe/Paris")
    context.set_default_timeout(WAIT_MS)
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


def _rule(site, name):
    return site.app.schedules.get(name).timetable.to_json()["expression"]


def test_a_day_is_proven_from_the_page_of_a_schedule(site, open_page):
    """One page, found from the schedule, that answers for any day."""
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
