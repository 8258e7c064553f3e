"""Every order of the console, given by a real browser: on SQLite and on PostgreSQL."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

import duly
from duly import cron
from duly.demo.app import CLOCK_CHANGE, PAYMENTS, Controls, rest
from duly.demo.history import VirtualExecutor
from duly.domain.enums import TaskKind
from duly.engine.dispatcher.context import Node
from duly.engine.worker import Worker

pytestmark = pytest.mark.timeout(600)  # waiting for its turn, on a machine that does much else


def order(page, label, verb=None, reason="because", **fields):
    """Press a button, say why in its dialog, and press the verb there."""
    page.get_by_role("button", name=label).first.click()
    dialog = page.get_by_role("dialog")
    for name, value in fields.items():
        dialog.get_by_label(name.replace("_", " ")).fill(value)
    dialog.get_by_label("Reason").fill(reason)
    dialog.get_by_role("button", name=verb or label, exact=True).click()


def told(page, text):
    """Wait until the next page says what was done, and until it is there to its end."""
    page.locator("#said").get_by_text(text).wait_for()
    page.wait_for_load_state("domcontentloaded")


def undo(page, label):
    """Take it back, on the page that says what was done."""
    page.locator("#said").get_by_role("button", name=label).click()


@pytest.mark.clicks("pause_schedule", "resume_schedule")
def test_a_schedule_is_paused_until_a_time_and_goes_on_with_what_it_missed(work, open_page):
    """What runs is named, a time to go on by itself, and a choice about the gap."""
    made = work.schedule("pausable")
    page = open_page(work.site, f"/schedules/{made.id}")
    page.get_by_role("button", name="Pause pausable").click()
    dialog = page.get_by_role("dialog")

    assert "active" not in dialog.inner_text()

    dialog.get_by_label("Reason").fill("the database moves")
    dialog.get_by_label("Resume by itself at").fill("2099-01-05T09:00")
    dialog.get_by_role("button", name="Pause", exact=True).click()
    told(page, "pausable is paused")
    paused = work.app.schedules.get(made.id)

    assert ("paused", "the database moves") == (paused.status, paused.reason)
    assert "2099-01-05T08:00:00+00:00" == paused.resume_at.isoformat()  # the viewer is in Paris

    page.locator("#schedule-orders").get_by_role("button", name="Resume").click()
    dialog.get_by_label("By its catch-up policy").check()
    dialog.get_by_role("button", name="Resume", exact=True).click()
    told(page, "pausable goes on")

    assert "active" == work.app.schedules.get(made.id).status


@pytest.mark.clicks("mark_owner_gone", "mark_owner_back")
def test_an_owner_is_gone_and_back(work, open_page):
    """From a schedule to its owner, what would be paused, and the way back."""
    made = work.app.schedules.edit(work.schedule("hers").id, owner="ada")
    page = open_page(work.site, f"/schedules/{made.id}")
    page.get_by_role("link", name="ada", exact=True).click()
    page.get_by_text("1 schedule would be paused").wait_for()
    page.get_by_label("Reason").first.fill("left")
    page.get_by_role("button", name="Say that they are gone").click()
    told(page, "ada is gone: 1 schedule is paused")

    assert "its owner is gone: 'ada' (left)" == work.app.schedules.get(made.id).reason

    undo(page, "They are back")
    told(page, "ada is back")

    assert page.get_by_role("link", name="hers", exact=True).is_visible()
    assert [] == work.app.owners.list()


@pytest.mark.clicks("trigger_schedule", "skip_schedule")
def test_a_schedule_is_run_now_and_its_next_occurrence_skipped(work, open_page):
    """The run is by hand and the timetable stays; the skipped one is on record."""
    made = work.schedule("runnable")
    page = open_page(work.site, f"/schedules/{made.id}")
    order(page, "Run now runnable", "Run now")
    told(page, "was made")
    (run,) = work.app.runs.list(schedule="runnable")

    assert page.url.endswith(f"/runs/{run.id}")
    assert "manual" == run.origin
    assert made.next_for == work.app.schedules.get(made.id).next_for

    page.goto(f"{work.site.url}/schedules/{made.id}")
    order(page, "Skip next runnable", "Skip it", "holiday")
    told(page, "The next occurrence of runnable is skipped, on record")

    assert made.next_for < work.app.schedules.get(made.id).next_for
    assert "holiday" == work.app.schedules.history(made.id, limit=1)[0].reason


@pytest.mark.clicks("delete_schedule", "restore_schedule")
def test_a_schedule_is_deleted_restored_by_undo_and_from_its_page(work, open_page):
    """It asks first, stops at once, and comes back."""
    made = work.schedule("deletable")
    page = open_page(work.site, f"/schedules/{made.id}")
    for restore in (
        lambda: undo(page, "Restore"),
        lambda: page.get_by_role("button", name="Restore deletable").click(),
    ):
        order(page, "Delete deletable", "Delete", "not needed")
        told(page, "deletable is deleted")

        assert "deleted" == work.app.schedules.get(made.id).status

        restore()
        told(page, "deletable is back")

        assert "active" == work.app.schedules.get(made.id).status


@pytest.mark.clicks(
    "send_new_schedule", "send_edited_schedule", "preview_schedule", "revert_schedule"
)
def test_a_schedule_is_duplicated_edited_and_a_change_taken_back(work, open_page):
    """A copy is a new one; each change can be taken back."""
    rule = cron("0 9 * * 1-5", tz="Europe/Berlin")
    made = work.app.schedules.create("original", work.app.call("report"), rule)
    page = open_page(work.site, f"/schedules/{made.id}")
    page.get_by_role("link", name="Duplicate").click()
    with page.expect_response("**/schedules/preview"):
        page.get_by_label("Name", exact=True).fill("copy")
    review(page, "Save schedule")
    page.get_by_text("Scheduled: every weekday at 09:00 (Europe/Berlin). First: ").wait_for()
    copy = work.app.schedules.get("copy")

    assert made.id != copy.id
    assert made.timetable.to_json() == copy.timetable.to_json()

    page.goto(f"{work.site.url}/schedules/{copy.id}/edit")
    page.get_by_label("at", exact=True).fill("noon")
    review(page, "Save changes")
    page.get_by_text("Saved: every weekday at 12:00").wait_for()
    page.goto(f"{work.site.url}/schedules/{copy.id}")
    order(page, "Take back", "Take it back")
    told(page, "copy is as it was before change")

    assert made.timetable.to_json() == work.app.schedules.get(copy.id).timetable.to_json()


def review(page, save):
    """Ask for the review, and save."""
    page.locator(".editor-aside").get_by_role("button", name="Review").click()
    page.get_by_text("Nothing is stored yet").wait_for()
    page.get_by_role("button", name=save).click()


@pytest.mark.clicks("freeze_chosen_schedules", "pause_chosen_schedules", "resume_chosen_schedules")
def test_many_schedules_are_paused_as_they_were_seen_and_that_is_undone(work, open_page):
    """What was made or changed after the look is left alone, and named."""
    made = [work.schedule(f"many-{number}") for number in range(3)]
    page = open_page(work.site, "/schedules?search=many-")
    page.get_by_label("Choose all on this page").check()
    page.get_by_role("button", name="Pause chosen").click()
    page.get_by_role("heading", name="Pause 3 schedules").wait_for()
    work.schedule("many-late")
    work.app.schedules.pause(made[0].id, reason="somebody was faster")
    page.get_by_label("Reason").fill("migration")
    page.get_by_role("button", name="Pause 3 schedules").click()
    told(page, "2 schedules paused; 1 had changed meanwhile and were left alone")
    found = {one.name: one.reason for one in work.app.schedules.list(name_prefix="many-")}

    assert ["somebody was faster", "migration", "migration"] == [found[one.name] for one in made]
    assert found["many-late"] is None

    undo(page, "Undo")
    told(page, "2 schedules resumed")

    assert ["many-0"] == [
        one.name for one in work.app.schedules.list(name_prefix="many-", status="paused")
    ]


@pytest.mark.clicks("cancel_run", "retry_run")
def test_a_run_that_waits_is_cancelled_and_one_that_backs_off_is_retried_now(work, open_page):
    """A retry is the same run; a cancelled one does not come back."""
    waiting, backing_off = work.run("remind", class_id=1), work.run("fetch")
    page = open_page(work.site, f"/runs/{waiting.id}")
    order(page, "Cancel", reason="not wanted")
    told(page, "is cancelled")
    page.goto(f"{work.site.url}/runs/{backing_off.id}")
    order(page, "Retry now")
    told(page, "is queued again, the same run")

    assert ("cancelled", "queued") == (work.state(waiting), work.state(backing_off))

    work.clock.advance("5s")

    assert 2 == work.app.runs.get(backing_off.id).attempt


@pytest.mark.clicks("edit_run", "retry_run", "discard_run")
def test_a_dead_run_is_edited_retried_and_discarded(work, open_page):
    """The arguments are put back by undo; a discarded one stays on record."""
    run = work.run("fail", how="once")
    page = open_page(work.site, f"/runs/{run.id}")
    order(page, "Edit arguments", **{"Arguments, as JSON": '{"how": "twice"}'})
    told(page, "has other arguments")

    assert {"how": "twice"} == work.app.runs.get(run.id).arguments

    with page.expect_navigation():  # the page before it says the same
        undo(page, "Put the old arguments back")

    assert {"how": "once"} == work.app.runs.get(run.id).arguments

    order(page, "Retry")
    told(page, "is queued again, the same run")
    work.clock.advance("5s")

    assert ("dead", 2) == (work.state(run), work.app.runs.get(run.id).attempt)

    page.goto(f"{work.site.url}/runs/{run.id}")
    order(page, "Discard", reason="known")
    told(page, "is discarded")

    assert "discarded" == work.state(run)


@pytest.mark.clicks("rerun_run", "repair_run", "verify_run")
def test_a_run_that_is_over_is_verified_rerun_and_repaired(work, open_page):
    """A rerun and a repair are runs of their own, and lead back to the first."""
    run = work.run("report")
    page = open_page(work.site, f"/runs/{run.id}")
    page.get_by_role("button", name="Verify now").click()
    told(page, "is queued")
    for label, verb, said in (
        ("Rerun", "rerun", "a rerun, another run than the first"),
        ("Repair rerun", "repair", "a repair rerun, another run than the first"),
    ):
        page.goto(f"{work.site.url}/runs/{run.id}")
        order(page, label, reason="the numbers were wrong")
        told(page, said)
        made = work.app.runs.get(page.url.rpartition("/")[2])

        assert (verb, run.id) == (made.origin, made.root)
        assert f"/runs/{run.id}" in page.locator(".lineage a").first.get_attribute("href")

    assert "succeeded" == work.state(run)


@pytest.mark.clicks("rerun_run", "skip_run")
def test_what_may_not_be_repeated_takes_the_runs_id_typed(work, open_page):
    """Without it the dialog says what to type, and nothing is made."""
    run, other = work.run("settle"), work.run("settle")
    page = open_page(work.site, f"/runs/{run.id}")
    order(page, "Skip", reason="the bank was asked")
    told(page, "is left as it is")
    order(page, "Rerun", reason="once more")
    page.get_by_role("dialog").get_by_text(f"type {run.id}").first.wait_for()
    page.get_by_role("dialog").get_by_label("The run's id").fill(str(other.id))
    page.get_by_role("dialog").get_by_role("button", name="Rerun", exact=True).click()
    page.get_by_role("dialog").locator(".problems").get_by_text("confirm").first.wait_for()

    assert [] == work.app.runs.list(root=run.id, origin="rerun")

    page.get_by_role("dialog").get_by_label("The run's id").fill(str(run.id))
    page.get_by_role("dialog").get_by_role("button", name="Rerun", exact=True).click()
    told(page, "a rerun, another run than the first")

    assert 1 == len(work.app.runs.list(root=run.id, origin="rerun"))


@pytest.mark.clicks("choose_runs", "order_chosen")
def test_many_runs_are_cancelled_as_they_were_seen(work, open_page):
    """All that fit the filters, frozen; above a hundred their number is typed."""
    wanted = [work.app.call("remind", {"class_id": number}) for number in range(200, 301)]
    runs = work.app.enqueue_many(wanted)
    page = open_page(work.site, "/runs?task=remind&state=queued")
    count = len(work.app.runs.list(task="remind", state="queued", limit=500))
    page.get_by_label("all that fit these filters").check()
    page.get_by_role("button", name="Cancel …").click()
    page.get_by_role("heading", name=f"Cancel {count} runs").wait_for()
    later = work.run("remind", class_id=99)
    page.get_by_label("Reason").fill("no school today")
    page.get_by_label("How many runs are these?").fill("7")
    page.get_by_role("button", name=f"Cancel {count} runs").click()
    page.locator("form .problems").get_by_text("confirm").first.wait_for()

    assert "queued" == work.state(runs[0])

    page.get_by_label("How many runs are these?").fill(str(count))
    page.get_by_role("button", name=f"Cancel {count} runs").click()
    told(page, f"{count} of {count} runs were cancelled")

    assert {"cancelled"} == {work.state(one) for one in runs[::20]}
    assert "queued" == work.state(later)


@pytest.mark.clicks("verify_doubt", "decide_doubt")
def test_a_run_in_doubt_is_checked_and_decided(work, open_page):
    """Its own check looks; the safest stands open; the unsafe takes the run's id."""
    run, risky = work.run("settle"), work.run("settle")
    page = open_page(work.site, f"/inbox/{run.id}")
    page.get_by_role("button", name="Check now").click()
    told(page, "was made: what it finds will stand here")
    work.clock.advance("5s")
    page.reload()
    page.locator("#checks").get_by_text("is closed").nth(1).wait_for()
    open_ = page.locator("details.choice[open]")

    assert 1 == open_.count()

    open_.get_by_label("is done", exact=True).check()
    open_.get_by_label("The effect pay:ben").select_option(label="has happened")
    open_.get_by_label("Reason").fill("statement 42")
    open_.get_by_role("button", name="Reconcile").click()
    told(page, "reconcile is on record; it is succeeded now")

    assert "succeeded" == work.state(run)

    page.goto(f"{work.site.url}/inbox/{risky.id}")
    retry = page.locator("details.choice", has_text="may do something twice").first
    retry.locator("summary").click()
    retry.get_by_label("The effect pay:ben").select_option(label="has not happened")
    retry.get_by_label("Reason").fill("the bank was asked")
    retry.get_by_label("Type the run's id to confirm").fill("no such id")
    retry.locator("form button").last.click()
    retry.get_by_text("is not the id of this run").first.wait_for()

    assert "the bank was asked" == retry.get_by_label("Reason").input_value()
    assert "ambiguous" == work.state(risky)


