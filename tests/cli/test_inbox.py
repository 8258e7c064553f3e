"""`duly inbox` and a person's choice: `duly run resume|reconcile|skip|rerun|retry`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from duly.domain.ids import RunId
from duly.domain.verification import ItemReport
from duly.store.ports.execution import Report, SaveCheckpoint
from tests.cli.scripted_worker import TASK, PlayedWorker

if TYPE_CHECKING:
    from uuid import UUID

    from duly.store.sqlite import SqliteStore
    from tests.cli.duly_command import Workplace

WHY = ("--reason", "looked at the bank's page")


def state(store: SqliteStore, run: UUID) -> tuple[str, str | None]:
    record = store.get_run(RunId(run.bytes))
    assert record is not None
    return str(record.state), record.state_reason


def test_an_empty_inbox_says_so_and_exits_well(place: Workplace):
    answer = place.duly("inbox")

    assert (0, "Nothing waits: no run is in doubt.\n", "") == (
        answer.status,
        answer.out,
        answer.err,
    )
    assert [] == place.duly("inbox", "--json").json


def test_the_inbox_lists_what_is_in_doubt_with_what_is_safest(place: Workplace, store: SqliteStore):
    """And the exit code says that somebody is needed."""
    run = PlayedWorker(store).doubt(done=("mail:1",), open_="mail:2")
    answer = place.duly("inbox")
    (told,) = place.duly("inbox", "--json").json

    assert 6 == answer.status
    assert str(run) in answer.out
    assert "reconcile: 1 of 2 effects may or may not have happened" in answer.out
    assert f"duly inbox {run} shows what is known of it, and every choice." in answer.out
    assert (str(run), "reconcile") == (told["run"]["id"], told["advice"]["safest"])
    assert {"mail:1": "done", "mail:2": "unknown"} == {
        one["key"]: one["state"] for one in told["effects"]
    }


def test_one_is_shown_with_its_effects_and_what_each_choice_risks(
    place: Workplace, store: SqliteStore
):
    """A risky one is shown with the id that confirms it."""
    run = PlayedWorker(store).doubt(done=("mail:1",), open_="mail:2")
    answer = place.duly("inbox", str(run))
    lines = answer.out.splitlines()

    assert 6 == answer.status, answer.err
    assert "effects begun" in answer.out
    assert any("mail:1" in line and "done" in line and '{"id": 7}' in line for line in lines)
    assert any(line.startswith("safest: reconcile, because ") for line in lines)
    assert f"  duly run reconcile {run} --done --reason …   (or --failed)" in lines
    assert "retry: does what may have been done a second time" in lines
    assert f"  duly run retry {run} --reason … --confirm {run}" in lines
    said = "When it has happened, say so: retry, resume and rerun --repair take --done mail:2; else"
    assert f"{said} --not-done." in lines


def test_one_with_items_missing_is_shown_with_them_and_goes_on_safely(
    place: Workplace, store: SqliteStore
):
    """Closing it as done is refused, and said why; settling what is known goes on."""
    worker = PlayedWorker(store)
    run = worker.queue()
    claimed = worker.take()
    told = ItemReport(expected=3, names=("1", "2", "3"), done=("1",))
    store.report(worker.member, [Report(hold=claimed.hold, scope=told)])
    worker.begin(claimed, "mail:1", is_done=True)
    worker.begin(claimed, "mail:2")
    worker.leave_in_doubt(claimed)
    listed, shown = place.duly("inbox"), place.duly("inbox", str(run))
    order = ("run", "reconcile", str(run), "--done", *WHY)
    refused, contrary = (
        place.duly(*order),
        place.duly(*order[:3], "--failed", "--despite-missing", *WHY),
    )
    lines = shown.out.splitlines()
    safest = f"  duly run retry {run} --done mail:2 --reason …   (or --not-done, for one that has not happened)"

    assert "retry: 1 of 3 items done; 1 of 2 effects may or may not have happened" in listed.out
    assert "items: 1 of 3 done; missing: 2, 3" in lines
    assert any(line.startswith("safest: retry, because 1 of 3 items done; ") for line in lines)
    assert lines[lines.index(safest) - 1].startswith("safest: ")
    assert not [line for line in lines if "reconcile" in line and line.strip().endswith("--done")]
    assert (4, True) == (refused.status, "1 of 3 items done" in refused.err)
    assert "give --despite-missing, with the reason" in refused.err
    assert (2, True) == (contrary.status, "--despite-missing" in contrary.err)
    assert "ambiguous" == state(store, run)[0]
    agreed = place.duly("run", "retry", str(run), "--done", "mail:2", *WHY)
    assert (0, "queued") == (agreed.status, state(store, run)[0]), agreed.err


def test_what_is_done_despite_missing_items_says_so(place: Workplace, store: SqliteStore):
    worker = PlayedWorker(store)
    run = worker.queue()
    claimed = worker.take()
    store.report(worker.member, [Report(hold=claimed.hold, scope=ItemReport(expected=2))])
    worker.begin(claimed, "mail:2")
    worker.leave_in_doubt(claimed)
    done = place.duly("run", "reconcile", str(run), "--done", "--despite-missing", *WHY)
    why = place.duly("run", "why", str(run))

    assert (0, ("succeeded", "reconciled-incomplete")) == (done.status, state(store, run)), done.err
    assert "a person recorded it as done although items are missing" in why.out


def test_what_is_known_of_effects_is_recorded_with_a_failure(place: Workplace, store: SqliteStore):
    """What is not named stays unknown, and the answer says so; a repair asks for it."""
    run = PlayedWorker(store).doubt(done=("mail:1",), open_="mail:2")
    failed = place.duly("run", "reconcile", str(run), "--failed", *WHY)
    order = ("run", "rerun", str(run), "--repair", *WHY)
    asked = place.duly(*order)
    several = place.duly(*order, str(run)[:8], "--done", "mail:2")
    made = place.duly(*order, "--not-done", "mail:2")
    place.duly("run", "cancel", made.out.split("Id: ")[1].split()[0], *WHY)
    other = PlayedWorker(store).doubt("b", done=("mail:1",), open_="mail:2")
    named = ("--effect-done", "mail:2")
    told = place.duly("run", "reconcile", str(other), "--failed", *named, *WHY)

    assert "Unknown as before: mail:2. A repair asks whether it has happened." in failed.out
    assert (2, True) == (asked.status, "say whether mail:2 has happened" in asked.err)
    assert (2, True) == (several.status, "is about one run" in several.err)
    assert (0, True) == (made.status, "Queued as a repair" in made.out), made.err
    assert (0, False) == (told.status, "Unknown as before" in told.out), told.err
    effects = store.list_effects(RunId(other.bytes), 10)
    assert {"mail:1": "done", "mail:2": "done"} == {one.key: one.state for one in effects}


def test_what_is_not_in_doubt_is_not_in_the_inbox(place: Workplace, store: SqliteStore):
    answer = place.duly("inbox", str(PlayedWorker(store).dead()))

    assert (4, "") == (answer.status, answer.out)
    assert "dead" in answer.err


def test_an_ambiguous_run_is_listed_explained_and_told(place: Workplace, store: SqliteStore):
    """A state of its own, in every look at it."""
    run = PlayedWorker(store).doubt(open_="mail:2")
    listed = place.duly("run", "list", "--state", "ambiguous", "--json").json
    why = place.duly("run", "why", str(run))
    shown = place.duly("run", "show", str(run))
    told = place.duly("run", "show", str(run), "--json").json

    assert [str(run)] == [one["id"] for one in listed]
    assert "Nobody knows what it did" in why.out
    assert f"duly inbox {run} says what is safest" in why.out
    assert "effects begun" in shown.out
    assert f"nobody knows what it did; duly inbox {run}" in shown.out
    assert "effects begun" in [one["step"] for one in told["steps"]]
    assert ["unknown"] == [one["state"] for one in told["effects"]]
    assert (None, [str(run)]) == (told["scope"], [one["id"] for one in told["line"]])
    assert 6 == place.duly("run", "wait", str(run)).status


@pytest.mark.parametrize(
    ("option", "becomes"),
    [("--done", ("succeeded", "reconciled")), ("--failed", ("failed", "reconciled"))],
)
def test_what_was_found_outside_is_recorded(
    place: Workplace, store: SqliteStore, option: str, becomes: tuple[str, str]
):
    run = PlayedWorker(store).doubt(open_="mail:2")
    unsaid = place.duly("run", "reconcile", str(run), *WHY)
    done = place.duly("run", "reconcile", str(run), option, *WHY, "--evidence", "statement 42")
    again = place.duly("run", "reconcile", str(run), option, *WHY)

    assert (2, True) == (unsaid.status, "--failed must be said" in unsaid.err)
    assert (0, becomes) == (done.status, state(store, run)), done.err
    assert f"Recorded as {becomes[0]}: " in done.out
    assert "undo: none: what was decided stays on record" in done.out
    assert 4 == again.status
    assert 0 == place.duly("inbox").status


def test_a_decision_is_part_of_the_run_s_story(place: Workplace, store: SqliteStore):
    """When it was in doubt, who decided what about it, and why."""
    run = PlayedWorker(store).doubt(open_="mail:2")
    place.duly("run", "retry", str(run), *WHY, "--done", "mail:2")
    shown = place.duly("run", "show", str(run))
    told = place.duly("run", "show", str(run), "--json").json

    assert ["run.ambiguous", "run.settled"] == [one["action"] for one in told["decisions"]]
    (doubt,) = (line for line in shown.out.splitlines() if "in doubt" in line)
    (decided,) = (line for line in shown.out.splitlines() if WHY[1] in line)
    assert doubt.endswith("error")
    assert "retry (mail:2 done)" in decided


def test_who_settled_an_effect_is_shown_beside_what_the_ledger_knows(
    place: Workplace, store: SqliteStore
):
    """It counts as done from then on."""
    run = PlayedWorker(store).doubt(open_="mail:2")
    place.duly("run", "reconcile", str(run), "--done", *WHY)
    shown = place.duly("run", "show", str(run)).out
    (effect,) = place.duly("run", "show", str(run), "--json").json["effects"]

    assert "done; settled as done by ada at 20" in shown
    assert re.search(r"^attempt ended	.*^settled	", shown, re.DOTALL | re.MULTILINE)
    assert "finished" not in shown
    assert ("done", "done", "ada", WHY[1]) == (
        effect["state"],
        *(effect["settled"][one] for one in ("as", "by", "reason")),
    )


def test_a_dry_run_of_a_retry_tries_no_ambiguous_run(place: Workplace, store: SqliteStore):
    """It shows which it would be."""
    run = PlayedWorker(store).doubt("a")
    known = ("--reason", "mended", "--confirm", str(run))
    shown = place.duly("run", "retry", str(run), *known, "--dry-run", "--json")
    other = place.duly("run", "discard", str(run), "--reason", "r", "--dry-run")

    assert ([str(run)], []) == (
        [one["id"] for one in shown.json["runs"]],
        shown.json["left_alone"],
    )
    assert "is ambiguous, not dead.\nNothing was changed (--dry-run)." in other.out
    assert ["ambiguous"] == [one["state"] for one in place.duly("run", "list", "--json").json]
    assert 0 == place.duly("run", "retry", str(run), *known).status


def test_a_reason_is_needed(place: Workplace, store: SqliteStore):
    """It is kept with the decision."""
    run = PlayedWorker(store).doubt(open_="mail:2")

    for choice in (("skip",), ("reconcile", "--done"), ("resume",), ("rerun", "--repair")):
        answer = place.duly("run", choice[0], str(run), *choice[1:])
        assert (2, "") == (answer.status, answer.out), choice
    assert "ambiguous" == state(store, run)[0]


def test_a_skipped_one_stays_as_it_is_on_record(place: Workplace, store: SqliteStore):
    run = PlayedWorker(store).doubt()
    answer = place.duly("run", "skip", str(run), *WHY)

    assert (0, "skipped") == (answer.status, state(store, run)[0]), answer.err


def test_what_may_be_done_twice_is_confirmed_by_its_id(place: Workplace, store: SqliteStore):
    """Nobody types an id by habit."""
    run = PlayedWorker(store).doubt(open_="mail:2")
    refused = place.duly("run", "retry", str(run), *WHY)
    wrong = place.duly("run", "retry", str(run), *WHY, "--confirm", "yes")
    before = state(store, run)[0]
    agreed = place.duly("run", "retry", str(run), *WHY, "--confirm", str(run))

    assert (2, 2, "ambiguous") == (refused.status, wrong.status, before)
    assert "--confirm is missing: this does what may have been done a second time" in refused.err
    assert "None" not in refused.err
    assert (0, "queued") == (agreed.status, state(store, run)[0]), agreed.err
    assert f"undo: duly run cancel {run}" in agreed.out


def test_what_is_known_of_effects_is_said_with_the_choice(place: Workplace, store: SqliteStore):
    """What did happen is not done again."""
    run = PlayedWorker(store).doubt(done=("mail:1",), open_="mail:2")
    both = ("--done", "mail:2", "--not-done", "mail:2")
    twice = place.duly("run", "retry", str(run), *WHY, *both, "--confirm", str(run))
    order = ("--done", "mail:2")
    agreed = place.duly("run", "retry", str(run), *WHY, *order)
    effects = store.list_effects(RunId(run.bytes), 10)

    assert (2, True) == (twice.status, "is also named as not done" in twice.err)
    assert 0 == agreed.status, agreed.err
    assert {"mail:1": "done", "mail:2": "done"} == {one.key: one.state for one in effects}


def test_one_whose_effects_are_all_done_goes_on_from_its_checkpoint(
    place: Workplace, store: SqliteStore
):
    """That is what is safest, so nothing has to be confirmed."""
    worker = PlayedWorker(store)
    run = worker.queue()
    claimed = worker.take()
    save = SaveCheckpoint(worker=worker.member, hold=claimed.hold, partition="", state="41")
    assert store.save_checkpoint(save)
    worker.begin(claimed, "mail:1", is_done=True)
    worker.leave_in_doubt(claimed)
    (told,) = place.duly("inbox", "--json").json
    answer = place.duly("run", "resume", str(run), *WHY)

    assert "resume" == told["advice"]["safest"]
    assert (0, "queued") == (answer.status, state(store, run)[0]), answer.err
    assert {"": "41"} == store.get_checkpoints(RunId(run.bytes))


def test_a_repair_is_another_run_that_shares_the_effects(place: Workplace, store: SqliteStore):
    """And both say so."""
    run = PlayedWorker(store).doubt(done=("mail:1",), open_="mail:2")
    order = ("run", "rerun", str(run), "--repair", *WHY)
    refused = place.duly(*order)
    repaired = place.duly(*order, "--done", "mail:2", "--json")
    new = repaired.json["id"]
    shown = place.duly("run", "show", str(run))
    told = place.duly("run", "show", new, "--json").json

    assert (2, 0) == (refused.status, repaired.status), repaired.err
    assert ("repair", str(run)) == (repaired.json["origin"], repaired.json["root"])
    assert ("failed", "reconciled") == state(store, run)
    assert {"mail:1", "mail:2"} == {one["key"] for one in told["effects"]}
    assert [str(run), new] == [one["id"] for one in told["line"]]
    assert f"{run} (this one)" in shown.out
    assert new in shown.out


def test_a_result_is_checked_on_demand_if_its_task_has_a_check(
    place: Workplace, store: SqliteStore
):
    """By a command that does not have the task's code."""
    run = PlayedWorker(store).doubt()
    none = place.duly("run", "verify", str(run))
    store.register_tasks([f"{TASK}:verify"])
    asked = place.duly("run", "verify", str(run))
    told = place.duly("inbox", str(run), "--json").json
    (check,) = place.duly("run", "list", "--task", f"{TASK}:verify", "--json").json

    assert (4, True) == (none.status, "has no check; give it one" in none.err)
    assert 0 == asked.status, asked.err
    assert f"duly run show {run} says what it finds." in asked.out
    assert ("verify", "queued") == (check["origin"], check["state"])
    assert (True, "reconcile") == (told["has_check"], told["advice"]["safest"])
    assert f"duly run verify {run}" in place.duly("inbox", str(run)).out


