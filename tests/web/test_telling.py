"""What pages tell is so: each number, place and mark in a real browser is that of something made."""

from __future__ import annotations

import json
import re

import pytest

from duly import cron, every
from duly.timetable.instants import SECOND_US
from tests.waiting import wait_until
from tests.web.browser_rig import settle
from tests.web.test_reading import text_of

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else


def cell(row, label):
    """Return what a row says under a heading, in one line."""
    return re.sub(r"\s+", " ", row.locator(f"td[data-label='{label}']").inner_text()).strip()


def numbers(texts, pattern):
    """Return the number that each text holds."""
    return [float(re.findall(pattern, one)[0]) for one in texts]


def test_each_light_tells_of_its_own_side_and_what_is_missing_leads_to_a_plan(work, open_page):
    """Doubt is no matter of dispatching; time in which nobody fires is."""
    run = work.run("settle")
    made = work.schedule("unfired", rule="10m")
    page = open_page(work.site, "/health")
    before = page.locator("#health .light .chip").all_inner_texts()
    # Time passes, and nobody is there.
    work.clock._clock.advance(25 * 60 * SECOND_US)  # noqa: SLF001 - the clock without its engine
    page.goto(f"{work.site.url}/missing?schedule=unfired")
    after = page.locator("#health .light .chip").all_inner_texts()

    assert before[0] != before[1] == after[1] == after[0]
    assert "nobody has fired it" in text_of(page, "#list")

    page.get_by_role("link", name="Plan a backfill").last.click()
    # They are still promised: whoever fires again decides about them, and not a backfill.
    # Two or three of them, as the ten minutes fall.
    told = re.compile("^0 runs would be made of [23] occurrences$")
    page.get_by_role("heading", name=told).wait_for()

    assert "pending" in page.get_by_role("region", name="Occurrences of the plan").inner_text()

    back_at = work.clock.now
    work.clock.advance("1m")
    missed = [one for one in work.app.runs.list(schedule=made.name) if one.scheduled_for <= back_at]

    assert "ambiguous" == work.state(run)
    assert 1 == len(missed)  # the latest, by its policy; another may fall into the minute


def test_every_tile_leads_to_as_many_as_it_counts(work, open_page):
    """The list behind a number has so many rows, on this page or the next ones."""
    for task in ("fail", "fetch", "settle", "remind"):
        work.run(task, **({"class_id": 1} if task == "remind" else {}))
    work.clock.advance("20m")  # what waits begins late
    page = open_page(work.site)
    # What was counted for an earlier look is shown until the page is notified that it has changed.
    for label in ("Dead", "Begin late"):
        counted = page.locator("#tiles a", has_text=label).locator("b")
        counted.filter(has_not_text=re.compile("^0$")).wait_for()
    tiles = {
        one.locator("span").inner_text(): (one.locator("b").inner_text(), one.get_attribute("href"))
        for one in page.locator("#tiles a").all()
    }
    wanted = ("Dead", "Retrying", "Queued", "Begin late", "In doubt", "Running", "Stuck")
    found = {}
    for label in wanted:
        number, path = tiles[label]
        page.goto(f"{work.site.url}{path}")
        rows = page.locator("#list tbody tr[id]").count()
        has_more = page.locator(".pager [rel=next]").count() or number.endswith("+")
        found[label] = (int(number.rstrip("+")), rows if not has_more else None)

    counted = {one: number for one, (number, _) in found.items() if one not in ("Running", "Stuck")}

    assert all(counted.values()), counted
    assert not {one: told for one, told in found.items() if told[1] not in (None, told[0])}