@pytest.mark.clicks("decide_doubt")
def test_each_choice_about_a_run_in_doubt_is_carried_out(work, open_page):
    """Retry, resume, repair and skip; what may do something twice takes the run's id."""
    page = open_page(work.site, "/inbox")
    states = {}
    for choice in ("retry", "resume", "repair", "skip"):
        run = work.run("settle")
        page.goto(f"{work.site.url}/inbox/{run.id}")
        card = page.locator("details.choice", has=page.locator(f"input[value={choice}]"))
        if card.get_attribute("open") is None:
            card.locator("summary").click()
        card.get_by_label("Reason").fill("the bank was asked")
        if choice != "skip":
            card.get_by_label("The effect pay:ben").select_option(label="has not happened")
        if card.get_by_label("Type the run's id to confirm").count():
            card.get_by_label("Type the run's id to confirm").fill(str(run.id))
        card.locator("form button").last.click()
        told(page, "is on record")
        states[choice] = work.state(run)

    assert ("queued", "queued", "skipped") == (states["retry"], states["resume"], states["skip"])
    assert "ambiguous" != states["repair"]


@pytest.mark.clicks("preview_doubts", "decide_doubts", "preview_dead", "decide_dead")
def test_several_of_the_inbox_are_decided_after_a_look_at_exactly_these(work, open_page):
    """Those ticked, shown, counted, and their number typed; no other is touched."""
    doubts = [work.run("settle") for _ in range(3)]
    dead = [work.run("fail") for _ in range(2)]
    page = open_page(work.site, "/inbox")
    tick(page, doubts[:2])
    page.get_by_role("button", name="Skip those chosen").first.click()
    page.get_by_label("Reason").fill("known")
    page.get_by_label("Type how many they are").fill("2")
    page.get_by_role("button", name="Skip 2 runs").click()
    page.locator("#said").wait_for()

    assert ["skipped", "skipped", "ambiguous"] == [work.state(one) for one in doubts]

    page.goto(f"{work.site.url}/inbox?kind=dead")
    tick(page, dead)
    page.get_by_role("button", name="Discard those chosen").click()
    page.get_by_label("Reason").fill("known")
    page.get_by_label("Type how many they are").fill("2")
    page.get_by_role("button", name="Discard 2 runs").click()
    page.locator("#said").wait_for()

    assert ["discarded"] * 2 == [work.state(one) for one in dead]


