"""Effects in a task's own words, on a worker, in virtual time."""

from __future__ import annotations

import pytest

import duly
from duly import Retry
from duly.domain.effects import EffectState
from duly.domain.ids import RunId
from duly.testing import virtual_time

ONCE_MORE = Retry(attempts=3, base="1s", cap="1s")


def new_app() -> duly.App:
    return duly.App("memory:")


def ledger(app: duly.App, run: duly.Run) -> dict[str, EffectState]:
    return {one.key: one.state for one in app.store.list_effects(RunId(run.id.bytes), 100)}


def the_run(app: duly.App) -> duly.Run:
    (run,) = app.runs.list()
    return run


def test_what_is_done_once_is_not_done_by_a_retry():
    """Its result is kept, and given to the next attempt."""
    app, sent = new_app(), []

    def send(attempt: int) -> dict[str, int]:
        sent.append(attempt)
        return {"receipt": 77}

    @app.task(retry=ONCE_MORE)
    def remind(run: duly.Run) -> str:
        receipt = run.once("mail:7", send, run.attempt)
        if run.attempt == 1:
            raise RuntimeError("after the mail")
        return str(receipt["receipt"])

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(remind)
        clock.advance("1m")
        run = the_run(app)

        assert ("succeeded", "77", 2) == (run.state, run.result, run.attempt)
        assert [1] == sent
        assert {"mail:7": EffectState.DONE} == ledger(app, run)


def test_an_unsafe_task_that_fails_beyond_its_boundary_is_ambiguous():
    """INV-11."""
    app = new_app()

    @app.task(retry=ONCE_MORE, effects="unsafe")
    def charge(run: duly.Run) -> None:
        with run.effect("charge:42"):
            raise ConnectionResetError("no answer")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(charge)
        clock.advance("1h")
        run = the_run(app)

        assert ("ambiguous", "error", 1) == (run.state, run.reason, run.attempt)
        assert {"charge:42": EffectState.UNKNOWN} == ledger(app, run)


def test_before_its_boundary_an_unsafe_task_is_tried_again():
    app = new_app()

    @app.task(retry=ONCE_MORE, effects="unsafe")
    def charge(run: duly.Run) -> None:
        if run.attempt == 1:
            raise RuntimeError("before anything")
        with run.effect("charge:42"):
            pass

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(charge)
        clock.advance("1m")

        assert ("succeeded", 2) == (the_run(app).state, the_run(app).attempt)


def test_code_that_is_certain_that_nothing_happened_is_tried_again():
    app = new_app()

    @app.task(retry=ONCE_MORE, effects="unsafe")
    def charge(run: duly.Run) -> None:
        with run.effect("charge:42"):
            if run.attempt == 1:
                raise duly.EffectNotDone("the connection was refused")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(charge)
        clock.advance("1m")
        run = the_run(app)

        assert ("succeeded", 2) == (run.state, run.attempt)
        assert {"charge:42": EffectState.DONE} == ledger(app, run)


def test_all_of_an_unsafe_task_that_takes_no_run_is_its_effect():
    """It can't ask, so permission is taken before it begins."""
    app = new_app()

    @app.task(retry=ONCE_MORE, effects="unsafe")
    def charge() -> None:
        raise RuntimeError("who knows")

    @app.task(retry=ONCE_MORE, effects="unsafe")
    async def charge_async() -> None:
        raise RuntimeError("who knows")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(charge)
        app.enqueue(charge_async)
        clock.advance("1m")

        assert ["ambiguous", "ambiguous"] == [run.state for run in app.runs.list()]


def test_an_effect_that_is_done_is_refused():
    """The code is told so."""
    app, told = new_app(), []

    @app.task(retry=ONCE_MORE)
    def remind(run: duly.Run) -> None:
        try:
            with run.effect("mail:7"):
                pass
            with run.effect("mail:7"):
                raise AssertionError("twice")
        except duly.EffectRefused as error:
            told.append((type(error), error.key))

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(remind)
        clock.advance("1m")

    assert [(duly.EffectDone, "mail:7")] == told


@pytest.mark.parametrize("effects", ["idempotent", "unsafe"])
def test_code_that_does_not_know_what_to_do_about_a_done_effect_is_not_tried_again(effects: str):
    """No attempt could get further, so none of the budget is spent on it."""
    app = new_app()

    @app.task(retry=Retry(attempts=9, base="1s"), effects=effects)
    def remind(run: duly.Run) -> object:
        with run.effect("mail:7"):
            pass
        return duly.retry("1s", reason="the rest is not there yet")

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(remind)
        clock.advance("1h")
        run = the_run(app)

        assert ("dead", "effect-done", 2) == (run.state, run.reason, run.attempt)
        assert {"mail:7": EffectState.DONE} == ledger(app, run)


def test_async_tasks_await_the_same():
    app, sent = new_app(), []

    async def send() -> str:
        sent.append(1)
        return "receipt"

    @app.task(retry=ONCE_MORE, effects="unsafe")
    async def remind(run: duly.Run) -> str:
        async with run.aio.effect("first"):
            pass
        first = await run.aio.once("mail", send)
        again = await run.aio.once("mail", send)
        return f"{first}{again}"

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(remind)
        clock.advance("1m")
        run = the_run(app)

        assert ("succeeded", "receiptreceipt", [1]) == (run.state, run.result, sent)
        assert {"first": EffectState.DONE, "mail": EffectState.DONE} == ledger(app, run)


def test_a_bad_key_is_refused_and_nothing_is_begun():
    app, told = new_app(), []

    @app.task(retry=Retry(attempts=1))
    def remind(run: duly.Run) -> None:
        try:
            with run.effect(" "):
                pass
        except duly.UsageError as error:
            told.append(str(error))

    with virtual_time(app, "2026-03-28T12:00") as clock:
        app.enqueue(remind)
        clock.advance("1m")
        assert {} == ledger(app, the_run(app))

    assert ["key: ' ' names no effect; say what is done, such as 'charge:1042'"] == told
