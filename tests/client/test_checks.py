"""Checks of results and the scope of runs."""

from __future__ import annotations

import pytest

import duly
from duly import Conflict, Retry, Verdict
from duly.domain.verification import Scope
from duly.testing import virtual_time

START = "2026-04-03T02:00"


def of_task(app: duly.App, task: str) -> duly.Run:
    (run,) = app.runs.list(task=task)
    return run


def test_a_run_that_succeeded_is_checked_and_both_are_facts_of_their_own():
    """The check is a run of its own, that says which run it is about."""
    app, seen = duly.App("memory:"), []

    @app.task
    def close_books(day: str) -> None:
        pass

    @close_books.verify
    def books_are_closed(run: duly.Run) -> Verdict:
        seen.append((run.state, run.arguments))
        return Verdict.present({"rows": 40_000})

    with virtual_time(app, START) as clock:
        app.enqueue(close_books.bind(day="2026-04-03"))
        clock.advance("1m")
        run, check = of_task(app, "close_books"), of_task(app, "close_books:verify")

        assert [("succeeded", {"day": "2026-04-03"})] == seen
        assert ("verify", run.id) == (check.origin, check.root)
        (found,) = app.inbox.checks(run)
        assert ("present", "verified", {"rows": 40_000}) == (
            found.finding,
            found.verdict,
            found.evidence,
        )
        assert str(check.id) == found.by
        assert "succeeded" == run.state


@pytest.mark.parametrize(
    ("verdict", "state", "attempts"),
    [
        (Verdict.present(), "succeeded", 1),
        (Verdict.absent(), "succeeded", 2),
        (Verdict.partial({"missing": 3}), "ambiguous", 1),
        (Verdict.unknown(), "ambiguous", 1),
    ],
)
def test_a_check_settles_a_run_in_doubt_only_when_it_is_sure(
    verdict: Verdict, state: str, attempts: int
):
    """INV-11."""
    app = duly.App("memory:")

    @app.task(effects="unsafe", retry=Retry(attempts=1))
    def charge(run: duly.Run) -> None:
        with run.effect("charge"):
            if run.attempt == 1:
                raise ConnectionResetError("no answer")

    @charge.verify
    def is_charged(run: duly.Run) -> Verdict:
        return verdict

    with virtual_time(app, START) as clock:
        app.enqueue(charge)
        clock.advance("1h")
        run = of_task(app, "charge")

        assert (state, attempts) == (run.state, run.attempt)


def test_a_run_can_be_checked_on_demand():
    app, findings = duly.App("memory:"), [False, True]

    @app.task
    def publish() -> None:
        pass

    @publish.verify
    def is_published(run: duly.Run) -> bool:
        return findings.pop(0)

    with virtual_time(app, START) as clock:
        app.enqueue(publish)
        clock.advance("1m")
        run = of_task(app, "publish")
        assert ["refuted"] == [one.verdict for one in app.inbox.checks(run)]

        app.inbox.verify(run)
        clock.advance("1m")

        assert ["refuted", "verified"] == [one.verdict for one in app.inbox.checks(run)]


def test_a_task_without_a_check_says_so():
    app = duly.App("memory:")

    @app.task
    def publish() -> None:
        pass

    with virtual_time(app, START) as clock:
        app.enqueue(publish)
        clock.advance("1m")
        with pytest.raises(Conflict, match="has no check"):
            app.inbox.verify(of_task(app, "publish"))


def test_a_check_that_is_declared_later_looks_at_older_runs():
    """At one that was in doubt before there was a check, too; and it says which it is of."""
    app = duly.App("memory:")

    @app.task(effects="unsafe")
    def charge(run: duly.Run) -> None:
        run.begin_effects()
        raise ConnectionResetError("no answer")

    with virtual_time(app, START) as clock:
        app.enqueue(charge)
        clock.advance("1m")
        doubtful = of_task(app, "charge")
        assert not app.inbox.get(doubtful).has_check

        @charge.verify
        def is_charged(run: duly.Run) -> Verdict:
            return Verdict.present({"by": run.idempotency_key})

        assert "its task can check" in app.inbox.get(doubtful).advice.why
        asked = app.inbox.verify(doubtful)
        assert ("verify", doubtful.id) == (asked.origin, asked.root)
        clock.advance("1m")

        settled = of_task(app, "charge")
        assert ("succeeded", "verified") == (settled.state, settled.reason)
        (check,) = app.inbox.checks(doubtful)
        assert {"by": str(doubtful.id)} == check.evidence


def test_what_a_check_found_of_an_earlier_doubt_advises_nothing_about_this_one():
    """INV-11: it was absent then; since then it was tried again."""
    app = duly.App("memory:")

    @app.task(effects="unsafe")
    def charge(run: duly.Run) -> None:
        run.begin_effects()
        raise ConnectionResetError("no answer")

    @charge.verify
    def is_charged(run: duly.Run) -> Verdict:
        if run.attempt > 1:
            raise ConnectionResetError("no answer")
        return Verdict.absent()

    with virtual_time(app, START) as clock:
        app.enqueue(charge)
        clock.advance("1m")
        item = app.inbox.get(of_task(app, "charge"))

        assert (2, ["absent"]) == (item.run.attempt, [one.finding for one in item.checks])
        assert "reconcile" == str(item.advice.choice)
        assert "its task can check" in item.advice.why