def tick(page, runs):
    """Tick the boxes of runs."""
    for run in runs:
        page.locator(f"#d-{run.id} input[type=checkbox]").check()


@pytest.mark.clicks(
    *("create_backfill", "throttle_backfill", "pause_backfill", "resume_backfill"),
    "cancel_backfill",
)
def test_a_backfill_is_planned_made_throttled_paused_and_cancelled(work, open_page):
    """The exact occurrences first; then it is steered while it goes on."""
    work.schedule("gappy")
    work.app.schedules.pause("gappy", reason="test")
    work.clock.advance("1h")
    work.app.schedules.resume("gappy", missed="skip")
    page = open_page(work.site, "/backfills")
    page.get_by_role("link", name="Plan a backfill").click()
    page.get_by_role("textbox", name="Schedule").fill("gappy")
    page.get_by_label("From").fill("-55m")
    page.get_by_role("button", name="Show the plan").click()
    make = page.get_by_role("button", name="Make")
    count = int(make.inner_text().split()[1])
    page.get_by_label("Runs a minute").fill("6")
    page.get_by_label("Reason").fill("close the gap")
    make.click()
    told(page, f"{count} runs of gappy are being made, 6 a minute")
    (backfill,) = [one for one in work.app.backfills.list() if one.schedule == "gappy"]

    assert "at least" in page.locator("#progress").inner_text()
    assert page.get_by_role("heading", name="The live lane meanwhile").is_visible()

    order(page, "Throttle gappy", "Throttle", **{"Runs a minute": "3", "At a time": "2"})
    told(page, "makes 3 a minute now, 2 at a time")
    page.locator("#orders").get_by_role("button", name="Pause").click()
    told(page, "is paused; what was made goes on")
    undo(page, "Resume")
    told(page, "goes on")
    order(page, "Cancel gappy", "Cancel it for good")
    told(page, "is cancelled")
    now = work.app.backfills.get(backfill.id)

    assert 5 <= count <= 6
    assert ("cancelled", 3, 2) == (now.status, now.per_minute, now.concurrency)