def test_retries_and_reruns_of_a_task_are_stopped_and_allowed_again(
    place: Workplace, store: SqliteStore
):
    """Each order with its reason, on record, and with how to take it back."""
    store.register_tasks([TASK])
    suspended = place.duly("task", "suspend-retries", TASK, *WHY)
    blocked = place.duly("task", "block-reruns", TASK, *WHY)
    again = place.duly("task", "block-reruns", TASK, *WHY, "--json").json
    listed = place.duly("task", "list", "--json").json
    refused = place.duly("run", "rerun", str(PlayedWorker(store).dead()), *WHY)
    undo = suspended.out.split("undo: duly ")[1].split()
    allowed = place.duly(*undo)

    assert f"Task {TASK}: retries suspended, reruns allowed." in suspended.out
    assert f"Task {TASK}: retries suspended, reruns blocked." in blocked.out
    assert (False, None) == (again["changed"], again["undo"])
    assert {"task": TASK, "is_suspended": True, "is_blocked": True} in listed
    assert (4, True) == (refused.status, "has its reruns blocked" in refused.err)
    assert f"Task {TASK}: retries as its policy says, reruns blocked." in allowed.out
    orders = place.duly("audit", "--action", "task.ordered", "--json").json
    assert [WHY[1], WHY[1]] == [one["reason"] for one in orders][-2:]