def test_the_timeline_and_both_sides_tell_what_was_fired_from_what_was_useful(own_work, open_page):
    """What fails is fired and not useful; past, now and future stand in that order."""
    work, app = own_work, own_work.app
    fails = app.schedules.create("0-fails", app.call("fail"), every("10m"))
    useful = app.schedules.create("0-useful", app.call("report"), every("10m"))
    work.clock.advance("20m")
    app.schedules.skip_next(useful.id, reason="drill")
    work.clock.advance("11m")
    page = open_page(work.site)
    bad, good = (page.locator(f"#side-{one.id}") for one in (fails, useful))

    def shows_both() -> bool:
        page.reload()
        settle(page)
        return bool(bad.is_visible() and good.is_visible())

    # What a page showed in the last seconds may be shown once more; new rows wait for a reload.
    wait_until("the page shows both schedules", shows_both)

    assert "ago" in cell(bad, "Last triggered")
    assert "ago" in cell(bad, "Last attempt finished")
    assert "–" == cell(bad, "Last useful completion")  # noqa: RUF001 - typography
    assert "ago" in cell(good, "Last useful completion")
    assert re.match(r"[12]\.\d . 10 min", cell(good, "Its age ÷ cadence"))

    lane = page.locator(".lane", has_text="0-useful").last
    bars = numbers([one.get_attribute("x") for one in lane.locator("a rect").all()], r"([\d.]+)%")
    (skipped,) = lane.locator("svg svg", has=page.locator("title", has_text="skipped")).all()
    now = numbers([lane.locator(".now").get_attribute("x1")], r"([\d.]+)%")[0]
    coming = lane.locator("circle.coming").all()
    ahead = numbers([one.get_attribute("cx") for one in coming], r"([\d.]+)%")

    assert 2 == len(bars)
    assert max(bars) < numbers([skipped.get_attribute("x")], r"([\d.]+)%")[0] <= now
    assert now < min(ahead)

    newest = app.runs.list(schedule=useful.name, state="succeeded", limit=1)[0]
    lane.locator(f"a[href$='{newest.id}']").focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/runs/{newest.id}")


def test_lateness_and_the_age_of_a_queue_are_those_of_what_waited(work, open_page):
    """A run that waited twenty minutes says so wherever it is told of."""
    app = work.app
    app.queues.pause("slow", reason="the press is cleaned")
    made = app.schedules.create("0-waits", app.call("report"), cron("0 0 1 1 *"), queue="slow")
    run = app.schedules.trigger(made.id)
    work.clock.advance("20m")
    page = open_page(work.site)
    row = page.locator("#queues-title ~ table tbody tr", has_text="slow")

    assert "20 min ago" in cell(row, "Oldest waits since")
    assert "1" == cell(row, "Waiting")

    app.queues.resume("slow")
    work.clock.advance("10s")
    page.goto(f"{work.site.url}/runs/{run.id}")

    assert "20 min" in text_of(page, ".chain .longest")
    assert "the longest gap" in text_of(page, ".chain .longest")
    assert "20 min" in page.locator("rect.longest title").text_content()

    page.goto(f"{work.site.url}/overview/lateness?of={made.name}")
    page.get_by_text("By schedule, and as a table").click()

    assert "did so within 20 min" in text_of(page, "#lateness")

    app.schedules.delete(made.id, reason="over")  # others look at the first by name, too


def test_a_herd_is_found_and_the_editor_leads_out_of_it(work, open_page):
    """The fullest minute by name, a quieter one offered, and taken."""
    app = work.app
    for number in range(7):
        app.schedules.create(f"z-herd-{number}", app.call("report"), cron("0 4 * * *", tz="UTC"))
    page = open_page(work.site, "/overview/load", timezone_id="Asia/Kolkata")
    told = text_of(page)
    herd = re.search(r"(\d+) runs fall due at once on \w+ 09:30 .*another minute: :\d\d", told)

    assert herd, told
    assert 7 <= int(herd[1])

    page.goto(f"{work.site.url}/schedules/new")
    page.get_by_label("Every", exact=True).select_option("daily")
    page.get_by_label("in the time zone").fill("UTC")
    page.get_by_label("at", exact=True).fill("4:00")
    crowd = page.locator("#preview-body .crowd", has_text="fall due at 04:00")
    crowd.wait_for()
    offered = crowd.get_by_role("button").first
    at = offered.get_attribute("data-value")
    offered.click()
    page.locator("#preview-body").get_by_text(f"every day at {at}").wait_for()

    assert re.fullmatch(r"0[345]:\d\d", at)
    assert not at.endswith(":00")
    assert at == page.get_by_label("at", exact=True).input_value()