def test_what_is_still_to_end_is_not_checked():
    """There is no result yet."""
    app = duly.App("memory:")

    @app.task
    def publish() -> None:
        pass

    @publish.verify
    def is_published(run: duly.Run) -> bool:
        return True

    with virtual_time(app, START), pytest.raises(Conflict, match="is still to end: queued; wait"):
        app.inbox.verify(app.enqueue(publish).id)


def test_what_a_run_was_to_do_and_what_is_missing():
    """Items are the line's, so that a retry goes on with them."""
    app = duly.App("memory:")

    @app.task(retry=Retry(attempts=2, base="1s"))
    def close(run: duly.Run) -> None:
        run.expect(["a", "b", "c", "d"])
        for account in ("a", "b") if run.attempt == 1 else ("b", "c"):
            run.done(account)
        if run.attempt == 1:
            raise RuntimeError("killed in the middle")

    with virtual_time(app, START) as clock:
        app.enqueue(close)
        clock.advance("1m")
        scope = app.inbox.scope(of_task(app, "close"))

        assert Scope(expected=4, done=3, repeated=1, missing=("d",)) == scope
        assert not scope.is_complete


def test_a_retry_does_what_remains():
    """What is said to be done, and stored or not yet, does not remain; the rest does, in order."""
    app, left = duly.App("memory:"), []

    @app.task(retry=Retry(attempts=3, base="1s"))
    async def close(run: duly.Run) -> None:
        accounts = ["d", "c", "b", "a", "d"]
        run.expect(accounts)
        for account in await run.aio.remaining(accounts):
            run.done(account)
            left.append(run.remaining(accounts))
            if account == "c" and run.attempt == 1:
                raise RuntimeError("in the middle")

    with virtual_time(app, START) as clock:
        app.enqueue(close)
        clock.advance("1m")

        assert [["c", "b", "a"], ["b", "a"], ["a"], []] == left
        assert app.inbox.scope(of_task(app, "close")).is_complete


def test_a_number_is_enough():
    app = duly.App("memory:")

    @app.task
    def close(run: duly.Run) -> None:
        run.expect(2)
        run.done("a", "b")

    with virtual_time(app, START) as clock:
        app.enqueue(close)
        clock.advance("1m")

        assert app.inbox.scope(of_task(app, "close")).is_complete


class TestTenants:
    """Checks are of whose runs they look at, whatever the program that runs them is called."""

    @pytest.fixture
    def app(self):
        app = duly.App("memory:")

        @app.task
        def close_books() -> None:
            pass

        @close_books.verify
        def books_are_closed(run: duly.Run) -> Verdict:
            return Verdict.present()

        return app

    def test_runs_of_every_tenant_are_checked(self, app):
        """By the same program, each in its own tenant, when asked for as well."""
        with virtual_time(app, START) as clock:
            acme = app.within(tenant="acme", actor="anna")
            for one in (app, acme):
                one.enqueue(one.call("close_books"))
            clock.advance("1m")
            again = acme.inbox.verify(of_task(acme, "close_books"))
            clock.advance("1m")

            for one, found in ((app, 1), (acme, 2)):
                checks = one.inbox.checks(of_task(one, "close_books"))
                assert ["verified"] * found == [check.verdict for check in checks]
            assert [of_task(acme, "close_books")] == list(acme.inbox.line(again.root))
            assert ("succeeded", 1) == (
                acme.runs.get(again.id).state,
                len(app.runs.list(origin="verify")),
            )
            (asked,) = acme.audit.page(subject_id=again.id).items
            assert "anna" == asked.actor

    def test_nobody_has_anothers_run_checked(self, app):
        """Neither by asking for it, nor by giving the check another's run to look at."""
        with virtual_time(app, START) as clock:
            theirs = app.enqueue(app.call("close_books"))
            clock.advance("1m")
            before = app.inbox.checks(theirs.id), app.runs.list()
            acme = app.within(tenant="acme", actor="mallory")

            with pytest.raises(duly.NotFound):
                acme.inbox.verify(theirs.id)
            given = acme.enqueue(acme.call("close_books:verify", {"of": str(theirs.id)}))
            clock.advance("1h")

            assert before == (app.inbox.checks(theirs.id), app.runs.list())
            assert "dead" == acme.runs.get(given.id).state

    def test_a_name_for_orders_changes_nobody_elses_checks(self, app):
        """Who acts under another name, or rehearses, has the same tasks."""
        with virtual_time(app, START) as clock:
            app.acting_as("ben", "cli", tenant="acme")
            app.rehearsing()
            run = app.enqueue(app.call("close_books"))
            clock.advance("1m")

            assert ["verified"] == [one.verdict for one in app.inbox.checks(run.id)]
            assert app.inbox.verify(run.id).task == "close_books:verify"