@pytest.mark.clicks(
    "drain_worker", "quarantine_worker", "release_worker", "pause_queue", "resume_queue"
)
def test_a_worker_is_drained_quarantined_and_released_and_a_queue_paused(work, open_page):
    """Each says what becomes of what it holds, and how to take it back."""
    work.app.queues.resume("mail")
    work.app.queues.pause("mail", reason="the mail server moves")
    work.run("remind", class_id=7)
    page = open_page(work.site, "/fleet")
    order(page, "Drain worker", "Drain", "new kernel")
    told(page, "claims nothing more, and ends when what it holds is done")

    assert ["draining"] == standings(work)

    undo(page, "Release")
    told(page, "claims again")
    page.get_by_role("button", name="Quarantine worker").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("it may finish").check()
    dialog.get_by_label("Reason").fill("odd results")
    dialog.get_by_role("button", name="Quarantine", exact=True).click()
    told(page, "is quarantined")
    page.locator("#workers-list").get_by_role("button", name="Release").click()
    told(page, "claims again")

    assert [None] == standings(work)

    page.get_by_role("button", name="Resume queue mail").click()
    told(page, "queue mail is handed out again")
    order(page, "Pause queue mail", "Pause", "not yet")
    told(page, "queue mail is paused")

    assert "not yet" == work.app.queues.get("mail").reason