def test_orders_about_a_task_that_nobody_has_told_of_are_refused(place: Workplace):
    """A name that was mistyped stops nothing."""
    unknown = place.duly("task", "suspend-retries", "send_remidner", *WHY)
    unsaid = place.duly("task", "block-reruns", "send_reminder")

    assert (3, True) == (unknown.status, "duly task list" in unknown.err)
    assert 2 == unsaid.status


def test_a_rerun_of_what_had_effects_is_confirmed(place: Workplace, store: SqliteStore):
    """Everything is done once more."""
    worker = PlayedWorker(store)
    run = worker.queue()
    claimed = worker.take()
    worker.begin(claimed, "mail:1", is_done=True)
    worker.succeed(claimed)
    refused = place.duly("run", "rerun", str(run), *WHY)
    agreed = place.duly("run", "rerun", str(run), *WHY, "--confirm", str(run))

    assert (2, True) == (refused.status, "all of its effects a second time" in refused.err)
    assert (0, True) == (agreed.status, f"Queued as a rerun of {run}" in agreed.out), agreed.err


def test_an_empty_inbox_says_what_lies_in_other_tenants(place: Workplace, store: SqliteStore):
    """To whoever has the store itself; and with the tenant named, it is looked into."""
    worker = PlayedWorker(store)
    run = worker.queue("theirs", tenant="acme")
    claimed = worker.take()
    worker.begin(claimed, "mail:1")
    worker.leave_in_doubt(claimed)
    worker.queue("waits", tenant="globex")
    empty = place.duly("inbox")
    status = place.duly("status")

    assert ["Nothing waits: no run is in doubt.", "1 open run in tenant acme: --tenant acme"] == (
        empty.out.splitlines()
    )
    assert "duly inbox --tenant acme" in status.out
    assert str(run) in place.duly("inbox", "--tenant", "acme").out
    assert str(run) in place.duly("inbox", DULY_TENANT="acme").out
    lines = place.duly("run", "list").out.splitlines()
    assert [
        "1 open run in tenant acme: --tenant acme",
        "1 open run in tenant globex: --tenant globex",
    ] == lines[1:]
    assert "duly inbox" not in place.duly("status", "--tenant", "globex").out
