"""What an order of a real browser brings about: in the run, in the plan, in the schedule, in focus."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from duly import cron
from duly.timetable.instants import SECOND_US
from tests.waiting import LIMIT_S
from tests.web.test_holding import review
from tests.web.test_ordering import told
from tests.web.test_reading import text_of

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else
PHONE = {"width": 390, "height": 800}


def test_on_a_phone_a_pause_lets_what_is_active_end_or_asks_it_to_stop(work, open_page):
    """How many are active, what becomes of them, and that is what happens."""
    app = work.app
    page = open_page(work.site, viewport=PHONE)
    found: dict[str, tuple[str, str]] = {}
    for choice in ("Let them end (drain)", "Ask them to stop"):
        name = f"pause-{len(found)}"
        made = app.schedules.create(name, app.call("remind", {"class_id": 3}), cron("0 0 1 1 *"))
        run = app.schedules.trigger(made.id)
        page.goto(f"{work.site.url}/schedules/{made.id}")
        page.get_by_role("button", name=f"Pause {name}").click()
        dialog = page.get_by_role("dialog")

        assert "1 run is active" in dialog.inner_text()

        dialog.get_by_label(choice).check()
        dialog.get_by_label("Reason").fill("holidays")
        dialog.get_by_role("button", name="Pause", exact=True).click()
        told(page, f"{name} is paused")
        found[choice] = (app.schedules.get(made.id).status, work.state(run))

    assert [("paused", "queued"), ("paused", "cancelled")] == list(found.values())


def test_a_backfill_is_made_as_it_was_planned_or_not_at_all(work, open_page):
    """A plan that has changed is refused; order, pace and lane are as ordered."""
    app = work.app
    made = work.schedule("holes")
    app.schedules.pause(made.id, reason="test")
    work.clock.advance("45m")
    app.schedules.resume(made.id, missed="skip")
    stale, page = (
        open_page(work.site, "/backfills/plan?schedule=holes&since=-40m") for _ in range(2)
    )
    for one in (stale, page):
        one.get_by_label("Order").select_option("newest-first")
        one.get_by_label("At a time").fill("2")
        one.get_by_label("Runs a minute").fill("2")
        one.get_by_label("Reason").fill("close the gap")
    page.get_by_role("button", name="Make 4 runs").click()
    told(page, "4 runs of holes are being made, 2 a minute")
    work.clock.advance("20s")
    (run,) = app.runs.list(schedule="holes", origin="backfill")
    page.reload()

    assert "1 of 4 occurrences" in text_of(page, "#progress")
    assert "2 a minute, 2 at a time" in text_of(page, "#progress")
    assert "backfill" == run.lane
    assert app.status().now - run.scheduled_for < timedelta(minutes=15)  # the newest of them

    stale.get_by_role("button", name="Make 4 runs").click()
    stale.locator(".problems").get_by_text("plan").first.wait_for()

    assert 1 == len([one for one in app.backfills.list() if one.schedule == "holes"])


def test_the_editor_keeps_the_policies_that_are_chosen_and_previews_as_the_api_does(
    work, open_page
):
    """What the cards say is what is stored; one engine for all."""
    page = open_page(work.site, "/schedules/new")
    page.get_by_label("Name", exact=True).fill("chosen-terms")
    page.get_by_label("Task", exact=True).select_option("report")
    page.get_by_role("group", name="If we are late").get_by_role("radio").last.check()
    late = page.locator("[name=misfire]:checked").get_attribute("value")
    page.get_by_label("They run side by side").check()
    page.get_by_label("Only if not older than").fill("2h")
    shown = page.locator("#preview-body .coming time")
    shown.first.wait_for()
    answer = httpx.post(
        f"{work.site.url}/api/v1/schedules/preview",
        json={"when": "0 9 * * 1-5", "tz": "Europe/Paris", "count": 3},
        headers={"Authorization": f"Bearer {work.site.token}"},
        timeout=LIMIT_S,
    ).json()
    ours = [one.get_attribute("datetime").replace(".000", "") for one in shown.all()]
    review(page)
    page.get_by_role("button", name="Save schedule").click()
    page.get_by_text("Scheduled: every weekday at 09:00").first.wait_for()
    made = work.app.schedules.get("chosen-terms")

    assert "allow" == made.overlap
    assert (late, 7200 * SECOND_US) == (made.misfire.policy, made.misfire.not_older_us)
    assert ours == [one["utc"] for one in answer["occurrences"]]


def test_the_focus_goes_to_what_is_wrong_and_back_from_a_dialog(work, open_page):
    """A form that is refused leads to its summary, Esc to where one was."""
    made = work.schedule("focused")
    page = open_page(work.site, "/schedules/new", reduced_motion="reduce")
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    summary = page.get_by_text("to mend")
    summary.wait_for()
    moving = """() => [...document.querySelectorAll("*")].map((one) => getComputedStyle(one))
      .filter((one) => one.transitionDuration !== "0s" || one.animationName !== "none").length"""

    assert "to mend" in page.evaluate("document.activeElement.textContent")
    assert 0 == page.evaluate(moving)

    page.goto(f"{work.site.url}/schedules/{made.id}")
    button = page.get_by_role("button", name="Pause focused")
    button.focus()
    page.keyboard.press("Enter")
    page.get_by_role("dialog", name="Pause focused").wait_for()
    page.keyboard.press("Escape")

    assert button.evaluate("one => one === document.activeElement")
    assert "active" == work.app.schedules.get(made.id).status