def test_a_policy_is_called_a_default_until_somebody_chooses_and_clock_changes_are_explained(
    work, open_page
):
    """What holds, who chose it, and why the next run is when it is."""
    app = work.app
    rule = cron("30 2 * * 0", tz="Europe/Berlin")
    made = app.schedules.create("sundays", app.call("report"), rule)
    page = open_page(work.site, f"/schedules/{made.id}")
    overlap = page.locator(".facts div", has=page.locator("dt", has_text="Overlap")).locator("dd")
    before = overlap.inner_text()
    why = text_of(page, "#schedule-now")

    assert "(default)" in before
    assert "02:30 does not exist that day; it runs at 03:00" in why
    assert page.locator("#schedule-now .tone-warn").count()

    app.schedules.edit(made.id, overlap="allow")
    page.reload()

    assert "(default)" not in overlap.inner_text()
    assert "allow" in overlap.inner_text()


def test_a_retry_has_a_higher_fence_and_a_run_is_copied_whole(work, open_page):
    """Each lease its own fence; what is copied is what the API says."""
    run = work.run("fetch")
    work.app.runs.retry(run.id, reason="now")
    work.clock.advance("5s")
    page = open_page(
        work.site, f"/runs/{run.id}", permissions=["clipboard-read", "clipboard-write"]
    )
    leases = page.locator("#attempts td[data-label=Lease]").all_inner_texts()
    retried, first = numbers(leases, r"fence (\d+)")
    page.get_by_role("button", name="Copy as JSON").click()
    page.locator("#status", has_text="Copied").wait_for(state="attached")
    copied = json.loads(page.evaluate("navigator.clipboard.readText()"))

    assert retried > first
    assert "retry 1" in text_of(page, "#attempts")
    assert (str(run.id), "retrying", 2) == (copied["id"], copied["state"], copied["attempt"])

    page.goto(f"{work.site.url}/runs/{work.run('settle').id}")
    effects = page.locator("#effects tbody tr")

    assert "done" in effects.filter(has_text="pay:anna").inner_text()
    assert "unknown" in effects.filter(has_text="pay:ben").inner_text()


def test_unknown_has_a_word_a_shape_and_a_colour_that_no_failure_has(work, open_page):
    """Told apart by any one of them alone."""
    runs = [work.run("settle"), work.run("fail")]
    page = open_page(work.site, "/runs")
    looks = [
        page.locator(f"#r-{one.id} .chip").evaluate(
            """one => [one.innerText, one.querySelector("use").getAttribute("href"),
              getComputedStyle(one).color]"""
        )
        for one in runs
    ]

    assert all(one != other for one, other in zip(*looks, strict=True))


def test_what_is_found_and_filtered_stands_in_the_address(work, open_page):
    """The slash finds by name; whoever is sent the address sees the same rows."""
    work.schedule("needle-in-hay")
    runs = [work.run("fail"), work.run("digest")]
    page = open_page(work.site)
    page.keyboard.press("/")
    page.keyboard.type("needle-in")
    page.keyboard.press("Enter")
    page.wait_for_url("**/schedules?search=needle-in")

    assert 1 == page.locator("#list tbody tr[id]").count()

    page.goto(f"{work.site.url}/runs")
    page.get_by_label("State").select_option("dead")
    page.wait_for_url("**/runs?*state=dead*")
    page.locator(f"#r-{runs[1].id}").wait_for(state="detached")
    ids = "all => all.map((one) => one.id)"
    shown = page.locator("#list tbody tr[id]").evaluate_all(ids)
    other = open_page(work.site, page.url.removeprefix(work.site.url))

    assert f"r-{runs[0].id}" in shown
    assert shown == other.locator("#list tbody tr[id]").evaluate_all(ids)
    assert "dead" == other.get_by_label("State").input_value()