def standings(work):
    """Return how the workers that are alive stand."""
    return [one.standing for one in work.app.workers.list() if one.is_alive]


@pytest.mark.clicks("reset_breaker")
def test_the_breaker_of_a_destination_is_reset(work, open_page):
    """What waits for it goes on."""
    work.app.enqueue_many(work.app.call("charge", {"number": one}) for one in range(10))
    work.clock.advance("1s")

    assert "open" == work.app.breakers.get("bank").state

    page = open_page(work.site, "/fleet")
    order(page, "Reset bank", "Reset", "the bank is back")
    told(page, "bank is called again")

    assert "closed" == work.app.breakers.get("bank").state


@pytest.mark.clicks("acknowledge_alert", "silence_alert", "unsilence_alerts", "silence_alerts")
def test_an_alert_is_acknowledged_and_silenced_and_some_before_they_are_raised(work, open_page):
    """On a phone, as whoever is woken by it would; a silence ends by undo."""
    alert = work.alert("queue sport")
    page = open_page(work.site, f"/alerts/{alert.id}", viewport={"width": 390, "height": 800})
    page.get_by_label("What you do about it").fill("restarting the workers")
    page.get_by_role("button", name="Acknowledge").click()
    told(page, "is acknowledged by you")
    page.get_by_label("For", exact=True).select_option("8h")
    page.get_by_label("Reason").fill("known")
    page.get_by_role("button", name="Silence").click()
    told(page, "nobody is told of queue-age of queue sport for now")
    found = work.app.alerts.get(alert.id)
    (silence,) = work.app.alerts.silences()

    assert ("anna", "restarting the workers") == (
        found.acknowledged_by, found.acknowledged_reason
    )  # fmt: skip
    assert ("queue sport", "known") == (silence.subject, silence.reason)

    undo(page, "Unsilence")
    told(page, "the silence is over")
    page.get_by_label("About").fill("schedule nightly-*")
    page.get_by_label("Kind").select_option("late-run")
    page.get_by_label("Reason").fill("the database moves")
    page.get_by_role("button", name="Silence").click()
    told(page, "nobody is told of late-run of schedule nightly-*")
    page.get_by_role("button", name="Unsilence schedule nightly-*").click()
    told(page, "the silence is over")

    assert [] == work.app.alerts.silences()


