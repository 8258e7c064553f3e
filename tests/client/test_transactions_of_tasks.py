"""A task's own writes and its run's success in one commit, on a worker, in virtual time."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import Retry
from duly.engine.manual_clock import START_US, ManualClock
from duly.store.sqlite import SqliteStore
from duly.testing import virtual_time
from tests.client.conftest import work

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

AGAIN = Retry(attempts=3, base="1s", cap="1s")


def new_app() -> duly.App:
    return duly.App("memory:")


def the_run(app: duly.App, task: str) -> duly.Run:
    (run,) = [run for run in app.runs.list() if run.task == task]
    return run


def test_the_commit_ends_the_run():
    """What was written is there, and the run has succeeded with the result that was given."""
    app = new_app()
    app.task(name="ship")(lambda: None)

    @app.task(effects="transactional")
    def close_day(run: duly.Run) -> str:
        with run.transaction() as tx:
            app.enqueue(app.call("ship"), connection=tx)
            tx.result({"orders": 1})
        assert the_run(app, "close_day").state == "succeeded"
        return "not kept"

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")
        run = the_run(app, "close_day")

        assert ("succeeded", {"orders": 1}, 1) == (run.state, run.result, run.attempt)
        assert "succeeded" == the_run(app, "ship").state


def test_what_is_raised_within_undoes_all_of_it():
    """The attempt ends as any other that raised, and the next one writes it once."""
    app = new_app()
    app.task(name="ship")(lambda: None)

    @app.task(effects="transactional", retry=AGAIN)
    def close_day(run: duly.Run) -> None:
        with run.transaction() as tx:
            app.enqueue(app.call("ship"), connection=tx)
            if run.attempt == 1:
                raise RuntimeError("in the middle")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")
        run = the_run(app, "close_day")

        assert ("succeeded", 2) == (run.state, run.attempt)
        assert "succeeded" == the_run(app, "ship").state


def test_what_the_code_does_after_the_commit_changes_nothing():
    """The run is over; it is not tried again."""
    app, begun = new_app(), []

    @app.task(effects="transactional", retry=AGAIN)
    def close_day(run: duly.Run) -> None:
        begun.append(run.attempt)
        with run.transaction():
            pass
        raise RuntimeError("while tidying up")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")
        run = the_run(app, "close_day")

        assert ("succeeded", None, [1]) == (run.state, run.error, begun)


def test_a_run_that_was_taken_away_commits_nothing():
    """INV-5: another attempt may have written it."""
    app, told = new_app(), []
    app.task(name="ship")(lambda: None)

    @app.task(effects="transactional", retry=AGAIN)
    def close_day(run: duly.Run) -> None:
        if run.attempt > 1:
            return
        try:
            with run.transaction() as tx:
                app.enqueue(app.call("ship"), connection=tx)
                store: Any = app.store
                claims = store.tables.claims
                claims[run.id.bytes] = replace(claims[run.id.bytes], worker=999)
        except duly.LeaseLost as error:
            told.append(str(error))
            raise

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1s")

        assert ["close_day"] == [run.task for run in app.runs.list()]
    assert 1 == len(told)
    assert "the run was taken from this worker" in told[0]


def test_a_task_that_never_opens_one_ends_as_any_other():
    app = new_app()

    @app.task(effects="transactional")
    def close_day(run: duly.Run) -> int:
        return 7

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")

        assert ("succeeded", 7) == (
            the_run(app, "close_day").state,
            the_run(app, "close_day").result,
        )


def opens_two(run: duly.Run) -> None:
    with run.transaction():
        pass
    with run.transaction():
        pass


def opens_one_in_another(run: duly.Run) -> None:
    with run.transaction(), run.transaction():
        pass


@pytest.mark.parametrize(
    ("effects", "code", "problem"),
    [
        ("transactional", opens_two, "has ended its run with another one"),
        ("transactional", opens_one_in_another, "has one open already"),
        ("idempotent", opens_two, "is a task that is idempotent"),
    ],
)
def test_what_can_not_be_is_refused(effects: str, code: Callable[[duly.Run], None], problem: str):
    """And says why."""
    app, told = new_app(), []

    @app.task(name="close_day", effects=effects, retry=Retry(attempts=1))
    def close_day(run: duly.Run) -> None:
        with pytest.raises(duly.UsageError) as refused:
            code(run)
        told.append(str(refused.value))

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")

    assert problem in told[0]


def test_who_was_asked_to_stop_begins_none():
    app, told = new_app(), []

    @app.task(effects="transactional")
    def close_day(run: duly.Run) -> None:
        live: Any = run.live
        live.stop()
        try:
            with run.transaction():
                told.append("begun")
        except duly.Cancelled:
            told.append("cancelled")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")

    assert ["cancelled"] == told


def test_async_tasks_await_the_same():
    app = new_app()
    app.task(name="ship")(lambda: None)

    @app.task(effects="transactional")
    async def close_day(run: duly.Run) -> None:
        async with run.aio.transaction() as tx:
            await app.aio.enqueue(app.call("ship"), connection=tx)
            tx.result(3)

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")

        assert ("succeeded", 3) == (
            the_run(app, "close_day").state,
            the_run(app, "close_day").result,
        )
        assert "succeeded" == the_run(app, "ship").state


def test_its_check_is_made_with_the_commit():
    app = new_app()

    @app.task(effects="transactional")
    def close_day(run: duly.Run) -> None:
        with run.transaction():
            run.expect(2)
            run.done("a", "b")

    @close_day.verify
    def closed(run: duly.Run) -> bool:
        return True

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(close_day)
        clock.advance("1m")
        run = the_run(app, "close_day")

        assert ["present"] == [one.finding for one in app.inbox.checks(run.id)]
        assert (2, 2) == app.inbox.scope(run.id)[:2]


def test_rows_of_a_task_and_its_success_are_one_commit(tmp_path: Path):
    """On SQLite, after an attempt that failed behind its row."""
    clock = ManualClock(START_US)
    store = SqliteStore(tmp_path / "duly.db", clock)
    app = duly.App(store=store, clock=clock)
    with app.transaction() as tx:
        tx.execute("create table closings (attempt integer)")

    @app.task(effects="transactional", retry=AGAIN)
    def close_day(run: duly.Run) -> None:
        with run.transaction() as tx:
            tx.execute("insert into closings values (?)", (run.attempt,))
            if run.attempt == 1:
                raise RuntimeError("after the row")

    app.enqueue(close_day)
    work(app, clock)
    clock.advance(60_000_000)
    work(app, clock)
    with app.transaction() as tx:
        rows = tx.execute("select attempt from closings")

    assert [(2,)] == rows
    assert ("succeeded", 2) == (the_run(app, "close_day").state, the_run(app, "close_day").attempt)
    store.close()
