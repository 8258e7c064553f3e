"""Every page of the console, read in a real browser: on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest

from duly import cron
from duly.web.pages import PAGES
from tests.web.accessibility import heard
from tests.web.browser_rig import settle

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else
READ = {one.name: one for one in PAGES if one.method == "GET" and one.name != "zones"}
"""All but the list of zones, which is a part of the editor."""


def text_of(page, where="main"):
    """Return what can be read once the page is there to its end, in one line."""
    page.wait_for_load_state("domcontentloaded")
    return re.sub(r"\s+", " ", page.locator(where).inner_text())


def addresses(work):
    """Return an address for every page of the table, of something that there is."""
    app = work.app
    doubt, alert = work.run("settle"), work.alert("queue mail")
    named = {
        "schedule": app.schedules.get("often").id,
        "run": doubt.id,
        "selection": app.selections.freeze(ids=[doubt.id]).id,
        "backfill": backfill(app).id,
        "alert": alert.id,
        "rule": "queue-age",
    }
    return {name: one.path.format(**named) for name, one in READ.items()}


def backfill(app):
    """Return a backfill, made if there is none."""
    if not app.backfills.list():
        now = app.status().now
        span = {"since": now - timedelta(hours=1), "until": now}
        app.backfills.create("often", **span, mode="redo", classes=["succeeded"])
    return app.backfills.list()[0]


def test_every_page_of_the_table_is_shown_and_nothing_complains(work, open_page):
    """Each has a heading and a title, fits a phone, and the browser has nothing to say."""
    page = open_page(work.site, "/health", viewport={"width": 390, "height": 800})
    said = heard(page)
    for name, path in addresses(work).items():
        answer = page.goto(work.site.url + path)
        settle(page)

        assert answer.status == 200, name
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.locator("h1").inner_text(), name
        assert page.title(), name

    assert [] == said


def test_the_strip_has_two_lights_clocks_and_the_tab_shows_the_worst(work, open_page):
    """Work that is in doubt turns one light, the tab's icon and its title."""
    work.run("settle")
    page = open_page(work.site, "/fleet")
    strip = text_of(page, "#health")
    lights = page.locator("#health .light").all_inner_texts()

    assert 2 == len(lights)
    assert "Control plane" in lights[0]
    assert "Useful work" in lights[1]
    assert re.search(r"\d\d:\d\d:\d\d CET .*\d\d:\d\d:\d\d UTC", strip)
    assert "skew ≤" in strip
    assert "early fires 0" in strip
    assert page.title().startswith("(!)")
    assert "icon-unwell" in page.locator("#favicon").get_attribute("href")


def test_the_overview_answers_at_a_glance(own_work, open_page):
    """Three times side by side, tiles that lead on, a timeline, lateness, queues, load."""
    work = own_work
    page = open_page(work.site)
    settle(page)
    work.run("settle")
    first = work.schedule("at-a-glance")
    work.app.schedules.trigger(first.id)
    work.run("remind", class_id=3)
    row = page.locator("#sides tbody tr", has_text=first.name)
    lane = page.locator(".lane", has_text=first.name)
    # The timeline is drawn anew when the page is notified; a row that is new comes with the page.
    lane.locator("a[href*='/runs/']").first.wait_for()
    page.reload()
    settle(page)
    row.wait_for()
    head = text_of(page, "#sides thead")
    for name in ("Past and to come", "Lateness", "Planned load", "Queues, by how long"):
        page.get_by_role("heading", name=name).first.wait_for()

    assert "Last triggered Last attempt finished Last useful completion Its age" in head
    assert "10 min" in re.sub(r"\s+", " ", row.inner_text())
    assert lane.locator("a[href*='/runs/']").count()
    assert lane.locator(".coming").count()
    assert lane.locator(".now").count()
    page.get_by_text("By schedule, and as a table").click()

    assert all(word in text_of(page) for word in ("p50", "p95", "p99"))
    assert "Oldest waits since" in text_of(page)

    count = page.locator("#tiles a", has_text="In doubt").locator("b").inner_text()
    page.locator("#tiles a", has_text="In doubt").click()
    page.get_by_role("heading", name="Inbox").wait_for()

    assert f"In doubt ({count})" in text_of(page)


def test_a_row_of_schedules_and_its_page_hide_nothing(work, open_page):
    """Rule and zone, next three, last result, policies, ledger, why."""
    app = work.app
    rule = cron("*/30 * * * *", tz="Europe/Berlin")
    made = app.schedules.create("told", app.call("report"), rule)
    work.clock.advance("65m")
    app.schedules.skip_next(made.id, reason="fire drill")
    work.clock.advance("30m")
    app.schedules.edit(made.id, priority=2, reason="more urgent")
    span = {"since": app.status().now - timedelta(hours=2), "until": app.status().now}
    app.backfills.create("told", **span, mode="redo", classes=["succeeded"], per_minute=60)
    work.clock.advance("1m")
    page = open_page(work.site, "/schedules?search=told")
    row = text_of(page, f"#s-{made.id}")

    assert re.search(r"every 30 minutes.*Europe/Berlin|Europe/Berlin.*30", row)
    assert 3 == page.locator(f"#s-{made.id} td[data-label=Next] > div").count()
    assert "skipped by hand" in row
    assert "overlap skip" in row
    assert "catch-up" in row
    assert page.locator(f"#s-{made.id} svg.strip[aria-label]").count()

    page.locator(f"#s-{made.id}").get_by_role("link", name="told").click()
    page.get_by_role("heading", name="Every expected occurrence").wait_for()
    page.wait_for_load_state("domcontentloaded")
    ledger = text_of(page, "#ledger")

    assert 2 == ledger.count("verified")
    assert "skipped by hand" in ledger
    assert "(default)" in text_of(page)
    assert page.get_by_role("heading", name="Why it runs when it runs").is_visible()
    assert page.get_by_role("heading", name="When clocks change").is_visible()
    assert page.locator("svg.calendar").is_visible()
    assert page.locator("svg.calendar .ring").count()

    changes = page.get_by_role("table", name="Changes")

    assert "more urgent" in changes.inner_text()
    assert "fire drill" in changes.inner_text()
    assert changes.locator("del").count()