@pytest.mark.clicks("set_alert_rule", "reset_alert_rule", "try_alert_channel")
def test_a_rule_of_alerts_is_changed_and_taken_back_and_a_channel_tried(work, open_page):
    """What somebody else has set meanwhile is not overwritten; undo goes back."""
    page = open_page(work.site, "/alerts/rules")
    page.get_by_role("link", name="Change queue-age").click()
    work.app.alerts.set_rule("queue-age", threshold="7m", reason="somebody was faster")
    page.get_by_label("From this number on").fill("20m")
    page.get_by_role("textbox", name="Reason").fill("slow by nature")
    page.get_by_role("button", name="Set the rule").click()
    page.get_by_text("changed this rule while you were editing").wait_for()

    assert (1, 1) == (page.locator("#main").count(), page.locator("form[data-inline]").count())
    assert page.locator("#stale").evaluate("one => one === document.activeElement")
    assert "20m" == page.get_by_label("From this number on").input_value()
    assert 420 == rule(work).threshold

    page.goto(f"{work.site.url}/alerts/rules/queue-age")
    page.get_by_label("From this number on").fill("20m")
    page.get_by_label("Severity").select_option("page")
    page.get_by_label("log", exact=True).check()
    page.get_by_role("textbox", name="Reason").fill("slow by nature")
    page.get_by_role("button", name="Set the rule").click()
    told(page, "the rule queue-age holds from now on")

    assert (1200, "page", ("log",)) == (
        rule(work).threshold, rule(work).severity, rule(work).channels
    )  # fmt: skip

    with page.expect_navigation():  # the page before it says the same
        undo(page, "Undo")
    told(page, "the rule queue-age holds from now on")

    assert 420 == rule(work).threshold

    page.goto(f"{work.site.url}/alerts/rules/queue-age")
    order(page, "Take back queue-age", "Take back")
    told(page, "the rule queue-age is taken back")

    assert rule(work).is_default

    page.goto(f"{work.site.url}/alerts/channels")
    page.get_by_role("button", name="Send a test to log").click()
    page.get_by_text("It took a notice that is marked as a test").wait_for()


