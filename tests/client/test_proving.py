"""Did the April 3 close complete for all accounts, exactly once?."""

from __future__ import annotations

from typing import Any

import pytest

import duly
from duly import Retry, Verdict, cron, every
from duly.testing import virtual_time

ACCOUNTS = [f"account-{number}" for number in range(40)]


def closing(**task: Any) -> tuple[duly.App, dict[str, Any]]:
    """Return an application with a nightly close, and what it does this time."""
    app = duly.App("memory:")
    told: dict[str, Any] = {"items": ACCOUNTS, "expects": True, "verdict": None, "fails": False}

    @app.schedule(cron("0 2 * * *", tz="Europe/Paris"), name="nightly-close")
    @app.task(retry=Retry(attempts=1), effects="unsafe", **task)
    def close(run: duly.Run) -> None:
        if told["expects"]:
            run.expect(ACCOUNTS)
        for account in told["items"]:
            run.once(account, lambda: None)
            run.done(account)
        if told["fails"]:
            with run.effect("payout"):
                raise ConnectionResetError("no answer")

    told["task"] = close
    return app, told


def proof_of(app: duly.App) -> duly.client.vitals.ProvenOccurrence:
    (one,) = app.prove("nightly-close", "2026-04-03").occurrences
    return one


def test_a_close_of_all_accounts_once_is_proven():
    """One question, one answer."""
    app, _ = closing()
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        proof = app.prove("nightly-close", "2026-04-03")

        assert proof.is_proven
        (one,) = proof.occurrences
        assert ("proven", "all 40 items are done, each once") == (one.standing, one.why)
        assert "nightly-close@2026-04-03T02:00+02:00" == one.occurrence.label
        assert ("Europe/Paris", True) == (proof.to_json()["zone"], proof.to_json()["is_proven"])


def test_what_is_missing_is_named():
    """Succeeding is no proof."""
    app, told = closing()
    told["items"] = ACCOUNTS[:31]
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        one = proof_of(app)

        assert ("refuted", "31 of 40 items are done") == (one.standing, one.why)
        assert sorted(ACCOUNTS[31:]) == list(one.scope.missing)
        assert ["succeeded"] == [run.state for run in one.runs]


def test_a_repair_completes_it_and_both_runs_are_told():
    """What was done is not done again."""
    app, told = closing()
    told["items"] = ACCOUNTS[:31]
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")
        (run,) = proof_of(app).runs
        told["items"] = ACCOUNTS[31:]

        app.inbox.rerun(run, repair=True, reason="the last nine")
        clock.advance("1m")

        one = proof_of(app)
        assert ["schedule", "repair"] == [run.origin for run in one.runs]
        assert "proven" == one.standing


def test_without_a_check_or_items_there_is_no_proof():
    """Succeeded and verified are different facts."""
    app, told = closing()
    told |= {"items": [], "expects": False}
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        assert "unverified" == proof_of(app).standing


@pytest.mark.parametrize(
    ("verdict", "standing"),
    [
        (Verdict.present(), "proven"),
        (Verdict.partial(), "refuted"),
        (Verdict.unknown(), "unverified"),
    ],
)
def test_a_check_is_a_proof(verdict: Verdict, standing: str):
    app, told = closing()
    told |= {"items": [], "expects": False}
    told["task"].verify(lambda run: verdict)
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        assert standing == proof_of(app).standing


def test_a_maybe_is_told_as_one():
    app, told = closing()
    told["fails"] = True
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")
        proof = app.prove("nightly-close", "2026-04-03")

        assert proof.is_ambiguous
        assert not proof.is_proven