def test_a_run_tells_its_lineage_chain_attempts_effects_and_why(work, open_page):
    """Unknown is not failed; each fact has its time, each attempt its fence."""
    run, waiting = work.run("settle"), work.run("remind", class_id=5)
    page = open_page(work.site, f"/runs/{waiting.id}")

    assert "paused" in text_of(page, "#why")
    assert page.locator(".chain .longest, .stretches .longest").count()

    page = open_page(
        work.site, f"/runs/{run.id}", permissions=["clipboard-read", "clipboard-write"]
    )
    chain = text_of(page, ".chain").lower()
    told = text_of(page)

    for name in ("due", "created", "dispatched", "claimed", "heartbeat", "progress", "completed"):
        assert name in chain, name
    assert "verified" in chain
    assert "fence" in text_of(page, "#attempts")
    assert "pay:ben" in text_of(page, "#effects")
    assert "unknown" in text_of(page, "#effects")
    assert "in doubt" in text_of(page, "#run-state") or "ambiguous" in text_of(page, "#run-state")
    assert "failed" not in text_of(page, "#run-state")
    assert page.locator("#why .lead").inner_text()
    assert "ordered, without a schedule" in told

    page.get_by_role("button", name="Copy command").click()
    page.locator("#status", has_text="Copied").wait_for(state="attached")

    assert f"duly run show {run.id}" == page.evaluate("navigator.clipboard.readText()")


def test_a_run_that_found_nothing_new_says_so(work, open_page):
    """The task's own look, its result and its log; it has succeeded, and is useful."""
    run = work.run("digest")
    page = open_page(work.site, f"/runs/{run.id}")

    assert "succeeded" in text_of(page, "#run-state")
    assert '"new": 0' in page.get_by_role("region", name="Result", exact=True).inner_text()
    assert "nothing is sent" in text_of(page, "#log")


def test_what_was_not_made_is_found_with_its_cause(work, open_page):
    """Expected, no row, and why; one click from there the backfill is planned."""
    made = work.schedule("forgotten", rule="15m")
    work.app.schedules.pause(made.id, reason="test")
    work.clock.advance("1h")
    page = open_page(work.site, "/missing?schedule=forgotten")

    assert "its schedule rests" in text_of(page, "#list")


def test_the_fleet_and_the_trail_say_who_does_what(work, open_page):
    """Slots, oldest attempt, queues by age; and each order with who, why and from where."""
    work.run("remind", class_id=4)
    made = work.schedule("audited")
    work.app.schedules.pause(made.id, reason="on record")
    page = open_page(work.site, "/fleet")

    assert re.search(r"0 of \d+ busy", text_of(page, "#workers-list"))
    assert "Oldest attempt" in text_of(page, "#workers-list")
    assert re.search(r"mail .*paused", text_of(page, "#queues-list"))

    page.goto(f"{work.site.url}/audit?subject=audited")
    row = page.locator("#list tbody tr", has_text="on record")
    row.locator("summary").click()

    assert "ada" in row.inner_text()
    assert "by library" in row.inner_text()
    assert "active" == row.locator("del", has_text="active").inner_text()
    assert "paused" == row.locator("ins", has_text="paused").inner_text()


def test_the_editor_takes_all_terms_shows_the_limit_and_sends_one_now(work, open_page):
    """In plain words, before the click; and one run besides."""
    work.app.schedules.create("of-zoe", work.app.call("report"), cron("0 9 * * *"), owner="zoe")
    work.app.quotas.set("owner:*", schedules=3)
    page = open_page(work.site, "/schedules/new")
    page.get_by_label("Name", exact=True).fill("all-terms")
    page.get_by_label("Task", exact=True).select_option("report")
    page.get_by_text("From, until, holidays and days away").click()
    page.get_by_label("From", exact=True).fill("2027-05-05")
    page.get_by_label("Until", exact=True).fill("2027-12-31")
    page.get_by_label("Not on holidays of").fill("DE-BY")
    page.get_by_label("Away on").fill("2027-05-07")
    page.get_by_text("Spread, owner, queue").click()
    page.get_by_label("Owner", exact=True).fill("zoe")
    page.get_by_label("Owner", exact=True).blur()
    page.get_by_text("1 of 3 active schedules of zoe used").wait_for()
    page.locator("#preview-body .coming li", has_text="Tue 11 May").wait_for()
    coming = page.locator("#preview-body .coming li").all_inner_texts()
    more = page.get_by_role("button", name="Show 5")
    more.click()
    page.locator("#preview-body .coming li").nth(4).wait_for()

    # Thursday is a holiday there, and on Friday everybody is away.
    assert ["Wed 5 May", "Mon 10 May", "Tue 11 May"] == [one[:10].strip() for one in coming]
    assert "UTC" in coming[0]

    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("Preview now: what one run would be").click()
    page.get_by_text("Nothing is run or delivered by looking at this").wait_for()

    assert "If we are late" in text_of(page)
    assert "If the previous one still runs" in text_of(page)

    page.get_by_role("button", name="Save and run one now").click()
    page.get_by_text("Scheduled: every weekday at 09:00").first.wait_for()
    (run,) = work.app.runs.list(schedule="all-terms")

    assert "manual" == run.origin
    assert "2027-05-05" == work.app.schedules.get("all-terms").next_for.date().isoformat()
