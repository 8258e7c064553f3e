"""What somebody holds in a real browser stays in their hands: on SQLite and on PostgreSQL."""

from __future__ import annotations

import pytest

from duly import cron

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else


def review(page):
    """Ask for the review."""
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("Nothing is stored yet").wait_for()


def preview_says(page, text):
    """Wait until the preview says something."""
    page.locator("#preview-body").get_by_text(text).first.wait_for()


def focused(page):
    """Return the id of what has the focus."""
    return str(page.evaluate("document.activeElement.id"))


def rule(work, name):
    """Return the rule of a schedule, as cron has it."""
    return work.app.schedules.get(name).timetable.to_json()["expression"]


def test_a_stale_edit_shows_both_and_overwrites_nothing(work, open_page):
    """Theirs and mine, side by side; then mine on top of theirs, if I say so."""
    call = work.app.call("report")
    made = work.app.schedules.create("contested", call, cron("0 9 * * *", tz="Europe/Paris"))
    page = open_page(work.site, f"/schedules/{made.id}/edit")
    page.get_by_label("at", exact=True).fill("8:00")
    preview_says(page, "The next run moves from")
    work.app.acting_as("bea", "library").schedules.edit(made.id, overlap="allow")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    stale = page.locator("#stale")
    stale.get_by_text("bea changed this schedule while you were editing").wait_for()

    assert stale.evaluate("one => one === document.activeElement")
    assert "allow" in stale.locator("tr", has_text="still runs").inner_text()
    assert "0 9 * * *" == rule(work, "contested")

    assert page.get_by_label("They run side by side").is_checked()

    review(page)
    page.get_by_role("button", name="Save changes").click()
    page.get_by_text("Saved: every day at 08:00").wait_for()
    now = work.app.schedules.get("contested")

    assert ("0 8 * * *", "allow") == (rule(work, "contested"), now.overlap)

    page.locator("#said").get_by_role("button", name="Undo").click()
    page.get_by_text("is as it was before change").wait_for()

    assert "0 9 * * *" == rule(work, "contested")


def test_the_night_before_the_clocks_change_is_flagged(work, open_page):
    """02:30 does not exist tomorrow, and the editor says what happens instead."""
    page = open_page(work.site, "/schedules/new", timezone_id="Europe/Berlin")
    page.get_by_label("Every", exact=True).select_option("daily")
    page.get_by_label("at", exact=True).fill("2:30")
    flagged = page.locator("#preview-body .flagged")
    flagged.wait_for()

    assert "Sun 28 Mar" in flagged.inner_text()
    assert "02:30 does not exist that day; it runs at 03:00" in flagged.inner_text()

    page.get_by_text("When clocks change").click()
    page.get_by_label("Leave it out that day").check()
    page.locator("#preview-body .flagged").wait_for(state="detached")

    assert "Mon 29 Mar" in page.locator(".coming li").first.inner_text()


def test_a_session_that_ends_while_editing_keeps_the_draft(work, open_page):
    """Sign in again, and go on where one was."""
    page = open_page(work.site, "/schedules/new")
    page.get_by_label("Name", exact=True).fill("kept-over-the-door")
    page.get_by_label("Task", exact=True).select_option("report")
    page.context.clear_cookies()
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_label("Token or one-time code").fill(work.site.token)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_text("Your draft was restored").wait_for()

    assert page.url.endswith("/schedules/new")
    assert "kept-over-the-door" == page.get_by_label("Name", exact=True).input_value()

    review(page)
    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: ").wait_for()

    assert "active" == work.app.schedules.get("kept-over-the-door").status


def test_nothing_moves_while_somebody_holds_it_and_live_can_be_paused(work, open_page):
    """An open menu stays, the focus stays, what is new waits; and p stops it all."""
    work.run("remind", class_id=96)
    page = open_page(work.site, "/runs?queue=mail&state=queued")
    rows = page.locator("#list tbody tr")
    before = rows.count()
    page.locator(".menu summary").click()
    page.locator("#tenant").focus()
    box = rows.first.bounding_box()
    with page.expect_response(lambda answer: "duly-live" in answer.request.headers):
        work.app.enqueue(work.app.call("remind", {"class_id": 98}))
    page.locator("#pill-show", has_text="1 new").wait_for()
    held = (
        focused(page),
        page.locator(".menu[open]").count(),
        rows.count(),
        rows.first.bounding_box(),
    )
    said = page.locator("#status").inner_text()
    page.locator(".menu summary").click()
    page.locator("#main").focus()
    page.keyboard.press("n")
    shown = rows.count()
    page.keyboard.press("p")
    paused = page.locator("#live-switch").get_attribute("aria-pressed")

    assert ("tenant", 1, before, box) == held
    assert "1 new" == said
    assert before + 1 == shown
    assert "false" == paused


def test_what_changes_between_two_looks_is_not_missed(work, open_page):
    """A page says which state it shows, and the first pulse tells of a newer one."""
    page = open_page(work.site, "/runs?queue=mail&state=queued")
    page.keyboard.press("p")
    work.app.enqueue(work.app.call("remind", {"class_id": 97}))
    page.keyboard.press("p")
    page.locator("#pill-show", has_text="new").wait_for()

    assert page.locator("body").get_attribute("data-pulse")


def test_what_was_typed_outlives_a_session_that_ends(work, open_page):
    """Whoever signs in again finds their words where they left them."""
    run = work.run("remind", class_id=1)
    frozen = work.app.selections.freeze(ids=[run.id])
    path = f"/runs/chosen/{frozen.id}?verb=cancel"
    page = open_page(work.site, path)
    page.get_by_label("Reason").fill("a long story")
    page.context.clear_cookies()
    page.get_by_role("button", name="Cancel 1 run").click()
    page.get_by_label("Token or one-time code").fill(work.site.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(f"**{path}")

    assert "a long story" == page.get_by_label("Reason").input_value()
    assert "queued" == work.app.runs.get(run.id).state


def test_a_session_that_ends_before_an_order_leads_to_the_door_and_back(work, open_page):
    """The dialog's order is not carried out, and the way back is the page it was on."""
    made = work.schedule("every-minute")
    page = open_page(work.site, "/schedules?search=every")
    page.get_by_role("button", name="Pause every-minute").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("so")
    page.context.clear_cookies()
    page.get_by_role("dialog").get_by_role("button", name="Pause").click()
    page.get_by_label("Token or one-time code").fill(work.site.token)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/schedules?search=every")

    assert "active" == work.app.schedules.get(made.id).status