def test_a_run_that_stands_for_others_is_told_of_each():
    """Those of its day, and of the day before."""
    app, _ = closing()
    app.schedule(every("1h"), name="hourly", misfire="latest")(app.task(name="sync")(lambda: None))
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("90m")
        app.schedules.pause("hourly", reason="it moves")
        clock.advance("12h")
        app.schedules.resume("hourly", missed="misfire")
        clock.advance("1m")

        before = app.prove("hourly", "2026-04-02").occurrences
        (first, second) = app.prove("hourly", "2026-04-03").occurrences[:2]

        assert first.runs == second.runs == before[-1].runs
        assert [second.occurrence.run] == [run.id for run in second.runs]
        assert second.occurrence.scheduled_for == second.runs[0].scheduled_for
        assert "skipped" == first.occurrence.verdict == before[-1].occurrence.verdict


def test_a_day_of_more_runs_than_are_listed_is_refused():
    """What was not looked at is not proven."""
    app, _ = closing()
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")
        few = duly.App(store=app.store, settings=duly.Settings(listed_max=1))

        with pytest.raises(duly.UsageError, match="'2026-04-03' has too many runs"):
            few.prove("nightly-close", "2026-04-03")


def test_a_day_without_an_occurrence_proves_nothing():
    app, _ = closing()
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        assert not app.prove("nightly-close", "2026-04-01").is_proven
        assert () == app.prove("nightly-close", "2026-04-01").occurrences
        with pytest.raises(duly.UsageError, match="day: 'yesterday' is not a day"):
            app.prove("nightly-close", "yesterday")


@pytest.mark.parametrize(
    ("overlap", "verdict"), [("coalesce", "coalesced"), ("replace", "replaced")]
)
def test_an_occurrence_that_a_later_run_stands_for_is_proven_by_that_run(
    overlap: str, verdict: str
):
    """Also through a chain of them; the ledger does not call it a run."""
    app = duly.App("memory:")

    @app.schedule(every("1h"), name="sync", overlap=overlap)
    @app.task(queue="slow")
    def sync(run: duly.Run) -> None:
        run.expect(1)
        run.done("item")

    with virtual_time(app, "2026-04-02T23:30") as clock:
        app.reconcile()
        app.queues.pause("slow", reason="maintenance")
        clock.advance("5h")
        app.queues.resume("slow")
        clock.advance("1m")

        found = app.prove("sync", "2026-04-03").occurrences[:5]

    stood_for = [one for one in found if one.occurrence.verdict == verdict]
    went = [one for one in found if one.occurrence.verdict == "run"]
    assert (5, True) == (len(stood_for) + len(went), len(stood_for) >= 3)
    assert {"overlap"} == {one.occurrence.reason for one in stood_for}
    assert {"proven"} == {one.standing for one in found}
    assert {went[-1].runs[-1].id} == {one.runs[-1].id for one in stood_for}


def test_an_occurrence_that_an_open_run_was_in_the_way_of_is_not_proven_by_that_run():
    app = duly.App("memory:")

    @app.schedule(every("1h"), name="sync", overlap="skip")
    @app.task(queue="slow")
    def sync(run: duly.Run) -> None:
        run.expect(1)
        run.done("item")

    with virtual_time(app, "2026-04-02T23:30") as clock:
        app.reconcile()
        app.queues.pause("slow", reason="maintenance")
        clock.advance("2h")
        app.queues.resume("slow")
        clock.advance("1m")

        first, second = app.prove("sync", "2026-04-03").occurrences[:2]

    assert ("run", "proven") == (first.occurrence.verdict, first.standing)
    assert ("skipped", "not-run", "it was skipped") == (
        second.occurrence.verdict,
        second.standing,
        second.why,
    )


def test_an_item_that_one_attempt_does_twice_is_no_proof():
    """INV-17: however much else it does in between; what is left to do leaves it out at once."""
    app, told = closing()
    told["items"] = [*ACCOUNTS, ACCOUNTS[7]]
    with virtual_time(app, "2026-04-02T12:00") as clock:
        app.reconcile()
        clock.advance("1d")

        one = proof_of(app)

        assert ("refuted", "1 item was done more than once") == (one.standing, one.why)
        assert (40, 40, 1) == one.scope[:3]