def rule(work):
    """Return the rule of queues that wait."""
    return next(one for one in work.app.alerts.rules() if one.name == "queue-age")


@pytest.mark.clicks("kill_worker")
def test_the_demo_kills_the_process_of_a_worker_in_the_middle_of_a_payment(work, open_page):
    """The card of the demo names who is killed; elsewhere there is no such card."""
    app = work.app
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as victim:
        node = Node(host="here", process=victim.pid)
        executor = VirtualExecutor(app._clock)  # noqa: SLF001 - the clock that stands in
        worker = paying_worker(app, node, executor)
        app.demo = Controls(app, lambda: [victim.pid])
        try:
            page = open_page(work.site)
            page.get_by_role("button", name="Kill worker").click()
            told(page, f"(process {victim.pid}) was killed in the middle of a payment")

            assert -signal.SIGKILL == victim.wait()
        finally:
            app.demo = None
            executor.close()
            worker.stop()
    page.goto(work.site.url)

    assert not page.get_by_role("button", name="Kill worker").count()


def paying_worker(app, node, executor):
    """Have a worker take a payment, and stop in the middle of it."""

    @app.task(name="pay", queue="payments", effects="unsafe")
    def pay(run: duly.Run) -> None:
        with run.effect("transfer"):
            rest(run, 3600)

    app.schedules.create(PAYMENTS, app.call("pay"), cron("0 0 1 1 *"))
    app.schedules.create(CLOCK_CHANGE, app.call("report"), cron("30 2 * * *", tz="Europe/Berlin"))
    app.schedules.trigger(PAYMENTS)
    executors = dict.fromkeys(TaskKind, executor)
    worker = Worker(app.store, app._clock, app.catalogue(), executors, node=node)  # noqa: SLF001
    while not app.runs.list(schedule=PAYMENTS, state="running"):
        worker.tick()
    return worker
